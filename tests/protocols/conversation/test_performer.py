"""Tests of the driver: body streams, `Peek`, filters and datagram exchanges.

The bytes of a body arrive in order, are counted, and are read only as far as the caller reads. An error in
the body is raised at the step of the dialogue that waits for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing

from protocols.contract import (
    Datagram,
    DatagramAction,
    Line,
    PooledConnection,
    RedirectAddress,
    Reply,
    Sink,
    Stream,
    SwitchAddress,
)
from protocols.conversation.driver import hold
from protocols.conversation.rehearsal import rehearse
from protocols.step import (
    Acquire,
    CopyBody,
    DatagramReply,
    Dialogue,
    EmitBody,
    ExchangeDatagrams,
    OpenDatagrams,
    OpenedConnection,
    Peek,
    Receive,
    Send,
    StartBody,
    copy_body,
    peek,
    receive,
)
from protocols.wire import Buffer, Reader, encode_datagram, encode_line, read_line
from resolver import (
    Disconnected,
    Kind,
    LimitExceeded,
    ProtocolError,
    Refused,
    ResolveError,
    TimedOut,
    Truncated,
)
from tests.protocols.in_memory import MemoryGate, MemoryLoan, MemorySink

LINE = read_line(100)
RESET, SILENCE = Disconnected("reset"), TimedOut("silence")
WAYS = pytest.mark.parametrize("way", ["iterate", "drain"])


class Pieces:
    """A stream that returns the given pieces, then raises the given error or ends."""

    def __init__(self, *pieces: bytes, error: ResolveError | None = None) -> None:
        self._pieces = list(pieces)
        self._error = error
        self.received = 100  # the bytes that the dialogue received before the body
        self.peer = "192.0.2.1"
        self.agreed: str | None = None
        self.secured = self.close_notify_seen = False

    async def receive(self) -> bytes:
        octets = self._pieces.pop(0) if self._pieces else b""
        if not octets and self._error is not None:
            raise self._error
        self.received += len(octets)
        return octets

    async def move(self, sink: Sink, count: int | None) -> int:
        moved = 0
        while (count is None or moved < count) and (octets := await self.receive()):
            left = len(octets) if count is None else count - moved
            if octets[left:]:
                self._pieces.insert(0, octets[left:])
                self.received -= len(octets[left:])
            sink.write(octets[:left])
            moved += len(octets[:left])
        return moved

    async def send(self, *lines: Line) -> None:
        raise AssertionError("a body sends nothing")

    async def start_tls(self) -> None:
        raise AssertionError("a body changes nothing")

    async def aclose(self) -> None: ...


class BlockedStream(Pieces):
    """A stream whose `receive` and `send` block until `more` is set."""

    def __init__(self, *pieces: bytes) -> None:
        super().__init__(*pieces)
        self.more = trio.Event()

    async def receive(self) -> bytes:
        await self.more.wait()
        return await super().receive()

    async def send(self, *lines: object) -> None:
        await self.more.wait()


class PiecesGate(MemoryGate):
    """A gate to one connection, which is the given stream."""

    def __init__(self, stream: Stream) -> None:
        super().__init__(())
        self._stream = stream
        self.pauses = 0

    async def pause(self) -> None:
        self.pauses += 1

    @asynccontextmanager
    async def acquire(
        self, pool_key: object, *, tls: bool, suits: Callable[[object], bool] | None = None
    ) -> AsyncIterator[PooledConnection]:
        self.loans.append(MemoryLoan(self._stream, "anybody"))
        yield self.loans[-1]


class UppercaseFilter:
    """A filter that delays its last byte and appends `!`."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, octets: bytes) -> Iterator[bytes]:
        octets = self._held + octets
        self._held = octets[-1:]
        yield from (octets[at : at + 1].upper() for at in range(len(octets) - 1))
        yield b""

    def finish(self) -> tuple[bytes, ...]:
        return self._held.upper(), b"!"


def begun(then: Generator[object, object, object]) -> Dialogue[object]:
    yield Acquire("anybody")
    yield StartBody(Reply(kind=Kind.DOCUMENT))
    return (yield from then)  # type: ignore[misc]


