"""Requests through HTTP, HTTPS and SOCKS5 proxies: credentials, replies, and rules S06, S08, S09 and S11.

`tests/contract/test_through_proxies.py` tests that every scheme goes through a proxy.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
import trio
import trustme

import fixtures.ftp
import resolver
import resolver.policy.tunnels
from fixtures.http import ABOUT, moved, serve
from fixtures.http.digest import Guard
from fixtures.http.site import Page
from fixtures.proxy import HttpProxy, SocksProxy, World, serve_http_proxy, serve_socks_proxy
from resolver import Credentials, Event, HttpxTransport, Limits, Policy, Resolver, RetryPolicy, Warned
from tests.resolver.network.peers import closed_port, seen, silent_listener

LOGIN = "bob:se:cret"
USER = "bob:se%3Acret@"


def _policy(*ports: int) -> Policy:
    return Policy(allow_port=frozenset(ports))


async def test_proxy_credentials_are_sent_only_to_a_proxy_that_asks(nursery: trio.Nursery) -> None:
    """After its first 407 response, the proxy gets the credentials with every request.

    A proxy that does not request credentials gets none, because it could forward them to the origin server.
    """
    server = await serve(nursery)
    asking = await serve_http_proxy(nursery, HttpProxy(login=LOGIN))
    events: list[Event] = []
    async with Resolver(
        proxy=asking.url(USER), policy=_policy(server.port), on_event=events.append
    ) as session:
        for _ in range(3):
            response = await session.fetch(server.url("/about.txt"))
    assert [("proxy-authorization" in asked.fields) for asked in asking.requests] == [False, True, True, True]
    open_ = await serve_http_proxy(nursery)
    async with Resolver(proxy=open_.url(USER), policy=_policy(server.port)) as session:
        await session.fetch(server.url("/about.txt"))
    assert [set(asked.fields) & {"proxy-authorization"} for asked in open_.requests] == [set()]
    assert not any(request.values("proxy-authorization") for request in server.requests)
    assert "cret" not in "".join(map(repr, (events, response, response.as_json())))
    assert (asking.violations, open_.violations, server.violations) == ([], [], [])


async def test_proxied_redirect_drops_credentials_of_origin(nursery: trio.Nursery) -> None:
    """Credentials for an origin are sent only to that origin.

    A redirect to another origin drops them (S11).
    """
    other = await serve(nursery)
    server = await serve(nursery, {"/": Page(ABOUT), "/on": moved(other.url("/about.txt"))})
    proxy = await serve_http_proxy(nursery)
    async with Resolver(proxy=proxy.url(), policy=_policy(server.port, other.port)) as session:
        await session.fetch(server.url("/on", user="me:mine@"))
    assert [("authorization" in asked.fields) for asked in proxy.requests] == [True, False]
    assert not any("mine" in asked.target for asked in proxy.requests)


async def test_password_through_proxy_is_not_treated_as_loopback(nursery: trio.Nursery) -> None:
    """A password to loopback cannot be intercepted and is always allowed.

    Through a proxy, S06 (clear text) applies.
    """
    server = await serve(nursery, {"/": Page(ABOUT, login=("me", "mine"))})
    proxies = (await serve_http_proxy(nursery), await serve_socks_proxy(nursery))
    counts = []
    for proxy in ("none", *(proxy.url() for proxy in proxies)):
        before = len(server.requests)
        given = {("http", server.host, server.port): Credentials(b"me", b"mine")}
        async with Resolver(proxy=proxy, policy=_policy(server.port), credentials=given) as session:
            assert (await session.fetch(server.url("/"))).content == ABOUT
        counts.append(["authorization" in dict(item.headers) for item in server.requests[before:]])
    assert counts == [[True], [False, True], [False, True]]


@pytest.mark.parametrize("scheme", ["http", "socks5h"])
@pytest.mark.parametrize("extra", [b"", b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n"])
async def test_tunnel_data_behind_proxy_answer_is_kept(
    scheme: str, extra: bytes, nursery: trio.Nursery
) -> None:
    """The proxy's response and the server's greeting arrive in one packet.

    Length fields of the proxy's response are ignored (RFC 9110 9.3.6).
    """
    server = await fixtures.ftp.serve(nursery)
    proxy: HttpProxy | SocksProxy
    # On a data connection, bytes come only after a request. Only on the control connection can a greeting
    # directly follow the response.
    if scheme == "http":
        proxy = await serve_http_proxy(nursery, HttpProxy(extra=extra, glued={server.port}))
    else:
        proxy = await serve_socks_proxy(nursery, SocksProxy(glued={server.port}))
    async with Resolver(proxy=proxy.url(), policy=_policy(server.port)) as session:
        response = await session.fetch(f"ftp://h.test:{server.port}/pub/a.txt")
    assert response.content == fixtures.ftp.tree.TEXT


ANSWERS: list[tuple[bytes, type[resolver.ResolveError], int, str]] = [
    (b"HTTP/1.1 403 No\r\n\r\n", resolver.AccessDenied, 6, "port 70 "),
    (b"HTTP/1.1 405 No\r\n\r\n", resolver.AccessDenied, 6, "port 70 "),
    (b"HTTP/1.0 501 No\r\n\r\n", resolver.AccessDenied, 6, "port 70 "),
    (b"HTTP/1.0 500 Unable to connect\r\n\r\n", resolver.Unreachable, 4, "500 Unable to connect"),
    (b"HTTP/1.1 502 Bad\r\n\r\n", resolver.Unreachable, 4, "502 Bad"),
    (b"HTTP/1.1 503 Service\r\n\r\n", resolver.Unreachable, 4, "503 Service"),
    (b"HTTP/1.1 504 Late\r\n\r\n", resolver.TimedOut, 11, "504 Late"),
    (b"HTTP/1.1 429 Slowly\r\n\r\n", resolver.TryLater, 8, "429 Slowly"),
    (b"HTTP/1.1 404 Never\r\n\r\n", resolver.Declined, 8, "404 Never"),
    (b"HTTP/1.1 407 Who\r\n\r\n", resolver.LoginRequired, 6, "login"),
    (b"HTTP/1.1 401 Who\r\n\r\n", resolver.LoginRequired, 6, "login"),
    (b"HTTP/1.1 302 Found\r\nLocation: http://h/\r\n\r\n", resolver.ProtocolError, 7, "never redirected"),
    (b"HTTP/1.1 101 Switching\r\n\r\n", resolver.ProtocolError, 7, "HTTP proxy"),
    (b"HTTP/1.1 100 Go on\r\n\r\nHTTP/1.1 403 No\r\n\r\n", resolver.AccessDenied, 6, "403 No"),
    (b"220 ftp.example ready\r\n", resolver.ProtocolError, 7, "HTTP proxy"),
    (b"\x05\x00", resolver.ProtocolError, 7, "HTTP proxy"),
    (b"", resolver.Disconnected, 4, "response"),
    (b"HTTP/1.1 200 O", resolver.Disconnected, 4, "response"),
    (b"HTTP/1.1 200 " + b"x" * 20_000, resolver.LimitExceeded, 7, "longer than"),
    (b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 200, resolver.LimitExceeded, 7, "more than 100"),
]


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        # Squid 5.7: a host without an address; its rules forbid the URL
        (b"HTTP/1.1 502 Bad Gateway\r\nX-Squid-Error: ERR_DNS_FAIL 0\r\n\r\n", resolver.TryLater),
        (b"HTTP/1.1 403 Forbidden\r\nX-Squid-Error: ERR_ACCESS_DENIED 0\r\n\r\n", resolver.AccessDenied),
        # tinyproxy 1.11.1: the wrong password in `Proxy-Authorization`
        (
            b'HTTP/1.0 401 Unauthorized\r\nWWW-Authenticate: Basic realm="Tinyproxy"\r\n\r\n',
            resolver.LoginRequired,
        ),
    ],
)
async def test_error_of_forwarded_request_mentions_proxy(
    said: bytes, kind: type[resolver.ResolveError], nursery: trio.Nursery
) -> None:
    """The status does not show whether the server or the proxy answers."""
    proxy = await serve_http_proxy(nursery, HttpProxy(response=said))
    async with Resolver(proxy=proxy.url(), patience=RetryPolicy(tries=1)) as session:
        with pytest.raises(kind, match="or the proxy does"):
            await session.fetch("http://h.test/")


@pytest.mark.parametrize(("said", "kind", "status", "words"), ANSWERS)
async def test_http_proxy_answer_maps_to_error(
    said: bytes, kind: type[resolver.ResolveError], status: int, words: str, nursery: trio.Nursery
) -> None:
    proxy = await serve_http_proxy(nursery, HttpProxy(response=said))
    async with Resolver(proxy=proxy.url()) as session:
        with pytest.raises(kind, match=words) as caught:
            await session.fetch("gopher://h.test/0a")
    assert (caught.value.exit_code, caught.value.url) == (status, "gopher://h.test/0a")
    assert (caught.value.setting == "proxy") is (kind is resolver.LoginRequired)
    assert f"{proxy.host}:{proxy.port}" in caught.value.message or kind is resolver.LimitExceeded


SOCKS_ANSWERS: list[tuple[SocksProxy, type[resolver.ResolveError], int, str]] = [
    (SocksProxy(codes={"h.test": 1}), resolver.Unreachable, 4, "general failure"),
    (SocksProxy(codes={"h.test": 2}), resolver.AccessDenied, 6, "h.test port 70"),
    (SocksProxy(codes={"h.test": 3}), resolver.Unreachable, 4, "network"),
    (SocksProxy(codes={"h.test": 4}), resolver.Unreachable, 4, "name"),
    (SocksProxy(codes={"h.test": 5}), resolver.Unreachable, 4, "refused"),
    (SocksProxy(codes={"h.test": 6}), resolver.TimedOut, 11, "in time"),
    (SocksProxy(codes={"h.test": 7}), resolver.Declined, 8, "CONNECT"),
    (SocksProxy(codes={"h.test": 8}), resolver.Declined, 8, "address"),
    (SocksProxy(codes={"h.test": 0xF4}), resolver.Unreachable, 4, "reply F4"),
    (SocksProxy(codes={"h.test": 4}, bound=b"\x03\x02\xff\xfe\x00\x50"), resolver.Unreachable, 4, "name"),
    (SocksProxy(login=LOGIN), resolver.LoginRequired, 6, "login"),
    (SocksProxy(method=b"\x05\xff"), resolver.LoginRequired, 6, "login"),
    (SocksProxy(method=b"\x05\x02"), resolver.ProtocolError, 7, "method 02"),
    (SocksProxy(method=b"\x05\x01"), resolver.ProtocolError, 7, "method 01"),
    (SocksProxy(method=b"\x04\x00"), resolver.ProtocolError, 7, "SOCKS5 proxy"),
    (SocksProxy(method=b"H"), resolver.ProtocolError, 7, "SOCKS5 proxy"),
    (SocksProxy(method=b"\x05"), resolver.Disconnected, 4, "answer"),
    (SocksProxy(reply=b"\x04\x00\x00\x01" + bytes(6)), resolver.ProtocolError, 7, "SOCKS5 proxy"),
    (SocksProxy(reply=b"\x05\x00\x00\x02" + bytes(6)), resolver.ProtocolError, 7, "type 02"),
    (SocksProxy(reply=b"\x05\x00\x00\x01" + bytes(5)), resolver.Disconnected, 4, "answer"),
    (SocksProxy(reply=b"\x05\x00\x00\x03\xffab"), resolver.Disconnected, 4, "answer"),
]


@pytest.mark.parametrize(("proxy", "kind", "status", "words"), SOCKS_ANSWERS)
@pytest.mark.parametrize("dripping", [False, True])
async def test_socks_proxy_answer_maps_to_error(
    proxy: SocksProxy,
    kind: type[resolver.ResolveError],
    status: int,
    words: str,
    dripping: bool,
    nursery: trio.Nursery,
) -> None:
    proxy = await serve_socks_proxy(nursery, replace(proxy, dripping=dripping, commands=[], violations=[]))
    async with Resolver(proxy=proxy.url()) as session:
        with pytest.raises(kind, match=words) as caught:
            await session.fetch("gopher://h.test/0a")
    assert (caught.value.exit_code, proxy.violations) == (status, [])
    assert (caught.value.setting == "proxy") is (kind is resolver.LoginRequired)
    assert f"{proxy.host}:{proxy.port}" in caught.value.message


@pytest.mark.parametrize("start", [serve_http_proxy, serve_socks_proxy])
async def test_wrong_proxy_password_is_sent_once(start: object, nursery: trio.Nursery) -> None:
    proxy: HttpProxy | SocksProxy
    if start is serve_http_proxy:
        proxy = await serve_http_proxy(nursery, HttpProxy(login=LOGIN))
    else:
        proxy = await serve_socks_proxy(nursery, SocksProxy(login=LOGIN))
    for scheme in ("http", "gopher"):
        proxy.connections = 0
        async with Resolver(proxy=proxy.url("bob:wrong@"), patience=RetryPolicy(tries=5)) as session:
            with pytest.raises(resolver.AccessDenied, match="password") as caught:
                await session.fetch(f"{scheme}://h.test/")
        assert (caught.value.exit_code, caught.value.attempts) == (6, 1)
        assert "wrong" not in str(caught.value)
        assert proxy.connections <= 2


async def test_unreachable_proxy_is_named(nursery: trio.Nursery) -> None:
    with closed_port() as port:
        for scheme in ("http", "socks5", "socks5h"):
            async with Resolver(proxy=f"{scheme}://127.0.0.1:{port}") as session:
                for url in ("http://127.0.0.1/", "gopher://127.0.0.1/"):
                    with pytest.raises(
                        resolver.Unreachable, match=f"the proxy {scheme}://127.0.0.1:{port}: "
                    ):
                        await session.fetch(url)


async def test_refused_data_port_ends_ftp_through_proxy(nursery: trio.Nursery) -> None:
    """The control connection succeeds.

    The error names the port of the data connection, and the client does not hang.
    """
    server = await fixtures.ftp.serve(nursery)
    others = frozenset(range(1, 65_536)) - {server.port}
    proxy = await serve_http_proxy(nursery, HttpProxy(World(denied=others)))
    async with Resolver(proxy=proxy.url(), policy=_policy(server.port)) as session:
        with pytest.raises(resolver.AccessDenied, match=r"port \d+") as caught:
            await session.fetch(f"ftp://h.test:{server.port}/pub/a.txt")
    assert str(server.port) not in caught.value.message
    assert len(proxy.requests) == 2, "a refusal of the proxy is no reason for PASV"


@pytest.mark.parametrize("start", [serve_http_proxy, serve_socks_proxy])
@pytest.mark.parametrize("place", ["127.0.0.1", "localhost", "[::1]", "169.254.169.254", "10.0.0.1"])
async def test_redirect_through_proxy_to_internal_address_is_refused(
    start: Callable[..., object], place: str, nursery: trio.Nursery
) -> None:
    """The proxy is on loopback, and the host behind the proxy is untrusted.

    Redirects to internal addresses are refused.
    """
    server = await serve(nursery, {"/": moved(f"http://{place}/")})
    proxy: HttpProxy | SocksProxy
    proxy = await (serve_http_proxy if start is serve_http_proxy else serve_socks_proxy)(nursery)
    async with Resolver(proxy=proxy.url(), policy=_policy(server.port)) as session:
        with pytest.raises(resolver.Refused) as caught:
            await session.fetch(f"http://h.test:{server.port}/")
    assert (caught.value.rule, caught.value.exit_code) == ("S08", 15)
    assert len(server.requests) == 1


async def test_listing_entry_referrer_is_not_the_proxy_address(nursery: trio.Nursery) -> None:
    server = await fixtures.ftp.serve(nursery)
    proxy = await serve_http_proxy(nursery)
    async with Resolver(proxy=proxy.url(), policy=_policy(server.port)) as session:
        for host, source in (("h.test", None), ("127.0.0.1", "127.0.0.1")):
            async with session.entries(f"ftp://{host}:{server.port}/pub/") as result:
                assert {
                    entry.referrer and entry.referrer[1] for entry in [item async for item in result]
                } == {source}


async def test_redirect_to_exempt_host_goes_direct_and_is_checked(nursery: trio.Nursery) -> None:
    inside = await serve(nursery)
    server = await serve(nursery, {"/": moved(inside.url("/about.txt"))})
    proxy = await serve_http_proxy(nursery)
    environment = {"all_proxy": proxy.url(), "no_proxy": "127.0.0.0/8"}
    async with Resolver(environment=environment, policy=_policy(server.port, inside.port)) as session:
        with pytest.raises(resolver.Refused) as caught:
            await session.fetch(f"http://h.test:{server.port}/")
        assert (caught.value.rule, inside.connections) == ("S08", 0)
        response = await session.fetch(inside.url("/about.txt"))
    assert (response.proxy, len(proxy.requests)) == (None, 1)


async def test_socks5_targets_are_looked_up_and_checked_locally(nursery: trio.Nursery) -> None:
    """The client tries the addresses in turn and sends IP addresses.

    A name cannot reach internal hosts through the proxy.
    """
    server = await serve(nursery)
    names = {"127.0.0.1": "127.0.0.1", "::1": "127.0.0.1"}
    proxy = await serve_socks_proxy(nursery, SocksProxy(World(names=names), codes={"::1": 4}))
    url = proxy.url(scheme="socks5")
    async with Resolver(proxy=url, policy=_policy(server.port)) as session:
        await session.fetch(f"http://localhost:{server.port}/about.txt")
        with pytest.raises(resolver.Refused) as caught:
            await session.fetch(f"http://x.localhost:{server.port}/about.txt", origin="chosen")
    assert proxy.commands == [(4, "::1", server.port), (1, "127.0.0.1", server.port)]
    assert caught.value.rule == "S08"


async def test_http_proxy_connection_is_shared_and_tunnels_are_not(nursery: trio.Nursery) -> None:
    first, second = await serve(nursery), await serve(nursery)
    requests, tunnels = await serve_http_proxy(nursery), await serve_socks_proxy(nursery)
    for proxy in (requests, tunnels):
        async with Resolver(proxy=proxy.url(), policy=_policy(first.port, second.port)) as session:
            for _ in range(3):
                for server in (first, second):
                    await session.fetch(server.url("/about.txt"))
    assert (requests.connections, tunnels.connections) == (1, 2)


async def test_socks_proxy_without_extra_sends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    listener, port = silent_listener()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    resolver.policy.tunnels._has_socksio.cache_clear()
    with listener:
        for scheme in ("socks5", "socks5h"):
            environment = {"all_proxy": f"{scheme}://127.0.0.1:{port}"}
            async with Resolver(environment=environment) as session:
                with pytest.raises(resolver.UnsupportedScheme, match=r"all_proxy .*extra socks") as caught:
                    await session.fetch(f"http://127.0.0.1:{port}/")
            assert "socksio 1 or later (the extra socks): pip install socksio" in caught.value.message
            assert caught.value.exit_code == 13
        assert not seen(listener)
    resolver.policy.tunnels._has_socksio.cache_clear()


async def test_ignored_proxy_variable_is_found_each_time_and_warned_once(nursery: trio.Nursery) -> None:
    server = await serve(nursery, {"/": moved("/about"), "/about": Page(ABOUT)})
    events: list[Event] = []
    environment = {"HTTP_PROXY": "http://proxy.example:3128"}
    async with Resolver(
        policy=_policy(server.port), on_event=events.append, environment=environment
    ) as session:
        responses = [await session.fetch(server.url(path)) for path in ("/", "/about")]
    assert [response.content for response in responses] == [ABOUT, ABOUT]
    assert [[finding.rule for finding in response.findings] for response in responses] == [["S09"], ["S09"]]
    warned = [event for event in events if isinstance(event, Warned)]
    assert [(event.url, event.finding.rule) for event in warned] == [(server.url("/"), "S09")]


async def test_untrusted_refuses_proxy_that_is_not_trusted(nursery: trio.Nursery) -> None:
    proxy = await serve_http_proxy(nursery)
    for settings in ({"environment": {"all_proxy": proxy.url()}}, {"proxy": proxy.url()}):
        async with Resolver(policy=Policy.untrusted(), **settings) as session:
            with pytest.raises(resolver.Refused, match="Policy\\(trusted_proxy=URL\\)") as caught:
                await session.fetch("http://h.test/")
        assert (caught.value.rule, caught.value.exit_code) == ("S09", 9)
    assert proxy.connections == 0
    server = await serve(nursery)
    trusting = Policy(name="untrusted", trusted_proxy=proxy.url(), allow_port={server.port})
    async with Resolver(policy=trusting, proxy=proxy.url()) as session:
        response = await session.fetch(f"http://h.test:{server.port}/about.txt")
        assert response.content == ABOUT
        with pytest.raises(resolver.Refused):
            await session.fetch(f"http://127.0.0.1:{server.port}/about.txt")


@pytest.mark.parametrize("make", [Resolver, HttpxTransport])
async def test_proxy_environment_is_read_when_session_is_made(
    make: Callable[[], object], monkeypatch: pytest.MonkeyPatch, nursery: trio.Nursery
) -> None:
    """The environment is read only when the session is made."""
    server, proxy = await serve(nursery), await serve_http_proxy(nursery)
    monkeypatch.setenv("http_proxy", proxy.url())
    made = make()
    monkeypatch.delenv("http_proxy")
    if isinstance(made, Resolver):
        await made.fetch(server.url("/about.txt"))
    else:
        assert isinstance(made, HttpxTransport)
        async with httpx.AsyncClient(transport=made) as client:
            await client.get(server.url("/about.txt"))
    assert len(proxy.requests) == 1


async def test_httpx_transport_uses_proxy(nursery: trio.Nursery) -> None:
    """The client does not wait for a 407 response, because a streamed body cannot be sent twice."""
    server = await serve(nursery)
    for proxy in (
        await serve_http_proxy(nursery, HttpProxy(login=LOGIN)),
        await serve_socks_proxy(nursery, SocksProxy(login=LOGIN)),
    ):
        transport = HttpxTransport(proxy=proxy.url(USER), limits=Limits(connect=20))
        async with httpx.AsyncClient(transport=transport) as client:
            answers = [await client.get(server.url("/about.txt")) for _ in range(2)]
        assert [answer.content for answer in answers] == [ABOUT, ABOUT]
        assert proxy.violations == []
    with pytest.raises(resolver.NotConfigured, match=r"^--proxy "):
        HttpxTransport(proxy="ftp://h")


# HTTPS proxies and proxies that require Digest: certificates, client certificates and credentials.

LARGE = bytes(range(256)) * 4_096
SECURED_PROXIES_USER = "alice:wonder%20land@"


def context(authority: trustme.CA, name: str) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(made)
    return made


@pytest.fixture
def here(authority: trustme.CA) -> ssl.SSLContext:
    return context(authority, "127.0.0.1")


def _secured_proxies_policy(*ports: int) -> Policy:
    return Policy(allow_port=frozenset(ports), allow_password=True)


async def test_https_proxy_tunnel_carries_large_bodies(
    nursery: trio.Nursery, here: ssl.SSLContext, cafile: str, tmp_path: Path
) -> None:
    """Large bodies and requests of many TLS records use one pooled connection.

    Bodies go into memory and into a file.
    """
    server = await serve(nursery, {"/": Page(LARGE), "/about.txt": Page(ABOUT)}, ssl_context=here)
    proxy = await serve_http_proxy(nursery, tls=here)
    secure = f"https://127.0.0.1:{server.port}"
    async with Resolver(
        proxy=proxy.url(scheme="https"), policy=_secured_proxies_policy(server.port), cafile=cafile
    ) as session:
        for _ in range(2):
            assert (await session.fetch(f"{secure}/")).content == LARGE
        saved = await session.save(f"{secure}/", tmp_path / "large")
        assert (tmp_path / "large").read_bytes() == LARGE
        assert "length" in saved.verified
    assert (proxy.connections, len(proxy.requests), proxy.violations) == (1, 1, [])
    transport = HttpxTransport(
        proxy=proxy.url(scheme="https"), policy=_secured_proxies_policy(server.port), cafile=cafile
    )
    async with httpx.AsyncClient(transport=transport) as client:
        assert (await client.post(f"{secure}/about.txt", content=LARGE)).status_code in (200, 405)


async def test_https_proxy_saves_plain_http_body_complete(
    nursery: trio.Nursery, here: ssl.SSLContext, cafile: str, tmp_path: Path
) -> None:
    """Without TLS to the proxy, the client would splice the body into the file."""
    server = await serve(nursery, {"/": Page(LARGE)})
    proxy = await serve_http_proxy(nursery, tls=here)
    async with Resolver(
        proxy=proxy.url(scheme="https"), policy=_secured_proxies_policy(server.port), cafile=cafile
    ) as session:
        await session.save(server.url("/"), tmp_path / "large")
    assert (tmp_path / "large").read_bytes() == LARGE
    assert [asked.method for asked in proxy.requests] == ["GET"]


@pytest.mark.parametrize("name", ["proxy.example", "127.0.0.2"])
@pytest.mark.parametrize("url", ["http://h.test/", "https://h.test/", "gopher://h.test/"])
async def test_https_proxy_certificate_for_another_name_is_an_error(
    url: str, name: str, nursery: trio.Nursery, authority: trustme.CA, cafile: str
) -> None:
    """A proxy with such a certificate receives neither the target nor the credentials.

    The client does not retry.
    """
    proxy = await serve_http_proxy(nursery, tls=context(authority, name))
    async with Resolver(
        proxy=proxy.url("bob:secret@", "https"), cafile=cafile, patience=RetryPolicy(tries=5)
    ) as session:
        with pytest.raises(resolver.TlsError) as caught:
            await session.fetch(url)
    assert "certificate of 127.0.0.1 " in caught.value.message
    assert f"the proxy {proxy.url(scheme='https')}" in caught.value.message
    assert (caught.value.exit_code, caught.value.attempts) == (5, 1)
    assert (proxy.requests, proxy.violations) == ([], [])


async def test_https_proxy_of_unknown_authority_is_not_trusted(
    nursery: trio.Nursery, here: ssl.SSLContext
) -> None:
    proxy = await serve_http_proxy(nursery, tls=here)
    async with Resolver(proxy=proxy.url(scheme="https"), patience=RetryPolicy(tries=5)) as session:
        with pytest.raises(resolver.TlsError) as caught:
            await session.fetch("http://h.test/")
    assert (caught.value.attempts, caught.value.setting, proxy.requests) == (1, "cacert FILE", [])


async def test_https_proxy_does_not_vouch_for_origin_certificate(
    nursery: trio.Nursery, authority: trustme.CA, here: ssl.SSLContext, cafile: str
) -> None:
    """The proxy's certificate does not prove the identity of the origin. The proxy could respond itself."""
    server = await serve(nursery, ssl_context=here)
    proxy = await serve_http_proxy(nursery, tls=here)
    async with Resolver(
        proxy=proxy.url(scheme="https"), policy=_secured_proxies_policy(server.port), cafile=cafile
    ) as session:
        with pytest.raises(resolver.TlsError, match=r"certificate of h\.test ") as caught:
            await session.fetch(f"https://h.test:{server.port}/")
    assert "the proxy" not in caught.value.message
    assert server.requests == []


