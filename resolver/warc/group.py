"""The records of one capture: what each of them says (WARC 1.1, 5 and 6)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from hashlib import sha1, sha256
from mimetypes import MimeTypes
from typing import TYPE_CHECKING, Literal

from protocols.errors import Declined, Disconnected, LimitExceeded, ResolveError, TimedOut, Truncated
from protocols.location import JsonValue, Kind
from protocols.values import NamedTuple
from resolver.warc.writing import Block, digest_text

if TYPE_CHECKING:
    from protocols.options import Wanted
    from protocols.reply import Reply
    from protocols.scheme import KeptListing
    from resolver.warc.dialogue import Dialogue

#: Python's own, whatever this machine thinks.
_TYPES = MimeTypes()
_ANY = "application/octet-stream"


class Subject(NamedTuple):
    """What a capture is of. `target` is the URL as records have it, `shown` as it was asked for, redacted;
    `via` led to it, and `hop` is how: R for a redirect, L for a link."""

    target: str
    shown: str
    origin: str
    attempt: int
    via: str | None
    hop: Literal["", "R", "L"]
    kept_as: Literal["exchange", "data", "body", "words"]
    listing_kept: KeptListing | None
    protocol: str | None
    wants: Wanted


class Object(NamedTuple):
    """What came. `size` and `sha256` are of the payload, `head` is that of an answer of http; `truncated`
    says why it is not whole. `digest` is the payload's, also where the record does not say it;
    `is_found`: its URL alone names it, so that the index has it."""

    type: Literal["response", "resource"]
    content_type: str
    block: Block
    head: bytes
    payload_digest: str | None
    sha256: str
    size: int
    truncated: str | None
    status: int | None
    media_type: str | None
    digest: str
    is_found: bool = True


class Group(NamedTuple):
    """All records of a capture, in their order: the object, the request, the metadata."""

    subject: Subject
    date: datetime
    address: str | None
    protocols: list[str]
    cipher: str | None
    object: Object | None
    request: Block | None
    metadata: bytes


def resource_of(media_type: str, block: Block, truncated: str | None) -> Object:
    """The octets of an object that did not come by http."""
    raw, payload = sha1(usedforsecurity=False), sha256()
    for piece in block.pieces():
        raw.update(piece)
        payload.update(piece)
    return Object(
        type="resource",
        content_type=media_type,
        block=block,
        head=b"",
        payload_digest=digest_text(raw.digest()),
        digest=digest_text(raw.digest()),
        sha256=payload.hexdigest(),
        size=block.size,
        truncated=truncated,
        status=None,
        media_type=media_type,
    )


def type_of(subject: Subject, reply: Reply, command: bytes) -> str:
    """What an object is. Of what came on a connection for data, a listing is what it was asked for by, and a
    file what its name says, for nobody else does."""
    if subject.kept_as != "data":
        return reply.media_type or _ANY
    if reply.kind is Kind.DIRECTORY:
        return f"text/x-{subject.protocol}-{command.decode('ascii', 'replace').lower()}"
    return _TYPES.guess_type(subject.target.partition(";")[0])[0] or _ANY


def truncation_of(error: BaseException | None, *, late: bool) -> str:
    """Why an object is not whole."""
    if late:
        return "time"
    match error:
        case LimitExceeded():
            return "length"
        case Truncated() | Disconnected() | TimedOut():
            return "disconnect"
    return "unspecified"


def end_of(
    outcome: str,
    error: BaseException | None,
    reply: Reply | None,
    kept: Object | None,
    *,
    masked: list[str] | None = None,
    expected: int | None = None,
    hide: Callable[[bytes], bytes] | None = None,
) -> dict[str, JsonValue]:
    """The members of a dialogue's last event. With `hide`, which takes secrets out, they have all facts: of
    http the record of the answer has them."""
    end: dict[str, JsonValue] = {"outcome": outcome}
    if isinstance(error, ResolveError):
        told: dict[str, JsonValue] = {"code": type(error).__name__, "message": error.message}
        if isinstance(error, Declined) and error.code is not None:
            told["reply"] = error.code
        end["error"] = told
        if isinstance(error, Truncated):
            expected = error.expected
    if reply is not None:
        end |= {"kind": reply.kind.value, "media_type": reply.media_type}
        if reply.charset is not None:
            end["charset"] = reply.charset
        if reply.modified is not None:
            end["modified"] = reply.modified.isoformat()
        end |= {} if hide is None else _facts_of(reply, hide)
    if kept is not None:
        end |= {"size": kept.size, "sha256": kept.sha256}
        if kept.status is not None:
            end["status"] = kept.status
    elif reply is not None and outcome == "info":
        end["size"] = reply.size
    end["verified"] = [] if reply is None else [*sorted(reply.verified)]
    if expected is not None:
        end["expected"] = expected
    if masked:
        end["masked"] = list(masked)
    if reply is not None and reply.findings:
        end["findings"] = [[found.rule, found.action, found.detail] for found in reply.findings]
    return end


def _facts_of(reply: Reply, hide: Callable[[bytes], bytes]) -> dict[str, JsonValue]:
    """What else was known of it, as far as there is any."""
    facts: dict[str, JsonValue] = {
        "etag": reply.etag,
        "title": reply.title,
        "suggested": None if reply.suggested is None else reply.suggested.decode("latin-1"),
        "meta": [list(pair) for pair in reply.meta] or None,
        "extra": None if reply.extra is None else dict(reply.extra),
    }
    told = {name: _hidden(fact, hide) for name, fact in facts.items() if fact is not None}
    return {"announced": reply.size, **told}


def _hidden(value: JsonValue, hide: Callable[[bytes], bytes]) -> JsonValue:
    """The same without secrets, however deep they are in it."""
    if isinstance(value, str):
        return hide(value.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")
    if isinstance(value, list | tuple):
        return [_hidden(each, hide) for each in value]
    if isinstance(value, dict):
        return {name: _hidden(each, hide) for name, each in value.items()}
    return value


def metadata_of(subject: Subject, events: Dialogue, now: datetime, end: dict[str, JsonValue]) -> bytes:
    """The block of the metadata record."""
    lines = []
    if subject.via is not None:
        lines.append(f"via: {subject.via}")
    if subject.hop:
        lines.append(f"hopsFromSeed: {subject.hop}")
    lines.append(f"fetchTimeMs: {max(0, round((now - events.begun).total_seconds() * 1000))}")
    lines += events.lines(now, end)
    return fields_block(lines)


def fields_block(lines: list[str]) -> bytes:
    """A block of `application/warc-fields`."""
    return "".join(f"{line}\r\n" for line in lines).encode("utf-8")
