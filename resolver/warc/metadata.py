"""The parser for the recorded dialogue (protocol exchange) of a capture.

The dialogue is untrusted, so invalid items of the dialogue are skipped.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

from protocols.contract import Reply
from protocols.errors import (
    AccessDenied,
    Declined,
    Disconnected,
    IntegrityError,
    LoginRequired,
    NetworkError,
    NotFound,
    ProtocolError,
    ResolveError,
    TimedOut,
    TlsError,
    TryLater,
    Unreachable,
)
from protocols.location import Finding, JsonValue, Kind

#: The maximum number of bytes that are read from a metadata record.
MAX_SIZE = 2_097_152

#: The maximum nesting depth of metadata values. The metadata of the supported schemes has at most four
#: levels.
_MAX_DEPTH = 8

_LINE = b"dialogue: "
_CHECKS = ("length", "final-reply", "close-notify", "terminator")
_ACTIONS = ("allow", "warn", "refuse")

#: The errors that an archive may contain.
_ERRORS: tuple[type[ResolveError], ...] = (
    *(Declined, NotFound, AccessDenied, LoginRequired, TryLater),
    *(NetworkError, Unreachable, Disconnected, TimedOut, TlsError),
    *(ProtocolError, IntegrityError),
)

Json = dict[str, JsonValue]


def read_events(pieces: Iterator[bytes]) -> list[Json]:
    """Return the events of a dialogue in order; the list is empty without a dialogue."""
    octets = b""
    for piece in pieces:
        octets += piece
        if len(octets) > MAX_SIZE:
            return []
    events: list[Json] = []
    for line in octets.splitlines():
        if line.startswith(_LINE):
            try:
                event = json.loads(line.removeprefix(_LINE))
            except (ValueError, RecursionError):
                continue
            if isinstance(event, dict) and isinstance(event.get("event"), str):
                events.append(event)
    return events


def find_end(events: list[Json]) -> Json:
    """Return the last event if it is an `end` event, otherwise an empty object."""
    return events[-1] if events and events[-1]["event"] == "end" else {}


@dataclass(frozen=True, slots=True)
class ReplayedConnection:
    """An archived connection to an IP address.

    Attributes:
        sent: the sent bytes, in order.
        received: the received bytes, in order.
        has_body: whether the connection carried bytes of the object.
        framing: the framing of the object's bytes, such as dot-stuffing.
        ended: the reason why the body of the object ended, such as its length or a close.
    """

    transport: str
    address: str | None
    received: list[bytes]
    sent: list[bytes]
    has_body: bool
    framing: str
    ended: str


def list_connections(events: list[Json]) -> list[ReplayedConnection]:
    by_number: dict[int, list[Json]] = {}
    for event in events:
        number = event.get("c")
        if isinstance(number, int) and not isinstance(number, bool) and number > 0:
            by_number.setdefault(number, []).append(event)
    return [_make_connection(by_number[number]) for number in sorted(by_number)]


def _make_connection(events: list[Json]) -> ReplayedConnection:
    body: Json = next((event for event in events if event["event"] == "body"), {})
    opened: Json = next((event for event in events if event["event"] == "connect"), {})
    return ReplayedConnection(
        transport=get_text(opened, "transport") or "tcp",
        address=get_text(opened, "address"),
        received=[octets for event in events if event["event"] == "receive" and (octets := _decode(event))],
        sent=[octets for event in events if event["event"] == "send" and (octets := _decode(event))],
        has_body=bool(body),
        framing=get_text(body, "framing") or "none",
        ended=get_text(body, "ended") or "close",
    )


def _decode(event: Json) -> bytes:
    try:
        return (get_text(event, "octets") or "").encode("latin-1")
    except UnicodeEncodeError:
        return b""


def get_text(event: Json, name: str) -> str | None:
    value = event.get(name)
    return value if isinstance(value, str) else None


def get_count(event: Json, name: str) -> int | None:
    value = event.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**18 else None


def get_moment(event: Json, name: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(get_text(event, name) or "")
        return None if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def make_reply(end: Json) -> Reply | None:
    """Return a reply with the recorded metadata of the object, or None if the event is incomplete."""
    kind = get_text(end, "kind")
    if kind not in {member.value for member in Kind}:
        return None
    suggested, extra = get_text(end, "suggested"), end.get("extra")
    return Reply(
        kind=Kind(kind),
        media_type=get_text(end, "media_type"),
        charset=get_text(end, "charset"),
        size=get_count(end, "announced") if "announced" in end else get_count(end, "size"),
        modified=get_moment(end, "modified"),
        etag=get_text(end, "etag"),
        title=get_text(end, "title"),
        suggested=None if suggested is None else suggested.encode("latin-1", "replace"),
        meta=tuple(_read_pairs(end.get("meta"))),
        extra=extra if isinstance(extra, dict) and _measure_depth(extra) <= _MAX_DEPTH else None,
    )


def _measure_depth(value: JsonValue, deep: int = 0) -> int:
    """Return the nesting depth of a value; above `_MAX_DEPTH`, the exact depth is not computed."""
    if deep > _MAX_DEPTH or not isinstance(value, dict | list):
        return deep
    inner = value.values() if isinstance(value, dict) else value
    return max((_measure_depth(item, deep + 1) for item in inner), default=deep)


def _read_pairs(value: JsonValue) -> Iterator[tuple[str, str]]:
    for pair in value if isinstance(value, list) else []:
        if (
            isinstance(pair, list)
            and len(pair) == 2
            and isinstance(pair[0], str)
            and isinstance(pair[1], str)
        ):
            yield pair[0], pair[1]


def read_findings(end: Json) -> list[Finding]:
    """Return the recorded warnings of the policy."""
    recorded = end.get("findings")
    findings = []
    for item in recorded if isinstance(recorded, list) else []:
        if isinstance(item, list) and len(item) == 3 and all(isinstance(word, str) for word in item):
            rule, action, detail = cast("list[str]", item)
            if action in _ACTIONS:
                findings.append(Finding(rule, cast(Any, action), detail))
    return findings


def read_verified(end: Json) -> set[str]:
    """Return the names of the recorded checks that verified the object."""
    recorded = end.get("verified")
    return {word for word in recorded if word in _CHECKS} if isinstance(recorded, list) else set()


def make_error(end: Json, date: datetime) -> ResolveError:
    recorded = end.get("error")
    error: Json = recorded if isinstance(recorded, dict) else {}
    failure = get_text(error, "message") or "the retrieval failed"
    message = f"{failure} (recorded on {date:%Y-%m-%dT%H:%M:%SZ})"
    kind = next((kind for kind in _ERRORS if kind.__name__ == error.get("code")), ProtocolError)
    if issubclass(kind, Declined):
        return kind(message, code=get_text(error, "reply")).with_setting(None).final()
    return kind(message).final()
