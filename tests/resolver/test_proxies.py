"""Behind a proxy: what goes to it and what does not, what it answers, and what S08 and S09 still say.

That every scheme goes through is the contract's (`tests/contract/test_through_proxies.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import httpx
import pytest
import trio

import fixtures.ftp
import resolver
import resolver.policy.tunnels
from fixtures.http import ABOUT, moved, serve
from fixtures.http.site import Page
from fixtures.proxy import HttpProxy, SocksProxy, World, serve_http_proxy, serve_socks_proxy
from resolver import Credentials, Event, HttpxTransport, Limits, Policy, Resolver, RetryPolicy, Warned
from tests.resolver.gate.peers import closed_port, seen, silent_listener

LOGIN = "bob:se:cret"
USER = "bob:se%3Acret@"


def _policy(*ports: int) -> Policy:
    return Policy(allow_port=frozenset(ports))


async def test_who_we_are_is_said_to_a_proxy_that_asks_and_to_nobody_else(nursery: trio.Nursery) -> None:
    """One that asks hears it with every request from then on; one that does not hand it on to the origin."""
    server = await serve(nursery)
    asking = await serve_http_proxy(nursery, HttpProxy(login=LOGIN))
    told: list[Event] = []
    async with Resolver(proxy=asking.url(USER), policy=_policy(server.port), on_event=told.append) as session:
        for _ in range(3):
            response = await session.fetch(server.url("/about.txt"))
    assert [("proxy-authorization" in asked.fields) for asked in asking.asked] == [False, True, True, True]
    open_ = await serve_http_proxy(nursery)
    async with Resolver(proxy=open_.url(USER), policy=_policy(server.port)) as session:
        await session.fetch(server.url("/about.txt"))
    assert [set(asked.fields) & {"proxy-authorization"} for asked in open_.asked] == [set()]
    assert not any(request.values("proxy-authorization") for request in server.requests)
    assert "cret" not in "".join(map(repr, (told, response, response.as_json())))
    assert (asking.violations, open_.violations, server.violations) == ([], [], [])


async def test_a_request_to_a_proxy_has_no_secret_of_another_origin(nursery: trio.Nursery) -> None:
    """What was given for the origin goes in the request for it, and not on with a redirect (S11)."""
    other = await serve(nursery)
    server = await serve(nursery, {"/": Page(ABOUT), "/on": moved(other.url("/about.txt"))})
    proxy = await serve_http_proxy(nursery)
    async with Resolver(proxy=proxy.url(), policy=_policy(server.port, other.port)) as session:
        await session.fetch(server.url("/on", user="me:mine@"))
    assert [("authorization" in asked.fields) for asked in proxy.asked] == [True, False]
    assert not any("mine" in asked.target for asked in proxy.asked)


async def test_behind_a_proxy_no_host_is_this_machine(nursery: trio.Nursery) -> None:
    """A password goes to loopback unasked, for nobody reads along there; but not through a proxy (S06)."""
    server = await serve(nursery, {"/": Page(ABOUT, login=("me", "mine"))})
    proxies = (await serve_http_proxy(nursery), await serve_socks_proxy(nursery))
    counts = []
    for proxy in ("none", *(proxy.url() for proxy in proxies)):
        before = len(server.requests)
        given = {("http", server.host, server.port): Credentials(b"me", b"mine")}
        async with Resolver(proxy=proxy, policy=_policy(server.port), credentials=given) as session:
            assert (await session.fetch(server.url("/"))).content == ABOUT
        counts.append(["authorization" in dict(each.headers) for each in server.requests[before:]])
    assert counts == [[True], [False, True], [False, True]]


@pytest.mark.parametrize("scheme", ["http", "socks5h"])
@pytest.mark.parametrize("extra", [b"", b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n"])
async def test_what_stands_behind_the_answer_is_the_tunnels(
    scheme: str, extra: bytes, nursery: trio.Nursery
) -> None:
    """A greeting in one piece with the answer, whatever that says of a length (RFC 9110 9.3.6)."""
    server = await fixtures.ftp.serve(nursery)
    proxy: HttpProxy | SocksProxy
    # Data comes once it is asked for, which is behind the answer for its tunnel: only control is glued.
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
    (b"", resolver.Disconnected, 4, "answer"),
    (b"HTTP/1.1 200 O", resolver.Disconnected, 4, "answer"),
    (b"HTTP/1.1 200 " + b"x" * 20_000, resolver.LimitExceeded, 7, "longer than"),
    (b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 200, resolver.LimitExceeded, 7, "more than 100"),
]


@pytest.mark.parametrize(("said", "kind", "status", "words"), ANSWERS)
async def test_what_a_proxy_answers_to_connect(
    said: bytes, kind: type[resolver.ResolveError], status: int, words: str, nursery: trio.Nursery
) -> None:
    proxy = await serve_http_proxy(nursery, HttpProxy(said=said))
    async with Resolver(proxy=proxy.url()) as session:
        with pytest.raises(kind, match=words) as caught:
            await session.fetch("gopher://h.test/0a")
    assert (caught.value.exit_code, caught.value.url) == (status, "gopher://h.test/0a")
    assert f"{proxy.host}:{proxy.port}" in caught.value.message or kind is resolver.LimitExceeded


SOCKS_ANSWERS: list[tuple[SocksProxy, type[resolver.ResolveError], int, str]] = [
    (SocksProxy(codes={"h.test": 1}), resolver.Unreachable, 4, "it failed"),
    (SocksProxy(codes={"h.test": 2}), resolver.AccessDenied, 6, "h.test port 70"),
    (SocksProxy(codes={"h.test": 3}), resolver.Unreachable, 4, "network"),
    (SocksProxy(codes={"h.test": 4}), resolver.Unreachable, 4, "name"),
    (SocksProxy(codes={"h.test": 5}), resolver.Unreachable, 4, "refused"),
    (SocksProxy(codes={"h.test": 6}), resolver.TimedOut, 11, "in time"),
    (SocksProxy(codes={"h.test": 7}), resolver.Declined, 8, "nothing"),
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
async def test_what_a_proxy_answers_to_socks(
    proxy: SocksProxy,
    kind: type[resolver.ResolveError],
    status: int,
    words: str,
    dripping: bool,
    nursery: trio.Nursery,
) -> None:
    proxy = await serve_socks_proxy(nursery, replace(proxy, dripping=dripping, asked=[], violations=[]))
    async with Resolver(proxy=proxy.url()) as session:
        with pytest.raises(kind, match=words) as caught:
            await session.fetch("gopher://h.test/0a")
    assert (caught.value.exit_code, proxy.violations) == (status, [])
    assert f"{proxy.host}:{proxy.port}" in caught.value.message


@pytest.mark.parametrize("start", [serve_http_proxy, serve_socks_proxy])
async def test_a_wrong_password_is_said_once(start: object, nursery: trio.Nursery) -> None:
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


async def test_a_proxy_that_is_not_there_is_named(nursery: trio.Nursery) -> None:
    with closed_port() as port:
        for scheme in ("http", "socks5", "socks5h"):
            async with Resolver(proxy=f"{scheme}://127.0.0.1:{port}") as session:
                for url in ("http://127.0.0.1/", "gopher://127.0.0.1/"):
                    with pytest.raises(
                        resolver.Unreachable, match=f"the proxy {scheme}://127.0.0.1:{port}: "
                    ):
                        await session.fetch(url)


async def test_a_port_of_data_that_is_refused_ends_it(nursery: trio.Nursery) -> None:
    """The control connection goes through; the error names the other one's port, and nothing hangs."""
    server = await fixtures.ftp.serve(nursery)
    others = frozenset(range(1, 65_536)) - {server.port}
    proxy = await serve_http_proxy(nursery, HttpProxy(World(denied=others)))
    async with Resolver(proxy=proxy.url(), policy=_policy(server.port)) as session:
        with pytest.raises(resolver.AccessDenied, match=r"port \d+") as caught:
            await session.fetch(f"ftp://h.test:{server.port}/pub/a.txt")
    assert str(server.port) not in caught.value.message
    assert len(proxy.asked) == 2, "a refusal of the proxy is no reason for PASV"


