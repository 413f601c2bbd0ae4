"""Behind a proxy that is spoken to in TLS, and behind one that wants Digest: who is proved to whom, and who
hears what.

That every scheme goes through one is the contract's (`tests/contract/test_through_proxies.py`).
"""

from __future__ import annotations

import ssl
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
import trio
import trustme

import fixtures.ftp
import resolver
from fixtures.http import ABOUT, Page, serve
from fixtures.http.digest import Guard
from fixtures.proxy import HttpProxy, World, serve_http_proxy
from resolver import Credentials, Event, HttpxTransport, Policy, Resolver, RetryPolicy
from tests.resolver.gate.peers import closed_port

LARGE = bytes(range(256)) * 4_096
USER = "alice:wonder%20land@"


def context(authority: trustme.CA, name: str) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(made)
    return made


@pytest.fixture
def here(authority: trustme.CA) -> ssl.SSLContext:
    return context(authority, "127.0.0.1")


def _policy(*ports: int) -> Policy:
    return Policy(allow_port=frozenset(ports), allow_password=True)


async def test_tls_in_tls_carries_what_is_large(
    nursery: trio.Nursery, here: ssl.SSLContext, cafile: str, tmp_path: Path
) -> None:
    """Bodies and requests of many records, on one kept connection; into memory and into a file."""
    server = await serve(nursery, {"/": Page(LARGE), "/about.txt": Page(ABOUT)}, ssl_context=here)
    proxy = await serve_http_proxy(nursery, tls=here)
    secure = f"https://127.0.0.1:{server.port}"
    async with Resolver(
        proxy=proxy.url(scheme="https"), policy=_policy(server.port), cafile=cafile
    ) as session:
        for _ in range(2):
            assert (await session.fetch(f"{secure}/")).content == LARGE
        saved = await session.save(f"{secure}/", tmp_path / "large")
        assert (tmp_path / "large").read_bytes() == LARGE
        assert "length" in saved.verified
    assert (proxy.connections, len(proxy.asked), proxy.violations) == (1, 1, [])
    transport = HttpxTransport(proxy=proxy.url(scheme="https"), policy=_policy(server.port), cafile=cafile)
    async with httpx.AsyncClient(transport=transport) as client:
        assert (await client.post(f"{secure}/about.txt", content=LARGE)).status_code in (200, 405)


async def test_a_body_of_plain_http_comes_whole_through_tls(
    nursery: trio.Nursery, here: ssl.SSLContext, cafile: str, tmp_path: Path
) -> None:
    """It would be spliced, were there no TLS as far as the proxy."""
    server = await serve(nursery, {"/": Page(LARGE)})
    proxy = await serve_http_proxy(nursery, tls=here)
    async with Resolver(
        proxy=proxy.url(scheme="https"), policy=_policy(server.port), cafile=cafile
    ) as session:
        await session.save(server.url("/"), tmp_path / "large")
    assert (tmp_path / "large").read_bytes() == LARGE
    assert [asked.method for asked in proxy.asked] == ["GET"]


@pytest.mark.parametrize("name", ["proxy.example", "127.0.0.2"])
@pytest.mark.parametrize("url", ["http://h.test/", "https://h.test/", "gopher://h.test/"])
async def test_the_proxy_proves_its_own_name(
    url: str, name: str, nursery: trio.Nursery, authority: trustme.CA, cafile: str
) -> None:
    """One that does not hears nothing, of the target or of who we are, and is asked once."""
    proxy = await serve_http_proxy(nursery, tls=context(authority, name))
    async with Resolver(
        proxy=proxy.url("bob:secret@", "https"), cafile=cafile, patience=RetryPolicy(tries=5)
    ) as session:
        with pytest.raises(resolver.TlsError) as caught:
            await session.fetch(url)
    assert "certificate of 127.0.0.1 " in caught.value.message
    assert f"the proxy {proxy.url(scheme='https')}" in caught.value.message
    assert (caught.value.exit_code, caught.value.attempts) == (5, 1)
    assert (proxy.asked, proxy.violations) == ([], [])


async def test_a_proxy_whose_authority_is_unknown_is_not_trusted(
    nursery: trio.Nursery, here: ssl.SSLContext
) -> None:
    proxy = await serve_http_proxy(nursery, tls=here)
    async with Resolver(proxy=proxy.url(scheme="https"), patience=RetryPolicy(tries=5)) as session:
        with pytest.raises(resolver.TlsError, match="--cacert ") as caught:
            await session.fetch("http://h.test/")
    assert (caught.value.attempts, proxy.asked) == (1, [])


