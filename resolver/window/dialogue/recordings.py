"""The recordings of a run, one for each URL that was asked for: of very many, the first and the last."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from resolver.events import Event, Finished, Kept, Progress, Retrying, Started
from resolver.window.dialogue.recording import ExchangeRecording

#: So many at the beginning of a run, and as many at its end.
HALF = 50

#: What is under way in this task. What is told of a connection says for which URL it is, and a redirect leads
#: to one that somebody else may have asked for, too.
_CURRENT: ContextVar[ExchangeRecording | None] = ContextVar("_CURRENT", default=None)


@contextmanager
def recorded(now: Callable[[], float]) -> Iterator[ExchangeRecording]:
    """What is asked for in this block, by this task and those that it starts; `hear_here` has to be what the
    session tells."""
    recording = ExchangeRecording(now)
    token = _CURRENT.set(recording)
    try:
        yield recording
    finally:
        _CURRENT.reset(token)


def hear_here(event: Event) -> None:
    """For the block that it happens in; what happens in none, nobody hears."""
    recording = _CURRENT.get()
    if recording is not None:
        recording.hear(event)


class Recordings:
    """Hears all events of a session; `now` as `ExchangeRecording` has it."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._kept: dict[int, ExchangeRecording] = {}
        self._by_url: dict[str, ExchangeRecording] = {}
        self._last: ExchangeRecording | None = None
        self.left_out = 0

    def hear(self, event: Event) -> None:
        """Keep it with those of the same retrieval."""
        recording = self._started(event) if isinstance(event, Started) else self._of(event)
        if recording is not None:
            recording.hear(event)

    def all(self) -> tuple[ExchangeRecording, ...]:
        """In the order in which they began."""
        return tuple(self._kept.values())

    def _started(self, event: Started) -> ExchangeRecording:
        recording = self._kept.get(event.transfer)
        if recording is None:
            recording = self._kept[event.transfer] = ExchangeRecording(self._now)
            self._forget()
        self._by_url[event.url] = recording
        self._last = recording
        _CURRENT.set(recording)
        return recording

    def _of(self, event: Event) -> ExchangeRecording | None:
        if isinstance(event, Progress | Retrying | Finished | Kept) and event.transfer in self._kept:
            return self._kept[event.transfer]
        current = _CURRENT.get()
        if (
            current is not None
            and not current.is_over
            and any(current is each for each in self._kept.values())
        ):
            return current
        return self._by_url.get(event.url, self._last)

    def _forget(self) -> None:
        if len(self._kept) > 2 * HALF:
            number = list(self._kept)[HALF]
            gone = self._kept.pop(number)
            self._by_url = {url: each for url, each in self._by_url.items() if each is not gone}
            self.left_out += 1
