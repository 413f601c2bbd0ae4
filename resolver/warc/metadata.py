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
MOST = 2_097_152

#: The maximum nesting depth of metadata values. The metadata of the supported schemes has at most four
#: levels.
_DEEPEST = 8

_LINE = b"dialogue: "
_WORDS = ("length", "final-reply", "close-notify", "terminator")
_ACTIONS = ("allow", "warn", "refuse")

_DECLINED: tuple[type[Declined], ...] = (Declined, NotFound, AccessDenied, LoginRequired, TryLater)
_FAILED: tuple[type[ResolveError], ...] = (
    *(NetworkError, Unreachable, Disconnected, TimedOut, TlsError),
    *(ProtocolError, IntegrityError),
)

Json = dict[str, JsonValue]


def read_events(pieces: Iterator[bytes]) -> list[Json]:
    """Return the events of a dialogue in order; the list is empty without a dialogue."""
    octets = b""
    for piece in pieces:
        octets += piece
        if len(octets) > MOST:
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


def end_of(events: list[Json]) -> Json:
    """Return the last event if it is an `end` event, otherwise an empty object."""
    return events[-1] if events and events[-1]["event"] == "end" else {}


@dataclass(frozen=True, slots=True)
class ReplayedConnection:
    """An archived connection to an IP address.

    Attributes:
        sent: the sent bytes, in order.
        heard: the received bytes, in order.
        has_body: whether the connection carried bytes of the object.
        framing: the framing of the object's bytes, such as dot-stuffing.
        ended: the reason why the body of the object ended, such as its length or a close.
    """

    transport: str
    address: str | None
    heard: list[bytes]
    sent: list[bytes]
    has_body: bool
    framing: str
    ended: str


def ways_of(events: list[Json]) -> list[ReplayedConnection]:
    """Return the connections, ordered by number."""
    by_number: dict[int, list[Json]] = {}
    for each in events:
        number = each.get("c")
        if isinstance(number, int) and not isinstance(number, bool) and number > 0:
            by_number.setdefault(number, []).append(each)
    return [_way(by_number[number]) for number in sorted(by_number)]


def _way(own: list[Json]) -> ReplayedConnection:
    body: Json = next((each for each in own if each["event"] == "body"), {})
    opened: Json = next((each for each in own if each["event"] == "connect"), {})
    return ReplayedConnection(
        transport=text(opened, "transport") or "tcp",
        address=text(opened, "address"),
        heard=[octets for each in own if each["event"] == "receive" and (octets := _octets(each))],
        sent=[octets for each in own if each["event"] == "send" and (octets := _octets(each))],
        has_body=bool(body),
        framing=text(body, "framing") or "none",
        ended=text(body, "ended") or "close",
    )


def _octets(event: Json) -> bytes:
    try:
        return (text(event, "octets") or "").encode("latin-1")
    except UnicodeEncodeError:
        return b""


def text(event: Json, name: str) -> str | None:
    value = event.get(name)
    return value if isinstance(value, str) else None


def count(event: Json, name: str) -> int | None:
    value = event.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**18 else None


def moment(event: Json, name: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text(event, name) or "")
        return None if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def reply_of(end: Json) -> Reply | None:
    """Return a reply with the recorded metadata of the object, or None if the event is incomplete."""
    kind = text(end, "kind")
    if kind not in {each.value for each in Kind}:
        return None
    suggested, extra = text(end, "suggested"), end.get("extra")
    return Reply(
        kind=Kind(kind),
        media_type=text(end, "media_type"),
        charset=text(end, "charset"),
        size=count(end, "announced") if "announced" in end else count(end, "size"),
        modified=moment(end, "modified"),
        etag=text(end, "etag"),
        title=text(end, "title"),
        suggested=None if suggested is None else suggested.encode("latin-1", "replace"),
        meta=tuple(_pairs(end.get("meta"))),
        extra=extra if isinstance(extra, dict) and _depth(extra) <= _DEEPEST else None,
    )


def _depth(value: JsonValue, deep: int = 0) -> int:
    """Return the nesting depth of a value; above `_DEEPEST`, the exact depth is not computed."""
    if deep > _DEEPEST or not isinstance(value, dict | list):
        return deep
    inner = value.values() if isinstance(value, dict) else value
    return max((_depth(each, deep + 1) for each in inner), default=deep)


def _pairs(value: JsonValue) -> Iterator[tuple[str, str]]:
    for pair in value if isinstance(value, list) else []:
        if (
            isinstance(pair, list)
            and len(pair) == 2
            and isinstance(pair[0], str)
            and isinstance(pair[1], str)
        ):
            yield pair[0], pair[1]


def findings_of(end: Json) -> list[Finding]:
    """Return the recorded warnings of the policy."""
    told = end.get("findings")
    found = []
    for each in told if isinstance(told, list) else []:
        if isinstance(each, list) and len(each) == 3 and all(isinstance(word, str) for word in each):
            rule, action, detail = cast("list[str]", each)
            if action in _ACTIONS:
                found.append(Finding(rule, cast(Any, action), detail))
    return found


def read_verified(end: Json) -> set[str]:
    """Return the names of the recorded checks that verified the object."""
    told = end.get("verified")
    return {word for word in told if word in _WORDS} if isinstance(told, list) else set()


def error_of(end: Json, date: datetime) -> ResolveError:
    """Return the recorded error of the retrieval."""
    told = end.get("error")
    error: Json = told if isinstance(told, dict) else {}
    message = f"{text(error, 'message') or 'the retrieval failed'} (recorded on {date:%Y-%m-%dT%H:%M:%SZ})"
    code = text(error, "reply")
    for declined in _DECLINED:
        if declined.__name__ == error.get("code"):
            return declined(message, code=code).final()
    for kind in _FAILED:
        if kind.__name__ == error.get("code"):
            return kind(message).final()
    return ProtocolError(message).final()
