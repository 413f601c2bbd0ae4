"""Blocking calls that run asynchronous operations in the calling thread, without an event loop library.

A `Call` runs one operation and the tasks that the operation starts. Only the calling thread runs these tasks,
and only while the thread holds the lock of its `ThreadRun`. The thread releases the lock while it waits for
descriptors. So tasks of several threads may share connections, events and locks, as the tasks of one event
loop do: another task runs only at an `await`.
"""

from __future__ import annotations

# The functions of `signal` also convert numbers to enumerations, which takes 15 times as long (30 µs a call).
import _signal  # type: ignore[import-not-found]
import math
import os
import select
import signal
import sys
import threading
import types
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import copy_context
from functools import partial
from operator import itemgetter
from time import monotonic
from typing import Any, Generic, TypeAlias, TypeVar

from protocols.errors import LocalError

T = TypeVar("T")

#: A function that ends the wait of a task for a cancellation. The function returns False if the task must
#: wait until the end.
Abort: TypeAlias = Callable[[], bool]
#: An asynchronous function, or a `partial` of one, without further arguments.
Operation: TypeAlias = Callable[[], Coroutine[Any, Any, T]]

INHERITED = (
    "this was opened before the process forked, and its connections are those of the parent: make a new one "
    "in the child"
)
_FOREIGN = "a blocking call cannot await a function of trio or asyncio"

#: Maximum duration of one wait in seconds, because poll(2) takes a 32-bit number of milliseconds.
_MAX_POLL = 1e6

_OTHER = {select.POLLIN: select.POLLOUT, select.POLLOUT: select.POLLIN}


class Cancelled(BaseException):
    """The cancellation of a task."""


class DescriptorClosed(Exception):
    """The descriptor was closed while a task waited for it."""


class _ThreadState(threading.local):
    """The task and the call that the current thread runs.

    A callback of the user runs without a call. `spare` is a `Poller` for the next call.
    """

    task: ThreadTask | None = None
    call: Call[Any] | None = None
    spare: Poller | None = None


_current = _ThreadState()


def _forget_poller() -> None:
    """Forget the pipe of the forked thread, because the pipe also wakes the parent process."""
    global _current
    _current = _ThreadState()


os.register_at_fork(after_in_child=_forget_poller)


def current_task() -> ThreadTask:
    task = _current.task
    assert task is not None, "the caller runs in a task"
    return task


def current_call() -> Call[Any] | None:
    """Return the call to which the current task belongs, or None outside a task."""
    return None if _current.task is None else _current.task.call


def is_running() -> bool:
    """Return whether the current code runs in a task of a blocking call."""
    return _current.task is not None


def is_driving() -> bool:
    """Return whether the current thread runs the tasks of a blocking call."""
    return _current.call is not None


