"""A body that arrives in pieces and passes through a filter, as in the driver."""

from __future__ import annotations

from collections.abc import Iterable

from protocols.contract import Filter, Sink
from protocols.conversation.performer import CopiedBodyStream
from protocols.step import CopyBody
from protocols.wire import Buffer


class Pieces:
    """A source that returns the given pieces and counts the bytes received."""

    close_notify_seen = False

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self.received = 0

    async def receive(self) -> bytes:
        octets = next(self._pieces, b"")
        self.received += len(octets)
        return octets

    async def move(self, sink: Sink, count: int | None) -> int:
        raise AssertionError("filtered bytes cannot be moved in bulk")


class Filtered:
    """The filtered body, as an async iterator."""

    def __init__(self, pieces: Pieces, filter: Filter) -> None:
        self._passing = CopiedBodyStream(CopyBody("a body", filter=filter), pieces, Buffer())

    def __aiter__(self) -> Filtered:
        return self

    async def __anext__(self) -> bytes:
        if octets := await self._passing.read_next():
            return octets
        raise StopAsyncIteration

    async def drain(self, sink: Sink) -> int:
        await self._passing.drain(sink)
        return self._passing.delivered
