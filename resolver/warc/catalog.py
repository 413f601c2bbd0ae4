"""The catalog (in-memory index) of all records of an archive, and the captures that a search returns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from itertools import chain
from typing import NamedTuple

from protocols.errors import (
    ChecksumMismatch,
    InvalidUrl,
    LimitExceeded,
    LocalError,
    NotFound,
    ProtocolError,
)
from resolver.url.parsing import parse
from resolver.warc.check import BlockInspection, ComputedDigest, RecordKindReader, short_key
from resolver.warc.http import MAX_HEAD, ArchivedHead, find_heads, normalize_target, read_heads
from resolver.warc.metadata import Json, ReplayedConnection, find_end, list_connections, read_events
from resolver.warc.records import (
    Budget,
    DamagedRecord,
    DamagedSpan,
    RecordHead,
    RecordSource,
    RecordStream,
    WarcRecord,
    open_stream,
    read_block,
    read_head,
    read_records,
)

# Blocks of records are read on demand, so an archive of any size needs little memory.

#: The maximum size in bytes of a block that is read completely and verified before it is returned. For a
#: larger block, the digest is verified only when the last bytes are returned.
MAX_BUFFERED = 1_048_576

#: The number of bytes between two records (CR LF CR LF).
_END_SIZE = 4


class RecordPosition(NamedTuple):
    """The position of a record in an archive.

    Attributes:
        file: the number of the file.
        offset: the start of the record in the file, or of the gzip member that contains the record.
        number: the number of records before this record in the same gzip member.
    """

    file: int
    offset: int
    number: int


def open_block(
    source: RecordSource, position: RecordPosition, budget: Budget
) -> tuple[RecordHead, Iterator[bytes]]:
    """Return the header of a record, and the block as an iterator of chunks.

    Args:
        source: The file.
        position: The position of the record.
        budget: The budget for all reads of the gzip member. The budget is necessary because each read
            decompresses all earlier bytes of the member.

    Raises:
        ProtocolError: The file was modified.
        ChecksumMismatch: The block does not match its digest. For a block of more than `MAX_BUFFERED` bytes,
            the error is raised at the end of the block.
    """
    with _convert_damage():
        stream = open_stream(source, position.offset, budget)
        head = None if stream is None else _find_head(stream, position.number)
        if head is None or stream is None:
            raise DamagedRecord("no record begins there")
    return head, _verify_pieces(head, _read_pieces(stream, head.length))


def join_pieces(pieces: Iterator[bytes], max_size: int, subject: str) -> bytes:
    """Return the joined chunks.

    Raises:
        LimitExceeded: The chunks have more than `max_size` bytes in total.
    """
    joined = bytearray()
    for octets in pieces:
        joined += octets
        if len(joined) > max_size:
            raise LimitExceeded("body", f"the archive has {subject} of more than {max_size} bytes")
    return bytes(joined)


def _find_head(stream: RecordStream, number: int) -> RecordHead | None:
    """Return the header of the record after `number` other records, or None."""
    while (head := read_head(stream)) is not None and number:
        number -= 1
        for _ in read_block(stream, head.length + _END_SIZE):
            pass
    return head


def _read_pieces(stream: RecordStream, length: int) -> Iterator[bytes]:
    with _convert_damage():
        yield from read_block(stream, length)


def _verify_pieces(head: RecordHead, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the chunks, and compare their digest with the digest of the record.

    The digest of the payload counts only without a digest of the block, as in `warc check`. The digests of a
    revisit record are ignored, because wget writes the digest of an empty block there.
    """
    claim = head.get_first("WARC-Block-Digest")
    if head.type == "revisit":
        yield from pieces
        return
    digest = BlockInspection(head) if claim is None else ComputedDigest(claim)
    buffered: list[bytes] = []
    is_short = head.length <= MAX_BUFFERED
    for octets in pieces:
        digest.take(octets)
        if is_short:
            buffered.append(octets)
        else:
            yield octets
    if digest.verdict() == "mismatch":
        raise ChecksumMismatch(
            f"the archived {'payload' if claim is None else 'block'} does not match its digest"
        )
    yield from buffered


