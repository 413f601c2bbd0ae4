"""Time limits: with any behavior of the server, a retrieval ends when the limit expires, for every scheme.

All other limits are off, so a retrieval that does not end by this limit hangs.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import trio

from fixtures.faulty import CLOSED, Fault, Profile, serve
from fixtures.faulty.fault import Moment
from resolver import LimitExceeded, Limits, Policy, ResolveError, Resolver, RetryPolicy, TimedOut
from resolver.url import registry
from tests.faults.cell import CONTENT
from tests.faults.rows import PLAIN
from tests.hang import HANG, NEVER

LIMIT = 0.4
ALL_TRIES = RetryPolicy(tries=9, delay=NEVER, retry_all=True)

PEERS: dict[str, Fault] = {
    "is silent from the start": Fault("silence", "connect"),
    "is silent in its greeting": Fault("silence", "greeting"),
    "is silent in the body": Fault("silence", "body", 50),
    "drips its greeting": Fault("drip", "greeting"),
    "drips the body": Fault("drip", "body", 50),
    "drips the body from its first octet": Fault("drip", "body", 0),
    "cuts the body": Fault("close", "body", 50),
    "is not there": CLOSED,
}
#: Bytes that drip into a WAIS header soon make it invalid.
NOT_ASKED = {("wais", "drips its greeting"), ("wais", "drips the body from its first octet")}


async def save_within(
    url: str, port: int, limits: Limits, patience: RetryPolicy, path: Path
) -> ResolveError | None:
    policy = Policy(allow_port=frozenset({port}))
    async with Resolver(policy=policy, limits=limits, patience=patience) as session:
        try:
            await session.save(url, str(path))
        except ResolveError as error:
            return error
    return None


async def save_from_all(
    peer: str, limits: Limits, patience: RetryPolicy, folder: Path
) -> dict[str, ResolveError | None]:
    """Save from all schemes concurrently; return the error of each."""
    asked = [scheme for scheme in PLAIN if (scheme, peer) not in NOT_ASKED]
    found: dict[str, ResolveError | None] = {}

    async def one(scheme: str) -> None:
        server = await serve(servers, scheme, CONTENT, Profile(fault=PEERS[peer]))
        found[scheme] = await save_within(server.url(), server.port, limits, patience, folder / scheme)

    async with trio.open_nursery() as servers:
        with trio.fail_after(HANG):
            async with trio.open_nursery() as clients:
                for scheme in asked:
                    clients.start_soon(one, scheme)
        servers.cancel_scope.cancel()
    assert not set(os.listdir(folder)) & set(asked)
    return found


def check_names_setting(error: ResolveError | None, setting: str) -> None:
    """Check that the error is a timeout which names the setting of its limit."""
    assert isinstance(error, TimedOut)
    assert error.message.startswith("timed out")
    assert error.setting == setting


@pytest.mark.parametrize("peer", PEERS)
async def test_total_limit_covers_every_attempt(peer: str, tmp_path: Path) -> None:
    limits = Limits(connect=NEVER, idle=NEVER, total=LIMIT)
    found = await save_from_all(peer, limits, ALL_TRIES, tmp_path)
    for scheme, error in found.items():
        assert isinstance(error, TimedOut), scheme
        assert (error.exit_code, error.url is not None) == (11, True)
        assert f"within {LIMIT:g} s" in error.message
        check_names_setting(error, "max_time")


@pytest.mark.parametrize("peer", ["is silent from the start", "is silent in its greeting"])
async def test_head_limit_ends_slow_head(peer: str, tmp_path: Path) -> None:
    limits = Limits(connect=NEVER, idle=NEVER, head=LIMIT)
    for error in (await save_from_all(peer, limits, RetryPolicy(), tmp_path)).values():
        check_names_setting(error, "limit head=S")


@pytest.mark.parametrize("peer", [peer for peer in PEERS if "silent" in peer])
async def test_idle_limit_ends_silent_peer(peer: str, tmp_path: Path) -> None:
    found = await save_from_all(peer, Limits(connect=NEVER, idle=LIMIT), RetryPolicy(), tmp_path)
    for error in found.values():
        check_names_setting(error, "idle_timeout")
        assert error is not None
        assert error.attempts == 1


@pytest.mark.parametrize("peer", [peer for peer in PEERS if "drips" in peer])
async def test_min_rate_ends_slow_peer(peer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow body is a final error, because the user set the minimum rate.

    A body that does not start may be retried.
    """
    monkeypatch.setattr("resolver.network.clock._RATE_WINDOW", LIMIT)
    limits = Limits(connect=NEVER, idle=2 * LIMIT, min_rate=1_000_000)
    patience = ALL_TRIES if "body" in peer else RetryPolicy()
    found = await save_from_all(peer, limits, patience, tmp_path)
    for scheme, error in found.items():
        assert isinstance(error, TimedOut), scheme
        assert error.attempts == 1
        check_names_setting(error, "min_rate")


