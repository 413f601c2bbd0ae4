"""The implementation of `Loop` for blocking calls; see `resolver.loops.calls`."""

from __future__ import annotations

import math
import select
import socket
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator
from functools import partial
from time import monotonic
from typing import Any, NoReturn, TypeVar

from resolver.loops.calls import (
    Abort,
    Cancelled,
    DescriptorClosed,
    ThreadScope,
    ThreadTask,
    current_task,
    suspend,
    wait_to_end,
)
from resolver.loops.loop import AddrInfo, Descriptor, Loop, Nursery
from resolver.loops.worker import start_call

T = TypeVar("T")


class ThreadNursery:
    """The implementation of `Nursery`; errors are raised in a group, as trio does."""

    def __init__(self) -> None:
        self.cancel_scope = ThreadScope()
        self._children: set[ThreadTask] = set()
        self._errors: list[BaseException] = []
        self._is_cancelled = False

    async def __aenter__(self) -> Nursery:
        self.cancel_scope.__enter__()
        self._parent, self._is_waiting = current_task(), False
        return self

    def start_soon(self, function: Callable[..., Coroutine[object, object, None]], *args: object) -> None:
        self._children.add(ThreadTask(self._parent.call, function(*args), self.cancel_scope, self._end))

    def _end(self, child: ThreadTask, value: object, error: BaseException | None) -> None:
        self._children.discard(child)
        self._record(error)
        if not self._children and self._is_waiting:
            self._parent.resume()

    def _record(self, error: BaseException | None) -> None:
        if isinstance(error, Cancelled):
            self._is_cancelled = True
        elif error is not None:
            self._errors.append(error)
            self.cancel_scope.cancel()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> bool:
        self._record(error)
        if error is not None:
            self.cancel_scope.cancel()
        if self._children:
            self._is_waiting = True
            await suspend(wait_to_end)
        errors, self._errors = self._errors, []
        is_caught = self.cancel_scope.__exit__(None, Cancelled() if self._is_cancelled else None, None)
        if errors:
            raise BaseExceptionGroup("errors of the tasks of a nursery", errors)
        if self._is_cancelled and not is_caught and error is None:
            raise Cancelled
        return is_caught


class ThreadEvent:
    __slots__ = ("_is_set", "_waiting")

    def __init__(self) -> None:
        self._is_set = False
        self._waiting: dict[ThreadTask, None] = {}

    def set(self) -> None:
        self._is_set = True
        waiting, self._waiting = self._waiting, {}
        for task in waiting:
            task.resume()

    def is_set(self) -> bool:
        return self._is_set

    async def wait(self) -> None:
        await checkpoint_if_cancelled()
        await self.wait_or(partial(self._forget, current_task()))

    async def wait_or(self, abort: Abort) -> None:
        """Wait for the event; a cancellation calls `abort`."""
        if not self._is_set:
            self._waiting[current_task()] = None
            await suspend(abort)

    def _forget(self, task: ThreadTask) -> bool:
        del self._waiting[task]
        return True


class ThreadLock:
    """The lock of `Loop.lock`; the tasks acquire the lock in the order of their requests."""

    def __init__(self) -> None:
        self._is_locked = False
        self._waiting: dict[ThreadEvent, None] = {}

    async def __aenter__(self) -> None:
        await checkpoint_if_cancelled()
        if not self._is_locked:
            self._is_locked = True
            return
        acquired = ThreadEvent()
        self._waiting[acquired] = None
        try:
            await acquired.wait()
        except Cancelled:
            del self._waiting[acquired]
            raise

    async def __aexit__(self, *error: object) -> None:
        if self._waiting:
            first = next(iter(self._waiting))
            del self._waiting[first]
            first.set()
        else:
            self._is_locked = False