@contextmanager
def _convert_damage() -> Iterator[None]:
    try:
        yield
    except DamagedRecord as error:
        raise ProtocolError(f"cannot read the archive again: {error}") from error


# The catalog is an in-memory index of captures by URL. All files are read once, sequentially, to build the
# index. The catalog contains only complete records, including the records after a damaged span.

#: The maximum number of records in all files. A catalog of so many records uses about 400 MB of memory.
MAX_RECORDS = 1_000_000

_OBJECTS = frozenset({"response", "resource", "revisit"})
_GET = b"GET "
#: HTTP status codes of responses without a complete object: Partial Content (206) and Not Modified (304).
_PARTIAL = frozenset({"206", "304"})
_EARLIEST = datetime(1, 1, 1, tzinfo=UTC)


class CatalogRecord(NamedTuple):
    """An index entry of a record; `kind` is an HTTP status, an outcome, or the type of the object."""

    position: RecordPosition
    type: str
    date: datetime
    kind: str
    is_whole: bool
    length: int
    id: bytes | None


class CatalogReader(RecordKindReader):
    """A block reader that extracts the catalog data of a record, including the method of a request.

    `is_short` is true if the body of a response is shorter than its `Content-Length`. `is_short` does not
    depend on the `WARC-Truncated` field of the record.
    """

    def __init__(self, head: RecordHead) -> None:
        super().__init__(head)
        self._is_request = self.type == "request"
        self._length = head.length
        self.method = b""

    def take(self, octets: bytes) -> None:
        if self._is_request:
            self.method += octets[: len(_GET) - len(self.method)]
        else:
            super().take(octets)

    @property
    def is_short(self) -> bool:
        answer = None if self.http is None else self.http.answer
        return answer is not None and answer.length is not None and answer.size + answer.length > self._length


