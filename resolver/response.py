"""Finished values: what a retrieval leaves behind once its connection is gone.

`Response` is a whole body in memory, `Saved` one in a file. Both are frozen; neither ever shows a password.
"""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from protocols.contract import Entry
from protocols.instant import instant
from protocols.location import Finding, JsonValue, Kind
from resolver.records import finding_record

#: Media types outside text/ whose octets are meant for reading.
_TEXTUAL = frozenset(
    {
        "application/gopher-menu",
        "application/gopher+-menu",
        "application/json",
        "application/mac-binhex40",
        "application/x-wais-source",
        "application/xhtml+xml",
        "application/xml",
        "message/rfc822",
        "multipart/mixed",
    }
)

#: What Python decodes by these names is no text of a peer's, and punycode takes time by the square.
_NO_CHARSETS = frozenset({"idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape"})


def is_textual(media_type: str | None) -> bool:
    """Are octets of this media type meant to be read as text?"""
    if media_type is None:
        return False
    essence = media_type.partition(";")[0].strip().lower()
    return essence.startswith("text/") or essence in _TEXTUAL or essence.endswith(("+xml", "+json"))


def looks_like_text(octets: bytes) -> bool:
    """Do the first octets of something of no known type read as text? UTF-8, as far as it goes, and no
    control characters but those of text and of terminals."""
    if any(octet < 0x20 and octet not in b"\b\t\n\f\r\x1b" for octet in octets):
        return False
    try:
        octets.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start > len(octets) - 4 and error.reason == "unexpected end of data"
    return True


def decode_text(octets: bytes, charset: str | None) -> str:
    """Octets as text: by the declared charset, else UTF-8 if they are valid, else ISO 8859-1.

    Never fails: an unknown charset counts as undeclared, invalid octets become U+FFFD.
    """
    if charset is not None:
        try:
            if codecs.lookup(charset).name not in _NO_CHARSETS:
                return octets.decode(charset, "replace")
        except (LookupError, ValueError):  # ValueError: a name that no charset could have
            pass
    try:
        return octets.decode("utf-8")
    except UnicodeDecodeError:
        return octets.decode("latin-1")


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A complete body and what is known of it.

    `url` is where it came from in the end, `requested_url` what was asked for, `chain` what was asked
    before `url`, one URL a redirect; all redacted.
    `content` are its octets; `raw` the same before the protocol's quoting was undone (Gopher's
    periods), None where there is none. `size` is what the peer announced. `entries` are the records
    of a listing, None for anything else. `elapsed` is in seconds, `retrieved` the moment at which all of it
    was there: the same URL may name something else later (S21). `verified` says what was checked: words out
    of length, digest, final-reply, close-notify, terminator.
    """

    url: str
    requested_url: str
    kind: Kind
    content: bytes
    media_type: str | None
    charset: str | None
    size: int | None
    modified: datetime | None
    meta: tuple[tuple[str, str], ...]
    entries: tuple[Entry, ...] | None
    findings: tuple[Finding, ...]
    verified: tuple[str, ...]
    elapsed: float
    retrieved: datetime = field(default_factory=_now)
    peer: str | None = None
    chain: tuple[str, ...] = ()
    target: str | None = None
    extra: Mapping[str, JsonValue] | None = None
    raw: bytes | None = None

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """`meta` under the name http gives it."""
        return self.meta

    @property
    def text(self) -> str | None:
        """The content as text, or None for what is not text."""
        return decode_text(self.content, self.charset) if is_textual(self.media_type) else None

    def as_json(self) -> dict[str, JsonValue]:
        """Every member under its name; octets as one character each."""
        return {
            "url": self.url,
            "requested_url": self.requested_url,
            "kind": self.kind.value,
            "content": self.content.decode("latin-1"),
            "text": self.text,
            "media_type": self.media_type,
            "charset": self.charset,
            "size": self.size,
            "modified": instant(self.modified),
            "meta": [list(pair) for pair in self.meta],
            "entries": None if self.entries is None else [entry.as_json() for entry in self.entries],
            "findings": [finding_record(finding) for finding in self.findings],
            "verified": list(self.verified),
            "elapsed": self.elapsed,
            "retrieved": instant(self.retrieved),
            "peer": self.peer,
            "chain": list(self.chain),
            "target": self.target,
            "extra": None if self.extra is None else dict(self.extra),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """A body that is complete in a file under its final name (`path` None: on standard output).

    `bytes` is the size of the file, `resumed_from` how many of them an earlier try had left.
    `digest` is `sha256:HEX` when it was asked for. `retrieved` is as in `Response`. `skipped`: a file was
    there already, and stays.
    """

    url: str
    requested_url: str
    path: str | None
    bytes: int
    resumed_from: int
    kind: Kind
    media_type: str | None
    modified: datetime | None
    digest: str | None
    findings: tuple[Finding, ...]
    verified: tuple[str, ...]
    attempts: int
    elapsed: float
    retrieved: datetime = field(default_factory=_now)
    peer: str | None
    skipped: bool = False
    chain: tuple[str, ...] = ()

    def as_json(self) -> dict[str, JsonValue]:
        """Every member under its name."""
        return {
            "url": self.url,
            "requested_url": self.requested_url,
            "path": self.path,
            "bytes": self.bytes,
            "resumed_from": self.resumed_from,
            "kind": self.kind.value,
            "media_type": self.media_type,
            "modified": instant(self.modified),
            "digest": self.digest,
            "findings": [finding_record(finding) for finding in self.findings],
            "verified": list(self.verified),
            "attempts": self.attempts,
            "elapsed": self.elapsed,
            "retrieved": instant(self.retrieved),
            "peer": self.peer,
            "skipped": self.skipped,
            "chain": list(self.chain),
        }