class ThreadBackground:
    """The implementation of `Background`: a task of the call that started the task.

    The end of the operation cancels the task. The call ends after the task.
    """

    def __init__(self, function: Callable[[], Coroutine[object, object, None]]) -> None:
        self._scope = ThreadScope(call=current_task().call)
        self.cancel = self._scope.cancel
        self._ended = ThreadEvent()
        current_task().call.background.add(self._scope)
        ThreadTask(current_task().call, function(), self._scope, self._end)

    def _end(self, task: ThreadTask, value: object, error: BaseException | None) -> None:
        task.call.background.discard(self._scope)
        self._scope.call = None
        self._ended.set()

    async def wait(self) -> None:
        await self._ended.wait_or(wait_to_end)


async def checkpoint_if_cancelled() -> None:
    if current_task().scope.is_cancelled:
        raise Cancelled


@types.coroutine
def checkpoint() -> Generator[tuple[()], Any, None]:
    task = current_task()
    if task.call.has_work and not task.scope.is_cancelled:
        task.call.ready.append(task)
        yield ()
    if task.scope.is_cancelled:
        raise Cancelled


async def sleep_forever() -> NoReturn:
    await ThreadEvent().wait()
    raise AssertionError("the event is never set")


async def sleep(seconds: float) -> None:
    with move_on_after(seconds):
        await sleep_forever()


def move_on_after(seconds: float) -> ThreadScope:
    return ThreadScope(monotonic() + seconds)


def _wait_by(event: int, descriptor: Descriptor, deadline: float) -> Awaitable[bool]:
    """Implement `Loop.readable_by` and `Loop.writable_by`."""
    if (fd := descriptor.fileno()) == -1:
        raise DescriptorClosed("the descriptor was closed")
    return _wait_for(event, fd, deadline)


@types.coroutine
def _wait_for(event: int, fd: int, deadline: float) -> Generator[tuple[Abort], bool, bool]:
    task = current_task()
    if task.scope.is_cancelled:
        raise Cancelled
    return (yield (task.call.start_wait(task, fd, event, deadline),))


async def wait_readable(fd: int) -> None:
    await _wait_for(select.POLLIN, fd, math.inf)


def notify_closing(fd: int) -> None:
    for call in current_task().call.home.calls:
        call.close_descriptor(fd)


async def in_thread(function: Callable[..., T], *args: object) -> T:
    """Implement `InThread`."""
    _begin(partial(function, *args), daemon=False)
    result: T = await suspend(wait_to_end)
    return result


async def getaddrinfo(host: bytes, port: int, *, type: int) -> AddrInfo:
    await checkpoint_if_cancelled()
    info: AddrInfo = await suspend(_begin(partial(socket.getaddrinfo, host, port, type=type), daemon=True))
    return info


def _begin(function: Callable[[], object], *, daemon: bool) -> Abort:
    """Call a function in a new thread; at exit, the process does not wait for a `daemon` thread.

    The current task gets the result, unless the task calls the returned function first.
    """
    waiting = [current_task()]

    def deliver(value: object, problem: BaseException | None) -> None:
        with home.lock:
            for task in waiting:
                task.resume(value, problem)

    def leave() -> bool:
        waiting.clear()
        return True

    home = waiting[0].call.home
    start_call(function, deliver, daemon=daemon)
    return leave


LOOP = Loop(
    run=lambda: current_task().call.home,
    clock=lambda: monotonic,
    current_time=monotonic,
    move_on_at=ThreadScope,
    move_on_after=move_on_after,
    event=ThreadEvent,
    lock=ThreadLock,
    open_nursery=ThreadNursery,
    checkpoint=checkpoint,
    checkpoint_if_cancelled=checkpoint_if_cancelled,
    sleep=sleep,
    sleep_forever=sleep_forever,
    wait_readable=wait_readable,
    readable_by=partial(_wait_by, select.POLLIN),
    writable_by=partial(_wait_by, select.POLLOUT),
    notify_closing=notify_closing,
    in_background=ThreadBackground,
    in_thread=in_thread,
    getaddrinfo=getaddrinfo,
    cancelled=Cancelled,
    closed=DescriptorClosed,
)
