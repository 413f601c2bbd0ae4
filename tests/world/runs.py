"""Simulated runs, selected by seed.

A third of the seeds run a command that mirrors a directory tree. All other seeds call methods of a session.
Under asyncio, all seeds call methods of a session, because the command starts trio.
"""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from resolver.testing.world import Kind, LoopName, Schedule
from tests.world.scenario import Run
from tests.world.tree import TreeRun

KINDS: tuple[Kind, ...] = (
    *("refuse", "blackhole", "cut", "cut", "cut", "reset", "reset", "hang", "lag", "drip"),
    *("unnamed", "moved"),
    *("ENOSPC", "EDQUOT", "EIO", "EMFILE", "short", "SQLITE_FULL", "SQLITE_IOERR"),
    *("kill", "kill", "power", "power"),
)


def make_run(schedule: Schedule, directory: str, loop: LoopName) -> Run | TreeRun:
    """Return the simulated run for a schedule; its seed selects the kind of the run."""
    if loop == "trio" and schedule.seed % 3 == 0:
        return TreeRun(schedule, directory)
    return Run(schedule, directory, loop)


@contextmanager
def new_directory() -> Iterator[str]:
    memory = "/dev/shm"
    place = memory if os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=place) as directory:
        yield directory


def failure_of(schedule: Schedule, loop: LoopName = "trio") -> str | None:
    """Run a schedule, and return the description of a violated invariant, or None."""
    return attempt(schedule, loop)[0]


def attempt(schedule: Schedule, loop: LoopName = "trio") -> tuple[str | None, int]:
    """Run a schedule, and return the violated invariant (or None) and the number of finished transfers."""
    with new_directory() as directory:
        run = make_run(schedule, directory, loop)
        try:
            run.run()
        except Exception as error:  # noqa: BLE001 - each exception is a failure of the run
            return f"{type(error).__name__}: {error}", run.transfers
        return None, run.transfers


def draw(seed: int) -> Schedule:
    """Return the random schedule of faults for a seed."""
    lives = random.Random(f"lives {seed}").randint(0, 3)
    return Schedule.draw(seed, kinds=KINDS, lives=lives)


def describe(schedule: Schedule, words: str, loop: LoopName = "trio") -> str:
    """Return the seed and the schedule of a failure as text, so that the failure can be reproduced."""
    return f"seed {schedule.seed} under {loop}: {words}\n    {schedule!r}"
