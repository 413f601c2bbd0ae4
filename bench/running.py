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

from bench.clients import read_memory
from bench.row import Contestant

#: The interval between two reads of a process's memory use, in seconds.
_POLL_INTERVAL = 0.01


class Sample(NamedTuple):
    """The result of a run: seconds, CPU seconds, and peak memory in KiB (0 if not measured)."""

    seconds: float
    processor: float
    peak: int


class Failed(Exception):
    """The error for a failed contestant; the message is the last line of the contestant's output."""


def run_in_turn(
    contestants: Sequence[Contestant],
    rounds: int,
    run: Callable[[Contestant], Sample],
    runs_per_round: int = 1,
    is_over: Callable[[], bool] = lambda: False,
) -> tuple[dict[str, list[Sample]], dict[str, str]]:
    """Run the contestants; return the samples by contestant, and the failures.

    Each round starts with a different contestant, so that the order does not influence the results. A failed
    contestant is excluded from later rounds. If `is_over` returns True, a new round is not started.
    """
    samples: dict[str, list[Sample]] = {contestant.name: [] for contestant in contestants}
    failed: dict[str, str] = {}
    for number in range(rounds):
        start = number % max(len(contestants), 1)
        for _ in range(runs_per_round):
            for contestant in [*contestants[start:], *contestants[:start]]:
                if contestant.name in failed:
                    continue
                try:
                    samples[contestant.name].append(run(contestant))
                except Failed as error:
                    failed[contestant.name] = str(error)
                    del samples[contestant.name]
        if is_over():
            break
    return samples, failed


def run(contestant: Contestant, *, watch_memory: bool = False) -> Sample:
    """Run a contestant; if `watch_memory` is set, read its memory use repeatedly.

    Raises:
        Failed: The contestant failed.
    """
    if contestant.before is not None:
        contestant.before()
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        stdout = output if contestant.is_timed else subprocess.DEVNULL
        start = perf_counter()
        process = subprocess.Popen(
            contestant.command,
            env=contestant.environment,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=errors,
        )
        watcher = Watcher(process.pid) if watch_memory else None
        _, status, usage = os.wait4(process.pid, 0)
        seconds = perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        max_memory = watcher.stop() if watcher else 0
        if process.returncode != 0:
            errors.seek(0)
            line = find_error_line(errors.read().decode(errors="replace"))
            raise Failed(f"exit status {process.returncode}: {line}")
        sample = Sample(seconds, usage.ru_utime + usage.ru_stime, max_memory)
        if contestant.is_timed:
            output.seek(0)
            measurement = json.loads(output.read().splitlines()[-1])
            sample = Sample(measurement["seconds"], measurement["processor"], measurement["peak"])
    if contestant.after is not None:
        contestant.after()
    return sample


def find_error_line(errors: str) -> str:
    """Return the last line that reports an error, or the last line if no line reports an error."""
    lines = [line.strip(" |") for line in errors.splitlines() if line.strip()] or ["no output"]
    return next((line for line in reversed(lines) if "rror" in line or line.startswith("curl:")), lines[-1])


class Watcher:
    """The peak memory of a process, measured while the process runs.

    The operating system also reports a peak after the end of a process. But this value includes the memory of
    the parent process at the time of the fork, so it is not usable.
    """

    def __init__(self, process: int) -> None:
        self._process = process
        self._peak = 0
        self._stop_event = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def _watch(self) -> None:
        while not self._stop_event.wait(_POLL_INTERVAL):
            self._poll()

    def _poll(self) -> None:
        with suppress(OSError):  # the process has ended
            self._peak = max(self._peak, read_memory(self._process))

    def stop(self) -> int:
        """Stop measuring, and return the peak memory in KiB."""
        self._stop_event.set()
        self._thread.join()
        self._poll()
        return self._peak
