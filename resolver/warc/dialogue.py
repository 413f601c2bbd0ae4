"""What was said for one object, as an archive tells of it: format 1, a line of JSON an event.

`docs/archives.md` says what the events and their members mean. Octets are text here, one character an octet.
What the object itself has is counted and not repeated, and the whole is bounded.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime

from protocols.location import JsonValue
from protocols.values import dataclass, field

FORMAT = 1

#: Octets of all lines; a line more says that there was more.
MOST = 1_048_576
#: What an event costs besides its octets, about.
_EACH = 100

_LINE = "dialogue: "
_ENCODER = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"))


@dataclass(slots=True)
class DialogueEvent:
    """One event, `at` seconds since the first. `octets` may still grow, until another comes."""

    at: float
    way: int
    event: str
    members: dict[str, JsonValue] = field(default_factory=dict)
    octets: bytearray | None = None


class DialogueRecord:
    """The events of one capture. `hide` takes the secrets that went out from what came."""

    def __init__(self, begun: datetime, hide: Callable[[bytes], bytes]) -> None:
        self.begun = begun
        self._hide = hide
        self._events: list[DialogueEvent] = []
        self._size = 0
        self._is_cut = False
        self._last = 0.0

    def add(self, now: datetime, way: int, event: str, members: dict[str, JsonValue]) -> DialogueEvent:
        """Another one; its members may be changed until the end."""
        happened = DialogueEvent(self._since(now), way, event, members)
        self._keep(happened, _EACH)
        return happened

    def say(self, now: datetime, way: int, event: str, octets: bytes, *, joins: bool, masked: bool) -> None:
        """Octets that were sent or received; they join those before where nothing came between."""
        last = self._events[-1] if self._events else None
        if joins and last is not None and last.octets is not None and (last.way, last.event) == (way, event):
            if self._has_room(len(octets)):
                last.octets += octets
            if masked:
                last.members["masked"] = ["password"]
            return
        members: dict[str, JsonValue] = {"masked": ["password"]} if masked else {}
        happened = DialogueEvent(self._since(now), way, event, members, bytearray(octets))
        self._keep(happened, _EACH + len(octets))

    def last_heard(self, way: int) -> DialogueEvent | None:
        """What was received there, where nothing happened since."""
        last = self._events[-1] if self._events else None
        return last if last is not None and (last.way, last.event) == (way, "receive") else None

    def _keep(self, happened: DialogueEvent, size: int) -> None:
        if self._has_room(size):
            self._events.append(happened)

    def _has_room(self, size: int) -> bool:
        self._size += size
        if self._size > MOST and not self._is_cut:
            self._is_cut = True
            self._events.append(DialogueEvent(self._last, 0, "note", {"text": "cut"}))
        return not self._is_cut

    def _since(self, now: datetime) -> float:
        """Never less than before, whatever the clock does."""
        self._last = max(self._last, (now - self.begun).total_seconds())
        return self._last

    def lines(self, now: datetime, end: dict[str, JsonValue]) -> Iterator[str]:
        """All of it, `end` as the last, however much there was."""
        for happened in self._events:
            yield _LINE + _json(happened, self._hide)
        yield _LINE + _json(DialogueEvent(self._since(now), 0, "end", end), self._hide)


def _json(happened: DialogueEvent, hide: Callable[[bytes], bytes]) -> str:
    at = round(happened.at, 6) or 0
    said: dict[str, JsonValue] = {"t": at, "c": happened.way, "event": happened.event}
    if happened.octets is not None:
        said["octets"] = hide(bytes(happened.octets)).decode("latin-1")
    return _ENCODER.encode({**said, **happened.members})
