"""The clock that counts idle time: sleep counts, and work hardly does."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
import trio

from tests.hang import HANG
from tests.scheduled import ScheduledClock

_BUSY = "while True: pass"

#: Maximum seconds of the clock for work of 0.3 s; less than that work would be if it counted.
SLACK = 0.1


@pytest.fixture
def busy_cpu() -> Iterator[None]:
    """Run this process and two busy ones on one CPU."""
    if not os.path.exists("/proc/self/schedstat"):
        pytest.skip("this kernel does not tell")
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    others = [subprocess.Popen([sys.executable, "-c", _BUSY]) for _ in range(2)]
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
        for other in others:
            other.kill()
            other.wait()


def work(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def test_clock_counts_sleep() -> None:
    async def sleep() -> float:
        began = trio.current_time()
        await trio.sleep(0.05)
        return trio.current_time() - began

    assert trio.run(sleep, clock=ScheduledClock()) >= 0.05


def test_clock_does_not_count_waits_for_cpu(busy_cpu: None) -> None:
    """The wait occurs before and after a sleep; the kernel reports some of it only at its end."""
    clock = ScheduledClock()
    began, waited = clock.current_time(), 0.0
    for _ in range(50):
        meant = clock.deadline_to_sleep_time(clock.current_time() + 0.003)
        time.sleep(meant)
        work(0.002)
        waited += meant
    assert clock.current_time() - began < waited + SLACK


def test_clock_does_not_count_work_of_threads() -> None:
    async def wait() -> float:
        with trio.fail_after(HANG):
            began = trio.current_time()
            with trio.move_on_after(50):
                await trio.to_thread.run_sync(work, 0.3)
            return trio.current_time() - began

    assert trio.run(wait, clock=ScheduledClock()) < SLACK


def test_clock_counts_one_nap_of_a_paused_machine() -> None:
    """Other processes have its CPUs, or the machine is suspended: no thread here works or waits."""
    clock = ScheduledClock()
    began = clock.current_time()
    meant = clock.deadline_to_sleep_time(began + 10)
    time.sleep(10 * meant)
    assert clock.current_time() - began < meant + SLACK


def test_clock_counts_little_of_work() -> None:
    clock = ScheduledClock()
    began = clock.current_time()
    work(0.3)
    assert clock.current_time() - began < SLACK


def test_clock_ends_task_that_never_sleeps() -> None:
    async def never_sleep() -> None:
        while True:
            await trio.lowlevel.checkpoint()

    async def main() -> bool:
        with trio.move_on_after(0.01) as scope:
            await never_sleep()
        return scope.cancelled_caught

    assert trio.run(main, clock=ScheduledClock())
