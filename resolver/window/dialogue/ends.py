"""The beginning and the end of a dialogue: what is between is counted and not kept."""

from __future__ import annotations

from collections import deque

from resolver.window.dialogue.exchange import DiagramMessage

#: So many messages at the beginning, and as many at the end.
HALF = 250


class BoundedMessages:
    """Messages, of which the first and the last `HALF` are kept."""

    def __init__(self) -> None:
        self._first: list[DiagramMessage] = []
        self._last: deque[DiagramMessage] = deque(maxlen=HALF)
        self.left_out = 0

    def add(self, message: DiagramMessage) -> None:
        if len(self._first) < HALF:
            self._first.append(message)
            return
        if len(self._last) == HALF:
            self.left_out += 1
        self._last.append(message)

    @property
    def latest(self) -> DiagramMessage | None:
        kept = self._last or self._first
        return kept[-1] if kept else None

    def replace(self, old: DiagramMessage, new: DiagramMessage) -> None:
        """One of those that are kept; of equal ones the latest. What is left out is not looked for."""
        for kept in (self._last, self._first):
            for at in range(len(kept) - 1, -1, -1):
                if kept[at] is old:
                    kept[at] = new
                    return

    def all(self) -> tuple[DiagramMessage, ...]:
        """Those that are kept, with one in the place of those that are not."""
        if not self.left_out:
            return (*self._first, *self._last)
        gap = DiagramMessage("gap", (f"{self.left_out:,} messages are left out here",))
        return (*self._first, gap, *self._last)
