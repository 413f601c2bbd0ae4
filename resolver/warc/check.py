"""The check of an archive: lengths, digests, references and answer heads of its records; its listing.

A fault makes the file, or a record of it, worthless as it stands: damage, or a block that is not the one that
was written. A finding is odd and may be right: another file may have the referenced record.
"""

from __future__ import annotations

import binascii
import hashlib
import json
import re
from base64 import b32decode, b64decode
from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import Literal, NamedTuple, TypeAlias

import h11

from protocols.location import JsonValue
from resolver.url.parsing import redact
from resolver.warc.http import MOST_HEAD, AnswerSpan, ChunkDecoder, find_answer
from resolver.warc.records import DamagedSpan, RecordHead, RecordSource, WarcRecord, read_records

# Digests of records (WARC 1.1, 5.8), and the payload that they cover (WARC 1.1, 2).
#
# Our digests are `sha1:` and 32 characters of base32; other programs write other forms.
#
# An algorithm's name may have a hyphen; its length tells whether a value is hex, base32 or base64. Letters
# of any case and a missing `=` are accepted, for there are files with either.

#: What became of a digest: `unknown` is one that we cannot compute, or that is none.
Verdict: TypeAlias = Literal["verified", "mismatch", "absent", "unknown"]

#: Algorithms by their names without a hyphen, and the octets of their digests.
_SIZES = {"md5": 16, "sha1": 20, "sha256": 32, "sha512": 64}


class DigestClaim(NamedTuple):
    """A digest that a record says: an algorithm by the name that hashlib has for it, and its octets."""

    algorithm: str
    digest: bytes


def read_claim(text: str) -> DigestClaim | None:
    """None for what we cannot compute, and for what is no digest."""
    name, _, value = text.partition(":")
    algorithm = name.strip().lower().replace("-", "")
    size, value = _SIZES.get(algorithm, 0), value.strip().rstrip("=")
    try:
        if len(value) == 2 * size:
            digest = bytes.fromhex(value)
        elif len(value) == (size * 8 + 4) // 5:
            digest = b32decode(_pad(value.upper(), 8))
        elif len(value) == (size * 8 + 5) // 6:
            digest = b64decode(_pad(value, 4), b"+/", validate=True)
        else:
            return None
    except (ValueError, binascii.Error):
        return None
    return DigestClaim(algorithm, digest) if digest and len(digest) == size else None


def _pad(value: str, unit: int) -> str:
    return value + "=" * (-len(value) % unit)


class ComputedDigest:
    """A digest that is computed as octets come, for what a field claims; None where there is no field."""

    def __init__(self, text: str | None) -> None:
        self._absent = text is None
        self._claim = None if text is None else read_claim(text)
        self._hash = (
            None if self._claim is None else hashlib.new(self._claim.algorithm, usedforsecurity=False)
        )

    def take(self, octets: bytes) -> None:
        if self._hash is not None:
            self._hash.update(octets)

    def verdict(self) -> Verdict:
        if self._claim is None or self._hash is None:
            return "absent" if self._absent else "unknown"
        return "verified" if self._hash.digest() == self._claim.digest else "mismatch"


# The payload of a record while its block is read: of an HTTP answer its body without transfer coding, of
# everything else the block (WARC 1.1, 2).


class Payload:
    """`answer` is what stands before the body, where it is an answer of http and its head has come."""

    def __init__(self, head: RecordHead) -> None:
        self.answer: AnswerSpan | None = None
        self._has_head = head.media_type == "application/http"
        self._held = bytearray()
        self._unchunked: ChunkDecoder | None = None

    def take(self, octets: bytes) -> bytes:
        """What of the payload these make; nothing of what has no head that we could read."""
        if self._has_head and self.answer is None:
            if len(self._held) > MOST_HEAD:
                return b""
            self._held += octets
            self.answer = find_answer(bytes(self._held))
            if self.answer is None:
                return b""
            octets = bytes(self._held[self.answer.interim + len(self.answer.head) :])
            self._held.clear()
            self._unchunked = ChunkDecoder(self.answer.head) if self.answer.coded else None
        return octets if self._unchunked is None else self._unchunked.take(octets)

    @property
    def is_whole(self) -> bool:
        """Has all of it come, as far as that can be told of chunks?"""
        return self._unchunked is None or self._unchunked.is_whole


# The block of a record as it is read: its digests, and the promises in the head of an HTTP answer.
#
# The payload of an HTTP message is its body without transfer coding, yet most tools hash its chunks with
# their framing: a digest of either is right.

#: Octets of the head of an answer (S16).
_MOST_HEAD = 262_144

