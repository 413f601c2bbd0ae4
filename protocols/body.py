"""Bodies: the octets behind a hand-over, to be iterated or drained into a file.

A `StreamBody` takes what was read ahead first, then the connection, to a known count or to the end,
and knows how much came. A `Filtered` body passes another one through a machine. An `Octets` body is
what was at hand already. None of them collects anything.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Callable
from typing import TYPE_CHECKING, Protocol

from protocols.errors import Disconnected, Truncated
from protocols.wire import Buffer

if TYPE_CHECKING:  # a plan knows of bodies that can be undone, and needs no more of the contract
    from protocols.contract import Body, Sink, Stream


class Filter(Protocol):
    """A machine that turns the octets of a body into others."""

    def feed(self, octets: bytes) -> bytes: ...

    def finish(self) -> bytes:
        """The octets have ended: what was held back. May raise `Truncated` or `ProtocolError`."""
        ...


async def pour(pieces: AsyncIterable[bytes], sink: Sink) -> int:
    """Everything into the sink, piece by piece; how many octets. For bodies that cannot be moved in bulk."""
    count = 0
    async for octets in pieces:
        sink.write(octets)
        count += len(octets)
    return count


class Octets:
    """A body that is here already."""

    def __init__(self, octets: bytes = b"") -> None:
        self._octets = octets

    def __aiter__(self) -> Octets:
        return self

    async def __anext__(self) -> bytes:
        octets, self._octets = self._octets, b""
        if not octets:
            raise StopAsyncIteration
        return octets

    async def drain(self, sink: Sink) -> int:
        octets, self._octets = self._octets, b""
        sink.write(octets)
        return len(octets)


class StreamBody:
    """The octets of `stream` behind those in `buffer`: exactly `count`, or until the end (None).

    `received` counts what was delivered. When the connection ends before `count`, or is reset:
    `Truncated`, with both numbers, if the body had begun, and `Disconnected` if not. `at_end` is
    awaited once the last octet is out; what it raises is raised in place of the end. `announced` is a
    number of octets that somebody gave and that marks no end; it is only told in errors.
    """

    def __init__(
        self,
        stream: Stream,
        buffer: Buffer,
        count: int | None = None,
        at_end: Callable[[], Awaitable[None]] | None = None,
        announced: int | None = None,
    ) -> None:
        self._stream = stream
        self._buffer = buffer
        self._count = count
        self._announced = count if announced is None else announced
        self._at_end = at_end
        self._ended = False
        self.received = 0

    def __aiter__(self) -> StreamBody:
        return self

    async def __anext__(self) -> bytes:
        octets = b"" if self._left() == 0 else await self._next()
        if not octets:
            await self._finish()
            raise StopAsyncIteration
        self.received += len(octets)
        return octets

    async def drain(self, sink: Sink) -> int:
        before = self.received
        if self._buffer:
            octets = self._buffer.take(_at_most(self._left(), len(self._buffer)))
            sink.write(octets)
            self.received += len(octets)
        if not self._buffer.at_end and self._left() != 0:
            await self._move(sink)
        await self._finish()
        return self.received - before

    async def _move(self, sink: Sink) -> None:
        before = self.received - self._stream.received
        try:
            await self._stream.move(sink, self._left())
        except Disconnected as error:
            self.received = before + self._stream.received
            raise self._cut(error) from error
        self.received = before + self._stream.received

    def _left(self) -> int | None:
        return None if self._count is None else self._count - self.received

    async def _next(self) -> bytes:
        if not self._buffer:
            if self._buffer.at_end:
                return b""
            try:
                self._buffer.feed(await self._stream.receive())
            except Disconnected as error:
                raise self._cut(error) from error
        return self._buffer.take(_at_most(self._left(), len(self._buffer)))

    async def _finish(self) -> None:
        if self._ended:
            return
        self._ended = True
        if self._left() and self.received == 0:
            raise Disconnected(f"the connection ended before the first of {self._count} octets of the body")
        if self._left():
            raise Truncated(
                f"the body ended after {self.received} of {self._count} octets",
                received=self.received,
                expected=self._count,
            )
        if self._at_end is not None:
            await self._at_end()

    def _cut(self, error: Disconnected) -> Disconnected | Truncated:
        if self.received == 0:
            return error
        return Truncated(
            f"the connection was reset after {self.received} octets of the body",
            received=self.received,
            expected=self._announced,
        )


class Filtered:
    """A body passed through a filter. Draining it moves what the filter gives."""

    def __init__(self, body: Body, filter_: Filter) -> None:
        self._body = body
        self._filter = filter_
        self._finished = False

    def __aiter__(self) -> Filtered:
        return self

    async def __anext__(self) -> bytes:
        while not self._finished:
            try:
                octets = self._filter.feed(await anext(self._body))
            except StopAsyncIteration:
                self._finished = True
                octets = self._filter.finish()
            if octets:
                return octets
        raise StopAsyncIteration

    async def drain(self, sink: Sink) -> int:
        return await pour(self, sink)


def _at_most(left: int | None, have: int) -> int:
    return have if left is None else min(left, have)
