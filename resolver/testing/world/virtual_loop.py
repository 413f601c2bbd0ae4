"""An asyncio event loop with a virtual clock and a seeded task order, which also runs trio for the peers.

The client runs in tasks of asyncio. The simulated servers and connections run in tasks of trio, in guest mode
on the same loop. Both libraries have the same virtual clock. If no task of either library can continue, the
clock advances to the earliest deadline of both.

asyncio guarantees that callbacks run in the order in which they were scheduled. The loop keeps this order,
except for the steps of tasks: steps that are ready at the same time, with no other callback between them, run
in a random order, as in trio. The order of the descriptors that are ready is also random.
"""

from __future__ import annotations

import asyncio
import math
import random
import selectors
from collections import deque
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any, TypeVar
from unittest import mock

import trio
from trio._core import _run as trio_run

from resolver.loops.on_asyncio import settle
from resolver.loops.worker import call_and_deliver
from resolver.testing.world.schedule import THREAD_DELAYS, Hung

T = TypeVar("T")

#: The internal names of trio, which has no public interface for a guest that shares a clock.
_TRIO: Any = trio_run

#: The number of turns of the loop that take no virtual time. After these turns, the clock advances although a
#: callback is ready: anyio, for example, delivers a cancellation again in each turn until the task ends.
_MAX_TURNS = 100

#: The number of times that the clock advances in a life. Lives with faults take less than 1,000. With a task
#: for a check every 0.2 s, the maximum duration of a life would take minutes.
_MAX_ADVANCES = 50_000


class NumberedTask(asyncio.Task[Any]):
    """A task whose hash is its serial number, so that the order of a set of tasks is the same in each run."""

    def __init__(self, number: int, *arguments: Any, **more: Any) -> None:
        self.number = number
        super().__init__(*arguments, **more)

    def __hash__(self) -> int:
        return self.number


class VirtualClock(trio.abc.Clock):
    """The virtual clock of both libraries, in seconds."""

    now = 0.0

    def start_clock(self) -> None:
        pass

    def current_time(self) -> float:
        return self.now

    def deadline_to_sleep_time(self, deadline: float) -> float:
        return deadline - self.now


class Guest:
    """The trio run in guest mode, which waits for descriptors only in the turns of the asyncio loop."""

    def __init__(self) -> None:
        self._runner: Any = None
        self._deliver: Callable[[Any], object] | None = None

    def started(self) -> None:
        self._runner = _TRIO.GLOBAL_RUN_CONTEXT.runner

    def wait(self, _: Callable[[], Any], deliver: Callable[[Any], object]) -> None:
        """Replace the thread in which trio waits for descriptors."""
        self._deliver = deliver

    @property
    def deadline(self) -> float:
        """Return the earliest deadline of trio, whether trio waits or can continue."""
        return float(self._runner.deadlines.next_deadline())

    def poll(self, now: float) -> bool:
        """Let trio continue if a descriptor is ready or a deadline has passed, and return whether it does."""
        if self._deliver is None:
            return False
        events = self._runner.io_manager.get_events(0)
        if not events and self.deadline > now:
            return False
        deliver, self._deliver = self._deliver, None
        deliver(_TRIO.Value(events))
        return True


class _Ready(deque[asyncio.Handle]):
    """The ready callbacks of the loop; adjacent steps of different tasks are taken in a random order."""

    def __init__(self, source: random.Random) -> None:
        super().__init__()
        self._source = source

    def popleft(self) -> asyncio.Handle:
        first_by_number: dict[int, int] = {}
        for at, handle in enumerate(self):
            task = getattr(handle._callback, "__self__", None)  # type: ignore[attr-defined]
            if not isinstance(task, NumberedTask):
                break
            first_by_number.setdefault(task.number, at)
        if len(first_by_number) < 2:
            return super().popleft()
        at = first_by_number[self._source.choice(sorted(first_by_number))]
        handle = self[at]
        del self[at]
        return handle


class VirtualSelector(selectors.DefaultSelector):
    """A selector that never blocks, and advances the virtual clock instead."""

    def __init__(self, advance: Callable[[bool], object], source: random.Random) -> None:
        super().__init__()
        self._advance, self._source = advance, source

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = sorted(super().select(0), key=lambda item: item[0].fd)
        self._source.shuffle(ready)
        self._advance(bool(ready))
        return ready