async def test_the_place_proves_its_name_inside(
    nursery: trio.Nursery, authority: trustme.CA, here: ssl.SSLContext, cafile: str
) -> None:
    """What the proxy has proved is not the place's proof: the proxy may be whoever answers there."""
    server = await serve(nursery, ssl_context=here)
    proxy = await serve_http_proxy(nursery, tls=here)
    async with Resolver(
        proxy=proxy.url(scheme="https"), policy=_policy(server.port), cafile=cafile
    ) as session:
        with pytest.raises(resolver.TlsError, match=r"certificate of h\.test ") as caught:
            await session.fetch(f"https://h.test:{server.port}/")
    assert "the proxy" not in caught.value.message
    assert server.requests == []


async def test_a_certificate_of_ours_is_not_for_the_proxy(
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
        proxy=proxy.url(scheme="https"), policy=_policy(server.port), cafile=cafile, certfile=str(ours)
    ) as session:
        await session.fetch(f"https://127.0.0.1:{server.port}/about.txt")
    assert shown == [{}] or shown == [None]


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_tls_as_far_as_the_proxy_protects_no_password_beyond(
    scheme: str, nursery: trio.Nursery, here: ssl.SSLContext, cafile: str
) -> None:
    """S06: from the proxy on it is in the clear. With TLS to the place it is not, whatever the proxy is."""
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
    assert not any("authorization" in asked.fields for asked in proxy.asked)


async def test_a_tunnel_that_is_cut_is_no_end(
    nursery: trio.Nursery, here: ssl.SSLContext, cafile: str
) -> None:
    """The proxy ends its TLS in good order in the middle of the inner one, whose body has no length."""

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
        proxy=proxy.url(scheme="https"), policy=_policy(port), cafile=cafile, patience=RetryPolicy(tries=1)
    ) as session:
        with pytest.raises(resolver.Truncated, match="TLS") as caught:
            await session.fetch(f"https://127.0.0.1:{port}/")
    assert caught.value.received == 8


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_proxy_that_is_down_is_tried_once_and_named(scheme: str) -> None:
    with closed_port() as port:
        async with Resolver(proxy=f"{scheme}://127.0.0.1:{port}", patience=RetryPolicy(tries=5)) as session:
            for url in ("http://h.test/", "https://h.test/", "ftp://h.test/a"):
                with pytest.raises(
                    resolver.Unreachable, match=f"the proxy {scheme}://127.0.0.1:{port}"
                ) as caught:
                    await session.fetch(url)
                assert (caught.value.attempts, caught.value.exit_code) == (1, 4)


async def test_a_proxy_that_speaks_no_tls_says_so_once(nursery: trio.Nursery, cafile: str) -> None:
    """`https://` for a port of plain http: what comes is no TLS."""

    async def refuse(stream: trio.SocketStream) -> None:
        asked.append(await stream.receive_some())
        await stream.send_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    asked: list[bytes] = []
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    nursery.start_soon(trio.serve_listeners, refuse, listeners)
    proxy = f"https://127.0.0.1:{port}"
    async with Resolver(proxy=proxy, cafile=cafile, patience=RetryPolicy(tries=5)) as session:
        with pytest.raises(resolver.TlsError, match=f"proxy {proxy}") as caught:
            await session.fetch("http://h.test/")
    assert (caught.value.attempts, len(asked), b"h.test" in asked[0]) == (1, 1, False)


GUARDS = [
    Guard(),
    Guard(algorithm=None),  # Squid's
    Guard(algorithm="MD5-sess"),
    Guard(algorithm="SHA-256-sess"),
    Guard(algorithm=None, qop=None),
    Guard(extra=('Basic realm="lab"', 'Digest realm="lab", nonce="n", algorithm=SHA-512, qop="auth"')),
]


@pytest.fixture(params=range(len(GUARDS)))
def guard(request: pytest.FixtureRequest) -> Guard:
    made: Guard = replace(GUARDS[request.param], refused=[], _counts={}, _retired=set())
    return made


