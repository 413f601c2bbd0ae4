"""The state of running transfers, from the events of the package, and the format of sizes and times.

A transfer has one number for all its attempts. The event of a retry immediately follows the event of the
failed attempt. The displays therefore read the state of a transfer only between two events.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Literal

from protocols.errors import InvalidUrl
from resolver.network.events import Event, Finished, Progress, Retrying, Started
from resolver.terminal.text import escape_line
from resolver.transfer.naming import last_part
from resolver.url.parsing import parse

#: The time in seconds over which the transfer rate is averaged. With a longer time, a stall would be shown
#: too late. With a shorter time, the figure would be unsteady.
_WINDOW = 8.0

#: Minimum seconds between two samples for the transfer rate.
_SAMPLE_INTERVAL = 0.1

#: The maximum number of characters of a file name that are processed. Without this limit, a name of combining
#: characters could be endless, because combining characters do not have a width.
_MAX_NAME = 200

State = Literal["connecting", "receiving", "waiting", "over"]


class TransferProgress:
    """The state of a running transfer.

    `start` is the number of valid bytes before the first attempt. For a waiting transfer, `until` is the time
    of the next attempt.
    """

    def __init__(self, url: str, now: float) -> None:
        self.url = url
        self.name = shown_name(url)
        self.state: State = "connecting"
        self.started = now
        self.until = now
        self.start: int | None = None
        self.received = 0
        self.brought = 0
        self.expected: int | None = None
        self.has_failed = False
        self._samples: deque[tuple[float, int]] = deque()

    def progress(self, event: Progress, now: float) -> None:
        if self.state != "receiving":  # a new attempt may resume at an earlier offset
            self._samples.clear()
            self.received = event.start
            self.start = event.start if self.start is None else min(self.start, event.start)
        self.state = "receiving"
        self.brought += event.received - self.received
        self.received, self.expected = event.received, event.expected
        if not self._samples or now - self._samples[-1][0] >= _SAMPLE_INTERVAL:
            self._samples.append((now, event.received))

    def rate(self, now: float) -> float | None:
        """Return the average rate of the last seconds in bytes per second, or None if it is unknown."""
        while len(self._samples) > 1 and self._samples[1][0] < now - _WINDOW:
            self._samples.popleft()
        if self.state != "receiving" or not self._samples or now - self._samples[0][0] < _SAMPLE_INTERVAL:
            return None
        started, received = self._samples[0]
        return (self.received - received) / (now - started)

    def estimate_remaining(self, now: float) -> float | None:
        """Return the seconds until the end of the transfer at the current rate, or None if unknown."""
        rate = self.rate(now)
        if not rate or self.expected is None:
            return None
        return max(0.0, (self.expected - self.received) / rate)


class TransferTracker:
    """The running transfers of a run, and the totals of the finished transfers."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._running: dict[int, TransferProgress] = {}
        self._brought = 0
        self.done = 0
        self.failed = 0

    def process(self, event: Event) -> None:
        match event:
            case Started(url=url, transfer=number):
                transfer = self._running.setdefault(number, TransferProgress(url, self._clock()))
                transfer.state = "connecting"
            case Progress(transfer=number):
                self._running[number].progress(event, self._clock())
            case Retrying(delay=delay, transfer=number):
                transfer = self._running[number]
                transfer.state, transfer.until = "waiting", self._clock() + delay
            case Finished(error=error, transfer=number):
                transfer = self._running[number]
                transfer.state, transfer.has_failed = "over", error is not None

    def under_way(self) -> list[TransferProgress]:
        """Return the running transfers, oldest first, after adding the finished transfers to the totals."""
        for number, transfer in list(self._running.items()):
            if transfer.state == "over":
                del self._running[number]
                self._brought += transfer.brought
                self.failed += transfer.has_failed
                self.done += not transfer.has_failed
        return list(self._running.values())

    @property
    def count(self) -> int:
        return self.done + self.failed + len(self._running)

    @property
    def brought(self) -> int:
        """Return the bytes received since the start of the run."""
        return self._brought + sum(transfer.brought for transfer in self._running.values())


def shown_name(url: str) -> str:
    """Return the file name in a URL, escaped for one line of a terminal, without tabs."""
    name = url
    with suppress(InvalidUrl):
        name = last_part(parse(url)).decode("utf-8", "surrogateescape").rpartition("/")[2] or url
    escaped = escape_line(name[:_MAX_NAME])
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in escaped)


# Short formats of sizes and times, such as 12.3 MiB, 3:25 or 3 min.

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def octets(count: int) -> str:
    """Format a size, such as `12.3 MiB`; at most 8 characters below 1024 EiB."""
    factor, unit = _choose_unit(count)
    return f"{_figures(count, factor)} {unit}"


def format_sizes(count: int, total: int) -> str:
    """Format a received and a total size in one unit, in at most 13 characters: `1.2/45.6 MiB`."""
    factor, unit = _choose_unit(total)
    return f"{_figures(count, factor)}/{_figures(total, factor)} {unit}"


def _choose_unit(count: int) -> tuple[int, str]:
    steps = min(max(0, count.bit_length() - 1) // 10, len(_UNITS) - 1)
    return 1024**steps, _UNITS[steps]


def _figures(count: int, factor: int) -> str:
    """Format a number, rounded down, because an incomplete transfer must not look complete."""
    if factor == 1 or count >= 100 * factor:
        return str(count // factor)
    tenths = count * 10 // factor
    return f"{tenths // 10}.{tenths % 10}"


def countdown(seconds: float) -> str:
    """Format the remaining time in at most 8 characters: `0:07`, or `days` from 100 hours on."""
    remaining = int(seconds + 0.999)
    if remaining >= 360_000:
        return "days"
    minutes, rest = divmod(remaining, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def duration(seconds: float) -> str:
    """Format an elapsed time, such as `0.4 s`, `12 s`, `3 min` or `2 h 5 min`."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
