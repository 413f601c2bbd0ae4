"""What is in archives by its URL: read once from end to end, and chosen from by time.

Only whole records count. Where a file is damaged, what comes behind counts all the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import blake2b

from protocols.errors import InvalidUrl, LocalError
from protocols.values import NamedTuple, dataclass, field
from resolver.url import parse
from resolver.warc.block import RecordPosition
from resolver.warc.head import RecordHead
from resolver.warc.listing import PayloadPeek
from resolver.warc.message import find_answer
from resolver.warc.records import DamagedSpan, WarcRecord, read_records
from resolver.warc.stretch import RecordSource
from resolver.warc.target import sought_as

#: Records that are known of all files together: some 400 MB.
MOST = 1_000_000

_OBJECTS = frozenset({"response", "resource", "revisit"})
_SERVED = b"GET "
#: What of http is no object: a part, and that nothing has changed.
_NO_OBJECTS = frozenset({"206", "304"})
_EARLIEST = datetime(1, 1, 1, tzinfo=UTC)


class CatalogueRecord(NamedTuple):
    """One record: `kind` is an http status, what became of a retrieval, or a word for what it is."""

    seat: RecordPosition
    type: str
    date: datetime
    kind: str
    is_whole: bool
    length: int
    id: bytes | None


class CatalogueQuery(PayloadPeek):
    """As much of a block as tells what it is, and of a request what it asks for. `is_short`: an answer whose
    head promises more than there is, whether or not it says so."""

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
class Catalogue:
    """Of all files together; `sources` are the files, by their numbers."""

    sources: list[RecordSource]
    _count: int = 0
    _objects: dict[bytes, list[CatalogueRecord]] = field(default_factory=dict)
    _alone: dict[bytes, list[CatalogueRecord]] = field(default_factory=dict)
    _told: dict[bytes, RecordPosition] = field(default_factory=dict)
    _by_id: dict[bytes, CatalogueRecord] = field(default_factory=dict)
    _unserved: set[bytes] = field(default_factory=set)

    def read(self, source: RecordSource) -> None:
        """All of one more file. Raises `LocalError` for one of another format, or without a whole record."""
        file, before = len(self.sources), self._count
        self.sources.append(source)
        damage: DamagedSpan | None = None
        offset, number = -1, 0
        for found in read_records(source, CatalogueQuery):
            if isinstance(found, DamagedSpan):
                damage = damage or found
                continue
            number = number + 1 if found.offset == offset else 0
            offset = found.offset
            self._note(found, RecordPosition(file, offset, number))
        if damage is not None and self._count == before:
            raise LocalError(f"not one whole record: octet {damage.offset}: {damage.message}")

    def _note(self, record: WarcRecord[CatalogueQuery], seat: RecordPosition) -> None:
        self._count += 1
        if self._count > MOST:
            raise LocalError(f"more than {MOST} records: give fewer files")
        head, type, id = record.head, record.reader.type, record.head.id
        own = None if id is None else _digest(id)
        companions = {_digest(each) for each in head.fields.get_list("WARC-Concurrent-To")}
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

    def _take(self, record: WarcRecord[CatalogueQuery], seat: RecordPosition, own: bytes | None) -> None:
        head, type, target = record.head, record.reader.type, record.head.target
        sought = None if target is None else _sought(target)
        if sought is None:
            return
        is_whole = type == "revisit" or (head.first("WARC-Truncated") is None and not record.reader.is_short)
        date, kind = head.date or _EARLIEST, record.reader.kind()
        taken = CatalogueRecord(seat, type, date, kind, is_whole, head.length, own)
        if own is not None:
            self._by_id.setdefault(own, taken)
        into = self._alone if type == "metadata" else self._objects
        into.setdefault(sought, []).append(taken)

    def objects(self, sought: str) -> list[CatalogueRecord]:
        """What can be served of a URL."""
        found = self._objects.get(_digest(sought), [])
        return [each for each in found if each.id not in self._unserved and each.kind not in _NO_OBJECTS]

    def parts(self, sought: str, after: datetime, at: datetime | None) -> list[CatalogueRecord]:
        """Parts of it that came then or later, in their order."""
        found = [each for each in self._objects.get(_digest(sought), []) if each.kind == "206"]
        served = [each for each in found if each.id not in self._unserved and each.type == "response"]
        in_time = [each for each in served if each.date >= after and (at is None or each.date <= at)]
        return sorted(in_time, key=lambda each: each.date)

    def alone(self, sought: str, outcome: str) -> list[CatalogueRecord]:
        """What was told of a URL without an object: that it `failed`, or `info`."""
        return [each for each in self._alone.get(_digest(sought), []) if each.kind == outcome]

    def told(self, taken: CatalogueRecord) -> RecordPosition | None:
        """Where the metadata of a record are."""
        if taken.type == "metadata":
            return taken.seat
        return None if taken.id is None else self._told.get(taken.id)

    def original(self, head: RecordHead) -> CatalogueRecord | None:
        """What a revisit refers to, which is none itself: by its ID, else by its URL and date."""
        found = self._by_id.get(_digest(head.first("WARC-Refers-To") or ""))
        if found is None:
            found = next(self._by_target(head), None)
        return None if found is None or found.type not in ("response", "resource") else found

    def _by_target(self, head: RecordHead) -> Iterator[CatalogueRecord]:
        target, date = head.first("WARC-Refers-To-Target-URI"), head.first("WARC-Refers-To-Date")
        sought = None if target is None else _sought(target.removeprefix("<").removesuffix(">"))
        for each in [] if sought is None else self._objects.get(sought, []):
            if each.type != "revisit" and f"{each.date:%Y-%m-%dT%H:%M:%S}" == (date or "")[:19]:
                yield each


def latest(found: list[CatalogueRecord], at: datetime | None) -> CatalogueRecord | None:
    """The latest whole one, not after `at`; where there is none, of what is cut the one that has most."""
    by_then = sorted((each for each in found if at is None or each.date <= at), key=lambda each: each.date)
    whole = [each for each in by_then if each.is_whole]
    if whole or not by_then:
        return whole[-1] if whole else None
    return max(reversed(by_then), key=lambda each: each.length)


def _sought(target: str) -> bytes | None:
    """None for what is no URL."""
    try:
        return _digest(sought_as(parse(target)))
    except (InvalidUrl, UnicodeError):
        return None


def _digest(text: str) -> bytes:
    """In its place, for a text may be as long as a line."""
    return blake2b(text.encode("utf-8", "surrogateescape"), digest_size=16).digest()
