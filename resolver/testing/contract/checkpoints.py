"""Cancelling at a chosen checkpoint: an operation is run, and at the n-th place where it waits, or could
have, it is cancelled."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator

import trio


class Canceller(trio.abc.Instrument):
    """Counts the checkpoints of one task and of those below it, and cancels a scope at the last of `most`.

    A task that has given way is at a checkpoint. What is shielded there is not hurt; the next one is.
    """

    def __init__(self, task: trio.lowlevel.Task, scope: trio.CancelScope, most: int | None) -> None:
        self._task = task
        self._scope = scope
        self._most = most
        self.count = 0

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if not self._is_ours(task):
            return
        self.count += 1
        if self.count == self._most:
            self._scope.cancel()

    def _is_ours(self, task: trio.lowlevel.Task | None) -> bool:
        while task is not None and task is not self._task:
            task = None if task.parent_nursery is None else task.parent_nursery.parent_task
        return task is not None


async def cancelled_at(
    most: int | None, operation: Callable[[], Awaitable[object]]
) -> tuple[int, BaseException | None]:
    """Run it and cancel it at checkpoint `most` (None: never): how many it came to, and what left it.

    Call it in a task of its own: everything in that task, and below it, counts."""
    left: BaseException | None = None
    with trio.CancelScope() as scope:
        canceller = Canceller(trio.lowlevel.current_task(), scope, most)
        trio.lowlevel.add_instrument(canceller)
        try:
            await operation()
        except BaseException as error:
            left = error
            raise
        finally:
            trio.lowlevel.remove_instrument(canceller)
    return canceller.count, left


def spread(count: int, most: int) -> Iterator[int]:
    """The numbers from 1 to `count`, or `most` of them: the first and the last among them."""
    if count <= most:
        yield from range(1, count + 1)
        return
    for index in range(most):
        yield 1 + index * (count - 1) // (most - 1)
