"""Time limits that fire: whatever the peer does, a retrieval ends soon after its limit, for every scheme."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import trio

from fixtures.faulty import NOBODY, Fault, Manner, serve
from protocols.contract import Limits
from protocols.errors import ResolveError, TimedOut
from resolver.policy import Policy
from resolver.session import Resolver
from resolver.tries import Patience
from tests.faults.cell import CONTENT
from tests.faults.rows import PLAIN
from tests.scheduled import ScheduledClock

LIMIT = 0.4
NEVER = 1_000.0
ALL_TRIES = Patience(tries=9, delay=NEVER)

PEERS: dict[str, Fault] = {
    "is silent from the start": Fault("silence", "connect"),
    "is silent in its greeting": Fault("silence", "greeting"),
    "is silent in the body": Fault("silence", "body", 50),
    "drips its greeting": Fault("drip", "greeting"),
    "drips the body": Fault("drip", "body", 50),
    "cuts the body": Fault("close", "body", 50),
    "is not there": NOBODY,
}
#: Octets that drip into a header of WAIS soon make it none.
NOT_ASKED = {("wais", "drips its greeting")}


async def take(url: str, port: int, limits: Limits, patience: Patience, path: Path) -> ResolveError | None:
    policy = Policy(allow_port=frozenset({port}))
    async with Resolver(policy=policy, limits=limits, patience=patience) as session:
        try:
            await session.save(url, str(path))
        except ResolveError as error:
            return error
    return None


@pytest.fixture
def clock() -> ScheduledClock:
    """The clock of the loop: what other processes keep us waiting is not held against a limit."""
    return ScheduledClock()


async def take_all(
    clock: ScheduledClock, peer: str, limits: Limits, patience: Patience, folder: Path
) -> tuple[dict[str, ResolveError | None], float]:
    """Save from all schemes at once; how each ended, and the seconds until the last of them."""
    asked = [scheme for scheme in PLAIN if (scheme, peer) not in NOT_ASKED]
    found: dict[str, ResolveError | None] = {}

    async def one(scheme: str) -> None:
        server = await serve(servers, scheme, CONTENT, Manner(fault=PEERS[peer]))
        found[scheme] = await take(server.url(), server.port, limits, patience, folder / scheme)

    began = clock.current_time()
    async with trio.open_nursery() as servers:
        with trio.fail_after(20):
            async with trio.open_nursery() as clients:
                for scheme in asked:
                    clients.start_soon(one, scheme)
        took = clock.current_time() - began
        servers.cancel_scope.cancel()
    assert not set(os.listdir(folder)) & set(asked)
    return found, took


@pytest.mark.parametrize("peer", PEERS)
async def test_the_total_limit_covers_all_tries(clock: ScheduledClock, peer: str, tmp_path: Path) -> None:
    limits = Limits(connect=NEVER, idle=NEVER, total=LIMIT)
    found, took = await take_all(clock, peer, limits, ALL_TRIES, tmp_path)
    for scheme, error in found.items():
        assert isinstance(error, TimedOut), scheme
        assert (error.exit_code, error.url is not None) == (11, True)
        assert f"{LIMIT:g} s in all" in error.message
    assert took < LIMIT + 1


@pytest.mark.parametrize("peer", [peer for peer in PEERS if "silent" in peer])
async def test_the_idle_limit(clock: ScheduledClock, peer: str, tmp_path: Path) -> None:
    found, took = await take_all(clock, peer, Limits(connect=NEVER, idle=LIMIT), Patience(), tmp_path)
    assert all(isinstance(error, TimedOut) and error.attempts == 1 for error in found.values())
    assert took < LIMIT + 1


@pytest.mark.parametrize("peer", [peer for peer in PEERS if "drips" in peer])
async def test_the_least_rate(
    clock: ScheduledClock, peer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A body that is too slow is final: whoever sets a rate would rather have no more of it. One that does
    not begin is silence, which may be tried again."""
    monkeypatch.setattr("resolver.clock._RATE_WINDOW", LIMIT)
    limits = Limits(connect=NEVER, idle=2 * LIMIT, min_rate=1_000_000)
    patience = ALL_TRIES if "body" in peer else Patience()
    found, took = await take_all(clock, peer, limits, patience, tmp_path)
    for scheme, error in found.items():
        assert isinstance(error, TimedOut), scheme
        assert error.attempts == 1
        assert "--min-rate" in error.message
    assert took < 2 * LIMIT + 1


async def test_a_rate_that_is_kept(tmp_path: Path, nursery: trio.Nursery) -> None:
    for scheme in PLAIN:
        server = await serve(nursery, scheme, CONTENT)
        policy = Policy(allow_port=frozenset({server.port}))
        async with Resolver(policy=policy, limits=Limits(min_rate=1)) as session:
            assert (await session.fetch(server.url())).content == CONTENT
            saved = await session.save(server.url(), str(tmp_path / scheme))
        assert saved.bytes == len(CONTENT)


@pytest.fixture
def crowded_port() -> Iterator[int]:
    """A port at which more wait than it has room for: the system no longer answers there."""
    with ExitStack() as sockets:
        listener = sockets.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(2):
            waiting = sockets.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


async def test_the_connect_limit(clock: ScheduledClock, crowded_port: int) -> None:
    limits = Limits(connect=LIMIT, idle=NEVER)
    began = clock.current_time()
    async with Resolver(policy=Policy(allow_port=frozenset({crowded_port})), limits=limits) as session:
        with pytest.raises(TimedOut, match=f"within {LIMIT:g} s"):
            await session.fetch(f"http://127.0.0.1:{crowded_port}/")
    assert clock.current_time() - began < LIMIT + 1


async def test_limits_of_datagrams_and_pipes(
    clock: ScheduledClock, tmp_path: Path, nursery: trio.Nursery
) -> None:
    """Prospero speaks UDP, and a file may be a pipe that nobody writes to."""
    silent = trio.socket.socket(type=socket.SOCK_DGRAM)
    await silent.bind(("127.0.0.1", 0))
    port = silent.getsockname()[1]
    os.mkfifo(tmp_path / "pipe")
    found: dict[str, ResolveError] = {}

    async def one(url: str, limits: Limits) -> None:
        policy = Policy(allow_port=frozenset({port}), allow_special=True)
        async with Resolver(policy=policy, limits=limits, patience=ALL_TRIES) as session:
            try:
                await session.fetch(url)
            except ResolveError as error:
                found[f"{url} {limits.total}"] = error

    keep_open = os.open(tmp_path / "pipe", os.O_RDWR)
    began = clock.current_time()
    with silent:
        async with trio.open_nursery() as both:
            for url in (f"prospero://127.0.0.1:{port}/x", f"file://{tmp_path}/pipe"):
                both.start_soon(one, url, Limits(idle=NEVER, total=LIMIT))
                both.start_soon(one, url, Limits(idle=LIMIT, total=2 * LIMIT))
    os.close(keep_open)
    assert len(found) == 4
    assert all(isinstance(error, TimedOut) for error in found.values())
    assert clock.current_time() - began < 2 * LIMIT + 1