async def test_client_certificate_is_not_sent_to_https_proxy(
    nursery: trio.Nursery, authority: trustme.CA, cafile: str, tmp_path: Path
) -> None:
    ours = tmp_path / "ours.pem"
    authority.issue_cert("me@here.example").private_key_and_cert_chain_pem.write_to_path(str(ours))
    asking = context(authority, "127.0.0.1")
    asking.verify_mode = ssl.CERT_OPTIONAL
    authority.configure_trust(asking)
    shown: list[object] = []

    async def note(stream: trio.SSLStream[trio.SocketStream]) -> None:
        await stream.do_handshake()
        shown.append(stream.getpeercert())

    proxy = HttpProxy()
    serve_one = proxy.serve

    async def serve_and_note(client: trio.abc.Stream) -> None:
        assert isinstance(client, trio.SSLStream)
        await note(client)
        await serve_one(client)

    proxy.serve = serve_and_note  # type: ignore[method-assign]
    await serve_http_proxy(nursery, proxy, tls=asking)
    server = await serve(nursery, ssl_context=context(authority, "127.0.0.1"))
    async with Resolver(
        proxy=proxy.url(scheme="https"),
        policy=_secured_proxies_policy(server.port),
        cafile=cafile,
        certfile=str(ours),
    ) as session:
        await session.fetch(f"https://127.0.0.1:{server.port}/about.txt")
    assert shown == [{}] or shown == [None]


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_https_proxy_does_not_protect_password_for_http_origin(
    scheme: str, nursery: trio.Nursery, here: ssl.SSLContext, cafile: str
) -> None:
    """S06 (passwords in clear text): without TLS to the origin, the proxy forwards clear text."""
    pages = {"/": Page(ABOUT, login=("me", "mine"))}
    server = await serve(nursery, pages, ssl_context=here if scheme == "https" else None)
    proxy = await serve_http_proxy(nursery, tls=here)
    cautious = Policy(name="cautious", allow_port={server.port}, allow_address={"127.0.0.0/8"})
    name = "h.test" if scheme == "http" else "127.0.0.1"
    url = f"{scheme}://{name}:{server.port}/"
    given = {(scheme, name, server.port): Credentials(b"me", b"mine")}
    async with Resolver(
        proxy=proxy.url(scheme="https"), policy=cautious, cafile=cafile, credentials=given
    ) as session:
        if scheme == "https":
            assert (await session.fetch(url)).content == ABOUT
            return
        with pytest.raises(resolver.Refused) as caught:
            await session.fetch(url)
    assert caught.value.rule == "S06"
    assert not any("authorization" in asked.fields for asked in proxy.requests)


