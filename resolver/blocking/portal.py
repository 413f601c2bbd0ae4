"""The portal: it runs the asynchronous operations of blocking calls in the calling thread."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from functools import partial
from types import TracebackType
from typing import Generic, Protocol, TypeAlias, TypeVar
from weakref import WeakSet

from protocols.errors import LocalError, ResolveError
from resolver.loops import prefer
from resolver.loops.calls import (
    INHERITED,
    Call,
    Cancelled,
    Operation,
    ThreadRun,
    current_call,
    is_driving,
    is_running,
)
from resolver.loops.on_thread import LOOP
from resolver.url.tracebacks import trim_traceback

A = TypeVar("A")
T = TypeVar("T")

prefer(is_running, LOOP)

_INSIDE = (
    "a blocking call inside an operation of url-resolver would wait for itself: await the function of the "
    "same name in the package resolver"
)
_GEVENT = (
    "gevent has replaced the sockets, selectors or threads of Python, which url-resolver needs: run the "
    "retrieval in another process, such as the command resolve"
)
_ENDING = "the interpreter is shutting down: nothing can be fetched any more"


class PortalClosed(RuntimeError):
    """A call could not complete because the portal was closed."""

    def __init__(self) -> None:
        super().__init__("the process or the portal of url-resolver has ended")


#: An object that keeps connections open until its context is exited.
Keeper: TypeAlias = "AbstractAsyncContextManager[object]"


class EnteredContext(Protocol):
    """An asynchronous context that is entered and exited in calls of the portal."""

    @property
    def is_open(self) -> bool: ...

    async def leave_at_end(self) -> None: ...


class Portal:
    """The blocking calls of a process; each thread may use their connections until the portal is closed.

    When the portal is closed, it exits the contexts in `opened` that were not garbage collected. Only calls
    of the portal may access `opened`.
    """

    def __init__(self) -> None:
        self._home = ThreadRun()
        self._keepers = WeakSet[Keeper]()
        self.opened = WeakSet[EnteredContext]()
        self._is_closed = False
        atexit.register(self.close)

    def close_at_end(self, keeper: Keeper) -> None:
        """Exit `keeper` at the end of the portal if `keeper` was not garbage collected."""
        with self._home.lock:
            self._keepers.add(keeper)

    def discard(self, keeper: Keeper) -> None:
        """Leave `keeper` alone at the end of the portal, because the caller exits it."""
        with self._home.lock:
            self._keepers.discard(keeper)

    @property
    def is_usable(self) -> bool:
        return not self._is_closed and not self._home.inherited

    @property
    def is_driving(self) -> bool:
        """Return whether the current thread is in the middle of a call, for example in a finalizer."""
        return is_driving()

    def check(self) -> None:
        """Raise `RuntimeError` if no call is possible."""
        if sys.is_finalizing():
            raise RuntimeError(_ENDING)
        if self._home.inherited:
            raise RuntimeError(INHERITED)
        if self._is_closed:
            raise PortalClosed
        if is_driving():
            raise RuntimeError(_INSIDE)

    def run(self, operation: Operation[T]) -> T:
        """Run the operation in the calling thread, and return its result."""
        self.check()
        try:
            return Call(self._home, operation).result()
        except ResolveError as error:
            raise trim_traceback(error)  # noqa: B904 - the same error
        except Cancelled:
            raise PortalClosed from None

    def start(self, operation: Operation[T]) -> Call[T]:
        """Start an operation in a background thread; after the end of the portal, the call has no effect.

        Raises:
            LocalError: The system has no thread or file descriptor left.
        """
        call = Call(self._home, operation, is_background=True)
        if self.is_usable and not sys.is_finalizing():
            try:
                threading.Thread(target=call.run, name="url-resolver", daemon=True).start()
            except RuntimeError as error:
                raise LocalError(f"cannot run in the background: {error} (reduce concurrency)") from error
        return call

    def try_start(self, operation: Operation[object]) -> None:
        """Start an operation in a background thread if that is possible."""
        with suppress(LocalError):
            self.start(operation)

    def end(self) -> None:
        """Cancel the running calls, and reject further calls."""
        self._is_closed = True
        for call in list(self._home.calls):
            call.cancel()

    def close(self) -> None:
        """Cancel the running calls, wait until they have ended, and close all connections."""
        atexit.unregister(self.close)
        if self._home.inherited or self.is_driving:
            return
        self.end()
        self._home.wait_for_calls()
        Call(self._home, self._leave).result()

    async def _leave(self) -> None:
        while self.opened:
            with LOOP.move_on_after(0) as scope, suppress(ResolveError):
                # The scope is cancelled immediately, so that the shutdown does not wait for a peer's
                # response.
                scope.cancel()
                await self.opened.pop().leave_at_end()
        async with AsyncExitStack() as stack:  # an error of one keeper does not keep the others open
            while self._keepers:
                stack.push_async_exit(self._keepers.pop())

    def forget(self) -> None:
        """Make this portal unusable in a forked child process, because the connections are the parent's."""
        self._home.inherited = True


