"""The interface that this package requires of an event loop, as types."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import NoReturn, Protocol, TypeAlias, TypeVar

T = TypeVar("T")


class CancelScope(Protocol):
    """A block whose awaits end when the scope is cancelled, or at its deadline."""

    deadline: float

    @property
    def cancelled_caught(self) -> bool:
        """Return whether the block ended by this scope's cancellation or deadline."""
        ...

    def cancel(self) -> object: ...

    def __enter__(self) -> CancelScope: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool: ...


class Nursery(Protocol):
    """A task group: leaving the block waits for every task started in it."""

    @property
    def cancel_scope(self) -> CancelScope: ...

    def start_soon(self, function: Callable[..., Coroutine[object, object, None]], *args: object) -> None: ...


class Event(Protocol):
    """A flag that tasks wait for; once set, it stays set."""

    def set(self) -> object: ...

    def is_set(self) -> bool: ...

    async def wait(self) -> object: ...


class Background(Protocol):
    """A task that runs independently of its creator.

    The task ends on its own, by `cancel`, or with the run of the loop. It raises nothing but a cancellation.
    """

    def cancel(self) -> object: ...

    async def wait(self) -> None:
        """Wait until the task has ended, even if the caller is cancelled.

        The caller's cancellation is raised afterwards, by this method or at the caller's next wait.
        """
        ...


class InThread(Protocol):
    """A function that runs another function in a thread and waits for its end, even if cancelled.

    The caller's cancellation is raised afterwards, by this call or at the caller's next wait.
    """

    async def __call__(self, function: Callable[..., T], *args: object) -> T: ...


#: The result of `socket.getaddrinfo`.
Found: TypeAlias = "Sequence[tuple[int, int, int, str, tuple[object, ...]]]"


class GetAddrInfo(Protocol):
    """A query for the addresses of a host, through the system's resolver.

    On cancellation the query is abandoned. The caller does not wait for its answer, and neither does the exit
    of the process.
    """

    async def __call__(self, host: bytes, port: int, *, type: int) -> Found: ...


class Descriptor(Protocol):
    """A socket, or a wrapper of a socket. A closed descriptor has the number -1."""

    def fileno(self) -> int: ...


#: Waits for a descriptor until a deadline; the result is whether the descriptor became ready in time.
Wait: TypeAlias = Callable[[Descriptor, float], Awaitable[bool]]


@dataclass(frozen=True, slots=True, eq=False)
class Loop:
    """The functions of one event loop library.

    Times are in seconds of a clock; each run of the loop has its own clock.

    - `run` returns the same object for as long as one run lasts.
    - `cancelled` is the exception that a cancellation raises.
    - `closed` is the exception in tasks that wait for a descriptor when `notify_closing` is called for it.
      `notify_closing` must be called before the descriptor is closed.
    - `readable_by` and `writable_by` work like `move_on_at` around a wait, but without a scope, because a
      scope costs more than the wait. One task may wait to read while another waits to write.
    """

    run: Callable[[], object]
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
