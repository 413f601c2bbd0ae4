"""Several on one connection: who may speak, who may hear, and what becomes of the rest when one fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

import pytest
import trio

from protocols.connection import Line
from protocols.errors import Disconnected, NetworkError, TimedOut, TlsError, Unreachable
from protocols.wire import Buffer
from resolver.gate.pool import Pool
from resolver.gate.row import Row, Rows, Seat
from resolver.gate.stream import Stream, Terms

LINE = Line(b"x", b"x")
GOODBYE = Line(b"bye", b"bye")
HERE = ("127.0.0.1",)


@dataclass
class Memory:
    """What talkers know in common; `room` is how many may be unanswered."""

    room: int = 100
    epoch: int = 0
    at_rest: bool = True
    buffer: Buffer = field(default_factory=Buffer)
    said: int = 0

    @property
    def has_room(self) -> bool:
        return self.said < self.room

    @property
    def farewell(self) -> tuple[Line, ...]:
        return (GOODBYE,)


class FakeStream:
    """As much of a gate's stream as a row needs. `sent` are the terms under which something left."""

    peer = "127.0.0.1"
    secured = False
    received = 0
    quiet = True

    def __init__(self) -> None:
        self.sent: list[object] = []
        self.lines: list[Line] = []
        self.closed = 0
        self.silent = False
        self._terms: object = None

    def serve(self, terms: object) -> None:
        self._terms = terms

    async def send(self, *lines: Line) -> None:
        self.sent.append(self._terms)
        self.lines += lines

    async def receive(self) -> bytes:
        if self.silent:
            raise TimedOut("silence")
        return b"octets"

    async def aclose(self) -> None:
        self.closed += 1


def terms(name: str) -> Terms:
    return cast(Terms, name)


@dataclass
class Company:
    """A row and the pool behind it."""

    stream: FakeStream
    memory: Memory
    row: Row
    rows: Rows

    @classmethod
    async def gather(cls, memory: Memory | None = None, pool: Pool | None = None) -> Company:
        stream, memory = FakeStream(), memory or Memory()
        rows = Rows(Pool() if pool is None else pool)

        async def open_() -> tuple[Stream, Memory]:
            return cast(Stream, stream), memory

        return cls(stream, memory, await rows.join("key", HERE, open_), rows)

    def sit(self, *names: str) -> list[Seat]:
        return [self.row.sit(terms(name)) for name in names]

    async def leave(self, seat: Seat, *, kept: bool = True) -> None:
        if kept:
            seat.keep()
        await self.rows.leave("key", self.row, seat)


async def speak(seat: Seat) -> None:
    await seat.take_floor()
    await seat.stream.send(LINE)


def started(nursery: trio.Nursery, wait: Callable[[], object]) -> list[object]:
    """Wait in a task of its own; the list holds the outcome once it is over."""
    outcome: list[object] = []

    async def run() -> None:
        try:
            outcome.append(await wait())  # type: ignore[misc]
        except NetworkError as error:
            outcome.append(error)

    nursery.start_soon(run)
    return outcome


async def test_they_speak_in_the_order_they_came(nursery: trio.Nursery) -> None:
    company = await Company.gather()
    first, second, third = company.sit("1", "2", "3")
    waiting = [started(nursery, lambda seat=seat: speak(seat)) for seat in (third, second)]
    await trio.testing.wait_all_tasks_blocked()
    assert company.stream.sent == []
    await speak(first)
    await trio.testing.wait_all_tasks_blocked()
    assert company.stream.sent == ["1", "2", "3"]
    assert waiting == [[None], [None]]


async def test_they_speak_only_where_there_is_room(nursery: trio.Nursery) -> None:
    company = await Company.gather(Memory(room=0))
    first, second = company.sit("1", "2")
    await speak(first)  # the first one needs none
    spoken = started(nursery, lambda: speak(second))
    await trio.testing.wait_all_tasks_blocked()
    assert spoken == []
    await company.leave(first)
    await trio.testing.wait_all_tasks_blocked()
    assert spoken == [None]


async def test_they_hear_one_after_the_other(nursery: trio.Nursery) -> None:
    company = await Company.gather()
    seats = company.sit("1", "2", "3")
    for seat in seats:
        await speak(seat)
    turns = [started(nursery, seat.await_turn) for seat in seats]
    for index, seat in enumerate(seats):
        await trio.testing.wait_all_tasks_blocked()
        assert [bool(turn) for turn in turns] == [other <= index for other in range(3)]
        await company.leave(seat)
    assert company.stream.closed == 1


async def test_a_new_epoch_sends_all_back_in_order(nursery: trio.Nursery) -> None:
    company = await Company.gather()
    seats = company.sit("1", "2", "3")
    for seat in seats:
        await speak(seat)
    turns = [started(nursery, seat.await_turn) for seat in seats]
    company.memory.epoch += 1
    company.memory.room = 0
    await seats[0].stream.send(LINE)
    await trio.testing.wait_all_tasks_blocked()
    assert turns == [[None]] * 3, "all but the first are told that they have to speak again"
    again = [started(nursery, lambda seat=seat: speak(seat)) for seat in reversed(seats[1:])]
    await trio.testing.wait_all_tasks_blocked()
    assert again == [[], []]
    company.memory.room = 100
    await seats[0].stream.send(LINE)
    await trio.testing.wait_all_tasks_blocked()
    assert company.stream.sent == ["1", "2", "3", "1", "1", "2", "3"]


