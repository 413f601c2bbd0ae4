"""The implementation of `Loop` for asyncio and uvloop, which uses anyio except for threads.

The shield of an anyio scope does not stop a native cancellation (`Task.cancel`, which `wait_for` and
`asyncio.timeout` also use). The wait for a thread therefore uses `asyncio.wait`, which is repeated after a
cancellation.

A thread pool is not used, for two reasons. Other code may have filled the pool, and the end of a run waits
for the threads of the pool.
"""

from __future__ import annotations

import asyncio
import math
import socket
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from typing import NoReturn, TypeVar, cast

import anyio
import anyio.lowlevel

from resolver.loops.loop import CancelScope, Descriptor, Found, Loop, Nursery
from resolver.loops.worker import start_call

T = TypeVar("T")


def is_running() -> bool:
    """Return whether the current code runs in an asyncio task."""
    try:
        return asyncio.current_task() is not None
    except RuntimeError:
        return False


def move_on_at(deadline: float) -> CancelScope:
    return anyio.CancelScope(deadline=deadline)


#: The time in seconds between two attempts to wake a task after its deadline. The first attempt may fail,
#: because anyio may not have started the task's wait yet.
_AGAIN = 0.01


class AsyncioAlarm:
    """A timer that ends a task's wait for a descriptor at a deadline, unless the timer is cancelled.

    A separate task wakes the waiting task, because the functions of anyio work only inside a task.
    """

    def __init__(self, fd: int, deadline: float) -> None:
        self._fd = fd
        self._loop = asyncio.get_running_loop()
        self._handle = None if deadline == math.inf else self._loop.call_at(deadline, self._wake)
        self._waking: asyncio.Task[None] | None = None
        self.late = False

    def _wake(self) -> None:
        self.late, self._handle = True, None
        self._waking = self._loop.create_task(self._wake_until_heard())

    async def _wake_until_heard(self) -> None:
        """Wake the waiting task repeatedly, until that task cancels this alarm.

        Other tasks that wait for the same descriptor are also woken, and then wait again.
        """
        while True:
            anyio.notify_closing(self._fd)
            await asyncio.sleep(_AGAIN)

    def cancel(self) -> None:
        for each in (self._handle, self._waking):
            if each is not None:
                each.cancel()


async def _wait_by(wait: Callable[[int], Awaitable[None]], descriptor: Descriptor, deadline: float) -> bool:
    """Implement `Loop.readable_by` and `Loop.writable_by`."""
    fd = descriptor.fileno()
    alarm = AsyncioAlarm(fd, deadline)
    try:
        while not alarm.late:
            try:
                await wait(fd)
            except anyio.ClosedResourceError:
                if descriptor.fileno() != fd:
                    raise
            else:
                return True
    finally:
        alarm.cancel()
    return False


class AsyncioBackground:
    """The asyncio implementation of `Background`."""

    def __init__(self, function: Callable[[], Coroutine[object, object, None]]) -> None:
        self._task = asyncio.get_running_loop().create_task(function())

    def cancel(self) -> None:
        self._task.cancel()

    async def wait(self) -> None:
        await _run_to_end(self._task)


async def _run_to_end(result: asyncio.Future[T]) -> None:
    cancelled: BaseException | None = None
    # Without this shield, anyio would deliver its cancellation again and again, and interrupt each wait.
    with anyio.CancelScope(shield=True):
        while not result.done():
            try:
                await asyncio.wait([result])
            except asyncio.CancelledError as error:
                cancelled = error
    if cancelled is not None:
        if not result.cancelled():
            # The caller gets the cancellation, not the exception of the future. This call marks the exception
            # as retrieved, so that asyncio does not log it.
            result.exception()
        raise cancelled


async def in_thread(function: Callable[..., T], *args: object) -> T:
    """Implement `InThread`."""
    result = _begin(partial(function, *args), daemon=False)
    await _run_to_end(result)
    return result.result()


async def getaddrinfo(host: bytes, port: int, *, type: int) -> Found:
    """Implement `GetAddrInfo`."""
    return await _begin(partial(socket.getaddrinfo, host, port, type=type), daemon=True)


def settle(result: asyncio.Future[T], given: T | None, error: BaseException | None) -> None:
    """Set the result or the exception of a future, except if the future was cancelled."""
    if result.done():
        return
    if error is not None:
        result.set_exception(error)
    else:
        result.set_result(cast(T, given))


def _begin(function: Callable[[], T], *, daemon: bool) -> asyncio.Future[T]:
    """Start a function in a new thread; at exit, the process does not wait for a `daemon` thread."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()

    def deliver(given: T | None, problem: BaseException | None) -> None:
        with suppress(RuntimeError):  # the loop is closed, so the result is not needed
            loop.call_soon_threadsafe(settle, result, given, problem)

    start_call(function, deliver, daemon=daemon)
    return result


LOOP = Loop(
    run=asyncio.get_running_loop,
    current_time=anyio.current_time,
    move_on_at=move_on_at,
    move_on_after=anyio.move_on_after,
    event=anyio.Event,
    lock=anyio.Lock,
    open_nursery=cast(Callable[[], AbstractAsyncContextManager[Nursery]], anyio.create_task_group),
    checkpoint=anyio.lowlevel.checkpoint,
    checkpoint_if_cancelled=anyio.lowlevel.checkpoint_if_cancelled,
    sleep=anyio.sleep,
    sleep_forever=cast(Callable[[], Awaitable[NoReturn]], anyio.sleep_forever),
    wait_readable=anyio.wait_readable,
    readable_by=partial(_wait_by, anyio.wait_readable),
    writable_by=partial(_wait_by, anyio.wait_writable),
    notify_closing=anyio.notify_closing,
    in_background=AsyncioBackground,
    in_thread=in_thread,
    getaddrinfo=getaddrinfo,
    cancelled=asyncio.CancelledError,
    closed=anyio.ClosedResourceError,
)