class VirtualEventLoop(asyncio.SelectorEventLoop):
    """The event loop of one process life.

    Args:
        seed: The seed of the order of tasks and descriptors.
    """

    def __init__(self, seed: str) -> None:
        source = random.Random(f"loop {seed}")
        super().__init__(VirtualSelector(self._advance, source))
        self._ready: Any = _Ready(source)
        self._clock, self.guest = VirtualClock(), Guest()
        self._turns = self._advances = 0
        self.is_hung = False
        self.problems: list[str] = []
        self.set_exception_handler(lambda _, context: self.problems.append(str(context["message"])))
        numbers = count(1)
        self.set_task_factory(lambda loop, work, **more: NumberedTask(next(numbers), work, loop=loop, **more))

    def time(self) -> float:
        return self._clock.now

    def _advance(self, has_events: bool) -> None:
        """Let trio continue if it can. If nothing can continue, advance the clock to the next deadline."""
        if self.guest.poll(self._clock.now) or has_events:
            self._turns = 0
            return
        self._turns += 1
        if self._ready and self._turns <= _MAX_TURNS:
            return
        timers = [timer._when for timer in self._scheduled[:1]]  # type: ignore[attr-defined]
        deadline = min([*timers, self.guest.deadline])
        if deadline == math.inf:
            if not self._ready:
                self._end_hung_tasks()
            return
        self._turns = 0
        self._advances += 1
        if self._advances > _MAX_ADVANCES:
            self._advances = 0
            self._end_hung_tasks()
        self._clock.now = max(self._clock.now, deadline)
        self.guest.poll(self._clock.now)

    def _end_hung_tasks(self) -> None:
        """Cancel all tasks; a second call raises `Hung`."""
        if self.is_hung:
            raise Hung("the tasks do not end after a cancellation")
        self.is_hung = True
        for task in asyncio.all_tasks(self):
            task.cancel()

    async def live(self, main: Callable[[], Awaitable[T]]) -> T:
        """Run `main` beside a trio run, and end all other tasks of both when `main` has ended."""
        ended: asyncio.Future[Any] = self.create_future()
        scope = trio.CancelScope()

        async def wait() -> None:
            with scope:
                await trio.sleep_forever()

        trio.lowlevel.start_guest_run(
            wait,
            run_sync_soon_threadsafe=self.call_soon,
            done_callback=ended.set_result,
            clock=self._clock,
            host_uses_signal_set_wakeup_fd=True,
        )
        self.guest.started()
        try:
            return await main()
        finally:
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            scope.cancel()
            (await ended).unwrap()


def run(main: Callable[[], Awaitable[T]], seed: str, problems: list[str]) -> T:
    """Run `main` in a new loop, and return its result.

    Args:
        main: The main function of the life.
        seed: The seed of the order of tasks.
        problems: The list to which the messages of the loop's exception handler are added.

    Raises:
        Hung: No task can continue, or the tasks wait for deadlines again and again.
    """
    loop = VirtualEventLoop(seed)
    with mock.patch.object(trio_run, "start_thread_soon", loop.guest.wait):
        try:
            result = loop.run_until_complete(loop.live(main))
        except asyncio.CancelledError:
            if not loop.is_hung:
                raise
        finally:
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()
            problems += loop.problems
    if loop.is_hung:
        raise Hung("the tasks do not end")
    return result


def find_other_tasks() -> list[str]:
    """Return the names of the functions of all tasks except the current task."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    return sorted(getattr(task.get_coro(), "__qualname__", "") for task in tasks)


def begin(function: Callable[[], T], *, daemon: bool) -> asyncio.Future[T]:
    """Run a function for a worker thread in the thread of the event loop, after a virtual delay.

    The result arrives after another delay. The function runs even if the caller does not wait any longer.
    """
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()

    def deliver(value: T | None, problem: BaseException | None) -> None:
        loop.call_later(random.choice(THREAD_DELAYS), settle, result, value, problem)

    loop.call_later(random.choice(THREAD_DELAYS), call_and_deliver, function, deliver)
    return result
