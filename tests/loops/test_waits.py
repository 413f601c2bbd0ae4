"""Waits for a descriptor with a deadline, and background tasks, under each loop.

A wait with a deadline does not use a cancel scope, and behaves as if it did.
"""

from __future__ import annotations

import asyncio
import math
import os
import socket
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeAlias

import anyio
import pytest
import trio
import trio.testing
import uvloop

from resolver.blocking.portal import portal
from resolver.loops import Loop, running

#: A runner for each loop.
RUNS: dict[str, Callable[..., Any]] = {
    "blocking": lambda function, *given: portal().run(partial(function, *given)),
    "trio": trio.run,
    "asyncio": lambda function, *given: asyncio.run(function(*given)),
    "uvloop": lambda function, *given: uvloop.run(function(*given)),
}
#: An expired deadline on each clock.
OVER = 0.0

Pair: TypeAlias = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.setblocking(False)
        yield ours, theirs


def fill(sock: socket.socket) -> None:
    while True:
        try:
            sock.send(bytes(65_536))
        except BlockingIOError:
            return


def empty(sock: socket.socket) -> None:
    while True:
        try:
            sock.recv(65_536)
        except BlockingIOError:
            return


class Waits:
    """Concurrent waits, and the result of each."""

    def __init__(self) -> None:
        self.loop: Loop = running()
        self.came: dict[str, bool | BaseException] = {}
        self._ended = self.loop.event()

    async def readable(self, name: str, sock: socket.socket, deadline: float) -> None:
        await self._note(name, self.loop.readable_by(sock, deadline))

    async def writable(self, name: str, sock: socket.socket, deadline: float) -> None:
        await self._note(name, self.loop.writable_by(sock, deadline))

    async def _note(self, name: str, waiting: Any) -> None:
        try:
            self.came[name] = await waiting
        except self.loop.closed as error:
            self.came[name] = error
        self._ended.set()

    async def wait_for_one(self) -> None:
        await self._ended.wait()
        self._ended = self.loop.event()


@pytest.mark.parametrize("one", RUNS)
def test_ready_descriptor_is_in_time(one: str, pair: Pair) -> None:
    async def main() -> tuple[bool, bool]:
        pair[1].send(b"x")
        loop = running()
        return await loop.readable_by(pair[0], math.inf), await loop.writable_by(pair[0], math.inf)

    assert RUNS[one](main) == (True, True)


@pytest.mark.parametrize("one", RUNS)
def test_unready_descriptor_is_late_repeatedly(one: str, pair: Pair) -> None:
    """Repeatedly: an expired wait leaves no state."""
    fill(pair[0])

    async def main() -> list[bool]:
        loop, came = running(), []
        for _ in range(3):
            came.append(await loop.readable_by(pair[0], OVER))
            came.append(await loop.writable_by(pair[0], OVER))
        pair[1].send(b"x")
        return [*came, await loop.readable_by(pair[0], math.inf)]

    assert RUNS[one](main) == [False] * 6 + [True]


@pytest.mark.parametrize("one", RUNS)
def test_expired_wait_leaves_concurrent_wait_running(one: str, pair: Pair) -> None:
    """The second wait is for writing, on the same socket, with a later deadline."""
    fill(pair[0])

    async def main() -> dict[str, bool | BaseException]:
        waits = Waits()
        async with waits.loop.open_nursery() as nursery:
            nursery.start_soon(waits.writable, "write", pair[0], math.inf)
            await waits.loop.checkpoint()
            nursery.start_soon(waits.readable, "read", pair[0], OVER)
            await waits.wait_for_one()
            assert waits.came == {"read": False}
            for _ in range(10):
                await waits.loop.checkpoint()
            assert waits.came == {"read": False}
            empty(pair[1])
        return waits.came

    assert RUNS[one](main) == {"read": False, "write": True}


@pytest.mark.parametrize("one", RUNS)
@pytest.mark.parametrize("deadline", [math.inf, 1e9])
def test_closing_descriptor_ends_wait(one: str, deadline: float, pair: Pair) -> None:
    async def main() -> bool | BaseException:
        waits = Waits()
        async with waits.loop.open_nursery() as nursery:
            nursery.start_soon(waits.readable, "read", pair[0], deadline)
            for _ in range(10):
                await waits.loop.checkpoint()
            waits.loop.notify_closing(pair[0].fileno())
            pair[0].close()
        assert isinstance(waits.came["read"], waits.loop.closed)
        return waits.came["read"]

    RUNS[one](main)


@pytest.mark.parametrize("one", ["asyncio", "uvloop"])
def test_wait_beside_another_wait_is_in_time_late_or_closed(one: str, pair: Pair) -> None:
    """The descriptor becomes ready, or is closed, in the first turn of the second wait."""

    async def main() -> list[bool | BaseException]:
        waits, came, (near, far) = Waits(), list[bool | BaseException](), socket.socketpair()
        near.setblocking(False)
        with near, far:
            async with waits.loop.open_nursery() as nursery:
                nursery.start_soon(waits.readable, "other", pair[0], math.inf)
                await waits.loop.checkpoint()
                came.append(await waits.loop.writable_by(near, math.inf))
                came.append(await waits.loop.readable_by(near, OVER))
                far.send(b"x")
                came.append(await waits.loop.readable_by(near, math.inf))
                near.recv(1)
                nursery.start_soon(waits.readable, "closed", near, math.inf)
                await waits.loop.checkpoint()
                waits.loop.notify_closing(near.fileno())
                near.close()
                await waits.wait_for_one()
                assert isinstance(waits.came["closed"], waits.loop.closed)
                pair[1].send(b"x")
        return [*came, waits.came["other"]]

    assert RUNS[one](main) == [True, False, True, True]