async def take(dialogue: Dialogue[object], gate: PiecesGate, way: str) -> bytes:
    taken = MemorySink()
    async with hold(dialogue, gate) as reply:
        try:
            if way == "drain":
                assert await reply.body.drain(taken) == len(taken.octets)
            else:
                async for octets in reply.body:
                    assert octets, "an empty piece of a body"
                    taken.write(octets)
        except ResolveError as error:
            with pytest.raises(type(error)):  # a broken body stays broken and does not look complete
                await anext(reply.body)
            raise
        with pytest.raises(StopAsyncIteration):
            await anext(reply.body)
    return taken.octets


@WAYS
@pytest.mark.parametrize(
    ("pieces", "count", "body", "passed"),
    [
        ((), None, b"", 0),
        ((), 0, b"", 0),
        ((b"ab", b"cd", b"e"), None, b"abcde", 5),
        ((b"ab", b"cd", b"e"), 5, b"abcde", 5),
        ((b"abcde226 done\r\n",), 5, b"abcde", 5),
    ],
)
async def test_copy_body_passes_bytes_in_order_and_counts_them(
    way: str, pieces: tuple[bytes, ...], count: int | None, body: bytes, passed: int
) -> None:
    def dialogue() -> Dialogue[None]:
        yield EmitBody(b"<")
        assert (yield from copy_body(CopyBody("octets", count))).octets == passed
        yield EmitBody(b"")
        yield EmitBody(b">")

    assert await take(begun(dialogue()), PiecesGate(Pieces(*pieces)), way) == b"<" + body + b">"


@WAYS
async def test_copy_body_with_count_leaves_the_rest_to_the_dialogue(way: str) -> None:
    def dialogue() -> Dialogue[bytes]:
        yield from copy_body(CopyBody("octets", 4))
        return (yield from receive(LINE, "the final line", b""))

    gate = PiecesGate(Pieces(b"body226 ", b"done\r\n"))
    assert await take(begun(dialogue()), gate, way) == b"body"
    assert gate.loans[0].kept == b"226 done"


@WAYS
async def test_copy_body_finishes_filter_at_orderly_end(way: str) -> None:
    def dialogue() -> Dialogue[None]:
        assert (yield from copy_body(CopyBody("octets", filter=UppercaseFilter()))).octets == 3

    assert await take(begun(dialogue()), PiecesGate(Pieces(b"a", b"bc")), way) == b"ABC!"


@WAYS
@pytest.mark.parametrize(
    ("pieces", "error", "step", "raised", "received"),
    [
        ((b"ab",), None, CopyBody("octets", 9), Truncated, 2),
        ((b"ab", b"c"), RESET, CopyBody("octets"), Truncated, 3),
        ((b"ab",), RESET, CopyBody("octets", expected=7), Truncated, 2),
        ((b"ab",), RESET, CopyBody("octets", filter=UppercaseFilter()), Truncated, 2),
        ((), None, CopyBody("octets", 9), Disconnected, None),
        ((), RESET, CopyBody("octets"), Disconnected, None),
        ((b"ab",), SILENCE, CopyBody("octets"), TimedOut, None),
    ],
)
async def test_copy_body_raises_connection_error_in_dialogue(
    way: str,
    pieces: tuple[bytes, ...],
    error: ResolveError | None,
    step: CopyBody,
    raised: type[ResolveError],
    received: int | None,
) -> None:
    seen: list[ResolveError] = []

    def dialogue() -> Dialogue[None]:
        try:
            yield step
        except ResolveError as broken:
            seen.append(broken)
            raise

    with pytest.raises(raised):
        await take(begun(dialogue()), PiecesGate(Pieces(*pieces, error=error)), way)
    assert [type(each) for each in seen] == [raised]
    assert seen[0].__cause__ is not seen[0], "nothing is its own cause"
    if isinstance(seen[0], Truncated):
        expected = step.count if step.expected is None else step.expected
        assert (seen[0].received, seen[0].expected) == (received, expected)


@WAYS
async def test_copy_body_truncation_can_be_handled_by_dialogue(way: str) -> None:
    def dialogue() -> Dialogue[None]:
        try:
            yield from copy_body(CopyBody("octets"))
        except Truncated:
            yield EmitBody(b", and that was all")

    gate = PiecesGate(Pieces(b"ab", error=RESET))
    assert await take(begun(dialogue()), gate, way) == b"ab, and that was all"


