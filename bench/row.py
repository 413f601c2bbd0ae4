"""What a row of the benchmarks is: one piece of work, who does it, and what is compared.

A contestant is a command, a process of its own each time, so that nobody pays for what another one imported
or left behind. `running` runs them in turn, `figures` makes medians and ratios of what it measured.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

#: What is compared: things a second; seconds; seconds of the processor for each GiB; the same of a run, over
#: those of the first contestant, in ms; the most memory at any time, in MiB.
Measure: TypeAlias = Literal["rate", "seconds", "processor", "over", "peak"]
UNITS: Mapping[Measure, str] = {
    "rate": "/s",
    "seconds": "s",
    "processor": "s of the processor a GiB",
    "over": "ms of the processor",
    "peak": "MiB",
}


def environment() -> dict[str, str]:
    """Ours, with modules compiled once and kept, as they are where people use them, and without proxies."""
    kept = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    return {**kept, "PYTHONDONTWRITEBYTECODE": ""}


@dataclass(frozen=True)
class Contestant:
    """One who does the work.

    With `tells` the last line of its output says what it took (`clients.Told`), without its start; else all
    of its process counts. `count` is of the things that it does, fewer where it would take too long.
    """

    name: str
    words: Sequence[str]
    count: int
    tells: bool = False
    environment: Mapping[str, str] = field(default_factory=environment)
    before: Callable[[], None] | None = None
    after: Callable[[], None] | None = None

    def within(self, surroundings: Mapping[str, str]) -> Contestant:
        """The same with another environment."""
        return replace(self, environment=surroundings)


class Missing(NamedTuple):
    """One who is not measured, and why."""

    name: str
    reason: str


class Aim(NamedTuple):
    """What the ratio of two contestants is to be: `least` or `most`."""

    of: str
    to: str
    least: float | None = None
    most: float | None = None


class Bound(NamedTuple):
    """What the figure of one contestant is to be at most."""

    of: str
    most: float


Open: TypeAlias = Callable[[Path, int], AbstractContextManager[Sequence[Contestant | Missing]]]


@dataclass(frozen=True)
class Row:
    """`about` has `{}` where the count stands. `open` has the servers up, in an empty folder, while
    contestants for `count` things run. `tiny` is the count that shows that the row works. Each runs `times`
    in each round, and `long` rows by name alone."""

    name: str
    about: str
    measure: Measure
    count: int
    tiny: int
    open: Open
    aims: Sequence[Aim | Bound] = ()
    times: int = 1
    #: No round begins later, unless so many were asked for.
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
    """A client in Python, of `clients` or `streams`."""
    words = [sys.executable, "-m", f"bench.{module}", kind, url]
    words += map(str, (first, count, at_once))
    return Contestant(name, [*words, more] if more else words, count, tells=True)


class Target:
    """A directory for each run: `path` leads to the newest one, which is empty.

    None is removed while anything is measured: ext4 looks through the inodes of files that were removed
    within half a minute whenever it makes one, which then takes ten times as long, whoever makes it.
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


#: The command, as its entry point starts it.
RESOLVE = (sys.executable, "-c", "from resolver.cli import run; run()")