_portal: Portal | None = None
_lock = threading.RLock()
#: The portals of the parent processes. Their suspended tasks must not be garbage collected, because their
#: ends would close connections of the parent.
_parent_portals: list[Portal] = []


def portal() -> Portal:
    """Return the usable portal; if necessary, create a portal."""
    global _portal
    existing = _portal
    if existing is not None and existing.is_usable:
        return existing
    if sys.is_finalizing():
        raise RuntimeError(_ENDING)
    monkey = sys.modules.get("gevent.monkey")
    if monkey is not None and any(map(monkey.is_module_patched, ("select", "socket", "threading"))):
        raise RuntimeError(_GEVENT)
    with _lock:
        if _portal is None or not _portal.is_usable:
            _portal = Portal()
        return _portal


def _forget() -> None:
    global _portal, _lock
    if _portal is not None:
        _portal.forget()
        _parent_portals.append(_portal)
    _portal, _lock = None, threading.RLock()


os.register_at_fork(after_in_child=_forget)


def notify_caller(function: Callable[[], object]) -> None:
    """Call the function in the thread that waits for the current call, or else in the current thread."""
    call = current_call()
    if call is None:
        function()
    else:
        call.call_soon(function)


def make_thread_listener(listener: Callable[[A], object]) -> Callable[[A], None]:
    """Wrap a listener so that the calling thread calls it for each event, in order.

    The event loop does not wait for the listener.
    """

    def report(event: A) -> None:
        notify_caller(partial(listener, event))

    return report


async def call_in_caller(function: Callable[[], T]) -> T:
    """Call the function in the thread that waits for the current call, and return its result."""
    is_done, results = LOOP.event(), list[T]()

    def answer() -> None:
        results.append(function())
        with lock:
            is_done.set()

    call = current_call()
    assert call is not None, "the caller runs in a call"
    lock = call.home.lock
    call.call_soon(answer)
    await is_done.wait()
    return results[0]


# A blocking context manager around an asynchronous context manager. Entry, each use, and exit are separate
# portal calls.

S = TypeVar("S")
Trace = TracebackType | None


class OpenResource(Protocol):
    """An open resource, which is closed by the caller or by an object that uses the resource."""

    @property
    def portal(self) -> Portal: ...

    def check_open(self) -> None:
        """Raise `ValueError` if the resource is closed, as a closed Python file does."""

    def leave(self) -> None:
        """Close the resource, as the end of a `with` block does; a second call has no effect."""


