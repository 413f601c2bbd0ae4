"""What was kept before, so that the same again is only said to be the same (WARC 1.1, 6.7).

What tells is the SHA-256 of the payload and its length; of what has no head of its own the media type, too,
and of answers of http whether they came in chunks. The URL need not be the same.
"""

from __future__ import annotations

from protocols.values import NamedTuple
from resolver.warc.group import CapturedObject
from resolver.warc.writing import Fields

#: Octets below which a record that refers to another is no shorter.
LEAST = 512
#: As many are known, the oldest forgotten first: some 500 MB.
MOST_KNOWN = 1_000_000

_OK = 200


class RevisitOriginal(NamedTuple):
    """A record that has the payload: its ID, its URL and its date as it has them."""

    id: str
    target: str
    date: str

    def fields(self, profile: str, digest: str) -> Fields:
        """What a record says that is the same as this one."""
        return [
            ("WARC-Profile", profile),
            ("WARC-Payload-Digest", digest),
            ("WARC-Refers-To", self.id),
            ("WARC-Refers-To-Target-URI", self.target),
            ("WARC-Refers-To-Date", self.date),
        ]


class Revisits:
    """Those of a run."""

    def __init__(self, most: int = MOST_KNOWN) -> None:
        self._most = most
        self._known: dict[tuple[str, int, str], RevisitOriginal] = {}

    def find(self, kept: CapturedObject) -> RevisitOriginal | None:
        """What is the same, where that is worth while; nothing of what is not whole."""
        return self._known.get(key_of(kept)) if counts(kept) else None

    def note(self, kept: CapturedObject, original: RevisitOriginal) -> None:
        """It is there now."""
        if not counts(kept):
            return
        if len(self._known) >= self._most:
            del self._known[next(iter(self._known))]
        self._known[key_of(kept)] = original


def counts(kept: CapturedObject) -> bool:
    """Is it worth while to refer to another record that has it, or to this one?"""
    return kept.truncated is None and kept.size >= LEAST and kept.status in (None, _OK)


def key_of(kept: CapturedObject) -> tuple[str, int, str]:
    """What is alike in those that are the same. A revisit of http has a head, by which programs read the body
    of the other: that is in chunks where this was, and only there."""
    is_coded = kept.payload_digest is None
    how = kept.content_type if kept.type != "response" else "chunks" if is_coded else ""
    return kept.sha256, kept.size, how
