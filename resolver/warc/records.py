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
MAX_READ = 65_536
#: The size in bytes of the first read at a position of the file. Each further read has twice the size. So a
#: failed attempt to parse a record at a damaged position takes little time.
FIRST_READ = 1_024

#: The `wbits` value of zlib for the gzip format with the maximum window size.
GZIP_ONLY = 31


class DamagedRecord(Exception):
    """An incomplete record, or bytes that are not a record; the message gives the reason.

    Attributes:
        is_cut: whether the record is truncated but otherwise valid.
        is_unsupported: whether the record seems to be complete but has an unsupported format.
    """

    def __init__(self, message: str, *, is_cut: bool = False, is_unsupported: bool = False) -> None:
        super().__init__(message)
        self.is_cut = is_cut
        self.is_unsupported = is_unsupported


class RecordSource(Protocol):
    """A file with random access; `read_at` returns fewer bytes only at the end of the file."""

    def read_at(self, offset: int, size: int, /) -> bytes: ...


class Budget:
    """A limit on repeated reads and repeated decompression of a file that is read from offset `begin` on.

    Only repeated reads and repeated decompression count. The limit is `times` bytes for each byte of the file
    that was read, plus `_SPARE` bytes.

    After damaged bytes, the parser tries each possible start of a record or a gzip member. In a malicious
    file, members may overlap, or all lengths may extend to the end of the file. Without a limit, parsing
    would take quadratic time in the file size.
    """

    #: The maximum compression ratio of deflate (1032 bytes for one byte, zlib.net/zlib_tech.html), plus 1 for
    #: the compressed byte.
    _MAX_RATIO = 1_033
    _SPARE = 67_108_864

    def __init__(self, begin: int, *, times: int = 8) -> None:
        self._begin = self._furthest = begin
        self._times = times
        self._extra = 0

    def take(self, begin: int, end: int, unpacked: int) -> None:
        """Count the read bytes from offset `begin` to `end`, and the `unpacked` bytes decompressed from them.

        Raises:
            LocalError: The limit is exceeded.
        """
        new_bytes = max(0, end - max(begin, self._furthest))
        self._furthest = max(self._furthest, end)
        self._extra += max(0, end - begin + unpacked - new_bytes * self._MAX_RATIO)
        if self._extra > self._SPARE + self._times * (self._furthest - self._begin):
            raise LocalError(
                f"too many damaged or overlapping records: up to byte {self._furthest}, {self._extra} bytes"
                " were read and unpacked again (keep the records before the first damage)"
            )


class RecordStream:
    """A stream of the uncompressed bytes of the source from `offset` on."""

    def __init__(self, source: RecordSource, offset: int, budget: Budget) -> None:
        self._source = source
        self._next = offset
        self._budget = budget
        self._read_size = FIRST_READ
        self._buffer = b""
        self._position = 0

    @property
    def end(self) -> int:
        """Return the current offset in the file."""
        return self._next - (len(self._buffer) - self._position)

    def read(self, size: int) -> bytes:
        """Return at most `size` bytes; the result is empty at the end. Raises `DamagedRecord`."""
        if self.is_at_end():
            return b""
        piece = self._buffer[self._position : self._position + size]
        self._position += len(piece)
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
        if self._position == len(self._buffer):
            self._buffer, self._position = self._read_more(), 0
        return not self._buffer

    def read_line(self, max_size: int) -> bytes:
        """Return the next line with its line end; at the end of the stream the line may be incomplete.

        Raises:
            DamagedRecord: The line is longer than `max_size` bytes.
        """
        pieces: list[bytes] = []
        length = 0
        while True:
            if self.is_at_end():
                return b"".join(pieces)
            end = self._buffer.find(b"\n", self._position) + 1
            piece = self._buffer[self._position : end or len(self._buffer)]
            length += len(piece)
            if length > max_size:
                raise DamagedRecord(f"a line of a head is longer than {max_size} bytes")
            self._position += len(piece)
            pieces.append(piece)
            if end:
                return b"".join(pieces)

    def _read_more(self) -> bytes:
        """Return the next bytes; the result is empty at the end of the stream."""
        octets = self._read()
        self._budget.take(self._next - len(octets), self._next, 0)
        return octets

    def _read(self) -> bytes:
        octets = self._source.read_at(self._next, self._read_size)
        self._next += len(octets)
        self._read_size = min(2 * self._read_size, MAX_READ)
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
                octets = self._unpacker.decompress(packed, self._read_size)
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


