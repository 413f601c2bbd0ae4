"""Time in which a test has nothing to do, for limits that have to hold on a busy machine too.

Where others take all processors, or the machine itself stands still for a while, nothing that we wrote can be
on time; and a heap as large as that of a test run takes its time to be searched. So a limit of 0.2 s is one
of 0.2 s in which nobody here had anything to do: the loop sleeps, and no thread of the process runs or waits
for a processor (`/proc/self/task/*/schedstat`). What is asleep counts, for a limit that does not fire is
asleep. Of one sleep no more counts than it was meant to last, and none is meant to last long: who is stopped
meanwhile is late by as little as that. Work counts for a small part, so that what never sleeps ends too.
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

#: Seconds that the loop sleeps at most before it looks whether it was left alone.
_NAP = 0.02

#: Seconds of sleep that are not worth to be looked at.
_GLANCE = 0.002

#: Seconds from which on a limit is not worth that either.
_FAR = 60.0

#: What of a second of work counts.
_WORK = 0.1

T = TypeVar("T")


def busy() -> float:
    """Seconds that this thread and others of the process have run, or were ready to run while another one
    ran; 0 where the kernel does not tell."""
    alone = threading.active_count() == 1
    tasks = [str(threading.get_native_id())] if alone else os.listdir(_TASKS)
    return sum(map(_busy, tasks))


def _busy(task: str) -> float:
    with suppress(OSError, ValueError):  # it has ended; there is no such file
        with open(f"{_TASKS}/{task}/schedstat", "rb", buffering=0) as file:
            ran, waited, _ = file.read().split()
        return (int(ran) + int(waited)) * _NANO
    return 0.0


class ScheduledClock(trio.abc.Clock):
    """A clock for `trio.run` that goes while the loop sleeps, and hardly while anybody works."""

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
        """At least nothing: of a thread that has ended, nobody tells any more."""
        if passed > _GLANCE and meant <= _NAP:
            passed -= self._worked()
        return max(0.0, min(passed, meant))

    def _worked(self) -> float:
        """What others did since this was last asked, and what all waited."""
        before, (now, own) = self._busy, (busy(), time.thread_time())
        self._busy = (now, own)
        return max(0.0, now - before[0] - (own - before[1]))

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Asked when there is nothing to do, and before the loop goes to sleep."""
        left = max(0.0, deadline - self.current_time())
        self._nap = (time.perf_counter(), left if left > _FAR else min(left, _NAP))
        return self._nap[1]


def run_scheduled(
    work: Callable[..., Awaitable[T]],
    *,
    clock: trio.abc.Clock | None = None,
    instruments: Sequence[trio.abc.Instrument] = (),
) -> T:
    """`trio.run` by such a clock, if by no other."""
    return trio.run(work, clock=clock or ScheduledClock(), instruments=instruments)


def has_ended(pid: int) -> bool:
    """Has this child ended? It still has to be waited for."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
