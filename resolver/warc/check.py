"""The integrity check of an archive, and the list of its records.

The check verifies lengths, digests and references, and parses response heads. A fault, such as damage or a
wrong digest, means that the file or a record is unusable. Other findings may be harmless. For example, a
referenced record may be in another file.
"""

from __future__ import annotations

import binascii
import hashlib
from base64 import b32decode, b64decode
from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import Literal, NamedTuple, TypeAlias

from protocols.location import JsonValue
from resolver.url.parsing import redact
from resolver.warc.http import (
    BODILESS,
    MAX_HEAD,
    ArchivedHead,
    ChunkDecoder,
    find_heads,
    has_complete_range,
)
from resolver.warc.metadata import find_end, get_text, read_events
from resolver.warc.records import DamagedSpan, RecordHead, RecordSource, WarcRecord, read_records

# The digests of records (WARC 1.1, 5.8), and the payload from which a digest is computed (WARC 1.1, 2).
#
# This package writes `sha1:` and 32 characters of base32. Other programs write other forms: the name of the
# algorithm may contain a hyphen, and the digest may be in hex, base32 or base64. The length of the digest
# determines the encoding. Letters in any case and missing `=` padding are accepted, because existing files
# contain these forms.

#: The result of a digest check. `unknown` means that the text is not a digest, or that the algorithm is not
#: supported.
Verdict: TypeAlias = Literal["verified", "mismatch", "absent", "unknown"]

#: The digest size in bytes, by the name of the algorithm without a hyphen.
_SIZES = {"md5": 16, "sha1": 20, "sha256": 32, "sha512": 64}


class DigestClaim(NamedTuple):
    """The digest in a record field: the name of the algorithm in hashlib, and the bytes of the digest."""

    algorithm: str
    digest: bytes


def read_claim(text: str) -> DigestClaim | None:
    """Parse a digest; return None if the text is not a digest or the algorithm is not supported."""
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
    """A digest that is computed incrementally, for comparison with the digest in a record field."""

    def __init__(self, text: str | None) -> None:
        self._is_absent = text is None
        self._claim = None if text is None else read_claim(text)
        self._hash = (
            None if self._claim is None else hashlib.new(self._claim.algorithm, usedforsecurity=False)
        )

    def take(self, octets: bytes) -> None:
        if self._hash is not None:
            self._hash.update(octets)

    def verdict(self) -> Verdict:
        if self._claim is None or self._hash is None:
            return "absent" if self._is_absent else "unknown"
        return "verified" if self._hash.digest() == self._claim.digest else "mismatch"


# Extraction of the payload from a block. The payload of an HTTP response is the body without transfer coding.
# For any other record, the payload is the block (WARC 1.1, 2).


class HttpHead:
    """An incremental reader of the heads of an HTTP message.

    Attributes:
        answer: the heads, or None if they are not complete yet, or longer than the limit.
        is_over: whether all further bytes belong to the body.
    """

    def __init__(self) -> None:
        self.answer: ArchivedHead | None = None
        self.is_over = False
        self._buffer = bytearray()

    def take(self, octets: bytes) -> bytes:
        """Return the bytes of `octets` that belong to the body."""
        if self.is_over:
            return octets
        self._buffer += octets
        self.answer = find_heads(bytes(self._buffer))
        return b"" if self.answer is None and len(self._buffer) <= MAX_HEAD else self.end()

    def end(self) -> bytes:
        """Return the buffered bytes of the body at the end of the block; incomplete heads are the body."""
        octets, self._buffer, self.is_over = bytes(self._buffer), bytearray(), True
        return octets if self.answer is None else octets[self.answer.size :]


