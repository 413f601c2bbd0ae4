"""One request of httpx's on a connection of the gate's, and the body of its answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from typing import TypeVar, cast

import httpx
import trio

from protocols.contract import Body, Line, Referrer, Stream
from protocols.errors import Disconnected, LimitExceeded
from protocols.http.answer import Answer
from protocols.http.exchange import Exchange
from protocols.http.request import Request
from protocols.wire import Buffer
from resolver.gate import Passage
from resolver.http_transport.faults import translated

T = TypeVar("T")

#: What may be sent twice when a kept connection turns out to be gone (RFC 9110 9.2.2).
_REPEATABLE = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PUT", "TRACE"})


class Call:
    """One request and its answer on a connection of the gate's."""

    def __init__(self, passage: Passage, request: httpx.Request, asked: Request, *, tls: bool) -> None:
        self._passage = passage
        self._request = request
        self._asked = asked
        self._tls = tls
        self._opened: AbstractAsyncContextManager[object] | None = None
        self._timeouts = cast("dict[str, float | None]", request.extensions.get("timeout", {}))

    async def answer(self) -> Answer:
        """Send, and read the head; on another connection if a kept one is gone and nothing is lost. What
        cannot be sent is refused before there is any."""
        exchange = self._prepare()
        loan = await self._open(self._passage.borrow(self._asked.whom, tls=self._tls))
        try:
            return await self._exchange(exchange, loan.stream, lambda: loan.keep(True))
        except httpx.ReadError:
            if loan.memory is None or not self._is_repeatable():
                raise
        await self.aclose()
        stream = await self._open(self._passage.connect(tls=self._tls))
        return await self._exchange(self._prepare(), stream, lambda: None)

    def _prepare(self) -> Exchange:
        with translated(httpx.WriteTimeout):
            return Exchange(self._asked, self._passage.limits)

    def _is_repeatable(self) -> bool:
        return self._request.method in _REPEATABLE and isinstance(self._request.stream, httpx.ByteStream)

    async def _open(self, connection: AbstractAsyncContextManager[T]) -> T:
        with translated(httpx.ConnectTimeout), self.within("connect", httpx.ConnectTimeout):
            entered = await connection.__aenter__()
        self._opened = connection
        return entered

    async def _exchange(self, exchange: Exchange, stream: Stream, keep: Callable[[], None]) -> Answer:
        # The peer may have said why before it went: see what there is.
        with translated(httpx.WriteTimeout), suppress(Disconnected):
            await self._send(stream, exchange)
        buffer = Buffer()
        waiting = exchange.read_head(buffer)
        with translated(httpx.ReadTimeout):
            while True:
                try:
                    next(waiting)
                except StopIteration as done:
                    return Answer(stream, buffer, exchange, done.value, keep)
                with self.within("read", httpx.ReadTimeout):
                    buffer.feed(await stream.receive())

    async def _send(self, stream: Stream, exchange: Exchange) -> None:
        lines = [exchange.line]
        assert isinstance(self._request.stream, httpx.AsyncByteStream)
        async for octets in self._request.stream:
            if octets:
                lines.append(exchange.encode_body(octets))
                await self._write(stream, *lines)
                lines = []
        await self._write(stream, *lines, exchange.encode_end())

    async def _write(self, stream: Stream, *lines: Line) -> None:
        with self.within("write", httpx.WriteTimeout):
            await stream.send(*lines)

    def lead_on(self, found_in: Referrer) -> None:
        """The client may follow this answer: httpx hands these extensions on to the request it makes."""
        hops = cast(int, self._request.extensions.get("hops", 0)) + 1
        self._request.extensions.update(origin="derived", referrer=tuple(found_in), hops=hops)
        self._request.extensions.pop("target", None)

    @contextmanager
    def within(self, what: str, error: type[httpx.TimeoutException]) -> Iterator[None]:
        """Bound what is awaited inside by a timeout of the client's."""
        seconds = self._timeouts.get(what)
        with trio.move_on_after(float("inf") if seconds is None else seconds) as scope:
            yield
        if scope.cancelled_caught:
            raise error(f"not done within {seconds:g} s")

    async def aclose(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.__aexit__(None, None, None)


class ResponseStream(httpx.AsyncByteStream):
    """The body for httpx; closing it gives the connection back, or up."""

    def __init__(self, call: Call, body: Body, most: int | None) -> None:
        self._call = call
        self._body = body
        self._most = most
        self._received = 0

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        with translated(httpx.ReadTimeout):
            with self._call.within("read", httpx.ReadTimeout):
                octets = await anext(self._body)
            self._received += len(octets)
            if self._most is not None and self._received > self._most:
                raise LimitExceeded("body", f"the body is larger than the limit of {self._most} octets")
        return octets

    async def aclose(self) -> None:
        await self._call.aclose()
