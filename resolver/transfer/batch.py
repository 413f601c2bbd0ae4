"""Batches of concurrent tasks: the engine that runs the tasks, and the iterator over the results.

Each task communicates with one host. This module does not inspect the content or the result of a task.
`resolver.transfer.queue` decides, without I/O, when each task may start.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, nullcontext
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import Generic, Protocol, TypeVar

from protocols.errors import ResolveError
from resolver.loops import Background, Event, Loop, running
from resolver.network.connecting import unwrap_group
from resolver.network.task import HostRefusals, Requeue, TaskContext, enter
from resolver.transfer.queue import MAX_SUCCESSES, MIN_SUCCESSES, HostScheduler, QueuedTask

# The engine starts the tasks of a batch, within the total limit and the limits per host.
#
# - The engine reads a task from the source, and the task waits in the queue of its host.
# - The queue releases the task, and the task runs in a slot of the batch.
# - If the task raises `Requeue`, the task returns to the queue.
# - If the task ends with a result, the engine passes the result to `take`, and then frees the slot.
#
# The engine reads the source only while the queue has space (backpressure). The source may wait for user
# input or for the result of another task. The failure of one task does not stop other tasks.

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

#: Maximum number of tasks that are read ahead. If more than 1,000 consecutive tasks are for one host, the
#: tasks after them must wait, even for other hosts.
WINDOW = 1_000

#: The maximum number of tasks that wait for the disk. These tasks are not counted as running tasks. Flushing
#: 64 files together takes hardly longer than flushing one file. Each task that waits for the disk may use two
#: file descriptors and the memory for a small file.
MAX_FLUSHING = 64


class BatchTask(Protocol[T_co]):
    """A task of a batch.

    `host` is the name of the host, without the scheme. For `file:` URLs, `host` is empty.
    """

    @property
    def host(self) -> str: ...

    @property
    def scheme(self) -> str: ...

    async def run(self) -> T_co:
        """Run the task, and return its result.

        Raises:
            ResolveError: if this task failed. An exception of any other class ends the batch.
            Requeue: if the task must run again later.
        """
        ...


@dataclass(slots=True, eq=False, repr=False)
class TaskResult(Generic[T]):
    """The result of a task: a value or an error."""

    task: BatchTask[T]
    value: T | None = None
    error: ResolveError | None = None


#: A function that receives the result of each task. When the function returns, the slot of the completed task
#: is free for another task.
Take = Callable[[TaskResult[T]], Awaitable[None]]


class TaskSlot(TaskContext, Generic[T]):
    """The context of a task in a batch."""

    def __init__(self, batch: Batch[T], queued: QueuedTask[BatchTask[T]]) -> None:
        super().__init__(batch.now)
        self._batch = batch
        self._queued = queued

    def release_host(self) -> None:
        self._batch.release_host(self._queued)

    def reduce_concurrency(self) -> bool:
        return self._batch.reduce_concurrency()

    @property
    def is_alone(self) -> bool:
        return self._batch.hosts.is_alone(self._queued)

    @property
    def max_idle(self) -> int | None:
        return self._batch.hosts.room(self._queued)

    @property
    def refusals(self) -> HostRefusals:
        return self._queued.state.refusals

    def push_back(self, pause: float) -> None:
        super().push_back(pause)
        self._batch.hosts.push_back(self._queued, self._now(), pause)


class Batch(Generic[T]):
    """The engine of one batch.

    Args:
        hosts: the scheduler with the queues of all hosts.
        concurrency: the maximum number of running tasks, not counting the tasks at silent hosts. Together
            with the tasks at silent hosts, at most twice `concurrency` tasks run.
        window: the maximum number of waiting tasks.
        max_flushing: the maximum number of tasks that wait for the disk. `concurrency` does not include these
            tasks.
        until: the deadline. After the deadline no task starts, and the source is not read. Waiting tasks are
            dropped, and running tasks are completed.
    """

    def __init__(
        self,
        hosts: HostScheduler[BatchTask[T]],
        *,
        concurrency: int,
        window: int = WINDOW,
        max_flushing: int = 0,
        until: float = float("inf"),
    ) -> None:
        self.hosts = hosts
        self._concurrency = self._max_concurrency = concurrency
        self._successes, self._needed_successes = 0, MIN_SUCCESSES
        self._window = window
        self._max_flushing = max_flushing
        self._until = until
        self._running = 0
        self._has_source_ended = False
        self._checks_progress = False
        self._is_lowered = self._is_serial = False
        self._starting: deque[QueuedTask[BatchTask[T]]] = deque()
        self._slots: dict[QueuedTask[BatchTask[T]], TaskContext] = {}
        self._flushing: set[QueuedTask[BatchTask[T]]] = set()

    async def run(self, source: AsyncIterator[BatchTask[T]], take: Take[T]) -> None:
        """Run all tasks of the source, and return after `take` has processed the last result.

        An exception of the source, of a task or of `take` ends the batch and is raised unchanged. A
        `ResolveError` of a task does not end the batch: the error is the result of the task.
        """
        self._loop: Loop = running().bind()
        self.now = self._loop.current_time
        self._changed = self._loop.event()
        self._space_freed = self._loop.event()
        problem: BaseException | None = None
        try:
            async with self._loop.open_nursery() as nursery:
                # Each task gets the context variables of the batch, even if another task has started it.
                self._begin = partial(copy_context().run, nursery.start_soon, self._work, take)
                nursery.start_soon(self._read, source)
                nursery.start_soon(self._start_all)
        except BaseExceptionGroup as group:
            problem = unwrap_group(group)
        if problem is not None:
            raise problem  # raised outside `except`, so that the group does not become the `__context__`

    async def _read(self, source: AsyncIterator[BatchTask[T]]) -> None:
        async with aclosing(source) if isinstance(source, AsyncGenerator) else nullcontext():
            async for task in source:
                if self._is_late:
                    break
                self.hosts.add(task.host, task.scheme, task)
                self._changed.set()
                while self.hosts.waiting >= self._window:
                    self._space_freed = self._loop.event()
                    await self._space_freed.wait()
        self._has_source_ended = True
        self._changed.set()

    @property
    def _is_late(self) -> bool:
        return self._until != float("inf") and self.now() >= self._until

    async def _start_all(self) -> None:
        while True:
            if self._is_late:
                self.hosts.clear()
                self._has_source_ended = True
                self._space_freed.set()
            if has_room := self._start_ready():  # perhaps the next task of the source can start immediately
                self._space_freed.set()
            if self._has_source_ended and not self._running and not self.hosts.waiting:
                return
            await self._wait_for_change(has_room=has_room)

    def _start_ready(self) -> bool:
        """Start tasks while slots are free, and return whether a slot stays free.

        Tasks start in the order of the queue, even if the event loop reorders its tasks.
        """
        while has_room := self._has_room:
            if (now := self.now()) >= self._until or (queued := self.hosts.take(now)) is None:
                break
            self._running += 1
            self._is_serial = self._is_lowered and self._concurrency == 1
            self._starting.append(queued)
            self._begin()
            # reading many tasks from the source together is faster
            if self.hosts.waiting <= self._window // 2:
                self._space_freed.set()
        return has_room

    def _fill_slots(self) -> None:
        """Start tasks in the free slots, and wake the main task if it has work."""
        if self._start_ready() or not self._checks_progress:
            self._changed.set()

    def reduce_concurrency(self) -> bool:
        """Lower the concurrency below the number of running tasks. Return whether the caller must wait.

        Tasks at silent hosts and tasks that wait for the disk count as running tasks, because they also use
        file descriptors. If several tasks fail together, the last of them runs again too.

        After enough successful tasks, the concurrency rises by one, as the connection limit of a host does.
        """
        if self._is_serial:
            return False
        if self._successes:
            self._needed_successes = min(MAX_SUCCESSES, 2 * self._needed_successes)
        self._successes = 0
        self._is_lowered, self._max_flushing = True, 0
        self._concurrency = max(1, min(self._concurrency, self._running - 1))
        return True

    @property
    def _has_room(self) -> bool:
        if self._is_lowered:
            return self._running < self._concurrency
        busy, limit = self._running - len(self._flushing), self._concurrency
        return busy < limit or (self.hosts.has_silent and busy - min(self.hosts.silent_count, limit) < limit)

    async def _wait_for_change(self, *, has_room: bool) -> None:
        until = self.hosts.ready_at() if has_room else None
        until = float("inf") if until is None else until
        if not self._has_source_ended or self.hosts.waiting:
            until = min(until, self._until)
        self._checks_progress = self.hosts.waiting > 0 and (not has_room or self.hosts.silent_count > 0)
        check_time = self.hosts.next_check_at(self.now()) if self._checks_progress else float("inf")
        if not self._changed.is_set():
            with self._loop.move_on_at(min(until, check_time)):
                await self._changed.wait()
        self._changed = self._loop.event()
        now = self.now()
        if now >= check_time:
            self.hosts.check_progress(now, [task for task, slot in self._slots.items() if slot.has_moved()])

    async def _work(self, take: Take[T]) -> None:
        """Run a task and pass its result to `take`. An exception ends the batch."""
        queued = self._starting.popleft()
        if (slot := self._slots.get(queued)) is None:
            slot = self._slots[queued] = TaskSlot(self, queued)
        enter(slot)
        result = None
        try:
            result = TaskResult(queued.task, await queued.task.run())
        except ResolveError as error:
            result = TaskResult(queued.task, error=error)
        except Requeue:
            self.hosts.put_back(queued, self.now())
        except BaseException:
            self._end(queued, succeeded=False)
            raise
        if result is not None:
            was_flushing = queued in self._flushing  # if so, another task has its place at the host
            self._end(queued, succeeded=result.error is None)
            if not was_flushing:
                self._fill_slots()
            await take(result)
        self._running -= 1
        self._fill_slots()

    def _end(self, queued: QueuedTask[BatchTask[T]], *, succeeded: bool) -> None:
        self._slots.pop(queued, None)
        if queued in self._flushing:
            self._flushing.discard(queued)
        else:
            self.hosts.end(queued, self.now(), succeeded=succeeded)
        if succeeded and self._concurrency < self._max_concurrency:
            self._successes += 1
            if self._successes >= self._needed_successes:
                self._concurrency, self._successes = self._concurrency + 1, 0

    def release_host(self, queued: QueuedTask[BatchTask[T]]) -> None:
        if queued not in self._flushing and len(self._flushing) < self._max_flushing:
            self.hosts.end(queued, self.now(), succeeded=True)
            self._flushing.add(queued)
            self._fill_slots()


# A batch that runs while the caller iterates over the results.
#
# The batch runs as a separate task. The task ends after the last result, when `aclose` is called, or when the
# event loop ends. A result occupies a slot of the batch until the caller has consumed it (backpressure). So a
# slow caller slows down the batch.

#: An async function that passes each value to an async callback. The function returns after the last value.
#: The callback is its argument.
Work = Callable[[Callable[[T], Awaitable[None]]], Awaitable[None]]


class RunningBatch(Generic[T]):
    """An async iterator over the values that the function `work` passes to its callback.

    `work` starts at the first call of `anext`. `when_ended` is called after `work` and its tasks have ended.
    """

    def __init__(self, work: Work[T]) -> None:
        self._work = work
        self.when_ended: Callable[[], object] = lambda: None
        self._values: deque[tuple[T, Event]] = deque()
        self._background: Background | None = None
        self._is_closed = self._has_ended = False
        self._error: BaseException | None = None

    def __aiter__(self) -> RunningBatch[T]:
        return self

    async def __anext__(self) -> T:
        """Return the next value.

        If a call is cancelled, the next call returns the same value. Raises the error that ended the batch,
        or `RuntimeError` after `aclose`.
        """
        if self._background is None and not self._is_closed:
            self._loop = running()
            self._changed = self._loop.event()
            self._background = self._loop.in_background(self._run)
        while not self._values:
            if self._error is not None:
                raise self._error
            if self._is_closed:
                raise RuntimeError("the batch was closed before its end")
            if self._has_ended:
                raise StopAsyncIteration
            self._changed = self._loop.event()
            await self._changed.wait()
        value, consumed = self._values.popleft()
        consumed.set()
        return value

    async def aclose(self) -> None:
        """Cancel the running tasks, and wait until they have ended."""
        self._is_closed = self._is_closed or not self._has_ended
        self._values.clear()
        if self._background is not None and not self._has_ended:
            self._background.cancel()
            await self._background.wait()

    async def _run(self) -> None:
        try:
            await self._work(self._hand_over)
        except BaseException as error:
            if _is_only(self._loop.cancelled, error):
                self._is_closed = True
                raise
            self._error = error
        finally:
            self._has_ended = True
            self._changed.set()
            self.when_ended()

    async def _hand_over(self, value: T) -> None:
        consumed = self._loop.event()
        self._values.append((value, consumed))
        self._changed.set()
        await consumed.wait()


def _is_only(cancelled: type[BaseException], error: BaseException) -> bool:
    """Return whether the error is a cancellation, or a group of cancellations."""
    if isinstance(error, BaseExceptionGroup):
        return error.split(cancelled)[1] is None
    return isinstance(error, cancelled)


def check_limits(concurrency: int, per_host: int | None, rate: float | None) -> None:
    """Raise `ValueError` if no request can start under a limit."""
    # NaN is not at least 1: with NaN, no request would start, and the caller would wait forever
    if not concurrency >= 1 or (per_host is not None and not per_host >= 1):
        raise ValueError("concurrency and per_host must be at least 1")
    if rate is not None and not 0 < rate < float("inf"):
        raise ValueError("host_rate must be a finite number above 0")
