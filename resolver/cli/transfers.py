"""What is under way, as the events of the package tell it: one transfer for each number, over all its tries.

Nothing here knows how it is shown. A try that has failed may be followed by another one, which events tell in
the same moment; so a transfer is looked at between moments only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Literal

from protocols.errors import InvalidUrl
from resolver.events import Event, Finished, Progress, Retrying, Started
from resolver.retrieval.naming import last_part
from resolver.terminal import escape_line
from resolver.url import parse

#: Seconds over which a rate is averaged: it is to be read, and to tell of a standstill before long.
_WINDOW = 8.0

#: Seconds between two moments that are remembered for it.
_APART = 0.1

#: Characters of a name that are looked at: one of combining characters alone would be as wide as none.
_MOST_NAME = 200

State = Literal["connecting", "receiving", "waiting", "over"]


class TransferProgress:
    """One object on its way. `start` octets were there before the first try, as far as they still count;
    `until` is when a waiting one is tried again."""

    def __init__(self, url: str, now: float) -> None:
        self.url = url
        self.name = shown_name(url)
        self.state: State = "connecting"
        self.begun = now
        self.until = now
        self.start: int | None = None
        self.received = 0
        self.brought = 0
        self.expected: int | None = None
        self.failed = False
        self._moments: deque[tuple[float, int]] = deque()

    def progress(self, event: Progress, now: float) -> None:
        if self.state != "receiving":  # of another try: it may begin earlier than the last one ended
            self._moments.clear()
            self.received = event.start
            self.start = event.start if self.start is None else min(self.start, event.start)
        self.state = "receiving"
        self.brought += event.received - self.received
        self.received, self.expected = event.received, event.expected
        if not self._moments or now - self._moments[-1][0] >= _APART:
            self._moments.append((now, event.received))

    def rate(self, now: float) -> float | None:
        """Octets a second of late; None as long as that cannot be told."""
        while len(self._moments) > 1 and self._moments[1][0] < now - _WINDOW:
            self._moments.popleft()
        if self.state != "receiving" or not self._moments or now - self._moments[0][0] < _APART:
            return None
        since, received = self._moments[0]
        return (self.received - received) / (now - since)

    def left(self, now: float) -> float | None:
        """Seconds until it is there, if it goes on like this."""
        rate = self.rate(now)
        if not rate or self.expected is None:
            return None
        return max(0.0, (self.expected - self.received) / rate)


class TransferTracker:
    """All of a run."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._all: dict[int, TransferProgress] = {}
        self._brought = 0
        self.done = 0
        self.failed = 0

    def hear(self, event: Event) -> None:
        match event:
            case Started(url=url, transfer=number):
                transfer = self._all.setdefault(number, TransferProgress(url, self._clock()))
                transfer.state = "connecting"
            case Progress(transfer=number):
                self._all[number].progress(event, self._clock())
            case Retrying(delay=delay, transfer=number):
                transfer = self._all[number]
                transfer.state, transfer.until = "waiting", self._clock() + delay
            case Finished(error=error, transfer=number):
                transfer = self._all[number]
                transfer.state, transfer.failed = "over", error is not None

    def under_way(self) -> list[TransferProgress]:
        """Those that are not over, the oldest first. Looking forgets the others, but for their sum."""
        for number, transfer in list(self._all.items()):
            if transfer.state == "over":
                del self._all[number]
                self._brought += transfer.brought
                self.failed += transfer.failed
                self.done += not transfer.failed
        return list(self._all.values())

    @property
    def count(self) -> int:
        return self.done + self.failed + len(self._all)

    @property
    def brought(self) -> int:
        """Octets that came since the run began."""
        return self._brought + sum(transfer.brought for transfer in self._all.values())


def shown_name(url: str) -> str:
    """What the object of a URL is called, fit for one line of a terminal, in which each character stands for
    itself: neither tabs nor what has no shape."""
    name = url
    with suppress(InvalidUrl):
        name = last_part(parse(url)).decode("utf-8", "surrogateescape").rpartition("/")[2] or url
    escaped = escape_line(name[:_MOST_NAME])
    return "".join(char if char.isprintable() else _escaped(char) for char in escaped)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