@pytest.mark.parametrize("one", RUNS)
def test_ended_wait_leaves_wait_for_reused_number_running(one: str, pair: Pair) -> None:
    """The next wait begins before the task of the ended wait runs again."""

    async def main() -> bool:
        waits, (near, far) = Waits(), socket.socketpair()

        async def send_later() -> None:
            for _ in range(10):
                await waits.loop.checkpoint()
            far.send(b"x")

        async with waits.loop.open_nursery() as nursery:
            nursery.start_soon(waits.readable, "read", pair[0], math.inf)
            for _ in range(10):
                await waits.loop.checkpoint()
            waits.loop.notify_closing(pair[0].fileno())
            number = pair[0].detach()
            os.dup2(near.fileno(), number)
            nursery.start_soon(send_later)
            with near, far, socket.socket(fileno=number) as reused:
                return await waits.loop.readable_by(reused, math.inf)

    assert RUNS[one](main)


@pytest.mark.parametrize("one", ["asyncio", "uvloop"])
def test_second_wait_for_same_direction_is_an_error(one: str, pair: Pair) -> None:
    async def main() -> dict[str, bool | BaseException]:
        waits = Waits()
        async with waits.loop.open_nursery() as nursery:
            nursery.start_soon(waits.readable, "read", pair[0], math.inf)
            await waits.loop.checkpoint()
            with pytest.raises(anyio.BusyResourceError):
                await waits.loop.readable_by(pair[0], math.inf)
            pair[1].send(b"x")
        return waits.came

    assert RUNS[one](main) == {"read": True}


@pytest.mark.parametrize("one", RUNS)
def test_canceled_wait_leaves_next_wait_working(one: str, pair: Pair) -> None:
    async def main() -> bool:
        waits = Waits()
        async with waits.loop.open_nursery() as nursery:
            nursery.start_soon(waits.readable, "read", pair[0], math.inf)
            for _ in range(10):
                await waits.loop.checkpoint()
            nursery.cancel_scope.cancel()
        assert waits.came == {}
        pair[1].send(b"x")
        return await waits.loop.readable_by(pair[0], math.inf)

    assert RUNS[one](main)


async def test_waits_end_at_their_deadlines(pair: Pair, autojump_clock: trio.testing.MockClock) -> None:
    """Also a waiter that comes later with an earlier deadline, and one after all others have ended."""
    began, ended = trio.current_time(), {}
    others = [socket.socketpair() for _ in range(3)]

    async def wait(sock: socket.socket, seconds: float) -> None:
        assert not await running().readable_by(sock, began + seconds)
        ended[seconds] = trio.current_time() - began

    async with trio.open_nursery() as nursery:
        for seconds, (sock, _) in zip((5, 2, 9), others, strict=True):
            nursery.start_soon(wait, sock, seconds)
            await trio.testing.wait_all_tasks_blocked()
    await wait(pair[0], 12)
    assert ended == {seconds: pytest.approx(seconds) for seconds in (2, 5, 9, 12)}
    for each in [*others[0], *others[1], *others[2]]:
        each.close()


# Background tasks, and the tasks that wait for them, under each loop.

#: Turns of a loop after which a canceled task has resumed.
_TURNS = 10


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_canceled_waiter_still_waits_for_background_task(run: Callable[..., Any]) -> None:
    ended: list[str] = []

    async def main() -> None:
        loop = running()
        go = loop.event()

        async def work() -> None:
            await go.wait()
            ended.append("work")

        async def wait(name: str) -> None:
            with loop.move_on_at(OVER):
                await background.wait()
            ended.append(name)

        background = loop.in_background(work)
        async with loop.open_nursery() as nursery:
            for name in ("one", "two"):
                nursery.start_soon(wait, name)
            for _ in range(_TURNS):
                await loop.checkpoint()
            go.set()
        await background.wait()  # the task has ended

    run(main)
    assert ended[0] == "work"
    assert sorted(ended[1:]) == ["one", "two"]


@pytest.mark.parametrize("run", [RUNS["asyncio"], RUNS["uvloop"]], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("is_native", [False, True])
def test_checkpoint_raises_cancellation_of_a_runnable_task(run: Callable[..., Any], is_native: bool) -> None:
    async def check() -> None:
        waiting, passed = asyncio.Event(), list[str]()
        scope = anyio.CancelScope()

        async def work() -> None:
            with scope:
                await waiting.wait()
                await running().checkpoint_if_cancelled()
                passed.append("cancelled")

        task = asyncio.ensure_future(work())
        await asyncio.sleep(0)
        (task if is_native else scope).cancel()
        waiting.set()
        await asyncio.wait([task])
        assert not passed

    async def cancel_itself() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running().checkpoint_if_cancelled()

    run(check)
    if is_native:
        run(cancel_itself)
