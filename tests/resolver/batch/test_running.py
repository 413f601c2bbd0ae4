"""A batch whose results are iterated over: when it goes on, and what ends it. Under trio and asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest
import trio

from resolver import Declined
from resolver.loops import running
from resolver.transfer.batch import RunningBatch
from tests.scheduled import run_scheduled

Run = Callable[[Callable[[], Coroutine[Any, Any, None]]], None]


@pytest.fixture(params=["trio", "asyncio"])
def run(request: pytest.FixtureRequest) -> Run:
    """Of either loop."""
    if request.param == "trio":
        return run_scheduled
    return lambda main: asyncio.run(main())


class Count:
    """Gives 0, 1, 2, …, and says how far it is."""

    def __init__(self, count: int, error: Exception | None = None) -> None:
        self.count = count
        self.error = error
        self.begun: list[int] = []
        self.cancelled = self.ended = False

    async def work(self, give: Callable[[int], Awaitable[None]]) -> None:
        try:
            for number in range(self.count):
                self.begun.append(number)
                await give(number)
            if self.error is not None:
                raise self.error
        except running().cancelled:
            self.cancelled = True
            raise
        finally:
            self.ended = True


async def settle() -> None:
    """Let everything happen that can."""
    for _ in range(20):
        await running().checkpoint()


def test_all_are_given_and_then_it_has_ended(run: Run) -> None:
    async def main() -> None:
        count, told = Count(5), []
        values = RunningBatch(count.work)
        values.when_ended = lambda: told.append("ended")
        assert [value async for value in values] == [0, 1, 2, 3, 4]
        with pytest.raises(StopAsyncIteration):
            await anext(values)
        await values.aclose()
        assert (count.ended, count.cancelled, told) == (True, False, ["ended"])

    run(main)


def test_no_more_begins_than_is_asked_for(run: Run) -> None:
    async def main() -> None:
        count = Count(100)
        values = RunningBatch(count.work)
        await settle()
        assert count.begun == []
        assert await anext(values) == 0
        await settle()
        assert count.begun == [0, 1]
        await values.aclose()
        assert (count.begun, count.cancelled) == ([0, 1], True)
        with pytest.raises(RuntimeError, match="closed"):
            await anext(values)

    run(main)


def test_what_ends_it_is_raised_behind_what_came_before(run: Run) -> None:
    async def main() -> None:
        values = RunningBatch(Count(1, Declined("no")).work)
        assert await anext(values) == 0
        for _ in range(2):
            with pytest.raises(Declined, match="no"):
                await anext(values)

    run(main)


def test_a_cancel_of_who_waits_loses_nothing(run: Run) -> None:
    async def main() -> None:
        go = running().event()

        async def work(give: Callable[[int], Awaitable[None]]) -> None:
            await go.wait()
            await give(7)

        values = RunningBatch(work)
        with running().move_on_after(0) as scope:
            await anext(values)
        assert scope.cancelled_caught
        go.set()
        assert [value async for value in values] == [7]

    run(main)


def test_closed_before_it_began_it_does_nothing(run: Run) -> None:
    async def main() -> None:
        count = Count(3)
        values = RunningBatch(count.work)
        await values.aclose()
        with pytest.raises(RuntimeError, match="closed"):
            await anext(values)
        assert count.begun == []

    run(main)


def test_a_native_cancel_waits_for_the_end_too() -> None:
    """`Task.cancel` goes through shields: what is under way has ended all the same."""

    async def main() -> None:
        cleaned = asyncio.Event()
        entered = asyncio.Event()

        async def work(give: Callable[[int], Awaitable[None]]) -> None:
            await give(1)
            try:
                entered.set()
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                cleaned.set()

        values = RunningBatch(work)
        await anext(values)
        await entered.wait()
        closing = asyncio.create_task(values.aclose())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert cleaned.is_set()

    asyncio.run(main())


async def test_it_ends_with_the_run_that_it_is_of() -> None:
    """Nobody closes it, and nobody waits for ever."""
    count = Count(100)

    async def main() -> None:
        assert await anext(RunningBatch(count.work)) == 0

    await trio.to_thread.run_sync(run_scheduled, main)
    assert count.ended
