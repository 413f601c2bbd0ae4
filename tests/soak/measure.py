"""The measurements of a process: memory, descriptors, threads, tasks, and objects of this project."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import trio
from trio._core._thread_cache import THREAD_CACHE

from resolver.network.pool import ReusableConnection
from tests.hang import HANG

_OURS = ("resolver", "protocols")


@dataclass(frozen=True)
class Sample:
    """The state of the process after a number of fetches, while no fetch runs.

    Attributes:
        descriptors: The number of open file descriptors, without the idle connections of the pool.
        threads: The number of threads, without the idle worker threads that trio keeps for 10 s.
        tasks: The number of tasks of the event loop.
        resident: The resident set size (RSS) in KiB.
        blocks: The number of allocated memory blocks of Python.
        objects: The number of objects of each class of this project.
    """

    fetches: int
    descriptors: int
    threads: int
    tasks: int
    resident: int = 0
    blocks: int = 0
    objects: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Bounds:
    """The highest growth between two samples that is noise.

    Attributes:
        resident: KiB of the resident set size.
        blocks: Memory blocks of Python.
        objects: Objects of one class of this project.
    """

    resident: int
    blocks: int
    objects: int


def take(fetches: int, tasks: int, *, memory: bool) -> Sample:
    """Measure the process. Without `memory`, only descriptors, threads and tasks are counted."""
    for thread in threading.enumerate():
        if thread.name == "url-resolver" and not thread.daemon:
            thread.join(HANG)  # the thread has delivered its result, and ends
    for _ in range(3):
        gc.collect()
    objects = gc.get_objects()
    idle = sum(type(each) is ReusableConnection for each in objects)
    descriptors = len(os.listdir("/proc/self/fd")) - 1 - idle
    threads = threading.active_count() - len(THREAD_CACHE._idle_workers)
    if not memory:
        return Sample(fetches, descriptors, threads, tasks)
    ours = Counter(_name(type(each)) for each in objects if type(each).__module__.startswith(_OURS))
    del objects
    blocks = sys.getallocatedblocks()
    ctypes.CDLL(None).malloc_trim(0)
    return Sample(fetches, descriptors, threads, tasks, _resident(), blocks, dict(ours))


def _name(kind: type[Any]) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _resident() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def trio_tasks() -> int:
    """Return the number of tasks of the current trio run."""
    root = trio.lowlevel.current_root_task()
    assert root is not None
    waiting, count = [root], 0
    while waiting:
        count += 1
        waiting += [task for nursery in waiting.pop().child_nurseries for task in nursery.child_tasks]
    return count


def asyncio_tasks() -> int:
    return len(asyncio.all_tasks())


def growth(samples: Sequence[Sample], bounds: Bounds | None = None) -> list[str]:
    """Return a text for each measurement that grew: its name and all samples.

    Descriptors, threads and tasks must be equal in all samples. Memory and objects of the last sample may
    exceed those of the first sample by `bounds`; without `bounds`, they are not compared.
    """
    first, last = samples[0], samples[-1]
    found = []
    for name in ("descriptors", "threads", "tasks"):
        counts = [getattr(each, name) for each in samples]
        if len(set(counts)) > 1:
            found.append(f"{name}: {counts}")
    if bounds is None:
        return found
    for name in ("resident", "blocks"):
        if getattr(last, name) - getattr(first, name) > getattr(bounds, name):
            found.append(f"{name}: {[getattr(each, name) for each in samples]}")
    for name in sorted(last.objects):
        if last.objects[name] - first.objects.get(name, 0) > bounds.objects:
            found.append(f"{name}: {[each.objects.get(name, 0) for each in samples]}")
    return found
