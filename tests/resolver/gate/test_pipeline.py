"""Several on one connection: who may send, who may read, and what becomes of the rest when one fails."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import cast

import pytest
import trio

from protocols.contract import Line
from protocols.wire import Buffer
from resolver import Disconnected, NetworkError, TimedOut, TlsError, Unreachable
from resolver.loops import running
from resolver.network.pool import ConnectionPool, Pipeline, Pipelines, PipelineSlot
from resolver.network.stream import SocketStream
from resolver.network.stream_settings import StreamSettings

LINE = Line(b"x", b"x")
GOODBYE = Line(b"bye", b"bye")
HERE = ("127.0.0.1",)


@dataclass
class State:
    """What is known in common; `room` is how many may be unanswered."""

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
    """As much of a gate's stream as a pipeline needs. `sent` are the terms under which something left."""

    peer = "127.0.0.1"
    secured = False
    received = 0
    quiet = True

    def __init__(self) -> None:
        self.loop = running()
        self.sent: list[object] = []
        self.lines: list[Line] = []
        self.closed = 0
        self.silent = False
        self._settings: object = None

    def serve(self, terms: object) -> None:
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
class Company:
    """A pipeline and the pool behind it."""

    stream: FakeStream
    state: State
    pipeline: Pipeline
    pipelines: Pipelines

    @classmethod
    async def gather(cls, state: State | None = None, pool: ConnectionPool | None = None) -> Company:
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
    await slot.stream.send(LINE)


def started(nursery: trio.Nursery, wait: Callable[[], Awaitable[object]]) -> list[object]:
    """Wait in a task of its own; the list holds the outcome once it is over."""
    outcome: list[object] = []

    async def run() -> None:
        try:
            outcome.append(await wait())
        except NetworkError as error:
            outcome.append(error)

    nursery.start_soon(run)
    return outcome


async def test_requests_are_sent_in_the_order_they_came(nursery: trio.Nursery) -> None:
    company = await Company.gather()
    first, second, third = company.add("1", "2", "3")
    waiting = [started(nursery, partial(send, slot)) for slot in (third, second)]
    await trio.testing.wait_all_tasks_blocked()
    assert company.stream.sent == []
    await send(first)
    await trio.testing.wait_all_tasks_blocked()
    assert company.stream.sent == ["1", "2", "3"]
    assert waiting == [[None], [None]]


async def test_requests_are_sent_only_where_there_is_room(nursery: trio.Nursery) -> None:
    company = await Company.gather(State(room=0))
    first, second = company.add("1", "2")
    await send(first)  # the first one needs none
    sent = started(nursery, lambda: send(second))
    await trio.testing.wait_all_tasks_blocked()
    assert sent == []
    await company.leave(first)
    await trio.testing.wait_all_tasks_blocked()
    assert sent == [None]


async def test_responses_are_read_one_after_the_other(nursery: trio.Nursery) -> None:
    company = await Company.gather()
    slots = company.add("1", "2", "3")
    for slot in slots:
        await send(slot)
    turns = [started(nursery, slot.start_response) for slot in slots]
    for index, slot in enumerate(slots):
        await trio.testing.wait_all_tasks_blocked()
        assert [bool(turn) for turn in turns] == [other <= index for other in range(3)]
        await company.leave(slot)
    assert company.stream.closed == 1


async def test_in_a_new_generation_all_send_again_in_order(nursery: trio.Nursery) -> None:
    company = await Company.gather()
    slots = company.add("1", "2", "3")
    for slot in slots:
        await send(slot)
    turns = [started(nursery, slot.start_response) for slot in slots]
    company.state.generation += 1
    company.state.room = 0
    await slots[0].stream.send(LINE)
    await trio.testing.wait_all_tasks_blocked()
    assert turns == [[None]] * 3, "all but the first are told that they have to send again"
    again = [started(nursery, partial(send, slot)) for slot in reversed(slots[1:])]
    await trio.testing.wait_all_tasks_blocked()
    assert again == [[], []]
    company.state.room = 100
    await slots[0].stream.send(LINE)
    await trio.testing.wait_all_tasks_blocked()
    assert company.stream.sent == ["1", "2", "3", "1", "1", "2", "3"]


@pytest.mark.parametrize("index", [0, 1])
async def test_who_fails_takes_along_those_behind(nursery: trio.Nursery, index: int) -> None:
    company = await Company.gather()
    slots = company.add("1", "2", "3")
    for slot in slots:
        await send(slot)
    turns = [started(nursery, slot.start_response) for slot in slots]
    await trio.testing.wait_all_tasks_blocked()
    await company.leave(slots[index], ended=False)
    await trio.testing.wait_all_tasks_blocked()
    assert isinstance(turns[2][0], Disconnected)
    assert company.pipeline.closed
    for slot in slots:
        if slot is not slots[index]:
            await company.leave(slot, ended=slot is slots[0])
    assert company.stream.closed >= 1
    assert company.stream.lines.count(GOODBYE) == 0, "no farewell on a connection out of step"


