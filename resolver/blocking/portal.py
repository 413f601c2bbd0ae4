"""The portal of blocking callers: a thread with an event loop, its calls, and the objects that cross it."""

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

#: The call that a task of ours works for.
_CALL: ContextVar[PortalCall[object]] = ContextVar("resolver.blocking.portal")

_INHERITED = (
    "this was opened before the process forked, and its connections are those of the parent: make a new one "
    "in the child"
)
_INSIDE = (
    "a blocking call in the thread in which url-resolver works would wait for itself: await the function of "
    "the same name, of the package resolver"
)
_ENDING = "the interpreter is shutting down: nothing can be fetched any more"


class ThreadLost(RuntimeError):
    """The thread ended before the call did, or is not there."""

    def __init__(self) -> None:
        super().__init__("the thread in which url-resolver works has ended")


#: What keeps connections until it is left.
Keeper: TypeAlias = "AbstractAsyncContextManager[object]"


class EnteredContext(Protocol):
    """What was opened in the thread, and is left there."""

    async def leave_at_end(self) -> None: ...


class Portal:
    """A thread and its trio run, until the process ends. `opened` is for that thread alone: what it leaves at
    its end, unless nobody has it any more by then."""

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
                scope.cancel()  # nobody waits for what a peer still has to say
                await opened.leave_at_end()
        for keeper in list(self._keepers):
            await keeper.__aexit__(None, None, None)

    def close_at_end(self, keeper: Keeper) -> None:
        """Leave it when the thread ends, unless nobody has it any more by then."""
        self.post(partial(self._keepers.add, keeper))

    @property
    def usable(self) -> bool:
        return not self._over and not self.inherited

    @property
    def is_here(self) -> bool:
        """Is this its thread?"""
        return threading.get_ident() == self._thread.ident

    def check(self) -> None:
        """Raises `RuntimeError` where a call would wait for ever."""
        if sys.is_finalizing():
            raise RuntimeError(_ENDING)
        if self.inherited:
            raise RuntimeError(_INHERITED)
        if self._over:
            raise ThreadLost
        if self.is_here:
            raise RuntimeError(_INSIDE)

    def run(self, operation: Callable[[], Awaitable[T]]) -> T:
        """Its result, once it has ended; what it raises is raised here."""
        self.check()
        return PortalCall(self, operation).result()

    def begin(self, call: PortalCall[T]) -> None:
        self.expect_end(call, partial(call.start, self._nursery))

    def expect_end(self, call: PortalCall[T], function: Callable[[], object]) -> None:
        """Post what leads to the end of the call; if the thread ends before, it is told so."""
        self._calls.add(cast("PortalCall[object]", call))
        self.post(function)

    def forget(self, call: PortalCall[T]) -> None:
        self._calls.discard(cast("PortalCall[object]", call))

    def post(self, function: Callable[[], object]) -> None:
        """Let trio's thread call this soon. Raises `ThreadLost` where it has ended."""
        try:
            self._token.run_sync_soon(function)
        except trio.RunFinishedError:
            raise ThreadLost from None

    def cast(self, operation: Callable[[], Awaitable[T]]) -> PortalCall[T]:
        """Run it, and let nobody wait for it; where there is no thread any more, there is nothing to do."""
        call = PortalCall(self, operation)
        if self.usable and not sys.is_finalizing():
            with suppress(ThreadLost):
                self.begin(call)
        return call

    def end(self) -> None:
        """Cancel what is under way, and have no more of it."""
        self.post(self._end)

    def _end(self) -> None:
        self._over = True
        self._nursery.cancel_scope.cancel()

    def close(self) -> None:
        """End, and wait until it has come to that."""
        atexit.unregister(self.close)
        if not self.inherited:
            with suppress(ThreadLost):
                self.end()
            self._thread.join()


class PortalCall(Generic[T]):
    """One operation under way. The thread that called empties its inbox: what stands there is to be called,
    and None is the end. Where nobody waits, it stays there until somebody attends to it."""

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
        """Wait for it, and run meanwhile what it wants to be run here."""
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
            self._error = None  # whose traceback has this frame

    def _attend(self) -> None:
        while (function := self._inbox.get()) is not None:
            function()
            if self._portal.inherited:
                raise RuntimeError(_INHERITED)

    def _give_up(self) -> None:
        """Cancel it, and wait for its end."""
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
        except RuntimeError:  # the nursery takes no more
            self._scope = None
            self.end()
        del self._context, self._operation  # what they hold is to live no longer than the task

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
        """In trio's thread. Its end is in the inbox soon, once more where it had come to it already."""
        if self._scope is None:
            self.end()
        else:
            self._scope.cancel()

    def end(self) -> None:
        self._portal.forget(self)
        self._inbox.put(None)

    @contextmanager
    def attended(self) -> Iterator[None]:
        """In trio's thread: what it has to tell and ask, the thread of the call that this task works for is
        told and asked meanwhile. An end that this call came to before is not that call's."""
        hearer = self._hearer = _CALL.get()
        while not self._inbox.empty():
            if (function := self._inbox.get_nowait()) is not None:
                hearer._inbox.put(function)
        try:
            yield
        finally:
            self._hearer = None

    def tell(self, function: Callable[[], object]) -> None:
        """The thread that called is to call this, as soon as it can."""
        (self._hearer or self)._inbox.put(function)

    async def ask(self, function: Callable[[], T]) -> T:
        """What it gives in the thread that called."""
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
    """The one that works, started where there is none."""
    global _portal
    found = _portal
    if found is not None and found.usable:
        return found
    if sys.is_finalizing():
        raise RuntimeError(_ENDING)
    with _starting:
        if _portal is None or not _portal.usable:
            _portal = Portal()
        return _portal


