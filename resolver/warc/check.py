"""Is an archive what it says? Each record held to its length, its digests, what it refers to, and what the
head of an answer promises.

A fault is what makes the file, or a record of it, worthless as it stands: damage, or a block that is not the
one that was written. A finding is odd and may be right: another file may have what is referred to.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b

from protocols.values import NamedTuple
from resolver.warc.head import RecordHead
from resolver.warc.inspection import BlockFacts, BlockInspection
from resolver.warc.records import DamagedSpan, WarcRecord, read_records
from resolver.warc.stretch import RecordSource

#: Records, and references, of which is known what they are called: some 100 MB for both.
MOST_KNOWN = 1_000_000

_REFERENCES = ("WARC-Concurrent-To", "WARC-Refers-To", "WARC-Warcinfo-ID")
#: What every record has to say (WARC 1.1, 5).
_NEEDED = ("WARC-Type", "WARC-Record-ID", "WARC-Date")


class ArchiveFinding(NamedTuple):
    """`name` is one of a few words, as the findings of a URL are; `message` is for people."""

    file: str
    offset: int
    name: str
    message: str
    is_fault: bool = False


class ArchiveCheck:
    """Of files that belong together: what one refers to may be in another. `records` and `damaged` count."""

    def __init__(self, most: int = MOST_KNOWN) -> None:
        self.records = 0
        self.damaged = 0
        self._most = most
        self._known: dict[bytes, bool] = {}
        self._wanted: list[_ReferredRecord] = []
        self._knows_all = True

    def read(self, source: RecordSource, name: str) -> Iterator[ArchiveFinding]:
        """What there is to say of one file, in its order. Raises `LocalError` for one of another format."""
        for found in read_records(source, BlockInspection):
            if isinstance(found, DamagedSpan):
                self.damaged += 1
                yield _damage(name, found)
                continue
            self.records += 1
            for said in _of_record(found):
                yield said._replace(file=name, offset=found.offset)
            self._note(found.head, name, found.offset)

    def end(self) -> Iterator[ArchiveFinding]:
        """What can be said when all files were read: which references lead nowhere."""
        for wanted in self._wanted:
            known = self._known.get(wanted.digest)
            if known is None and self._knows_all:
                message = f"{wanted.field} names {wanted.id}, which is in no file that was read"
                yield ArchiveFinding(wanted.file, wanted.offset, "warc:reference", message)
            elif known and wanted.is_original:
                message = f"it refers to {wanted.id}, which is a revisit itself: nobody looks further"
                yield ArchiveFinding(wanted.file, wanted.offset, "warc:revisit", message)
        if not self._knows_all:
            message = (
                f"there is more than is remembered, {self._most} records: not all references were looked up"
            )
            yield ArchiveFinding("", 0, "warc:reference", message)

    def _note(self, head: RecordHead, file: str, offset: int) -> None:
        if head.id is not None and self._has_room(len(self._known)):
            self._known[_digest(head.id)] = head.type == "revisit"
        for field in _REFERENCES:
            for id in head.fields.get_list(field):
                if self._has_room(len(self._wanted)):
                    is_original = field == "WARC-Refers-To" and head.type == "revisit"
                    self._wanted.append(
                        _ReferredRecord(file, offset, field, id[:200], _digest(id), is_original)
                    )

    def _has_room(self, taken: int) -> bool:
        if taken >= self._most:
            self._knows_all = False
        return taken < self._most


class _ReferredRecord(NamedTuple):
    file: str
    offset: int
    field: str
    id: str
    digest: bytes
    is_original: bool


def _digest(id: str) -> bytes:
    return blake2b(id.encode("utf-8", "surrogateescape"), digest_size=16).digest()


def _damage(file: str, found: DamagedSpan) -> ArchiveFinding:
    if found.is_cut:
        after = "; all before that is whole"
    elif found.resumes is None:
        after = "; no record follows"
    else:
        after = f"; the next record is at octet {found.resumes}"
    return ArchiveFinding(file, found.offset, "warc:damaged", found.message + after, is_fault=True)


def _of_record(record: WarcRecord[BlockInspection]) -> Iterator[ArchiveFinding]:
    head, facts = record.head, record.reader.facts()
    for name in _NEEDED:
        if head.first(name) is None:
            yield ArchiveFinding("", 0, "warc:field", f"it has no {name}")
    if head.first("WARC-Date") is not None and head.date is None:
        yield ArchiveFinding("", 0, "warc:field", "its WARC-Date is no date")
    for name in head.repeated():
        yield ArchiveFinding("", 0, "warc:field", f"{name} is there more than once: the first counts")
    if record.shares:
        yield ArchiveFinding("", 0, "warc:member", "another record follows in the same member of gzip")
    yield from _of_digests(head, facts)
    if facts.is_short and head.first("WARC-Truncated") is None:
        yield ArchiveFinding("", 0, "warc:short", _short(facts))


def _of_digests(head: RecordHead, facts: BlockFacts) -> Iterator[ArchiveFinding]:
    if facts.block == "mismatch":
        # wget writes the digest of nothing where a revisit has a head.
        is_fault = head.type != "revisit"
        yield ArchiveFinding(
            "", 0, "warc:digest", "its block has another digest than it says", is_fault=is_fault
        )
    elif facts.payload == "mismatch":
        is_fault = facts.block != "verified"
        yield ArchiveFinding(
            "", 0, "warc:digest", "its payload has another digest than it says", is_fault=is_fault
        )
    if "unknown" in (facts.block, facts.payload):
        yield ArchiveFinding("", 0, "warc:digest-unknown", "a digest of it is in no form that we know")


def _short(facts: BlockFacts) -> str:
    if facts.is_cut:
        return "its last chunk is missing, and it does not say that it is truncated"
    return f"it has {facts.present} of {facts.promised} octets, and does not say that it is truncated"
