"""Runs by seed: a third of the seeds are commands that mirror a tree, the others are calls of the session."""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from resolver.testing.world import Kind, Schedule
from tests.world.scenario import Run
from tests.world.tree import TreeRun

KINDS: tuple[Kind, ...] = (
    *("refuse", "blackhole", "cut", "cut", "cut", "reset", "reset", "hang", "lag", "drip"),
    *("unnamed", "moved"),
    *("ENOSPC", "EDQUOT", "EIO", "EMFILE", "short"),
    *("kill", "kill", "power", "power"),
)


def make_run(schedule: Schedule, directory: str) -> Run | TreeRun:
    """Return the run of a schedule."""
    return TreeRun(schedule, directory) if schedule.seed % 3 == 0 else Run(schedule, directory)


@contextmanager
def new_directory() -> Iterator[str]:
    memory = "/dev/shm"
    place = memory if os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=place) as directory:
        yield directory


def failure_of(schedule: Schedule) -> str | None:
    """Run a schedule, and return the description of a broken invariant, or None."""
    return attempt(schedule)[0]


def attempt(schedule: Schedule) -> tuple[str | None, int]:
    """Run a schedule; return the description of a broken invariant, or None, and the number of outcomes."""
    with new_directory() as directory:
        run = make_run(schedule, directory)
        try:
            run.run()
        except Exception as error:  # noqa: BLE001 - each exception is a failure of the run
            return f"{type(error).__name__}: {error}", run.transfers
        return None, run.transfers


def draw(seed: int) -> Schedule:
    """Return the schedule of a seed."""
    lives = random.Random(f"lives {seed}").randint(0, 3)
    return Schedule.draw(seed, kinds=KINDS, lives=lives)


def describe(schedule: Schedule, words: str) -> str:
    """Return the lines that reproduce a failure."""
    return f"seed {schedule.seed}: {words}\n    {schedule!r}"
