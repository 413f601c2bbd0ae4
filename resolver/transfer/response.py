"""Completed responses of a retrieval: `Response`, `Saved`, their representation in http, and `Outcome`.

`Response` is a complete body in memory, and `Saved` is a complete body in a file. Both hold the metadata of
the response (`protocols.contract.Facts`), its provenance, and the result of the body. Both are frozen;
neither ever shows a password.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal, TypeAlias

from protocols.contract import Entry, Facts, Origin
from protocols.errors import (
    AccessDenied,
    Declined,
    InvalidUrl,
    LoginRequired,
    NotFound,
    ResolveError,
    TryLater,
)
from protocols.http.response import format_date
from protocols.location import Finding, JsonValue, mask_cookie
from protocols.text import brief, codec_of, instant, quote_text
from resolver.policy.judgment import check
from resolver.policy.settings import Policy
from resolver.url import registry
from resolver.url.parsing import parse, redact

#: Media types outside text/ whose content is meant for human readers.
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
    """Return whether the first bytes of content of unknown type are text.

    Text is UTF-8, possibly truncated within a character, with no control characters other than those of text
    and of terminals.
    """
    if any(octet < 0x20 and octet not in b"\b\t\n\f\r\x1b" for octet in octets):
        return False
    try:
        octets.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start > len(octets) - 4 and error.reason == "unexpected end of data"
    return True


def decode_text(octets: bytes, charset: str | None) -> str:
    """Decode bytes as text: in the declared charset, otherwise UTF-8 if valid, otherwise ISO 8859-1.

    Never fails. An unknown charset is ignored, and invalid bytes become U+FFFD.
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
    """The members of every completed response: the metadata, and its provenance.

    - `url` is the final URL, `requested_url` the requested one.
    - `chain`: the URLs requested before `url`, one for each redirect. All URLs are redacted.
    - `elapsed` is in seconds.
    - `retrieved` is the time at which the object was complete. The same URL may name another object later
      (S21, archived metadata).
    - `verified` lists the checks that succeeded: length, digest, final-reply, close-notify, terminator.
    - `peer` is the IP address connected to: the address of the `proxy`, if a proxy was used.
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
        """Return every member by name. Each byte becomes one character; the server's cookies are masked."""
        members = {member.name: _plain(getattr(self, member.name)) for member in fields(self)}
        return {**members, "meta": [[name, mask_cookie(name, value)] for name, value in self.meta]}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Response(Retrieved):
    """A complete body and its metadata.

    `content` is the body; `raw` is the body before the protocol's quoting was removed (Gopher's periods), or
    None. `entries` are the records of a listing, None for anything else.

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
        """Return the content as text, or None if its media type is not text."""
        return decode_text(self.content, self.charset) if is_textual(self.media_type) else None

    def json(self) -> Any:  # Any: the type depends on the server's data
        """Return the content parsed as JSON (RFC 8259) in UTF-8, UTF-16 or UTF-32, for every media type.

        Raises `ValueError` if the content is not JSON.
        """
        import json  # imported lazily: few callers use it

        return json.loads(self.content)

    def as_json(self) -> dict[str, JsonValue]:
        """Return every member under its name except `raw`, and the text; each byte becomes one character."""
        record = {**Retrieved.as_json(self), "text": self.text}
        del record["raw"]
        return record


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Saved(Retrieved):
    """A complete object in a file under its final name (`path` None: on standard output).

    - `bytes` is the size of the file; `resumed_from` is the number of bytes from earlier tries.
    - `digest` is `sha256:HEX` if it was requested.
    - `skipped`: the file existed already, and was kept.
    - `mirror` is the URL of the location that served the object instead of the first.

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
        done = "skipped" if self.skipped else f"{self.bytes} bytes"
        return brief(self, self.kind.value, done, quote_text(self.path), quote_text(self.url))


def _plain(value: object) -> JsonValue:
    match value:
        case None | bool() | int() | float():
            return value
        case str():  # also a `Kind`
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


# The result of any scheme, expressed in http terms for libraries whose callers know only http.

_STATUSES: tuple[tuple[type[Declined], int], ...] = (
    (NotFound, 404),
    (AccessDenied, 403),
    (LoginRequired, 401),
    (TryLater, 503),
)


