"""Finished values: what a retrieval leaves behind once its connection is gone.

`Response` is a whole body in memory, `Saved` one in a file: the facts of the reply (`protocols.reply`), how
they came, and what became of the body. Both are frozen; neither ever shows a password.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

from protocols.brief import brief, quoted
from protocols.charset import codec_of
from protocols.contract import Entry
from protocols.headers import without_cookie
from protocols.instant import instant
from protocols.location import Finding, JsonValue
from protocols.reply import Facts
from protocols.values import dataclass, field, fields

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
    codec = None if charset is None else codec_of(charset)
    if codec is not None:
        return octets.decode(codec, "replace")
    try:
        return octets.decode("utf-8")
    except UnicodeDecodeError:
        return octets.decode("latin-1")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Retrieved(Facts):
    """What every finished value says: the facts, and how they came.

    `url` is where it came from in the end, `requested_url` what was asked for, `chain` what was asked
    before `url`, one URL a redirect; all redacted. `elapsed` is in seconds, `retrieved` the moment at which
    all of it was there: the same URL may name something else later (S21). `verified` says what was checked:
    words out of length, digest, final-reply, close-notify, terminator. `peer` is the numeric address
    of whoever was connected to: of the `proxy`, where it went through one.
    """

    url: str
    requested_url: str
    findings: tuple[Finding, ...]
    verified: tuple[str, ...]
    elapsed: float
    retrieved: datetime = field(default_factory=partial(datetime.now, UTC))
    peer: str | None = None
    proxy: str | None = None
    chain: tuple[str, ...] = ()

    def as_json(self) -> dict[str, JsonValue]:
        """Every member under its name; octets as one character each, and a cookie that was set masked."""
        members = {member.name: _plain(getattr(self, member.name)) for member in fields(self)}
        return {**members, "meta": [[name, without_cookie(name, value)] for name, value in self.meta]}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Response(Retrieved):
    """A complete body and what is known of it.

    `content` are its octets; `raw` the same before the protocol's quoting was undone (Gopher's
    periods), None where there is none. `entries` are the records of a listing, None for anything else.

    Examples:
        >>> response = await resolver.fetch("http://127.0.0.1:8920/about.txt")
        >>> response.kind, response.verified
        (<Kind.DOCUMENT: 'document'>, ('length',))
    """

    content: bytes
    entries: tuple[Entry, ...] | None
    raw: bytes | None = None

    def __repr__(self) -> str:
        octets = f"{len(self.content)} octets"
        return brief(self, self.kind.value, octets, quoted(self.url), quoted(self.media_type))

    @property
    def text(self) -> str | None:
        """The content as text, or None for what is not text."""
        return decode_text(self.content, self.charset) if is_textual(self.media_type) else None

    def json(self) -> Any:  # whatever the peer says: nobody could give it a type
        """The content read as JSON (RFC 8259), in UTF-8, UTF-16 or UTF-32, whatever its media type. Raises
        `ValueError` for what is none."""
        import json  # few read it

        return json.loads(self.content)

    def as_json(self) -> dict[str, JsonValue]:
        """Every member under its name, but `raw`, and the text; octets as one character each."""
        record = {**Retrieved.as_json(self), "text": self.text}
        del record["raw"]
        return record


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Saved(Retrieved):
    """A body that is complete in a file under its final name (`path` None: on standard output).

    `bytes` is the size of the file, `resumed_from` how many of them an earlier try had left.
    `digest` is `sha256:HEX` when it was asked for. `skipped`: a file was there already, and stays. `mirror`
    is the URL of the place that had it where the first one did not.

    Examples:
        >>> saved = await resolver.save("http://127.0.0.1:8920/about.txt", "about.txt")
        >>> saved.path, saved.bytes, saved.verified, saved.skipped
        ('about.txt', 37, ('length',), False)
    """

    path: str | None
    bytes: int
    resumed_from: int
    digest: str | None
    attempts: int
    skipped: bool = False
    mirror: str | None = None

    def __repr__(self) -> str:
        done = "skipped" if self.skipped else f"{self.bytes} octets"
        return brief(self, self.kind.value, done, quoted(self.path), quoted(self.url))


def _plain(value: object) -> JsonValue:
    """A member as JSON has it."""
    match value:
        case None | bool() | int() | float():
            return value
        case str():  # also a kind
            return str(value)
        case bytes():
            return value.decode("latin-1")
        case datetime():
            return instant(value)
        case Finding() | Entry():
            return value.as_json()
        case tuple() | list():
            return [_plain(each) for each in value]
        case Mapping():
            return dict(value)
    raise AssertionError(f"{type(value)} has no form in JSON")
