"""What one dialogue was, or would be, as values: what diagram, table and JSON are made of alike.

In JSON (`as_json`; octets are counted on the wire, times are milliseconds from the start):

| member | |
|---|---|
| format version | `resolve-dialogue`, 1 |
| url title | the URL, redacted; what the diagram is called |
| kind | `dialogue`: it was so; `plan`: it would be |
| lanes | pairs of a name, of which `client` `server` `data` `names`, and who that is |
| messages | one for each thing said or done, in order |
| left_out | how many are left out, behind the message of kind `gap` |
| outcome elapsed | how it ended, and after how long; null while it has not |

A message has at (null where no time is known), kind, from and to (the same lane for what one side does by
itself, null for a note), lines (each at most 60 cells), octets (of a body and of what is no text, else null)
and secured (inside TLS). Kinds: `open` `close` `tls` `say` `hear` `body` `ask` `answer` (names) `note` `gap`.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from protocols.location import JsonValue
from protocols.values import NamedTuple

Place: TypeAlias = Literal["client", "server", "data", "names"]
Kind: TypeAlias = Literal["open", "close", "tls", "say", "hear", "body", "ask", "answer", "note", "gap"]

Tone: TypeAlias = Literal["plain", "good", "bad"]

#: In the order in which they stand side by side.
PLACES: tuple[Place, ...] = ("client", "server", "data", "names")
_WHO: dict[Place, str] = {
    "client": "this machine",
    "server": "server",
    "data": "data",
    "names": "names",
}


class DiagramLane(NamedTuple):
    """One side: `who` is its address where it is known."""

    place: Place
    title: str
    who: str = ""


class DiagramMessage(NamedTuple):
    """One thing said or done; see the head of this module."""

    kind: Kind
    lines: tuple[str, ...]
    source: Place | None = None
    target: Place | None = None
    at: float | None = None
    size: int | None = None
    secured: bool = False
    tone: Tone = "plain"

    def as_json(self) -> dict[str, JsonValue]:
        return {
            "at": None if self.at is None else round(self.at, 1),
            "kind": self.kind,
            "from": self.source,
            "to": self.target,
            "lines": list(self.lines),
            "octets": self.size,
            "secured": self.secured,
        }


class RecordedExchange(NamedTuple):
    """A dialogue as it was, or a plan of one."""

    url: str
    kind: Literal["dialogue", "plan"]
    title: str
    lanes: tuple[DiagramLane, ...]
    messages: tuple[DiagramMessage, ...]
    left_out: int = 0
    outcome: str | None = None
    elapsed: float | None = None
    failed: bool = False

    def as_json(self) -> dict[str, JsonValue]:
        return {
            "format": "resolve-dialogue",
            "version": 1,
            "url": self.url,
            "title": self.title,
            "kind": self.kind,
            "lanes": [[lane.place, lane.who or lane.title] for lane in self.lanes],
            "messages": [message.as_json() for message in self.messages],
            "left_out": self.left_out,
            "outcome": self.outcome,
            "elapsed": None if self.elapsed is None else round(self.elapsed, 1),
        }


def lanes_of(
    messages: tuple[DiagramMessage, ...], who: dict[Place, str], host: str
) -> tuple[DiagramLane, ...]:
    """Client and server, and what else takes part."""
    there = {place for message in messages for place in (message.source, message.target)}
    titles = {**_WHO, "server": host or _WHO["server"]}
    return tuple(
        DiagramLane(place, titles[place], who.get(place, "").removeprefix(f"{host} "))
        for place in PLACES
        if place == "client" or place in there or (place == "server" and host)
    )
