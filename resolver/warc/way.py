"""A connection of a capture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocols.location import JsonValue
from resolver.warc.dialogue import DialogueEvent, DialogueRecord

if TYPE_CHECKING:
    from resolver.gate.tap import TappedConnection


class CapturedConnection:
    """A connection: its number, what came on it and belongs to nothing yet, and how much of the object."""

    def __init__(self, number: int, link: TappedConnection) -> None:
        self.number = number
        self.link = link
        self.pending = bytearray()
        self.last = b""
        self.has_only_data = False
        self.opened: DialogueEvent | None = None
        self.body: DialogueEvent | None = None
        self.count = 0
        self.ended = "stopped"

    def turn_into_body(self, events: DialogueRecord) -> None:
        """What was heard here last is part of the object."""
        found = events.last_heard(self.number)
        if found is not None and self.body is None:
            self.body, self.count = found, len(found.octets or b"")
            found.event, found.octets = "body", None

    def describe(self, framing: str, ended: str, block: JsonValue) -> None:
        """What came of the object here, and what became of it."""
        if self.body is not None:
            self.body.members = {"count": self.count, "block": block, "framing": framing, "ended": ended}
