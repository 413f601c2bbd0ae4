"""The clock that stands still while others run: sleeping counts, waiting for a processor does not."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
import trio

from tests.scheduled import ScheduledClock, Stopwatch, kept_waiting

_BUSY = "while True: pass"


@pytest.fixture
def crowd() -> Iterator[None]:
    """This process and two that are never idle share one processor."""
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
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass


def test_waiting_for_a_processor_does_not_count(crowd: None) -> None:
    before = kept_waiting()
    while kept_waiting() < before + 0.05:  # until the others have begun
        work(0.01)
    clock, stopwatch, began = ScheduledClock(), Stopwatch(os.getpid()), time.perf_counter()
    first = clock.current_time()
    work(0.1)
    passed, took = time.perf_counter() - began, clock.current_time() - first
    assert 0.09 < took < passed - 0.05
    assert stopwatch.seconds() < took


def test_sleeping_counts() -> None:
    async def sleep() -> float:
        began = trio.current_time()
        await trio.sleep(0.05)
        return trio.current_time() - began

    assert trio.run(sleep, clock=ScheduledClock()) >= 0.05