async def test_digest_proves_who_asks_for_tunnels_and_for_pages(nursery: trio.Nursery, guard: Guard) -> None:
    """`uri` is the target as the proxy gets it, and the nonce is counted by all requests of a run."""
    server, files = await serve(nursery), await fixtures.ftp.serve(nursery)
    proxy = await serve_http_proxy(nursery, HttpProxy(guard=guard))
    told: list[Event] = []
    async with Resolver(
        proxy=proxy.url(USER), policy=_policy(server.port, files.port), on_event=told.append
    ) as session:
        for _ in range(3):
            assert (await session.fetch(server.url("/about.txt?x=1"))).content == ABOUT
        text = await session.fetch(f"ftp://h.test:{files.port}/pub/a.txt")
        assert text.content == fixtures.ftp.tree.TEXT
    assert (guard.refused, proxy.violations) == ([], [])
    unasked = [asked for asked in proxy.asked if "proxy-authorization" not in asked.fields]
    assert len(unasked) == 1
    assert not any(request.values("proxy-authorization") for request in server.requests)
    for word in ("wonder", *(asked.fields.get("proxy-authorization", "Digest")[7:] for asked in proxy.asked)):
        assert not word or word not in "".join(map(repr, told))


async def test_one_connection_serves_requests_that_are_proved_one_by_one(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    proxy = await serve_http_proxy(nursery, HttpProxy(guard=Guard()))
    async with Resolver(proxy=proxy.url(USER), policy=_policy(server.port)) as session:
        for _ in range(5):
            await session.fetch(server.url("/about.txt"))
    assert (proxy.connections, len(proxy.asked)) == (1, 6)


@pytest.mark.parametrize("scheme", ["http", "ftp"])
async def test_a_nonce_that_is_too_old_is_asked_for_again(scheme: str, nursery: trio.Nursery) -> None:
    """Squid's are good for 50 requests: that is no refusal, in a run of any length."""
    server, files = await serve(nursery), await fixtures.ftp.serve(nursery)
    guard = Guard(uses=1)
    proxy = await serve_http_proxy(nursery, HttpProxy(guard=guard))
    url = server.url("/about.txt") if scheme == "http" else f"ftp://h.test:{files.port}/pub/a.txt"
    async with Resolver(proxy=proxy.url(USER), policy=_policy(server.port, files.port)) as session:
        for _ in range(6):
            assert (await session.fetch(url)).content
    assert guard.refused == []


@pytest.mark.parametrize("scheme", ["http", "gopher"])
@pytest.mark.parametrize(
    ("guard", "user", "asked"),
    [(Guard(), "alice:wrong@", 2), (Guard(uses=0), USER, 5)],
    ids=["wrong", "stale for ever"],
)
async def test_a_refusal_is_not_argued_with(
    guard: Guard, user: str, asked: int, scheme: str, nursery: trio.Nursery
) -> None:
    proxy = await serve_http_proxy(nursery, HttpProxy(World(), guard=guard))
    async with Resolver(proxy=proxy.url(user), patience=RetryPolicy(tries=5)) as session:
        with pytest.raises(resolver.AccessDenied, match="password") as caught:
            await session.fetch(f"{scheme}://h.test/")
    assert (caught.value.exit_code, caught.value.attempts, len(proxy.asked)) == (6, 1, asked)
    assert "wrong" not in caught.value.message


async def test_what_we_cannot_give_is_named_and_nothing_is_sent(nursery: trio.Nursery) -> None:
    proxy = await serve_http_proxy(nursery, HttpProxy(guard=Guard(qop="auth-int")))
    async with Resolver(proxy=proxy.url(USER)) as session:
        for url in ("http://h.test/", "gopher://h.test/"):
            with pytest.raises(resolver.Declined, match=r"proxy http://.*Digest.*auth-int"):
                await session.fetch(url)
    assert not any("proxy-authorization" in asked.fields for asked in proxy.asked)


async def test_the_proxy_and_the_place_may_both_want_digest(nursery: trio.Nursery) -> None:
    """Each gets the answer to its own question, made with its own user and its own form of the target."""
    there = Guard(user="bob", password="beyond")
    server = await serve(nursery, {"/": Page(ABOUT, guard=there)})
    guard = Guard()
    proxy = await serve_http_proxy(nursery, HttpProxy(guard=guard))
    given = {("http", "h.test", server.port): Credentials(b"bob", b"beyond")}
    async with Resolver(proxy=proxy.url(USER), policy=_policy(server.port), credentials=given) as session:
        for _ in range(2):
            assert (await session.fetch(f"http://h.test:{server.port}/")).content == ABOUT
    assert (guard.refused, there.refused) == ([], [])
