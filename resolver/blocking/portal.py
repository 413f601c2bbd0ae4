"""The portal: a background thread with an event loop, in which blocking calls run asynchronous operations."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import AsyncIterable, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from contextvars import ContextVar, copy_context
from functools import partial
from queue import SimpleQueue
from types import TracebackType
from typing import Generic, Protocol, TypeAlias, TypeVar, cast
from weakref import WeakSet

import trio

from protocols.errors import ResolveError
from resolver.url.tracebacks import trim_traceback

A = TypeVar("A")
T = TypeVar("T")

#: The portal call to which the current task of the portal's thread belongs.
_CALL: ContextVar[PortalCall[object]] = ContextVar("resolver.blocking.portal")

_INHERITED = (
    "this was opened before the process forked, and its connections are those of the parent: make a new one "
    "in the child"
)
_INSIDE = (
    "a blocking call in the thread of url-resolver would wait for itself: await the function of the same "
    "name in the package resolver"
)
_GEVENT = (
    "gevent has replaced the sockets, selectors or threads of Python, which url-resolver needs: run the "
    "retrieval in another process, such as the command resolve"
)
_ENDING = "the interpreter is shutting down: nothing can be fetched any more"


class ThreadLost(RuntimeError):
    """A call could not complete because the portal's thread has ended or does not exist."""

    def __init__(self) -> None:
        super().__init__("the thread of url-resolver has ended")


#: An object that keeps connections open until its context is exited.
Keeper: TypeAlias = "AbstractAsyncContextManager[object]"


class EnteredContext(Protocol):
    """An asynchronous context that is entered and exited in the portal's thread."""

    async def leave_at_end(self) -> None: ...


class Portal:
    """A thread that runs trio until the process ends.

    Before the thread ends, it exits the contexts in `opened` that were not garbage collected. Only the
    portal's thread may access `opened`.
    """

    def __init__(self) -> None:
        self._calls: set[PortalCall[object]] = set()
        self._keepers = WeakSet[Keeper]()
        self.opened = WeakSet[EnteredContext]()
        self._over = False
        self.inherited = False
        started = SimpleQueue[None]()
        self._thread = threading.Thread(
            target=self._main, args=(started,), name="Trio thread of resolver", daemon=True
        )
        self._thread.start()
        started.get()
        atexit.register(self.close)

    def _main(self, started: SimpleQueue[None]) -> None:
        try:
            trio.run(self._serve, started)
        finally:
            self._over = True
            started.put(None)
            for call in list(self._calls):
                call.end()

    async def _serve(self, started: SimpleQueue[None]) -> None:
        async with trio.open_nursery() as self._nursery:
            self._token = trio.lowlevel.current_trio_token()
            started.put(None)
            await trio.sleep_forever()
        for opened in list(self.opened):
            with trio.CancelScope() as scope, suppress(ResolveError):
                # The scope is cancelled immediately, so that the shutdown does not wait for a peer's
                # response.
                scope.cancel()
                await opened.leave_at_end()
        for keeper in list(self._keepers):
            await keeper.__aexit__(None, None, None)

    def close_at_end(self, keeper: Keeper) -> None:
        """Exit `keeper` at the end of the thread if `keeper` was not garbage collected."""
        self.post(partial(self._keepers.add, keeper))

    @property
    def usable(self) -> bool:
        return not self._over and not self.inherited

    @property
    def is_here(self) -> bool:
        """Return whether the current thread is the portal's thread."""
        return threading.get_ident() == self._thread.ident

    def check(self) -> None:
        """Raise `RuntimeError` if a call would block forever (deadlock)."""
        if sys.is_finalizing():
            raise RuntimeError(_ENDING)
        if self.inherited:
            raise RuntimeError(_INHERITED)
        if self._over:
            raise ThreadLost
        if self.is_here:
            raise RuntimeError(_INSIDE)

    def run(self, operation: Callable[[], Awaitable[T]]) -> T:
        """Run the operation, and return its result or raise its exception in the calling thread."""
        self.check()
        return PortalCall(self, operation).result()

    def begin(self, call: PortalCall[T]) -> None:
        self.expect_end(call, partial(call.start, self._nursery))

    def expect_end(self, call: PortalCall[T], function: Callable[[], object]) -> None:
        """Register the call, so that it ends if the thread ends, and schedule the function."""
        self._calls.add(cast("PortalCall[object]", call))
        self.post(function)

    def forget(self, call: PortalCall[T]) -> None:
        self._calls.discard(cast("PortalCall[object]", call))

    def post(self, function: Callable[[], object]) -> None:
        """Schedule a function in trio's thread. Raises `ThreadLost` if the thread has ended."""
        try:
            self._token.run_sync_soon(function)
        except trio.RunFinishedError:
            raise ThreadLost from None

    def cast(self, operation: Callable[[], Awaitable[T]]) -> PortalCall[T]:
        """Start an operation in the background; if the portal's thread has ended, the call has no effect."""
        call = PortalCall(self, operation)
        if self.usable and not sys.is_finalizing():
            with suppress(ThreadLost):
                self.begin(call)
        return call

    def end(self) -> None:
        """Cancel the running calls, and reject further calls."""
        self.post(self._end)

    def _end(self) -> None:
        self._over = True
        self._nursery.cancel_scope.cancel()

    def close(self) -> None:
        """Cancel the running calls, and wait until the thread has ended."""
        atexit.unregister(self.close)
        if not self.inherited:
            with suppress(ThreadLost):
                self.end()
            self._thread.join()


