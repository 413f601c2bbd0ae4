"""A body that comes in pieces and goes through a filter on its way, as the driver passes it."""

from __future__ import annotations

from collections.abc import Iterable

from protocols.contract import Filter, Sink
from protocols.conversation.performer import CopiedBodyStream
from protocols.step import CopyBody
from protocols.wire import Buffer


class Pieces:
    """Octets that come in these pieces, and how many of them were taken."""

    close_notify_seen = False

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self.received = 0

    async def receive(self) -> bytes:
        octets = next(self._pieces, b"")
        self.received += len(octets)
        return octets

    async def move(self, sink: Sink, count: int | None) -> int:
        raise AssertionError("what goes through a filter cannot be moved as it is")


class Filtered:
    """What comes out."""

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
