"""trio in another thread, for servers: a client under another loop shares none of its state."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import TypeVar

import trio
import trio.testing

from tests.hang import HANG

T = TypeVar("T")

#: The running instances.
_RUNNING: list[Elsewhere] = []


class Elsewhere(AbstractContextManager["Elsewhere"]):
    """A trio run in another thread; on exit, all tasks of its nursery are canceled."""

    def __init__(self) -> None:
        self._begun = threading.Event()
        self._thread = threading.Thread(target=trio.run, args=(self._live,), name="Trio thread of servers")

    async def _live(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        async with trio.open_nursery() as self.nursery:
            self._begun.set()
            await trio.sleep_forever()

    def run(self, function: Callable[..., Awaitable[T]], *args: object) -> T:
        """Run a coroutine there and return its result; this thread blocks."""
        return trio.from_thread.run(function, *args, trio_token=self._token)

    def call(self, function: Callable[..., T], *args: object) -> T:
        """Run a function there and return its result."""
        return trio.from_thread.run_sync(function, *args, trio_token=self._token)

    def __enter__(self) -> Elsewhere:
        self._thread.start()
        self._begun.wait(HANG)
        _RUNNING.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _RUNNING.remove(self)
        self.call(self.nursery.cancel_scope.cancel)
        self._thread.join(HANG)
        assert not self._thread.is_alive()


@contextmanager
def served(start: Callable[[trio.Nursery], Awaitable[T]]) -> Iterator[T]:
    """Start a server in a nursery of another thread; it runs until the context exits."""
    with Elsewhere() as there:
        yield there.run(start, there.nursery)


#: Turns of asyncio's loop in which all ready callbacks run.
_TURNS = 10


async def settle_anywhere() -> None:
    """Wait until all tasks are blocked, in this loop and in the threads of servers."""
    if trio.lowlevel.in_trio_task():
        await trio.testing.wait_all_tasks_blocked()
    else:
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        for each in _RUNNING:
            each.run(trio.testing.wait_all_tasks_blocked)