# The steps of a call:
# - The calling thread schedules `start` in trio's thread, and then processes the inbox (a queue) of the call.
# - The calling thread calls each function in the inbox. The functions are callbacks of the user, for example
#   `on_event`.
# - The value None in the inbox marks the end of the call. A second None may follow if the call is cancelled
#   after its end.
# - After an exception in the calling thread (Ctrl-C, or from a callback), the calling thread cancels the call
#   and waits for its end.
class PortalCall(Generic[T]):
    """An operation of the portal's thread, with the inbox of the calling thread.

    If no thread waits for the call, functions stay in the inbox until another call forwards them
    (`attended`).
    """

    def __init__(self, portal: Portal, operation: Callable[[], Awaitable[T]]) -> None:
        self._portal = portal
        self._operation = operation
        self._context = copy_context()
        self._inbox = SimpleQueue["Callable[[], object] | None"]()
        self._scope: trio.CancelScope | None = None
        self._hearer: PortalCall[object] | None = None
        self._values: list[T] = []
        self._error: BaseException | None = None

    def result(self) -> T:
        """Wait for the result, and call the functions that the operation puts into the inbox."""
        try:
            self._portal.begin(self)
            self._attend()
        except BaseException:
            self._give_up()
            raise
        try:
            if self._error is not None:
                raise self._error
            if not self._values:
                raise ThreadLost
            return self._values[0]
        finally:
            # The traceback of the error refers to this frame. The attribute is deleted to avoid a reference
            # cycle.
            self._error = None

    def _attend(self) -> None:
        while (function := self._inbox.get()) is not None:
            function()
            if self._portal.inherited:
                raise RuntimeError(_INHERITED)

    def _give_up(self) -> None:
        """Cancel the call, and wait for its end."""
        if not self._portal.usable:
            return
        with suppress(ThreadLost):
            self._portal.expect_end(self, self.cancel)
            while self._inbox.get() is not None:
                pass

    def start(self, nursery: trio.Nursery) -> None:
        self._scope = trio.CancelScope()
        try:
            self._context.run(nursery.start_soon, self._work, self._operation)
        except RuntimeError:  # The nursery is closed.
            self._scope = None
            self.end()
        del self._context, self._operation  # The context and the operation must not outlive the task.

    async def _work(self, operation: Callable[[], Awaitable[T]]) -> None:
        _CALL.set(cast("PortalCall[object]", self))
        assert self._scope is not None
        try:
            with self._scope:
                await self._operate(operation)
        finally:
            self._scope = None
            self.end()

    async def _operate(self, operation: Callable[[], Awaitable[T]]) -> None:
        try:
            self._values.append(await operation())
        except trio.Cancelled:
            raise
        except ResolveError as error:
            self._error = trim_traceback(error)
        except BaseException as error:  # noqa: BLE001 - raised in the thread that waits for the operation
            self._error = error

    def cancel(self) -> None:
        """Cancel the call; this method must run in trio's thread.

        The method puts an end marker into the inbox, even if the inbox already contains an end marker.
        """
        if self._scope is None:
            self.end()
        else:
            self._scope.cancel()

    def end(self) -> None:
        self._portal.forget(self)
        self._inbox.put(None)

    @contextmanager
    def attended(self) -> Iterator[None]:
        """Forward the functions of this call to the call of the current task; must run in trio's thread.

        The end marker of this call is not forwarded, because the call of the current task has not ended.
        """
        hearer = self._hearer = _CALL.get()
        while not self._inbox.empty():
            if (function := self._inbox.get_nowait()) is not None:
                hearer._inbox.put(function)
        try:
            yield
        finally:
            self._hearer = None

    def tell(self, function: Callable[[], object]) -> None:
        """Put the function into the inbox of the calling thread."""
        (self._hearer or self)._inbox.put(function)

    async def ask(self, function: Callable[[], T]) -> T:
        """Call the function in the calling thread, and return its result."""
        answered = trio.Event()
        answers: list[T] = []

        def answer() -> None:
            answers.append(function())
            self._portal.post(answered.set)

        self.tell(answer)
        await answered.wait()
        return answers[0]


