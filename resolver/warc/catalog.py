"""The catalog (in-memory index) of all records of an archive, and the captures that a search returns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
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
from resolver.warc.check import ComputedDigest, PayloadPeek, short_key
from resolver.warc.http import MAX_HEAD, AnswerSpan, find_answer, normalize_target, read_answer
from resolver.warc.metadata import Json, ReplayedConnection, end_of, read_events, ways_of
from resolver.warc.records import (
    MAX_READ,
    Budget,
    DamagedRecord,
    DamagedSpan,
    RecordHead,
    RecordSource,
    RecordStream,
    WarcRecord,
    open_stream,
    read_head,
    read_records,
)

# Blocks of records are read on demand, so an archive of any size needs little memory.

#: The maximum size in bytes of a block that is read completely and verified before it is returned. For a
#: larger block, the digest is verified only when the last bytes are returned.
HELD = 1_048_576

#: The number of bytes between two records (CR LF CR LF).
_BEHIND = 4


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
    source: RecordSource, seat: RecordPosition, budget: Budget
) -> tuple[RecordHead, Iterator[bytes]]:
    """Return the header of a record, and the block as an iterator of chunks.

    Args:
        source: The file.
        seat: The position of the record.
        budget: The budget for all reads of the gzip member. The budget is necessary because each read
            decompresses all earlier bytes of the member.

    Raises:
        ProtocolError: The file was modified.
        ChecksumMismatch: The block does not match its digest. For a block of more than `HELD` bytes, the
            error is raised at the end of the block.
    """
    stream = open_stream(source, seat.offset, budget)
    head = None
    try:
        if stream is not None:
            for _ in range(seat.number):
                _pass_over(stream)
            head = read_head(stream)
    except DamagedRecord as error:
        raise _make_changed(str(error)) from error
    if head is None or stream is None:
        raise _make_changed("no record begins there")
    return head, _verify_pieces(head, _pieces(stream, head))


def join_pieces(pieces: Iterator[bytes], most: int, what: str) -> bytes:
    """Return the joined chunks.

    Raises:
        LimitExceeded: The chunks have more than `most` bytes in total.
    """
    held = bytearray()
    for octets in pieces:
        held += octets
        if len(held) > most:
            raise LimitExceeded("body", f"the archive has {what} of more than {most} bytes")
    return bytes(held)


def _pass_over(stream: RecordStream) -> None:
    head = read_head(stream)
    left = 0 if head is None else head.length + _BEHIND
    while left and (octets := stream.read(min(left, MAX_READ))):
        left -= len(octets)


def _pieces(stream: RecordStream, head: RecordHead) -> Iterator[bytes]:
    left = head.length
    while left:
        try:
            octets = stream.read(min(left, MAX_READ))
        except DamagedRecord as error:
            raise _make_changed(str(error)) from error
        if not octets:
            raise _make_changed(f"the file ends {left} bytes before the end of a block")
        left -= len(octets)
        yield octets


def _verify_pieces(head: RecordHead, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the chunks, and compare their digest with the digest of the record.

    The digest of a revisit record is ignored, because wget writes the digest of an empty block there.
    """
    claim = head.get_first("WARC-Block-Digest")
    if claim is None or head.type == "revisit":
        yield from pieces
        return
    digest = ComputedDigest(claim)
    held: list[bytes] = []
    is_short = head.length <= HELD
    for octets in pieces:
        digest.take(octets)
        if is_short:
            held.append(octets)
        else:
            yield octets
    if digest.verdict() == "mismatch":
        raise ChecksumMismatch("the archived block does not match its digest")
    yield from held


def _make_changed(what: str) -> ProtocolError:
    return ProtocolError(f"cannot read the archive again: {what}")


# The catalog is an in-memory index of captures by URL. All files are read once, sequentially, to build the
# index. The catalog contains only complete records, including the records after a damaged span.

#: The maximum number of records in all files. A catalog of so many records uses about 400 MB of memory.
MOST = 1_000_000

_OBJECTS = frozenset({"response", "resource", "revisit"})
_SERVED = b"GET "
#: HTTP status codes of responses without a complete object: Partial Content (206) and Not Modified (304).
_NO_OBJECTS = frozenset({"206", "304"})
_EARLIEST = datetime(1, 1, 1, tzinfo=UTC)


class CatalogRecord(NamedTuple):
    """An index entry of a record; `kind` is an HTTP status, an outcome, or the type of the object."""

    seat: RecordPosition
    type: str
    date: datetime
    kind: str
    is_whole: bool
    length: int
    id: bytes | None