class ThreadRun:
    """The state that the blocking calls of all threads share.

    Attributes:
        lock: the lock that a thread holds while it runs tasks.
        calls: the running calls.
        ended: a condition that is notified at the end of each call.
        inherited: whether the process is a fork of the process that created this object.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.calls: set[Call[Any]] = set()
        self.ended = threading.Condition(self.lock)
        self.inherited = False

    def wait_for_calls(self) -> None:
        """Wait until all calls have ended, except calls whose threads run a function of the user."""
        with self.ended:
            self.ended.wait_for(lambda: all(call.is_in_callback for call in self.calls))

    def release(self) -> None:
        """Release the lock, which an interrupted thread may have acquired twice."""
        try:
            while True:
                self.lock.release()
        except RuntimeError:  # This thread no longer holds the lock.
            pass


class Poller:
    """The descriptors for which a call waits, and a pipe with which other threads end the wait."""

    def __init__(self, out: int, into: int) -> None:
        self._out, self._in = out, into
        self.polled = select.poll()
        self.polled.register(out, select.POLLIN)

    def wake(self) -> None:
        os.write(self._in, b"w")

    def poll(self, seconds: float) -> list[tuple[int, int]]:
        """Wait, and return the descriptors that are ready, with their events."""
        ready = self.polled.poll(math.ceil(min(max(seconds, 0), _MAX_POLL) * 1000))
        for fd, _ in ready:
            if fd == self._out:
                os.read(fd, 4096)
                return [item for item in ready if item[0] != fd]
        return ready

    def __del__(self) -> None:
        os.close(self._out)
        os.close(self._in)


class ThreadScope:
    """The implementation of `CancelScope`; `call` is the call whose tasks a cancellation interrupts."""

    __slots__ = ("_deadline", "_task", "call", "cancelled", "cancelled_caught", "outer")

    def __init__(self, deadline: float = math.inf, call: Call[Any] | None = None) -> None:
        self._deadline = deadline
        self.cancelled = self.cancelled_caught = False
        self.outer: ThreadScope | None = None
        self.call = call
        self._task: ThreadTask | None = None

    @property
    def deadline(self) -> float:
        return self._deadline

    @deadline.setter
    def deadline(self, deadline: float) -> None:
        self._deadline = deadline
        if self.call is not None:
            self.call.wake_at(deadline)

    @property
    def is_cancelled(self) -> bool:
        """Return whether this scope or an outer scope is cancelled."""
        scope: ThreadScope | None = self
        while scope is not None:
            if scope.cancelled:
                return True
            scope = scope.outer
        return False

    def cancel(self) -> None:
        self.cancelled = True
        if self.call is not None:
            self.call.interrupt_cancelled()

    def __enter__(self) -> ThreadScope:
        task = self._task = current_task()
        self.outer, task.scope, self.call = task.scope, self, task.call
        task.call.scopes.add(self)
        task.call.wake_at(self._deadline)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> bool:
        task, self._task, self.call = self._task, None, None
        assert task is not None, "it was entered"
        assert self.outer is not None
        task.scope = self.outer
        task.call.scopes.discard(self)
        if self.cancelled and isinstance(error, Cancelled) and not self.outer.is_cancelled:
            self.cancelled_caught = True
        return self.cancelled_caught


@types.coroutine
def suspend(abort: Abort) -> Generator[tuple[Abort], Any, Any]:
    """Suspend the current task until `resume`; a cancellation calls `abort` first."""
    return (yield (abort,))


def wait_to_end() -> bool:
    return False


class ThreadTask:
    """A task of a call; `abort` is set only while the task is suspended.

    `on_end` receives the task, its result and its exception.
    """

    __slots__ = ("_context", "_coroutine", "_error", "_on_end", "_value", "abort", "call", "scope")

    def __init__(
        self,
        call: Call[Any],
        coroutine: Coroutine[Any, Any, Any],
        scope: ThreadScope,
        on_end: Callable[[ThreadTask, Any, BaseException | None], None],
    ) -> None:
        self.call, self.scope = call, scope
        self._coroutine, self._context, self._on_end = coroutine, copy_context(), on_end
        self.abort: Abort | None = None
        self._value: Any = None
        self._error: BaseException | None = None
        call.tasks.add(self)
        call.ready.append(self)
        call.wake()

    def resume(self, value: Any = None, error: BaseException | None = None) -> None:
        """Schedule the suspended task with the result of its wait."""
        self.abort, self._value, self._error = None, value, error
        self.call.ready.append(self)
        self.call.wake()

    def interrupt(self) -> None:
        """Cancel the wait of the task."""
        if self.abort is not None and self.abort():
            self.resume(error=Cancelled())

    def step(self) -> None:
        """Run the task until its next wait."""
        value, error, self._value, self._error = self._value, self._error, None, None
        _current.task = self
        try:
            if error is None:
                aborts = self._context.run(self._coroutine.send, value)
            else:
                aborts = self._context.run(self._coroutine.throw, error)
            if type(aborts) is not tuple:  # trio and asyncio yield other types
                self.resume(error=RuntimeError(_FOREIGN))
            elif aborts:
                (self.abort,) = aborts
        except StopIteration as end:
            self._end(end.value, None)
        except BaseException as raised:  # noqa: BLE001 - raised in the nursery or in the calling thread
            self._end(None, raised)
        finally:
            _current.task = None
            del error

    def _end(self, value: Any, error: BaseException | None) -> None:
        self.call.tasks.discard(self)
        self._on_end(self, value, error)


def _interrupt(number: int, frame: types.FrameType | None) -> None:
    """Raise `KeyboardInterrupt` in a callback of the user, or else between two steps of the tasks.

    In a step, the exception could leave the shared state, such as the connection pool, half changed.
    """
    if (call := _current.call) is None:
        raise KeyboardInterrupt
    call.interrupt()


def _catches_interrupts() -> bool:
    """Return whether a call handles Ctrl-C: in the main thread, unless the program has its own handler."""
    is_default = _signal.getsignal(signal.SIGINT) is signal.default_int_handler
    return is_default and threading.get_ident() == threading.main_thread().ident


def _take_poller() -> Poller:
    """Return an unused poller of this thread, or a new one."""
    poller, _current.spare = _current.spare, None
    try:
        return poller or Poller(*os.pipe())
    except OSError as error:
        words = f"cannot wait for a connection: {os.strerror(error.errno or 0)} (reduce concurrency)"
        raise LocalError(words) from error


class Call(Generic[T]):
    """An operation that runs in the calling thread, with the functions that the thread must call.

    Args:
        home: the state that all calls share.
        operation: the operation.
        is_background: whether no caller waits for the call. Another call then takes over the functions of
            this call (`forward_to`).

    Raises:
        LocalError: the process has no file descriptor left.

    Attributes:
        tasks: the tasks that have not ended.
        ready: the tasks that can continue.
        scopes: the cancel scopes whose blocks have not ended.
        background: the cancel scopes of the background tasks, which the end of the operation cancels.
        is_in_callback: whether the calling thread runs a function of the user.
    """

    def __init__(self, home: ThreadRun, operation: Operation[T], *, is_background: bool = False) -> None:
        self.home = home
        self._operation: Operation[T] | None = operation
        self._is_background = is_background
        self._poller = _take_poller()
        self._callbacks: deque[Callable[[], object]] = deque()
        self._ignores_callbacks = False
        self._delegate: Call[Any] | None = None
        self.tasks: set[ThreadTask] = set()
        self.ready: deque[ThreadTask] = deque()
        self.scopes: set[ThreadScope] = set()
        self.background: set[ThreadScope] = set()
        self._waits: dict[tuple[int, int], tuple[ThreadTask, float]] = {}
        self._next_deadline = math.inf  # no deadline is earlier
        self._is_polling = self.is_in_callback = self._is_interrupted = False
        self._scope = ThreadScope()
        self._values: list[T] = []
        self._error: BaseException | None = None

    def result(self) -> T:
        """Run the operation, and return its result or raise its exception.

        An exception in the calling thread (Ctrl-C, or from a callback) cancels the operation, and is raised
        after the operation has ended. A second Ctrl-C is raised immediately; another thread then ends the
        operation.
        """
        try:
            self.run()
            if self._error is not None:
                raise self._error
            return self._values[0]
        finally:
            # The traceback of the error refers to this frame. The attribute is deleted to avoid a reference
            # cycle.
            self._error = None

    def run(self) -> None:
        """Run the operation, and raise only an exception in the calling thread."""
        outer, hooks = _current.call, sys.get_asyncgen_hooks()
        if hooks != (None, None):  # The hooks belong to an event loop in which a task makes this call.
            sys.set_asyncgen_hooks(None, None)
        catches = _catches_interrupts()
        try:
            _current.call = self
            if catches:
                _signal.signal(signal.SIGINT, _interrupt)
            self.home.lock.acquire()
            self._run_tasks()
        finally:
            try:
                _current.call = outer
                self.home.release()
                if hooks != (None, None):
                    sys.set_asyncgen_hooks(*hooks)
            finally:
                if catches:
                    _signal.signal(signal.SIGINT, signal.default_int_handler)
            if self.tasks and not self.home.inherited:
                threading.Thread(target=self._end_in_thread, daemon=True).start()
        if self._is_interrupted:
            raise KeyboardInterrupt

    def _run_tasks(self) -> None:
        """Run all tasks to their ends."""
        interrupt: BaseException | None = None
        self.home.calls.add(self)
        while self._operation is not None or self.tasks:
            try:
                if self._operation is not None:
                    ThreadTask(self, self._operation(), self._scope, self._end_root)
                    self._operation = None
                self._run_ready()
                self._wait()
                if self._is_interrupted:
                    self._is_interrupted = False
                    raise KeyboardInterrupt
            except BaseException as error:
                if self.home.inherited or interrupt is not None:
                    raise
                interrupt = error
                self._abort()
        self._leave()
        if interrupt is not None:
            raise interrupt

    def _end_root(self, task: ThreadTask, value: T, error: BaseException | None) -> None:
        if error is None:
            self._values.append(value)
        self._error = error
        for scope in self.background:
            scope.cancel()

    def _abort(self) -> None:
        """Cancel the operation after an exception, which may have interrupted any method of this class."""
        self.home.release()
        self.home.lock.acquire()
        _current.call, self.is_in_callback, self._is_polling = self, False, False
        self._ignores_callbacks, self._operation = True, None
        self._callbacks.clear()
        self.ready.extend(task for task in self.tasks if task.abort is None and task not in self.ready)
        self._cancel_tasks()

    def _end_in_thread(self) -> None:
        _current.call = self
        with self.home.lock:
            while self.tasks:
                self._run_ready()
                self._wait()
            self._leave()

    def _leave(self) -> None:
        self.home.calls.discard(self)
        if not self._waits:
            _current.spare = self._poller
        self.home.ended.notify_all()

    @property
    def has_work(self) -> bool:
        """Return whether the thread has anything to do while the running task lets others run."""
        is_alone = len(self.home.calls) == 1 and not (self.ready or self._waits or self._callbacks)
        return not is_alone or self._is_interrupted or self._next_deadline <= monotonic()

    def _run_ready(self) -> None:
        for _ in range(len(self.ready)):
            self.ready.popleft().step()
        while self._callbacks and not self._is_background:
            self._call_back(self._callbacks.popleft())

    def _call_back(self, function: Callable[[], object]) -> None:
        """Call a function of the user; other threads may run their tasks at the same time."""
        try:
            _current.call, self.is_in_callback = None, True
            self.home.lock.release()
            function()
        finally:
            if self.home.inherited:
                raise RuntimeError(INHERITED)
            self.home.lock.acquire()
            _current.call, self.is_in_callback = self, False

    def _wait(self) -> None:
        """Wait until a task can continue."""
        ready: list[tuple[int, int]] = []
        if self.tasks and (not self.ready or self._waits or len(self.home.calls) > 1):
            try:
                self._is_polling = True
                self.home.lock.release()
                ready = self._poller.poll(0 if self.ready else self._next_deadline - monotonic())
            finally:
                self.home.lock.acquire()
                self._is_polling = False
        for fd, events in ready:
            for event in _OTHER:
                # After an error or a hang-up, reading and writing raise an error or succeed.
                if events & event or events & ~(select.POLLIN | select.POLLOUT):
                    self._end_wait(fd, event, value=True)
        if self._next_deadline <= monotonic():
            self._expire()

    def _expire(self) -> None:
        """End the waits and scopes whose deadlines have passed, and find the next deadline.

        They end in the order of their deadlines. Otherwise, a read could report the idle limit although the
        connect limit was earlier.
        """
        now, self._next_deadline = monotonic(), math.inf
        expired: list[tuple[float, Callable[[], None]]] = []
        for scope in self.scopes:
            if scope.deadline > now:
                self.wake_at(scope.deadline)
            elif not scope.cancelled:
                expired.append((scope.deadline, scope.cancel))
        for (fd, event), (_, deadline) in self._waits.items():
            if deadline > now:
                self.wake_at(deadline)
            else:
                expired.append((deadline, partial(self._end_wait, fd, event, value=False)))
        for _, end in sorted(expired, key=itemgetter(0)):
            end()

    def interrupt(self) -> None:
        """Raise `KeyboardInterrupt` after the current step or wait."""
        self._is_interrupted = True
        self._poller.wake()

    def wake_at(self, deadline: float) -> None:
        """Examine the deadlines at this time at the latest."""
        if deadline < self._next_deadline:
            self._next_deadline = deadline
            self.wake()

    def wake(self) -> None:
        """Continue the thread of this call if the thread waits for descriptors."""
        if self._is_polling:
            self._is_polling = False
            self._poller.wake()

    def start_wait(self, task: ThreadTask, fd: int, event: int, deadline: float) -> Abort:
        assert (fd, event) not in self._waits, "one task at a time waits for an event of a descriptor"
        other = _OTHER[event]
        self._poller.polled.register(fd, event | other if (fd, other) in self._waits else event)
        self._waits[fd, event] = task, deadline
        self.wake_at(deadline)
        return partial(self._forget_wait, fd, event)

    def _forget_wait(self, fd: int, event: int) -> bool:
        del self._waits[fd, event]
        if (fd, _OTHER[event]) in self._waits:
            self._poller.polled.register(fd, _OTHER[event])
        else:
            self._poller.polled.unregister(fd)
        return True

    def _end_wait(self, fd: int, event: int, *, value: bool, error: BaseException | None = None) -> None:
        if (wait := self._waits.get((fd, event))) is not None:
            self._forget_wait(fd, event)
            wait[0].resume(value, error)

    def close_descriptor(self, fd: int) -> None:
        """Raise `DescriptorClosed` in the tasks that wait for the descriptor."""
        for event in _OTHER:
            self._end_wait(fd, event, value=False, error=DescriptorClosed("the descriptor was closed"))

    def cancel(self) -> None:
        with self.home.lock:
            self._cancel_tasks()

    def _cancel_tasks(self) -> None:
        """Cancel all tasks. The outermost scope has no reference to the call, to avoid a cycle."""
        self._scope.cancelled = True
        self.interrupt_cancelled()

    def interrupt_cancelled(self) -> None:
        """Cancel the waits of the tasks whose scopes are cancelled."""
        for task in self.tasks:
            if task.scope.is_cancelled:
                task.interrupt()

    def call_soon(self, function: Callable[[], object]) -> None:
        """Let the calling thread call the function, between two steps of its tasks."""
        delegate = self._delegate or self
        if not delegate._ignores_callbacks:
            delegate._callbacks.append(function)
            delegate.wake()

    def forward_to(self, delegate: Call[Any] | None) -> None:
        """Forward the functions of this call to another call, or with None, keep them."""
        self._delegate = delegate
        while delegate is not None and self._callbacks:
            delegate.call_soon(self._callbacks.popleft())