async def test_truncated_https_proxy_tunnel_is_truncated(
    nursery: trio.Nursery, here: ssl.SSLContext, cafile: str
) -> None:
    """The proxy closes its TLS in good order in the middle of the inner TLS; the body has no length."""

    async def half(stream: trio.SocketStream) -> None:
        secured = trio.SSLStream(stream, here, server_side=True)
        await secured.receive_some()
        await secured.send_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhalf of ")
        await stream.send_eof()
        await trio.sleep_forever()

    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    nursery.start_soon(trio.serve_listeners, half, listeners)
    proxy = await serve_http_proxy(nursery, tls=here)
    async with Resolver(
        proxy=proxy.url(scheme="https"),
        policy=_secured_proxies_policy(port),
        cafile=cafile,
        patience=RetryPolicy(tries=1),
    ) as session:
        with pytest.raises(resolver.Truncated, match="TLS") as caught:
            await session.fetch(f"https://127.0.0.1:{port}/")
    assert caught.value.received == 8


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_proxy_that_is_down_is_tried_once_and_named(scheme: str) -> None:
    with closed_port() as port:
        async with Resolver(proxy=f"{scheme}://127.0.0.1:{port}", patience=RetryPolicy(tries=5)) as session:
            for url in ("http://h.test/", "https://h.test/", "ftp://h.test/a"):
                with pytest.raises(
                    resolver.Unreachable, match=f"the proxy {scheme}://127.0.0.1:{port}"
                ) as caught:
                    await session.fetch(url)
                assert (caught.value.attempts, caught.value.exit_code) == (1, 4)


