"""What a body is made of while it is read: the octets of one `EmitBody`, or of one `CopyBody`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from protocols.contract import LocalFile, Sink
from protocols.errors import Disconnected, Truncated
from protocols.step import CopiedBody, CopyBody, EmitBody
from protocols.wire import Buffer


class EmittedBody:
    """What a `EmitBody` gives."""

    answer = None

    def __init__(self, step: EmitBody) -> None:
        self._octets = step.octets
        self.delivered = 0

    async def next(self) -> bytes:
        octets, self._octets = self._octets, b""
        self.delivered += len(octets)
        return octets

    async def drain(self, sink: Sink) -> None:
        sink.write(await self.next())


class BodySource(Protocol):
    """Where the octets of a `CopyBody` come from: a `Stream`, or a file that is like one."""

    @property
    def received(self) -> int: ...

    @property
    def close_notify_seen(self) -> bool: ...

    async def receive(self) -> bytes: ...

    async def move(self, sink: Sink, count: int | None) -> int: ...


class FileBodySource:
    """A file, from its octet `begin` until its end."""

    close_notify_seen = False

    def __init__(self, file: LocalFile, begin: int) -> None:
        self._file = file
        self._file.begin_at(begin)
        self.received = 0

    @property
    def modified(self) -> bool:
        return self._file.modified_since()

    async def receive(self) -> bytes:
        octets = await self._file.read()
        self.received += len(octets)
        return octets

    async def move(self, sink: Sink, count: int | None) -> int:
        assert count is None, "a file is passed to its end"
        moved = await self._file.move(sink)
        self.received += moved
        return moved


class CopiedBodyStream:
    """The octets of a `CopyBody` on their way: what was read ahead first, then the connection. `delivered`
    counts those behind the filter."""

    def __init__(self, step: CopyBody, stream: BodySource, buffer: Buffer) -> None:
        self._step = step
        self._count = step.count
        self._filter = step.filter
        self._stream = stream
        self._buffer = buffer
        self._passed = 0
        self._pieces: Iterable[bytes] = ()
        self._ended = False
        self.delivered = 0

    @property
    def answer(self) -> CopiedBody:
        modified = isinstance(self._stream, FileBodySource) and self._stream.modified
        return CopiedBody(self._passed, self._stream.close_notify_seen, modified)

    async def next(self) -> bytes:
        """The next octets; none at the end."""
        if self._filter is None:
            octets = b"" if self._ended else await self._receive()
            if not octets and not self._ended:
                self._check_end()
                self._ended = True
            self.delivered += len(octets)
            return octets
        while True:
            for octets in self._pieces:
                if octets:
                    self.delivered += len(octets)
                    return octets
            if self._ended:
                return b""
            octets = await self._receive()
            if not octets:
                self._check_end()
                self._ended = True
            self._pieces = iter(self._filter.feed(octets) if octets else self._filter.finish())

    async def drain(self, sink: Sink) -> None:
        if self._filter is not None:
            while octets := await self.next():
                sink.write(octets)
            return
        if self._buffer and self._passed != self._count:
            sink.write(await self.next())
        if not self._buffer.at_end and self._passed != self._count:
            await self._move(sink)
        self._check_end()

    async def _receive(self) -> bytes:
        if self._count == self._passed:
            return b""
        octets = self._buffer.take() if self._buffer else await self._receive_more()
        self._passed += len(octets)
        if self._count is not None and self._passed > self._count:
            behind = self._passed - self._count
            self._buffer.feed(octets[-behind:])
            octets = octets[:-behind]
            self._passed = self._count
        return octets

    async def _receive_more(self) -> bytes:
        if self._buffer.at_end:
            return b""
        try:
            if self._buffer.broken is not None:
                raise self._buffer.broken
            octets = await self._stream.receive()
        except Disconnected as error:
            if not self._passed:
                raise
            raise self._reset() from error
        if not octets:
            self._buffer.feed(b"")
        return octets

    async def _move(self, sink: Sink) -> None:
        before = self._passed - self._stream.received
        try:
            if self._buffer.broken is not None:
                raise self._buffer.broken
            await self._stream.move(sink, None if self._count is None else self._count - self._passed)
        except Disconnected as error:
            self._count_moved(before)
            if not self._passed:
                raise
            raise self._reset() from error
        self._count_moved(before)

    def _count_moved(self, before: int) -> None:
        moved = before + self._stream.received - self._passed
        self._passed += moved
        self.delivered += moved

    def _check_end(self) -> None:
        if self._count is None or self._passed == self._count:
            return
        if not self._passed:
            raise Disconnected(
                f"the connection ended before the first of {self._step.count} octets of the body"
            )
        raise self._truncated(f"the body ended after {self._passed} of {self._step.count} octets")

    def _reset(self) -> Truncated:
        return self._truncated(f"the connection was reset after {self._passed} octets of the body")

    def _truncated(self, message: str) -> Truncated:
        step = self._step
        expected = step.count if step.expected is None else step.expected
        return Truncated(message, received=self._passed, expected=expected)
