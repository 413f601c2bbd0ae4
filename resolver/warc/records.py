"""The parser for WARC files, which returns complete records and damaged spans in order.

A record is complete if its block has the length that the header states, CR LF CR LF follows the block, and
the gzip member is complete. After damaged bytes, the parser continues at the next record.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Generic, NamedTuple, Protocol, TypeVar

from protocols.errors import LocalError
from protocols.location import Headers

# Streams of decompressed bytes, from one gzip member (RFC 1952) or from an uncompressed file.
#
# A stream buffers at most 64 KiB of decompressed bytes. The size of a buffer never depends on a length field
# in the file. A `Budget` limits repeated reads and repeated decompression, as protection against zip bombs.

#: The first bytes of a gzip member: the magic number and the compression method deflate.
GZIP = b"\x1f\x8b\x08"

#: The maximum number of bytes that one step reads from a file, and that one step decompresses.
AT_ONCE = 65_536
#: The size in bytes of the first read at a position of the file. Each further read has twice the size. So a
#: failed attempt to parse a record at a damaged position takes little time.
AT_FIRST = 1_024

#: The `wbits` value of zlib for the gzip format with the maximum window size.
GZIP_ONLY = 31


class DamagedRecord(Exception):
    """An incomplete record, or bytes that are not a record; the message gives the reason.

    Attributes:
        is_cut: whether the record is truncated but otherwise valid.
        is_other: whether the record seems to be complete but has an unsupported format.
    """

    def __init__(self, message: str, *, is_cut: bool = False, is_other: bool = False) -> None:
        super().__init__(message)
        self.is_cut = is_cut
        self.is_other = is_other


class RecordSource(Protocol):
    """A file with random access; `read_at` returns fewer bytes only at the end of the file."""

    def read_at(self, offset: int, size: int, /) -> bytes: ...


class Budget:
    """A limit on repeated reads and repeated decompression of a file that is read from offset `begin` on.

    Only repeated reads and repeated decompression count. The limit is `times` bytes for each byte of the file
    that was read, plus `spare` bytes.

    After damaged bytes, the parser tries each possible start of a record or a gzip member. In a malicious
    file, members may overlap, or all lengths may extend to the end of the file. Without a limit, parsing
    would take quadratic time in the file size.
    """

    #: The maximum compression ratio of deflate (1032 bytes for one byte, zlib.net/zlib_tech.html), plus 1 for
    #: the compressed byte.
    _DENSEST = 1_033

    def __init__(self, begin: int, *, times: int = 8, spare: int = 67_108_864) -> None:
        self._begin = self._furthest = begin
        self._times = times
        self._spare = spare
        self._again = 0

    def take(self, begin: int, end: int, made: int) -> None:
        """Count the read bytes from offset `begin` to `end`, and the `made` bytes decompressed from them.

        Raises:
            LocalError: The limit is exceeded.
        """
        fresh = max(0, end - max(begin, self._furthest))
        self._furthest = max(self._furthest, end)
        self._again += max(0, end - begin + made - fresh * self._DENSEST)
        if self._again > self._spare + self._times * (self._furthest - self._begin):
            raise LocalError(
                f"too many damaged or overlapping records: up to byte {self._furthest}, {self._again} bytes"
                f" were read and unpacked again (keep the records before the first damage)"
            )


class RecordStream:
    """A stream of the uncompressed bytes of the source from `offset` on."""

    def __init__(self, source: RecordSource, offset: int, budget: Budget) -> None:
        self._source = source
        self._next = offset
        self._budget = budget
        self._at_once = AT_FIRST
        self._held = b""
        self._at = 0

    @property
    def end(self) -> int:
        """Return the current offset in the file."""
        return self._next - (len(self._held) - self._at)

    def read(self, size: int) -> bytes:
        """Return at most `size` bytes; the result is empty at the end. Raises `DamagedRecord`."""
        if self.is_at_end():
            return b""
        piece = self._held[self._at : self._at + size]
        self._at += len(piece)
        return piece

    def read_all(self, size: int) -> bytes:
        """Return `size` bytes, or fewer bytes at the end of the stream.

        `size` must be small, because the bytes are joined in memory.

        Raises:
            DamagedRecord: The compressed data is damaged.
        """
        octets = b""
        while len(octets) < size and (piece := self.read(size - len(octets))):
            octets += piece
        return octets

    def is_at_end(self) -> bool:
        """Return whether all bytes were read. Raises `DamagedRecord`."""
        if self._at == len(self._held):
            self._held, self._at = self._read_more(), 0
        return not self._held

    def line(self, most: int) -> bytes:
        """Return the next line with its line end; at the end of the stream the line may be incomplete.

        Raises:
            DamagedRecord: The line is longer than `most` bytes.
        """
        pieces: list[bytes] = []
        length = 0
        while True:
            if self.is_at_end():
                return b"".join(pieces)
            end = self._held.find(b"\n", self._at) + 1
            piece = self._held[self._at : end or len(self._held)]
            length += len(piece)
            if length > most:
                raise DamagedRecord(f"a line of a head is longer than {most} bytes")
            self._at += len(piece)
            pieces.append(piece)
            if end:
                return b"".join(pieces)

    def _read_more(self) -> bytes:
        """Return the next bytes; the result is empty at the end of the stream."""
        octets = self._read()
        self._budget.take(self._next - len(octets), self._next, 0)
        return octets

    def _read(self) -> bytes:
        octets = self._source.read_at(self._next, self._at_once)
        self._next += len(octets)
        self._at_once = min(2 * self._at_once, AT_ONCE)
        return octets


class GzipMember(RecordStream):
    """A stream of the content of one gzip member.

    The length and the CRC checksum at the end of the member show whether the member is complete.
    """

    def __init__(self, source: RecordSource, offset: int, budget: Budget) -> None:
        super().__init__(source, offset, budget)
        self._unpacker = zlib.decompressobj(GZIP_ONLY)
        self._packed = b""

    @property
    def end(self) -> int:
        return self._next - len(self._unpacker.unused_data if self._unpacker.eof else self._packed)

    def _read_more(self) -> bytes:
        while not self._unpacker.eof:
            packed = self._packed or self._read()
            begin = self._next - len(packed)
            try:
                octets = self._unpacker.decompress(packed, self._at_once)
            except zlib.error as error:
                # zlib does not report the number of decompressed bytes before the error.
                self._budget.take(begin, begin, len(packed))
                raise DamagedRecord(f"damaged gzip data ({error})") from error
            self._packed = self._unpacker.unconsumed_tail
            self._budget.take(begin, self.end, len(octets))
            if octets:
                return octets
            if not packed:
                raise DamagedRecord("the file ends inside gzip data", is_cut=True)
        return b""


def open_stretch(source: RecordSource, offset: int, budget: Budget) -> RecordStream | None:
    """Return the compressed or uncompressed stream at an offset, or None at the end of the file."""
    beginning = source.read_at(offset, len(GZIP))
    if not beginning:
        return None
    return (GzipMember if GZIP.startswith(beginning) else RecordStream)(source, offset, budget)


# The header of a record (WARC 1.1, 4 and 5).

#: The limits of a record header (S16): the bytes of a line, the number of lines, and the total bytes.
MOST_LINE = 65_536
MOST_LINES = 1_000
MOST_HEAD = 262_144

_VERSIONS = (b"WARC/1.0", b"WARC/1.1")
#: The first bytes of other archive formats.
_OTHERS = (
    (re.compile(rb"WARC/[0-9]+\.[0-9]+\r?\n"), "a WARC version other than 1.0 and 1.1"),
    (re.compile(rb"filedesc:"), "an ARC file, the predecessor of WARC"),
    (re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18"), "compressed with zstd (decompress it first)"),
)
_TOKEN = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_LENGTH = re.compile(r"[0-9]{1,18}", re.ASCII)
#: The value of WARC-Date in W3CDTF format (WARC 1.1, 5.4). The precision may vary from years to nanoseconds.
_DATE = re.compile(
    r"([0-9]{4})(?:-([0-9]{2})(?:-([0-9]{2})(?:T([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?Z)?)?)?",
    re.ASCII,
)
#: The header fields that may be repeated.
_SEVERAL = frozenset({"warc-concurrent-to", "warc-protocol"})


class RecordHead(NamedTuple):
    """The header of a record; `length` is the length of the block in bytes.

    For a repeated field, the first value is used.
    """

    fields: Headers
    length: int

    def get_first(self, name: str) -> str | None:
        values = self.fields.get_list(name)
        return values[0] if values else None

    @property
    def type(self) -> str:
        return (self.get_first("WARC-Type") or "").lower()

    @property
    def id(self) -> str | None:
        return self.get_first("WARC-Record-ID")

    @property
    def target(self) -> str | None:
        """Return the URL without the angle brackets that some programs write around the URL."""
        text = self.get_first("WARC-Target-URI")
        return text[1:-1] if text is not None and text[:1] == "<" and text[-1:] == ">" else text

    @property
    def date(self) -> datetime | None:
        """Return the time of the capture in UTC, or None for an invalid date."""
        return read_date(self.get_first("WARC-Date") or "")

    @property
    def media_type(self) -> str | None:
        """Return the media type of the block, in lower case and without parameters."""
        text = self.get_first("Content-Type")
        return None if text is None else text.partition(";")[0].strip().lower()

    def list_repeated(self) -> list[str]:
        """Return the names of the fields that are repeated although WARC forbids it."""
        return [
            name
            for name in self.fields.keys()  # noqa: SIM118 - pairs are what it iterates over
            if name not in _SEVERAL and len(self.fields.get_list(name)) > 1
        ]


def read_head(stretch: RecordStream) -> RecordHead | None:
    """Return the next record header, or None at the end of the stream. Raises `DamagedRecord`."""
    first = stretch.line(MOST_LINE)
    if not first:
        return None
    if _strip_end(first) not in _VERSIONS:
        for beginning, what in _OTHERS:
            if beginning.match(first):
                raise DamagedRecord(f"unsupported format: {what}", is_other=True)
        raise DamagedRecord("no WARC record begins here")
    fields = Headers(tuple(_fields(stretch, MOST_HEAD - len(first))))
    return RecordHead(fields, _length(fields.get_list("Content-Length")))


def _fields(stretch: RecordStream, most: int) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for _ in range(MOST_LINES):
        line = stretch.line(min(MOST_LINE, most))
        most -= len(line)
        if not line.endswith(b"\n"):
            raise DamagedRecord("the file ends within a head", is_cut=True)
        text = _strip_end(line)
        if not text:
            return pairs
        if b"\0" in text:
            raise DamagedRecord("a line of a head holds a NUL")
        if text[0] in b" \t" and pairs:  # WARC 1.0 allows folded lines.
            name, value = pairs[-1]
            pairs[-1] = (name, f"{value} {_text(text)}".strip())
            continue
        octets, colon, value_octets = text.partition(b":")
        if not colon or not _TOKEN.fullmatch(octets):
            raise DamagedRecord("a line of a head lacks a name and a colon")
        pairs.append((octets.decode("ascii"), _text(value_octets)))
    raise DamagedRecord(f"a head has more than {MOST_LINES} lines")


def _strip_end(line: bytes) -> bytes:
    return line.removesuffix(b"\n").removesuffix(b"\r")


def _text(octets: bytes) -> str:
    return octets.decode("utf-8", "surrogateescape").strip(" \t")


def _length(values: list[str]) -> int:
    if len(values) != 1:
        raise DamagedRecord(f"expected one Content-Length, got {len(values)}")
    if not _LENGTH.fullmatch(values[0]):
        raise DamagedRecord("Content-Length is not a number of bytes")
    return int(values[0])


def read_date(text: str) -> datetime | None:
    """Return the time of a WARC-Date, with the lowest value of missing components, or None."""
    match = _DATE.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction = match.groups()
    try:
        return datetime(
            int(year),
            int(month or 1),
            int(day or 1),
            int(hour or 0),
            int(minute or 0),
            int(second or 0),
            int(((fraction or "") + "000000")[:6]),
            tzinfo=UTC,
        )
    except ValueError:
        return None


_END = b"\r\n\r\n"
_FIRST = b"WARC/1."
#: The end of a record and the start of the next record in an uncompressed file. Some programs write LF
#: instead of CR LF.
_BEGINS = (b"\r\n\r\n" + _FIRST, b"\n\n" + _FIRST)


class WarcReader(Protocol):
    """The receiver of the bytes of a block, in order."""

    def take(self, octets: bytes, /) -> None: ...


R = TypeVar("R", bound=WarcReader)


@dataclass(frozen=True, slots=True)
class WarcRecord(Generic[R]):
    """A complete record.

    Attributes:
        offset: the start of the record, or of its gzip member, in the file.
        end: the end of the record, or of its gzip member, in the file.
        shares: whether another record follows in the same gzip member. That record may be damaged.
        reader: the reader that received the block.
    """

    offset: int
    end: int
    head: RecordHead
    reader: R
    shares: bool


@dataclass(frozen=True, slots=True)
class DamagedSpan:
    """A damaged span of a file from `offset` on.

    Attributes:
        resumes: the offset of the next record, or None without a further record.
        is_cut: whether the file is truncated but otherwise valid.
    """

    offset: int
    message: str
    resumes: int | None
    is_cut: bool


def read_records(
    source: RecordSource, reader_of: Callable[[RecordHead], R], offset: int = 0
) -> Iterator[WarcRecord[R] | DamagedSpan]:
    """Yield all records and damaged spans of a file in order.

    Args:
        source: The file.
        reader_of: A function that returns the reader for the block of a record.
        offset: The offset of the first record.

    Raises:
        LocalError: The file is not a WARC file, or the limit of its `Budget` is exceeded.
    """
    budget = Budget(offset)
    packed = source.read_at(offset, len(GZIP)) == GZIP
    begun: int | None = offset
    while begun is not None and (stretch := open_stretch(source, begun, budget)) is not None:
        try:
            if isinstance(stretch, GzipMember) != packed:
                raise DamagedRecord("file mixes gzip-compressed and uncompressed records")
            while (record := _read_record(stretch, begun, reader_of)) is not None:
                yield record
                begun = begun if packed else stretch.end
            begun = stretch.end
        except DamagedRecord as error:
            if error.is_other and begun == 0:
                raise LocalError(str(error)) from error
            search = _find_next_member if packed else _find_next_plain
            resumes = search(source, begun + 1, budget)
            yield DamagedSpan(begun, str(error), resumes, error.is_cut and resumes is None)
            begun = resumes


def read_one(source: RecordSource, offset: int, reader_of: Callable[[RecordHead], R]) -> WarcRecord[R]:
    """Return the record at `offset`.

    Raises:
        DamagedRecord: A complete record does not start at `offset`, or the reader stopped reading.
    """
    stretch = open_stretch(source, offset, Budget(offset))
    record = None if stretch is None else _read_record(stretch, offset, reader_of)
    if record is None:
        raise DamagedRecord("the file ends before the record")
    return record


def _read_record(
    stretch: RecordStream, begun: int, reader_of: Callable[[RecordHead], R]
) -> WarcRecord[R] | None:
    """Return the next complete record, or None at the end of the stream."""
    head = read_head(stretch)
    if head is None:
        return None
    reader = reader_of(head)
    left = head.length
    while left:
        octets = stretch.read(min(left, AT_ONCE))
        if not octets:
            raise DamagedRecord(f"the file ends {left} bytes before the end of a block", is_cut=True)
        left -= len(octets)
        reader.take(octets)
    end = stretch.read_all(len(_END))
    if end != _END:
        raise DamagedRecord(
            "CR LF CR LF is missing after a block: the length is wrong", is_cut=_END.startswith(end)
        )
    shares = isinstance(stretch, GzipMember) and not stretch.is_at_end()
    return WarcRecord(begun, stretch.end, head, reader, shares)


def _find_next_member(source: RecordSource, offset: int, budget: Budget) -> int | None:
    """Return the offset of the next gzip member that contains a record."""
    for place, _ in _places(source, offset, (GZIP,), budget):
        with suppress(DamagedRecord):
            if GzipMember(source, place, budget).read_all(len(_FIRST)) == _FIRST:
                return place
    return None


def _find_next_plain(source: RecordSource, offset: int, budget: Budget) -> int | None:
    """Return the offset of the next uncompressed record after the end of another record."""
    for place, found in _places(source, offset, _BEGINS, budget):
        return place + len(found) - len(_FIRST)
    return None


def _places(
    source: RecordSource, offset: int, wanted: Sequence[bytes], budget: Budget
) -> Iterator[tuple[int, bytes]]:
    """Yield the offset and the text of each occurrence of the byte strings, in order and without overlaps."""
    pattern = re.compile(b"|".join(map(re.escape, wanted)))
    overlap = max(map(len, wanted)) - 1
    size = AT_FIRST
    while octets := source.read_at(offset, size):
        budget.take(offset, offset + len(octets), 0)
        for found in pattern.finditer(octets):
            yield offset + found.start(), found[0]
        if len(octets) <= overlap:
            return
        offset += len(octets) - overlap
        size = min(2 * size, AT_ONCE)