async def test_dialogue_after_unread_body_is_not_performed() -> None:
    def dialogue() -> Dialogue[str]:
        yield EmitBody(b"first")
        yield Send((encode_line(b"NEVER"),))
        return "in order"

    gate = PiecesGate(Pieces())  # a `send` on this stream would fail
    async with hold(begun(dialogue()), gate) as reply:
        assert await anext(reply.body) == b"first"
    assert gate.loans[0].kept is None


async def test_dialogue_without_further_steps_completes_unread() -> None:
    def dialogue() -> Dialogue[str]:
        return "in order"
        yield

    gate = PiecesGate(Pieces())
    async with hold(begun(dialogue()), gate):
        pass
    assert gate.loans[0].kept == "in order"


async def test_connection_with_unread_bytes_is_not_pooled() -> None:
    def dialogue() -> Dialogue[str]:
        yield from copy_body(CopyBody("octets", 2))
        return "in order"

    gate = PiecesGate(Pieces(b"abc"))
    assert await take(begun(dialogue()), gate, "iterate") == b"ab"
    assert gate.loans[0].kept is None


@pytest.mark.parametrize("way", ["iterate", "drain"])
@pytest.mark.parametrize(("count", "pauses"), [(1, 0), (2, 1), (9, 8)])
async def test_body_pauses_between_two_pieces(count: int, pauses: int, way: str) -> None:
    """The driver pauses between two pieces, but not for a single piece."""

    def dialogue() -> Dialogue[None]:
        for _ in range(count):
            yield EmitBody(b"piece")

    gate = PiecesGate(Pieces())
    assert await take(begun(dialogue()), gate, way) == b"piece" * count
    assert gate.pauses == pauses


async def test_dialogue_error_after_start_body_is_raised_by_body() -> None:
    def dialogue() -> Dialogue[None]:
        raise ProtocolError("nonsense")
        yield

    async with hold(begun(dialogue()), PiecesGate(Pieces())) as reply:
        with pytest.raises(ProtocolError):
            await anext(reply.body)


@pytest.mark.parametrize("waiting", [CopyBody("octets"), Receive(LINE, "a line", b"")])
async def test_cancelled_wait_is_resumed(
    waiting: CopyBody | Receive[bytes], autojump_clock: trio.testing.MockClock
) -> None:
    def dialogue() -> Dialogue[None]:
        heard = yield waiting
        yield EmitBody(heard if isinstance(heard, bytes) else b"")

    stream = BlockedStream(b"ab\r\n")
    async with hold(begun(dialogue()), PiecesGate(stream)) as reply:
        with trio.move_on_after(1):
            await anext(reply.body)
        stream.more.set()
        assert (await anext(reply.body)).rstrip() == b"ab"


async def test_cancelled_send_is_not_resumed(autojump_clock: trio.testing.MockClock) -> None:
    def dialogue() -> Dialogue[None]:
        yield Send((encode_line(b"MORE"),))
        yield EmitBody(b"never")

    stream = BlockedStream()
    async with hold(begun(dialogue()), PiecesGate(stream)) as reply:
        with trio.move_on_after(1):
            await anext(reply.body)
        stream.more.set()
        for _ in range(2):
            with pytest.raises(Disconnected):
                await anext(reply.body)


def peek_reader(count: int) -> Reader[bytes]:
    """Return a reader that peeks at the first `count` bytes, or at all bytes before the end."""

    def reader(buffer: Buffer) -> Generator[None, None, bytes]:
        while len(buffer) < count and not buffer.is_all:
            yield
        return buffer.peek(count)

    return reader


def peek_then_copy(count: int, then: CopyBody, seen: list[bytes]) -> Dialogue[None]:
    yield Acquire("anybody")
    seen.append((yield from peek(peek_reader(count), b"")))
    yield StartBody(Reply(kind=Kind.DOCUMENT))
    yield then


@WAYS
@pytest.mark.parametrize("count", [0, 1, 3, 9])
@pytest.mark.parametrize("filtered", [False, True])
async def test_peeked_bytes_are_passed_to_the_body(way: str, count: int, filtered: bool) -> None:
    seen: list[bytes] = []
    step = CopyBody("octets", filter=UppercaseFilter() if filtered else None)
    body = await take(peek_then_copy(count, step, seen), PiecesGate(Pieces(b"ab", b"cd", b"e")), way)
    assert (seen, body) == ([b"abcde"[:count]], b"ABCDE!" if filtered else b"abcde")