_HEAD_ENDS = re.compile(rb"\r?\n\r?\n")
_STATUS = re.compile(rb"HTTP/[0-9]\.[0-9] ([0-9]{3})(?:[ \r\n]|\Z)")
_LENGTH = re.compile(rb"\r?\ncontent-length[ \t]*:[ \t]*([0-9]{1,18})[ \t]*(?=\r?\n|\Z)", re.IGNORECASE)
_CODED = re.compile(rb"\r?\ntransfer-encoding[ \t]*:", re.IGNORECASE)
#: Answers that have no body, whatever length they say.
_BODILESS = frozenset({204, 304})


class BlockFacts(NamedTuple):
    """What was found. `status` is http's; `promised` are the octets of a body that its head promises and
    `present` those that are there; `is_cut`: chunks without the last one."""

    block: Verdict
    payload: Verdict
    status: int | None
    promised: int | None
    present: int
    is_cut: bool

    @property
    def is_short(self) -> bool:
        """Is there less of it than its head promises?"""
        return self.is_cut or (self.promised is not None and self.present < self.promised)


class HttpHead:
    """What stands before the body of a message of http: `octets` when all of it came, empty where there is no
    head."""

    def __init__(self) -> None:
        self.octets: bytes | None = None
        self._held = bytearray()

    def take(self, octets: bytes) -> bytes:
        """What of them is body."""
        if self.octets is not None:
            return octets
        looked_at = max(0, len(self._held) - 3)
        self._held += octets
        end = _HEAD_ENDS.search(self._held, looked_at)
        if end is None and len(self._held) <= _MOST_HEAD:
            return b""
        return self._end_head(0 if end is None else end.end())

    def end(self) -> bytes:
        """No more comes: what was held for a head and is body."""
        return b"" if self.octets is not None else self._end_head(0)

    @property
    def status(self) -> int | None:
        found = _STATUS.match(self.octets or b"")
        return None if found is None else int(found[1])

    def _end_head(self, at: int) -> bytes:
        held, self._held = bytes(self._held), bytearray()
        self.octets = held[:at]
        return held[at:]


class BlockInspection:
    """Of one record; `facts` when all of its block was taken."""

    def __init__(self, head: RecordHead) -> None:
        self.head = head
        self._block = ComputedDigest(head.get_first("WARC-Block-Digest"))
        self._claim = head.get_first("WARC-Payload-Digest")
        self._payload = ComputedDigest(self._claim)
        self._decoded: _DecodedBody | None = None
        self._http = HttpHead() if head.media_type == "application/http" else None
        self._status: int | None = None
        self._promised: int | None = None
        self._present = 0

    def take(self, octets: bytes) -> None:
        self._block.take(octets)
        if self._http is not None and self._http.octets is None:
            octets = self._http.take(octets)
            self._read_head(self._http)
        self._take_body(octets)

    def facts(self) -> BlockFacts:
        if self._http is not None:
            self._take_body(self._http.end())
        payload = self._payload.verdict()
        if payload == "mismatch" and self._decoded is not None and self._decoded.verdict() == "verified":
            payload = "verified"
        is_whole_here = self.head.type == "response" and self._status not in _BODILESS
        return BlockFacts(
            block=self._block.verdict(),
            payload="absent" if self.head.type == "revisit" and payload != "unknown" else payload,
            status=self._status,
            promised=self._promised if is_whole_here else None,
            present=self._present,
            is_cut=is_whole_here and self._decoded is not None and not self._decoded.is_whole(),
        )

    def _take_body(self, octets: bytes) -> None:
        if octets:
            self._present += len(octets)
            self._payload.take(octets)
            if self._decoded is not None:
                self._decoded.take(octets)

    def _read_head(self, head: HttpHead) -> None:
        if not head.octets or head.status is None:
            return
        self._status = head.status
        if _CODED.search(head.octets):
            self._decoded = _DecodedBody(head.octets, self._claim)
        elif (length := _LENGTH.search(head.octets)) is not None:
            self._promised = int(length[1])


class _DecodedBody:
    """A body in chunks, without them."""

    def __init__(self, head: bytes, claim: str | None) -> None:
        self._digest = ComputedDigest(claim)
        self._machine = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MOST_HEAD)
        self._machine.send(h11.Request(method="GET", target="/", headers=[("Host", "archive.invalid")]))
        self._machine.send(h11.EndOfMessage())
        self._is_over = self._is_whole = False
        self.take(head)

    def take(self, octets: bytes) -> None:
        """What h11 does not take is not decoded, and so not compared."""
        if self._is_over:
            return
        try:
            self._machine.receive_data(octets)
            while isinstance(
                event := self._machine.next_event(), h11.Data | h11.Response | h11.InformationalResponse
            ):
                if isinstance(event, h11.Data):
                    self._digest.take(bytes(event.data))
        except h11.RemoteProtocolError:
            self._is_over = True
            return
        if isinstance(event, h11.EndOfMessage):
            self._is_over = self._is_whole = True

    def is_whole(self) -> bool:
        return self._is_whole

    def verdict(self) -> Verdict:
        return self._digest.verdict() if self._is_whole else "unknown"


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
            for said in _check_record(found):
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


