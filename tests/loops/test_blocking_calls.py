"""The tasks of blocking calls: Ctrl-C, threads that share a call's state, groups of errors, and locks."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from types import ModuleType
from typing import TypeVar

import pytest

from resolver import LocalError
from resolver.blocking.portal import PortalClosed, call_in_caller, portal
from resolver.loops import Event, is_cancel, running
from resolver.loops.calls import Call, ThreadRun, current_call
from tests.hang import HANG

T = TypeVar("T")


def run(operation: Callable[[], Coroutine[object, object, T]]) -> T:
    return portal().run(operation)


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Enable SIGINT, which is ignored if the tests run in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_call_raises_sigint_of_step_after_step() -> None:
    """An exception inside a step could leave the connection pool half changed."""
    steps: list[str] = []

    async def main() -> None:
        signal.raise_signal(signal.SIGINT)
        steps.append("the rest of the step")
        try:
            await running().sleep_forever()
        finally:
            steps.append("cancelled")

    with pytest.raises(KeyboardInterrupt):
        run(main)
    assert steps == ["the rest of the step", "cancelled"]


@pytest.mark.usefixtures("interruptible")
def test_call_raises_sigint_of_last_step() -> None:
    async def main() -> None:
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run(main)


@pytest.mark.usefixtures("interruptible")
def test_call_raises_sigint_of_callback_in_callback() -> None:
    async def main() -> None:
        await call_in_caller(lambda: signal.raise_signal(signal.SIGINT))

    with pytest.raises(KeyboardInterrupt):
        run(main)


@pytest.mark.usefixtures("interruptible")
def test_call_second_sigint_leaves_thread_to_its_work() -> None:
    """The first SIGINT waits for the work in another thread, the second does not."""
    cancelled, go, ended = threading.Event(), threading.Event(), threading.Event()
    ident = threading.main_thread().ident
    assert ident is not None

    def work() -> None:
        signal.pthread_kill(ident, signal.SIGINT)
        assert cancelled.wait(HANG)
        signal.pthread_kill(ident, signal.SIGINT)
        assert go.wait(HANG)

    async def wait() -> None:
        try:
            await running().sleep_forever()
        finally:
            cancelled.set()

    async def main() -> None:
        try:
            async with running().open_nursery() as nursery:
                nursery.start_soon(wait)
                await running().in_thread(work)
        finally:
            ended.set()

    home = ThreadRun()
    with pytest.raises(KeyboardInterrupt):
        Call(home, main).result()
    assert not ended.is_set()
    go.set()
    assert ended.wait(HANG)
    home.wait_for_calls()


def test_event_set_by_another_thread_wakes_call() -> None:
    waiting: list[Event] = []
    ready = threading.Event()

    async def wait() -> None:
        waiting.append(running().event())
        ready.set()
        await waiting[0].wait()

    async def wake() -> None:
        waiting[0].set()

    thread = threading.Thread(target=run, args=(wait,))
    thread.start()
    assert ready.wait(HANG)
    run(wake)
    thread.join(HANG)
    assert not thread.is_alive()


def test_descriptor_closed_by_another_thread_ends_wait() -> None:
    left, right = socket.socketpair()
    failed: list[Exception] = []
    ready = threading.Event()

    async def wait() -> None:
        loop = running()
        ready.set()
        try:
            await loop.readable_by(left, math.inf)
        except loop.closed as error:
            failed.append(error)

    async def close() -> None:
        running().notify_closing(left.fileno())
        left.close()

    thread = threading.Thread(target=run, args=(wait,))
    thread.start()
    assert ready.wait(HANG)
    run(close)
    thread.join(HANG)
    right.close()
    assert len(failed) == 1


def test_nursery_raises_errors_in_group_and_cancels_other_tasks() -> None:
    ends: list[type[BaseException]] = []

    async def fail() -> None:
        raise LookupError

    async def wait() -> None:
        try:
            await running().sleep_forever()
        except BaseException as error:
            ends.append(type(error))
            raise

    async def main() -> None:
        async with running().open_nursery() as nursery:
            nursery.start_soon(wait)
            nursery.start_soon(fail)
            await wait()

    with pytest.raises(BaseExceptionGroup) as caught:
        run(main)
    assert [type(error) for error in caught.value.exceptions] == [LookupError]
    assert len(ends) == 2
    assert all(map(is_cancel, ends))


def test_is_cancel_while_another_thread_imports_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "resolver.loops.on_asyncio"
    monkeypatch.setitem(sys.modules, name, ModuleType(name))
    assert not is_cancel(ValueError)


def test_outer_scope_ends_nursery() -> None:
    async def main() -> tuple[bool, bool]:
        loop = running()
        with loop.move_on_after(0) as outer:
            async with loop.open_nursery() as nursery:
                nursery.start_soon(loop.sleep_forever)  # type: ignore[arg-type]
        return outer.cancelled_caught, nursery.cancel_scope.cancelled_caught

    assert run(main) == (True, False)


def test_deadline_ends_task_that_never_waits() -> None:
    async def main() -> bool:
        loop = running()
        with loop.move_on_after(0.001) as scope:
            while True:
                await loop.checkpoint()
        return scope.cancelled_caught

    assert run(main)


def test_lock_is_acquired_in_order_without_cancelled_task() -> None:
    order: list[str] = []

    async def main() -> None:
        loop = running()
        lock = loop.lock()

        async def take(name: str) -> None:
            async with lock:
                order.append(name)
                await loop.checkpoint()

        async def give_up() -> None:
            with loop.move_on_after(0):
                await take("cancelled")

        async with loop.open_nursery() as nursery, lock:
            nursery.start_soon(take, "first")
            nursery.start_soon(give_up)
            nursery.start_soon(take, "second")
            await loop.sleep(0.001)

    run(main)
    assert order == ["first", "second"]


def test_call_awaiting_future_of_asyncio_raises() -> None:
    async def main() -> None:
        await asyncio.get_running_loop().create_future()

    async def outside() -> None:
        with pytest.raises(RuntimeError, match="cannot await a function of trio or asyncio"):
            run(main)

    asyncio.run(outside())


def test_call_without_descriptor_raises_local_error(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        raise AssertionError("it started")

    def refuse() -> tuple[int, int]:
        raise OSError(24, os.strerror(24))

    def in_new_thread() -> None:  # another thread may have a pipe already
        with pytest.raises(LocalError, match="Too many open files"):
            run(main)
        ended.append(True)

    ended: list[bool] = []
    monkeypatch.setattr(os, "pipe", refuse)
    thread = threading.Thread(target=in_new_thread)
    thread.start()
    thread.join(HANG)
    assert ended == [True]


def test_cancelled_call_ends_before_portal_closes_connections() -> None:
    ended: list[str] = []
    ready = threading.Event()

    async def main() -> None:
        call = current_call()
        assert call is not None
        ready.set()
        try:
            await running().sleep_forever()
        finally:
            ended.append("call")

    def wait() -> None:
        with pytest.raises(PortalClosed):
            own.run(main)

    own = type(portal())()
    thread = threading.Thread(target=wait)
    thread.start()
    assert ready.wait(HANG)
    own.close()
    assert ended == ["call"]
    thread.join(HANG)


@pytest.mark.parametrize(("scope", "wait", "result"), [(-2, -1, "cancelled"), (-1, -2, False)])
def test_call_ends_scope_and_wait_in_order_of_their_deadlines(
    scope: float, wait: float, result: object
) -> None:
    """Both deadlines have passed. The connect limit and the idle limit of a silent peer are an example."""

    async def main() -> object:
        with here, peer, running().move_on_at(math.inf) as limit:
            limit.deadline = scope
            return await running().readable_by(here, wait)
        return "cancelled"

    here, peer = socket.socketpair()
    assert run(main) == result