async def test_https_proxy_without_tls_is_a_tls_error(nursery: trio.Nursery, cafile: str) -> None:
    """`https://` for a port of plain HTTP: the reply is not TLS."""

    async def refuse(stream: trio.SocketStream) -> None:
        asked.append(await stream.receive_some())
        await stream.send_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    asked: list[bytes] = []
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    nursery.start_soon(trio.serve_listeners, refuse, listeners)
    proxy = f"https://127.0.0.1:{port}"
    async with Resolver(proxy=proxy, cafile=cafile, patience=RetryPolicy(tries=5)) as session:
        with pytest.raises(resolver.TlsError, match=f"in the connection to the proxy {proxy}") as caught:
            await session.fetch("http://h.test/")
    assert (caught.value.attempts, len(asked), b"h.test" in asked[0]) == (1, 1, False)


GUARDS = [
    Guard(),
    Guard(algorithm=None),  # the form of Squid
    Guard(algorithm="MD5-sess"),
    Guard(algorithm="SHA-256-sess"),
    Guard(algorithm=None, qop=None),
    Guard(extra=('Basic realm="lab"', 'Digest realm="lab", nonce="n", algorithm=SHA-512, qop="auth"')),
]


@pytest.fixture(params=range(len(GUARDS)))
def guard(request: pytest.FixtureRequest) -> Guard:
    made: Guard = replace(GUARDS[request.param], refused=[], _counts={}, _retired=set())
    return made


