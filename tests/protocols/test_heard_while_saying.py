"""What a peer says while something is still said to it: it ends that, or waits for its turn, and is never
lost."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import NoReturn, TypeVar

import pytest
import trio
import trio.testing

from protocols.contract import FirstResult, Line, Stream
from protocols.step import Connect, Dialogue, Receive, Send, SendBody, StopCondition
from protocols.wire import encode_line, encode_payload, read_line
from resolver import Disconnected, ProtocolError, ResolveError, TimedOut
from resolver.network import connecting as race
from resolver.testing import whole
from resolver.testing.transcript import Connection
from tests.hang import HANG
from tests.protocols.in_memory import MemoryGate, MemoryStream
from tests.protocols.opening import perform

A = TypeVar("A")
B = TypeVar("B")

LINE = read_line(100)
UNLESS = StopCondition(LINE, lambda line: line == b"no")
HELLO = encode_line(b"hello")


class Wire(MemoryStream):
    """What is sent waits until `go`, where it `waits`; what is `said` comes piece by piece."""

    def __init__(self, *said: bytes | ResolveError, waits: bool) -> None:
        super().__init__(Connection((), "quiet"), whole, tls=False)
        self._peer, self._come = trio.open_memory_channel[bytes | ResolveError](math.inf)
        for each in said:
            self.say(each)
        self.go = trio.Event()
        if not waits:
            self.go.set()

    def say(self, came: bytes | ResolveError) -> None:
        self._peer.send_nowait(came)

    @property
    def unread(self) -> int:
        """So many pieces nobody has taken."""
        return self._come.statistics().current_buffer_used

    async def send(self, *lines: Line) -> None:
        await self.go.wait()
        self.sent += b"".join(line.octets for line in lines)

    async def receive(self) -> bytes:
        came = await self._come.receive()
        if isinstance(came, ResolveError):
            raise came
        return came


class WireGate(MemoryGate):
    """A `Gate` to one of them."""

    def __init__(self, wire: Wire) -> None:
        super().__init__(())
        self._wire = wire

    @asynccontextmanager
    async def connect(self, *, tls: bool) -> AsyncIterator[Stream]:
        yield self._wire

    async def first_of(
        self, first: Callable[[], Awaitable[A]], second: Callable[[], Awaitable[B]]
    ) -> tuple[FirstResult[A] | None, FirstResult[B] | None]:
        return await race.first_of(first, second)

    async def stand_by(self) -> NoReturn:
        await trio.sleep_forever()


def source_of(pieces: Iterator[bytes]) -> Callable[[], Awaitable[bytes]]:
    async def next_piece() -> bytes:
        await trio.lowlevel.checkpoint()
        return next(pieces, b"")

    return next_piece


def upload(*pieces: bytes) -> SendBody:
    return SendBody((HELLO,), source_of(iter(pieces)), lambda octets: encode_payload(octets or b"."), UNLESS)


def say() -> Send:
    return Send((HELLO,), UNLESS)


def saying(step: Send | SendBody, heard: list[object], *, then: bool) -> Dialogue[None]:
    """Says something; and hears a line, if it is `then` still to be heard."""
    yield Connect()
    heard.append((yield step))
    if then:
        heard.append((yield Receive(LINE, "a line", b"")))


async def converse(wire: Wire, step: Send | SendBody, *, then: bool) -> list[object]:
    heard: list[object] = []
    with trio.fail_after(HANG):
        await perform(saying(step, heard, then=then), WireGate(wire))
    return heard


STEPS = pytest.mark.parametrize("made", [say, lambda: upload(b"a", b"b")], ids=["Say", "Upload"])


async def test_what_a_program_gives_is_sent_piece_by_piece() -> None:
    wire = Wire(b"yes\n", waits=False)
    assert await converse(wire, upload(b"a", b"b"), then=True) == [None, b"yes"]
    assert wire.sent == b"hello\r\nab."
    bare = Wire(waits=False)
    assert await converse(bare, upload(), then=False) == [None]
    assert bare.sent == b"hello\r\n."


@STEPS
@pytest.mark.parametrize("said", [(b"no\n",), (b"n", b"o\n"), (TimedOut("silence"), b"no\n")])
async def test_what_ends_it_is_the_answer(
    made: Callable[[], Send | SendBody], said: tuple[bytes | ResolveError, ...]
) -> None:
    wire = Wire(*said, waits=True)
    assert await converse(wire, made(), then=False) == [b"no"]
    assert wire.sent == b""


@STEPS
@pytest.mark.parametrize("said", [(b"yes\n",), (b"y", b"es\n"), (TimedOut("silence"), b"yes\n")])
async def test_what_does_not_is_heard_next(
    made: Callable[[], Send | SendBody], said: tuple[bytes | ResolveError, ...], nursery: trio.Nursery
) -> None:
    wire = Wire(*said, b"more\n", waits=True)

    async def let_go() -> None:
        await trio.testing.wait_all_tasks_blocked()
        assert wire.sent == b""
        wire.go.set()

    nursery.start_soon(let_go)
    assert await converse(wire, made(), then=True) == [None, b"yes"]
    assert wire.sent.startswith(b"hello\r\n")
    assert wire.unread == 1, "nothing is read behind it: there may be no end of that"


@STEPS
async def test_a_line_half_heard_is_heard_on(
    made: Callable[[], Send | SendBody], nursery: trio.Nursery
) -> None:
    wire = Wire(b"no", waits=True)

    async def let_go() -> None:
        await trio.testing.wait_all_tasks_blocked()
        wire.go.set()
        await trio.testing.wait_all_tasks_blocked()
        wire.say(b" matter\n")

    nursery.start_soon(let_go)
    assert await converse(wire, made(), then=True) == [None, b"no matter"]


@STEPS
@pytest.mark.parametrize("error", [ProtocolError("no line"), Disconnected("gone")])
async def test_what_the_answer_breaks_by_is_raised(
    made: Callable[[], Send | SendBody], error: ResolveError
) -> None:
    with pytest.raises(type(error)) as caught:
        await converse(Wire(error, waits=True), made(), then=False)
    assert caught.value is error


class Turning(Wire):
    """Says something in the very turn in which the last octets leave."""

    async def receive(self) -> bytes:
        self.go.set()
        return await super().receive()


async def test_nor_is_it_lost_as_the_last_octets_leave() -> None:
    """The connection tells of it once only."""
    with pytest.raises(ProtocolError, match="no line"):
        await converse(Turning(ProtocolError("no line"), waits=True), say(), then=False)


async def test_what_comes_as_the_last_octets_leave_ends_nothing() -> None:
    """All was said, so the next step hears it."""
    wire = Turning(b"no\n", waits=True)
    assert await converse(wire, say(), then=True) == [None, b"no"]
    assert wire.sent == b"hello\r\n"


async def test_what_the_program_raises_is_its_own() -> None:
    async def broken() -> bytes:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await converse(Wire(waits=False), SendBody((), broken, encode_payload, UNLESS), then=False)