@pytest.mark.parametrize("start", [serve_http_proxy, serve_socks_proxy])
@pytest.mark.parametrize("place", ["127.0.0.1", "localhost", "[::1]", "169.254.169.254", "10.0.0.1"])
async def test_what_a_redirect_may_reach_is_judged_as_for_this_machine(
    start: Callable[..., object], place: str, nursery: trio.Nursery
) -> None:
    """The proxy is on loopback, and the name behind it is a stranger's: nothing inside may be led to."""
    server = await serve(nursery, {"/": moved(f"http://{place}/")})
    proxy: HttpProxy | SocksProxy
    proxy = await (serve_http_proxy if start is serve_http_proxy else serve_socks_proxy)(nursery)
    async with Resolver(proxy=proxy.url(), policy=_policy(server.port)) as session:
        with pytest.raises(resolver.Refused) as caught:
            await session.fetch(f"http://h.test:{server.port}/")
    assert (caught.value.rule, caught.value.exit_code) == ("S08", 15)
    assert len(server.requests) == 1


async def test_an_entry_of_a_listing_has_no_address_of_the_proxy(nursery: trio.Nursery) -> None:
    server = await fixtures.ftp.serve(nursery)
    proxy = await serve_http_proxy(nursery)
    async with Resolver(proxy=proxy.url(), policy=_policy(server.port)) as session:
        for host, source in (("h.test", None), ("127.0.0.1", "127.0.0.1")):
            async with session.entries(f"ftp://{host}:{server.port}/pub/") as found:
                assert {entry.referrer and entry.referrer[1] for entry in [each async for each in found]} == {
                    source
                }