@dataclass(slots=True)
class Catalog:
    """An in-memory index of the records of all files.

    Attributes:
        sources: the files, ordered by number.
        damage: the first damaged span, or an empty text.
    """

    sources: list[RecordSource]
    damage: str = ""
    _count: int = 0
    _objects_by_key: dict[bytes, list[CatalogRecord]] = field(default_factory=dict)
    _without_object: dict[bytes, list[CatalogRecord]] = field(default_factory=dict)
    _metadata_by_id: dict[bytes, RecordPosition] = field(default_factory=dict)
    _records_by_id: dict[bytes, CatalogRecord] = field(default_factory=dict)
    _unserved_ids: set[bytes] = field(default_factory=set)

    def read(self, source: RecordSource) -> None:
        """Add all records of a file to the catalog.

        Raises:
            LocalError: The file is not a WARC file, or does not contain a complete record.
        """
        file, before = len(self.sources), self._count
        self.sources.append(source)
        damage = ""
        offset, number = -1, 0
        for item in read_records(source, CatalogReader):
            if isinstance(item, DamagedSpan):
                damage = damage or f"byte {item.offset}: {item.message}"
                continue
            number = number + 1 if item.offset == offset else 0
            offset = item.offset
            self._add_record(item, RecordPosition(file, offset, number))
        if damage and self._count == before:
            raise LocalError(f"no complete record: {damage}")
        self.damage = self.damage or damage

    def _add_record(self, record: WarcRecord[CatalogReader], position: RecordPosition) -> None:
        self._count += 1
        if self._count > MAX_RECORDS:
            raise LocalError(f"more than {MAX_RECORDS} records (pass fewer files)")
        head, type, id = record.head, record.reader.type, record.head.id
        key = None if id is None else short_key(id)
        companion_keys = {short_key(companion) for companion in head.fields.get_list("WARC-Concurrent-To")}
        if type == "request":
            if record.reader.method not in (_GET, b""):
                self._unserved_ids |= companion_keys | ({key} if key is not None else set())
        elif type == "metadata" and companion_keys:
            for companion in companion_keys:
                self._metadata_by_id.setdefault(companion, position)
        elif type in _OBJECTS or type == "metadata":
            self._index(record, position, key)
            if key is not None and companion_keys & self._unserved_ids:
                self._unserved_ids.add(key)

    def _index(self, record: WarcRecord[CatalogReader], position: RecordPosition, key: bytes | None) -> None:
        head, type, target = record.head, record.reader.type, record.head.target
        url_key = None if target is None else _make_key(target)
        if url_key is None:
            return
        # A segmented object (WARC 1.1, section 7) is not joined: its first record is an incomplete capture.
        is_cut = any(head.get_first(each) for each in ("WARC-Truncated", "WARC-Segment-Number"))
        is_whole = type == "revisit" or not (is_cut or record.reader.is_short)
        date, kind = head.date or _EARLIEST, record.reader.kind()
        entry = CatalogRecord(position, type, date, kind, is_whole, head.length, key)
        if key is not None:
            self._records_by_id.setdefault(key, entry)
        index = self._without_object if type == "metadata" else self._objects_by_key
        index.setdefault(url_key, []).append(entry)

    def find_objects(self, target: str) -> list[CatalogRecord]:
        """Return the records with an object for a URL."""
        rows = self._objects_by_key.get(short_key(target), [])
        return [row for row in rows if row.id not in self._unserved_ids and row.kind not in _PARTIAL]

    def find_ranges(self, target: str, after: datetime, at: datetime | None) -> list[CatalogRecord]:
        """Return the ranges of an object that were received between `after` and `at`, ordered by time."""
        ranges = [row for row in self._objects_by_key.get(short_key(target), []) if row.kind == "206"]
        served = [row for row in ranges if row.id not in self._unserved_ids and row.type == "response"]
        received = [row for row in served if row.date >= after and (at is None or row.date <= at)]
        return sorted(received, key=lambda row: row.date)

    def find_without_object(self, target: str, outcome: str) -> list[CatalogRecord]:
        """Return the captures of a URL that have no object; their outcome is `failed` or `info`."""
        return [row for row in self._without_object.get(short_key(target), []) if row.kind == outcome]

    def find_metadata(self, record: CatalogRecord) -> RecordPosition | None:
        """Return the position of the metadata record for a record, or None."""
        if record.type == "metadata":
            return record.position
        return None if record.id is None else self._metadata_by_id.get(record.id)

    def find_original(self, head: RecordHead) -> CatalogRecord | None:
        """Return the original record of a revisit.

        The original record is searched by its ID, and then by its URL and date. If the original is another
        revisit, the method returns None.
        """
        record = self._records_by_id.get(short_key(head.get_first("WARC-Refers-To") or ""))
        if record is None:
            record = next(self._by_target(head), None)
        return None if record is None or record.type not in ("response", "resource") else record

    def _by_target(self, head: RecordHead) -> Iterator[CatalogRecord]:
        target, date = head.get_first("WARC-Refers-To-Target-URI"), head.get_first("WARC-Refers-To-Date")
        url_key = None if target is None else _make_key(target.removeprefix("<").removesuffix(">"))
        for record in [] if url_key is None else self._objects_by_key.get(url_key, []):
            if record.type != "revisit" and f"{record.date:%Y-%m-%dT%H:%M:%S}" == (date or "")[:19]:
                yield record


def choose_latest(rows: list[CatalogRecord], at: datetime | None) -> CatalogRecord | None:
    """Return the latest complete record up to the time `at`, or else the longest truncated record."""
    candidates = sorted((row for row in rows if at is None or row.date <= at), key=lambda row: row.date)
    complete = [row for row in candidates if row.is_whole]
    if complete or not candidates:
        return complete[-1] if complete else None
    return max(reversed(candidates), key=lambda row: row.length)


