"""HTTP/2 with a plain `httpx.AsyncClient`: responses, requests that still use HTTP/1.1, and failures."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable

import httpx
import pytest
import trio
from h2.connection import H2Connection

from fixtures.http import serve as serve_http1
from fixtures.http.framed_server import Fault, FramedServer, serve
from fixtures.http.site import ABOUT, DATA
from resolver import HttpxTransport, Limits
from resolver.transfer import extras as http2
from tests.resolver.transfer.test_http2 import BIG, SITE, WRONG, Spoil, left


def client(cafile: str, limits: Limits | None = None, *, follow: bool = False) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        transport=HttpxTransport(cafile=cafile, limits=limits), follow_redirects=follow, timeout=None
    )


@pytest.mark.parametrize(
    ("path", "status", "content", "verified"),
    [
        ("/about.txt", 200, ABOUT, {"length"}),
        ("/data/chunked", 200, DATA, {"terminator"}),
        ("/empty", 200, b"", {"length"}),
        ("/nothing", 204, b"", set()),
        ("/gzip", 200, ABOUT * 100, {"length"}),
        ("/missing", 404, None, {"length"}),
        ("/big", 200, BIG, {"length"}),
        ("/big/unannounced", 200, BIG, {"terminator"}),
    ],
)
async def test_http2_client_gets_responses(
    path: str,
    status: int,
    content: bytes | None,
    verified: set[str],
    nursery: trio.Nursery,
    tls: tuple[ssl.SSLContext, str],
) -> None:
    server = await serve(nursery, tls[0], SITE)
    async with client(tls[1]) as plain:
        for _ in range(2):
            response = await plain.get(server.url(path))
            assert (response.status_code, response.http_version) == (status, "HTTP/2")
            assert response.extensions["verified"] == verified
            assert content is None or response.content == content
            assert "content-encoding" not in response.headers
    assert response.reason_phrase == httpx.codes.get_reason_phrase(status)
    assert (server.connections, server.violations) == (1, [])


async def test_http2_requests_share_one_connection(
    nursery: trio.Nursery, tls: tuple[ssl.SSLContext, str]
) -> None:
    server = await serve(nursery, tls[0], SITE)
    async with client(tls[1], follow=True) as plain:
        assert (await plain.head(server.url("/data"))).headers["content-length"] == str(len(DATA))
        assert (await plain.get(server.url("/moved"))).content == ABOUT
        assert (await plain.post(server.url("/about.txt"))).http_version == "HTTP/2"
        asked = await plain.get(server.url("/x"), extensions={"target": b"/a/../b?%zz"})
    assert asked.status_code == 404
    assert [(request.method, request.target) for request in server.requests] == [
        ("HEAD", "/data"),
        ("GET", "/moved"),
        ("GET", "/about.txt"),
        ("POST", "/about.txt"),
        ("GET", "/a/../b?%zz"),
    ]
    assert (server.connections, server.violations) == (1, [])


async def pieces() -> AsyncIterator[bytes]:
    yield b"one"
    yield b"two"


@pytest.mark.parametrize("content", [lambda: b"x", pieces])
async def test_http2_request_body_uses_http1_and_keeps_the_connection(
    content: Callable[[], bytes | AsyncIterator[bytes]],
    nursery: trio.Nursery,
    tls: tuple[ssl.SSLContext, str],
) -> None:
    """A request with a body does not use the pooled HTTP/2 connection, and does not close the connection."""
    server = await serve(nursery, tls[0], SITE)
    async with client(tls[1]) as plain:
        versions = [(await plain.get(server.url("/about.txt"))).http_version]
        sent = await plain.post(server.url("/about.txt"), content=content())
        versions.append((await plain.get(server.url("/about.txt"))).http_version)
    assert (sent.http_version, sent.content) == ("HTTP/1.1", b"plain\n")
    assert versions == ["HTTP/2", "HTTP/2"]
    assert server.connections == 2


async def test_http1_peer_body_requests_share_the_connection(
    nursery: trio.Nursery, tls: tuple[ssl.SSLContext, str]
) -> None:
    server = await serve_http1(nursery, ssl_context=tls[0])
    async with client(tls[1]) as plain:
        for content in (b"", b"x", b"", b"y"):
            answer = await plain.request("PUT", server.url("/about.txt"), content=content)
            assert answer.http_version == "HTTP/1.1"
    assert [request.body for request in server.requests] == [b"", b"x", b"", b"y"]
    assert (server.connections, server.violations) == (1, [])


@pytest.mark.parametrize(("spoil", "leaves", "error"), [(*row[:2], row[3]) for row in WRONG])
@pytest.mark.parametrize("whose", ["the client's", "the limit's"])
async def test_http2_failure_raises_httpx_error(
    spoil: Spoil,
    leaves: bool,
    error: type[httpx.TransportError],
    whose: str,
    nursery: trio.Nursery,
    tls: tuple[ssl.SSLContext, str],
) -> None:
    spoilt: dict[str, Fault] = {"/data": (spoil, leaves)}
    server = await serve(nursery, tls[0], faults=spoilt)
    limits = Limits(idle=0.2) if whose == "the limit's" else Limits()
    timeout = httpx.Timeout(None, read=0.2) if whose == "the client's" else None
    async with client(tls[1], limits) as plain:
        with pytest.raises(error):
            await plain.get(server.url("/data"), timeout=timeout)
        assert (await plain.get(server.url("/about.txt"))).content == ABOUT
    assert server.connections == 2


@pytest.mark.parametrize(("method", "again"), [("GET", True), ("PUT", True), ("POST", False)])
async def test_http2_pooled_connection_lost_is_retried_only_if_safe(
    method: str, again: bool, nursery: trio.Nursery, tls: tuple[ssl.SSLContext, str]
) -> None:
    server: FramedServer

    def refuse(machine: H2Connection, stream: int) -> bytes:
        server.mend("/data")
        return left(machine, stream)

    server = await serve(nursery, tls[0], faults={"/data": (refuse, True)})
    async with client(tls[1]) as plain:
        await plain.get(server.url("/about.txt"))
        if again:
            assert (await plain.request(method, server.url("/data"))).content == DATA
        else:
            with pytest.raises(httpx.RemoteProtocolError):
                await plain.request(method, server.url("/data"))
    assert server.connections == (2 if again else 1)


async def test_http2_other_credentials_use_another_connection(
    nursery: trio.Nursery, tls: tuple[ssl.SSLContext, str]
) -> None:
    """S11: a request with other credentials uses another connection."""
    server = await serve(nursery, tls[0], SITE)
    async with client(tls[1]) as plain:
        for user in ("a", "b", "a"):
            await plain.get(server.url("/about.txt"), auth=(user, "p"))
    assert server.connections == 2
    assert len({request.values("authorization")[0] for request in server.requests}) == 2


async def test_http2_without_extra_is_not_offered(
    nursery: trio.Nursery, tls: tuple[ssl.SSLContext, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http2, "find_frames", lambda: None)
    server = await serve(nursery, tls[0])
    async with client(tls[1]) as plain:
        assert (await plain.get(server.url("/"))).http_version == "HTTP/1.1"