class PortalContext(Generic[S, T]):
    """A blocking context manager around an asynchronous context manager.

    Args:
        make: A function that creates the asynchronous context manager in a call of the portal.
        wrap: A function that creates the blocking object for the caller. Its arguments are the asynchronous
            object and this context.
        settle: A function that is called in a call of the portal after the context was entered. If `settle`
            returns True, the context is exited in the same portal call.
    """

    def __init__(
        self,
        home: Callable[[], Portal],
        make: Callable[[], Awaitable[AbstractAsyncContextManager[S]]],
        wrap: Callable[[S, OpenResource], T],
        settle: Callable[[S], Awaitable[bool]] | None = None,
    ) -> None:
        self._home = home
        self._make = make
        self._settle = settle
        self._wrap = wrap
        self._portal: Portal | None = None
        self._opened: AbstractAsyncContextManager[S] | None = None

    @property
    def portal(self) -> Portal:
        assert self._portal is not None, "it was entered"
        return self._portal

    @property
    def is_open(self) -> bool:
        return self._opened is not None

    def check_open(self) -> None:
        if not self.is_open:
            raise ValueError("the reply or session is closed: use it inside the with block")

    def __enter__(self) -> T:
        self._portal = self._home()
        try:
            return self._wrap(self._portal.run(self._enter), self)
        except BaseException as error:
            self.__exit__(type(error), error, error.__traceback__)
            raise

    async def _enter(self) -> S:
        opened = await self._make()
        entered = await opened.__aenter__()
        self._opened = opened
        if self._settle is not None and await self._settle(entered):
            await self._leave(None, None, None)
        else:
            self.portal.opened.add(self)
        return entered

    async def leave_at_end(self) -> None:
        await self._leave(None, None, None)

    def leave(self) -> None:
        self.__exit__(None, None, None)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Trace) -> None:
        if self._opened is None or not self.portal.is_usable:
            return
        leave = partial(self._leave, kind, error, trace)
        if self.portal.is_driving:  # The garbage collector may run this method in a call of the portal.
            self.portal.try_start(leave)
            return
        with suppress(PortalClosed):
            self.portal.run(leave)

    async def _leave(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: Trace
    ) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.__aexit__(kind, error, trace)

    def __del__(self) -> None:
        if self._opened is not None:
            self.portal.try_start(partial(self._leave, None, None, None))


T_co = TypeVar("T_co", covariant=True)


class ClosableIterator(Protocol[T_co]):
    """An async iterator that can be closed."""

    async def __anext__(self) -> T_co: ...

    async def aclose(self) -> None: ...


class PortalIterator(Generic[T]):
    """A blocking iterator around an asynchronous iterator.

    `make` creates the asynchronous iterator at the first call of `next`, in a background thread. This thread
    also runs the tasks of the iterator between the calls. Callbacks run in the thread that waits for the next
    value. An iterator that is garbage collected is closed, for example after a `for` loop that ends early.
    """

    def __init__(
        self,
        home: Callable[[], Portal],
        make: Callable[[], Awaitable[ClosableIterator[T]]],
    ) -> None:
        self._home = home
        self._portal: Portal | None = None
        self._reader = _BackgroundReader(make)

    def __iter__(self) -> PortalIterator[T]:
        return self

    def __next__(self) -> T:
        self._portal = self._portal or self._home()
        for value in self._portal.run(partial(self._reader.take_next, self._portal)):
            return value
        raise StopIteration

    def close(self) -> None:
        """Cancel the iteration, and wait for its end."""
        if self._portal is not None and self._portal.is_usable:
            with suppress(PortalClosed):
                self._portal.run(self._reader.end)

    def __del__(self) -> None:
        if self._portal is not None and self._reader.is_running:
            self._portal.try_start(self._reader.end)