def open_stream(source: RecordSource, offset: int, budget: Budget) -> RecordStream | None:
    """Return the compressed or uncompressed stream at an offset, or None at the end of the file."""
    beginning = source.read_at(offset, len(GZIP))
    if not beginning:
        return None
    return (GzipMember if GZIP.startswith(beginning) else RecordStream)(source, offset, budget)


# The header of a record (WARC 1.1, 4 and 5).

#: The limits of a record header (S16): the bytes of a line, the number of lines, and the total bytes.
MAX_LINE = 65_536
MAX_LINES = 1_000
MAX_HEAD = 262_144

_VERSIONS = (b"WARC/1.0", b"WARC/1.1")
#: The first bytes of other archive formats.
_OTHER_FORMATS = (
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
_REPEATABLE = frozenset({"warc-concurrent-to", "warc-protocol"})


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

    @property
    def is_complete_response(self) -> bool:
        """Return whether the block is an HTTP response that is not marked as truncated."""
        is_http = self.type == "response" and self.media_type == "application/http"
        return is_http and self.get_first("WARC-Truncated") is None

    def list_repeated(self) -> list[str]:
        """Return the names of the fields that are repeated although WARC forbids it."""
        return [
            name
            for name in self.fields.keys()  # noqa: SIM118 - pairs are what it iterates over
            if name not in _REPEATABLE and len(self.fields.get_list(name)) > 1
        ]


def read_head(stream: RecordStream) -> RecordHead | None:
    """Return the next record header, or None at the end of the stream. Raises `DamagedRecord`."""
    first = stream.read_line(MAX_LINE)
    if not first:
        return None
    if _strip_end(first) not in _VERSIONS:
        for beginning, format_name in _OTHER_FORMATS:
            if beginning.match(first):
                raise DamagedRecord(f"unsupported format: {format_name}", is_unsupported=True)
        raise DamagedRecord("no WARC record begins here")
    fields = Headers(tuple(_read_fields(stream, MAX_HEAD - len(first))))
    return RecordHead(fields, _parse_length(fields.get_list("Content-Length")))


def _read_fields(stream: RecordStream, max_size: int) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for _ in range(MAX_LINES):
        line = stream.read_line(min(MAX_LINE, max_size))
        max_size -= len(line)
        if not line.endswith(b"\n"):
            raise DamagedRecord("the file ends within a head", is_cut=True)
        text = _strip_end(line)
        if not text:
            return pairs
        if b"\0" in text:
            raise DamagedRecord("a line of a head holds a NUL")
        if text[0] in b" \t" and pairs:  # WARC 1.0 allows folded lines.
            name, value = pairs[-1]
            pairs[-1] = (name, f"{value} {_decode(text)}".strip())
            continue
        octets, colon, value_octets = text.partition(b":")
        if not colon or not _TOKEN.fullmatch(octets):
            raise DamagedRecord("a line of a head lacks a name and a colon")
        pairs.append((octets.decode("ascii"), _decode(value_octets)))
    raise DamagedRecord(f"a head has more than {MAX_LINES} lines")


def _strip_end(line: bytes) -> bytes:
    return line.removesuffix(b"\n").removesuffix(b"\r")


def _decode(octets: bytes) -> str:
    return octets.decode("utf-8", "surrogateescape").strip(" \t")


def _parse_length(values: list[str]) -> int:
    if len(values) != 1:
        raise DamagedRecord(f"expected one Content-Length, got {len(values)}")
    if not _LENGTH.fullmatch(values[0]):
        raise DamagedRecord("Content-Length is not a number of bytes")
    return int(values[0])


def read_date(text: str) -> datetime | None:
    """Return the time of a WARC-Date, with the lowest value of missing components, or None."""
    match = _DATE.fullmatch(text)
    try:
        return None if match is None else make_date(match)
    except ValueError:
        return None


def make_date(match: re.Match[str]) -> datetime:
    """Return the time in UTC of seven groups, from the year to the fraction of a second.

    Raises:
        ValueError: The date does not exist.
    """
    fraction = (match[7] or "")[:6].ljust(6, "0")
    year, month, day = (int(component or 1) for component in match.group(1, 2, 3))
    hour, minute, second = (int(component or 0) for component in match.group(4, 5, 6))
    return datetime(year, month, day, hour, minute, second, int(fraction), tzinfo=UTC)


_END = b"\r\n\r\n"
_FIRST = b"WARC/1."
#: The end of a record and the start of the next record in an uncompressed file. Some programs write LF
#: instead of CR LF.
_STARTS = (b"\r\n\r\n" + _FIRST, b"\n\n" + _FIRST)


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
        shares_member: whether another record follows in the same gzip member. That record may be damaged.
        reader: the reader that received the block.
    """

    offset: int
    end: int
    head: RecordHead
    reader: R
    shares_member: bool


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
    source: RecordSource, make_reader: Callable[[RecordHead], R]
) -> Iterator[WarcRecord[R] | DamagedSpan]:
    """Yield all records and damaged spans of a file in order.

    Args:
        source: The file.
        make_reader: A function that returns the reader for the block of a record.

    Raises:
        LocalError: The file is not a WARC file, or the limit of its `Budget` is exceeded.
    """
    budget = Budget(0)
    packed = source.read_at(0, len(GZIP)) == GZIP
    start: int | None = 0
    while start is not None and (stream := open_stream(source, start, budget)) is not None:
        try:
            if isinstance(stream, GzipMember) != packed:
                raise DamagedRecord("file mixes gzip-compressed and uncompressed records")
            while (record := _read_record(stream, start, make_reader)) is not None:
                yield record
                start = start if packed else stream.end
            start = stream.end
        except DamagedRecord as error:
            if error.is_unsupported and start == 0:
                raise LocalError(str(error)) from error
            search = _find_next_member if packed else _find_next_plain
            resumes = search(source, start + 1, budget)
            yield DamagedSpan(start, str(error), resumes, error.is_cut and resumes is None)
            start = resumes


def read_one(source: RecordSource, offset: int, make_reader: Callable[[RecordHead], R]) -> WarcRecord[R]:
    """Return the record at `offset`.

    Raises:
        DamagedRecord: A complete record does not start at `offset`, or the reader stopped reading.
    """
    stream = open_stream(source, offset, Budget(offset))
    record = None if stream is None else _read_record(stream, offset, make_reader)
    if record is None:
        raise DamagedRecord("the file ends before the record")
    return record


def _read_record(
    stream: RecordStream, start: int, make_reader: Callable[[RecordHead], R]
) -> WarcRecord[R] | None:
    """Return the next complete record, or None at the end of the stream."""
    head = read_head(stream)
    if head is None:
        return None
    reader = make_reader(head)
    for octets in read_block(stream, head.length):
        reader.take(octets)
    end = stream.read_all(len(_END))
    if end != _END:
        raise DamagedRecord(
            "CR LF CR LF is missing after a block: the length is wrong", is_cut=_END.startswith(end)
        )
    shares_member = isinstance(stream, GzipMember) and not stream.is_at_end()
    return WarcRecord(start, stream.end, head, reader, shares_member)


def read_block(stream: RecordStream, length: int) -> Iterator[bytes]:
    """Yield the next `length` bytes of a stream. Raises `DamagedRecord` if the stream is shorter."""
    while length:
        octets = stream.read(min(length, MAX_READ))
        if not octets:
            raise DamagedRecord(f"the file ends {length} bytes before the end of a block", is_cut=True)
        length -= len(octets)
        yield octets


def _find_next_member(source: RecordSource, offset: int, budget: Budget) -> int | None:
    """Return the offset of the next gzip member that contains a record."""
    for start, _ in _find_all(source, offset, (GZIP,), budget):
        with suppress(DamagedRecord):
            if GzipMember(source, start, budget).read_all(len(_FIRST)) == _FIRST:
                return start
    return None


def _find_next_plain(source: RecordSource, offset: int, budget: Budget) -> int | None:
    """Return the offset of the next uncompressed record after the end of another record."""
    for start, separator in _find_all(source, offset, _STARTS, budget):
        return start + len(separator) - len(_FIRST)
    return None


def _find_all(
    source: RecordSource, offset: int, patterns: Sequence[bytes], budget: Budget
) -> Iterator[tuple[int, bytes]]:
    """Yield the offset and the text of each occurrence of the byte strings, in order and without overlaps."""
    pattern = re.compile(b"|".join(map(re.escape, patterns)))
    overlap = max(map(len, patterns)) - 1
    size = FIRST_READ
    while octets := source.read_at(offset, size):
        budget.take(offset, offset + len(octets), 0)
        for match in pattern.finditer(octets):
            yield offset + match.start(), match[0]
        if len(octets) <= overlap:
            return
        offset += len(octets) - overlap
        size = min(2 * size, MAX_READ)
