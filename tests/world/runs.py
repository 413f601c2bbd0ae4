"""Simulated runs, selected by seed.

In the scenario `save`, a third of the seeds run a command that mirrors a directory tree. All other seeds call
methods of a session. Under asyncio, all seeds call methods of a session, because the command starts trio.

In the scenario `cancel`, the caller cancels calls of a session. In the scenario `warc`, a session writes an
archive. In the scenarios `tls` and `udp`, half of the seeds are runs of `save`, and the others are runs of
`cancel` and `warc`. With `tls`, all connections use TLS. With `udp`, most objects have the scheme prospero.
"""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from resolver.testing.world import Kind, LoopName, Schedule
from resolver.testing.world.schedule import leaves
from tests.world.archived import ArchiveRun
from tests.world.cancelled import CancelRun
from tests.world.scenario import Run, Transport, run_lives
from tests.world.tree import TreeRun

Scenario = Literal["save", "cancel", "warc", "tls", "udp"]

KINDS: tuple[Kind, ...] = (
    *("refuse", "blackhole", "cut", "cut", "cut", "reset", "reset", "hang", "lag", "drip"),
    *("unnamed", "moved"),
    *("ENOSPC", "EDQUOT", "EIO", "EMFILE", "short", "SQLITE_FULL", "SQLITE_IOERR"),
    *("kill", "kill", "power", "power"),
)


#: The faults that interrupt the write of a record.
_ARCHIVE: tuple[Kind, ...] = ("ENOSPC", "short", "EIO", "kill", "power")
_CANCELS: tuple[Kind, ...] = ("cancel", "cancel", "timeout")
_DATAGRAMS: tuple[Kind, ...] = ("lost", "lost", "doubled", "doubled", "late", "outage", "unsent")


def make_run(
    schedule: Schedule, directory: str, loop: LoopName, scenario: Scenario = "save"
) -> Run | TreeRun | CancelRun:
    """Return the simulated run for a schedule; its seed selects the kind of the run."""
    kind, transport = kind_of(schedule.seed, scenario)
    if kind == "cancel":
        return CancelRun(schedule, directory, loop, transport)
    if kind == "warc":
        return ArchiveRun(schedule, directory, loop, transport)
    if transport != "tcp":
        return Run(schedule, directory, loop, transport)
    if loop == "trio" and schedule.seed % 3 == 0:
        return TreeRun(schedule, directory)
    return Run(schedule, directory, loop)


def kind_of(seed: int, scenario: Scenario) -> tuple[Scenario, Transport]:
    """Return the kind of a run and the network protocol of its objects."""
    if scenario == "tls" or scenario == "udp":
        return ("save", "cancel", "save", "warc")[seed % 4], scenario
    return scenario, "tcp"


@contextmanager
def new_directory() -> Iterator[str]:
    memory = "/dev/shm"
    place = memory if os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=place) as directory:
        yield directory


def failure_of(schedule: Schedule, loop: LoopName = "trio", scenario: Scenario = "save") -> str | None:
    """Run a schedule, and return the description of a violated invariant, or None."""
    return attempt(schedule, loop, scenario)[0]


def attempt(
    schedule: Schedule, loop: LoopName = "trio", scenario: Scenario = "save"
) -> tuple[str | None, int]:
    """Run a schedule, and return the violated invariant (or None) and the number of finished transfers."""
    with new_directory() as directory:
        run = make_run(schedule, directory, loop, scenario)
        try:
            run_lives(run.world, run.live)
        except Exception as error:  # noqa: BLE001 - each exception is a failure of the run
            return ", ".join(f"{type(each).__name__}: {each}" for each in leaves(error)), run.transfers
        return None, run.transfers


def draw(seed: int, scenario: Scenario = "save") -> Schedule:
    """Return the random schedule of faults for a seed."""
    lives = random.Random(f"lives {seed}").randint(0, 3)
    kind, transport = kind_of(seed, scenario)
    more, most = (5 * _DATAGRAMS, 12) if transport == "udp" else ((), 4)
    if kind == "cancel":  # In half of the runs, all faults are cancellations.
        number = seed if transport == "tcp" else seed // 4
        kinds = _CANCELS if number % 2 else KINDS + more + 6 * _CANCELS
        return Schedule.draw(seed, kinds=kinds, lives=max(lives, 1), most=max(most, 8))
    if kind == "warc":
        return Schedule.draw(seed, kinds=KINDS + more + 4 * _ARCHIVE, lives=max(lives, 1), most=most)
    return Schedule.draw(seed, kinds=KINDS + more, lives=lives, most=most)


def describe(schedule: Schedule, words: str, loop: LoopName = "trio", scenario: Scenario = "save") -> str:
    """Return the seed and the schedule of a failure as text, so that the failure can be reproduced."""
    return f"scenario {scenario}, seed {schedule.seed} under {loop}: {words}\n    {schedule!r}"
