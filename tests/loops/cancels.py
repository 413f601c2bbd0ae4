"""Native cancellation at a chosen step of a coroutine.

At the n-th `await` that suspends, the task is canceled, either while it waits or when its future is already
done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Literal, TypeAlias

from resolver.testing.world.cancelling import SteppedCoroutine

#: The moment of the cancellation: while the task waits; in the loop's turn in which it would resume; or by
#: the end of an `asyncio.timeout` around it.
Arrival: TypeAlias = Literal["waiting", "ready", "timeout"]
ARRIVALS: tuple[Arrival, ...] = ("waiting", "ready", "timeout")


async def cancel_at(
    at: int | None, arrival: Arrival, operation: Callable[[], Awaitable[object]]
) -> tuple[int, BaseException | None]:
    """Run the operation in a separate task, canceled at step `at` (None: never).

    Return the number of steps, and the `CancelledError` or `TimeoutError` that left the operation.
    """
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

    steps = SteppedCoroutine(operate(), at, strike)

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
    """Let the loop run for so many turns."""
    for _ in range(count):
        await asyncio.sleep(0)


def ended_by(arrival: Arrival) -> type[BaseException]:
    return TimeoutError if arrival == "timeout" else asyncio.CancelledError