VERBS: dict[str, Callable[[Resolver, str], Awaitable[object]]] = {
    "fetch": lambda session, url: session.fetch(url),
    "stream": lambda session, url: read(session, url),
}


async def read(session: Resolver, url: str) -> None:
    async with session.stream(url) as reply:
        async for _ in reply.body:
            pass


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("at", ["greeting", "body"])
async def test_min_rate_holds_in_every_method(
    verb: str, at: Moment, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The minimum rate also applies before data is delivered, for example in the header of an article."""
    monkeypatch.setattr("resolver.network.clock._RATE_WINDOW", LIMIT)
    limits = Limits(connect=NEVER, idle=NEVER, min_rate=1_000_000)

    async def one(scheme: str) -> None:
        server = await serve(nursery, scheme, CONTENT, Profile(fault=Fault("drip", at)))
        policy = Policy(allow_port=frozenset({server.port}))
        async with Resolver(policy=policy, limits=limits) as session:
            with pytest.raises(TimedOut) as caught, trio.fail_after(HANG):
                await VERBS[verb](session, server.url())
            check_names_setting(caught.value, "min_rate")

    async with trio.open_nursery() as clients:
        for scheme in set(PLAIN) - {"wais"}:
            clients.start_soon(one, scheme)


async def test_min_rate_ends_slow_datagrams(nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch) -> None:
    """Packets have one byte each, and the announced total is never reached."""
    monkeypatch.setattr("resolver.network.clock._RATE_WINDOW", LIMIT)
    slow = trio.socket.socket(type=socket.SOCK_DGRAM)
    await slow.bind(("127.0.0.1", 0))
    nursery.start_soon(drip_packets, slow)
    port = slow.getsockname()[1]
    limits = Limits(connect=NEVER, idle=NEVER, min_rate=1_000_000)
    async with Resolver(policy=Policy(allow_port=frozenset({port})), limits=limits) as session:
        with pytest.raises(TimedOut) as caught, trio.fail_after(HANG):
            await session.fetch(f"prospero://127.0.0.1:{port}/x")
        check_names_setting(caught.value, "min_rate")


async def drip_packets(sock: trio.socket.SocketType) -> None:
    """Answer a request (ARDP) with packets of header length, connection, number, total and one byte."""
    with sock:
        asked, client = await sock.recvfrom(65_536)
        for number in range(1, 10_000):
            header = b"\x07" + asked[1:3] + number.to_bytes(2, "big") + (10_000).to_bytes(2, "big")
            await sock.sendto(header + b"x", client)
            await trio.sleep(0.02)


async def test_min_rate_accepts_faster_peer(tmp_path: Path, nursery: trio.Nursery) -> None:
    for scheme in PLAIN:
        server = await serve(nursery, scheme, CONTENT)
        policy = Policy(allow_port=frozenset({server.port}))
        async with Resolver(policy=policy, limits=Limits(min_rate=1)) as session:
            assert (await session.fetch(server.url())).content == CONTENT
            saved = await session.save(server.url(), str(tmp_path / scheme))
        assert saved.bytes == len(CONTENT)


@pytest.fixture
def crowded_port() -> Iterator[int]:
    """Yield a port whose backlog is full, so that the system no longer accepts connections there."""
    with ExitStack() as sockets:
        listener = sockets.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(2):
            waiting = sockets.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


async def test_connect_limit_ends_full_backlog(crowded_port: int) -> None:
    limits = Limits(connect=LIMIT, idle=NEVER)
    async with Resolver(policy=Policy(allow_port=frozenset({crowded_port})), limits=limits) as session:
        with pytest.raises(TimedOut, match=f"within {LIMIT:g} s") as caught:
            with trio.fail_after(HANG):
                await session.fetch(f"http://127.0.0.1:{crowded_port}/")
    check_names_setting(caught.value, "connect_timeout")


async def test_limits_end_datagrams_and_pipes(tmp_path: Path, nursery: trio.Nursery) -> None:
    """Prospero uses UDP, and a file may be a pipe without a writer."""
    silent = trio.socket.socket(type=socket.SOCK_DGRAM)
    await silent.bind(("127.0.0.1", 0))
    port = silent.getsockname()[1]
    os.mkfifo(tmp_path / "pipe")
    found: dict[str, ResolveError] = {}

    async def one(url: str, limits: Limits, patience: RetryPolicy) -> None:
        policy = Policy(allow_port=frozenset({port}), allow_special=True)
        async with Resolver(policy=policy, limits=limits, patience=patience) as session:
            try:
                await session.fetch(url)
            except ResolveError as error:
                found[f"{url} {limits.total}"] = error

    keep_open = os.open(tmp_path / "pipe", os.O_RDWR)
    with silent, trio.fail_after(HANG):
        async with trio.open_nursery() as both:
            for url in (f"prospero://127.0.0.1:{port}/x", f"{tmp_path.as_uri()}/pipe"):
                both.start_soon(one, url, Limits(idle=NEVER, total=LIMIT), ALL_TRIES)
                both.start_soon(one, url, Limits(idle=LIMIT), RetryPolicy())
    os.close(keep_open)
    assert len(found) == 4
    for asked, error in found.items():
        check_names_setting(error, "max_time" if asked.endswith(f" {LIMIT}") else "idle_timeout")


@pytest.mark.parametrize("percent", [75, 125])
@pytest.mark.parametrize("scheme", PLAIN)
async def test_quota_ends_save_and_next_run_completes(scheme: str, percent: int, tmp_path: Path) -> None:
    """The server closes at half of the body; the bytes of a body that starts again count again."""
    path = tmp_path / "object.bin"
    row = registry.find(scheme)
    assert row is not None
    async with trio.open_nursery() as servers:
        server = await serve(servers, scheme, CONTENT, Profile(fault=Fault("close", "body", 50, times=1)))
        policy = Policy(allow_port=frozenset({server.port}))
        limits = Limits(connect=NEVER, idle=NEVER, quota=len(CONTENT) * percent // 100)
        patience = RetryPolicy(tries=3, delay=0.01, retry_all=True)
        error = await save_within(server.url(), server.port, limits, patience, path)
        if percent == 125 and row.resumes:
            assert error is None
        else:
            assert isinstance(error, LimitExceeded)
            assert (error.limit, error.exit_code, error.url) == ("quota", 14, server.url())
            assert not [name for name in os.listdir(tmp_path) if ".part" not in name]
            async with Resolver(policy=policy, patience=patience) as session:
                await session.save(server.url(), str(path))
        servers.cancel_scope.cancel()
    assert await trio.Path(path).read_bytes() == CONTENT
    assert os.listdir(tmp_path) == ["object.bin"]
