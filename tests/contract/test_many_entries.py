"""Long listings of every scheme: other tasks run every few milliseconds, and memory is bounded.

A test allows more memory only where the protocol reports nothing before the end of the listing.

The tests count work instead of time: calls of functions between two checkpoints. `RESOLVE_TESTS=full` lists
100,000 entries of each kind, if the protocol allows as many; otherwise the number of entries is just large
enough to exceed the work allowed in one turn.
"""

from __future__ import annotations

import sys
import tracemalloc
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import product
from pathlib import Path
from tempfile import mkdtemp
from types import FrameType

import pytest
import trio

from resolver import Limits, Policy, Resolver
from tests.contract.many import MANY, Many
from tests.sampled import FULL, sampled

COUNT = 100_000 if FULL else 2_000

#: Function calls and returns that take a few milliseconds.
MAX_STEPS = 25_000

#: The memory in bytes for a listing of any length: chunks, and entries in transit.
MAX_BYTES = 3_000_000


class Work(trio.abc.Instrument):
    """A counter of function calls and returns during the turns of a task and its children.

    `most` is the maximum in a turn, `where` the functions of turns over the limit, `all` the total.
    """

    def __init__(self, task: trio.lowlevel.Task) -> None:
        self._task = task
        self._steps = 0
        self.most = 0
        self.all = 0
        self.where: Counter[str] = Counter()

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if self._is_ours(task):
            self._steps = 0
            sys.setprofile(self._count)

    def _count(self, frame: FrameType, event: str, argument: object) -> None:
        self._steps += 1
        if self._steps > MAX_STEPS:
            self.where[frame.f_code.co_qualname] += 1

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        sys.setprofile(None)
        self.most = max(self.most, self._steps)
        self.all += self._steps

    def _is_ours(self, task: trio.lowlevel.Task | None) -> bool:
        while task is not None and task is not self._task:
            task = None if task.parent_nursery is None else task.parent_nursery.parent_task
        return task is not None


#: A way to read a listing; returns the number of entries or lines.
Way = Callable[[Resolver, str], Awaitable[int]]


async def entries(session: Resolver, url: str) -> int:
    count = 0
    async with session.entries(url) as found:
        async for _ in found:
            count += 1
    return count


async def lines(session: Resolver, url: str) -> int:
    count = 0
    async with session.listing(url) as reply:
        async for octets in reply.lines():
            count += octets.count(b"\n")
    return count


async def fetch(session: Resolver, url: str) -> int:
    return len((await session.fetch(url)).entries or ())


WAYS = (entries, lines, fetch)

#: By default a third of the listings, each with one of the three ways.
HELD = sampled(MANY, lambda many: None, -(-len(MANY) // 3))
TAKEN = sampled(product(HELD, WAYS), lambda taken: taken[0].name)


@asynccontextmanager
async def listing_of(
    many: Many, nursery: trio.Nursery, folder: Path, few: int = COUNT
) -> AsyncIterator[tuple[Resolver, str, int]]:
    """Yield a session, the URL of the listing, and its number of entries."""
    count = min(COUNT if FULL else few, many.most)
    place = Path(mkdtemp(dir=folder))
    url = await many.start(nursery, place, count)
    policy = Policy(allow_port=frozenset(range(1_024, 65_536)))
    limits = Limits(entries=10 * COUNT, body=COUNT * 1_000)
    async with Resolver(policy=policy, limits=limits, options=many.options) as session:
        yield session, url, count * many.shown


@pytest.mark.parametrize(("many", "way"), TAKEN, ids=lambda each: getattr(each, "__name__", str(each)))
async def test_long_listing_yields_to_other_tasks(
    many: Many, way: Way, nursery: trio.Nursery, tmp_path: Path
) -> None:
    async with listing_of(many, nursery, tmp_path, 1) as (session, url, _):
        await way(session, url)  # import modules before counting

    async def take() -> None:
        work = Work(trio.lowlevel.current_task())
        async with listing_of(many, nursery, tmp_path, many.telling) as (session, url, count):
            trio.lowlevel.add_instrument(work)
            try:
                assert await way(session, url) == (0 if way is fetch and many.document else count)
            finally:
                trio.lowlevel.remove_instrument(work)
                sys.setprofile(None)  # this turn continues, and no callback reports its end
        assert work.most < MAX_STEPS, work.where.most_common(8)
        assert work.all > 3 * MAX_STEPS or (way is fetch and many.document)

    async with trio.open_nursery() as client:  # in a separate task: its child tasks count as well
        client.start_soon(take)


@pytest.mark.parametrize("many", HELD, ids=str)
async def test_long_listing_memory_is_bounded(many: Many, nursery: trio.Nursery, tmp_path: Path) -> None:
    async with listing_of(many, nursery, tmp_path, 1) as (session, url, _):
        await lines(session, url)  # import modules before tracing
    async with listing_of(many, nursery, tmp_path) as (session, url, count):
        tracemalloc.start()
        try:
            assert await lines(session, url) == count
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert peak < MAX_BYTES + count * many.held
