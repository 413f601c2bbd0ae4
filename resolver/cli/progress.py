"""The displays of `--progress`. They show transfers from the public events of the package.

Progress bars are drawn only on a terminal. Lines of dots are for a log, and JSON objects are for a program.
Dots and JSON are written to standard error, even if standard error is not a terminal.
"""

from __future__ import annotations

from collections.abc import Callable

import trio

from resolver.cli import streams
from resolver.cli.arguments import Command
from resolver.cli.transfers import TransferTracker, octets, shown_name
from resolver.network.events import Event, Finished, Progress, Retrying, Started

TYPE_CHECKING = False
if TYPE_CHECKING:
    from protocols.location import JsonValue
    from resolver.cli.bars import Bars

#: The seconds between two redraws, and the seconds before the first redraw. A shorter run does not need a
#: bar.
_REDRAW_INTERVAL = 0.1
_BAR_DELAY = 0.4

#: Minimum seconds between two progress records of a transfer.
_RECORD_INTERVAL = 0.2

#: Three numbers: the dots per line, the maximum number of lines for a body of known size, and the bytes per
#: dot for a body of unknown size.
_DOTS = 50
_MAX_LINES = 40
_DOT = 65_536


_TRANSFER_EVENTS: frozenset[type[Event]] = frozenset({Started, Progress, Retrying, Finished})


class Display:
    """The base class of the displays; this class itself shows nothing."""

    event_types: frozenset[type[Event]] = frozenset()

    def process(self, event: Event) -> None:
        """Process an event without blocking."""

    async def run(self) -> None:
        """Draw repeatedly until the task is cancelled."""

    def close(self) -> None:
        """Clear all drawn lines."""


def make_display(command: Command) -> Display:
    match command.progress:
        case "none":
            return Display()
        case "dot":
            return DotDisplay()
        case "json":
            return RecordDisplay(trio.current_time)
    return BarDisplay(trio.current_time) if _has_bars(command) else Display()


def _has_bars(command: Command) -> bool:
    """Return whether to draw progress bars.

    Bars are drawn only on a terminal to which no body is written. Without `--progress bar`, bars are not
    drawn in two more cases: with `--quiet`, and if another program reads standard output. That program may be
    a pager on the same terminal.
    """
    if not streams.is_terminal():
        return False
    is_requested = command.progress == "bar"
    if not is_requested and command.quiet:
        return False
    if command.verb == "get" and command.output != "-":
        return True
    return (
        not streams.output_is_terminal()
        if is_requested
        else command.verb in ("get", "cat") and streams.output_is_file()
    )


class BarDisplay(Display):
    """A display of progress bars below the messages."""

    event_types = _TRANSFER_EVENTS

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._transfers = TransferTracker(clock)
        self._bars: Bars | None = None

    def process(self, event: Event) -> None:
        self._transfers.process(event)

    async def run(self) -> None:
        await trio.sleep(_BAR_DELAY)
        while self.draw():  # noqa: ASYNC110
            await trio.sleep(_REDRAW_INTERVAL)

    def draw(self) -> bool:
        """Draw the bars; return False if the terminal cannot draw."""
        if self._bars is None:
            from resolver.cli.bars import Bars  # lazy import: the module imports rich

            self._bars = Bars(streams.encoding())
        if not self._bars.is_dumb:
            streams.draw(self._bars.lines(self._transfers, streams.size(), self._clock()))
        return not self._bars.is_dumb

    def close(self) -> None:
        streams.clear()


class DotDisplay(Display):
    """A display that prints lines of dots.

    Only complete lines are printed. Therefore the lines of several transfers are not mixed.
    """

    event_types = _TRANSFER_EVENTS

    def __init__(self) -> None:
        self._lines: dict[int, DotLines] = {}

    def process(self, event: Event) -> None:
        match event:
            case Progress(transfer=number):
                dots = self._lines.get(number)
                if dots is None or dots.received > event.received:  # a new or restarted transfer
                    dots = self._lines[number] = DotLines(event)
                for line in dots.lines(event.received):
                    streams.print_above(f"{line}\n")
            case Finished(transfer=number) if number in self._lines:
                for line in self._lines[number].get_last_line():
                    streams.print_above(f"{line}\n")
                if event.error is None:
                    del self._lines[number]


class DotLines:
    """The dots of one transfer.

    A comma means bytes of an earlier run, as in wget, and a period means received bytes.
    """

    def __init__(self, first: Progress) -> None:
        self.received = first.start
        self._name = shown_name(first.url)
        self._start = first.start
        self._total = first.expected
        self._dot = _DOT if first.expected is None else _octets_of_dot(first.expected)
        self._reported = 0

    def lines(self, received: int) -> list[str]:
        """Return the lines that `received` bytes have completed."""
        self.received = received
        lines = []
        while received >= self._reported + _DOTS * self._dot:
            lines.append(self._line(self._reported + _DOTS * self._dot))
            self._reported += _DOTS * self._dot
        return lines

    def get_last_line(self) -> list[str]:
        """Return the last, incomplete line, or an empty list."""
        return [self._line(self.received)] if self.received > self._reported else []

    def _line(self, end: int) -> str:
        count = -(-(end - self._reported) // self._dot)
        marks = "".join(
            "," if self._reported + position * self._dot < self._start else "." for position in range(count)
        )
        groups = " ".join(marks[position : position + 10] for position in range(0, _DOTS, 10))
        percent = "" if not self._total else f" {min(100, end * 100 // self._total):3}%"
        return f"{self._name}: {octets(self._reported):>8} {groups:<54}{percent}".rstrip()


def _octets_of_dot(total: int) -> int:
    dot = 1_024
    while dot * _DOTS * _MAX_LINES < total:
        dot *= 2
    return dot


class RecordDisplay(Display):
    """A display that writes one JSON object per line: `event`, `transfer`, `url`, and fields of the event."""

    event_types = _TRANSFER_EVENTS

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last: dict[int, float] = {}
        self._unreported: dict[int, Progress] = {}

    def process(self, event: Event) -> None:
        match event:
            case Started(attempt=attempt):
                self._report("started", event, {"attempt": attempt})
            case Progress(transfer=number):
                self._unreported[number] = event
                if self._clock() - self._last.get(number, float("-inf")) >= _RECORD_INTERVAL:
                    self._last[number] = self._clock()
                    self._report_progress(number)
            case Retrying(error=error, delay=delay):
                self._report("retrying", event, {"error": str(error), "delay": delay})
            case Finished(error=error, transfer=number):
                self._report_progress(number)
                self._report("finished", event, {"error": None if error is None else str(error)})

    def _report_progress(self, number: int) -> None:
        event = self._unreported.pop(number, None)
        if event is not None:
            numbers = {"received": event.received, "expected": event.expected, "start": event.start}
            self._report("progress", event, dict(numbers))

    def _report(
        self, name: str, event: Started | Progress | Retrying | Finished, fields: dict[str, JsonValue]
    ) -> None:
        streams.note_record({"event": name, "transfer": event.transfer, "url": event.url, **fields})
