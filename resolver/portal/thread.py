"""The thread and its calls."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from contextvars import ContextVar, copy_context
from functools import partial
from queue import SimpleQueue
from typing import Generic, Protocol, TypeAlias, TypeVar, cast
from weakref import WeakSet

import trio

from protocols.errors import ResolveError
from resolver.tracebacks import outermost

A = TypeVar("A")
T = TypeVar("T")

#: The call that a task of ours works for.
_CALL: ContextVar[PortalCall[object]] = ContextVar("resolver.portal")

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
            self._error = outermost(error)
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


def told(listener: Callable[[A], object]) -> Callable[[A], None]:
    """The listener, called in that thread with one event after the other; nobody waits until it has heard."""

    def report(event: A) -> None:
        tell(partial(listener, event))

    return report


async def ask(function: Callable[[], T]) -> T:
    """What the function gives in the thread that waits for the call this task works for."""
    call = _CALL.get()
    return cast(T, await call.ask(function))
