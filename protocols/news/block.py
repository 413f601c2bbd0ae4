"""Multi-line data blocks, to the letter (RFC 3977 3.1.1), and the lines of a listing in one.

A block begins right behind the status line's line end and ends with a line of one period. *Only CR LF
ends a line*: a lone LF or CR is content like any other octet, so that an article holding
`LF . LF 200 …` is an article and not a response. A line that begins with a period and goes on loses
that period. The line end before the last period belongs to the content; nothing is added or trimmed.
Lines have no limit, and the octets are looked at in bulk.
"""

from __future__ import annotations

import re
from collections.abc import Generator

from protocols.errors import Disconnected, LimitExceeded, Truncated
from protocols.step import Dialogue, EmitBody, receive
from protocols.wire import Buffer, Reader

_PERIOD = re.compile(rb"(?<=\r\n)\.")
_END_LENGTH = 5  # CR LF . CR LF


class DataBlock:
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

    def read(self, buffer: Buffer) -> Generator[None, None, bytes]:
        """A reader for the next of the content; nothing once the block has ended."""
        while not (content := self.take(buffer)) and not self.ended:
            yield
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


class UntouchedBlock(DataBlock):
    """One whose content is the block as it came, its periods and the line that ends it included."""

    def _begin(self, buffer: Buffer) -> None:
        self._begun = buffer.peek(3) not in (b"", b".", b".\r") or buffer.at_end

    def _take(self, buffer: Buffer) -> bytes:
        if not self.received and buffer.peek(3) == b".\r\n":
            return self._end(buffer.take(3))
        index = buffer.find(b"\r\n.\r\n", len(buffer))
        if index < 0:
            return buffer.take(len(buffer) - _open_length(buffer))
        return self._end(buffer.take(index + _END_LENGTH))

    def _end(self, octets: bytes) -> bytes:
        self.ended = True
        return octets


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
        block = DataBlock()
        pieces = []
        while not block.ended:
            pieces.append((yield from block.read(buffer)))
            if block.received > limit:
                raise LimitExceeded("lines", f"an answer is longer than {limit} octets")
        return b"".join(pieces)

    return reader


def skip_block(limit: int) -> Reader[None]:
    """A reader that takes a block and keeps nothing of it; more than `limit` octets are not waited for."""

    def reader(buffer: Buffer) -> Generator[None, None, None]:
        block = DataBlock()
        while not block.ended:
            yield from block.read(buffer)
            if block.received > limit:
                raise LimitExceeded("lines", f"an answer that nobody wants is longer than {limit} octets")

    return reader


def give_block(block: DataBlock, what: str, given: int = 0) -> Dialogue[None]:
    """The content of a block into a body that has `given` octets already. What follows the block is left.

    A connection that ends or breaks before the block has ended is `Truncated`, and `Disconnected` before the
    first octet of the body.
    """
    while not block.ended:
        try:
            octets = yield from receive(block.read, f"{what}, up to a line with a lone period", b"")
        except (Disconnected, Truncated) as error:
            if given or block.received:
                raise cut_block(block.received) from error
            raise Disconnected("the connection ended before the first octet of the answer") from error
        if not octets:
            return
        yield EmitBody(octets)


class BlockLines:
    """Splits the content of a block into lines; holds the one that has not ended yet.

    Raises `LimitExceeded` (line) for a line of more than `limit` octets.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rest = bytearray()

    def feed(self, octets: bytes) -> list[bytes]:
        """The lines that have ended now, without their ends."""
        self._rest += octets
        if b"\n" not in octets:
            self._check(len(self._rest))
            return []
        *lines, rest = bytes(self._rest).split(b"\r\n")
        self._rest = bytearray(rest)
        self._check(max(map(len, [*lines, rest])))
        return lines

    def finish(self) -> list[bytes]:
        """The octets have ended: what stands behind the last line end."""
        rest, self._rest = bytes(self._rest), bytearray()
        return [rest] if rest else []

    def _check(self, longest: int) -> None:
        if longest > self._limit:
            raise LimitExceeded("line", f"a line of the listing is longer than {self._limit} octets")
