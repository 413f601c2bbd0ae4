"""Time limits under the policy `untrusted` (S16): they end a slow trickle before and in the body."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from itertools import chain, repeat
from math import inf
from pathlib import Path

import httpx
import pytest
import trio

from protocols.contract import Line, Sink, Stream
from resolver import HttpxTransport, Limits, Policy, ResolveError, Resolver, RetryPolicy, TimedOut
from resolver.loops import running
from resolver.network.connector import Connector
from resolver.network.stream_settings import StreamSettings

#: Seconds between two bytes: less than any idle limit.
PAUSE = 10.0
PUBLIC = "93.184.216.34"
UNTRUSTED = Policy.untrusted()

#: The first bytes of a server and the bytes it repeats, so that the part before the body never ends.
GREETINGS: dict[str, tuple[bytes, bytes]] = {
    "http": (b"HTTP/1.1 200 OK\r\n", b"A: b\r\n"),
    "https": (b"HTTP/1.1 200 OK\r\n", b"A: b\r\n"),
    "ftp": (b"220-", b"Welcome\r\n"),
    "ftps": (b"220-", b"Welcome\r\n"),
    "nntp": (b"200 ", b"welcome "),
    "nntps": (b"200 ", b"welcome "),
    "wais": (b"", b"0"),
    "gopher": (b"+", b"1"),
}
URLS = {
    "gopher": f"gopher://{PUBLIC}/0x%09%09+",
    "nntp": f"nntp://{PUBLIC}/a.b/1",
    "nntps": f"nntps://{PUBLIC}/a.b/1",
}

#: A complete head, and a body without end.
BODIES = {
    "http": (b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n", b"x"),
    "gopher": (b"0name\tselector\thost\t70\r\n" * 100, b"0name\tselector\thost\t70\r\n"),
}


class Drip:
    """A connection that delivers its first bytes immediately, then one byte every `PAUSE` seconds forever."""

    peer = address = PUBLIC
    tunnel_host = None
    secured = False
    agreed = None
    close_notify_seen = False
    is_reusable = False

    def __init__(self, said: bytes, again: bytes) -> None:
        self.loop = running()
        self._said = said
        self._octets: Iterator[int] = chain.from_iterable(repeat(again))
        self.received = 0

    def apply_settings(self, terms: StreamSettings) -> None: ...

    def describe(self, name: str) -> object: ...

    async def send(self, *lines: Line) -> None:
        await trio.lowlevel.checkpoint()

    async def receive(self) -> bytes:
        octets, self._said = self._said, b""
        if not octets:
            await trio.sleep(PAUSE)
            octets = bytes((next(self._octets),))
        self.received += len(octets)
        return octets

    async def move(self, sink: Sink, count: int | None) -> int:
        while True:
            sink.write(await self.receive())

    async def start_tls(self) -> None:
        raise AssertionError("TLS was not requested")

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


Connections = Callable[[bytes, bytes], None]


@pytest.fixture
def peer(monkeypatch: pytest.MonkeyPatch) -> Connections:
    """Return a function that sets the bytes that every connection delivers."""

    def say(said: bytes, again: bytes) -> None:
        async def connect(connector: Connector, host: str, port: int, *, tls: bool) -> Stream:
            connector.peer = PUBLIC
            return Drip(said, again)

        monkeypatch.setattr(Connector, "connect", connect)

    return say


async def by_fetch(url: str, limits: Limits, path: Path) -> None:
    async with Resolver(policy=UNTRUSTED, limits=limits, patience=RetryPolicy(tries=99)) as session:
        await session.fetch(url)


async def by_stream(url: str, limits: Limits, path: Path) -> None:
    async with Resolver(policy=UNTRUSTED, limits=limits) as session, session.stream(url) as reply:
        async for _ in reply.body:
            pass


async def by_save(url: str, limits: Limits, path: Path) -> None:
    async with Resolver(policy=UNTRUSTED, limits=limits) as session:
        await session.save(url, path)


async def by_entries(url: str, limits: Limits, path: Path) -> None:
    async with Resolver(policy=UNTRUSTED, limits=limits) as session, session.entries(url) as entries:
        async for _ in entries:
            pass


async def by_httpx(url: str, limits: Limits, path: Path) -> None:
    async with httpx.AsyncClient(
        transport=HttpxTransport(policy=UNTRUSTED, limits=limits), timeout=None
    ) as client:
        with pytest.raises(httpx.ReadTimeout) as caught:
            await client.get(url)
    assert isinstance(caught.value.__cause__, ResolveError)
    raise caught.value.__cause__


Retrieve = Callable[[str, Limits, Path], Awaitable[None]]


async def time_until_timeout(way: Retrieve, url: str, limits: Limits, path: Path) -> tuple[float, TimedOut]:
    """Return the seconds until the timeout, and the error that reports it."""
    began = trio.current_time()
    with pytest.raises(TimedOut) as caught:
        await way(url, limits, path)
    assert caught.value.exit_code == 11
    return trio.current_time() - began, caught.value


async def test_untrusted_slow_greeting_times_out(
    peer: Connections, autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    for scheme, drip in GREETINGS.items():
        peer(*drip)
        url = URLS.get(scheme, f"{scheme}://{PUBLIC}/a")
        took, error = await time_until_timeout(by_stream, url, Limits(), tmp_path / "file")
        assert took == pytest.approx(60), scheme
        assert (error.message.endswith(" 60 s"), error.setting) == (True, "limit head=S")
        took, _ = await time_until_timeout(by_stream, url, Limits(head=15), tmp_path / "file")
        assert took == pytest.approx(15)


@pytest.mark.parametrize(
    ("scheme", "way"),
    [
        ("http", by_fetch),
        ("http", by_stream),
        ("http", by_save),
        ("http", by_httpx),
        ("gopher", by_fetch),
        ("gopher", by_save),
        ("gopher", by_entries),
    ],
)
async def test_untrusted_slow_body_times_out(
    scheme: str, way: Retrieve, peer: Connections, autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    peer(*BODIES[scheme])
    url = f"{scheme}://{PUBLIC}/1a" if scheme == "gopher" else f"{scheme}://{PUBLIC}/a"
    took, error = await time_until_timeout(way, url, Limits(), tmp_path / "file")
    assert took == pytest.approx(600, abs=1)
    assert (error.message.endswith(" 600 s"), error.setting) == (True, "max_time")
    took, _ = await time_until_timeout(way, url, Limits(total=77), tmp_path / "other")
    assert took == pytest.approx(77, abs=1)


async def test_untrusted_httpx_head_has_the_same_limit(
    peer: Connections, autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    peer(*GREETINGS["http"])
    took, error = await time_until_timeout(by_httpx, f"http://{PUBLIC}/", Limits(), tmp_path)
    assert took == pytest.approx(60)
    assert error.setting == "limit head=S"


@pytest.mark.parametrize(("thinks", "ends"), [(50, 350), (70, 360)])
async def test_head_limit_starts_when_request_is_sent(
    thinks: int, ends: int, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time limit for the head does not count the time in which the caller sends the request."""

    class Thinker(Drip):
        async def send(self, *lines: Line) -> None:
            if b"".join(line.octets for line in lines).endswith(b"0\r\n\r\n"):
                asked.set()

        async def receive(self) -> bytes:
            await asked.wait()
            await trio.sleep(thinks)
            return await super().receive()

    async def connect(connector: Connector, host: str, port: int, *, tls: bool) -> Stream:
        return Thinker(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b"")

    async def hesitantly() -> AsyncIterator[bytes]:
        for _ in range(3):
            await trio.sleep(100)
            yield b"x"

    asked = trio.Event()
    monkeypatch.setattr(Connector, "connect", connect)
    began = trio.current_time()
    async with httpx.AsyncClient(transport=HttpxTransport(policy=UNTRUSTED), timeout=None) as client:
        if thinks < 60:
            assert (await client.post(f"http://{PUBLIC}/", content=hesitantly())).status_code == 200
        else:
            with pytest.raises(httpx.ReadTimeout, match="no body within"):
                await client.post(f"http://{PUBLIC}/", content=hesitantly())
    assert trio.current_time() - began == pytest.approx(ends)