class _BackgroundReader(Generic[T]):
    """The reads of a `PortalIterator`.

    The background thread refers to this object, and not to the iterator, which would never be garbage
    collected.
    """

    def __init__(self, make: Callable[[], Awaitable[ClosableIterator[T]]]) -> None:
        self._make = make
        self._call: Call[None] | None = None
        self._iterator: ClosableIterator[T] | None = None
        self._values: list[T] = []
        self._error: BaseException | None = None

    @property
    def is_running(self) -> bool:
        return self._call is not None and self._error is None

    async def take_next(self, portal: Portal) -> list[T]:
        """Return the next value in a list, or an empty list at the end.

        If the thread no longer waits for the value, the value is stored for the next call.
        """
        if self._call is None:
            self._changed, self._requested = LOOP.event(), LOOP.event()
            self._call = portal.start(self._read)
        self._requested.set()
        self._call.forward_to(current_call())
        try:
            while not self._values:
                if isinstance(self._error, StopAsyncIteration):
                    return []
                if self._error is not None:
                    raise self._error
                self._changed = LOOP.event()
                await self._changed.wait()
        finally:
            self._call.forward_to(None)
        return [self._values.pop()]

    async def _read(self) -> None:
        try:
            self._iterator = await self._make()
            while True:
                await self._requested.wait()
                self._values.append(await self._iterator.__anext__())
                self._requested = LOOP.event()
                self._changed.set()
        except BaseException as error:
            self._error = PortalClosed() if isinstance(error, Cancelled) else error
            raise
        finally:
            self._changed.set()
            if self._iterator is not None:  # at the exit of the process, nothing else ends its tasks
                await self._iterator.aclose()

    async def end(self) -> None:
        if self._iterator is not None:
            await self._iterator.aclose()
        if self._call is not None:
            self._call.cancel()


#: The size in bytes of a block, and of the buffer of a file. A forward seek by fewer bytes reads the bytes
#: instead of opening the object again.
BLOCK_SIZE = 1_048_576


#: The time in seconds for which received bytes are buffered to collect a larger block. A call takes almost as
#: much time as the receipt of a few bytes.
COLLECT_SECONDS = 0.002


class PortalBody:
    """The bytes of a response, which can be read once: iterate over blocks of up to 1 MiB, or call `read`.

    Args:
        body: the blocks of the event loop.
        resource: the response.
        limit: the number of buffered bytes after which no further block is awaited.
    """

    def __init__(self, body: AsyncIterator[bytes], resource: OpenResource, limit: int = BLOCK_SIZE) -> None:
        self._body = body
        self._resource = resource
        self._max_size = limit
        self._failure: Exception | None = None
        self._octets = b""
        self._at = 0

    def __iter__(self) -> PortalBody:
        return self

    def __next__(self) -> bytes:
        octets = self.read_some()
        if not octets:
            raise StopIteration
        return octets

    def read(self, count: int = -1) -> bytes:
        """Return the next `count` bytes, or fewer at the end; a negative `count` returns all bytes."""
        while count < 0 or self._buffered < count:
            if not self._read_more(count - self._buffered if count >= 0 else 1 << 62):
                break
        return self._take(self._buffered if count < 0 else count)

    def read_some(self, max_size: int | None = None) -> bytes:
        """Wait for the first byte, and return at most `max_size` bytes; b"" at the end of the body."""
        if not self._buffered:
            self._read_more(1)
        return self._take(self._buffered if max_size is None else max_size)

    @property
    def _buffered(self) -> int:
        return len(self._octets) - self._at

    def _take(self, count: int) -> bytes:
        is_all = self._at == 0 and count >= len(self._octets)
        octets = self._octets if is_all else self._octets[self._at : self._at + count]
        self._at += len(octets)
        if not self._buffered:
            self._octets, self._at = b"", 0
        return octets

    def _read_more(self, min_size: int) -> bool:
        """Buffer at least `min_size` more bytes, or all remaining bytes, and return whether bytes arrived."""
        self._resource.check_open()
        return self._resource.portal.run(partial(self._gather, min_size))

    async def _gather(self, min_size: int) -> bool:
        """Buffer the bytes in this object, so that a callback's exception or Ctrl-C does not lose them."""
        if self._failure is not None:
            raise self._failure
        pieces, size = [], 0
        try:
            while size < min_size:
                pieces.append(await anext(self._body))
                size += len(pieces[-1])
            with LOOP.move_on_after(COLLECT_SECONDS):
                while size < self._max_size:
                    pieces.append(await anext(self._body))
                    size += len(pieces[-1])
        except StopAsyncIteration:
            pass
        except Exception as error:
            self._failure = error
            if not pieces:
                raise
        finally:
            self._octets, self._at = b"".join([self._octets[self._at :], *pieces]), 0
        return bool(pieces)
