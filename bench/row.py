"""The definition of a benchmark row: a task, its contestants, and the compared value.

A contestant is a command that runs in a new process each time: no contestant inherits imports or state of
another. `running` runs them in turn; `figures` makes medians and ratios of the measurements.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

#: The compared value: items per second; seconds; CPU seconds per GiB; CPU time of a run over that of the
#: first contestant, in ms; peak memory, in MiB.
Measure: TypeAlias = Literal["rate", "seconds", "processor", "over", "peak"]
UNITS: Mapping[Measure, str] = {
    "rate": "/s",
    "seconds": "s",
    "processor": "s of the processor a GiB",
    "over": "ms of the processor",
    "peak": "MiB",
}


def environment() -> dict[str, str]:
    """Return the environment without proxies, and with compiled modules cached, as in normal use."""
    kept = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    return {**kept, "PYTHONDONTWRITEBYTECODE": ""}


@dataclass(frozen=True)
class Contestant:
    """A command that performs the task.

    With `tells`, the last line of its output gives the measured values (`clients.Told`), without its start.
    Otherwise the complete process is measured. `count` is its number of items, which is smaller for a slow
    contestant.
    """

    name: str
    words: Sequence[str]
    count: int
    tells: bool = False
    environment: Mapping[str, str] = field(default_factory=environment)
    before: Callable[[], None] | None = None
    after: Callable[[], None] | None = None

    def within(self, surroundings: Mapping[str, str]) -> Contestant:
        """Return the contestant with another environment."""
        return replace(self, environment=surroundings)


class Missing(NamedTuple):
    """A contestant that is not measured, and the reason."""

    name: str
    reason: str


class Aim(NamedTuple):
    """The aim for the ratio of two contestants: `least` or `most`."""

    of: str
    to: str
    least: float | None = None
    most: float | None = None


class Bound(NamedTuple):
    """The maximum for the figure of one contestant."""

    of: str
    most: float


Open: TypeAlias = Callable[[Path, int], AbstractContextManager[Sequence[Contestant | Missing]]]


@dataclass(frozen=True)
class Row:
    """A row of the benchmarks.

    Attributes:
        about: A description, in which `{}` stands for the count.
        open: Runs the servers in an empty folder, and yields the contestants for `count` items.
        tiny: A count that only shows that the row works.
        times: The runs of each contestant in a round.
        long: Whether the row runs only if it is named.
    """

    name: str
    about: str
    measure: Measure
    count: int
    tiny: int
    open: Open
    aims: Sequence[Aim | Bound] = ()
    times: int = 1
    #: No round starts after this time, unless the number of rounds was given.
    seconds: float = 40.0
    long: bool = False


def client(
    name: str,
    kind: str,
    url: str,
    count: int,
    *,
    at_once: int = 1,
    first: int = 0,
    more: str = "",
    module: str = "clients",
) -> Contestant:
    """Return a Python client of `clients` or `streams`."""
    words = [sys.executable, "-m", f"bench.{module}", kind, url]
    words += map(str, (first, count, at_once))
    return Contestant(name, [*words, more] if more else words, count, tells=True)


class Target:
    """A new directory for each run: `path` leads to the newest one, which is empty.

    No directory is removed during a measurement. When ext4 creates a file, it examines the inodes of files
    that were removed in the last half minute. The creation then takes ten times as long, for any process.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / "target"
        self._runs = 0

    def anew(self) -> None:
        self._runs += 1
        fresh = self.path.with_name(f"target-{self._runs}")
        fresh.mkdir()
        self.path.unlink(missing_ok=True)
        self.path.symlink_to(fresh)


#: The command as its entry point starts it.
RESOLVE = (sys.executable, "-c", "from resolver.cli import run; run()")
