"""The runner of contestants, which runs them in turn, round by round, each in a separate process."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import perf_counter
from typing import NamedTuple

from bench.clients import peak
from bench.row import Contestant

#: The interval between two reads of a process's memory use, in seconds.
_LOOK = 0.01


class Sample(NamedTuple):
    """The result of a run: seconds, CPU seconds, and peak memory in KiB (0 if not measured)."""

    seconds: float
    processor: float
    peak: int


class Failed(Exception):
    """The error for a failed contestant; the message is the last line of the contestant's output."""


def in_turn(
    contestants: Sequence[Contestant],
    rounds: int,
    run: Callable[[Contestant], Sample],
    times: int = 1,
    enough: Callable[[], bool] = lambda: False,
) -> tuple[dict[str, list[Sample]], dict[str, str]]:
    """Run the contestants; return the samples by contestant, and the failures.

    Each round starts with a different contestant, so that the order does not influence the results. A failed
    contestant is excluded from later rounds. If `enough` returns True, a new round is not started.
    """
    samples: dict[str, list[Sample]] = {contestant.name: [] for contestant in contestants}
    failed: dict[str, str] = {}
    for number in range(rounds):
        begin = number % max(len(contestants), 1)
        for _ in range(times):
            for contestant in [*contestants[begin:], *contestants[:begin]]:
                if contestant.name in failed:
                    continue
                try:
                    samples[contestant.name].append(run(contestant))
                except Failed as error:
                    failed[contestant.name] = str(error)
                    del samples[contestant.name]
        if enough():
            break
    return samples, failed


def run(contestant: Contestant, *, look: bool = False) -> Sample:
    """Run a contestant; if `look` is set, read its memory use repeatedly.

    Raises:
        Failed: The contestant failed.
    """
    if contestant.before is not None:
        contestant.before()
    with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as complained:
        output = said if contestant.tells else subprocess.DEVNULL
        begun = perf_counter()
        process = subprocess.Popen(
            contestant.words,
            env=contestant.environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=complained,
        )
        watcher = Watcher(process.pid) if look else None
        _, status, usage = os.wait4(process.pid, 0)
        taken = perf_counter() - begun
        process.returncode = os.waitstatus_to_exitcode(status)
        highest = watcher.ended() if watcher else 0
        if process.returncode != 0:
            complained.seek(0)
            words = last_words(complained.read().decode(errors="replace"))
            raise Failed(f"exit status {process.returncode}: {words}")
        found = Sample(taken, usage.ru_utime + usage.ru_stime, highest)
        if contestant.tells:
            said.seek(0)
            told = json.loads(said.read().splitlines()[-1])
            found = Sample(told["seconds"], told["processor"], told["peak"])
    if contestant.after is not None:
        contestant.after()
    return found


def last_words(complained: str) -> str:
    """Return the last line that reports an error, or the last line if no line reports an error."""
    lines = [line.strip(" |") for line in complained.splitlines() if line.strip()] or ["nothing said"]
    return next((line for line in reversed(lines) if "rror" in line or line.startswith("curl:")), lines[-1])


class Watcher:
    """The peak memory of a process, measured while the process runs.

    The operating system also reports a peak after the end of a process. But this value includes the memory of
    the parent process at the time of the fork, so it is not usable.
    """

    def __init__(self, process: int) -> None:
        self._process = process
        self._highest = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def _watch(self) -> None:
        while not self._over.wait(_LOOK):
            self._look()

    def _look(self) -> None:
        with suppress(OSError):  # the process has ended
            self._highest = max(self._highest, peak(self._process))

    def ended(self) -> int:
        """Stop measuring, and return the peak memory in KiB."""
        self._over.set()
        self._thread.join()
        self._look()
        return self._highest