_portal: Portal | None = None
_starting = threading.RLock()


def portal() -> Portal:
    """Return the running portal; if necessary, start a portal."""
    global _portal
    found = _portal
    if found is not None and found.usable:
        return found
    if sys.is_finalizing():
        raise RuntimeError(_ENDING)
    monkey = sys.modules.get("gevent.monkey")
    if monkey is not None and any(map(monkey.is_module_patched, ("select", "socket", "threading"))):
        raise RuntimeError(_GEVENT)
    with _starting:
        if _portal is None or not _portal.usable:
            _portal = Portal()
        return _portal


def _forget() -> None:
    """Discard the portal in a forked child process, because a child lacks the threads of its parent."""
    global _portal, _starting
    if _portal is not None:
        _portal.inherited = True
    _portal, _starting = None, threading.RLock()


os.register_at_fork(after_in_child=_forget)


def tell(function: Callable[[], object]) -> None:
    """Call the function in the thread that waits for the current call.

    Without a current call, the function is called in the current thread.
    """
    call = _CALL.get(None)
    if call is None:
        function()
    else:
        call.tell(function)


def make_thread_listener(listener: Callable[[A], object]) -> Callable[[A], None]:
    """Wrap a listener so that the calling thread calls it for each event, in order.

    The event loop does not wait for the listener.
    """

    def report(event: A) -> None:
        tell(partial(listener, event))

    return report


async def ask(function: Callable[[], T]) -> T:
    """Call the function in the thread that waits for the current call, and return its result."""
    call = _CALL.get()
    return cast(T, await call.ask(function))


# A blocking context manager around an asynchronous context manager. Entry, each use, and exit are separate
# portal calls.

S = TypeVar("S")
Trace = TracebackType | None


class OpenResource(Protocol):
    """An open resource, which is closed by the caller or by an object that uses the resource."""

    @property
    def portal(self) -> Portal: ...

    def before_leaving(self, close: Callable[[], Awaitable[None]]) -> None:
        """Register a function that is called before the resource is closed, to close a dependent object."""

    def check_open(self) -> None:
        """Raise `ValueError` if the resource is closed, as a closed Python file does."""

    def leave(self) -> None:
        """Close the resource, as the end of a `with` block does; a second call has no effect."""


