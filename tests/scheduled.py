"""A clock that counts idle time, for limits that must hold on a busy machine too.

If other processes use all CPUs, or the machine pauses, no program can be on time; and the garbage collection
of a test run's large heap takes long. So a limit of 0.2 s is one of 0.2 s of idle time: the loop sleeps, and
no thread of the process runs or waits for a CPU (`/proc/self/task/*/schedstat`).

- Sleep counts, because a limit that does not fire leaves the loop asleep.
- A sleep counts at most for its intended length, which is always short: a pause of the machine adds no more
  than that.
- A small part of work counts, so that a task that never sleeps also ends.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import trio

_NANO = 1e-9
_TASKS = Path("/proc/self/task")

#: Maximum sleep of the loop in seconds before it measures whether other threads ran.
_NAP = 0.02

#: Seconds of sleep that are too short to measure.
_GLANCE = 0.002

#: Seconds to a deadline from which on a sleep is not measured either.
_FAR = 60.0

#: The share of work that counts.
_WORK = 0.1

T = TypeVar("T")


def busy() -> float:
    """Return the seconds that all threads of the process ran, or were ready while another process ran.

    It is 0 if the kernel does not report them.
    """
    alone = threading.active_count() == 1
    tasks = [str(threading.get_native_id())] if alone else os.listdir(_TASKS)
    return sum(map(_busy, tasks))


def _busy(task: str) -> float:
    with suppress(OSError, ValueError):  # the thread has ended, or the file does not exist
        with open(f"{_TASKS}/{task}/schedstat", "rb", buffering=0) as file:
            ran, waited, _ = file.read().split()
        return (int(ran) + int(waited)) * _NANO
    return 0.0


class ScheduledClock(trio.abc.Clock):
    """A clock for `trio.run` that advances while the loop sleeps, and little while threads work."""

    def __init__(self) -> None:
        self._slept = 0.0
        self._nap: tuple[float, float] | None = None
        self._busy = (busy(), time.thread_time())

    def start_clock(self) -> None:
        pass

    def current_time(self) -> float:
        if self._nap is not None:
            (began, meant), self._nap = self._nap, None
            self._slept += self._slept_in(time.perf_counter() - began, meant)
        return self._slept + _WORK * time.thread_time()

    def _slept_in(self, passed: float, meant: float) -> float:
        """Return the counted seconds, at least 0: ended threads are not reported."""
        if passed > _GLANCE and meant <= _NAP:
            passed -= self._worked()
        return max(0.0, min(passed, meant))

    def _worked(self) -> float:
        """Return the work of other threads, and the waiting time of all, since the previous call."""
        before, (now, own) = self._busy, (busy(), time.thread_time())
        self._busy = (now, own)
        return max(0.0, now - before[0] - (own - before[1]))

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Return the sleep until the deadline; trio calls it when no task is ready."""
        left = max(0.0, deadline - self.current_time())
        self._nap = (time.perf_counter(), left if left > _FAR else min(left, _NAP))
        return self._nap[1]


def run_scheduled(
    work: Callable[..., Awaitable[T]],
    *,
    clock: trio.abc.Clock | None = None,
    instruments: Sequence[trio.abc.Instrument] = (),
) -> T:
    """Run `trio.run` with a `ScheduledClock`, unless another clock is given."""
    return trio.run(work, clock=clock or ScheduledClock(), instruments=instruments)


def has_ended(pid: int) -> bool:
    """Return whether this child has ended; the caller must still reap it."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
