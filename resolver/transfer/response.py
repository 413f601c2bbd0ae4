"""Completed responses: `Response` and `Saved`, and their http header fields and status codes.

`Response` has a complete body in memory, and `Saved` has a complete body in a file. Both classes are
immutable, and contain the metadata of the response (`protocols.contract.Facts`) and its provenance. Passwords
are redacted in both classes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from functools import partial
from typing import Any, Self

from protocols.contract import Entry, Facts
from protocols.errors import AccessDenied, Declined, LoginRequired, NotFound, TryLater
from protocols.location import Finding, JsonValue, Kind, mask_cookie
from protocols.text import Masked, brief, decode_text, find_codec, instant, quote_text
from resolver.url import registry

#: Media types whose content is text although the type does not start with `text/`.
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
    """Return whether content of this media type is text."""
    if media_type is None:
        return False
    essence = media_type.partition(";")[0].strip().lower()
    return essence.startswith("text/") or essence in _TEXTUAL or essence.endswith(("+xml", "+json"))


def looks_like_text(octets: bytes) -> bool:
    """Return whether bytes of unknown media type look like text (content sniffing).

    The bytes must be valid UTF-8, but the last character may be truncated. Control characters are allowed
    only if plain text or terminals use them.
    """
    if any(octet < 0x20 and octet not in b"\b\t\n\f\r\x1b" for octet in octets):
        return False
    try:
        octets.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start > len(octets) - 4 and error.reason == "unexpected end of data"
    return True


def decode_as(octets: bytes, charset: str | None) -> str:
    """Decode bytes as text; never raises.

    A declared and known charset is used, and invalid bytes become U+FFFD. If the charset is missing or
    unknown, valid UTF-8 is decoded as UTF-8, and all other text as ISO 8859-1.
    """
    codec = None if charset is None else find_codec(charset)
    return decode_text(octets) if codec is None else octets.decode(codec, "replace")


@dataclass(frozen=True, kw_only=True, init=False, eq=False, repr=False)
class Retrieved(Facts):
    """The common attributes of all completed responses: metadata and provenance. All URLs are redacted.

    - `url` is the final URL after all redirects. `requested_url` is the URL of the first request.
    - `chain` lists the URLs of the redirected requests, in order.
    - `elapsed` is the duration in seconds.
    - `retrieved` is the date and time at which the object was complete. The date is stored because the URL
      may name another object later (S21).
    - `verified` lists the successful checks: length, digest, final-reply, close-notify, terminator.
    - `peer` is the IP address of the server, or the IP address of the `proxy` if a proxy was used.
    """

    kind: Kind
    media_type: Masked | None = None
    charset: Masked | None = None
    size: int | None = None
    modified: datetime | None = None
    etag: Masked | None = None
    title: Masked | None = None
    suggested: bytes | None = None
    meta: tuple[tuple[str, str], ...] = ()
    target: Masked | None = None
    extra: Mapping[str, JsonValue] | None = None
    url: Masked
    requested_url: Masked
    findings: tuple[Finding, ...] = ()
    verified: tuple[str, ...] = ()
    elapsed: float = 0.0
    retrieved: datetime = field(default_factory=partial(datetime.now, UTC))
    peer: str | None = None
    proxy: Masked | None = None
    chain: tuple[Masked, ...] = ()

    @classmethod
    def of(cls, members: dict[str, Any], **others: Any) -> Self:
        """Return a response with the dict `members`, faster than `__init__`, which sets them one by one."""
        response = cls.__new__(cls)
        members.update(others)
        object.__setattr__(response, "__dict__", members)
        return response

    def as_json(self) -> dict[str, JsonValue]:
        """Return all attributes as JSON values by name.

        Each byte of a binary value becomes one character. The values of cookies from the server are redacted.
        """
        members = {member.name: _plain(getattr(self, member.name)) for member in fields(self)}
        return {**members, "meta": [[name, mask_cookie(name, value)] for name, value in self.meta]}


@dataclass(frozen=True, kw_only=True, repr=False)
class Response(Retrieved):
    """A complete response: the body in memory, and its metadata.

    - `content` is the body as bytes.
    - `raw` is the body before protocol quoting (dot-stuffing in gopher) was removed, or None.
    - `entries` are the entries of a listing; None if the body is not a listing.

    Examples:
        >>> response = await resolver.fetch("http://127.0.0.1:8920/about.txt")
        >>> response.kind, response.verified
        (<Kind.DOCUMENT: 'document'>, ('length',))
    """

    content: bytes
    entries: tuple[Entry, ...] | None
    raw: bytes | None = None

    def __repr__(self) -> str:
        octets = f"{len(self.content)} bytes"
        return brief(self, self.kind.value, octets, quote_text(self.url), quote_text(self.media_type))

    @property
    def text(self) -> str | None:
        """Return the content decoded as text, or None if the media type is not text."""
        return decode_as(self.content, self.charset) if is_textual(self.media_type) else None

    def json(self) -> Any:  # Any: the server's data determines the type
        """Parse the content as JSON (RFC 8259) in UTF-8, UTF-16 or UTF-32; the media type is ignored.

        Raises `ValueError` if the content is not valid JSON.
        """
        import json  # imported lazily: few callers use it

        try:
            return json.loads(self.content)
        except RecursionError as error:
            raise ValueError("the JSON is nested too deeply") from error

    def as_json(self) -> dict[str, JsonValue]:
        """Return all attributes and `text` as JSON values by name, without `raw`.

        Each byte of a binary value becomes one character.
        """
        record = {**Retrieved.as_json(self), "text": self.text}
        del record["raw"]
        return record


@dataclass(frozen=True, kw_only=True, repr=False)
class Saved(Retrieved):
    """The result of `save`: a complete object in a file.

    - `path` is the final path of the file; None for standard output.
    - `bytes` is the size of the file in bytes; `resumed_from` is the number of bytes from earlier attempts.
    - `digest` is `sha256:HEX` if the caller requested a digest; otherwise None.
    - `skipped`: an existing file was not changed.
    - `mirror` is the URL of the mirror that sent the object. It is `None` if the object came from the
      requested URL.

    Examples:
        >>> saved = await resolver.save("http://127.0.0.1:8920/about.txt", "about.txt")
        >>> saved.path, saved.bytes, saved.verified, saved.skipped
        ('about.txt', 37, ('length',), False)
    """

    path: str | None
    bytes: int
    resumed_from: int = 0
    digest: str | None = None
    attempts: int = 0
    skipped: bool = False
    mirror: Masked | None = None

    def __repr__(self) -> str:
        state = "skipped" if self.skipped else f"{self.bytes} bytes"
        return brief(self, self.kind.value, state, quote_text(self.path), quote_text(self.url))


def _plain(value: object) -> JsonValue:
    match value:
        case None | bool() | int() | float():
            return value
        case str():  # `Kind` is a subclass of `str`
            return str(value)
        case bytes():
            return value.decode("latin-1")
        case datetime():
            return instant(value)
        case Finding() | Entry():
            return value.as_json()
        case tuple() | list():
            return [_plain(item) for item in value]
        case Mapping():
            return dict(value)
    raise AssertionError(f"{type(value)} has no form in JSON")


# The response of any scheme as http header fields and a status code, for libraries that support only http.

_STATUSES: tuple[tuple[type[Declined], int], ...] = (
    (NotFound, 404),
    (AccessDenied, 403),
    (LoginRequired, 401),
    (TryLater, 503),
)


def http_fields(facts: Facts) -> Iterator[tuple[str, str]]:
    """Return the names and values of http header fields (RFC 9110 section 8) for the metadata of a response.

    If the response is from an http server, its header fields are returned unchanged. Never raises.

    Args:
        facts: a `Response`, or another object with response metadata.

    Examples:
        >>> response = await resolver.fetch("ftp://127.0.0.1:8900/pub/a.txt")
        >>> list(resolver.http_fields(response))
        [('Content-Length', '29')]
    """
    if facts.status is not None:
        yield from facts.meta
        return
    if facts.media_type is not None:
        charset = "" if facts.charset is None else f"; charset={facts.charset}"
        yield "Content-Type", f"{facts.media_type}{charset}"
    if facts.size is not None:
        yield "Content-Length", str(facts.size)
    if facts.modified is not None:
        from protocols.http.response import format_date  # lazy import: other schemes do not need http

        yield "Last-Modified", format_date(facts.modified)


def http_status(error: Declined) -> int:
    """Return the http status code (RFC 9110 section 15) for an error response of a server. Never raises.

    The status code of an http server is returned unchanged. For other schemes, the class of the error
    determines the code: 404, 403, 401, 503 or, for all other classes, 502.

    Args:
        error: the error that a retrieval raised.

    Examples:
        >>> resolver.http_status(resolver.NotFound("no such file", code="550"))
        404
    """
    if error.code is not None and registry.is_web((error.url or "").partition(":")[0]):
        return int(error.code)
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), 502)