class PortalContext(Generic[S, T]):
    """A blocking context manager around an asynchronous context manager.

    Args:
        make: A function that creates the asynchronous context manager in the portal's thread.
        dress: A function that creates the caller's value from the asynchronous value and this context.
        settle: A function that is called in the portal's thread after the context was entered. If `settle`
            returns True, the context is exited in the same portal call.
    """

    def __init__(
        self,
        home: Callable[[], Portal],
        make: Callable[[], Awaitable[AbstractAsyncContextManager[S]]],
        dress: Callable[[S, OpenResource], T],
        settle: Callable[[S], Awaitable[bool]] | None = None,
    ) -> None:
        self._home = home
        self._make = make
        self._settle = settle
        self._dress = dress
        self._portal: Portal | None = None
        self._opened: AbstractAsyncContextManager[S] | None = None
        self._closers: list[Callable[[], Awaitable[None]]] = []

    @property
    def portal(self) -> Portal:
        assert self._portal is not None, "it was entered"
        return self._portal

    def check_open(self) -> None:
        if self._opened is None:
            raise ValueError("the reply or session is closed: use it inside the with block")

    def before_leaving(self, close: Callable[[], Awaitable[None]]) -> None:
        self._closers.append(close)

    def __enter__(self) -> T:
        self._portal = self._home()
        try:
            return self._dress(self._portal.run(self._enter), self)
        except BaseException as error:
            self.__exit__(type(error), error, error.__traceback__)
            raise

    async def _enter(self) -> S:
        opened = await self._make()
        entered = await opened.__aenter__()
        self._opened = opened
        self.portal.opened.add(self)
        if self._settle is not None and await self._settle(entered):
            await self._leave(None, None, None)
        return entered

    async def leave_at_end(self) -> None:
        await self._leave(None, None, None)

    def leave(self) -> None:
        self.__exit__(None, None, None)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Trace) -> None:
        if self._opened is None or not self.portal.usable:
            return
        leave = partial(self._leave, kind, error, trace)
        if self.portal.is_here:  # The garbage collector may run this method in the portal's thread.
            self.portal.cast(leave)
            return
        with suppress(ThreadLost):
            self.portal.run(leave)

    async def _leave(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: Trace
    ) -> None:
        opened, self._opened = self._opened, None
        try:
            while self._closers:
                await self._closers.pop()()
        finally:
            if opened is not None:
                await opened.__aexit__(kind, error, trace)

    def __del__(self) -> None:
        if self._opened is not None:
            self.portal.cast(partial(self._leave, None, None, None))


T_co = TypeVar("T_co", covariant=True)


class ClosableIterator(Protocol[T_co]):
    """An async iterator that can be closed."""

    async def __anext__(self) -> T_co: ...

    async def aclose(self) -> None: ...


class PortalIterator(Generic[T]):
    """A blocking iterator around an asynchronous iterator.

    `make` creates the asynchronous iterator in trio's thread, at the first call of `next`. Callbacks run in
    the thread that waits for the next value.
    """

    def __init__(
        self,
        home: Callable[[], Portal],
        make: Callable[[], Awaitable[ClosableIterator[T]]],
    ) -> None:
        self._home = home
        self._make = make
        self._portal: Portal | None = None
        self._reader: PortalCall[None] | None = None
        self._given: ClosableIterator[T] | None = None
        self._values: list[T] = []
        self._error: BaseException | None = None

    def __iter__(self) -> PortalIterator[T]:
        return self

    def __next__(self) -> T:
        self._portal = self._portal or self._home()
        for value in self._portal.run(self._take_next):
            return value
        raise StopIteration

    def close(self) -> None:
        """Cancel the iteration, and wait for its end."""
        if self._portal is not None and self._portal.usable:
            with suppress(ThreadLost):
                self._portal.run(self._end)

    async def _take_next(self) -> list[T]:
        """Return the next value in a list, or an empty list at the end.

        If the thread no longer waits for the value, the value is stored for the next call.
        """
        if self._reader is None:
            assert self._portal is not None
            self._changed, self._wanted = trio.Event(), trio.Event()
            self._reader = self._portal.cast(self._read)
        self._wanted.set()
        with self._reader.attended():
            while not self._values:
                if isinstance(self._error, StopAsyncIteration):
                    return []
                if self._error is not None:
                    raise self._error
                self._changed = trio.Event()
                await self._changed.wait()
        return [self._values.pop()]

    async def _read(self) -> None:
        try:
            self._given = await self._make()
            while True:
                await self._wanted.wait()
                self._values.append(await self._given.__anext__())
                self._wanted = trio.Event()
                self._changed.set()
        except BaseException as error:
            self._error = ThreadLost() if isinstance(error, trio.Cancelled) else error
            raise
        finally:
            self._changed.set()

    async def _end(self) -> None:
        if self._given is not None:
            await self._given.aclose()
        if self._reader is not None:
            self._reader.cancel()