class Payload:
    """An incremental reader of a payload. After the HTTP response head was read, `answer` is set."""

    def __init__(self, head: RecordHead) -> None:
        self._http = HttpHead() if head.media_type == "application/http" else None
        self._unchunked: ChunkDecoder | None = None

    @property
    def answer(self) -> ArchivedHead | None:
        return None if self._http is None else self._http.answer

    def take(self, octets: bytes) -> bytes:
        """Return the payload bytes in `octets`; after an invalid response head, the result is empty."""
        if self._http is not None and self._http.answer is None:
            octets = self._http.take(octets)
            if (answer := self._http.answer) is None:
                return b""
            self._unchunked = ChunkDecoder(answer.head) if answer.is_coded else None
        return octets if self._unchunked is None else self._unchunked.take(octets)

    @property
    def is_whole(self) -> bool:
        """Return whether the payload is complete; only a chunked body can be recognized as incomplete."""
        return self._unchunked is None or self._unchunked.is_whole


# Inspection of a block: its digests, and the Content-Length of an HTTP response.
#
# The payload of an HTTP message is the body without transfer coding. Most tools instead hash the body with
# the chunked framing, so this package accepts both digests.


class BlockFacts(NamedTuple):
    """The result of an inspection.

    Attributes:
        status: the HTTP status.
        promised: the body length in bytes according to the response head.
        present: the actual body length in bytes.
        is_cut: whether the last chunk of a chunked body is missing.
    """

    block: Verdict
    payload: Verdict
    status: int | None
    promised: int | None
    present: int
    is_cut: bool

    @property
    def is_short(self) -> bool:
        """Return whether the body is shorter than the response head states."""
        return self.is_cut or (self.promised is not None and self.present < self.promised)


class BlockInspection:
    """The inspection of one record; `facts` is valid after the complete block was read."""

    def __init__(self, head: RecordHead) -> None:
        self.head = head
        self._block = ComputedDigest(head.get_first("WARC-Block-Digest"))
        claim = head.get_first("WARC-Payload-Digest")
        self._payload = ComputedDigest(claim)
        self._decoded = ComputedDigest(claim)
        self._chunks: ChunkDecoder | None = None
        self._http = HttpHead() if head.media_type == "application/http" else None
        self._present = 0

    def take(self, octets: bytes) -> None:
        self._block.take(octets)
        if self._http is not None and not self._http.is_over:
            octets = self._http.take(octets)
            answer = self._http.answer
            if answer is not None and answer.status is not None and answer.is_coded:
                self._chunks = ChunkDecoder(answer.head)
        self._take_body(octets)

    def facts(self) -> BlockFacts:
        if self._http is not None:
            self._take_body(self._http.end())
        payload = self._payload.verdict()
        is_decoded = self._chunks is not None and self._chunks.is_whole
        if payload == "mismatch" and is_decoded and self._decoded.verdict() == "verified":
            payload = "verified"
        answer = None if self._http is None else self._http.answer
        status = None if answer is None else answer.status
        has_body = self.head.type == "response" and status not in (None, *BODILESS)
        return BlockFacts(
            block=self._block.verdict(),
            payload="absent" if self.head.type == "revisit" and payload != "unknown" else payload,
            status=status,
            promised=answer.length if has_body and answer is not None else None,
            present=self._present,
            is_cut=has_body and self._chunks is not None and not is_decoded,
        )

    def verdict(self) -> Verdict:
        """Return the result for the digest of the payload."""
        return self.facts().payload

    def _take_body(self, octets: bytes) -> None:
        if octets:
            self._present += len(octets)
            self._payload.take(octets)
            if self._chunks is not None:
                self._decoded.take(self._chunks.take(octets))


#: The maximum number of stored record IDs, and also of stored references. IDs and references together use
#: about 100 MB of memory.
MAX_KNOWN = 1_000_000

_REFERENCES = ("WARC-Concurrent-To", "WARC-Refers-To", "WARC-Warcinfo-ID")
#: Fields that every record must have (WARC 1.1, 5).
_REQUIRED_FIELDS = ("WARC-Type", "WARC-Record-ID", "WARC-Date")