def _make_key(target: str) -> bytes | None:
    """Return the catalog key of a URL, or None if the text is not a URL."""
    try:
        return short_key(normalize_target(parse(target)))
    except (InvalidUrl, UnicodeError):
        return None


# A resumed download consists of a truncated HTTP response and later range responses (RFC 9110 section 14.4).
# These responses are joined to one body.

_RANGE = re.compile(
    rb"\r?\ncontent-range[ \t]*:[ \t]*bytes ([0-9]{1,18})-[0-9]{1,18}/([0-9]{1,18}|\*)[ \t]*(?=\r?\n)",
    re.IGNORECASE,
)
_TAG = re.compile(rb'\r?\netag[ \t]*:[ \t]*((?:W/)?"[^"\r\n]*")[ \t]*(?=\r?\n)', re.IGNORECASE)
_MODIFIED = re.compile(rb"\r?\nlast-modified[ \t]*:[ \t]*([^\r\n]*)", re.IGNORECASE)
_CODING = re.compile(rb"\r?\ncontent-encoding[ \t]*:[ \t]*([^\r\n]*)", re.IGNORECASE)


class ResponsePart(NamedTuple):
    """The record of a response, with the length of the block and a function that opens the block."""

    length: int
    block: Callable[[], Iterator[bytes]]

    def parse_head(self) -> ArchivedHead | None:
        return read_heads(self.block())[1]

    def skip_octets(self, count: int) -> Iterator[bytes]:
        """Yield all bytes of the block after the first `count` bytes."""
        for octets in self.block():
            yield octets[count:]
            count = max(0, count - len(octets))


class ResponsePiece(NamedTuple):
    """The record of a response, and the number of bytes to skip at the start of the block."""

    part: ResponsePart
    skipped: int


def find_parts(first: ResponsePart, parts: list[ResponsePart]) -> list[ResponsePiece] | None:
    """Return the range responses that complete the first response, or None if bytes are missing.

    All responses must have the same entity tag and, if it is not strong, the same modification date.
    """
    answer = first.parse_head()
    if answer is None or answer.status != 200 or answer.length is None:
        return None
    covered = first.length - answer.size
    pieces: list[ResponsePiece] = []
    for part in parts:
        reply = part.parse_head()
        match = None if reply is None else _RANGE.search(reply.head)
        if reply is None or match is None or reply.is_coded or not _has_same_version(answer, reply):
            continue
        begin, head = int(match[1]), reply.size
        end = begin + part.length - head
        if match[2] not in (b"*", b"%d" % answer.length) or not begin <= covered < end:
            continue
        pieces.append(ResponsePiece(part, head + covered - begin))
        covered = end
    return pieces if covered == answer.length else None


def _has_same_version(first: ArchivedHead, second: ArchivedHead) -> bool:
    codings = [_read_field(_CODING, answer) for answer in (first, second)]
    tags = [_read_field(_TAG, answer) for answer in (first, second)]
    dates = [_read_field(_MODIFIED, answer) for answer in (first, second)]
    if codings[0] != codings[1] or tags[0] != tags[1]:
        return False
    is_strong = tags[0] is not None and not tags[0].startswith(b"W/")
    return is_strong or (dates[0] is not None and dates[0] == dates[1])


def _read_field(field: re.Pattern[bytes], answer: ArchivedHead) -> bytes | None:
    match = field.search(answer.head)
    return None if match is None else match[1].strip()


#: Protection against zip bombs: the maximum number of decompressed bytes for each compressed byte of a gzip
#: member, over all reads of the member. A member is read several times, for the header, the metadata and the
#: object. So the limit is about four times the maximum compression ratio of deflate. Usual compression ratios
#: need about a hundredth of the limit.
_MAX_RATIO = 4_096


