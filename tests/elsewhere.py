"""trio in a thread of its own, for servers: a client under another loop has none of theirs."""

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

#: Those that are running.
_RUNNING: list[Elsewhere] = []


class Elsewhere(AbstractContextManager["Elsewhere"]):
    """Until it is left; then all that was started in its nursery is cancelled."""

    def __init__(self) -> None:
        self._begun = threading.Event()
        self._thread = threading.Thread(target=trio.run, args=(self._live,), name="Trio thread of servers")

    async def _live(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        async with trio.open_nursery() as self.nursery:
            self._begun.set()
            await trio.sleep_forever()

    def run(self, function: Callable[..., Awaitable[T]], *args: object) -> T:
        """What a coroutine gives there. Whoever calls waits, and everybody in the same thread."""
        return trio.from_thread.run(function, *args, trio_token=self._token)

    def call(self, function: Callable[..., T], *args: object) -> T:
        """What a function gives there."""
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
    """What it starts in a nursery elsewhere runs until this is left."""
    with Elsewhere() as there:
        yield there.run(start, there.nursery)


#: Turns of asyncio's loop in which what is ready there is done.
_TURNS = 10


async def settle_anywhere() -> None:
    """Until everybody waits for something to happen, here, whatever the loop, and in the threads of
    servers."""
    if trio.lowlevel.in_trio_task():
        await trio.testing.wait_all_tasks_blocked()
    else:
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        for each in _RUNNING:
            each.run(trio.testing.wait_all_tasks_blocked)