async def test_proxy_digest_authenticates_tunnels_and_requests(nursery: trio.Nursery, guard: Guard) -> None:
    """`uri` is the target that the client sends to the proxy.

    The nonce count covers all requests of a run.
    """
    server, files = await serve(nursery), await fixtures.ftp.serve(nursery)
    proxy = await serve_http_proxy(nursery, HttpProxy(guard=guard))
    events: list[Event] = []
    async with Resolver(
        proxy=proxy.url(SECURED_PROXIES_USER),
        policy=_secured_proxies_policy(server.port, files.port),
        on_event=events.append,
    ) as session:
        for _ in range(3):
            assert (await session.fetch(server.url("/about.txt?x=1"))).content == ABOUT
        text = await session.fetch(f"ftp://h.test:{files.port}/pub/a.txt")
        assert text.content == fixtures.ftp.tree.TEXT
    assert (guard.refused, proxy.violations) == ([], [])
    unasked = [asked for asked in proxy.requests if "proxy-authorization" not in asked.fields]
    assert len(unasked) == 1
    assert not any(request.values("proxy-authorization") for request in server.requests)
    for word in (
        "wonder",
        *(asked.fields.get("proxy-authorization", "Digest")[7:] for asked in proxy.requests),
    ):
        assert not word or word not in "".join(map(repr, events))