@WAYS
@pytest.mark.parametrize(
    ("pieces", "error", "count", "raised"),
    [
        ((b"ab", b"c"), RESET, None, Truncated),
        ((b"ab", b"c"), RESET, 7, Truncated),
        ((b"ab", b"c"), RESET, 3, None),
        ((b"ab", b"c"), SILENCE, None, TimedOut),
        ((b"ab", b"c"), SILENCE, 2, None),
        ((), RESET, None, Disconnected),
        ((), SILENCE, 7, TimedOut),
        ((), RESET, 0, None),
    ],
)
async def test_peek_connection_error_is_raised_after_the_bytes_received(
    way: str,
    pieces: tuple[bytes, ...],
    error: ResolveError,
    count: int | None,
    raised: type[ResolveError] | None,
) -> None:
    """The error is raised only if the caller reads that far; a socket does not repeat the error."""
    taken, seen = MemorySink(), list[bytes]()
    gate = PiecesGate(RaiseOnceStream(*pieces, error=error))
    caught: ResolveError | None = None
    async with hold(peek_then_copy(9, CopyBody("octets", count), seen), gate) as reply:
        try:
            if way == "drain":
                await reply.body.drain(taken)
            else:
                async for octets in reply.body:
                    taken.write(octets)
        except ResolveError as broken:
            caught = broken
    assert (seen, taken.octets) == ([b"".join(pieces)], b"".join(pieces)[:count])
    assert (None if caught is None else type(caught)) is raised
    if isinstance(caught, Truncated):
        assert (caught.received, caught.expected) == (3, count)


class RaiseOnceStream(Pieces):
    """A stream that raises its error once, as sockets do, and then reports the end."""

    async def receive(self) -> bytes:
        try:
            return await super().receive()
        except ResolveError:
            self._error = None
            raise


async def test_peek_between_two_parts_of_a_line_reads_with_its_own_reader() -> None:
    """A timeout interrupts the line, and the next `Receive` resumes it."""
    lines: list[bytes] = []

    def dialogue() -> Dialogue[None]:
        yield Acquire("anybody")
        with pytest.raises(TimedOut):
            yield from receive(LINE, "a line", b"")
        lines.append((yield from peek(peek_reader(2), b"")))
        lines.append((yield from receive(LINE, "a line", b"")))
        yield StartBody(Reply(kind=Kind.DOCUMENT))
        yield CopyBody("octets")

    stream = SilentOnceStream(b"ab", b"", b"c\r\nd")
    assert await take(dialogue(), PiecesGate(stream), "iterate") == b"d"
    assert lines == [b"ab", b"abc"]


class SilentOnceStream(Pieces):
    """A stream that times out once, for its first empty piece."""

    async def receive(self) -> bytes:
        if octets := await super().receive():
            return octets
        if self._pieces:
            raise SILENCE
        return b""


async def test_peek_connection_error_is_raised_by_the_next_receive() -> None:
    def dialogue() -> Dialogue[None]:
        yield Acquire("anybody")
        yield from peek(peek_reader(9), b"")
        assert (yield from receive(LINE, "a line", b"")) == b"ab"
        yield from receive(LINE, "another", b"")

    with pytest.raises(Disconnected) as raised:
        async with hold(dialogue(), PiecesGate(RaiseOnceStream(b"ab\r\ncd", error=RESET))):
            raise AssertionError("an incomplete line was accepted")
    assert raised.value is RESET


class CollectingFilter:
    """A filter that stores every byte and gives no output."""

    def __init__(self) -> None:
        self.octets = b""

    def feed(self, octets: bytes) -> tuple[bytes, ...]:
        self.octets += octets
        return ()

    def finish(self) -> tuple[bytes, ...]:
        self.octets += b"."
        return ()