# Read-ahead: a task in trio's thread reads a body and passes large blocks of bytes to the calling thread.
#
# Passing a few bytes to another thread takes as much time as receiving them. So while the calling thread
# waits, the read-ahead task buffers up to 1 MiB of received bytes for up to 2 ms. If the calling thread does
# not wait, the task completes its current read and then stops reading (backpressure).

#: Maximum number of bytes that are passed to the calling thread in one block.
MOST = 1_048_576

#: The time in seconds for which received bytes are buffered to collect a larger block. Each block of bytes is
#: delayed only once.
MOMENT = 0.002


class ReadAhead:
    """A task that reads `body` ahead until `aclose` is called."""

    def __init__(self, body: AsyncIterable[bytes], portal: Portal) -> None:
        self._body = body
        self._pieces: list[bytes] = []
        self._held = 0
        self._wanted = 0
        self._awaited = 1
        self._enough = trio.Event()
        self._resumed = trio.Event()
        self._ended = trio.Event()
        self._error: BaseException | None = None
        self._reader = portal.cast(self._read)

    async def gather(self, least: int) -> bytes:
        """Wait for at least `least` bytes or the end of the body, and return the buffered bytes.

        The result is b"" at the end of the body. An error of the body is raised after all earlier bytes were
        returned.
        """
        with self._reader.attended():
            await self._wait(max(1, least), max(least, MOST))
            if self._held < MOST and not self._ended.is_set():
                with trio.move_on_after(MOMENT):
                    await self._wait(MOST, MOST)
            self._wanted = 0
        if not self._pieces and self._error is not None:
            raise self._error
        octets = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces, self._held = [], 0
        return octets

    async def _wait(self, least: int, most: int) -> None:
        """Wait until `least` bytes are buffered or the body has ended; reading stops at `most` bytes."""
        self._wanted, self._awaited = most, least
        self._resumed.set()
        if self._held < least and not self._ended.is_set():
            self._enough = trio.Event()
            await self._enough.wait()

    async def _read(self) -> None:
        try:
            async for octets in self._body:
                await self._put(octets)
        except BaseException as error:
            self._error = ThreadLost() if isinstance(error, trio.Cancelled) else error
            raise
        finally:
            self._ended.set()
            self._enough.set()

    async def _put(self, octets: bytes) -> None:
        self._pieces.append(octets)
        self._held += len(octets)
        if self._held >= self._awaited:
            self._enough.set()
        while self._held >= self._wanted:
            self._resumed = trio.Event()
            await self._resumed.wait()

    async def aclose(self) -> None:
        """Stop reading the body."""
        self._reader.cancel()
        await self._ended.wait()


class PortalBody:
    """The bytes of a response, which can be read once: iterate over blocks of up to 1 MiB, or call `read`."""

    def __init__(self, body: AsyncIterable[bytes], held: OpenResource) -> None:
        self._body = body
        self._opened = held
        self._ahead: ReadAhead | None = None
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
        while count < 0 or self._held < count:
            if not self._read_more(count - self._held if count >= 0 else 1 << 62):
                break
        return self._take(self._held if count < 0 else count)

    def read_some(self, most: int | None = None) -> bytes:
        """Wait for the first byte, and return at most `most` available bytes; b"" at the end of the body."""
        if not self._held:
            self._read_more(1)
        return self._take(self._held if most is None else most)

    @property
    def _held(self) -> int:
        return len(self._octets) - self._at

    def _take(self, count: int) -> bytes:
        whole = self._at == 0 and count >= len(self._octets)
        octets = self._octets if whole else self._octets[self._at : self._at + count]
        self._at += len(octets)
        if not self._held:
            self._octets, self._at = b"", 0
        return octets

    def _read_more(self, least: int) -> bool:
        """Buffer at least `least` more bytes, or all remaining bytes, and return whether bytes arrived."""
        self._opened.check_open()
        return self._opened.portal.run(partial(self._gather, least))

    async def _gather(self, least: int) -> bool:
        """Buffer the bytes in this object, so that a callback's exception or Ctrl-C does not lose them."""
        if self._ahead is None:
            self._ahead = ReadAhead(self._body, self._opened.portal)
            self._opened.before_leaving(self._ahead.aclose)
        octets = await self._ahead.gather(least)
        self._octets, self._at = self._octets[self._at :] + octets if self._held else octets, 0
        return bool(octets)