async def test_redirects_do_not_extend_time_limits(
    peer: Connections, autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    """Each redirect takes 25 s. The limit for the sum is 60 s in one attempt, and 600 s with httpx."""
    moved = b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: /%d\r\n"
    hops = iter(range(1_000))

    class Hop(Drip):
        async def receive(self) -> bytes:
            await trio.sleep(25)
            return moved % next(hops) + b"\r\n"

    async def connect(connector: Connector, host: str, port: int, *, tls: bool) -> Stream:
        return Hop(b"", b"")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Connector, "connect", connect)
        took, error = await time_until_timeout(by_stream, f"http://{PUBLIC}/", Limits(), tmp_path)
        assert took == pytest.approx(60)
        assert error.setting == "limit head=S"
        transport = HttpxTransport(policy=UNTRUSTED, limits=Limits(hops=100))
        began = trio.current_time()
        async with httpx.AsyncClient(
            transport=transport, timeout=None, follow_redirects=True, max_redirects=100
        ) as client:
            with pytest.raises(httpx.ReadTimeout, match=r" 600 s$"):
                await client.get(f"http://{PUBLIC}/")
        assert trio.current_time() - began == pytest.approx(600)


async def test_infinite_limits_disable_untrusted_defaults(
    peer: Connections, autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    peer(*GREETINGS["http"])
    with trio.move_on_after(5_000) as scope:
        await by_stream(f"http://{PUBLIC}/", Limits(head=inf, total=inf), tmp_path)
    assert scope.cancelled_caught


@pytest.mark.parametrize("policy", [Policy.default(), Policy.cautious()])
def test_other_policies_do_not_bound_time(policy: Policy) -> None:
    assert Limits() == policy.bound(Limits())
    assert (Limits().head, Limits().total) == (None, None)


@pytest.mark.parametrize(
    ("given", "head", "total"),
    [
        (Limits(), 60, 600),
        (Limits(body=1), 60, 600),
        (Limits(head=5, total=7_200), 5, 7_200),
        (Limits(total=inf), 60, inf),
    ],
)
def test_untrusted_policy_bounds_head_and_total(given: Limits, head: float, total: float) -> None:
    bound = UNTRUSTED.bound(given)
    assert (bound.head, bound.total, bound.body) == (head, total, given.body)