@pytest.mark.parametrize("error", [None, RESET])
async def test_copy_body_with_filter_before_start_body(error: ResolveError | None) -> None:
    kept = CollectingFilter()

    def dialogue() -> Dialogue[None]:
        yield Acquire("anybody")
        try:
            assert (yield from copy_body(CopyBody("octets", filter=kept))).octets == 3
        except Truncated as broken:
            kept.octets += b"!%d" % broken.received
        yield StartBody(Reply(kind=Kind.DOCUMENT))
        yield EmitBody(kept.octets)

    body = await take(dialogue(), PiecesGate(Pieces(b"a", b"bc", error=error)), "iterate")
    assert body == (b"abc." if error is None else b"abc!3")


def test_rehearse_peek_sees_ideal_reply() -> None:
    seen: list[bytes] = []
    steps = rehearse(peek_then_copy(3, CopyBody("octets"), seen))
    assert ([type(step) for step in steps], seen) == ([Acquire, Peek, StartBody, CopyBody], [b""])


def test_rehearse_copy_body_passes_ideal_reply_to_filter() -> None:
    kept = CollectingFilter()
    rehearse(begun(copy_body(CopyBody("octets", filter=kept, ideal=b"abc"))))
    assert kept.octets == b"abc."
    rehearse(begun(copy_body(CopyBody("octets", filter=kept))))
    assert kept.octets == b"abc.", "where nobody asks the filter, nothing passes"


# Datagrams: the driver performs an exchange until the exchange is complete, for any protocol.

HERE, THERE = "192.0.2.1", "192.0.2.2"


class Echo:
    """A protocol with one packet in each direction, sent to all addresses.

    An empty datagram, or a datagram from another address, is not an answer. `trouble` is the error raised by
    an answer.
    """

    def __init__(self, addresses: Sequence[str], trouble: BaseException | None = None) -> None:
        self._addresses = addresses
        self._trouble = trouble
        self.packets = [encode_datagram(b"hello")]
        self.pieces: list[bytes] = []
        self.deadline = 10.0

    @property
    def complete(self) -> bool:
        return bool(self.pieces)

    def begin(self, now: float) -> Sequence[DatagramAction]:
        actions: list[DatagramAction] = []
        for address in self._addresses:
            actions += [SwitchAddress(address), *self.packets]
        return actions

    def take(self, datagram: bytes, address: str, now: float) -> Sequence[DatagramAction]:
        if self._trouble is not None:
            raise self._trouble
        self.pieces += [datagram] if datagram and address in self._addresses else []
        return [RedirectAddress(address, 9, lasting=False)] if datagram else self.packets

    def wake(self, now: float) -> Sequence[DatagramAction]:
        self.deadline += 10.0
        return self.packets

    def lose(self, address: str, now: float) -> bool:
        return False

    def cancel(self) -> Line:
        return encode_datagram(b"never mind")


class DatagramSocket:
    """A datagram socket that receives `coming`, then blocks; None stands for a deadline that passes."""

    def __init__(self, coming: Sequence[Datagram | None]) -> None:
        self._coming = deque(coming)
        self.addresses = (HERE, THERE)
        self.peer = HERE
        self.port = 7
        self.open = True
        self.sent: list[tuple[str, int, bytes]] = []
        self.deadlines: list[float] = []

    def now(self) -> float:
        return 0.0

    def draw_number(self) -> int:
        return 4711

    async def send(self, packet: Line) -> None:
        self.send_at_once(packet)

    def send_at_once(self, packet: Line) -> None:
        assert self.open
        self.sent.append((self.peer, self.port, packet.octets))

    async def receive(self, deadline: float) -> Datagram | None:
        assert self.open
        self.deadlines.append(deadline)
        if not self._coming:
            await trio.sleep_forever()
        return self._coming.popleft()

    def switch_to(self, address: str) -> None:
        assert address in self.addresses
        self.peer = address

    def redirect_to(self, address: str, port: int) -> None:
        self.peer, self.port = address, port


class DatagramGate:
    """A gate to one host, and through it to the hosts of a route; every other use fails."""

    def __init__(self, *coming: Datagram | None, way: tuple[str, ...] = ()) -> None:
        self._coming = coming
        self._way = way
        self.opened: list[tuple[tuple[str, ...], DatagramSocket]] = []

    @asynccontextmanager
    async def open_datagrams(self) -> AsyncIterator[DatagramSocket]:
        socket = DatagramSocket(self._coming)
        self.opened.append((self._way, socket))
        try:
            yield socket
        finally:
            socket.open = False

    def derive_gate(self, location: str) -> DatagramGate:
        if location == "x:forbidden":
            raise Refused("S08", "farther inside")
        gate = DatagramGate(*self._coming, way=(*self._way, location))
        gate.opened = self.opened
        return gate

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"unexpected use of {name}")


