"""Consecutive runs of event loops.

Objects made before a loop runs, an entered session used in another run, and caches whose times are those of
one run's clock.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from typing import Any

import httpx
import pytest
import trio

import fixtures.http
from resolver import HttpxTransport, Limits, Policy, Resolver, TimedOut
from resolver.loops import running
from resolver.network.lookup import LookupCache
from resolver.testing.contract.case import ListeningSockets
from tests.elsewhere import Elsewhere
from tests.loops.conftest import Run
from tests.resolver.network.peers import RemoteSocket

#: A runner for each loop.
RUNS: tuple[Callable[..., Any], ...] = (trio.run, lambda function: asyncio.run(function()))


@pytest.fixture
def port(elsewhere: Elsewhere) -> int:
    return elsewhere.run(fixtures.http.serve, elsewhere.nursery).port


def test_transport_made_before_loop_works(port: int, run: Run) -> None:
    """The client is httpx under asyncio, with keep-alive connections."""
    transport = HttpxTransport(policy=Policy(allow_port=frozenset({port})))

    async def main() -> list[bytes]:
        async with httpx.AsyncClient(transport=transport) as client:
            return [(await client.get(f"http://127.0.0.1:{port}/about.txt")).content for _ in range(3)]

    assert run(main()) == [fixtures.http.EXAMPLE["/about.txt"].content] * 3


def test_entered_session_in_another_run_is_an_error(port: int) -> None:
    """The other run uses the same loop, or the other one."""
    url, policy = f"http://127.0.0.1:{port}/about.txt", Policy(allow_port=frozenset({port}))
    for one in RUNS:
        session = Resolver(policy=policy)

        async def enter(session: Resolver = session) -> None:
            await session.__aenter__()
            await session.fetch(url)

        async def ask(session: Resolver = session) -> None:
            with pytest.raises(RuntimeError, match="another run"):
                await session.fetch(url)
            with pytest.raises(RuntimeError, match="another run"):
                await session.__aenter__()

        one(enter)
        for other in RUNS:
            other(ask)

        async def leave(session: Resolver = session) -> None:
            await session.__aexit__(None, None, None)

        one(leave)


def test_entered_session_in_another_thread_is_an_error(port: int, run: Run) -> None:
    url, policy = f"http://127.0.0.1:{port}/about.txt", Policy(allow_port=frozenset({port}))
    caught: list[BaseException] = []

    def ask(session: Resolver) -> None:
        try:
            run(session.fetch(url))
        except RuntimeError as error:
            caught.append(error)

    async def main() -> None:
        async with Resolver(policy=policy) as session:
            thread = threading.Thread(target=ask, args=[session])
            thread.start()
            await asyncio.to_thread(thread.join)
            assert (await session.fetch(url)).content

    run(main())
    assert ["another thread" in str(error) for error in caught] == [True]


def test_lookup_cache_is_valid_only_in_its_run() -> None:
    """The clock of another run may be far behind, or ahead."""
    asked: list[str] = []

    async def look_up(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["192.0.2.1"]

    cache = LookupCache(look_up)

    async def ask() -> None:
        for _ in range(2):
            assert await cache.find_addresses("h.example", 70) == ("192.0.2.1",)

    for number, one in enumerate([*RUNS, *RUNS], 1):
        one(ask)
        assert len(asked) == number


def test_bound_loop_has_clock_of_its_run() -> None:
    async def compare() -> None:
        bound = running().bind()
        before = running().current_time()
        assert before <= bound.current_time() <= running().current_time()

    for one in RUNS:
        one(compare)


def test_loop_waits_on_descriptors_not_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    """A socket object passed to uvloop stays open."""
    monkeypatch.setattr(socket, "socket", RemoteSocket)
    given: list[tuple[str, object]] = []

    def keep(name: str, given_to: Callable[..., None]) -> Callable[..., None]:
        def add(fd: object, *how: object) -> None:
            given.append((name, fd))
            given_to(fd, *how)

        return add

    def listening() -> asyncio.AbstractEventLoop:
        loop = asyncio.SelectorEventLoop()
        added = {"add_reader": loop.add_reader, "add_writer": loop.add_writer}
        vars(loop).update({name: keep(name, add) for name, add in added.items()})
        return loop

    with ListeningSockets() as nobody, asyncio.Runner(loop_factory=listening) as runner:
        policy, limits = Policy(allow_port=frozenset({nobody.port})), Limits(idle=0.1)
        with pytest.raises(TimedOut):
            runner.run(Resolver(policy=policy, limits=limits).fetch(f"gopher://127.0.0.1:{nobody.port}/0a"))
    assert {name for name, _ in given} == {"add_reader", "add_writer"}
    assert {type(fd) for _, fd in given} == {int}
