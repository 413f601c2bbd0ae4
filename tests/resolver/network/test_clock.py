"""`ResponseRateCheck`, the minimum rate of an answer, and `Bucket` and `Throttle`, the shared rate limit.

A pause does not count as slowness; a trickle of bytes does, with or without pauses between.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio

from fixtures.faulty import serve
from resolver import Limits, NotConfigured, Policy, Resolver, TimedOut
from resolver.loops import Loop, on_trio
from resolver.network.clock import Bucket, ResponseRateCheck, Throttle
from tests.hang import HANG


def seconds_until_too_slow(pace: ResponseRateCheck, *waits: tuple[float, int]) -> float | None:
    """Return the seconds after which `ResponseRateCheck` raises the error of a slow answer, or None.

    A wait of 0 bytes is a request.
    """
    spent = 0.0
    for seconds, octets in waits:
        spent += seconds
        if not octets:
            pace.begin()
            continue
        if too_slow(pace, seconds, octets):
            return spent
    return None


def too_slow(pace: ResponseRateCheck, seconds: float, octets: int) -> bool:
    try:
        pace.record_received(seconds, octets)
    except TimedOut as error:
        return not error.retryable
    return False


DROPS = [(1.0, 1)] * 100
ROWS = {
    "an octet a second": (DROPS, 6.0),
    "a line a second": ([(1.0, 60)] * 100, 6.0),
    "an octet every ten seconds": ([(10.0, 1)] * 100, 40.0),
    "drops behind a long thought": ([(50.0, 30), *DROPS], 55.0),
    "fast enough": ([(1.0, 1_000)] * 100, None),
    "fast enough on average": ([(0.5, 10), (1.5, 3_000)] * 50, None),
    "thinks about each question": ([(59.0, 20), (0.0, 0)] * 50, None),
    "says that it is done after a while": ([(1.0, 30), (50.0, 24), (0.0, 0)] * 20, None),
    "says that it thinks, and thinks": ([(0.1, 25), (59.0, 65_536), (0.1, 65_536)], None),
    "has much at once behind a long pause": ([(0.0, 1), (59.0, 9_000), (59.0, 9_000), (59.0, 9_000)], None),
}


@pytest.mark.parametrize(("waits", "over"), ROWS.values(), ids=ROWS.keys())
def test_answer_pace_fails_on_trickle_but_not_on_pauses(
    waits: list[tuple[float, int]], over: float | None
) -> None:
    assert seconds_until_too_slow(ResponseRateCheck(1_000), *waits) == over


# The rate limit of all transfers: first the bucket, then retrievals that it throttles. The tests run on a
# simulated clock and therefore know the elapsed time.

#: A body, and a rate at which all but the first share and the last take 0.1 s.
CONTENT = bytes(range(256)) * 300
RATE = 250_000
LEAST = (len(CONTENT) - 2 * RATE // 10) / RATE


Take = Callable[[Resolver, str, Path], Awaitable[int]]


class Time:
    """A clock that advances only while a task sleeps."""

    def __init__(self) -> None:
        self.now = 100.0
        self.sleeps: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.now += seconds

    @property
    def passed(self) -> float:
        return self.now - 100.0

    @property
    def loop(self) -> Loop:
        return on_trio.LOOP._replace(run=lambda: self, current_time=lambda: self.now, sleep=self.sleep)


def test_bucket_charges_payments_in_order() -> None:
    bucket = Bucket(1_000)
    assert (bucket.share, bucket.pay(500, 10.0), bucket.pay(250, 10.1)) == (100, 10.5, 10.75)


def test_bucket_does_not_make_up_for_unused_time() -> None:
    bucket = Bucket(1_000)
    bucket.pay(500, 10.0)
    assert bucket.pay(100, 60.0) == 60.1


def test_bucket_forgets_debt_in_a_new_run() -> None:
    bucket = Bucket(10)
    bucket.begin("one", 5_000.0)
    bucket.pay(1_000, 5_000.0)
    bucket.begin("one", 5_001.0)
    assert bucket.pay(10, 5_001.0) == 5_101.0
    bucket.begin("another", 3.0)
    assert bucket.pay(10, 3.0) == 4.0


async def test_throttles_of_one_bucket_share_the_rate_equally() -> None:
    """Three throttles take turns.

    Each throttle gets a third of the rate, and sleeps at most once per share.
    """
    time = Time()
    bucket = Bucket(100_000)
    throttles = [Throttle(bucket, time.loop) for _ in range(3)]
    taken = [0, 0, 0]
    while sum(taken) < 900_000:
        for number, throttle in enumerate(throttles):
            await throttle.wait()
            throttle.record_received(throttle.share)
            taken[number] += throttle.share
    assert taken == [300_000] * 3
    assert time.passed == pytest.approx(9.0, abs=0.4)
    assert len(time.sleeps) <= 90


async def test_throttle_delays_small_reads_only_under_large_debt() -> None:
    time = Time()
    bucket = Bucket(10_000)
    few, much = Throttle(bucket, time.loop), Throttle(bucket, time.loop)
    for _ in range(50):
        few.record_received(60)
        await few.wait()
    assert time.sleeps == []
    much.record_received(20_000)
    few.record_received(60)
    await few.wait()
    assert time.sleeps == [pytest.approx(2.306)]


@pytest.mark.parametrize("octets", [0, -1, math.nan, math.inf, 10**400])
def test_resolver_rate_out_of_range_is_not_configured(octets: int) -> None:
    with pytest.raises(NotConfigured, match="rate must be from 1 to 1e308 bytes/s"):
        Resolver(rate=octets)


async def iterate(session: Resolver, url: str, path: Path) -> int:
    async with session.stream(url) as reply:
        return sum([len(octets) async for octets in reply.body])


async def save(session: Resolver, url: str, path: Path) -> int:
    return (await session.save(url, path)).bytes


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    """Replace the clock of the rate limit, and no other clock."""
    time = Time()
    monkeypatch.setattr("resolver.network.connector.running", lambda: time.loop)
    return time


@pytest.mark.parametrize("take", [iterate, save])
@pytest.mark.parametrize("scheme", ["http", "ftp"])
async def test_transfer_is_limited_to_rate(
    take: Take, scheme: str, time: Time, nursery: trio.Nursery, tmp_path: Path
) -> None:
    server = await serve(nursery, scheme, CONTENT)
    async with Resolver(policy=Policy(allow_port=frozenset({server.port})), rate=RATE) as session:
        assert await take(session, server.url(), tmp_path / "it") == len(CONTENT)
    assert LEAST < time.passed < len(CONTENT) / RATE + 0.1


async def test_two_concurrent_transfers_share_the_rate(
    time: Time, nursery: trio.Nursery, tmp_path: Path
) -> None:
    server = await serve(nursery, "http", CONTENT)
    policy = Policy(allow_port=frozenset({server.port}))
    async with Resolver(policy=policy, rate=RATE) as session, trio.open_nursery() as both:
        for name in ("one", "two"):
            both.start_soon(save, session, server.url(), tmp_path / name)
    assert time.passed > 2 * LEAST


@pytest.mark.parametrize("take", [iterate, save])
async def test_min_rate_ignores_own_throttling(
    take: Take, nursery: trio.Nursery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client's own rate limit is below the minimum rate.

    Waits for that limit are not counted as slowness or idle time.
    """
    monkeypatch.setattr("resolver.network.clock._RATE_WINDOW", 0.15)
    server = await serve(nursery, "http", CONTENT)
    limits = Limits(min_rate=100 * RATE, idle=HANG)
    policy = Policy(allow_port=frozenset({server.port}))
    async with Resolver(policy=policy, limits=limits, rate=RATE) as session:
        assert await take(session, server.url(), tmp_path / "it") == len(CONTENT)


async def test_cancel_ends_throttle_wait_immediately(nursery: trio.Nursery, tmp_path: Path) -> None:
    """The rate is 1 byte/s, so the transfer would not end while the test runs."""
    server = await serve(nursery, "http", CONTENT)
    policy = Policy(allow_port=frozenset({server.port}))
    async with Resolver(policy=policy, rate=1) as session:
        with trio.fail_after(HANG):
            async with trio.open_nursery() as inner:
                inner.start_soon(session.save, server.url(), tmp_path / "it")
                await server.opened.wait()
                while not server.connections:
                    await trio.lowlevel.checkpoint()
                inner.cancel_scope.cancel()


def test_rate_limit_works_under_asyncio(time: Time, tmp_path: Path) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(CONTENT) + CONTENT)
        await writer.drain()
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with Resolver(policy=Policy(allow_port=frozenset({port})), rate=RATE) as session:
            await session.save(f"http://127.0.0.1:{port}/it", tmp_path / "it")
        server.close()
        await server.wait_closed()

    asyncio.run(main())
    assert LEAST < time.passed < len(CONTENT) / RATE + 0.1
    assert (tmp_path / "it").read_bytes() == CONTENT