async def test_proxy_digest_reuses_one_connection(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    proxy = await serve_http_proxy(nursery, HttpProxy(guard=Guard()))
    async with Resolver(
        proxy=proxy.url(SECURED_PROXIES_USER), policy=_secured_proxies_policy(server.port)
    ) as session:
        for _ in range(5):
            await session.fetch(server.url("/about.txt"))
    assert (proxy.connections, len(proxy.requests)) == (1, 6)


@pytest.mark.parametrize("scheme", ["http", "ftp"])
async def test_proxy_digest_stale_nonce_is_renewed(scheme: str, nursery: trio.Nursery) -> None:
    """Squid's nonces are valid for 50 requests.

    The client renews an expired nonce, however often this happens in a run.
    """
    server, files = await serve(nursery), await fixtures.ftp.serve(nursery)
    guard = Guard(uses=1)
    proxy = await serve_http_proxy(nursery, HttpProxy(guard=guard))
    url = server.url("/about.txt") if scheme == "http" else f"ftp://h.test:{files.port}/pub/a.txt"
    async with Resolver(
        proxy=proxy.url(SECURED_PROXIES_USER), policy=_secured_proxies_policy(server.port, files.port)
    ) as session:
        for _ in range(6):
            assert (await session.fetch(url)).content
    assert guard.refused == []


@pytest.mark.parametrize("scheme", ["http", "gopher"])
@pytest.mark.parametrize(
    ("guard", "user", "asked"),
    [(Guard(), "alice:wrong@", 2), (Guard(uses=0), SECURED_PROXIES_USER, 5)],
    ids=["wrong", "stale for ever"],
)
async def test_proxy_digest_refusal_is_not_retried(
    guard: Guard, user: str, asked: int, scheme: str, nursery: trio.Nursery
) -> None:
    proxy = await serve_http_proxy(nursery, HttpProxy(World(), guard=guard))
    async with Resolver(proxy=proxy.url(user), patience=RetryPolicy(tries=5)) as session:
        with pytest.raises(resolver.AccessDenied, match="password") as caught:
            await session.fetch(f"{scheme}://h.test/")
    assert (caught.value.exit_code, caught.value.attempts, len(proxy.requests)) == (6, 1, asked)
    assert "wrong" not in caught.value.message


async def test_proxy_digest_unsupported_qop_is_declined(nursery: trio.Nursery) -> None:
    proxy = await serve_http_proxy(nursery, HttpProxy(guard=Guard(qop="auth-int")))
    async with Resolver(proxy=proxy.url(SECURED_PROXIES_USER)) as session:
        for url in ("http://h.test/", "gopher://h.test/"):
            with pytest.raises(resolver.Declined, match=r"proxy http://.*Digest.*auth-int"):
                await session.fetch(url)
    assert not any("proxy-authorization" in asked.fields for asked in proxy.requests)


async def test_proxy_and_origin_may_both_require_digest(nursery: trio.Nursery) -> None:
    """The proxy and the origin each get their own credentials, with their own form of the target."""
    there = Guard(user="bob", password="beyond")
    server = await serve(nursery, {"/": Page(ABOUT, guard=there)})
    guard = Guard()
    proxy = await serve_http_proxy(nursery, HttpProxy(guard=guard))
    given = {("http", "h.test", server.port): Credentials(b"bob", b"beyond")}
    async with Resolver(
        proxy=proxy.url(SECURED_PROXIES_USER), policy=_secured_proxies_policy(server.port), credentials=given
    ) as session:
        for _ in range(2):
            assert (await session.fetch(f"http://h.test:{server.port}/")).content == ABOUT
    assert (guard.refused, there.refused) == ([], [])
