"""The types of all that this package asks of an event loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import NoReturn, Protocol, TypeAlias, TypeVar

T = TypeVar("T")


class CancelScope(Protocol):
    """What is awaited inside ends when it is cancelled, or at its deadline."""

    deadline: float

    @property
    def cancelled_caught(self) -> bool:
        """Did it end so?"""
        ...

    def cancel(self) -> object: ...

    def __enter__(self) -> CancelScope: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool: ...


class Nursery(Protocol):
    """Who leaves it has waited for all that was started in it."""

    @property
    def cancel_scope(self) -> CancelScope: ...

    def start_soon(self, function: Callable[..., Coroutine[object, object, None]], *args: object) -> None: ...


class Event(Protocol):
    """Once it is set, nobody waits for it any more."""

    def set(self) -> object: ...

    def is_set(self) -> bool: ...

    async def wait(self) -> object: ...


class Background(Protocol):
    """What goes on by itself, whoever began it, until it ends, is cancelled, or the run of the loop is over.
    It raises nothing but a cancel."""

    def cancel(self) -> object: ...

    async def wait(self) -> None:
        """Until it has ended: also where the caller is cancelled, which it hears of behind that: from
        here, or where it waits next."""
        ...


class InThread(Protocol):
    """Calls a function in a thread, and waits for it to the end: also where the caller is cancelled, which
    it hears of behind that: from here, or where it waits next."""

    async def __call__(self, function: Callable[..., T], *args: object) -> T: ...


#: What `socket.getaddrinfo` gives.
Found: TypeAlias = "Sequence[tuple[int, int, int, str, tuple[object, ...]]]"


class GetAddrInfo(Protocol):
    """Asks the system for the addresses of a host. Cancelled, it leaves the question to itself: nobody waits
    for the answer, not even the end of the process."""

    async def __call__(self, host: bytes, port: int, *, type: int) -> Found: ...


class Descriptor(Protocol):
    """A socket, or what is around one. Closed, its number is -1."""

    def fileno(self) -> int: ...


#: Waits for a descriptor until a time: has its turn come by then?
Wait: TypeAlias = Callable[[Descriptor, float], Awaitable[bool]]


@dataclass(frozen=True, slots=True, eq=False)
class Loop:
    """One kind of loop. Times are in seconds of a clock that each run of it has for itself; `run` gives what
    is the same object as long as that lasts. `cancelled` is what a cancel raises, `closed` what is raised to
    who waits for a descriptor that `notify_closing` was told of, before it was closed.

    `readable_by` and `writable_by` are what `move_on_at` around a wait would be, without a scope, which costs
    more than the wait. One task may wait to read and another to write."""

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