def request_echo(route: tuple[str, ...] = (), trouble: BaseException | None = None) -> Dialogue[None]:
    """Send one request, and report a protocol error as the body."""
    opened = yield OpenDatagrams(route)
    assert opened == OpenedConnection((HERE, THERE), 4711)
    try:
        carried = yield ExchangeDatagrams(
            Echo(opened.addresses, trouble), "the echo", DatagramReply((b"ideal",))
        )
    except ProtocolError as error:
        yield StartBody(Reply(kind=Kind.DOCUMENT))
        yield EmitBody(type(error).__name__.encode())
        return
    assert isinstance(carried, DatagramReply)
    yield StartBody(Reply(kind=Kind.DOCUMENT, peer=carried.peer))
    yield EmitBody(b"|".join(carried.pieces))


async def get(gate: DatagramGate, dialogue: Dialogue[None]) -> tuple[bytes, str | None]:
    """Return the body and the peer; no socket is open when the body starts."""
    async with hold(dialogue, gate) as reply:
        assert not any(socket.open for _, socket in gate.opened)
        return b"".join([octets async for octets in reply.body]), reply.peer


HELLO = [(HERE, 7, b"hello"), (THERE, 7, b"hello")]


async def test_datagram_exchange_is_performed_until_complete() -> None:
    """The actions happen in order: send, switch, redirect, wait."""
    gate = DatagramGate(None, Datagram(b"", THERE, 7), Datagram(b"echo", HERE, 7))
    assert await get(gate, request_echo()) == (b"echo", HERE)
    ((way, socket),) = gate.opened
    assert (way, socket.sent) == ((), [*HELLO, (THERE, 7, b"hello"), (THERE, 7, b"hello")])
    assert (socket.deadlines, socket.peer, socket.port) == ([10.0, 20.0, 20.0], HERE, 9)


async def test_datagram_route_derives_a_gate_for_each_location() -> None:
    gate = DatagramGate(Datagram(b"echo", HERE, 7))
    assert await get(gate, request_echo(("x:a", "x:b"))) == (b"echo", HERE)
    assert [way for way, _ in gate.opened] == [("x:a", "x:b")]


async def test_datagram_route_with_refused_location_opens_nothing() -> None:
    gate = DatagramGate(Datagram(b"echo", HERE, 7))
    with pytest.raises(Refused, match="farther inside"):
        await get(gate, request_echo(("x:a", "x:forbidden", "x:b")))
    assert gate.opened == []


#: The error that an answer raises, and whether the client cancels the exchange.
ENDS: list[tuple[ProtocolError, bool]] = [
    (ProtocolError("nonsense"), False),
    (LimitExceeded("body", "too much"), True),
]


@pytest.mark.parametrize(("trouble", "told"), ENDS)
async def test_datagram_exchange_error_cancels_and_closes_the_socket(
    trouble: ProtocolError, told: bool
) -> None:
    gate = DatagramGate(Datagram(b"echo", HERE, 7))
    assert (await get(gate, request_echo(trouble=trouble)))[0] == type(trouble).__name__.encode()
    ((_, socket),) = gate.opened
    assert socket.sent == HELLO + [(THERE, 7, b"never mind")] * told


async def test_datagram_exchange_cancelled_sends_cancel_packet() -> None:
    gate = DatagramGate()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(get, gate, request_echo())
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    ((_, socket),) = gate.opened
    assert (socket.sent[-1], socket.open) == ((THERE, 7, b"never mind"), False)


async def test_unused_datagram_socket_is_closed() -> None:
    def dialogue() -> Dialogue[None]:
        yield OpenDatagrams()
        yield OpenDatagrams(("x:a",))
        yield StartBody(Reply(kind=Kind.DOCUMENT))

    gate = DatagramGate()
    async with hold(dialogue(), gate):
        assert [socket.open for _, socket in gate.opened] == [False, True]
    assert [socket.open for _, socket in gate.opened] == [False, False]