class ArchiveFinding(NamedTuple):
    """A finding about a record; `name` identifies the type, and `message` is the text for users."""

    file: str
    offset: int
    name: str
    message: str
    is_fault: bool = False


class ArchiveCheck:
    """A check of files that may contain references to each other.

    Attributes:
        records: the number of complete records.
        damaged: the number of damaged spans.
    """

    def __init__(self, max_records: int = MAX_KNOWN) -> None:
        self.records = 0
        self.damaged = 0
        self._max_records = max_records
        self._is_revisit_by_key: dict[bytes, bool] = {}
        self._references: list[_ReferredRecord] = []
        self._is_complete = True

    def read(self, source: RecordSource, name: str) -> Iterator[ArchiveFinding]:
        """Yield the findings about one file, in order.

        Raises:
            LocalError: The file is not a WARC file.
        """
        for item in read_records(source, BlockInspection):
            if isinstance(item, DamagedSpan):
                self.damaged += 1
                yield _describe_damage(name, item)
                continue
            self.records += 1
            for finding in _check_record(item):
                yield finding._replace(file=name, offset=item.offset)
            self._add_record(item.head, name, item.offset)

    def end(self) -> Iterator[ArchiveFinding]:
        """Yield the findings about references; call this method after all files were read."""
        for reference in self._references:
            is_revisit = self._is_revisit_by_key.get(reference.digest)
            if is_revisit is None and self._is_complete:
                message = f"{reference.field} refers to {reference.id}, which is not in the files read"
                yield ArchiveFinding(reference.file, reference.offset, "warc:reference", message)
            elif is_revisit and reference.is_original:
                message = (
                    f"WARC-Refers-To refers to {reference.id}, which is a revisit itself and is not followed"
                )
                yield ArchiveFinding(reference.file, reference.offset, "warc:revisit", message)
        if not self._is_complete:
            message = f"more than {self._max_records} records: not all references were checked"
            yield ArchiveFinding("", 0, "warc:reference", message)

    def _add_record(self, head: RecordHead, file: str, offset: int) -> None:
        if head.id is not None and self._has_room(len(self._is_revisit_by_key)):
            self._is_revisit_by_key[short_key(head.id)] = head.type == "revisit"
        for field in _REFERENCES:
            for id in head.fields.get_list(field):
                if self._has_room(len(self._references)):
                    is_original = field == "WARC-Refers-To" and head.type == "revisit"
                    self._references.append(
                        _ReferredRecord(file, offset, field, id[:200], short_key(id), is_original)
                    )

    def _has_room(self, count: int) -> bool:
        if count >= self._max_records:
            self._is_complete = False
        return count < self._max_records


class _ReferredRecord(NamedTuple):
    file: str
    offset: int
    field: str
    id: str
    digest: bytes
    is_original: bool


def short_key(text: str) -> bytes:
    """Return a digest of the text as a short key, because the text may be as long as a header line."""
    return blake2b(text.encode("utf-8", "surrogateescape"), digest_size=16).digest()


def _describe_damage(file: str, span: DamagedSpan) -> ArchiveFinding:
    if span.is_cut:
        after = "; all records before are complete"
    elif span.resumes is None:
        after = "; no record follows"
    else:
        after = f"; the next record is at byte {span.resumes}"
    return ArchiveFinding(file, span.offset, "warc:damaged", span.message + after, is_fault=True)


