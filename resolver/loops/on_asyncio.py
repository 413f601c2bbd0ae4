"""The asyncio loop, or a replacement (uvloop): through anyio, except for threads.

A native cancellation (`Task.cancel`, which `wait_for` and `asyncio.timeout` also use) passes through anyio's
shields. So the wait for a thread uses `asyncio.wait`, which can be repeated after a cancellation interrupts
it. Threads are not taken from a pool, for two reasons. Other code may have filled the pool, and the end of a
run waits for the threads of its pool.
"""

from __future__ import annotations

import asyncio
import math
import socket
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from typing import NoReturn, TypeVar, cast

import anyio
import anyio.lowlevel

from resolver.loops.loop import CancelScope, Descriptor, Found, Loop, Nursery

T = TypeVar("T")


def is_running() -> bool:
    """Return whether the current code runs in an asyncio task."""
    try:
        return asyncio.current_task() is not None
    except RuntimeError:
        return False


def move_on_at(deadline: float) -> CancelScope:
    return anyio.CancelScope(deadline=deadline)


#: Seconds after which a late waiter is woken again, because anyio may not have started its wait at the first
#: wake-up.
_AGAIN = 0.01


class AsyncioAlarm:
    """A timer that wakes a task from its wait for a descriptor at a deadline, unless cancelled before.

    anyio finds no running loop outside a task, so the wake-up itself runs in a task.
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
        """Wake the task until it cancels this alarm.

        Other tasks that wait for the descriptor wake up too, and wait again.
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
    # anyio repeats its cancellation and would otherwise interrupt each wait
    with anyio.CancelScope(shield=True):
        while not result.done():
            try:
                await asyncio.wait([result])
            except asyncio.CancelledError as error:
                cancelled = error
    if cancelled is not None:
        if not result.cancelled():
            # marks the exception as retrieved, because the caller gets the cancellation instead
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


def _begin(function: Callable[[], T], *, daemon: bool) -> asyncio.Future[T]:
    """Start a function in a separate thread; at exit, the process waits only for non-daemon threads."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()

    def tell(given: T | None, error: BaseException | None) -> None:
        if result.done():  # cancelled: the caller stopped waiting
            return
        if error is not None:
            result.set_exception(error)
        else:
            result.set_result(cast(T, given))

    def work() -> None:
        given, problem = None, None
        try:
            given = function()
        except BaseException as error:  # noqa: BLE001 - raised in the task that waits for the thread
            problem = error
        with suppress(RuntimeError):  # the loop is closed, and with it the waiting task
            loop.call_soon_threadsafe(tell, given, problem)

    threading.Thread(target=work, name="url-resolver", daemon=daemon).start()
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
