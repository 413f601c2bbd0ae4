"""The implementation of `Loop` for trio."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import copy_context
from functools import partial
from typing import TypeVar, cast

import trio

from resolver.loops.loop import Descriptor, GetAddrInfo, Loop, raise_without_thread

T = TypeVar("T")


class DescriptorWait:
    """A task's wait for a descriptor; `is_late` is true after the deadline of the wait."""

    __slots__ = ("deadline", "fd", "is_late")

    def __init__(self, fd: int, deadline: float) -> None:
        self.fd = fd
        self.deadline = deadline
        self.is_late = False


class DescriptorWatch:
    """The waits for descriptors in one run, and a system task that ends each wait at its deadline.

    The system task sleeps until the earliest deadline. If a wait with an earlier deadline starts, the system
    task is woken. An earlier deadline is rare, because most waits have the same timeout.
    """

    def __init__(self) -> None:
        self.waiting: set[DescriptorWait] = set()
        self._wake_time = math.inf
        self._scope = trio.CancelScope()
        trio.lowlevel.spawn_system_task(self._watch)

    def wake_at(self, deadline: float) -> None:
        """Wake the system task at `deadline` at the latest."""
        if deadline < self._wake_time:
            self._wake_time = self._scope.deadline = deadline

    async def _watch(self) -> None:
        while True:
            with self._scope:
                await trio.sleep_forever()
            self._scope, self._wake_time = trio.CancelScope(), math.inf
            now = trio.current_time()
            for wait in self.waiting:
                wait.is_late = wait.is_late or wait.deadline <= now
                if wait.is_late:  # also wakes other tasks that wait for this descriptor, and they wait again
                    trio.lowlevel.notify_closing(wait.fd)
                else:
                    self.wake_at(wait.deadline)


_watches: trio.lowlevel.RunVar[DescriptorWatch] = trio.lowlevel.RunVar("resolver.loops.on_trio")


async def _wait_by(wait: Callable[[int], Awaitable[None]], descriptor: Descriptor, deadline: float) -> bool:
    """Implement `Loop.readable_by` and `Loop.writable_by`."""
    try:
        watch = _watches.get()
    except LookupError:
        watch = DescriptorWatch()
        _watches.set(watch)
    entry = DescriptorWait(descriptor.fileno(), deadline)
    watch.waiting.add(entry)
    watch.wake_at(deadline)
    try:
        while not entry.is_late:
            try:
                await wait(entry.fd)
            except trio.ClosedResourceError:
                if descriptor.fileno() != entry.fd:
                    raise
            else:
                return True
    finally:
        watch.waiting.discard(entry)
    return False


class TrioBackground:
    def __init__(self, function: Callable[[], Coroutine[object, object, None]]) -> None:
        self._scope = trio.CancelScope()
        self._waiting: list[trio.lowlevel.Task] = []
        self._is_over = False
        trio.lowlevel.spawn_system_task(self._work, function, context=copy_context())

    async def _work(self, function: Callable[[], Coroutine[object, object, None]]) -> None:
        try:
            with self._scope:
                await function()
        finally:
            self._is_over = True
            for task in self._waiting:
                trio.lowlevel.reschedule(task)

    def cancel(self) -> None:
        self._scope.cancel()

    async def wait(self) -> None:
        """Wait until the task has ended; a cancellation is raised at the caller's next checkpoint.

        A shield is not used, because a shield is slower than the wait.
        """
        if not self._is_over:
            self._waiting.append(trio.lowlevel.current_task())
            await trio.lowlevel.wait_task_rescheduled(lambda _: trio.lowlevel.Abort.FAILED)


async def in_thread(function: Callable[..., T], *args: object) -> T:
    """Implement `InThread`."""
    try:
        return await trio.to_thread.run_sync(function, *args)
    except RuntimeError as error:
        raise_without_thread(error)
        raise


LOOP = Loop(
    run=trio.lowlevel.current_trio_token,
    clock=lambda: trio.lowlevel.current_clock().current_time,
    current_time=trio.current_time,
    move_on_at=trio.move_on_at,
    move_on_after=trio.move_on_after,
    event=trio.Event,
    lock=trio.Lock,
    open_nursery=trio.open_nursery,
    checkpoint=trio.lowlevel.checkpoint,
    checkpoint_if_cancelled=trio.lowlevel.checkpoint_if_cancelled,
    sleep=trio.sleep,
    sleep_forever=trio.sleep_forever,
    wait_readable=trio.lowlevel.wait_readable,
    readable_by=partial(_wait_by, trio.lowlevel.wait_readable),
    writable_by=partial(_wait_by, trio.lowlevel.wait_writable),
    notify_closing=trio.lowlevel.notify_closing,
    in_background=TrioBackground,
    in_thread=in_thread,
    getaddrinfo=cast(GetAddrInfo, trio.socket.getaddrinfo),
    cancelled=trio.Cancelled,
    closed=trio.ClosedResourceError,
)

is_running = trio.lowlevel.in_trio_task