def _check_record(record: WarcRecord[BlockInspection]) -> Iterator[ArchiveFinding]:
    head, facts = record.head, record.reader.facts()
    for name in _REQUIRED_FIELDS:
        if head.get_first(name) is None:
            yield ArchiveFinding("", 0, "warc:field", f"field {name} is missing")
    if head.get_first("WARC-Date") is not None and head.date is None:
        yield ArchiveFinding("", 0, "warc:field", "WARC-Date is not a date")
    for name in head.list_repeated():
        yield ArchiveFinding("", 0, "warc:field", f"{name} is repeated: the first value counts")
    if record.shares_member:
        yield ArchiveFinding("", 0, "warc:member", "another record follows in the same gzip member")
    yield from _check_digests(head, facts)
    if facts.is_short and head.get_first("WARC-Truncated") is None:
        present = f"the body has {facts.present} of {facts.promised} bytes"
        subject = "the last chunk is missing" if facts.is_cut else present
        yield ArchiveFinding("", 0, "warc:short", f"{subject}, but WARC-Truncated is absent")
    if head.is_complete_response and facts.status is None:
        yield ArchiveFinding("", 0, "warc:head", "the response has no valid head, and cannot be replayed")


def _check_digests(head: RecordHead, facts: BlockFacts) -> Iterator[ArchiveFinding]:
    if facts.block == "mismatch":
        # For a revisit record with a response head, wget writes the digest of an empty block.
        is_fault = head.type != "revisit"
        yield ArchiveFinding("", 0, "warc:digest", "the block does not match its digest", is_fault=is_fault)
    elif facts.payload == "mismatch":
        is_fault = facts.block != "verified"
        yield ArchiveFinding("", 0, "warc:digest", "the payload does not match its digest", is_fault=is_fault)
    if "unknown" in (facts.block, facts.payload):
        yield ArchiveFinding("", 0, "warc:digest-unknown", "a digest has an unknown form")


#: Media types of archived listings, by scheme.
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
#: The number of bytes that are read at the end of a dialogue, to find the outcome in the last line.
_MAX_END = 65_536
_OUTCOMES = frozenset({"done", "truncated", "failed", "info"})


class ListedRecord(NamedTuple):
    """A record in a list of records; `kind` is an HTTP status, an outcome, or the type of the object."""

    offset: int
    head: RecordHead
    kind: str

    def as_json(self) -> dict[str, JsonValue]:
        """Return the fields of the record by name, with a redacted URL."""
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
    source: RecordSource, is_selected: Callable[[str], bool] | None = None
) -> Iterator[ListedRecord | DamagedSpan]:
    """Yield the complete records and the damaged spans of a file in order.

    Args:
        source: The file.
        is_selected: A filter for URLs. None selects all records.

    Raises:
        LocalError: The file is not a WARC file.
    """
    for item in read_records(source, RecordKindReader):
        if isinstance(item, DamagedSpan):
            yield item
        elif is_selected is None or (item.head.target is not None and is_selected(item.head.target)):
            yield ListedRecord(item.offset, item.head, item.reader.kind())


class RecordKindReader:
    """A block reader that stores only the bytes that determine the kind of the record."""

    def __init__(self, head: RecordHead) -> None:
        self.type = head.type
        self._media_type = head.media_type
        self.http = HttpHead() if self._media_type == "application/http" else None
        self._end = b""

    def take(self, octets: bytes) -> None:
        if self.type == "metadata":
            self._end = (self._end + octets)[-_MAX_END:]
        elif self.http is not None:
            self.http.take(octets)

    def kind(self) -> str:
        """Return the HTTP status, the outcome of a retrieval, or the type of the object.

        The result is 200 for a 206 response with the complete object: browsers request media as a range.
        """
        if self.type == "metadata":
            return _outcome(self._end)
        answer = None if self.http is None else self.http.answer
        if answer is not None and answer.status is not None:
            is_complete = answer.status == 206 and has_complete_range(answer.head)
            return "200" if is_complete else str(answer.status)
        if self.type != "resource":
            return "-"
        return _LISTINGS.get(self._media_type or "", "document")


def _outcome(end: bytes) -> str:
    """Return the outcome of a dialogue; `-` if the dialogue is not in this package's format."""
    last = next(filter(None, reversed(end.splitlines())), b"")
    outcome = get_text(find_end(read_events(iter((last,)))), "outcome")
    return outcome if outcome in _OUTCOMES else "-"
