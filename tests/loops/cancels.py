"""A native cancel at a chosen step: at the n-th place where a coroutine waits, the task that runs it is
cancelled, while it waits or when what it waits for is ready already."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Literal, TypeAlias

#: When the cancel comes: while the task waits; in the turn of the loop in which it would have gone on; or as
#: the end of an `asyncio.timeout` around it.
Arrival: TypeAlias = Literal["waiting", "ready", "timeout"]
ARRIVALS: tuple[Arrival, ...] = ("waiting", "ready", "timeout")


class Stepped(Coroutine[Any, Any, Any]):
    """A coroutine whose steps are counted; `strike` is told of what it waits for at step `at`."""

    def __init__(
        self, coroutine: Coroutine[Any, Any, object], at: int | None, strike: Callable[[object], None]
    ) -> None:
        self._coroutine = coroutine
        self._at = at
        self._strike = strike
        self.count = 0

    def __await__(self) -> Stepped:
        return self

    def __iter__(self) -> Stepped:
        return self

    def __next__(self) -> object:
        return self.send(None)

    def send(self, value: Any) -> object:
        return self._counted(self._coroutine.send(value))

    def throw(self, *error: Any) -> object:
        return self._counted(self._coroutine.throw(*error))

    def close(self) -> None:
        self._coroutine.close()

    def _counted(self, awaited: object) -> object:
        self.count += 1
        if self.count == self._at:
            self._strike(awaited)
        return awaited


async def cancelled_at(
    at: int | None, arrival: Arrival, operation: Callable[[], Awaitable[object]]
) -> tuple[int, BaseException | None]:
    """Run it in a task of its own and cancel that at step `at` (None: never): how many steps it made, and the
    cancel, or the end of time, if that left it."""
    limit = asyncio.timeout(None)

    def strike(awaited: object) -> None:
        if arrival == "timeout":
            limit.reschedule(-1.0)
        elif arrival == "ready" and isinstance(awaited, asyncio.Future):
            awaited.add_done_callback(lambda _: task.cancel())
        else:
            task.cancel()

    async def operate() -> None:
        await operation()

    steps = Stepped(operate(), at, strike)

    async def run() -> None:
        async with limit:
            await steps
        current = asyncio.current_task()
        assert current is not None
        assert arrival != "timeout" or not current.cancelling()

    task = asyncio.create_task(run())
    (outcome,) = await asyncio.gather(task, return_exceptions=True)
    if outcome is None or isinstance(outcome, asyncio.CancelledError | TimeoutError):
        return steps.count, outcome
    raise outcome


async def turns(count: int = 5) -> None:
    """Let the loop go round so many times."""
    for _ in range(count):
        await asyncio.sleep(0)


def ended_by(arrival: Arrival) -> type[BaseException]:
    return TimeoutError if arrival == "timeout" else asyncio.CancelledError
