"""The types of the interface that this package requires of an event loop."""

from __future__ import annotations

import errno
import os
import select
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import NamedTuple, NoReturn, Protocol, TypeAlias, TypeVar

T = TypeVar("T")


class CancelScope(Protocol):
    """A context manager whose block is cancelled by `cancel` or at a deadline."""

    deadline: float

    @property
    def cancelled_caught(self) -> bool:
        """Return whether a cancellation or the deadline of this scope ended the block."""
        ...

    def cancel(self) -> object: ...

    def __enter__(self) -> CancelScope: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool: ...


class Nursery(Protocol):
    """A task group: the end of its block waits for all tasks that were started in the group."""

    @property
    def cancel_scope(self) -> CancelScope: ...

    def start_soon(self, function: Callable[..., Coroutine[object, object, None]], *args: object) -> None: ...


class Event(Protocol):
    """A flag that tasks can wait for; the flag cannot be reset."""

    def set(self) -> object: ...

    def is_set(self) -> bool: ...

    async def wait(self) -> object: ...


class Background(Protocol):
    """A background task, which does not belong to a nursery.

    The task ends when its function returns, after `cancel`, or at the end of the loop's run. The only
    exception that the task raises is a cancellation.
    """

    def cancel(self) -> object: ...

    async def wait(self) -> None:
        """Wait until the task has ended, even if the caller is cancelled.

        After the end of the task, this method or the caller's next checkpoint raises the caller's
        cancellation.
        """
        ...


class InThread(Protocol):
    """A function that runs another function in a thread, and waits for it even if the caller is cancelled.

    After the end of the thread, this function or the caller's next checkpoint raises the caller's
    cancellation.

    Raises:
        OSError: The system has no thread left (EAGAIN).
    """

    async def __call__(self, function: Callable[..., T], *args: object) -> T: ...


def raise_without_thread(error: RuntimeError) -> None:
    """Raise `OSError` (EAGAIN) if the error is the one of Python for a thread that cannot be started."""
    if str(error) == "can't start new thread":
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN)) from error


#: The result of `socket.getaddrinfo`.
AddrInfo: TypeAlias = "Sequence[tuple[int, int, int, str, tuple[object, ...]]]"


class GetAddrInfo(Protocol):
    """A DNS lookup of a host through the system's resolver.

    If the caller is cancelled, the lookup is abandoned. Neither the caller nor the end of the process waits
    for an abandoned lookup.
    """

    async def __call__(self, host: bytes, port: int, *, type: int) -> AddrInfo: ...


class Descriptor(Protocol):
    """A socket or a wrapper of a socket. After the socket is closed, `fileno` returns -1."""

    def fileno(self) -> int: ...


def is_ready(fd: int, *, writes: bool) -> bool:
    """Return whether a descriptor is ready now, without waiting."""
    polled = select.poll()
    polled.register(fd, select.POLLOUT if writes else select.POLLIN)
    return bool(polled.poll(0))


#: A function that waits for a descriptor until a deadline, and returns whether the descriptor became ready.
Wait: TypeAlias = Callable[[Descriptor, float], Awaitable[bool]]


class Loop(NamedTuple):
    """The functions of one event loop library.

    Times are in seconds of the loop's clock. Each run of the loop has a separate clock.

    - `run` returns an object that identifies the current run of the loop.
    - `clock` returns the function that returns the time of the current run.
    - `cancelled` is the exception that a cancellation raises.
    - `notify_closing` must be called before a descriptor is closed. `notify_closing` raises `closed` in all
      tasks that wait for the descriptor.
    - `readable_by` and `writable_by` wait for a descriptor until a deadline. These two functions do not use a
      cancel scope, because a cancel scope is slower than the wait. One task may wait to read while another
      task waits to write.
    """

    run: Callable[[], object]
    clock: Callable[[], Callable[[], float]]
    current_time: Callable[[], float]
    move_on_at: Callable[[float], CancelScope]
    move_on_after: Callable[[float], CancelScope]
    event: Callable[[], Event]
    lock: Callable[[], AbstractAsyncContextManager[object]]
    open_nursery: Callable[[], AbstractAsyncContextManager[Nursery]]
    checkpoint: Callable[[], Awaitable[None]]
    checkpoint_if_cancelled: Callable[[], Awaitable[None]]
    sleep: Callable[[float], Awaitable[None]]
    sleep_forever: Callable[[], Awaitable[NoReturn]]
    wait_readable: Callable[[int], Awaitable[None]]
    readable_by: Wait
    writable_by: Wait
    notify_closing: Callable[[int], None]
    in_background: Callable[[Callable[[], Coroutine[object, object, None]]], Background]
    in_thread: InThread
    getaddrinfo: GetAddrInfo
    cancelled: type[BaseException]
    closed: type[Exception]

    def bind(self) -> Loop:
        """Return a copy for the current run. Its `current_time` does not look up the clock of the run."""
        return self._replace(current_time=self.clock())