class CatalogQuery(PayloadPeek):
    """A block reader that extracts the catalog data of a record, including the method of a request.

    `is_short` is true if the body of a response is shorter than its `Content-Length`. `is_short` does not
    depend on the `WARC-Truncated` field of the record.
    """

    def __init__(self, head: RecordHead) -> None:
        super().__init__(head)
        self._is_request = self.type == "request"
        self._length = head.length
        self.first = b""

    def take(self, octets: bytes) -> None:
        if self._is_request:
            self.first += octets[: len(_SERVED) - len(self.first)]
        else:
            super().take(octets)

    @property
    def is_short(self) -> bool:
        octets = b"" if self.http is None or self.http.octets is None else self.http.octets
        answer = find_answer(octets)
        return answer is not None and answer.length is not None and len(octets) + answer.length > self._length


@dataclass(slots=True)
class Catalog:
    """An in-memory index of the records of all files; `sources` contains the files, ordered by number."""

    sources: list[RecordSource]
    _count: int = 0
    _objects: dict[bytes, list[CatalogRecord]] = field(default_factory=dict)
    _alone: dict[bytes, list[CatalogRecord]] = field(default_factory=dict)
    _told: dict[bytes, RecordPosition] = field(default_factory=dict)
    _by_id: dict[bytes, CatalogRecord] = field(default_factory=dict)
    _unserved: set[bytes] = field(default_factory=set)

    def read(self, source: RecordSource) -> None:
        """Add all records of a file to the catalog.

        Raises:
            LocalError: The file is not a WARC file, or does not contain a complete record.
        """
        file, before = len(self.sources), self._count
        self.sources.append(source)
        damage: DamagedSpan | None = None
        offset, number = -1, 0
        for found in read_records(source, CatalogQuery):
            if isinstance(found, DamagedSpan):
                damage = damage or found
                continue
            number = number + 1 if found.offset == offset else 0
            offset = found.offset
            self._note(found, RecordPosition(file, offset, number))
        if damage is not None and self._count == before:
            raise LocalError(f"no complete record: byte {damage.offset}: {damage.message}")

    def _note(self, record: WarcRecord[CatalogQuery], seat: RecordPosition) -> None:
        self._count += 1
        if self._count > MOST:
            raise LocalError(f"more than {MOST} records (pass fewer files)")
        head, type, id = record.head, record.reader.type, record.head.id
        own = None if id is None else short_key(id)
        companions = {short_key(each) for each in head.fields.get_list("WARC-Concurrent-To")}
        if type == "request":
            if record.reader.first not in (_SERVED, b""):
                self._unserved |= companions | ({own} if own is not None else set())
        elif type == "metadata" and companions:
            for each in companions:
                self._told.setdefault(each, seat)
        elif type in _OBJECTS or type == "metadata":
            self._take(record, seat, own)
            if own is not None and companions & self._unserved:
                self._unserved.add(own)

    def _take(self, record: WarcRecord[CatalogQuery], seat: RecordPosition, own: bytes | None) -> None:
        head, type, target = record.head, record.reader.type, record.head.target
        sought = None if target is None else _make_key(target)
        if sought is None:
            return
        is_whole = type == "revisit" or (
            head.get_first("WARC-Truncated") is None and not record.reader.is_short
        )
        date, kind = head.date or _EARLIEST, record.reader.kind()
        taken = CatalogRecord(seat, type, date, kind, is_whole, head.length, own)
        if own is not None:
            self._by_id.setdefault(own, taken)
        into = self._alone if type == "metadata" else self._objects
        into.setdefault(sought, []).append(taken)

    def objects(self, sought: str) -> list[CatalogRecord]:
        """Return the records with an object for a URL."""
        found = self._objects.get(short_key(sought), [])
        return [each for each in found if each.id not in self._unserved and each.kind not in _NO_OBJECTS]

    def parts(self, sought: str, after: datetime, at: datetime | None) -> list[CatalogRecord]:
        """Return the ranges of an object that were received between `after` and `at`, ordered by time."""
        found = [each for each in self._objects.get(short_key(sought), []) if each.kind == "206"]
        served = [each for each in found if each.id not in self._unserved and each.type == "response"]
        in_time = [each for each in served if each.date >= after and (at is None or each.date <= at)]
        return sorted(in_time, key=lambda each: each.date)

    def find_alone(self, sought: str, outcome: str) -> list[CatalogRecord]:
        """Return the captures of a URL that have no object; their outcome is `failed` or `info`."""
        return [each for each in self._alone.get(short_key(sought), []) if each.kind == outcome]

    def find_metadata(self, taken: CatalogRecord) -> RecordPosition | None:
        """Return the position of the metadata record for the record `taken`, or None."""
        if taken.type == "metadata":
            return taken.seat
        return None if taken.id is None else self._told.get(taken.id)

    def original(self, head: RecordHead) -> CatalogRecord | None:
        """Return the original record of a revisit.

        The original record is searched by its ID, and then by its URL and date. If the original is another
        revisit, the method returns None.
        """
        found = self._by_id.get(short_key(head.get_first("WARC-Refers-To") or ""))
        if found is None:
            found = next(self._by_target(head), None)
        return None if found is None or found.type not in ("response", "resource") else found

    def _by_target(self, head: RecordHead) -> Iterator[CatalogRecord]:
        target, date = head.get_first("WARC-Refers-To-Target-URI"), head.get_first("WARC-Refers-To-Date")
        sought = None if target is None else _make_key(target.removeprefix("<").removesuffix(">"))
        for each in [] if sought is None else self._objects.get(sought, []):
            if each.type != "revisit" and f"{each.date:%Y-%m-%dT%H:%M:%S}" == (date or "")[:19]:
                yield each


