"""The asyncio loop of the simulated world: virtual time, the order of tasks, and trio as a guest."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
import trio

from resolver.testing.world import Hung, virtual_loop
from resolver.testing.world.virtual_loop import run


def run_seed(main: Callable[[], Awaitable[Any]], seed: int = 0) -> Any:
    problems: list[str] = []
    result = run(main, str(seed), problems)
    assert problems == []
    return result


async def order_of_tasks() -> tuple[int, ...]:
    ran: list[int] = []

    async def work(number: int) -> None:
        await asyncio.sleep(0)
        ran.append(number)

    await asyncio.gather(*(work(number) for number in range(5)))
    return tuple(ran)


def test_loop_seed_gives_order_of_tasks() -> None:
    orders = [run_seed(order_of_tasks, seed) for seed in range(10)]
    assert orders == [run_seed(order_of_tasks, seed) for seed in range(10)]
    assert len(set(orders)) > 5
    assert {tuple(sorted(order)) for order in orders} == {(0, 1, 2, 3, 4)}


@pytest.mark.parametrize("seed", range(5))
def test_loop_keeps_order_of_callbacks_and_of_steps_around_them(seed: int) -> None:
    ran: list[str] = []

    async def work(name: str) -> None:
        ran.append(name)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(work("first")), loop.create_task(work("first"))]
        for number in range(3):
            loop.call_soon(ran.append, str(number))
        tasks.append(loop.create_task(work("last")))
        await asyncio.wait(tasks)

    run_seed(main, seed)
    assert ran == ["first", "first", "0", "1", "2", "last"]


def test_loop_clock_advances_to_next_deadline_of_either_library() -> None:
    times: list[tuple[str, float]] = []

    async def peer() -> None:
        for seconds in (10, 30):
            await trio.sleep(seconds)
            times.append(("trio", trio.current_time()))

    async def main() -> None:
        trio.lowlevel.spawn_system_task(peer)
        for seconds in (20, 30):
            await asyncio.sleep(seconds)
            times.append(("asyncio", asyncio.get_running_loop().time()))

    run_seed(main)
    assert times == [("trio", 10), ("asyncio", 20), ("trio", 40), ("asyncio", 50)]


def test_loop_passes_bytes_between_libraries_without_time() -> None:
    near, far = socket.socketpair()
    near.setblocking(False)

    async def peer() -> None:
        stream = trio.SocketStream(trio.socket.from_stdlib_socket(far))
        await stream.send_all((await stream.receive_some(100)).upper())
        await stream.aclose()

    async def main() -> tuple[bytes, float]:
        loop = asyncio.get_running_loop()
        trio.lowlevel.spawn_system_task(peer)
        await asyncio.sleep(5)
        await loop.sock_sendall(near, b"ping")
        return await loop.sock_recv(near, 100), loop.time()

    with near:
        assert run_seed(main) == (b"PING", 5)


def test_loop_clock_advances_while_anyio_delivers_cancellation() -> None:
    """Anyio delivers in each turn, and the task ends only after a sleep."""
    deliveries = 0

    async def main() -> float:
        nonlocal deliveries
        with anyio.CancelScope() as scope:
            scope.cancel()
            for _ in range(3):
                try:
                    await asyncio.sleep(100)
                except asyncio.CancelledError:
                    deliveries += 1
            with anyio.CancelScope(shield=True):
                await asyncio.sleep(100)
            await asyncio.sleep(0)
        return asyncio.get_running_loop().time()

    assert run_seed(main) == 100
    assert deliveries == 3


def test_loop_clock_advances_while_task_polls() -> None:
    async def main() -> None:
        waiting = asyncio.create_task(asyncio.sleep(50))
        while not waiting.done():  # noqa: ASYNC110 - the poll is the subject
            await asyncio.sleep(0)

    run_seed(main)


def test_loop_clock_keeps_deadline_of_trio_while_trio_task_polls() -> None:
    times: list[float] = []

    async def sleep() -> None:
        await trio.sleep(10)
        times.append(trio.current_time())

    async def poll() -> None:
        while not times:
            await trio.lowlevel.checkpoint()

    async def main() -> None:
        trio.lowlevel.spawn_system_task(sleep)
        trio.lowlevel.spawn_system_task(poll)
        await asyncio.sleep(50)
        times.append(asyncio.get_running_loop().time())

    run_seed(main)
    assert times == [10, 50]


def test_loop_without_ready_task_or_deadline_is_hung() -> None:
    async def main() -> None:
        await asyncio.Event().wait()

    with pytest.raises(Hung):
        run(main, "0", [])


def test_loop_with_too_many_deadlines_is_hung(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        while True:  # noqa: ASYNC110 - the wait never ends
            await asyncio.sleep(0.2)

    monkeypatch.setattr(virtual_loop, "_MAX_ADVANCES", 1_000)
    with pytest.raises(Hung):
        run(main, "0", [])