@pytest.mark.parametrize("index", [0, 1])
async def test_who_fails_takes_along_those_behind(nursery: trio.Nursery, index: int) -> None:
    company = await Company.gather()
    seats = company.sit("1", "2", "3")
    for seat in seats:
        await speak(seat)
    turns = [started(nursery, seat.await_turn) for seat in seats]
    await trio.testing.wait_all_tasks_blocked()
    await company.leave(seats[index], kept=False)
    await trio.testing.wait_all_tasks_blocked()
    assert isinstance(turns[2][0], Disconnected)
    assert company.row.closed
    for seat in seats:
        if seat is not seats[index]:
            await company.leave(seat, kept=seat is seats[0])
    assert company.stream.closed >= 1
    assert company.stream.lines.count(GOODBYE) == 0, "no farewell on a connection out of step"


async def test_who_has_not_spoken_leaves_no_trace(nursery: trio.Nursery) -> None:
    company = await Company.gather()
    first, second, third = company.sit("1", "2", "3")
    await speak(first)
    await company.leave(second, kept=False)
    await speak(third)
    await company.leave(first)
    await third.await_turn()
    await company.leave(third)
    assert company.row.in_order


async def test_those_behind_silence_need_not_try_again(nursery: trio.Nursery) -> None:
    company = await Company.gather()
    first, second = company.sit("1", "2")
    await speak(first)
    await speak(second)
    turn = started(nursery, second.await_turn)
    company.stream.silent = True
    with pytest.raises(TimedOut):
        await first.stream.receive()
    await company.leave(first, kept=False)
    await trio.testing.wait_all_tasks_blocked()
    assert isinstance(turn[0], TimedOut)


async def test_a_cancel_while_waiting_frees_the_seat(nursery: trio.Nursery) -> None:
    company = await Company.gather(Memory(room=0))
    first, second, third = company.sit("1", "2", "3")
    await speak(first)
    with trio.move_on_after(0):
        await second.take_floor()
    await company.leave(second, kept=False)
    await company.leave(first)
    await speak(third)
    assert company.stream.sent == ["1", "3"]


async def test_the_last_one_puts_the_connection_away() -> None:
    pool = Pool()
    pool.open()
    company = await Company.gather(pool=pool)
    (seat,) = company.sit("1")
    await speak(seat)
    await company.leave(seat)
    assert (len(pool), company.stream.closed) == (1, 0)
    await pool.aclose()
    assert (company.stream.lines, company.stream.closed) == ([LINE, GOODBYE], 1)


@pytest.mark.parametrize(("kept", "at_rest"), [(False, True), (True, False)])
async def test_what_is_not_in_order_is_closed(kept: bool, at_rest: bool) -> None:
    pool = Pool()
    pool.open()
    company = await Company.gather(Memory(at_rest=at_rest), pool)
    (seat,) = company.sit("1")
    await speak(seat)
    await company.leave(seat, kept=kept)
    assert (len(pool), company.stream.closed, company.stream.lines) == (0, 1, [LINE])


async def test_who_comes_sits_down_in_the_row_that_is_there() -> None:
    company = await Company.gather()
    company.sit("1")

    async def open_() -> tuple[Stream, Memory]:
        return cast(Stream, FakeStream()), Memory()

    assert await company.rows.join("key", HERE, open_) is company.row
    assert await company.rows.join("other", HERE, open_) is not company.row
    assert await company.rows.join("key", ("192.0.2.1",), open_) is not company.row, "not where it may go"


async def test_nobody_joins_a_row_that_is_out_of_step() -> None:
    company = await Company.gather()
    first, _ = company.sit("1", "2")
    await speak(first)
    await company.leave(first, kept=False)

    async def open_() -> tuple[Stream, Memory]:
        return cast(Stream, FakeStream()), Memory()

    assert await company.rows.join("key", HERE, open_) is not company.row


class Opening:
    """An opener that waits, then fails or not; it counts."""

    def __init__(self, *errors: NetworkError | None) -> None:
        self._errors = list(errors)
        self.calls = 0
        self.go = trio.Event()

    async def __call__(self) -> tuple[Stream, Memory]:
        self.calls += 1
        await self.go.wait()
        error = self._errors.pop(0) if self._errors else None
        if error is not None:
            raise error
        return cast(Stream, FakeStream()), Memory()


async def test_all_wait_for_one_connection(nursery: trio.Nursery) -> None:
    rows, opening = Rows(Pool()), Opening()
    joined = [started(nursery, lambda: rows.join("key", HERE, opening)) for _ in range(5)]
    await trio.testing.wait_all_tasks_blocked()
    opening.go.set()
    await trio.testing.wait_all_tasks_blocked()
    assert opening.calls == 1
    assert len({id(row) for outcome in joined for row in outcome}) == 1


@pytest.mark.parametrize("error", [Unreachable("nobody"), TimedOut("nothing"), TlsError("no trust")])
async def test_all_share_its_failure(nursery: trio.Nursery, error: NetworkError) -> None:
    rows, opening = Rows(Pool()), Opening(error)
    joined = [started(nursery, lambda: rows.join("key", HERE, opening)) for _ in range(5)]
    opening.go.set()
    await trio.testing.wait_all_tasks_blocked()
    assert opening.calls == 1
    assert {type(outcome[0]) for outcome in joined} == {type(error)}
    assert len({id(outcome[0]) for outcome in joined}) == 5, "each has an error of its own"


async def test_a_cancel_of_the_first_one_is_not_theirs(nursery: trio.Nursery) -> None:
    rows, opening = Rows(Pool()), Opening()
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as inner:
            started(inner, lambda: rows.join("key", HERE, opening))
            await trio.testing.wait_all_tasks_blocked()
            joined = [started(nursery, lambda: rows.join("key", HERE, opening)) for _ in range(2)]
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
    opening.go.set()
    await trio.testing.wait_all_tasks_blocked()
    assert opening.calls == 2
    assert all(isinstance(outcome[0], Row) for outcome in joined)
