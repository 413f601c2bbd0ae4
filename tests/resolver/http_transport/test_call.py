"""One request on one connection: bodies both ways, kept connections, timeouts, and ends that come early."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable

import httpx
import pytest
import trio

from fixtures.http import ABOUT, DATA, Behaviour, serve
from resolver import HttpxTransport, Limits
from tests.hang import HANG
from tests.resolver.gate.peers import closed_port, start, stay_silent


def client(limits: Limits | None = None, timeout: httpx.Timeout | float | None = 5.0) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=HttpxTransport(limits=limits), timeout=timeout)


async def pieces() -> AsyncIterator[bytes]:
    for number in range(5):
        yield b"%d" % number * 1000
        yield b""


async def endless() -> AsyncGenerator[bytes, None]:
    while True:
        yield bytes(65_536)


@pytest.mark.parametrize(
    ("method", "content", "sent"),
    [
        ("POST", b"", b""),
        ("POST", b"hello", b"hello"),
        ("PUT", DATA * 10, DATA * 10),
        ("PATCH", pieces, b"".join(b"%d" % number * 1000 for number in range(5))),
        ("DELETE", None, b""),
    ],
)
async def test_a_program_may_send_what_it_likes(
    method: str,
    content: bytes | Callable[[], AsyncIterator[bytes]] | None,
    sent: bytes,
    nursery: trio.Nursery,
) -> None:
    """S05 binds what a URL can do; a program that says POST means it."""
    server = await serve(nursery)
    async with client() as plain:
        for _ in range(2):
            body = content() if callable(content) else content
            assert (await plain.request(method, server.url("/about.txt"), content=body)).content == ABOUT
    assert [(request.method, request.body) for request in server.requests] == [(method, sent)] * 2
    assert (server.connections, server.violations) == (1, [])


@pytest.mark.parametrize(
    ("path", "connections"),
    [
        ("/about.txt", 1),
        ("/data/chunked", 1),
        ("/nothing", 1),
        ("/gzip", 1),
        ("/empty", 1),
        ("/data/close", 3),
    ],
)
async def test_connections_are_kept(path: str, connections: int, nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    async with client() as plain:
        for _ in range(3):
            await plain.get(server.url(path))
    assert (len(server.requests), server.connections, server.violations) == (3, connections, [])


async def test_a_body_left_unread_costs_its_connection(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    async with client() as plain:
        for _ in range(2):
            async with plain.stream("GET", server.url("/data")) as response:
                assert response.status_code == 200
    assert server.connections == 2


async def test_who_is_somebody_else_gets_another_connection(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    async with client() as plain:
        for user in ("a", "b", "a", "b"):
            await plain.get(server.url("/about.txt"), auth=(user, "p"))
        await plain.get(server.url("/about.txt"))
    assert server.connections == 3


@pytest.mark.parametrize(
    ("method", "content", "error"),
    [
        ("GET", None, None),
        ("PUT", b"x", None),
        ("POST", b"x", httpx.ReadError),
        ("PUT", pieces, httpx.ReadError),
    ],
)
async def test_a_kept_connection_that_dies_under_a_request(
    method: str,
    content: bytes | Callable[[], AsyncIterator[bytes]] | None,
    error: type[httpx.TransportError] | None,
    nursery: trio.Nursery,
) -> None:
    """What may be sent twice is; what may not fails, for nobody knows whether it was done."""
    heads = 0

    async def once(stream: trio.SocketStream) -> None:
        """Answers the first request of a connection and hangs up on the second."""
        nonlocal heads
        heads += 1
        await stream.receive_some(1000)
        await stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
        await stream.receive_some(1000)

    url = f"http://127.0.0.1:{await start(nursery, once)}/"
    async with client() as plain:
        await plain.get(url)
        body = content() if callable(content) else content
        if error is None:
            assert (await plain.request(method, url, content=body)).text == "hi"
        else:
            with pytest.raises(error):
                await plain.request(method, url, content=body)
    assert heads == (2 if error is None else 1)


async def test_an_answer_may_come_before_the_request_is_done(nursery: trio.Nursery) -> None:
    async def hasty(stream: trio.SocketStream) -> None:
        await stream.receive_some(100)
        await stream.send_all(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await stream.send_eof()
        async for _ in stream:
            pass

    port = await start(nursery, hasty)
    async with client() as plain:
        response = await plain.post(f"http://127.0.0.1:{port}/", content=DATA * 4)
    assert response.status_code == 413


@pytest.mark.parametrize(
    ("behaviour", "path", "error"),
    [
        (Behaviour(cut_at=0), "/about.txt", httpx.ReadError),
        (Behaviour(cut_at=20), "/about.txt", httpx.ReadError),
        (Behaviour(reset_at=20), "/about.txt", httpx.ReadError),
        (Behaviour(length_off=5, unannounced=True), "/about.txt", httpx.RemoteProtocolError),
        (Behaviour(cut_at=9000), "/data/chunked", httpx.RemoteProtocolError),
        (Behaviour(reset_at=9000), "/data", httpx.RemoteProtocolError),
        (Behaviour(instead=b"SSH-2.0-x\r\n\r\n"), "/about.txt", httpx.RemoteProtocolError),
        (Behaviour(endless="line"), "/about.txt", httpx.RemoteProtocolError),
        (Behaviour(endless="headers"), "/about.txt", httpx.RemoteProtocolError),
        (Behaviour(endless="interim"), "/about.txt", httpx.RemoteProtocolError),
    ],
)
async def test_what_a_bad_server_comes_to(
    behaviour: Behaviour, path: str, error: type[httpx.TransportError], nursery: trio.Nursery
) -> None:
    server = await serve(nursery, behaviours={path: behaviour})
    async with client() as plain:
        with pytest.raises(error) as caught:
            await plain.get(server.url(path))
    assert caught.value.request.url.path == path
    assert server.violations == []


@pytest.mark.parametrize(
    ("patience", "limits"),
    [(httpx.Timeout(5.0, read=0.2), Limits()), (None, Limits(idle=0.2))],
    ids=["the client's", "the limit's"],
)
@pytest.mark.parametrize(
    "behaviour", [Behaviour(silent=True), Behaviour(instead=b"HTTP/1.1 200 OK\r\n\r\nhe", stays=True)]
)
async def test_silence(
    behaviour: Behaviour, patience: httpx.Timeout | None, limits: Limits, nursery: trio.Nursery
) -> None:
    server = await serve(nursery, behaviours={"/": behaviour})
    async with client(limits, patience) as plain:
        with pytest.raises(httpx.ReadTimeout):
            await plain.get(server.url())


@pytest.mark.parametrize(
    ("patience", "limits"),
    [(httpx.Timeout(5.0, write=0.2), Limits()), (None, Limits(idle=0.2))],
    ids=["the client's", "the limit's"],
)
@pytest.mark.parametrize("content", [bytes(24 * 1_048_576), endless])
async def test_a_peer_that_takes_nothing(
    content: bytes | Callable[[], AsyncGenerator[bytes, None]],
    patience: httpx.Timeout | None,
    limits: Limits,
    nursery: trio.Nursery,
) -> None:
    port = await start(nursery, stay_silent)
    given = content() if callable(content) else content
    async with client(limits, patience) as plain:
        with pytest.raises(httpx.WriteTimeout):
            await plain.post(f"http://127.0.0.1:{port}/", content=given)
    if not isinstance(given, bytes):
        await given.aclose()  # nobody but who made it can


@pytest.mark.parametrize(
    ("patience", "limits"),
    [(httpx.Timeout(5.0, connect=0.2), Limits()), (None, Limits(connect=0.2))],
    ids=["the client's", "the limit's"],
)
async def test_a_handshake_that_does_not_come(
    patience: httpx.Timeout | None, limits: Limits, nursery: trio.Nursery
) -> None:
    port = await start(nursery, stay_silent)
    async with client(limits, patience) as plain:
        with pytest.raises(httpx.ConnectTimeout):
            await plain.get(f"https://127.0.0.1:{port}/")


async def test_nobody_there() -> None:
    with closed_port() as port:
        async with client() as plain:
            with pytest.raises(httpx.ConnectError):
                await plain.get(f"http://127.0.0.1:{port}/")


async def test_a_cancel_closes_the_connection(nursery: trio.Nursery) -> None:
    ended = trio.Event()

    async def wait_for_the_end(stream: trio.SocketStream) -> None:
        async for _ in stream:
            scope.cancel()
        ended.set()

    port = await start(nursery, wait_for_the_end)
    async with client() as plain:
        with trio.CancelScope() as scope:
            await plain.get(f"http://127.0.0.1:{port}/")
        assert scope.cancelled_caught
        with trio.fail_after(HANG):
            await ended.wait()


async def test_closing_the_client_closes_what_was_kept(nursery: trio.Nursery) -> None:
    ended = trio.Event()

    async def answer(stream: trio.SocketStream) -> None:
        await stream.receive_some(1000)
        await stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
        assert await stream.receive_some(1) == b""
        ended.set()

    port = await start(nursery, answer)
    plain = client()
    await plain.get(f"http://127.0.0.1:{port}/")
    assert not ended.is_set()
    await plain.aclose()
    with trio.fail_after(HANG):
        await ended.wait()
