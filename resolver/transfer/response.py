"""Finished values of a retrieval: `Response`, `Saved`, their words in http, and `Outcome`.

`Response` is a whole body in memory, `Saved` one in a file: the facts of the reply (`protocols.contract`),
how they came, and the result of the body. Both are frozen; neither ever shows a password.
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
from resolver.policy.judgement import check
from resolver.policy.settings import Policy
from resolver.url import registry
from resolver.url.parsing import parse, redact

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
        return {**members, "meta": [[name, mask_cookie(name, value)] for name, value in self.meta]}


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
        return brief(self, self.kind.value, octets, quote_text(self.url), quote_text(self.media_type))

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
        return brief(self, self.kind.value, done, quote_text(self.path), quote_text(self.url))


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


# The result of any scheme in the words of http, for libraries whose callers know no others.

_STATUSES: tuple[tuple[type[Declined], int], ...] = (
    (NotFound, 404),
    (AccessDenied, 403),
    (LoginRequired, 401),
    (TryLater, 503),
)


def http_fields(facts: Facts) -> Iterator[tuple[str, str]]:
    """The facts as the header fields of a representation (RFC 9110 8), name and value; those of an http
    server as it sent them. Never raises.

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
    """The status code of http (RFC 9110 15) that says the same as a peer's no: an http server's own; 404,
    403, 401, 503 by the kind of error, and 502 for any other no. Never raises.

    Args:
        error: what was raised.

    Examples:
        >>> resolver.http_status(resolver.NotFound("no such file", code="550"))
        404
    """
    if error.code is not None and registry.is_of_the_web((error.url or "").partition(":")[0]):
        return int(error.code)
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), 502)


# The outcome of one URL to save, in every case: a value that can be stored and sent. Its members as JSON are
# those that `get --json` prints: all are always present, None is unknown or absent.

Status: TypeAlias = Literal["done", "skipped", "failed", "refused"]

#: What is refused before anything is sent to it: the policy, the parser, the registry, a redirect.
_REFUSED = frozenset({9, 12, 13, 15})


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Outcome:
    """What became of one URL of `Resolver.save_all`: `status` is `done`, `skipped` (the file that was there
    stays), `failed` or `refused`; `error` is what was in the way, `exit` its status as the command has it, 0
    where nothing was. URLs are redacted.

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
        """What was done about the file; None where nothing came of it."""
        if self.status == "done":
            return "fetch"
        return "keep" if self.status == "skipped" and self.path is not None else None

    def as_json(self) -> dict[str, JsonValue]:
        """Every member under its name."""
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
    """Of a retrieval that is complete."""
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
    """Of one that ended in `error`; `judged` is what the policy says of the URL, see `judge`."""
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
    """What the policy says of the URL, as `explain` has it, and the rule that stopped it later: at an
    address, a redirect, a reply."""
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
    """An error as JSON: its public class, its words, and the rule behind it, if there is one."""
    reason: dict[str, JsonValue] = {"code": class_name(error), "message": error.message}
    rule = _rule_of(error)
    return reason if rule is None else {**reason, "rule": rule}


def _rule_of(error: ResolveError) -> str | None:
    """What is no URL is refused by S01."""
    return "S01" if isinstance(error, InvalidUrl) else getattr(error, "rule", None)


def _scheme_of(text: str) -> str | None:
    try:
        return parse(text, origin="user").scheme
    except InvalidUrl:
        return None


def class_name(error: ResolveError) -> str:
    """The public class of an error: a scheme may have a finer one of its own."""
    public = ResolveError.__module__
    return next(cls.__name__ for cls in type(error).__mro__ if cls.__module__ == public)
