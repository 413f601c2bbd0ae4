"""Multi-line blocks, to the letter (RFC 3977 3.1.1).

A block begins right behind the status line's line end and ends with a line of one period. *Only CR LF
ends a line*: a lone LF or CR is content like any other octet, so that an article holding
`LF . LF 200 …` is an article and not an answer. A line that begins with a period and goes on loses
that period. The line end before the last period belongs to the content; nothing is added or trimmed.
Lines have no limit, and the octets are looked at in bulk.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Generator

from protocols.connection import Sink, Stream
from protocols.errors import Disconnected, LimitExceeded, Truncated
from protocols.wire import Buffer, Reader

_PERIOD = re.compile(rb"(?<=\r\n)\.")
_END_LENGTH = 5  # CR LF . CR LF


class Block:
    """Takes the content of one block out of a buffer, as far as it is certain.

    `ended` when the terminator has been taken; what follows it is left in the buffer. `received` counts
    the octets of the content, `terminator` is what ended it.
    """

    def __init__(self) -> None:
        self._begun = False
        self.ended = False
        self.received = 0
        self.terminator = b""

    def take(self, buffer: Buffer) -> bytes:
        """Content that no later octet can change; nothing if more is needed first. Raises `Truncated`
        when the buffer is at its end and the block is not."""
        if not self._begun:
            self._begin(buffer)
        content = self._take(buffer) if self._begun and not self.ended else b""
        self.received += len(content)
        if buffer.at_end and not self.ended and not content:
            raise cut_block(self.received)
        return content

    def _begin(self, buffer: Buffer) -> None:
        """The first line has no line end before it."""
        first = buffer.peek(3)
        if first == b".\r\n":
            self.terminator = buffer.take(3)
            self._begun = self.ended = True
        elif first not in (b"", b".", b".\r") or buffer.at_end:
            if first.startswith(b"."):
                buffer.take(1)
            self._begun = True

    def _take(self, buffer: Buffer) -> bytes:
        index = buffer.find(b"\r\n.\r\n", len(buffer))
        if index < 0:
            return _undot(buffer.take(len(buffer) - _open_length(buffer)))
        content = buffer.take(index + 2)
        self.terminator = buffer.take(_END_LENGTH - 2)
        self.ended = True
        return _undot(content)


def _open_length(buffer: Buffer) -> int:
    """How many octets at the end of the buffer may turn out to belong to a terminator or to a line end
    before a period: the longest that one begins with."""
    tail = buffer.tail(_END_LENGTH - 1)
    for start in range(len(tail)):
        if tail[start:] in (b"\r", b"\r\n", b"\r\n.", b"\r\n.\r"):
            return len(tail) - start
    return 0


def _undot(octets: bytes) -> bytes:
    # Most content has no such line, and finding that out is thirty times faster than the pattern.
    return _PERIOD.sub(b"", octets) if octets.find(b"\r\n.") >= 0 else octets


def cut_block(received: int) -> Truncated:
    return Truncated(f"the connection ended inside a block, after {received} octets", received=received)


def read_block(limit: int) -> Reader[bytes]:
    """A reader for the whole content of a block of at most `limit` octets: `LimitExceeded` (lines)."""

    def reader(buffer: Buffer) -> Generator[None, None, bytes]:
        block = Block()
        pieces = []
        while not block.ended:
            content = block.take(buffer)
            pieces.append(content)
            if block.received > limit:
                raise LimitExceeded("lines", f"an answer is longer than {limit} octets")
            if not content and not block.ended:
                yield
        return b"".join(pieces)

    return reader


def skip_block(limit: int) -> Reader[None]:
    """A reader that takes a block and keeps nothing of it; more than `limit` octets are not waited for."""

    def reader(buffer: Buffer) -> Generator[None, None, None]:
        block = Block()
        while not block.ended:
            content = block.take(buffer)
            if block.received > limit:
                raise LimitExceeded("lines", f"an answer that nobody wants is longer than {limit} octets")
            if not content and not block.ended:
                yield

    return reader


class BlockBody:
    """A block as a body: iterate it or drain it.

    `at_end` is awaited when the terminator has come; what it raises is raised in place of the end. A
    connection that ends or breaks inside the block is `Truncated`: its status line has come, so the
    answer has begun.
    """

    def __init__(
        self, stream: Stream, buffer: Buffer, at_end: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        self._stream = stream
        self._buffer = buffer
        self._at_end = at_end
        self.block = Block()

    def __aiter__(self) -> BlockBody:
        return self

    async def __anext__(self) -> bytes:
        while not self.block.ended:
            content = self.block.take(self._buffer)
            if content:
                return content
            if not self.block.ended:
                await self._receive()
        if self._at_end is not None:
            at_end, self._at_end = self._at_end, None
            await at_end()
        raise StopAsyncIteration

    async def drain(self, sink: Sink) -> int:
        before = self.block.received
        async for content in self:
            sink.write(content)
        return self.block.received - before

    async def _receive(self) -> None:
        try:
            self._buffer.feed(await self._stream.receive())
        except Disconnected as error:
            raise cut_block(self.block.received) from error