def http_fields(facts: Facts) -> Iterator[tuple[str, str]]:
    """Return the metadata as header fields of a representation (RFC 9110 8), name and value. Never raises.

    The fields of an http server are returned as sent.

    Args:
        facts: a `Response`, or any other value that has facts.

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
        yield "Last-Modified", format_date(facts.modified)


def http_status(error: Declined) -> int:
    """Return the http status code (RFC 9110 15) for a server's negative answer. Never raises.

    The code of an http server is returned as sent. Other errors give 404, 403, 401 or 503 by their class, and
    502 otherwise.

    Args:
        error: the error that was raised.

    Examples:
        >>> resolver.http_status(resolver.NotFound("no such file", code="550"))
        404
    """
    if error.code is not None and registry.is_of_the_web((error.url or "").partition(":")[0]):
        return int(error.code)
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), 502)


# The outcome of one URL to save, also on failure: a value that can be stored and sent. As JSON it has the
# members that `get --json` prints. All members are always present; None means unknown or absent.

Status: TypeAlias = Literal["done", "skipped", "failed", "refused"]

#: The exit codes of refusals before any request is sent: by the policy, the parser, the registry, or a
#: redirect rule.
_REFUSED = frozenset({9, 12, 13, 15})


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Outcome:
    """The outcome of one URL of `Resolver.save_all`.

    - `status` is `done`, `skipped` (the existing file is kept), `failed` or `refused`.
    - `error` is the reason of a failure or refusal.
    - `exit` is the command's exit status for it, 0 without an error.
    - URLs are redacted.

    Examples:
        >>> async with resolver.Resolver() as session:
        ...     async for outcome in session.save_all(["ftp://127.0.0.1:8900/pub/none.txt"]):
        ...         print(outcome.status, outcome.exit, type(outcome.error).__name__)
        failed 8 NotFound
    """

    url: str
    final_url: str | None = None
    scheme: str | None = None
    status: Status
    exit: int = 0
    error: ResolveError | None = None
    path: str | None = None
    bytes: int = 0
    resumed_from: int = 0
    media_type: str | None = None
    modified: datetime | None = None
    digest: str | None = None
    verified: tuple[str, ...] = ()
    attempts: int = 0
    elapsed: float = 0.0
    peer: str | None = None
    proxy: str | None = None
    findings: tuple[Finding, ...] = ()
    mirror: str | None = None

    def __repr__(self) -> str:
        return brief(self, self.status, quote_text(self.url), quote_text(self.path))

    @property
    def action(self) -> Literal["fetch", "keep"] | None:
        """Return the action on the file: `fetch`, `keep`, or None without a file."""
        if self.status == "done":
            return "fetch"
        return "keep" if self.status == "skipped" and self.path is not None else None

    def as_json(self) -> dict[str, JsonValue]:
        """Return every member under its name."""
        members = {member.name: _make_plain(getattr(self, member.name)) for member in fields(self)}
        return {**members, "action": self.action}


def _make_plain(value: object) -> JsonValue:
    match value:
        case ResolveError():
            return reason_of(value)
        case datetime():
            return instant(value)
        case float():
            return round(value, 6)
        case tuple():
            return [each.as_json() if isinstance(each, Finding) else str(each) for each in value]
    assert value is None or isinstance(value, str | int)
    return value


def outcome_of(saved: Saved, scheme: str | None, path: str | None) -> Outcome:
    """Return the outcome of a complete retrieval."""
    return Outcome(
        url=saved.requested_url,
        final_url=saved.url,
        scheme=scheme,
        status="skipped" if saved.skipped else "done",
        path=path,
        bytes=saved.bytes,
        resumed_from=saved.resumed_from,
        media_type=saved.media_type,
        modified=saved.modified,
        digest=saved.digest,
        verified=saved.verified,
        attempts=saved.attempts,
        elapsed=saved.elapsed,
        peer=saved.peer,
        proxy=saved.proxy,
        findings=saved.findings,
        mirror=saved.mirror,
    )


def outcome_of_failure(
    error: ResolveError, url: str, elapsed: float, judged: tuple[Finding, ...], attempts: int | None = None
) -> Outcome:
    """Return the outcome of a failed retrieval; `judged` are the policy's findings (see `judge`)."""
    refused = error.exit_code in _REFUSED
    return Outcome(
        url=redact(url),
        scheme=_scheme_of(url),
        status="refused" if refused else "failed",
        exit=error.exit_code,
        error=error,
        bytes=getattr(error, "received", 0),
        attempts=0 if refused else error.attempts if attempts is None else attempts,
        elapsed=elapsed,
        findings=judged,
    )


def judge(
    error: ResolveError,
    url: str,
    *,
    policy: Policy,
    origin: Origin,
    referrer: tuple[str, str | None] | None,
    gateways: Mapping[str, str],
    environment: Mapping[str, str],
    proxy: str | None,
) -> tuple[Finding, ...]:
    """Return the policy's findings on the URL, as in `explain`, and the rule that stopped it later.

    A rule that stops it later applies to an address, a redirect or a response.
    """
    found = check(
        url,
        policy=policy,
        origin=origin,
        referrer=referrer,
        gateways=gateways,
        environment=environment,
        proxy=proxy,
    ).findings
    with suppress(InvalidUrl):
        found = (*parse(url, origin=origin).spelling, *found)
    rule = _rule_of(error)
    if rule is None or any((finding.rule, finding.action) == (rule, "refuse") for finding in found):
        return tuple(found)
    return (*found, Finding(rule, "refuse", error.message.removeprefix(f"{rule}: ")))


def reason_of(error: ResolveError) -> dict[str, JsonValue]:
    """Return an error as JSON: its public class, its message, and the number of its rule, if there is one."""
    reason: dict[str, JsonValue] = {"code": class_name(error), "message": error.message}
    rule = _rule_of(error)
    return reason if rule is None else {**reason, "rule": rule}


def _rule_of(error: ResolveError) -> str | None:
    """Return the rule of an error; an invalid URL is refused by S01."""
    return "S01" if isinstance(error, InvalidUrl) else getattr(error, "rule", None)


def _scheme_of(text: str) -> str | None:
    try:
        return parse(text, origin="user").scheme
    except InvalidUrl:
        return None


def class_name(error: ResolveError) -> str:
    """Return the name of an error's public class. A scheme may raise a private subclass of that class."""
    public = ResolveError.__module__
    return next(cls.__name__ for cls in type(error).__mro__ if cls.__module__ == public)
