"""Tests of the driver with a data connection, and of sending while the peer replies.

No byte is lost, whichever connection delivers first.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import NoReturn, TypeVar, cast

import pytest
import trio
import trio.testing

from protocols.contract import FirstResult, Line, Reply, Stream
from protocols.conversation.driver import Conversation, hold
from protocols.step import (
    AwaitData,
    BodyStarted,
    CloseData,
    Connect,
    CopiedBody,
    CopyBody,
    DataExpectation,
    Dialogue,
    OpenData,
    PlanNote,
    Receive,
    Send,
    SendBody,
    StartBody,
    StartTls,
    StopCondition,
)
from protocols.wire import Buffer, Rest, encode_line, encode_payload, read_line
from resolver import (
    Disconnected,
    Kind,
    Limits,
    Options,
    ProtocolError,
    ResolveError,
    TimedOut,
    TlsError,
    Truncated,
    Unreachable,
)
from resolver.network import connecting as race
from resolver.testing import whole
from resolver.testing.transcript import Connection
from tests.hang import HANG
from tests.protocols.in_memory import MemoryGate, MemoryStream
from tests.protocols.opening import perform

A = TypeVar("A")
B = TypeVar("B")
LINE = read_line(100)
RESET = Disconnected("reset")


class Pipe:
    """A `Stream` whose other end is a memory stream that the test feeds."""

    peer = "192.0.2.1"
    received = 0
    secured = False

    def __init__(self) -> None:
        self.far, self._near = trio.testing.memory_stream_pair()
        self.close_notify_seen = False
        self.broken: ResolveError | None = None
        self.slow: trio.Event | None = None
        self.closed = False

    async def receive(self) -> bytes:
        octets = bytes(await self._near.receive_some())
        if not octets and self.broken is not None:
            raise self.broken
        return octets

    async def start_tls(self) -> None:
        if self.slow is not None:
            await self.slow.wait()
        self.secured = True

    async def aclose(self) -> None:
        self.closed = True


class PipeGate:
    """A `Gate` to a control pipe and a data pipe."""

    limits = Limits()
    options = Options()

    def __init__(self) -> None:
        self.control, self.data = Pipe(), Pipe()
        self.unreachable = False

    @asynccontextmanager
    async def connect(self, *, tls: bool) -> AsyncIterator[Pipe]:
        yield self.control
        await self.control.aclose()

    @asynccontextmanager
    async def connect_data(self, port: int) -> AsyncIterator[Pipe]:
        if self.unreachable:
            raise Unreachable("nobody there")
        yield self.data
        await self.data.aclose()

    first_of = staticmethod(race.first_of)


def classify_line(lines: Sequence[bytes]) -> DataExpectation:
    return {b"1": DataExpectation.MORE, b"2": DataExpectation.LAST, b"4": DataExpectation.BROKEN}.get(
        lines[-1][:1], DataExpectation.OVER
    )


def line(buffer: Buffer) -> Generator[Rest | None, None, bytes]:
    """Read one line; a line that starts with a question mark is an error."""
    if (taken := (yield from read_line(100)(buffer))).startswith(b"?"):
        raise ProtocolError("no line")
    return taken


def await_data(tls: bool = False) -> Dialogue[object]:
    """Wait for data, then receive one more line."""
    yield Connect()
    yield OpenData(1, tls)
    begun = yield AwaitData(line, "a line or data", b"1", classify_line)
    yield PlanNote("then")
    last = yield Receive(line, "a line", b"2")
    return begun, last


async def run(gate: PipeGate, dialogue: Dialogue[object], *feeds: Callable[[], Awaitable[None]]) -> object:
    results: list[object] = []

    async def converse() -> None:
        results.append(await perform(dialogue, gate))  # type: ignore[arg-type]

    with trio.fail_after(HANG):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(converse)
            for feed in feeds:
                await trio.testing.wait_all_tasks_blocked()
                await feed()
    return results[0]


def feed_bytes(pipe: Pipe, octets: bytes) -> Callable[[], Awaitable[None]]:
    async def feed() -> None:
        await pipe.far.send_all(octets)

    return feed


def feed_end(pipe: Pipe) -> Callable[[], Awaitable[None]]:
    return pipe.far.send_eof


async def test_await_data_before_reply_resumes_partial_line() -> None:
    gate = PipeGate()
    result = await run(
        gate,
        await_data(),
        feed_bytes(gate.control, b"15"),
        feed_bytes(gate.data, b"octets"),
        feed_bytes(gate.control, b"0 a\n"),
    )
    assert result == (BodyStarted((), 6), b"150 a")


async def test_await_data_after_lines() -> None:
    gate = PipeGate()
    result = await run(
        gate,
        await_data(),
        feed_bytes(gate.control, b"1 a\n1 b\n2"),
        feed_bytes(gate.data, b"octets"),
        feed_bytes(gate.control, b" c\n"),
    )
    assert result == (BodyStarted((b"1 a", b"1 b"), 6), b"2 c")


async def test_await_data_final_line_does_not_end_wait() -> None:
    gate = PipeGate()
    result = await run(
        gate,
        await_data(),
        feed_bytes(gate.control, b"2 a\n"),
        feed_bytes(gate.data, b"octets"),
        feed_bytes(gate.control, b"x\n"),
    )
    assert result == (BodyStarted((b"2 a",), 6), b"x")


@pytest.mark.parametrize("data", [b"", b"octets"])
async def test_await_data_malformed_line_with_data_is_raised(data: bytes) -> None:
    """The error is raised, whether it arrives with the data or before any data."""
    gate = PipeGate()

    async def both() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(gate.data.far.send_all, data)
            nursery.start_soon(gate.control.far.send_all, b"1 a\n?\n")

    with pytest.raises(ExceptionGroup) as raised:
        await run(gate, await_data(), both)
    assert raised.group_contains(ProtocolError, match="no line")


@pytest.mark.parametrize("reset", [False, True])
async def test_await_data_control_closed_after_line_is_raised(reset: bool) -> None:
    gate = PipeGate()
    gate.control.broken = RESET if reset else None
    with pytest.raises(ExceptionGroup) as raised:
        await run(
            gate,
            await_data(),
            feed_bytes(gate.control, b"2 a\n"),
            feed_end(gate.control),
            feed_bytes(gate.data, b"octets"),
        )
    assert raised.group_contains(Disconnected, match="line")  # of the line expected after the data
    assert gate.data.closed


async def test_await_data_refusal_line_ends_wait() -> None:
    gate = PipeGate()
    result = await run(
        gate, await_data(), feed_bytes(gate.control, b"1 a\n5 b\n"), feed_bytes(gate.control, b"x\n")
    )
    assert result == (BodyStarted((b"1 a", b"5 b"), 0), b"x")


@pytest.mark.parametrize("octets", [b"", b"octets"])
async def test_await_data_broken_line_takes_available_data(octets: bytes) -> None:
    """The result does not depend on which connection is read first, and the driver does not wait for data."""
    for _ in range(20):
        gate = PipeGate()

        async def both(gate: PipeGate = gate) -> None:
            await gate.data.far.send_all(octets)
            await gate.control.far.send_all(b"1 a\n4 b\nx\n")

        result = await run(gate, await_data(), both)
        assert isinstance(result, tuple)
        assert (result[0].octets, result[0].values[2:]) == (len(octets), ())


@pytest.mark.parametrize("lines", [b"", b"1 a\n"])
async def test_await_data_control_closed_takes_available_data(lines: bytes) -> None:
    """The server sent all data before it closed the control connection; the end is read first."""
    gate = PipeGate()

    async def first_of(
        first: Callable[[], Awaitable[A]], second: Callable[[], Awaitable[B]]
    ) -> tuple[FirstResult[A] | None, FirstResult[B] | None]:
        return FirstResult(await first()), None

    gate.first_of = first_of

    def dialogue() -> Dialogue[object]:
        yield Connect()
        yield OpenData(1)
        return (yield AwaitData(line, "a line or data", b"1", classify_line))

    async def both() -> None:
        await gate.data.far.send_all(b"octets")
        await gate.control.far.send_all(lines)
        await gate.control.far.send_eof()

    assert await run(gate, dialogue(), both) == BodyStarted((b"1 a",) if lines else (), 6)


@pytest.mark.parametrize("broken", [False, True])
async def test_await_data_closed_before_first_byte(broken: bool) -> None:
    gate = PipeGate()
    gate.data.broken = RESET if broken else None
    result = await run(gate, await_data(), feed_end(gate.data), feed_bytes(gate.control, b"2 a\n"))
    assert isinstance(result, tuple)
    begun, last = result
    assert isinstance(begun, BodyStarted)
    assert (begun.values, begun.octets, isinstance(begun.broken, Disconnected)) == ((), 0, broken)
    assert last == b"2 a"


async def test_await_data_handshake_continues_between_lines() -> None:
    """A preliminary (1xx) and a final (2xx) line do not end the TLS handshake."""
    gate = PipeGate()
    gate.data.slow = trio.Event()

    async def go_on() -> None:
        assert gate.data.slow is not None
        gate.data.slow.set()

    result = await run(
        gate,
        await_data(tls=True),
        feed_bytes(gate.control, b"1 a\n2 b\n"),
        go_on,
        feed_bytes(gate.data, b"octets"),
        feed_bytes(gate.control, b"x\n"),
    )
    assert result == (BodyStarted((b"1 a", b"2 b"), 6), b"x")
    assert gate.data.secured


async def test_await_data_refusal_cancels_handshake() -> None:
    gate = PipeGate()
    gate.data.slow = trio.Event()
    result = await run(
        gate, await_data(tls=True), feed_bytes(gate.control, b"5 a\n"), feed_bytes(gate.control, b"x\n")
    )
    assert result == (BodyStarted((b"5 a",), 0), b"x")
    assert not gate.data.secured


async def test_await_data_interrupted_handshake_is_not_resumed() -> None:
    gate = PipeGate()
    gate.data.slow = trio.Event()

    def dialogue() -> Dialogue[object]:
        yield Connect()
        yield OpenData(1, True)
        return (yield AwaitData(LINE, "a line or data", b"1", classify_line))

    begun = await run(gate, dialogue(), feed_bytes(gate.control, b"2 a\n"), feed_end(gate.control))
    assert isinstance(begun, BodyStarted)
    assert isinstance(begun.broken, TlsError)


def await_announced_data() -> Dialogue[object]:
    """Wait for the line that announces data, for data, and for one more line."""
    yield Connect()
    yield OpenData(1)
    begun = yield AwaitData(line, "a line, then data", b"1", classify_line, announced=True)
    return begun, (yield Receive(line, "a line", b"2"))


@pytest.mark.parametrize("word", [b"1 a\n", b"2 a\n"])
async def test_announced_data_is_read_after_the_line(word: bytes) -> None:
    gate = PipeGate()
    feeds = (
        feed_bytes(gate.data, b"octets"),
        feed_bytes(gate.control, word),
        feed_bytes(gate.control, b"x\n"),
    )
    assert await run(gate, await_announced_data(), *feeds) == (BodyStarted((word[:-1],), 6), b"x")


async def test_announced_data_may_be_empty() -> None:
    gate = PipeGate()
    result = await run(
        gate, await_announced_data(), feed_bytes(gate.control, b"1 a\n1 b\nx\n"), feed_end(gate.data)
    )
    assert result == (BodyStarted((b"1 a",), 0), b"1 b")


async def test_announced_data_reports_connection_error() -> None:
    gate = PipeGate()
    gate.data.broken = RESET
    result = await run(
        gate, await_announced_data(), feed_bytes(gate.control, b"1 a\nx\n"), feed_end(gate.data)
    )
    assert isinstance(result, tuple)
    assert isinstance(result[0].broken, Disconnected)
    assert result[1] == b"x"


async def copy_announced_data(gate: PipeGate) -> tuple[bytes, bytes, object]:
    """Copy six bytes of data.

    Return the bytes that are complete at the start of the body, all bytes, and the result or the error of the
    copy.
    """
    results: list[object] = []

    def dialogue() -> Dialogue[None]:
        yield Connect()
        yield OpenData(1)
        yield AwaitData(line, "a line, then data", b"1", classify_line, announced=True, size=6)
        yield StartBody(Reply(kind=Kind.UNKNOWN))
        try:
            results.append((yield CopyBody("data", source="data", expected=6)))
        except ResolveError as error:
            results.append(error)

    for feed in (feed_bytes(gate.control, b"1 a\n"), feed_bytes(gate.data, b"octets"), feed_end(gate.data)):
        await feed()
    with trio.fail_after(HANG):
        async with hold(dialogue(), gate) as reply:  # type: ignore[arg-type]
            complete = cast(Conversation, reply.body).take_whole()
            octets = b"".join([octets async for octets in reply.body])
    return complete, complete + octets, results[0]


async def test_announced_data_of_known_size_is_complete_at_start_of_body() -> None:
    assert await copy_announced_data(PipeGate()) == (b"octets", b"octets", CopiedBody(6))


@pytest.mark.parametrize(("failure", "error"), [(RESET, Truncated), (TimedOut("idle"), TimedOut)])
async def test_announced_data_without_end_raises_error_after_all_bytes(
    failure: ResolveError, error: type[ResolveError]
) -> None:
    gate = PipeGate()
    gate.data.broken = failure
    complete, octets, result = await copy_announced_data(gate)
    assert (complete, octets) == (b"", b"octets")
    assert type(result) is error


@pytest.mark.parametrize("word", [b"5 a\n", b"4 a\n"])
async def test_announced_data_refused_is_not_awaited(word: bytes) -> None:
    gate = PipeGate()
    result = await run(
        gate, await_announced_data(), feed_bytes(gate.control, word), feed_bytes(gate.control, b"x\n")
    )
    assert result == (BodyStarted((word[:-1],), 0), b"x")


async def test_step_error_is_raised_at_its_yield() -> None:
    gate = PipeGate()
    gate.unreachable = True

    def dialogue() -> Dialogue[object]:
        yield Connect()
        try:
            yield OpenData(1)
        except Unreachable as error:
            return f"went another way: {error}"
        return None

    assert await run(gate, dialogue()) == "went another way: nobody there"


async def test_close_data_keeps_control_connection() -> None:
    gate = PipeGate()

    def dialogue() -> Dialogue[object]:
        yield Connect()
        yield OpenData(1)
        yield CloseData()
        assert (gate.data.closed, gate.control.closed) == (True, False)
        return (yield Receive(LINE, "a line", b"2"))

    assert await run(gate, dialogue(), feed_bytes(gate.control, b"2 a\n")) == b"2 a"
    assert gate.control.closed


async def test_start_tls_with_buffered_plaintext_is_refused() -> None:
    gate = PipeGate()

    def dialogue() -> Dialogue[object]:
        yield Connect()
        yield Receive(LINE, "a line", b"2")
        try:
            yield StartTls()
        except ProtocolError as error:
            return error.message
        return None

    message = await run(gate, dialogue(), feed_bytes(gate.control, b"234 go\n230 in\n"))
    assert isinstance(message, str)
    assert "in the clear" in message
    assert not gate.control.secured


# Replies during a send: a reply that matches the stop condition ends the send. Every other reply is kept for
# the next step, and no byte is lost.

UNLESS = StopCondition(LINE, lambda line: line == b"no")
HELLO = encode_line(b"hello")


class Wire(MemoryStream):
    """A stream whose sends block until `go` is set, if `waits`; `said` are the received pieces."""

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
        """Return the number of pieces not received yet."""
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
    """A `Gate` to the given wire."""

    def __init__(self, wire: Wire) -> None:
        super().__init__(())
        self._wire = wire

    @asynccontextmanager
    async def connect(self, *, tls: bool) -> AsyncIterator[Stream]:
        yield self._wire

    first_of = staticmethod(race.first_of)

    async def stand_by(self) -> NoReturn:
        await trio.sleep_forever()


def source_of(pieces: Iterator[bytes]) -> Callable[[], Awaitable[bytes]]:
    async def next_piece() -> bytes:
        await trio.lowlevel.checkpoint()
        return next(pieces, b"")

    return next_piece


def make_upload(*pieces: bytes) -> SendBody:
    return SendBody((HELLO,), source_of(iter(pieces)), lambda octets: encode_payload(octets or b"."), UNLESS)


def make_send() -> Send:
    return Send((HELLO,), UNLESS)


def send_then_receive(step: Send | SendBody, heard: list[object], *, then: bool) -> Dialogue[None]:
    """Perform the step and, if `then`, receive a line."""
    yield Connect()
    heard.append((yield step))
    if then:
        heard.append((yield Receive(LINE, "a line", b"")))


async def converse(wire: Wire, step: Send | SendBody, *, then: bool) -> list[object]:
    heard: list[object] = []
    with trio.fail_after(HANG):
        await perform(send_then_receive(step, heard, then=then), WireGate(wire))
    return heard


STEPS = pytest.mark.parametrize("made", [make_send, lambda: make_upload(b"a", b"b")], ids=["Say", "Upload"])


async def test_send_body_sends_each_piece_of_the_caller() -> None:
    wire = Wire(b"yes\n", waits=False)
    assert await converse(wire, make_upload(b"a", b"b"), then=True) == [None, b"yes"]
    assert wire.sent == b"hello\r\nab."
    bare = Wire(waits=False)
    assert await converse(bare, make_upload(), then=False) == [None]
    assert bare.sent == b"hello\r\n."


@STEPS
@pytest.mark.parametrize("said", [(b"no\n",), (b"n", b"o\n"), (TimedOut("silence"), b"no\n")])
async def test_send_stopped_by_matching_line_returns_it(
    made: Callable[[], Send | SendBody], said: tuple[bytes | ResolveError, ...]
) -> None:
    wire = Wire(*said, waits=True)
    assert await converse(wire, made(), then=False) == [b"no"]
    assert wire.sent == b""


@STEPS
@pytest.mark.parametrize("said", [(b"yes\n",), (b"y", b"es\n"), (TimedOut("silence"), b"yes\n")])
async def test_send_other_line_is_kept_for_next_receive(
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
async def test_send_partial_line_is_resumed_by_next_receive(
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
async def test_send_error_of_reply_is_raised(
    made: Callable[[], Send | SendBody], error: ResolveError
) -> None:
    with pytest.raises(type(error)) as caught:
        await converse(Wire(error, waits=True), made(), then=False)
    assert caught.value is error


class LastMomentWire(Wire):
    """A wire that receives a piece in the same turn in which the last bytes are sent."""

    async def receive(self) -> bytes:
        self.go.set()
        return await super().receive()


async def test_send_error_with_last_bytes_is_raised() -> None:
    """The connection raises the error only once."""
    with pytest.raises(ProtocolError, match="no line"):
        await converse(LastMomentWire(ProtocolError("no line"), waits=True), make_send(), then=False)


async def test_send_line_with_last_bytes_does_not_stop_it() -> None:
    """The send is complete, so the next step receives the line."""
    wire = LastMomentWire(b"no\n", waits=True)
    assert await converse(wire, make_send(), then=True) == [None, b"no"]
    assert wire.sent == b"hello\r\n"


async def test_send_body_error_of_caller_is_raised_unchanged() -> None:
    async def broken() -> bytes:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await converse(Wire(waits=False), SendBody((), broken, encode_payload, UNLESS), then=False)