class ArchivedCapture:
    """A capture in an archive. `address` is the IP address of the peer that sent the object."""

    def __init__(self, catalog: Catalog, record: CatalogRecord, parts: list[CatalogRecord]) -> None:
        self._catalog = catalog
        self._record = record
        self._parts = parts
        self._budgets: dict[RecordPosition, Budget] = {}
        self.date = record.date
        self.has_object = record.type != "metadata"

    @cached_property
    def head(self) -> RecordHead:
        """Return the header of the capture's record."""
        return self._open(self._record.position)[0]

    @property
    def address(self) -> str | None:
        return self.head.get_first("WARC-IP-Address")

    @property
    def is_whole(self) -> bool:
        """Return whether the object is complete, perhaps together with ranges of a resumed download."""
        if self._pieces is not None:
            return True
        return self._record.is_whole and (self._original is None or self._original.is_whole)

    @cached_property
    def _pieces(self) -> list[ResponsePiece] | None:
        if not self._parts:
            return None
        return find_parts(self._part(self._record), [self._part(row) for row in self._parts])

    def _part(self, record: CatalogRecord) -> ResponsePart:
        return ResponsePart(record.length, lambda: self._open(record.position)[1])

    @cached_property
    def _original(self) -> CatalogRecord | None:
        if self._record.type != "revisit":
            return None
        original = self._catalog.find_original(self.head)
        if original is None:
            reference = (
                self.head.get_first("WARC-Refers-To-Target-URI")
                or self.head.get_first("WARC-Refers-To")
                or "?"
            )
            raise NotFound(f"the archived revisit refers to {reference}, which the given files lack")
        return original

    @property
    def object_head(self) -> RecordHead:
        """Return the header of the record with the object; for a revisit, of the original record."""
        original = self._original
        return self.head if original is None else self._open(original.position)[0]

    def block(self) -> Iterator[bytes]:
        """Return the bytes of the object.

        For HTTP, they are the response head and the body.

        Raises:
            NotFound: The bytes are in a file outside the archive.
        """
        original = self._original
        if original is None:
            block = self._open(self._record.position)[1]
            return chain(block, *(piece.part.skip_octets(piece.skipped) for piece in self._pieces or ()))
        pieces = self._open(original.position)[1]
        if not self._has_head:
            return pieces
        return _join_head(b"".join(self._open(self._record.position)[1]), pieces)

    @property
    def _has_head(self) -> bool:
        return self.head.media_type == "application/http" and 0 < self.head.length <= MAX_HEAD

    def _open(self, position: RecordPosition) -> tuple[RecordHead, Iterator[bytes]]:
        """Open a block with the budget of its gzip member.

        All reads for one capture share the budget of a member, because one member may contain many ranges of
        a resumed response.
        """
        member = position._replace(number=0)
        if (budget := self._budgets.get(member)) is None:
            budget = self._budgets[member] = Budget(position.offset, times=_MAX_RATIO)
        return open_block(self._catalog.sources[position.file], position, budget)

    @cached_property
    def events(self) -> list[Json]:
        """Return the recorded events of the dialogue; the list is empty without a recorded dialogue."""
        position = self._catalog.find_metadata(self._record)
        if position is None:
            return []
        return read_events(self._open(position)[1])

    @property
    def end(self) -> Json:
        return find_end(self.events)

    @cached_property
    def connections(self) -> list[ReplayedConnection]:
        """Return the recorded connections with the received bytes of each connection."""
        return list_connections(self.events)

    @cached_property
    def exchanges(self) -> list[ReplayedConnection]:
        """Return the recorded exchanges of datagrams."""
        return [link for link in self.connections if link.transport == "udp" and link.received]


def _join_head(revisit_block: bytes, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the response head of a revisit, and the body of the original record.

    In two cases, the original record is yielded unchanged. Either the revisit and the original have different
    body framing, or the revisit is a Not Modified (304) response.
    """
    octets, original = read_heads(pieces)
    revisit = find_heads(revisit_block)
    if (
        original is not None
        and revisit is not None
        and (revisit.status, revisit.is_coded) == (original.status, original.is_coded)
    ):
        yield revisit.head
        octets = octets[original.size :]
    yield octets
    yield from pieces
