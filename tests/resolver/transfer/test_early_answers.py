"""Responses that arrive before the request is sent completely (RFC 9112 9.5), with `Resolver` and httpx."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeVar

import httpx
import pytest
import trio

from protocols.contract import Line, PooledConnection
from protocols.conversation.driver import hold
from protocols.http.dialogue import relay
from protocols.http.request import HttpRequest
from resolver import Declined, Disconnected, HttpxTransport, Limits, Options, Resolver, TimedOut
from resolver.network import connecting as race
from resolver.testing import whole
from resolver.testing.transcript import Connection
from tests.protocols.in_memory import MemoryGate, MemoryLoan, MemoryStream
from tests.resolver.network.peers import start

A = TypeVar("A")
B = TypeVar("B")

#: More bytes than the system buffers between two processes.
MUCH = 24 * 1_048_576
_NO = b"HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Length: 6\r\n\r\nenough"


async def stays(answer: bytes, stream: trio.SocketStream) -> None:
    """Read part of the request, respond, and then read nothing until the client closes the connection."""
    await stream.receive_some(1000)
    await stream.send_all(answer)
    await trio.sleep_forever()


async def leaves(answer: bytes, stream: trio.SocketStream) -> None:
    """Read part of the request, respond and close. The unread bytes cause a reset of the connection."""
    await stream.receive_some(1000)
    await stream.send_all(answer)


async def leaves_orderly(answer: bytes, stream: trio.SocketStream) -> None:
    await stream.receive_some(1000)
    await stream.send_all(answer)
    await stream.send_eof()
    await trio.sleep_forever()


PEERS = [stays, leaves, leaves_orderly]


@pytest.mark.parametrize("peer", PEERS)
async def test_resolver_reports_early_error_response(peer: object, nursery: trio.Nursery) -> None:
    assert callable(peer)
    port = await start(nursery, partial(peer, _NO))
    options = Options(keep=True, headers=((b"X-Much", b"m" * MUCH),))
    async with Resolver(options=options, limits=Limits(idle=5)) as session:
        with pytest.raises(Declined) as caught:
            await session.fetch(f"http://127.0.0.1:{port}/")
    assert (caught.value.code, caught.value.text) == ("431", "Request Header Fields Too Large")


class Endless:
    """An endless request body, like a body that is read from a pipe or a queue."""

    def __aiter__(self) -> Endless:
        return self

    async def __anext__(self) -> bytes:
        return b"x" * 65_536


def much() -> bytes:
    return b"x" * MUCH


@pytest.mark.parametrize("content", [Endless, much])
@pytest.mark.parametrize("peer", PEERS)
async def test_httpx_returns_early_response_during_upload(
    peer: object, content: object, nursery: trio.Nursery
) -> None:
    assert callable(peer)
    assert callable(content)
    port = await start(nursery, partial(peer, _NO))
    async with httpx.AsyncClient(transport=HttpxTransport()) as client:
        response = await client.post(f"http://127.0.0.1:{port}/", content=content())
    assert (response.status_code, response.content) == (431, b"enough")


@pytest.mark.parametrize("peer", PEERS)
async def test_httpx_returns_early_response_to_large_head(peer: object, nursery: trio.Nursery) -> None:
    assert callable(peer)
    port = await start(nursery, partial(peer, _NO))
    async with httpx.AsyncClient(transport=HttpxTransport()) as client:
        response = await client.get(f"http://127.0.0.1:{port}/", headers={"X-Much": "m" * MUCH})
    assert (response.status_code, response.content) == (431, b"enough")


async def test_interrupted_request_closes_connection(nursery: trio.Nursery) -> None:
    """On a reused connection, the rest of the first request would be read as the head of the second."""
    connections = 0

    async def count(stream: trio.SocketStream) -> None:
        nonlocal connections
        connections += 1
        await stays(_NO, stream)

    port = await start(nursery, count)
    async with httpx.AsyncClient(transport=HttpxTransport()) as client:
        for _ in range(2):
            assert (await client.post(f"http://127.0.0.1:{port}/", content=Endless())).status_code == 431
    options = Options(keep=True, headers=((b"X-Much", b"m" * MUCH),))
    async with Resolver(options=options) as session:
        for _ in range(2):
            with pytest.raises(Declined):
                await session.fetch(f"http://127.0.0.1:{port}/")
    assert connections == 4


async def test_early_success_does_not_stop_upload(nursery: trio.Nursery) -> None:
    """A server may start its response early, and still need the rest of the request."""
    pieces = 100
    received = bytearray()
    answered = trio.Event()

    async def echo(stream: trio.SocketStream) -> None:
        received.extend(await stream.receive_some(1000))
        await stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
        answered.set()
        while not received.endswith(b"0\r\n\r\n"):
            received.extend(await stream.receive_some(65_536))
        await stream.send_all(b"ok")

    async def body() -> AsyncIterator[bytes]:
        yield b"begin"
        await answered.wait()
        for _ in range(pieces):
            yield b"!" * 1000

    port = await start(nursery, echo)
    async with httpx.AsyncClient(transport=HttpxTransport()) as client:
        response = await client.post(f"http://127.0.0.1:{port}/", content=body())
    assert (response.status_code, response.content) == (200, b"ok")
    assert received.count(b"!") == pieces * 1000


async def test_close_during_request_is_an_error(nursery: trio.Nursery) -> None:
    """The client stops sending the endless body when the server closes the connection."""

    async def read_a_little(stream: trio.SocketStream) -> None:
        await stream.receive_some(1000)
        await stream.send_eof()
        await trio.sleep_forever()

    port = await start(nursery, read_a_little)
    async with httpx.AsyncClient(transport=HttpxTransport()) as client:
        with pytest.raises(httpx.RemoteProtocolError):
            await client.post(f"http://127.0.0.1:{port}/", content=Endless())
    options = Options(headers=((b"X-Much", b"m" * MUCH),))
    async with Resolver(options=options) as session:
        with pytest.raises(Disconnected):
            await session.fetch(f"http://127.0.0.1:{port}/")


async def test_error_of_request_body_is_raised(nursery: trio.Nursery) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"x"
        raise KeyError("mine")

    port = await start(nursery, partial(stays, b""))
    async with httpx.AsyncClient(transport=HttpxTransport()) as client:
        with pytest.raises(KeyError, match="mine"):
            await client.post(f"http://127.0.0.1:{port}/", content=broken())


class Slow(MemoryStream):
    """A stream that accepts all data, times out `silences` times and then delivers a response."""

    def __init__(self, silences: int) -> None:
        super().__init__(Connection((), "quiet"), whole, tls=False)
        self._silences = silences

    async def send(self, *lines: Line) -> None:
        await trio.lowlevel.checkpoint()

    async def receive(self) -> bytes:
        await trio.lowlevel.checkpoint()
        self._silences -= 1
        if self._silences >= 0:
            raise TimedOut("nothing came")
        return _NO


class SlowGate(MemoryGate):
    """A gate to a `Slow` stream."""

    def __init__(self, silences: int) -> None:
        super().__init__(())
        self._silences = silences

    @asynccontextmanager
    async def acquire(
        self, pool_key: Hashable, *, tls: bool, suits: Callable[[object], bool] | None = None
    ) -> AsyncIterator[PooledConnection]:
        yield MemoryLoan(Slow(self._silences), pool_key)

    first_of = staticmethod(race.first_of)


async def test_idle_timeout_is_not_applied_during_upload() -> None:
    """An upload may take longer than the idle timeout."""
    chunked = ((b"Host", b"h"), (b"Transfer-Encoding", b"chunked"))
    endless = HttpRequest(b"POST", b"/", chunked, Endless().__anext__)
    async with hold(relay(endless, Options(), Limits(), tls=False), SlowGate(2)) as reply:
        assert reply.extra is not None
        assert reply.extra["status"] == 431
    said = HttpRequest(b"POST", b"/", chunked, b"all")
    with pytest.raises(TimedOut):
        async with hold(relay(said, Options(), Limits(), tls=False), SlowGate(1)):
            pass
