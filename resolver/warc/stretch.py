"""The octets of records as they were before they were packed: of one member of gzip (RFC 1952), or of a file
that is not packed.

However much a member unpacks to, at most 64 KiB of it are held, and nothing is made as large as it says.
However members and records overlap, what is read and unpacked again is bounded by a `Budget`.
"""

from __future__ import annotations

import zlib
from typing import Protocol

from protocols.errors import LocalError

#: How a member of gzip begins: its magic, and the one method that there is.
GZIP = b"\x1f\x8b\x08"

#: Octets taken from a file, and unpacked, in one go.
AT_ONCE = 65_536
#: The same at the first go, and twice as many at each further one: a damaged start costs little.
AT_FIRST = 1_024

#: What zlib takes for gzip alone, with its largest window.
_GZIP_ONLY = 31


class DamagedRecord(Exception):
    """What is read is no record, or not a whole one: the message says why. `is_cut`: it only ends too early.
    `is_other`: it is whole, for all we know, and of a format that we do not read."""

    def __init__(self, message: str, *, is_cut: bool = False, is_other: bool = False) -> None:
        super().__init__(message)
        self.is_cut = is_cut
        self.is_other = is_other


class RecordSource(Protocol):
    """A file that can be read anywhere. `read_at` gives fewer octets only at its end."""

    def read_at(self, offset: int, size: int, /) -> bytes: ...


class Budget:
    """What may be read again of a file that is read from `begin` on.

    An octet pays for itself, and for all that it can unpack to, when it is read first. To read or unpack it
    again is charged: at most `times` octets for each octet that was read, and `spare`. Behind damage reading
    starts anew wherever a record or a member may begin: where members overlap, or all lengths reach to the
    end of the file, that would cost the square of its size.
    """

    #: What deflate makes of one octet at most (1032, zlib.net/zlib_tech.html), and the octet itself.
    _DENSEST = 1_033

    def __init__(self, begin: int, *, times: int = 8, spare: int = 67_108_864) -> None:
        self._begin = self._furthest = begin
        self._times = times
        self._spare = spare
        self._again = 0

    def take(self, begin: int, end: int, made: int) -> None:
        """Count the octets from `begin` to `end`, and the `made` ones that they unpacked to. Raises
        `LocalError`."""
        fresh = max(0, end - max(begin, self._furthest))
        self._furthest = max(self._furthest, end)
        self._again += max(0, end - begin + made - fresh * self._DENSEST)
        if self._again > self._spare + self._times * (self._furthest - self._begin):
            raise LocalError(
                f"damaged or overlapping records: up to octet {self._furthest} it was read and unpacked again"
                f" for {self._again} octets, and no further (keep what is before the first damage)"
            )


class RecordStream:
    """Octets from `offset` of the source on, as they are; `line` and `read` go forward, never back."""

    def __init__(self, source: RecordSource, offset: int, budget: Budget) -> None:
        self._source = source
        self._next = offset
        self._budget = budget
        self._at_once = AT_FIRST
        self._held = b""
        self._at = 0

    @property
    def end(self) -> int:
        """Where in the file what was read so far ends."""
        return self._next - (len(self._held) - self._at)

    def read(self, size: int) -> bytes:
        """At most `size` of what follows; nothing at the end. Raises `DamagedRecord`."""
        if self.is_at_end():
            return b""
        piece = self._held[self._at : self._at + size]
        self._at += len(piece)
        return piece

    def read_all(self, size: int) -> bytes:
        """As many as `size`, which is small; fewer only at the end. Raises `DamagedRecord`."""
        octets = b""
        while len(octets) < size and (piece := self.read(size - len(octets))):
            octets += piece
        return octets

    def is_at_end(self) -> bool:
        """Is there no more? Raises `DamagedRecord`."""
        if self._at == len(self._held):
            self._held, self._at = self._more(), 0
        return not self._held

    def line(self, most: int) -> bytes:
        """A line with its line end, of at most `most` octets; what there is of one at the end. Raises
        `DamagedRecord`."""
        pieces: list[bytes] = []
        length = 0
        while True:
            if self.is_at_end():
                return b"".join(pieces)
            end = self._held.find(b"\n", self._at) + 1
            piece = self._held[self._at : end or len(self._held)]
            length += len(piece)
            if length > most:
                raise DamagedRecord(f"a line of a head is longer than {most} octets")
            self._at += len(piece)
            pieces.append(piece)
            if end:
                return b"".join(pieces)

    def _more(self) -> bytes:
        """What comes next; nothing at the end."""
        octets = self._read()
        self._budget.take(self._next - len(octets), self._next, 0)
        return octets

    def _read(self) -> bytes:
        octets = self._source.read_at(self._next, self._at_once)
        self._next += len(octets)
        self._at_once = min(2 * self._at_once, AT_ONCE)
        return octets


class GzipMember(RecordStream):
    """What is in one member of gzip. That it is whole (its length, its CRC) is known at its end."""

    def __init__(self, source: RecordSource, offset: int, budget: Budget) -> None:
        super().__init__(source, offset, budget)
        self._unpacker = zlib.decompressobj(_GZIP_ONLY)
        self._packed = b""

    @property
    def end(self) -> int:
        return self._next - len(self._unpacker.unused_data if self._unpacker.eof else self._packed)

    def _more(self) -> bytes:
        while not self._unpacker.eof:
            packed = self._packed or self._read()
            begin = self._next - len(packed)
            try:
                octets = self._unpacker.decompress(packed, self._at_once)
            except zlib.error as error:
                self._budget.take(begin, begin, len(packed))  # how much of it was unpacked zlib does not say
                raise DamagedRecord(f"what is packed is damaged ({error})") from error
            self._packed = self._unpacker.unconsumed_tail
            self._budget.take(begin, self.end, len(octets))
            if octets:
                return octets
            if not packed:
                raise DamagedRecord("the file ends within what is packed", is_cut=True)
        return b""


def open_stretch(source: RecordSource, offset: int, budget: Budget) -> RecordStream | None:
    """What begins at an offset, packed or not; None at the end of the file."""
    beginning = source.read_at(offset, len(GZIP))
    if not beginning:
        return None
    return (GzipMember if GZIP.startswith(beginning) else RecordStream)(source, offset, budget)
