"""The WARC records of one capture (WARC 1.1, 5 and 6), and the recorded dialogue as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha1, sha256
from mimetypes import MimeTypes
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from protocols.errors import Declined, Disconnected, LimitExceeded, ResolveError, TimedOut, Truncated
from protocols.location import JsonValue, Kind, mask_cookie
from protocols.text import Masked
from resolver.warc.writing import RecordBlock, digest_text, fields_block

if TYPE_CHECKING:
    from protocols.contract import Reply, Url
    from protocols.options import Wanted
    from protocols.scheme import Scheme
    from resolver.files.archive import ByteSpool
    from resolver.network.mask import Mask
    from resolver.network.stream_settings import TappedConnection


#: Python's built-in table of media types, which does not depend on the files of the machine.
_TYPES = MimeTypes()
_DEFAULT_TYPE = "application/octet-stream"


class CaptureSubject(NamedTuple):
    """The URL of a capture, and the reason for the request.

    Attributes:
        target: the URL in the form of the WARC-Target-URI field.
        shown: the requested URL, redacted.
        via: the URL whose response contained this URL.
        hop: R for the target of a redirect, L for the target of a link.
        row: the definition of the URL's scheme.
        url: the parsed target; None if the target differs from the requested URL.
    """

    target: str
    shown: Masked
    origin: str
    attempt: int
    via: Masked | None
    hop: Literal["", "R", "L"]
    row: Scheme
    wants: Wanted
    url: Url | None = None


class CapturedObject(NamedTuple):
    """The received object.

    Attributes:
        size: the size of the payload in bytes.
        sha256: the SHA-256 digest of the payload.
        head: the head of an HTTP response.
        truncated: the reason why the object is incomplete, or None.
        digest: the digest of the payload, which is set even if the record lacks a digest field.
        is_indexed: whether the URL alone identifies the object. Otherwise the index omits the object.
    """

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
    is_indexed: bool = True


class RecordGroup(NamedTuple):
    """The records of a capture, in order: the object, the request, and the metadata."""

    subject: CaptureSubject
    date: datetime
    address: str | None
    protocols: list[str]
    cipher: str | None
    object: CapturedObject | None
    request: RecordBlock | None
    metadata: bytes


def make_resource(media_type: str, block: RecordBlock, truncated: str | None) -> CapturedObject:
    """Return the captured object of a protocol other than HTTP."""
    raw, payload = sha1(usedforsecurity=False), sha256()
    for piece in block.pieces():
        raw.update(piece)
        payload.update(piece)
    digest = digest_text(raw.digest())
    return CapturedObject(
        type="resource",
        content_type=media_type,
        block=block._replace(computed=digest),
        head=b"",
        payload_digest=digest,
        digest=digest,
        sha256=payload.hexdigest(),
        size=block.size,
        truncated=truncated,
        status=None,
        media_type=media_type,
    )


def choose_media_type(subject: CaptureSubject, reply: Reply, command: bytes, mask: Mask) -> str:
    """Return the media type of an object.

    For an FTP listing, the command that requested the listing determines the type. For an FTP file, the file
    name determines the type, because FTP does not state a media type.
    """
    if subject.row.kept_as != "data":
        return mask.hide_in_text(reply.media_type or _DEFAULT_TYPE)
    if reply.kind is Kind.DIRECTORY:
        return f"text/x-{subject.row.archived_as}-{command.decode('ascii', 'replace').lower()}"
    return _TYPES.guess_type(subject.target.partition(";")[0])[0] or _DEFAULT_TYPE


def name_truncation(error: BaseException | None, *, late: bool) -> str:
    """Return the reason why an object is incomplete, for the field WARC-Truncated."""
    if late:
        return "time"
    match error:
        case LimitExceeded():
            return "length"
        case Truncated() | Disconnected() | TimedOut():
            return "disconnect"
    return "unspecified"


def make_end(
    outcome: str,
    error: BaseException | None,
    reply: Reply | None,
    captured: CapturedObject | None,
    mask: Mask,
    masked: list[str] | None = None,
    expected: int | None = None,
) -> dict[str, JsonValue]:
    """Return the members of the last event of a dialogue, without secrets.

    `masked` contains the names of masked HTTP fields. If `masked` is set, the event contains less metadata,
    because the response record already contains the HTTP fields.
    """
    end: dict[str, JsonValue] = {"outcome": outcome}
    if isinstance(error, ResolveError):
        message = mask.hide_in_text(error.message)
        members: dict[str, JsonValue] = {"code": type(error).__name__, "message": message}
        if isinstance(error, Declined) and error.code is not None:
            members["reply"] = mask.hide_in_text(error.code)
        end["error"] = members
        if isinstance(error, Truncated):
            expected = error.expected
    if reply is not None:
        end |= {"kind": reply.kind.value, "media_type": mask.hide_in_value(reply.media_type)}
        if reply.charset is not None:
            end["charset"] = mask.hide_in_text(reply.charset)
        if reply.modified is not None:
            end["modified"] = reply.modified.isoformat()
        end |= _make_facts(reply, mask) if masked is None else {}
    if captured is not None:
        end |= {"size": captured.size, "sha256": captured.sha256}
        if captured.status is not None:
            end["status"] = captured.status
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


def _make_facts(reply: Reply, mask: Mask) -> dict[str, JsonValue]:
    """Return the optional metadata of a reply."""
    masked = mask.facts(reply)
    suggested: bytes | None = masked["suggested"]
    facts: dict[str, JsonValue] = {
        "etag": masked["etag"],
        "title": masked["title"],
        "suggested": None if suggested is None else suggested.decode("latin-1"),
        "meta": [[name, mask_cookie(name, value)] for name, value in masked["meta"]] or None,
        "extra": masked["extra"],
    }
    return {"announced": reply.size, **{name: fact for name, fact in facts.items() if fact is not None}}


def make_metadata(
    subject: CaptureSubject, events: DialogueRecord, now: datetime, end: dict[str, JsonValue]
) -> bytes:
    lines = []
    if subject.via is not None:
        lines.append(f"via: {subject.via}")
    if subject.hop:
        lines.append(f"hopsFromSeed: {subject.hop}")
    lines.append(f"fetchTimeMs: {max(0, round((now - events.begun).total_seconds() * 1000))}")
    lines += events.lines(now, end)
    return fields_block(lines)


# The recorded dialogue of one object is in format 1: one line of JSON for each event.
#
# `docs/how-to/archives.md` describes the events and their members. Bytes are stored as text, with one
# character (Latin-1) per byte. The bytes of the object are only counted. The total size is limited.

#: The maximum size of a recorded dialogue in bytes. If the limit is reached, one line records the truncation.
MAX_DIALOGUE = 1_048_576
#: The approximate size in bytes of an event without its data.
_EVENT_SIZE = 100

_LINE = "dialogue: "
_ENCODER = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"))


@dataclass(slots=True)
class DialogueEvent:
    """An event of a dialogue, `at` seconds after the first event; `octets` may grow until the next event."""

    at: float
    number: int
    event: str
    members: dict[str, JsonValue] = field(default_factory=dict)
    octets: bytearray | None = None


class DialogueRecord:
    """The events of one capture; `hide` masks sent secrets in received bytes."""

    def __init__(self, begun: datetime, hide: Callable[[bytes], bytes]) -> None:
        self.begun = begun
        self._hide = hide
        self._events: list[DialogueEvent] = []
        self._size = 0
        self._is_cut = False
        self._last = 0.0

    def add(self, now: datetime, number: int, event: str, members: dict[str, JsonValue]) -> DialogueEvent:
        """Add an event and return it; the caller may change its members until `lines` is called."""
        entry = DialogueEvent(self._compute_elapsed(now), number, event, members)
        self._append(entry, _EVENT_SIZE)
        return entry

    def log(
        self, now: datetime, number: int, event: str, octets: bytes, *, joins: bool, masked: bool
    ) -> None:
        """Add sent or received bytes, as a new event or at the end of the previous event of the same kind."""
        last = self._events[-1] if self._events else None
        if joins and last and last.octets is not None and (last.number, last.event) == (number, event):
            if self._has_room(len(octets)):
                last.octets += octets
            if masked:
                last.members["masked"] = ["password"]
            return
        members: dict[str, JsonValue] = {"masked": ["password"]} if masked else {}
        entry = DialogueEvent(self._compute_elapsed(now), number, event, members, bytearray(octets))
        self._append(entry, _EVENT_SIZE + len(octets))

    def find_last_received(self, number: int) -> DialogueEvent | None:
        """Return the last event if it contains received bytes of the connection."""
        last = self._events[-1] if self._events else None
        return last if last is not None and (last.number, last.event) == (number, "receive") else None

    def _append(self, entry: DialogueEvent, size: int) -> None:
        if self._has_room(size):
            self._events.append(entry)

    def _has_room(self, size: int) -> bool:
        self._size += size
        if self._size > MAX_DIALOGUE and not self._is_cut:
            self._is_cut = True
            self._events.append(DialogueEvent(self._last, 0, "note", {"text": "cut"}))
        return not self._is_cut

    def _compute_elapsed(self, now: datetime) -> float:
        """Return the time since the start in seconds, which never decreases if the clock is set back."""
        self._last = max(self._last, (now - self.begun).total_seconds())
        return self._last

    def lines(self, now: datetime, end: dict[str, JsonValue]) -> Iterator[str]:
        """Yield the lines of all events; the last line is `end`, even after a truncation."""
        for entry in self._events:
            yield _LINE + _encode_event(entry, self._hide)
        yield _LINE + _encode_event(DialogueEvent(self._compute_elapsed(now), 0, "end", end), self._hide)


def _encode_event(entry: DialogueEvent, hide: Callable[[bytes], bytes]) -> str:
    members: dict[str, JsonValue] = {"t": entry.at or 0, "c": entry.number, "event": entry.event}
    if entry.octets is not None:
        members["octets"] = hide(bytes(entry.octets)).decode("latin-1")
    return _ENCODER.encode({**members, **entry.members})


# Dot-stuffing: an archive stores text without the final period and without the additional periods at the
# start of lines. These functions add the periods again.

_END = b".\r\n"


def frame_pieces(pieces: Iterator[bytes], *, has_end: bool) -> Iterator[bytes]:
    """Yield the chunks with dot-stuffing, and with the final period if `has_end` is true."""
    last = b"\n"
    for octets in pieces:
        doubled = octets.replace(b"\n.", b"\n..")
        yield b"." + doubled if last == b"\n" and octets.startswith(b".") else doubled
        last = octets[-1:] or last
    if has_end:
        yield _END if last == b"\n" else b"\r\n" + _END


class CapturedConnection:
    """A captured connection, with its number, its unassigned bytes, and its bytes of the object."""

    def __init__(self, number: int, key: Hashable, link: TappedConnection) -> None:
        self.number = number
        self.key = key
        self.link = link
        self.pending = bytearray()
        self.last = b""
        self.has_only_data = False
        self.opened: DialogueEvent | None = None
        self.body: DialogueEvent | None = None
        self.count = 0
        self.ended = "stopped"

    def turn_into_body(self, events: DialogueRecord) -> None:
        """Assign the last received bytes of this connection to the object instead of the dialogue."""
        event = events.find_last_received(self.number)
        if event is not None and self.body is None:
            self.body, self.count = event, len(event.octets or b"")
            event.event, event.octets = "body", None

    def describe(self, framing: str, ended: str, block: JsonValue) -> None:
        """Set the JSON members of the event that describes the bytes of the object on this connection."""
        if self.body is not None:
            self.body.members = {"count": self.count, "block": block, "framing": framing, "ended": ended}


class CaptureSink(Protocol):
    """The interface of a receiver of finished captures, such as `Recorder`."""

    @property
    def keeps_cookies(self) -> bool: ...

    def now(self) -> datetime: ...

    def spool(self) -> ByteSpool: ...

    def write_group(self, group: RecordGroup, /) -> None: ...
