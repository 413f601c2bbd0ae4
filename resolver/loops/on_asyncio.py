"""The implementation of `Loop` for asyncio and uvloop, which uses anyio except for threads and descriptors.

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
from typing import NoReturn, TypeAlias, TypeVar, cast

import anyio

from resolver.loops.loop import AddrInfo, Descriptor, Loop, Nursery
from resolver.loops.worker import start_call

T = TypeVar("T")


def is_running() -> bool:
    """Return whether the current code runs in an asyncio task."""
    try:
        return asyncio.current_task() is not None
    except RuntimeError:
        return False


#: A wait for a descriptor: the event loop, the descriptor, and whether the task waits to write.
_Wait: TypeAlias = tuple[asyncio.AbstractEventLoop, int, bool]

#: The futures of the waits that have not ended.
_waits: dict[_Wait, asyncio.Future[bool | None]] = {}


def _end_wait(wait: _Wait, ready: asyncio.Future[bool | None], in_time: bool | None) -> None:
    """End the wait, unless it has ended. After a cancellation or a close, `in_time` is `None`."""
    if _waits.get(wait) is not ready:
        return
    del _waits[wait]
    loop, fd, writes = wait
    (loop.remove_writer if writes else loop.remove_reader)(fd)
    if not ready.done():
        ready.set_result(in_time)


async def _wait(fd: int, deadline: float, *, writes: bool) -> bool:
    """Wait until a descriptor is ready, and return whether it is ready before the deadline."""
    loop = asyncio.get_running_loop()
    wait, ready, timer = (loop, fd, writes), loop.create_future(), None
    if wait in _waits:
        raise anyio.BusyResourceError("writing to" if writes else "reading from")
    _waits[wait] = ready
    try:
        (loop.add_writer if writes else loop.add_reader)(fd, _end_wait, wait, ready, True)
        timer = None if deadline == math.inf else loop.call_at(deadline, _end_wait, wait, ready, False)
        in_time: bool | None = await ready
    finally:
        _end_wait(wait, ready, None)
        if timer is not None:
            timer.cancel()
    if in_time is None:
        raise anyio.ClosedResourceError
    return in_time


async def wait_readable(fd: int) -> None:
    """Implement `Loop.wait_readable`."""
    await _wait(fd, math.inf, writes=False)


def readable_by(descriptor: Descriptor, deadline: float) -> Awaitable[bool]:
    """Implement `Loop.readable_by`."""
    return _wait(descriptor.fileno(), deadline, writes=False)


def writable_by(descriptor: Descriptor, deadline: float) -> Awaitable[bool]:
    """Implement `Loop.writable_by`."""
    return _wait(descriptor.fileno(), deadline, writes=True)


def notify_closing(fd: int) -> None:
    """Implement `Loop.notify_closing`."""
    loop = asyncio.get_running_loop()
    for wait in ((loop, fd, False), (loop, fd, True)):
        if (ready := _waits.get(wait)) is not None:
            _end_wait(wait, ready, None)


async def checkpoint_if_cancelled() -> None:
    """Implement `Loop.checkpoint_if_cancelled`.

    The cancellation of an anyio scope also cancels its tasks. The function of anyio would examine the scopes,
    which takes 2 % of the time of `cat` of small files over http. It would also import its backend.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        await asyncio.sleep(0)


class AsyncioBackground:
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


async def getaddrinfo(host: bytes, port: int, *, type: int) -> AddrInfo:
    return await _begin(partial(socket.getaddrinfo, host, port, type=type), daemon=True)


def settle(result: asyncio.Future[T], value: T | None, error: BaseException | None) -> None:
    """Set the result or the exception of a future, except if the future was cancelled."""
    if result.done():
        return
    if error is not None:
        result.set_exception(error)
    else:
        result.set_result(cast(T, value))


def _begin(function: Callable[[], T], *, daemon: bool) -> asyncio.Future[T]:
    """Start a function in a new thread; at exit, the process does not wait for a `daemon` thread."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()

    def deliver(value: T | None, problem: BaseException | None) -> None:
        with suppress(RuntimeError):  # the loop is closed, so the result is not needed
            loop.call_soon_threadsafe(settle, result, value, problem)

    start_call(function, deliver, daemon=daemon)
    return result


LOOP = Loop(
    run=asyncio.get_running_loop,
    clock=lambda: asyncio.get_running_loop().time,
    current_time=lambda: asyncio.get_running_loop().time(),
    move_on_at=lambda deadline: anyio.CancelScope(deadline=deadline),
    move_on_after=anyio.move_on_after,
    event=anyio.Event,
    lock=anyio.Lock,
    open_nursery=cast(Callable[[], AbstractAsyncContextManager[Nursery]], anyio.create_task_group),
    checkpoint=partial(asyncio.sleep, 0),
    checkpoint_if_cancelled=checkpoint_if_cancelled,
    sleep=anyio.sleep,
    sleep_forever=cast(Callable[[], Awaitable[NoReturn]], anyio.sleep_forever),
    wait_readable=wait_readable,
    readable_by=readable_by,
    writable_by=writable_by,
    notify_closing=notify_closing,
    in_background=AsyncioBackground,
    in_thread=in_thread,
    getaddrinfo=getaddrinfo,
    cancelled=asyncio.CancelledError,
    closed=anyio.ClosedResourceError,
)
