"""The records of one capture: what each of them says (WARC 1.1, 5 and 6)."""

from __future__ import annotations

from datetime import datetime
from hashlib import sha1, sha256
from mimetypes import MimeTypes
from typing import TYPE_CHECKING, Literal

from protocols.errors import Declined, Disconnected, LimitExceeded, ResolveError, TimedOut, Truncated
from protocols.headers import without_cookie
from protocols.location import JsonValue, Kind
from protocols.values import NamedTuple
from resolver.warc.writing import RecordBlock, digest_text

if TYPE_CHECKING:
    from protocols.options import Wanted
    from protocols.reply import Reply
    from protocols.scheme import KeptListing
    from resolver.gate import Mask
    from resolver.warc.dialogue import DialogueRecord

#: Python's own, whatever this machine thinks.
_TYPES = MimeTypes()
_ANY = "application/octet-stream"


class CaptureSubject(NamedTuple):
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


class CapturedObject(NamedTuple):
    """What came. `size` and `sha256` are of the payload, `head` is that of an answer of http; `truncated`
    says why it is not whole. `digest` is the payload's, also where the record does not say it;
    `is_found`: its URL alone names it, so that the index has it."""

    type: Literal["response", "resource"]
    content_type: str
    block: RecordBlock
    head: bytes
    payload_digest: str | None
    sha256: str
    size: int
    truncated: str | None
    status: int | None
    media_type: str | None
    digest: str
    is_found: bool = True


class RecordGroup(NamedTuple):
    """All records of a capture, in their order: the object, the request, the metadata."""

    subject: CaptureSubject
    date: datetime
    address: str | None
    protocols: list[str]
    cipher: str | None
    object: CapturedObject | None
    request: RecordBlock | None
    metadata: bytes


def resource_of(media_type: str, block: RecordBlock, truncated: str | None) -> CapturedObject:
    """The octets of an object that did not come by http."""
    raw, payload = sha1(usedforsecurity=False), sha256()
    for piece in block.pieces():
        raw.update(piece)
        payload.update(piece)
    return CapturedObject(
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


def type_of(subject: CaptureSubject, reply: Reply, command: bytes, mask: Mask) -> str:
    """What an object is. Of what came on a connection for data, a listing is what it was asked for by, and a
    file what its name says, for nobody else does."""
    if subject.kept_as != "data":
        return mask.hide_in_text(reply.media_type or _ANY)
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
    kept: CapturedObject | None,
    mask: Mask,
    masked: list[str] | None = None,
    expected: int | None = None,
) -> dict[str, JsonValue]:
    """The members of a dialogue's last event, without secrets. With `masked`, the fields of http that are
    masked, they have fewer facts: the record of the answer has them."""
    end: dict[str, JsonValue] = {"outcome": outcome}
    if isinstance(error, ResolveError):
        message = mask.hide_in_text(error.message)
        told: dict[str, JsonValue] = {"code": type(error).__name__, "message": message}
        if isinstance(error, Declined) and error.code is not None:
            told["reply"] = mask.hide_in_text(error.code)
        end["error"] = told
        if isinstance(error, Truncated):
            expected = error.expected
    if reply is not None:
        end |= {"kind": reply.kind.value, "media_type": mask.hide_in_value(reply.media_type)}
        if reply.charset is not None:
            end["charset"] = mask.hide_in_text(reply.charset)
        if reply.modified is not None:
            end["modified"] = reply.modified.isoformat()
        end |= _facts_of(reply, mask) if masked is None else {}
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
        hide = mask.hide_in_text
        end["findings"] = [[rule, action, hide(detail)] for rule, action, detail in reply.findings]
    return end


def _facts_of(reply: Reply, mask: Mask) -> dict[str, JsonValue]:
    """What else was known of it, as far as there is any."""
    masked = mask.facts(reply)
    suggested: bytes | None = masked["suggested"]
    facts: dict[str, JsonValue] = {
        "etag": masked["etag"],
        "title": masked["title"],
        "suggested": None if suggested is None else suggested.decode("latin-1"),
        "meta": [[name, without_cookie(name, value)] for name, value in masked["meta"]] or None,
        "extra": masked["extra"],
    }
    return {"announced": reply.size, **{name: fact for name, fact in facts.items() if fact is not None}}


def metadata_of(
    subject: CaptureSubject, events: DialogueRecord, now: datetime, end: dict[str, JsonValue]
) -> bytes:
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
