"""Pooled connections and pipelines.

The pool finds connections by key, most recently used first. It does not use a connection that has unread data
or
was idle too long.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import cast

import pytest
import trio
import trustme

from protocols.contract import Line
from protocols.wire import Buffer
from resolver import (
    Disconnected,
    NetworkError,
    Policy,
    Referrer,
    Refused,
    TimedOut,
    TlsError,
    Unreachable,
    parse,
)
from resolver.loops import running
from resolver.network.pool import (
    CAPACITY,
    LIFETIME,
    ConnectionPool,
    Pipeline,
    Pipelines,
    PipelineSlot,
    ReusableConnection,
)
from resolver.network.stream import SocketStream
from resolver.network.stream_settings import StreamSettings
from resolver.network.url_gate import UrlGate
from resolver.transfer.network import Network
from tests.protocols.in_memory import MemorySink
from tests.resolver.network.peers import reset, start, start_tls

LINE = Line(b"hello", b"hello")
Serve = Callable[[trio.SocketStream], Awaitable[None]]


class Echo:
    """An echo server that records its connections."""

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
    """Borrow a connection and release it in order; return its stream and its previous state."""
    async with url_gate.acquire(pool_key, tls=False) as pooled:
        pooled.keep(state)
        return pooled.stream, pooled.state


async def test_pool_reuses_connection_released_in_order(nursery: trio.Nursery) -> None:
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


async def test_pool_outside_its_context_keeps_no_connection(nursery: trio.Nursery) -> None:
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
async def test_pool_closes_connection_not_in_order(how: str, nursery: trio.Nursery) -> None:
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
        # S11 (scope of credentials): sessions of different users share no connections
        ("http://127.0.0.1:{port}/", "you"),
        ("gopher://127.0.0.1:{port}/", "me"),
        ("http://localhost:{port}/", "me"),
        ("http://127.0.0.1:{other}/", "me"),
    ],
)
async def test_pool_does_not_share_connections_between_keys(
    url: str, pool_key: str, nursery: trio.Nursery
) -> None:
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
async def test_pool_drops_connection_that_received_data_or_ended(
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
        while stream.is_reusable:  # type: ignore[attr-defined]
            await trio.lowlevel.checkpoint()
        assert (await lend(network.admit(parse(f"http://127.0.0.1:{port}/"))))[1] is None
        while len(first) < 2:
            await trio.lowlevel.checkpoint()


async def test_pool_reuses_tls_connection(nursery: trio.Nursery, tmp_path: object) -> None:
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


async def test_pool_drops_connection_with_unread_tls_data(nursery: trio.Nursery) -> None:
    """The bytes are no longer in the socket. OpenSSL has read them into its buffer."""
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


async def test_pool_checks_policy_on_each_use(nursery: trio.Nursery) -> None:
    """S09 (checked addresses): a pooled connection is used only if the policy still allows its address."""
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
    """A stream whose attribute `is_reusable` is set by the test."""

    def __init__(self) -> None:
        self.loop = running()
        self.is_reusable = True
        self.peer = "a"
        self.closed = False

    async def aclose(self) -> None:
        self.closed = True


def idle(key: object, stream: Fake, state: int) -> ReusableConnection:
    return ReusableConnection(cast(SocketStream, stream), key, state)


async def test_pool_take_returns_last_used_connection_first() -> None:
    pool = ConnectionPool()
    pool.open()
    fakes = [Fake() for _ in range(3)]
    for number, fake in enumerate(fakes):
        await pool.store(idle("k", fake, number))
    taken = [await pool.take("k", "a") for _ in range(4)]
    assert [kept and kept.state for kept in taken] == [2, 1, 0, None]


async def test_pool_take_prefers_suitable_connection_and_spares_the_last() -> None:
    """If no connection is suitable, the first is taken. The last may be suitable for the next request."""
    pool = ConnectionPool()
    pool.open()
    for number in range(5):
        await pool.store(idle("k", Fake(), number))
    taken = [await pool.take("k", "a", suits) for suits in (_is_odd, lambda state: state == 9)]
    assert [kept and kept.state for kept in taken] == [3, 0]
    taken = [await pool.take("k", "a", _is_odd) for _ in range(4)]
    assert [kept and kept.state for kept in taken] == [1, 2, 4, None]


def _is_odd(state: object) -> bool:
    assert isinstance(state, int)
    return bool(state % 2)


async def test_pool_drops_connection_after_its_lifetime(autojump_clock: trio.testing.MockClock) -> None:
    pool, fake, late = ConnectionPool(), Fake(), Fake()
    pool.open()
    await pool.store(idle("k", fake, 1))
    await trio.sleep(LIFETIME + 1)
    assert await pool.take("k", "a") is None
    assert fake.closed
    await pool.store(idle("k", late, 1))
    await trio.sleep(LIFETIME - 1)
    assert await pool.take("k", "a") is not None


async def test_pool_evicts_oldest_connection() -> None:
    pool, fakes = ConnectionPool(), [Fake() for _ in range(CAPACITY + 2)]
    pool.open()
    for number, fake in enumerate(fakes):
        await pool.store(idle(number % 7, fake, number))
    assert [fake.closed for fake in fakes] == [True, True] + [False] * CAPACITY
    await pool.aclose()
    assert all(fake.closed for fake in fakes)
    assert len(pool.idle) == 0


@pytest.mark.parametrize(("descriptors", "most"), [(12, 0), (20, 0), (24, 1), (40, 3), (1_024, CAPACITY)])
async def test_pool_with_few_descriptors_stores_fewer_connections(
    descriptors: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resolver.network.pool.max_descriptors", lambda: descriptors)
    pool = ConnectionPool()
    pool.open()
    for number in range(CAPACITY + 2):
        await pool.store(idle("k", Fake(), number))
    assert len(pool.idle) == most
    await pool.aclose()


async def test_pool_keeps_connection_if_closing_the_oldest_fails(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool, fake, late = ConnectionPool(), Fake(), Fake()

    async def fail() -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(fake, "aclose", fail)
    pool.open()
    await pool.store(idle("k", fake, 1))
    await trio.sleep(LIFETIME + 1)
    with pytest.raises(ZeroDivisionError):
        await pool.store(idle("k", late, 2))
    await pool.aclose()
    assert late.closed


async def test_pool_put_allows_take_while_it_closes_another(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool, fake, late = ConnectionPool(), Fake(), Fake()
    taken: list[ReusableConnection | None] = []

    async def take() -> None:
        taken.append(await pool.take("k", "a"))

    monkeypatch.setattr(fake, "aclose", take)
    pool.open()
    await pool.store(idle("k", fake, 1))
    await trio.sleep(LIFETIME + 1)
    await pool.store(idle("k", late, 2))
    assert [kept and kept.state for kept in taken] == [2]


# Several requests on one connection: the order of sending and reading, and the effect of one failure on the
# other requests.

PIPELINE_LINE = Line(b"x", b"x")
GOODBYE = Line(b"bye", b"bye")
HERE = ("127.0.0.1",)


@dataclass
class State:
    """The shared state of a connection. `room` is the maximum number of unanswered requests."""

    room: int = 100
    generation: int = 0
    idle: bool = True
    buffer: Buffer = field(default_factory=Buffer)
    said: int = 0

    @property
    def has_room(self) -> bool:
        return self.said < self.room

    @property
    def farewell(self) -> tuple[Line, ...]:
        return (GOODBYE,)


class FakeStream:
    """The subset of a gate's stream that a pipeline needs.

    `sent` lists the settings in effect at each send.
    """

    peer = "127.0.0.1"
    secured = False
    received = 0
    is_reusable = True

    def __init__(self) -> None:
        self.loop = running()
        self.sent: list[object] = []
        self.lines: list[Line] = []
        self.closed = 0
        self.silent = False
        self._settings: object = None

    def apply_settings(self, terms: object) -> None:
        self._settings = terms

    async def send(self, *lines: Line) -> None:
        self.sent.append(self._settings)
        self.lines += lines

    async def receive(self) -> bytes:
        if self.silent:
            raise TimedOut("silence")
        return b"octets"

    async def aclose(self) -> None:
        self.closed += 1


def terms(name: str) -> StreamSettings:
    return cast(StreamSettings, name)


@dataclass
class PipelineHarness:
    """A pipeline and the connection pool that it uses."""

    stream: FakeStream
    state: State
    pipeline: Pipeline
    pipelines: Pipelines

    @classmethod
    async def gather(cls, state: State | None = None, pool: ConnectionPool | None = None) -> PipelineHarness:
        stream, state = FakeStream(), state or State()
        pipelines = Pipelines(ConnectionPool() if pool is None else pool)

        async def open_() -> tuple[SocketStream, State]:
            return cast(SocketStream, stream), state

        return cls(stream, state, await pipelines.join("key", HERE, open_), pipelines)

    def add(self, *names: str) -> list[PipelineSlot]:
        return [self.pipeline.add(terms(name)) for name in names]

    async def leave(self, slot: PipelineSlot, *, ended: bool = True) -> None:
        if ended:
            slot.end_response()
        await self.pipelines.leave("key", self.pipeline, slot)


async def send(slot: PipelineSlot) -> None:
    await slot.start_request()
    await slot.stream.send(PIPELINE_LINE)


def started(nursery: trio.Nursery, wait: Callable[[], Awaitable[object]]) -> list[object]:
    """Wait in a separate task; the returned list contains the outcome after the wait is over."""
    outcome: list[object] = []

    async def run() -> None:
        try:
            outcome.append(await wait())
        except NetworkError as error:
            outcome.append(error)

    nursery.start_soon(run)
    return outcome


async def test_pipeline_sends_requests_in_order(nursery: trio.Nursery) -> None:
    harness = await PipelineHarness.gather()
    first, second, third = harness.add("1", "2", "3")
    waiting = [started(nursery, partial(send, slot)) for slot in (third, second)]
    await trio.testing.wait_all_tasks_blocked()
    assert harness.stream.sent == []
    await send(first)
    await trio.testing.wait_all_tasks_blocked()
    assert harness.stream.sent == ["1", "2", "3"]
    assert waiting == [[None], [None]]


async def test_pipeline_sends_requests_only_with_room(nursery: trio.Nursery) -> None:
    harness = await PipelineHarness.gather(State(room=0))
    first, second = harness.add("1", "2")
    await send(first)  # the first request is sent regardless of `room`
    sent = started(nursery, lambda: send(second))
    await trio.testing.wait_all_tasks_blocked()
    assert sent == []
    await harness.leave(first)
    await trio.testing.wait_all_tasks_blocked()
    assert sent == [None]


async def test_pipeline_reads_responses_in_order(nursery: trio.Nursery) -> None:
    harness = await PipelineHarness.gather()
    slots = harness.add("1", "2", "3")
    for slot in slots:
        await send(slot)
    turns = [started(nursery, slot.start_response) for slot in slots]
    for index, slot in enumerate(slots):
        await trio.testing.wait_all_tasks_blocked()
        assert [bool(turn) for turn in turns] == [other <= index for other in range(3)]
        await harness.leave(slot)
    assert harness.stream.closed == 1


async def test_pipeline_new_generation_resends_all_in_order(nursery: trio.Nursery) -> None:
    harness = await PipelineHarness.gather()
    slots = harness.add("1", "2", "3")
    for slot in slots:
        await send(slot)
    turns = [started(nursery, slot.start_response) for slot in slots]
    harness.state.generation += 1
    harness.state.room = 0
    await slots[0].stream.send(PIPELINE_LINE)
    await trio.testing.wait_all_tasks_blocked()
    assert turns == [[None]] * 3, "all but the first must send again"
    again = [started(nursery, partial(send, slot)) for slot in reversed(slots[1:])]
    await trio.testing.wait_all_tasks_blocked()
    assert again == [[], []]
    harness.state.room = 100
    await slots[0].stream.send(PIPELINE_LINE)
    await trio.testing.wait_all_tasks_blocked()
    assert harness.stream.sent == ["1", "2", "3", "1", "1", "2", "3"]


@pytest.mark.parametrize("index", [0, 1])
async def test_pipeline_failure_disconnects_later_slots(nursery: trio.Nursery, index: int) -> None:
    harness = await PipelineHarness.gather()
    slots = harness.add("1", "2", "3")
    for slot in slots:
        await send(slot)
    turns = [started(nursery, slot.start_response) for slot in slots]
    await trio.testing.wait_all_tasks_blocked()
    await harness.leave(slots[index], ended=False)
    await trio.testing.wait_all_tasks_blocked()
    assert isinstance(turns[2][0], Disconnected)
    assert harness.pipeline.closed
    for slot in slots:
        if slot is not slots[index]:
            await harness.leave(slot, ended=slot is slots[0])
    assert harness.stream.closed >= 1
    assert harness.stream.lines.count(GOODBYE) == 0, "no farewell on a connection out of step"


async def test_pipeline_slot_without_request_can_leave(nursery: trio.Nursery) -> None:
    harness = await PipelineHarness.gather()
    first, second, third = harness.add("1", "2", "3")
    await send(first)
    await harness.leave(second, ended=False)
    await send(third)
    await harness.leave(first)
    await third.start_response()
    await harness.leave(third)
    assert harness.pipeline.in_order


async def test_pipeline_timeout_is_shared_by_later_slots(nursery: trio.Nursery) -> None:
    harness = await PipelineHarness.gather()
    first, second = harness.add("1", "2")
    await send(first)
    await send(second)
    turn = started(nursery, second.start_response)
    harness.stream.silent = True
    with pytest.raises(TimedOut):
        await first.stream.receive()
    await harness.leave(first, ended=False)
    await trio.testing.wait_all_tasks_blocked()
    assert isinstance(turn[0], TimedOut)


async def test_pipeline_cancel_while_waiting_frees_the_slot(nursery: trio.Nursery) -> None:
    harness = await PipelineHarness.gather(State(room=0))
    first, second, third = harness.add("1", "2", "3")
    await send(first)
    with trio.move_on_after(0):
        await second.start_request()
    await harness.leave(second, ended=False)
    await harness.leave(first)
    await send(third)
    assert harness.stream.sent == ["1", "3"]


async def test_pipeline_last_slot_returns_connection_to_pool() -> None:
    pool = ConnectionPool()
    pool.open()
    harness = await PipelineHarness.gather(pool=pool)
    (slot,) = harness.add("1")
    await send(slot)
    await harness.leave(slot)
    assert (len(pool.idle), harness.stream.closed) == (1, 0)
    await pool.aclose()
    assert (harness.stream.lines, harness.stream.closed) == ([PIPELINE_LINE, GOODBYE], 1)


@pytest.mark.parametrize(("ended", "idle"), [(False, True), (True, False)])
async def test_pipeline_not_in_order_is_closed(ended: bool, idle: bool) -> None:
    pool = ConnectionPool()
    pool.open()
    harness = await PipelineHarness.gather(State(idle=idle), pool)
    (slot,) = harness.add("1")
    await send(slot)
    await harness.leave(slot, ended=ended)
    assert (len(pool.idle), harness.stream.closed, harness.stream.lines) == (0, 1, [PIPELINE_LINE])


async def test_pipelines_join_reuses_pipeline_of_same_key_and_address() -> None:
    harness = await PipelineHarness.gather()
    harness.add("1")

    async def open_() -> tuple[SocketStream, State]:
        return cast(SocketStream, FakeStream()), State()

    assert await harness.pipelines.join("key", HERE, open_) is harness.pipeline
    assert await harness.pipelines.join("other", HERE, open_) is not harness.pipeline
    assert await harness.pipelines.join("key", ("192.0.2.1",), open_) is not harness.pipeline, (
        "not where it may go"
    )


async def test_pipelines_join_skips_pipeline_out_of_step() -> None:
    harness = await PipelineHarness.gather()
    first, _ = harness.add("1", "2")
    await send(first)
    await harness.leave(first, ended=False)

    async def open_() -> tuple[SocketStream, State]:
        return cast(SocketStream, FakeStream()), State()

    assert await harness.pipelines.join("key", HERE, open_) is not harness.pipeline


class Opening:
    """An opener that waits, then fails or succeeds, and counts its calls."""

    def __init__(self, *errors: NetworkError | None) -> None:
        self._errors = list(errors)
        self.calls = 0
        self.go = trio.Event()

    async def __call__(self) -> tuple[SocketStream, State]:
        self.calls += 1
        await self.go.wait()
        error = self._errors.pop(0) if self._errors else None
        if error is not None:
            raise error
        return cast(SocketStream, FakeStream()), State()


async def test_pipelines_join_opens_one_connection_for_all(nursery: trio.Nursery) -> None:
    pipelines, opening = Pipelines(ConnectionPool()), Opening()
    joined = [started(nursery, lambda: pipelines.join("key", HERE, opening)) for _ in range(5)]
    await trio.testing.wait_all_tasks_blocked()
    opening.go.set()
    await trio.testing.wait_all_tasks_blocked()
    assert opening.calls == 1
    assert len({id(pipeline) for outcome in joined for pipeline in outcome}) == 1


@pytest.mark.parametrize("error", [Unreachable("nobody"), TimedOut("nothing"), TlsError("no trust")])
async def test_pipelines_join_raises_opening_error_for_all(
    nursery: trio.Nursery, error: NetworkError
) -> None:
    pipelines, opening = Pipelines(ConnectionPool()), Opening(error)
    joined = [started(nursery, lambda: pipelines.join("key", HERE, opening)) for _ in range(5)]
    opening.go.set()
    await trio.testing.wait_all_tasks_blocked()
    assert opening.calls == 1
    assert {type(outcome[0]) for outcome in joined} == {type(error)}
    assert len({id(outcome[0]) for outcome in joined}) == 5, "each has an error of its own"


async def test_pipelines_join_survives_cancel_of_first_caller(nursery: trio.Nursery) -> None:
    pipelines, opening = Pipelines(ConnectionPool()), Opening()
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as inner:
            started(inner, lambda: pipelines.join("key", HERE, opening))
            await trio.testing.wait_all_tasks_blocked()
            joined = [started(nursery, lambda: pipelines.join("key", HERE, opening)) for _ in range(2)]
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
    opening.go.set()
    await trio.testing.wait_all_tasks_blocked()
    assert opening.calls == 2
    assert all(isinstance(outcome[0], Pipeline) for outcome in joined)