async def test_who_has_sent_nothing_leaves_no_trace(nursery: trio.Nursery) -> None:
    company = await Company.gather()
    first, second, third = company.add("1", "2", "3")
    await send(first)
    await company.leave(second, ended=False)
    await send(third)
    await company.leave(first)
    await third.start_response()
    await company.leave(third)
    assert company.pipeline.in_order


async def test_those_behind_silence_need_not_try_again(nursery: trio.Nursery) -> None:
    company = await Company.gather()
    first, second = company.add("1", "2")
    await send(first)
    await send(second)
    turn = started(nursery, second.start_response)
    company.stream.silent = True
    with pytest.raises(TimedOut):
        await first.stream.receive()
    await company.leave(first, ended=False)
    await trio.testing.wait_all_tasks_blocked()
    assert isinstance(turn[0], TimedOut)


async def test_a_cancel_while_waiting_frees_the_slot(nursery: trio.Nursery) -> None:
    company = await Company.gather(State(room=0))
    first, second, third = company.add("1", "2", "3")
    await send(first)
    with trio.move_on_after(0):
        await second.start_request()
    await company.leave(second, ended=False)
    await company.leave(first)
    await send(third)
    assert company.stream.sent == ["1", "3"]


async def test_the_last_one_puts_the_connection_away() -> None:
    pool = ConnectionPool()
    pool.open()
    company = await Company.gather(pool=pool)
    (slot,) = company.add("1")
    await send(slot)
    await company.leave(slot)
    assert (len(pool), company.stream.closed) == (1, 0)
    await pool.aclose()
    assert (company.stream.lines, company.stream.closed) == ([LINE, GOODBYE], 1)


@pytest.mark.parametrize(("ended", "idle"), [(False, True), (True, False)])
async def test_what_is_not_in_order_is_closed(ended: bool, idle: bool) -> None:
    pool = ConnectionPool()
    pool.open()
    company = await Company.gather(State(idle=idle), pool)
    (slot,) = company.add("1")
    await send(slot)
    await company.leave(slot, ended=ended)
    assert (len(pool), company.stream.closed, company.stream.lines) == (0, 1, [LINE])


async def test_who_comes_joins_the_pipeline_that_is_there() -> None:
    company = await Company.gather()
    company.add("1")

    async def open_() -> tuple[SocketStream, State]:
        return cast(SocketStream, FakeStream()), State()

    assert await company.pipelines.join("key", HERE, open_) is company.pipeline
    assert await company.pipelines.join("other", HERE, open_) is not company.pipeline
    assert await company.pipelines.join("key", ("192.0.2.1",), open_) is not company.pipeline, (
        "not where it may go"
    )


async def test_nobody_joins_a_pipeline_that_is_out_of_step() -> None:
    company = await Company.gather()
    first, _ = company.add("1", "2")
    await send(first)
    await company.leave(first, ended=False)

    async def open_() -> tuple[SocketStream, State]:
        return cast(SocketStream, FakeStream()), State()

    assert await company.pipelines.join("key", HERE, open_) is not company.pipeline


class Opening:
    """An opener that waits, then fails or not; it counts."""

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


async def test_all_wait_for_one_connection(nursery: trio.Nursery) -> None:
    pipelines, opening = Pipelines(ConnectionPool()), Opening()
    joined = [started(nursery, lambda: pipelines.join("key", HERE, opening)) for _ in range(5)]
    await trio.testing.wait_all_tasks_blocked()
    opening.go.set()
    await trio.testing.wait_all_tasks_blocked()
    assert opening.calls == 1
    assert len({id(pipeline) for outcome in joined for pipeline in outcome}) == 1


@pytest.mark.parametrize("error", [Unreachable("nobody"), TimedOut("nothing"), TlsError("no trust")])
async def test_all_share_its_failure(nursery: trio.Nursery, error: NetworkError) -> None:
    pipelines, opening = Pipelines(ConnectionPool()), Opening(error)
    joined = [started(nursery, lambda: pipelines.join("key", HERE, opening)) for _ in range(5)]
    opening.go.set()
    await trio.testing.wait_all_tasks_blocked()
    assert opening.calls == 1
    assert {type(outcome[0]) for outcome in joined} == {type(error)}
    assert len({id(outcome[0]) for outcome in joined}) == 5, "each has an error of its own"


async def test_a_cancel_of_the_first_one_is_not_theirs(nursery: trio.Nursery) -> None:
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