def choose_latest(found: list[CatalogRecord], at: datetime | None) -> CatalogRecord | None:
    """Return the latest complete record up to the time `at`, or else the longest truncated record."""
    by_then = sorted((each for each in found if at is None or each.date <= at), key=lambda each: each.date)
    whole = [each for each in by_then if each.is_whole]
    if whole or not by_then:
        return whole[-1] if whole else None
    return max(reversed(by_then), key=lambda each: each.length)


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
_TAG = re.compile(rb'\r?\netag[ \t]*:[ \t]*("[^"\r\n]*")[ \t]*(?=\r?\n)', re.IGNORECASE)
_MODIFIED = re.compile(rb"\r?\nlast-modified[ \t]*:[ \t]*([^\r\n]*)", re.IGNORECASE)
_CODING = re.compile(rb"\r?\ncontent-encoding[ \t]*:[ \t]*([^\r\n]*)", re.IGNORECASE)


class AnswerPart(NamedTuple):
    """The record of a response, with the length of the block and a function that opens the block."""

    length: int
    block: Callable[[], Iterator[bytes]]

    def answer(self) -> AnswerSpan | None:
        return read_answer(self.block())[1]

    def skip_octets(self, count: int) -> Iterator[bytes]:
        """Yield all bytes of the block after the first `count` bytes."""
        for octets in self.block():
            yield octets[count:]
            count = max(0, count - len(octets))


class AnswerPiece(NamedTuple):
    """The record of a response, and the number of bytes to skip at the start of the block."""

    part: AnswerPart
    skipped: int


def find_parts(first: AnswerPart, parts: list[AnswerPart]) -> list[AnswerPiece] | None:
    """Return the range responses that complete the first response.

    The result is `None` if the body is not complete.

    All responses must have the same strong entity tag or, without entity tags, the same modification date.
    """
    answer = first.answer()
    if answer is None or answer.status != 200 or answer.length is None:
        return None
    covered = first.length - answer.interim - len(answer.head)
    pieces: list[AnswerPiece] = []
    for part in parts:
        found = part.answer()
        place = None if found is None else _RANGE.search(found.head)
        if found is None or place is None or found.is_coded or not _is_same(answer, found):
            continue
        begin, head = int(place[1]), found.interim + len(found.head)
        end = begin + part.length - head
        if place[2] not in (b"*", b"%d" % answer.length) or not begin <= covered < end:
            continue
        pieces.append(AnswerPiece(part, head + covered - begin))
        covered = end
    return pieces if covered == answer.length else None


def _is_same(one: AnswerSpan, other: AnswerSpan) -> bool:
    codings = [_value(_CODING, each) for each in (one, other)]
    tags = [_value(_TAG, each) for each in (one, other)]
    dates = [_value(_MODIFIED, each) for each in (one, other)]
    if codings[0] != codings[1]:
        return False
    if tags[0] is not None or tags[1] is not None:
        return tags[0] == tags[1]
    return dates[0] is not None and dates[0] == dates[1]


def _value(field: re.Pattern[bytes], answer: AnswerSpan) -> bytes | None:
    found = field.search(answer.head)
    return None if found is None else found[1].strip()


