"""Listings of very many entries, of every scheme, from their first octet to the last line: others have their
turn every few milliseconds, and no more is held than the protocol asks for.

Work is counted and not timed: calls of functions between two turns of the loop. `RESOLVE_TESTS=full` lists a
hundred thousand entries of each, where its protocol has room for so many; else there are as many as show what
is done with all of them at once, for they take more than one turn may.
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

#: Calls and returns of functions that a few milliseconds have room for.
MOST_STEPS = 25_000

#: Octets of memory that a listing takes however long it is: pieces, and entries that are being handed on.
MOST_OCTETS = 3_000_000


class Work(trio.abc.Instrument):
    """Counts calls of functions and returns from them while one task has its turn, or one below it: `most` of
    them, and `where` they were if that was too much; of `all` too."""

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
        if self._steps > MOST_STEPS:
            self.where[frame.f_code.co_qualname] += 1

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        sys.setprofile(None)
        self.most = max(self.most, self._steps)
        self.all += self._steps

    def _is_ours(self, task: trio.lowlevel.Task | None) -> bool:
        while task is not None and task is not self._task:
            task = None if task.parent_nursery is None else task.parent_nursery.parent_task
        return task is not None


#: How a listing is taken: how many entries, or lines, there were.
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

#: A third of the listings by default, one way of the three.
HELD = sampled(MANY, lambda many: None, -(-len(MANY) // 3))
TAKEN = sampled(product(HELD, WAYS), lambda taken: taken[0].name)


@asynccontextmanager
async def listing_of(
    many: Many, nursery: trio.Nursery, folder: Path, few: int = COUNT
) -> AsyncIterator[tuple[Resolver, str, int]]:
    """A session, the URL of the listing, and how many entries it has."""
    count = min(COUNT if FULL else few, many.most)
    place = Path(mkdtemp(dir=folder))
    url = await many.start(nursery, place, count)
    policy = Policy(allow_port=frozenset(range(1_024, 65_536)))
    limits = Limits(entries=10 * COUNT, body=COUNT * 1_000)
    async with Resolver(policy=policy, limits=limits, options=many.options) as session:
        yield session, url, count * many.shown


@pytest.mark.parametrize(("many", "way"), TAKEN, ids=lambda each: getattr(each, "__name__", str(each)))
async def test_others_have_their_turn(many: Many, way: Way, nursery: trio.Nursery, tmp_path: Path) -> None:
    async with listing_of(many, nursery, tmp_path, 1) as (session, url, _):
        await way(session, url)  # imports what it needs

    async def take() -> None:
        work = Work(trio.lowlevel.current_task())
        async with listing_of(many, nursery, tmp_path, many.telling) as (session, url, count):
            trio.lowlevel.add_instrument(work)
            try:
                assert await way(session, url) == (0 if way is fetch and many.document else count)
            finally:
                trio.lowlevel.remove_instrument(work)
                sys.setprofile(None)  # this turn is not over, and nobody tells when it is
        assert work.most < MOST_STEPS, work.where.most_common(8)
        assert work.all > 3 * MOST_STEPS or (way is fetch and many.document)

    async with trio.open_nursery() as client:  # in a task of its own: what is below it counts
        client.start_soon(take)


@pytest.mark.parametrize("many", HELD, ids=str)
async def test_little_is_held(many: Many, nursery: trio.Nursery, tmp_path: Path) -> None:
    async with listing_of(many, nursery, tmp_path, 1) as (session, url, _):
        await lines(session, url)  # imports what it needs
    async with listing_of(many, nursery, tmp_path) as (session, url, count):
        tracemalloc.start()
        try:
            assert await lines(session, url) == count
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert peak < MOST_OCTETS + count * many.held
