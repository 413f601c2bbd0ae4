"""How far a run over a cluster is: a line that is drawn anew on a terminal, lines for a log, JSON for
programs; and what became of all, at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

from resolver.cli import below, streams
from resolver.cli.amounts import countdown, duration, octets
from resolver.cli.arguments import Command

if TYPE_CHECKING:
    from resolver.bulk import BulkProgress, BulkSummary

T = TypeVar("T")

#: Columns of the bar, and of a terminal that has one.
_BAR = 20
_WIDE = 60

#: Columns of a line of a log.
_LOG = 100


@contextmanager
def display_of(command: Command, clock: Callable[[], float] = monotonic) -> Iterator[BulkDisplay]:
    """Nothing of what was drawn stays."""
    kind = _LineDisplay if _has_line(command) else _DISPLAYS.get(command.found.progress, BulkDisplay)
    try:
        yield kind(command, clock)
    finally:
        below.clear()


def _has_line(command: Command) -> bool:
    how = command.found.progress
    return below.is_terminal() and (how == "bar" or (how == "auto" and not command.quiet))


class BulkDisplay:
    """Shows nothing on the way: what the others do more."""

    #: Seconds between two times that it is told how many requests were read.
    _SOON = 0.1

    def __init__(self, command: Command, clock: Callable[[], float]) -> None:
        self._command = command
        self._clock = clock
        self._began = clock()
        self._drawn = self._began

    def read(self, requests: Iterable[T]) -> Iterator[T]:
        """The same. How many they are so far is told meanwhile; how long it takes counts from their end."""
        for count, request in enumerate(requests, 1):
            yield request
            if (now := self._clock()) - self._drawn >= self._SOON:
                self._drawn = now
                self.hear_of_reading(count)
        self._began = self._clock()

    def hear_of_reading(self, count: int) -> None:
        """So many requests were read."""

    def hear(self, progress: BulkProgress) -> None:
        """A slice has ended."""

    def conclude(self, summary: BulkSummary) -> None:
        """What became of all."""
        if self._command.json:
            streams.print_record({**summary._asdict(), "seconds": round(summary.seconds, 6)})
        elif not self._command.quiet:
            streams.complain(told(summary))

    def _line(self, progress: BulkProgress, columns: int) -> str:
        return line_of(progress, self._clock() - self._began, columns)


class _LineDisplay(BulkDisplay):
    def hear_of_reading(self, count: int) -> None:
        below.draw([f"{count:,} read"[: below.size()[0] - 1]])

    def hear(self, progress: BulkProgress) -> None:
        below.draw([self._line(progress, below.size()[0] - 1)])


class _LinesDisplay(BulkDisplay):
    def hear(self, progress: BulkProgress) -> None:
        streams.note(self._line(progress, _LOG))


class _RecordDisplay(BulkDisplay):
    def hear(self, progress: BulkProgress) -> None:
        streams.note_record({"event": "progress", **progress._asdict()})


_DISPLAYS: dict[str, type[BulkDisplay]] = {"dot": _LinesDisplay, "json": _RecordDisplay}


def line_of(progress: BulkProgress, elapsed: float, columns: int) -> str:
    """At most so wide. How long it still takes is guessed by what it took."""
    ended, whole = progress.ended, progress.requests
    share = ended / whole if whole else 1.0
    if not progress.threads:
        return f"waiting for workers: {ended:,} of {whole:,}"[: max(1, columns)]
    words = [f"{ended:,} of {whole:,}", *_bad(progress.counts), octets(progress.bytes)]
    if 0 < ended < whole:
        words.append(f"{countdown(elapsed / ended * (whole - ended))} left")
    line = f"{int(share * 100):>3}%  {', '.join(words)}"
    if columns >= _WIDE:
        done = int(share * _BAR)
        line = f"[{'=' * done}{'.' * (_BAR - done)}] {line}"
    return line[: max(1, columns)]


def told(summary: BulkSummary) -> str:
    """A line for people."""
    kept = [f"{summary.skipped:,} kept"] if summary.skipped else []
    words = [f"{summary.done:,} of {summary.requests:,} done", *kept, *_bad(summary._asdict())]
    hosts = "1 host" if summary.hosts == 1 else f"{summary.hosts:,} hosts"
    slices = "1 slice" if summary.slices == 1 else f"{summary.slices:,} slices"
    amount = f"{octets(summary.bytes)} in {duration(summary.seconds)}"
    return f"{', '.join(words)}; {amount}, {hosts}, {slices}"


def _bad(counts: Mapping[str, int]) -> list[str]:
    return [f"{counts[how]:,} {how}" for how in ("failed", "refused") if counts.get(how)]