#: Protection against zip bombs: the maximum number of decompressed bytes for each compressed byte of a gzip
#: member, over all reads of the member. A member is read several times, for the header, the metadata and the
#: object. So the limit is about four times the maximum compression ratio of deflate. Usual compression ratios
#: need about a hundredth of the limit.
_MOST_TIMES = 4_096


class FoundCapture:
    """A capture in an archive. `address` is the IP address of the peer that sent the object."""

    def __init__(self, catalog: Catalog, taken: CatalogRecord, parts: list[CatalogRecord]) -> None:
        self._catalog = catalog
        self._taken = taken
        self._parts = parts
        self._budgets: dict[RecordPosition, Budget] = {}
        self.date = taken.date
        self.has_object = taken.type != "metadata"

    @cached_property
    def head(self) -> RecordHead:
        """Return the header of the capture's record."""
        return self._open(self._taken.seat)[0]

    @property
    def address(self) -> str | None:
        return self.head.get_first("WARC-IP-Address")

    @property
    def is_whole(self) -> bool:
        """Return whether the object is complete, perhaps together with ranges of a resumed download."""
        if self._joined is not None:
            return True
        return self._taken.is_whole and (self._original is None or self._original.is_whole)

    @cached_property
    def _joined(self) -> list[AnswerPiece] | None:
        if not self._parts:
            return None
        return find_parts(self._part(self._taken), [self._part(each) for each in self._parts])

    def _part(self, taken: CatalogRecord) -> AnswerPart:
        return AnswerPart(taken.length, lambda: self._open(taken.seat)[1])

    @cached_property
    def _original(self) -> CatalogRecord | None:
        if self._taken.type != "revisit":
            return None
        found = self._catalog.original(self.head)
        if found is None:
            wanted = (
                self.head.get_first("WARC-Refers-To-Target-URI")
                or self.head.get_first("WARC-Refers-To")
                or "?"
            )
            raise NotFound(f"the archived revisit refers to {wanted}, which the given files lack")
        return found

    @property
    def object_head(self) -> RecordHead:
        """Return the header of the record with the object; for a revisit, of the original record."""
        original = self._original
        return self.head if original is None else self._open(original.seat)[0]

    def block(self) -> Iterator[bytes]:
        """Return the bytes of the object.

        For HTTP, they are the response head and the body.

        Raises:
            NotFound: The bytes are in a file outside the archive.
        """
        original = self._original
        if original is None:
            own = self._open(self._taken.seat)[1]
            return chain(own, *(each.part.skip_octets(each.skipped) for each in self._joined or ()))
        pieces = self._open(original.seat)[1]
        if not self._has_head:
            return pieces
        return _join_head(b"".join(self._open(self._taken.seat)[1]), pieces)

    @property
    def _has_head(self) -> bool:
        return self.head.media_type == "application/http" and 0 < self.head.length <= MAX_HEAD

    def _open(self, seat: RecordPosition) -> tuple[RecordHead, Iterator[bytes]]:
        """Open a block with the budget of its gzip member.

        All reads for one capture share the budget of a member, because one member may contain many ranges of
        a resumed response.
        """
        member = seat._replace(number=0)
        if (budget := self._budgets.get(member)) is None:
            budget = self._budgets[member] = Budget(seat.offset, times=_MOST_TIMES)
        return open_block(self._catalog.sources[seat.file], seat, budget)

    @cached_property
    def events(self) -> list[Json]:
        """Return the recorded events of the dialogue; the list is empty without a recorded dialogue."""
        seat = self._catalog.find_metadata(self._taken)
        if seat is None:
            return []
        return read_events(self._open(seat)[1])

    @property
    def end(self) -> Json:
        return end_of(self.events)

    @cached_property
    def ways(self) -> list[ReplayedConnection]:
        """Return the recorded connections with the received bytes of each connection."""
        return ways_of(self.events)

    @cached_property
    def exchanges(self) -> list[ReplayedConnection]:
        """Return the recorded exchanges of datagrams."""
        return [way for way in self.ways if way.transport == "udp" and way.heard]


def _join_head(own: bytes, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the response head of a revisit, and the body of the original record.

    In two cases, the original record is yielded unchanged. Either the revisit and the original have different
    body framing, or the revisit is a Not Modified (304) response.
    """
    held, theirs = read_answer(pieces)
    ours = find_answer(own)
    fits = (
        theirs is not None
        and ours is not None
        and ours.status == theirs.status
        and ours.is_coded == theirs.is_coded
    )
    if fits and theirs is not None and ours is not None:
        yield ours.head
        held = held[theirs.interim + len(theirs.head) :]
    yield held
    yield from pieces
