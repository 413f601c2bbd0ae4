"""The definition of a benchmark row: a task, its contestants, and the compared value.

A contestant is a command. Each run is a new process, so that contestants do not share imports or state.
`running` runs the contestants in turn. `figures` computes medians and ratios of the measurements.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

#: The compared value:
#:
#: - `rate`: items per second
#: - `seconds`: duration in seconds
#: - `processor`: CPU seconds per GiB
#: - `over`: CPU time of a run minus the CPU time of the first contestant, in ms
#: - `peak`: peak memory in MiB
Measure: TypeAlias = Literal["rate", "seconds", "processor", "over", "peak"]
UNITS: Mapping[Measure, str] = {
    "rate": "/s",
    "seconds": "s",
    "processor": "s of the processor a GiB",
    "over": "ms of the processor",
    "peak": "MiB",
}


def environment() -> dict[str, str]:
    """Return the environment variables without proxies, and with the bytecode cache of normal use."""
    variables = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    return {**variables, "PYTHONDONTWRITEBYTECODE": ""}


@dataclass(frozen=True)
class Contestant:
    """A command that performs the task.

    Attributes:
        is_timed: Whether the last line of the output has the measured values (`clients.Measurement`).
            Otherwise the complete process is measured.
        count: The number of items, which is smaller for a slow contestant.
    """

    name: str
    command: Sequence[str]
    count: int
    is_timed: bool = False
    environment: Mapping[str, str] = field(default_factory=environment)
    before: Callable[[], None] | None = None
    after: Callable[[], None] | None = None


class Missing(NamedTuple):
    """A contestant that is not measured, and the reason."""

    name: str
    reason: str


class Aim(NamedTuple):
    """An aim for the ratio of two contestants: the minimum or the maximum."""

    of: str
    to: str
    minimum: float | None = None
    maximum: float | None = None


class Bound(NamedTuple):
    """An aim for one contestant: the maximum value."""

    of: str
    maximum: float


Open: TypeAlias = Callable[[Path, int], AbstractContextManager[Sequence[Contestant | Missing]]]


@dataclass(frozen=True)
class Row:
    """A row of the benchmarks.

    Attributes:
        about: A description of the row; `{}` is replaced by the count.
        open: A function that runs the servers in an empty folder, and yields the contestants for `count`
            items.
        tiny: A small count for a quick test of the row.
        runs_per_round: The number of runs of each contestant in a round.
        is_long: Whether the row runs only if the command line names the row.
    """

    name: str
    about: str
    measure: Measure
    count: int
    tiny: int
    open: Open
    aims: Sequence[Aim | Bound] = ()
    runs_per_round: int = 1
    #: The time limit in seconds. After the limit, a new round starts only if the number of rounds was
    #: specified.
    max_seconds: float = 40.0
    is_long: bool = False


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
    """Return a contestant that runs a Python client of `clients` or `streams`."""
    command = [sys.executable, "-m", f"bench.{module}", kind, url]
    command += map(str, (first, count, at_once))
    return Contestant(name, [*command, more] if more else command, count, is_timed=True)


class Target:
    """A new directory for each run; `path` is a symlink to the newest directory, which is empty.

    Directories are not removed during a measurement. When a file is created, ext4 examines the inodes of all
    files that were removed in the last half minute. After a removal, the creation of a file by any process
    therefore takes ten times as long.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / "target"
        self._runs = 0

    def create(self) -> None:
        self._runs += 1
        directory = self.path.with_name(f"target-{self._runs}")
        directory.mkdir()
        self.path.unlink(missing_ok=True)
        self.path.symlink_to(directory)


#: The command line of `resolve`, equivalent to its entry point.
RESOLVE = (sys.executable, "-c", "from resolver.cli import run; run()")