async def test_a_hop_that_is_exempt_goes_direct_and_is_judged_there(nursery: trio.Nursery) -> None:
    inside = await serve(nursery)
    server = await serve(nursery, {"/": moved(inside.url("/about.txt"))})
    proxy = await serve_http_proxy(nursery)
    environment = {"all_proxy": proxy.url(), "no_proxy": "127.0.0.0/8"}
    async with Resolver(environment=environment, policy=_policy(server.port, inside.port)) as session:
        with pytest.raises(resolver.Refused) as caught:
            await session.fetch(f"http://h.test:{server.port}/")
        assert (caught.value.rule, inside.connections) == ("S08", 0)
        response = await session.fetch(inside.url("/about.txt"))
    assert (response.proxy, len(proxy.asked)) == (None, 1)


async def test_what_socks5_connects_to_is_looked_up_and_judged_here(nursery: trio.Nursery) -> None:
    """Each address in turn, as a number: also behind a proxy nobody gets farther inside by a name."""
    server = await serve(nursery)
    names = {"127.0.0.1": "127.0.0.1", "::1": "127.0.0.1"}
    proxy = await serve_socks_proxy(nursery, SocksProxy(World(names=names), codes={"::1": 4}))
    url = proxy.url(scheme="socks5")
    async with Resolver(proxy=url, policy=_policy(server.port)) as session:
        await session.fetch(f"http://localhost:{server.port}/about.txt")
        with pytest.raises(resolver.Refused) as caught:
            await session.fetch(f"http://x.localhost:{server.port}/about.txt", origin="chosen")
    assert proxy.asked == [(4, "::1", server.port), (1, "127.0.0.1", server.port)]
    assert caught.value.rule == "S08"


async def test_one_connection_to_a_proxy_serves_all_hosts_and_a_tunnel_one(nursery: trio.Nursery) -> None:
    first, second = await serve(nursery), await serve(nursery)
    requests, tunnels = await serve_http_proxy(nursery), await serve_socks_proxy(nursery)
    for proxy in (requests, tunnels):
        async with Resolver(proxy=proxy.url(), policy=_policy(first.port, second.port)) as session:
            for _ in range(3):
                for server in (first, second):
                    await session.fetch(server.url("/about.txt"))
    assert (requests.connections, tunnels.connections) == (1, 2)


async def test_without_its_extra_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    listener, port = silent_listener()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    resolver.policy.tunnels._speaks_socks.cache_clear()
    with listener:
        for scheme in ("socks5", "socks5h"):
            environment = {"all_proxy": f"{scheme}://127.0.0.1:{port}"}
            async with Resolver(environment=environment) as session:
                with pytest.raises(resolver.UnsupportedScheme, match=r"all_proxy .*extra socks") as caught:
                    await session.fetch(f"http://127.0.0.1:{port}/")
            assert "socksio 1 or later (the extra socks): pip install socksio" in caught.value.message
            assert caught.value.exit_code == 13
        assert not seen(listener)
    resolver.policy.tunnels._speaks_socks.cache_clear()


async def test_what_is_not_read_is_found_each_time_and_told_once(nursery: trio.Nursery) -> None:
    server = await serve(nursery, {"/": moved("/about"), "/about": Page(ABOUT)})
    told: list[Event] = []
    environment = {"HTTP_PROXY": "http://proxy.example:3128"}
    async with Resolver(
        policy=_policy(server.port), on_event=told.append, environment=environment
    ) as session:
        found = [await session.fetch(server.url(path)) for path in ("/", "/about")]
    assert [response.content for response in found] == [ABOUT, ABOUT]
    assert [[finding.rule for finding in response.findings] for response in found] == [["S09"], ["S09"]]
    warned = [event for event in told if isinstance(event, Warned)]
    assert [(event.url, event.finding.rule) for event in warned] == [(server.url("/"), "S09")]


async def test_untrusted_sends_nothing_through_a_proxy_that_is_not_trusted(nursery: trio.Nursery) -> None:
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
async def test_the_process_has_an_environment(
    make: Callable[[], object], monkeypatch: pytest.MonkeyPatch, nursery: trio.Nursery
) -> None:
    """It is read when the session is made, and not again."""
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
    assert len(proxy.asked) == 1


async def test_clients_of_httpx_go_through_too(nursery: trio.Nursery) -> None:
    """A body that comes in pieces cannot be said twice: whoever is asked for a login then hears that."""
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
