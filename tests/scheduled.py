"""Time in which a process has a processor, for limits that have to hold on a busy machine too.

Where others take all processors, nothing that we wrote can be on time. What the kernel kept a process
waiting for a processor (`/proc/PID/schedstat`) is told apart from what the process itself let pass: a limit
that does not fire is asleep, and sleeping counts. Where the kernel tells nothing, all time counts.
"""

from __future__ import annotations

import math
import os
import time
from contextlib import suppress
from pathlib import Path

import trio

_NANO = 1e-9


def kept_waiting(pid: int | None = None) -> float:
    """Seconds that a process (this one) was ready to run, and another one ran. Also of one that has ended,
    until it is waited for."""
    with suppress(OSError, IndexError):
        return int(Path(f"/proc/{'self' if pid is None else pid}/schedstat").read_text().split()[1]) * _NANO
    return 0.0


class ScheduledClock(trio.abc.Clock):
    """A clock for `trio.run` that stands still while the thread that made it waits for a processor."""

    def __init__(self) -> None:
        self._fd = -1
        self._latest = -math.inf
        with suppress(OSError):
            self._fd = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)

    def __del__(self) -> None:
        if self._fd != -1:
            os.close(self._fd)

    def start_clock(self) -> None:
        pass

    def current_time(self) -> float:
        """Never less than before: who is put aside between the two readings is late by that much at once."""
        self._latest = max(self._latest, time.perf_counter() - self._kept_waiting())
        return self._latest

    def deadline_to_sleep_time(self, deadline: float) -> float:
        return deadline - self.current_time()

    def _kept_waiting(self) -> float:
        if self._fd == -1:
            return 0.0
        return int(os.pread(self._fd, 100, 0).split()[1]) * _NANO


def has_ended(pid: int) -> bool:
    """Has this child ended? It still has to be waited for."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None


class Stopwatch:
    """Runs from when it is made. `seconds`: what passed, without what this process and others were kept
    waiting."""

    def __init__(self, *others: int) -> None:
        self._others = others
        self._began = self._now()

    def _now(self) -> float:
        return time.perf_counter() - kept_waiting() - sum(map(kept_waiting, self._others))

    def seconds(self) -> float:
        return self._now() - self._began
