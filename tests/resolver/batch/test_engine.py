"""Who starts the tasks of a batch: how many at once, and what ends it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass, field

import pytest
import trio
import trio.testing

from resolver import Declined, LocalError
from resolver.network.task import Requeue, current
from resolver.transfer.batch import Batch, BatchTask, TaskResult
from resolver.transfer.queue import SILENCE, HostScheduler
from tests.hang import HANG

NAME: ContextVar[str] = ContextVar("name", default="")


@dataclass(eq=False)
class Work:
    """Ends when it is let go; `begun` are those that were started, in that order."""

    name: str
    begun: list[str]
    host: str = "h"
    scheme: str = "s"
    error: Exception | None = None
    go: trio.Event = field(default_factory=trio.Event)
    position: Callable[[], int] | None = None
    rests: bool = False

    async def run(self) -> str:
        self.begun.append(self.name)
        if self.position is not None:
            turn = current()
            assert turn is not None
            turn.follow(self.position)
        if self.rests:
            turn = current()
            assert turn is not None
            turn.rest()
            turn.rest()
        await self.go.wait()
        if self.error is not None:
            raise self.error
        return self.name


async def given(tasks: Iterable[Work]) -> AsyncIterator[BatchTask[str]]:
    for task in tasks:
        yield task


def free(scheme: str, waiting: int) -> None:
    """No scheme has a cap."""


def batch(
    cap: Callable[[str, int], int | None] = free, concurrency: int = 4, window: int = 100
) -> Batch[str]:
    return Batch(HostScheduler(cap), concurrency=concurrency, window=window)


class Taken(list[TaskResult[str]]):
    async def take(self, result: TaskResult[str]) -> None:
        self.append(result)


async def test_so_many_are_under_way_and_all_are_done() -> None:
    begun: list[str] = []
    works = [Work(str(number), begun) for number in range(9)]
    taken = Taken()
    with trio.fail_after(HANG):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(batch().run, given(works), taken.take)
            for number, work in enumerate(works):
                await trio.testing.wait_all_tasks_blocked()
                assert len(begun) == min(9, number + 4)
                work.go.set()
    assert sorted(str(result.value) for result in taken) == [str(number) for number in range(9)]
    assert begun == [str(number) for number in range(9)]


@pytest.mark.parametrize("resting", [0, 5])
async def test_who_waits_for_a_disk_leaves_its_place_to_others(resting: int) -> None:
    """So many, and no more: that of the run, and that at the host."""
    begun: list[str] = []
    works = [Work(str(number), begun, rests=True) for number in range(9)]
    taken = Taken()
    with trio.fail_after(HANG):
        async with trio.open_nursery() as nursery:
            one: Batch[str] = Batch(HostScheduler(lambda scheme, waiting: 1), concurrency=2, resting=resting)
            nursery.start_soon(one.run, given(works), taken.take)
            await trio.testing.wait_all_tasks_blocked()
            assert len(begun) == 1 + resting
            for work in works:
                work.go.set()
    assert len(taken) == len(works)
    assert begun == [work.name for work in works]


@pytest.mark.parametrize("rests", [False, True])
async def test_what_a_task_sets_for_itself_no_later_one_sees(rests: bool) -> None:
    """Whichever of them began it."""
    names: list[str] = []

    class Naming(Work):
        async def run(self) -> str:
            names.append(NAME.get())
            NAME.set(self.name)
            return await super().run()

    works = [Naming(str(number), [], rests=rests) for number in range(6)]
    for work in works:
        work.go.set()
    with trio.fail_after(HANG):
        one: Batch[str] = Batch(HostScheduler(free), concurrency=2, resting=2)
        await one.run(given(works), Taken().take)
    assert names == [""] * 6


async def test_a_failure_stops_no_other() -> None:
    begun: list[str] = []
    works = [Work(name, begun) for name in "abc"]
    works[0].error = Declined("no")
    for work in works:
        work.go.set()
    taken = Taken()
    with trio.fail_after(HANG):
        await batch(concurrency=1).run(given(works), taken.take)
    assert [(result.value, result.error) for result in taken] == [
        (None, works[0].error),
        ("b", None),
        ("c", None),
    ]


async def test_what_nobody_foresaw_ends_it_and_is_raised_by_itself() -> None:
    begun: list[str] = []
    works = [Work("a", begun), Work("b", begun, error=ZeroDivisionError("so"))]
    works[1].go.set()
    with trio.fail_after(HANG), pytest.raises(ZeroDivisionError, match="so"):
        await batch().run(given(works), Taken().take)


async def test_what_the_source_raises_ends_it_too() -> None:
    async def source() -> AsyncIterator[BatchTask[str]]:
        yield Work("a", [])
        raise Declined("no list")

    with trio.fail_after(HANG), pytest.raises(Declined, match="no list"):
        await batch().run(source(), Taken().take)


async def test_no_more_is_read_than_there_is_room_for() -> None:
    begun: list[str] = []
    read: list[Work] = []

    def works() -> Iterable[Work]:
        for number in range(50):
            read.append(Work(str(number), begun))
            yield read[-1]

    taken = Taken()
    with trio.fail_after(HANG):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(batch(concurrency=3, window=5).run, given(works()), taken.take)
            await trio.testing.wait_all_tasks_blocked()
            assert len(begun) == 3
            assert len(read) == 8
            while len(taken) < 50:
                read[len(taken)].go.set()
                await trio.testing.wait_all_tasks_blocked()
    assert len(taken) == 50


async def test_many_are_read_at_once() -> None:
    """Once half of the room is free, and not one by one."""
    begun: list[str] = []
    read: list[Work] = []

    def works() -> Iterable[Work]:
        for number in range(50):
            read.append(Work(str(number), begun))
            yield read[-1]

    with trio.fail_after(HANG):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(batch(concurrency=1, window=8).run, given(works()), Taken().take)
            for done, count in enumerate((8, 8, 8, 12, 12, 12, 12, 16, 16)):
                await trio.testing.wait_all_tasks_blocked()
                assert (len(begun), len(read)) == (done + 1, count)
                read[done].go.set()
            nursery.cancel_scope.cancel()


async def test_a_result_that_nobody_takes_holds_its_place() -> None:
    begun: list[str] = []
    works = [Work(name, begun) for name in "abcd"]
    for work in works:
        work.go.set()
    more = trio.Event()

    async def take(result: TaskResult[str]) -> None:
        await more.wait()

    with trio.fail_after(HANG):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(batch(concurrency=2).run, given(works), take)
            await trio.testing.wait_all_tasks_blocked()
            assert begun == ["a", "b"]
            more.set()
    assert begun == ["a", "b", "c", "d"]


async def test_a_slow_host_does_not_hold_the_others() -> None:
    begun: list[str] = []
    slow = [Work(f"slow{number}", begun, host="slow") for number in range(9)]
    quick = [Work(f"quick{number}", begun, host="quick") for number in range(3)]
    for work in quick:
        work.go.set()
    taken = Taken()
    with trio.fail_after(HANG):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(batch(lambda scheme, waiting: 2).run, given([*slow, *quick]), taken.take)
            await trio.testing.wait_all_tasks_blocked()
            assert sorted(str(result.value) for result in taken) == ["quick0", "quick1", "quick2"]
            assert sorted(begun) == ["quick0", "quick1", "quick2", "slow0", "slow1"]
            nursery.cancel_scope.cancel()


async def test_what_may_begin_is_read_though_few_places_to_wait_are_left() -> None:
    """Those of one host that wait fill more than half of them."""
    begun: list[str] = []
    slow = [Work(f"slow{number}", begun, host="slow") for number in range(8)]
    quick = [Work(f"quick{number}", begun, host="quick") for number in range(9)]
    for work in quick:
        work.go.set()
    taken = Taken()
    with trio.fail_after(HANG):
        async with trio.open_nursery() as nursery:
            one = batch(lambda scheme, waiting: 1, window=8)
            nursery.start_soon(one.run, given([*slow, *quick]), taken.take)
            await trio.testing.wait_all_tasks_blocked()
            assert [result.value for result in taken] == [work.name for work in quick]
            nursery.cancel_scope.cancel()


def at_hosts(begun: list[str], position: Callable[[], int]) -> list[Work]:
    """Four, each of another host, and behind them some of one, which are done as soon as they begin."""
    works = [Work(str(number), begun, f"h{min(number, 4)}", position=position) for number in range(9)]
    for work in works[4:]:
        work.go.set()
    return works


async def test_hosts_that_hang_do_not_hold_the_others(autojump_clock: trio.testing.MockClock) -> None:
    """They are looked at twice: whether anything came since they began, and since then."""
    begun: list[str] = []
    taken = Taken()
    with trio.move_on_after(3 * SILENCE):
        await batch(lambda scheme, waiting: 2).run(given(at_hosts(begun, lambda: 0)), taken.take)
    assert begun == [str(number) for number in range(9)]
    assert sorted(str(result.value) for result in taken) == ["4", "5", "6", "7", "8"]


async def test_hosts_that_are_slow_have_what_they_have(autojump_clock: trio.testing.MockClock) -> None:
    """Something comes of each: nothing begins beside it."""
    begun: list[str] = []
    taken = Taken()
    works = at_hosts(begun, lambda: int(trio.current_time()))
    with trio.move_on_after(10 * SILENCE):
        await batch(lambda scheme, waiting: 2).run(given(works), taken.take)
    assert begun == ["0", "1", "2", "3"]
    assert taken == []


async def test_a_source_may_wait_for_what_a_task_finds() -> None:
    begun: list[str] = []
    found = trio.Event()

    async def source() -> AsyncIterator[BatchTask[str]]:
        first = Work("directory", begun)
        first.go.set()
        yield first
        await found.wait()
        second = Work("file", begun)
        second.go.set()
        yield second

    taken = Taken()

    async def take(result: TaskResult[str]) -> None:
        await taken.take(result)
        found.set()

    with trio.fail_after(HANG):
        await batch().run(source(), take)
    assert [result.value for result in taken] == ["directory", "file"]


async def test_from_its_end_on_nothing_begins_and_what_was_begun_ends(
    autojump_clock: trio.testing.MockClock,
) -> None:
    begun: list[str] = []
    works = [Work(str(number), begun) for number in range(9)]
    read: list[Work] = []

    async def source() -> AsyncIterator[BatchTask[str]]:
        for work in works:
            read.append(work)
            yield work

    taken = Taken()
    ends = trio.current_time() + 60
    one: Batch[str] = Batch(HostScheduler(free), concurrency=2, window=4, until=ends)
    with trio.fail_after(HANG):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one.run, source(), taken.take)
            await trio.testing.wait_all_tasks_blocked()
            works[0].go.set()
            await trio.sleep_until(ends)
            await trio.testing.wait_all_tasks_blocked()
            for work in works:
                work.go.set()
    assert begun == ["0", "1", "2"]
    assert {result.value for result in taken} == {"0", "1", "2"}  # the last two end together
    assert len(taken) == 3
    assert len(read) < len(works)


async def test_a_host_that_wants_to_be_left_alone_is_not_waited_for_beyond_the_end(
    autojump_clock: trio.testing.MockClock,
) -> None:
    begun: list[str] = []
    hosts: HostScheduler[BatchTask[str]] = HostScheduler(free)
    start = trio.current_time()
    hosts.leave_alone("h", start + 600)
    one: Batch[str] = Batch(hosts, concurrency=2, until=start + 60)
    await one.run(given([Work("late", begun)]), Taken().take)
    assert begun == []
    assert hosts.pauses(start + 60) == {"h": 540.0}


@dataclass(eq=False)
class Crowded:
    """A task that finds no room on this machine where others are under way."""

    under_way: list[int]
    room: int
    host: str = "h"
    scheme: str = "s"

    async def run(self) -> str:
        self.under_way[0] += 1
        try:
            await trio.lowlevel.checkpoint()
            turn = current()
            assert turn is not None
            if self.under_way[0] > self.room:
                if turn.lower():
                    raise Requeue
                raise LocalError("alone")
            self.under_way.append(self.under_way[0])
            return "done"
        finally:
            self.under_way[0] -= 1


async def test_batch_without_room_does_less_at_once() -> None:
    taken, under_way = Taken(), [0]

    async def tasks() -> AsyncIterator[BatchTask[str]]:
        for _ in range(50):
            yield Crowded(under_way, 3)

    with trio.fail_after(HANG):
        await batch(concurrency=16).run(tasks(), taken.take)
    assert [result.value for result in taken] == ["done"] * 50
    assert max(under_way) <= 3


async def test_batch_with_one_task_cannot_do_less() -> None:
    taken = Taken()

    async def tasks() -> AsyncIterator[BatchTask[str]]:
        yield Crowded([0], 0)

    await batch().run(tasks(), taken.take)
    assert [type(result.error) for result in taken] == [LocalError]