def _check_record(record: WarcRecord[BlockInspection]) -> Iterator[ArchiveFinding]:
    head, facts = record.head, record.reader.facts()
    for name in _NEEDED:
        if head.get_first(name) is None:
            yield ArchiveFinding("", 0, "warc:field", f"it has no {name}")
    if head.get_first("WARC-Date") is not None and head.date is None:
        yield ArchiveFinding("", 0, "warc:field", "its WARC-Date is no date")
    for name in head.list_repeated():
        yield ArchiveFinding("", 0, "warc:field", f"{name} is there more than once: the first counts")
    if record.shares:
        yield ArchiveFinding("", 0, "warc:member", "another record follows in the same member of gzip")
    yield from _check_digests(head, facts)
    if facts.is_short and head.get_first("WARC-Truncated") is None:
        yield ArchiveFinding("", 0, "warc:short", _describe_short(facts))


def _check_digests(head: RecordHead, facts: BlockFacts) -> Iterator[ArchiveFinding]:
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


def _describe_short(facts: BlockFacts) -> str:
    if facts.is_cut:
        return "its last chunk is missing, and it does not say that it is truncated"
    return f"it has {facts.present} of {facts.promised} octets, and does not say that it is truncated"


#: Media types of what a listing is made of, for each scheme that has any.
_LISTINGS = {
    "application/gopher-menu": "directory",
    "application/gopher+-menu": "directory",
    "application/gopher+-attributes": "attributes",
    "application/x-file-listing+jsonl": "directory",
    "application/x-nntp-answers": "group",
    "application/x-wais-messages": "results",
    "text/x-ftp-mlsd": "directory",
    "text/x-ftp-nlst": "directory",
    "text/x-prospero-answer": "directory",
}
#: The last line of a dialogue, which says what became of it: octets of it that are looked at.
_MOST_END = 65_536
_DIALOGUE = b"dialogue: "
_OUTCOMES = frozenset({"done", "truncated", "failed", "info"})


class ListedRecord(NamedTuple):
    """One record. `kind`: an http status, what became of a retrieval, or what the object is, in a word."""

    offset: int
    head: RecordHead
    kind: str

    def as_json(self) -> dict[str, JsonValue]:
        """What is said of it, with the names of its fields, and nothing that was not."""
        head = self.head
        target = head.target
        return {
            "offset": self.offset,
            "date": head.get_first("WARC-Date"),
            "type": head.type,
            "kind": self.kind,
            "media_type": head.media_type,
            "length": head.length,
            "url": None if target is None else redact(target),
            "id": head.id,
            "block_digest": head.get_first("WARC-Block-Digest"),
            "payload_digest": head.get_first("WARC-Payload-Digest"),
            "truncated": head.get_first("WARC-Truncated"),
            "refers_to": head.get_first("WARC-Refers-To"),
            "concurrent_to": list(head.fields.get_list("WARC-Concurrent-To")),
        }


def list_records(
    source: RecordSource, wanted: Callable[[str], bool] | None = None
) -> Iterator[ListedRecord | DamagedSpan]:
    """Each whole record, in order, and what is damaged; of some URLs alone where `wanted` tells which. Raises
    `LocalError` for a file of another format."""
    for found in read_records(source, PayloadPeek):
        if isinstance(found, DamagedSpan):
            yield found
        elif wanted is None or (found.head.target is not None and wanted(found.head.target)):
            yield ListedRecord(found.offset, found.head, found.reader.kind())


class PayloadPeek:
    """As much of a block as tells what it is."""

    def __init__(self, head: RecordHead) -> None:
        self.type = head.type
        self._media_type = head.media_type
        self.http = HttpHead() if self._media_type == "application/http" else None
        self._end = b""

    def take(self, octets: bytes) -> None:
        if self.type == "metadata":
            self._end = (self._end + octets)[-_MOST_END:]
        elif self.http is not None:
            self.http.take(octets)

    def kind(self) -> str:
        """An http status; what became of a retrieval; what the object is, as far as its type tells."""
        if self.type == "metadata":
            return _outcome(self._end)
        if self.http is not None and self.http.status is not None:
            return str(self.http.status)
        if self.type != "resource":
            return "-"
        return _LISTINGS.get(self._media_type or "", "document")


def _outcome(end: bytes) -> str:
    """What a dialogue ends with; `-` for what is none of ours."""
    lines = [line for line in end.splitlines() if line]
    if not lines or not lines[-1].startswith(_DIALOGUE):
        return "-"
    try:
        event = json.loads(lines[-1].removeprefix(_DIALOGUE))
    except (ValueError, RecursionError):
        return "-"
    outcome = event.get("outcome") if isinstance(event, dict) and event.get("event") == "end" else None
    return outcome if outcome in _OUTCOMES else "-"
