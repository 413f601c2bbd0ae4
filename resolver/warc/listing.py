"""What is in an archive, a record a line: when, what, from where."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from protocols.location import JsonValue
from protocols.values import NamedTuple
from resolver.url import redact
from resolver.warc.head import RecordHead
from resolver.warc.inspection import HttpHead
from resolver.warc.records import DamagedSpan, read_records
from resolver.warc.stretch import RecordSource

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
            "date": head.first("WARC-Date"),
            "type": head.type,
            "kind": self.kind,
            "media_type": head.media_type,
            "length": head.length,
            "url": None if target is None else redact(target),
            "id": head.id,
            "block_digest": head.first("WARC-Block-Digest"),
            "payload_digest": head.first("WARC-Payload-Digest"),
            "truncated": head.first("WARC-Truncated"),
            "refers_to": head.first("WARC-Refers-To"),
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
