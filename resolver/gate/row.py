"""Several retrievals that talk on one connection at once, answered in the order they came.

Each has a seat in the row. It speaks when all before it have spoken and what they know of the
connection has room for more; it hears when all before it have left. Who leaves in order passes the turn
on. Who does not, having spoken, takes along those behind, for nobody could tell their answers from its
own: they are `Disconnected`, and may join again elsewhere.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Container, Hashable
from dataclasses import dataclass, field
from typing import TypeAlias

import trio

from protocols.contract import Line, Memory, Sink
from protocols.errors import Disconnected, NetworkError, TimedOut
from resolver.gate.pool import Pool
from resolver.gate.stream import Stream, Terms

#: Connects, or finds a kept connection: with what is known of it.
Opener: TypeAlias = "Callable[[], Awaitable[tuple[Stream, Memory]]]"


class SeatStream:
    """The connection as one of the row has it: under its own terms, and known to have spoken."""

    def __init__(self, stream: Stream, terms: Terms, row: Row, seat: Seat) -> None:
        self._stream = stream
        self._terms = terms
        self._row = row
        self._seat = seat

    @property
    def peer(self) -> str:
        return self._stream.peer

    @property
    def secured(self) -> bool:
        return self._stream.secured

    @property
    def agreed(self) -> str | None:
        return self._stream.agreed

    @property
    def received(self) -> int:
        return self._stream.received

    @property
    def close_notify_seen(self) -> bool:
        return self._stream.close_notify_seen

    async def send(self, *lines: Line) -> None:
        self._stream.serve(self._terms)
        await self._stream.send(*lines)
        self._row.spoke(self._seat)

    async def receive(self) -> bytes:
        self._stream.serve(self._terms)
        try:
            return await self._stream.receive()
        except TimedOut:
            self._row.silent = True
            raise

    async def move(self, sink: Sink, count: int | None) -> int:
        self._stream.serve(self._terms)
        return await self._stream.move(sink, count)

    async def start_tls(self) -> None:
        self._stream.serve(self._terms)
        await self._stream.start_tls()

    async def aclose(self) -> None:
        await self._stream.aclose()


class Seat:
    """See `protocols.contract.Seat`. `epoch` is the one it spoke in, None while it has not; `gone`: those
    before it took its answers along."""

    def __init__(self, row: Row, terms: Terms) -> None:
        self._row = row
        self._stream = SeatStream(row.stream, terms, row, self)
        self.epoch: int | None = None
        self.gone = False
        self.kept = False
        self.woken = trio.Event()

    @property
    def stream(self) -> SeatStream:
        return self._stream

    @property
    def memory(self) -> Memory:
        return self._row.memory

    async def take_floor(self) -> None:
        while not self._row.may_speak(self):
            await self._sleep()

    async def await_turn(self) -> None:
        while not self._row.may_hear(self):
            await self._sleep()

    def keep(self) -> None:
        self.kept = True

    async def _sleep(self) -> None:
        self.woken = trio.Event()
        await self.woken.wait()


class Row:
    """One connection and who talks on it. `closed`: nobody else may sit down. `silent`: it was waited for
    in vain, and nobody need try the same again. `in_order`: all who left had read what was theirs."""

    def __init__(self, stream: Stream, memory: Memory) -> None:
        self.stream = stream
        self.memory = memory
        self.closed = False
        self.silent = False
        self.in_order = True
        self._seats: deque[Seat] = deque()
        self._unspoken: deque[Seat] = deque()
        self._epoch = memory.epoch

    def sit(self, terms: Terms) -> Seat:
        assert not self.closed, "this row takes nobody any more"
        seat = Seat(self, terms)
        self._seats.append(seat)
        self._unspoken.append(seat)
        return seat

    def may_speak(self, seat: Seat) -> bool:
        """Raises what `may_hear` raises."""
        self._check(seat)
        if self._seats[0] is seat:
            return True
        return self._unspoken[0] is seat and self.memory.has_room

    def spoke(self, seat: Seat) -> None:
        """What it had to say has left."""
        if self._unspoken and self._unspoken[0] is seat:
            self._unspoken.popleft()
        seat.epoch = self.memory.epoch
        self._go_on()

    def may_hear(self, seat: Seat) -> bool:
        """Is it its turn, or has it to ask anew? `Disconnected` or `TimedOut` where there is no hope."""
        self._check(seat)
        return self._seats[0] is seat or seat.epoch != self.memory.epoch

    def leave(self, seat: Seat) -> bool:
        """Is the row empty now?"""
        if not seat.gone:
            if not seat.kept and (seat.epoch is not None or self._seats[0] is seat):
                self._give_up_behind(seat)
            self._seats.remove(seat)
            if seat in self._unspoken:
                self._unspoken.remove(seat)
            self._go_on()
        return not self._seats

    def _give_up_behind(self, seat: Seat) -> None:
        """Nobody behind this one can be answered here any more."""
        self.closed, self.in_order = True, False
        while self._seats[-1] is not seat:
            behind = self._seats.pop()
            behind.gone = True
            behind.woken.set()
        self._unspoken = deque(each for each in self._unspoken if not each.gone)

    def _check(self, seat: Seat) -> None:
        if seat.gone and self.silent:
            raise TimedOut(f"nothing from {self.stream.peer}, which others waited for too")
        if seat.gone:
            raise Disconnected("the connection was given up before the answer came")

    def _go_on(self) -> None:
        """Wake those whose time may have come."""
        if self._epoch != self.memory.epoch:
            self._epoch = self.memory.epoch
            self._unspoken = deque(seat for seat in self._seats if seat.epoch != self._epoch)
            for seat in self._unspoken:
                seat.woken.set()
        for waiting in (self._seats, self._unspoken):
            if waiting:
                waiting[0].woken.set()


@dataclass
class _Forming:
    """A row whose first one is still connecting, and what came of that if it failed."""

    ready: trio.Event = field(default_factory=trio.Event)
    error: NetworkError | None = None


class Rows:
    """The rows of one run, by key: whoever comes to a place sits down in the row that is there."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._rows: dict[Hashable, Row] = {}
        self._forming: dict[Hashable, _Forming] = {}

    async def join(self, key: Hashable, addresses: Container[str], open_: Opener) -> Row:
        """The row for `key` if it leads to one of `addresses`, else a new one. Whoever waits for a row to
        form shares the error of its connection: it would be theirs a moment later."""
        while True:
            row = self._rows.get(key)
            if row is not None and not row.closed:
                return row if row.stream.peer in addresses else Row(*await open_())
            forming = self._forming.get(key)
            if forming is None:
                return await self._form(key, open_)
            await forming.ready.wait()
            if forming.error is not None:
                raise type(forming.error)(forming.error.message) from forming.error

    async def _form(self, key: Hashable, open_: Opener) -> Row:
        forming = self._forming[key] = _Forming()
        try:
            row = self._rows[key] = Row(*await open_())
        except NetworkError as error:
            forming.error = error
            raise
        finally:
            del self._forming[key]
            forming.ready.set()
        return row

    async def leave(self, key: Hashable, row: Row, seat: Seat) -> None:
        """The last one puts the connection away, or closes it."""
        if not row.leave(seat):
            return
        row.closed = True
        if self._rows.get(key) is row:
            del self._rows[key]
        if row.in_order and row.memory.at_rest:
            await self._pool.put(key, row.stream, row.memory, farewell=row.memory.farewell)
        else:
            await row.stream.aclose()