def _forget() -> None:
    """A child has nothing of its parent's but what is written in its memory."""
    global _portal, _starting
    if _portal is not None:
        _portal.inherited = True
    _portal, _starting = None, threading.RLock()


os.register_at_fork(after_in_child=_forget)


def tell(function: Callable[[], object]) -> None:
    """Have it called in the thread that waits for the call this task works for; here, if it is for none."""
    call = _CALL.get(None)
    if call is None:
        function()
    else:
        call.tell(function)


def make_thread_listener(listener: Callable[[A], object]) -> Callable[[A], None]:
    """The listener, called in that thread with one event after the other; nobody waits until it has heard."""

    def report(event: A) -> None:
        tell(partial(listener, event))

    return report


async def ask(function: Callable[[], T]) -> T:
    """What the function gives in the thread that waits for the call this task works for."""
    call = _CALL.get()
    return cast(T, await call.ask(function))


# A context manager for threads, made of an asynchronous one. Entering, each use and leaving are separate
# calls, and only the context itself stays open between them.

S = TypeVar("S")
Trace = TracebackType | None


class OpenResource(Protocol):
    """What is open as long as it is used."""

    @property
    def portal(self) -> Portal: ...

    def before_leaving(self, close: Callable[[], Awaitable[None]]) -> None:
        """What is to be closed first."""

    def check_open(self) -> None:
        """Raises `ValueError`, as a file does that is closed."""

    def leave(self) -> None:
        """Close it, as the end of a `with` does; once."""


class PortalContext(Generic[S, T]):
    """`make` makes what is entered, in the thread of the portal; `dress` makes of what it gives, and of this,
    what the caller gets."""

    def __init__(
        self,
        home: Callable[[], Portal],
        make: Callable[[], Awaitable[AbstractAsyncContextManager[S]]],
        dress: Callable[[S, OpenResource], T],
    ) -> None:
        self._home = home
        self._make = make
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
            raise ValueError("the body of a reply is read before the reply is left")

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
        return entered

    async def leave_at_end(self) -> None:
        await self._leave(None, None, None)

    def leave(self) -> None:
        self.__exit__(None, None, None)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Trace) -> None:
        if self._opened is None or not self.portal.usable:
            return
        leave = partial(self._leave, kind, error, trace)
        if self.portal.is_here:  # where what nobody holds any more happened to be found
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
    """An iterator. `make` makes the other one, in trio's thread, with the first value that is asked for. What
    it has to tell meanwhile, the thread that waits is told."""

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
        """Cancel what is under way, and wait until it has ended."""
        if self._portal is not None and self._portal.usable:
            with suppress(ThreadLost):
                self._portal.run(self._end)

    async def _take_next(self) -> list[T]:
        """One, or none at the end. It is kept where the thread does not wait for it any more."""
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


# A body that a task reads ahead for a thread that takes it in large pieces.
#
# Each crossing of threads costs as much as the bytes that come with it, if they are few. So bytes that arrive
# while the thread waits are gathered: up to a mebibyte, and for an unnoticeable time. A piece that was begun
# when the thread had enough is finished, and given with the next; otherwise no bytes are read that no caller
# waits for. All of this happens in trio's thread.

#: Octets that cross at once.
MOST = 1_048_576

#: Seconds for which octets that are here wait for more, once.
_MOMENT = 0.002


class ReadAhead:
    """`body` under a reader of its own, until `aclose`."""

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
        """What is here, once it is so many octets, or all there are; none at the end. What breaks the body
        is raised when all before it was given."""
        with self._reader.attended():
            await self._wait(max(1, least), max(least, MOST))
            if self._held < MOST and not self._ended.is_set():
                with trio.move_on_after(_MOMENT):
                    await self._wait(MOST, MOST)
            self._wanted = 0
        if not self._pieces and self._error is not None:
            raise self._error
        octets = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces, self._held = [], 0
        return octets

    async def _wait(self, least: int, most: int) -> None:
        """Until so many octets are here; the reader goes on until there are `most`."""
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
        """The body is nobody's business any more."""
        self._reader.cancel()
        await self._ended.wait()


class PortalBody:
    """The octets of an answer: iterate it for pieces as they come, of up to 1 MiB, or `read`; once."""

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
        """The next `count` octets, fewer only at the end; without a count all that are left."""
        while count < 0 or self._held < count:
            if not self._read_more(count - self._held if count >= 0 else 1 << 62):
                break
        return self._take(self._held if count < 0 else count)

    def read_some(self, most: int | None = None) -> bytes:
        """What is here, once there is anything, and at most so much; none at the end."""
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
        """Add at least so many to those that are held, unless they come to an end; did any come?"""
        self._opened.check_open()
        return self._opened.portal.run(partial(self._gather, least))

    async def _gather(self, least: int) -> bool:
        """They are held also if the call ends otherwise: with what a callback raises, or Ctrl-C."""
        if self._ahead is None:
            self._ahead = ReadAhead(self._body, self._opened.portal)
            self._opened.before_leaving(self._ahead.aclose)
        octets = await self._ahead.gather(least)
        self._octets, self._at = self._octets[self._at :] + octets if self._held else octets, 0
        return bool(octets)
