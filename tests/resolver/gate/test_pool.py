"""Connections that wait: found by key, last first; never used when anything came, or for too long."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio
import trustme

from protocols.contract import Line
from resolver import Policy, Referrer, Refused, parse
from resolver.loops import running
from resolver.network.pool import CAPACITY, LIFETIME, ConnectionPool
from resolver.network.url_gate import UrlGate
from resolver.transfer.network import Network
from tests.protocols.in_memory import MemorySink
from tests.resolver.gate.peers import reset, start, start_tls

LINE = Line(b"hello", b"hello")
Serve = Callable[[trio.SocketStream], Awaitable[None]]


class Echo:
    """A server that says back what it hears; it knows its connections."""

    def __init__(self) -> None:
        self.streams: list[trio.SocketStream] = []
        self.ended = 0

    async def serve(self, stream: trio.SocketStream) -> None:
        self.streams.append(stream)
        async for octets in stream:
            await stream.send_all(octets)
        self.ended += 1

    async def until_ended(self, count: int) -> None:
        while self.ended < count:
            await trio.lowlevel.checkpoint()


async def lend(url_gate: UrlGate, pool_key: str = "me", state: object = "m") -> tuple[object, object]:
    """Borrow a connection and leave it in order: its stream, and what was remembered of it."""
    async with url_gate.acquire(pool_key, tls=False) as pooled:
        pooled.keep(state)
        return pooled.stream, pooled.state


async def test_what_is_left_in_order_serves_again(nursery: trio.Nursery) -> None:
    echo = Echo()
    port = await start(nursery, echo.serve)
    async with Network(policy=Policy.default()) as network:
        stream, state = await lend(network.admit(parse(f"http://127.0.0.1:{port}/a")))
        again, remembered = await lend(network.admit(parse(f"http://127.0.0.1:{port}/b")), state="n")
        assert (state, remembered) == (None, "m")
        assert again is stream
        assert (await lend(network.admit(parse(f"http://127.0.0.1:{port}/c"))))[1] == "n"
    await echo.until_ended(1)
    assert len(echo.streams) == 1


async def test_nothing_is_kept_outside_the_door(nursery: trio.Nursery) -> None:
    echo = Echo()
    port = await start(nursery, echo.serve)
    network = Network(policy=Policy.default())
    for _ in range(2):
        assert (await lend(network.admit(parse(f"http://127.0.0.1:{port}/"))))[1] is None
    await echo.until_ended(2)
    async with network:
        await lend(network.admit(parse(f"http://127.0.0.1:{port}/")))
    assert (await lend(network.admit(parse(f"http://127.0.0.1:{port}/"))))[1] is None
    await echo.until_ended(4)


@pytest.mark.parametrize("how", ["unsaid", "raised", "cancelled"])
async def test_what_is_not_in_order_is_closed(how: str, nursery: trio.Nursery) -> None:
    echo = Echo()
    port = await start(nursery, echo.serve)
    async with Network(policy=Policy.default()) as network:
        with trio.CancelScope() as scope:
            try:
                async with network.admit(parse(f"http://127.0.0.1:{port}/")).acquire(
                    "me", tls=False
                ) as pooled:
                    if how != "unsaid":
                        pooled.keep("m")
                    if how == "raised":
                        raise ValueError
                    if how == "cancelled":
                        scope.cancel()
                        await trio.lowlevel.checkpoint()
            except ValueError:
                pass
        await echo.until_ended(1)
        assert (await lend(network.admit(parse(f"http://127.0.0.1:{port}/"))))[1] is None


@pytest.mark.parametrize(
    ("url", "pool_key"),
    [
        ("http://127.0.0.1:{port}/", "you"),  # S11: sessions of different people share nothing
        ("gopher://127.0.0.1:{port}/", "me"),
        ("http://localhost:{port}/", "me"),
        ("http://127.0.0.1:{other}/", "me"),
    ],
)
async def test_another_key_is_another_connection(url: str, pool_key: str, nursery: trio.Nursery) -> None:
    echo = Echo()
    port, other = await start(nursery, echo.serve), await start(nursery, echo.serve)
    async with Network(policy=Policy(allow_port={port, other})) as network:
        await lend(network.admit(parse(f"http://127.0.0.1:{port}/")))
        assert (await lend(network.admit(parse(url.format(port=port, other=other))), pool_key))[1] is None
        assert (await lend(network.admit(parse(f"http://127.0.0.1:{port}/"))))[1] == "m"


async def say_and_end(stream: trio.SocketStream) -> None:
    await stream.send_all(b"surprise")


async def end(stream: trio.SocketStream) -> None:
    await stream.send_eof()


async def end_with_a_reset(stream: trio.SocketStream) -> None:
    reset(stream)


@pytest.mark.parametrize("surprise", [say_and_end, end, end_with_a_reset])
async def test_a_connection_on_which_anything_came_is_not_used(
    surprise: Serve, nursery: trio.Nursery
) -> None:
    first: list[trio.SocketStream] = []

    async def serve(stream: trio.SocketStream) -> None:
        first.append(stream)
        await trio.sleep_forever()

    port = await start(nursery, serve)
    async with Network(policy=Policy.default()) as network:
        url_gate = network.admit(parse(f"http://127.0.0.1:{port}/"))
        stream, _ = await lend(url_gate)
        while not first:
            await trio.lowlevel.checkpoint()
        await surprise(first[0])
        while stream.quiet:  # type: ignore[attr-defined]
            await trio.lowlevel.checkpoint()
        assert (await lend(network.admit(parse(f"http://127.0.0.1:{port}/"))))[1] is None
        while len(first) < 2:
            await trio.lowlevel.checkpoint()


async def test_inside_tls_too(nursery: trio.Nursery, tmp_path: object) -> None:
    authority = trustme.CA()
    served: list[object] = []

    async def serve(stream: trio.SSLStream[trio.SocketStream]) -> None:
        served.append(stream)
        async for octets in stream:
            await stream.send_all(octets)

    port = await start_tls(nursery, authority.issue_cert("127.0.0.1"), serve)
    with authority.cert_pem.tempfile() as cafile:
        async with Network(policy=Policy.default(), cafile=cafile) as network:
            for turn in range(3):
                url_gate = network.admit(parse(f"https://127.0.0.1:{port}/"))
                async with url_gate.acquire(None, tls=True) as pooled:
                    assert pooled.stream.secured
                    assert (pooled.state is None) == (turn == 0)
                    await pooled.stream.send(LINE)
                    assert await pooled.stream.receive() == LINE.octets
                    pooled.keep(turn)
    assert len(served) == 1


async def test_what_tls_holds_unread_makes_it_unfit(nursery: trio.Nursery) -> None:
    """The octets have left the socket: only OpenSSL knows of them."""
    authority = trustme.CA()
    served: list[object] = []

    async def serve(stream: trio.SSLStream[trio.SocketStream]) -> None:
        served.append(stream)
        await stream.send_all(b"hello and more")
        await trio.sleep_forever()

    port = await start_tls(nursery, authority.issue_cert("127.0.0.1"), serve)
    with authority.cert_pem.tempfile() as cafile:
        async with Network(policy=Policy.default(), cafile=cafile) as network:
            for _ in range(2):
                async with network.admit(parse(f"https://127.0.0.1:{port}/")).acquire(
                    None, tls=True
                ) as pooled:
                    assert pooled.state is None
                    sink = MemorySink()
                    assert await pooled.stream.move(sink, 5) == 5
                    assert sink.octets == b"hello"
                    pooled.keep("in order")
    assert len(served) == 2


async def test_each_use_is_judged_anew(nursery: trio.Nursery) -> None:
    """S09: a kept connection serves only where its address may be connected to now."""
    echo = Echo()
    port = await start(nursery, echo.serve)

    async def look_up(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    async with Network(policy=Policy.default(), lookup=look_up) as network:
        url = parse(f"http://h.example:{port}/")
        await lend(network.admit(url))
        outside = Referrer("http://other.example/", "198.51.100.1")
        derived = network.admit(url, origin="derived", referrer=outside)
        with pytest.raises(Refused) as caught:
            await lend(derived)
        assert caught.value.rule == "S08"
        assert (await lend(network.admit(url)))[1] == "m"
    await echo.until_ended(1)
    assert len(echo.streams) == 1


class Fake:
    """A stream that is quiet for as long as one says."""

    def __init__(self) -> None:
        self.loop = running()
        self.quiet = True
        self.peer = "a"
        self.closed = False

    async def aclose(self) -> None:
        self.closed = True


async def test_the_last_one_used_comes_first() -> None:
    pool = ConnectionPool()
    pool.open()
    fakes = [Fake() for _ in range(3)]
    for number, fake in enumerate(fakes):
        await pool.put("k", fake, number)  # type: ignore[arg-type]
    taken = [await pool.take("k", "a") for _ in range(4)]
    assert [kept and kept.state for kept in taken] == [2, 1, 0, None]


async def test_one_that_suits_comes_before_all_others_and_spares_the_last() -> None:
    """Where none suits it is the first one: the last may suit who comes next."""
    pool = ConnectionPool()
    pool.open()
    for number in range(5):
        await pool.put("k", Fake(), number)  # type: ignore[arg-type]
    taken = [await pool.take("k", "a", suits) for suits in (_is_odd, lambda state: state == 9)]
    assert [kept and kept.state for kept in taken] == [3, 0]
    taken = [await pool.take("k", "a", _is_odd) for _ in range(4)]
    assert [kept and kept.state for kept in taken] == [1, 2, 4, None]


def _is_odd(state: object) -> bool:
    assert isinstance(state, int)
    return bool(state % 2)


async def test_it_waits_no_longer_than_its_lifetime(autojump_clock: trio.testing.MockClock) -> None:
    pool, fake, late = ConnectionPool(), Fake(), Fake()
    pool.open()
    await pool.put("k", fake, 1)  # type: ignore[arg-type]
    await trio.sleep(LIFETIME + 1)
    assert await pool.take("k", "a") is None
    assert fake.closed
    await pool.put("k", late, 1)  # type: ignore[arg-type]
    await trio.sleep(LIFETIME - 1)
    assert await pool.take("k", "a") is not None


async def test_the_oldest_makes_room() -> None:
    pool, fakes = ConnectionPool(), [Fake() for _ in range(CAPACITY + 2)]
    pool.open()
    for number, fake in enumerate(fakes):
        await pool.put(number % 7, fake, number)  # type: ignore[arg-type]
    assert [fake.closed for fake in fakes] == [True, True] + [False] * CAPACITY
    await pool.aclose()
    assert all(fake.closed for fake in fakes)
    assert len(pool) == 0
