"""The performer of a dialogue's steps, on connections and files that the network gateway opens.

The module also performs the steps of the body (`EmitBody`, `CopyBody`), FTP's data connections (RFC 959 3.2),
and exchanges of datagrams.
"""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial
from typing import Protocol, TypeVar, assert_never, cast

from protocols.contract import (
    DatagramAction,
    DatagramExchange,
    Datagrams,
    FirstResult,
    Gate,
    Line,
    LocalFile,
    PooledConnection,
    RedirectAddress,
    Sink,
    Slot,
    Stream,
    SwitchAddress,
    Timer,
)
from protocols.errors import (
    Disconnected,
    LimitExceeded,
    NetworkError,
    ProtocolError,
    ResolveError,
    TimedOut,
    TlsError,
    Truncated,
    Unreachable,
)
from protocols.step import (
    Acquire,
    AwaitData,
    BodyStarted,
    CloseData,
    Connect,
    CopiedBody,
    CopyBody,
    DataExpectation,
    DatagramReply,
    EmitBody,
    EndResponse,
    ExchangeDatagrams,
    JoinedPipeline,
    JoinPipeline,
    OpenData,
    OpenDatagrams,
    OpenedConnection,
    OpenFile,
    ParseBuffered,
    Peek,
    PlanNote,
    RandomBytes,
    ReadNames,
    Receive,
    ReleaseToPool,
    RequestAgreed,
    RequestCredentials,
    RequestEnd,
    RequestPeer,
    Send,
    SendBody,
    StartBody,
    StartPacking,
    StartRequest,
    StartResponse,
    StartTimer,
    StartTls,
    Step,
    StopCondition,
)
from protocols.wire import REST, Buffer, Reader, Rest


class BodySource(Protocol):
    """The source of the bytes of a `CopyBody`: a `Stream`, or a file with the same methods."""

    @property
    def received(self) -> int: ...

    @property
    def close_notify_seen(self) -> bool: ...

    async def receive(self) -> bytes: ...

    async def move(self, sink: Sink, count: int | None) -> int: ...


class FileBodySource:
    """A file that is read from the offset `begin` to its end."""

    close_notify_seen = False

    def __init__(self, file: LocalFile, begin: int) -> None:
        self._file = file
        self._file.begin_at(begin)
        self.received = 0

    @property
    def modified(self) -> bool:
        return self._file.modified_since()

    async def receive(self) -> bytes:
        octets = await self._file.read()
        self.received += len(octets)
        return octets

    async def move(self, sink: Sink, count: int | None) -> int:
        assert count is None, "a file is copied to its end"
        moved = await self._file.move(sink)
        self.received += moved
        return moved


class CopiedBodyStream:
    """The part of a body that a `CopyBody` step copies: buffered bytes, then bytes of the connection.

    `delivered` is the number of bytes after the filter.
    """

    def __init__(self, step: CopyBody, stream: BodySource, buffer: Buffer) -> None:
        self._step = step
        self._count = step.count
        self._filter = step.filter
        self._stream = stream
        self._buffer = buffer
        self._copied = 0
        self._pieces: Iterable[bytes] = ()
        self._ended = False
        self.delivered = 0

    @property
    def result(self) -> CopiedBody:
        modified = type(self._stream) is FileBodySource and self._stream.modified
        return CopiedBody(self._copied, self._stream.close_notify_seen, modified, len(self._buffer))

    async def read_next(self) -> bytes:
        """Return the next bytes, or an empty value at the end."""
        if self._filter is None:
            octets = await self._receive()
            self.delivered += len(octets)
            return octets
        while True:
            for octets in self._pieces:
                if octets:
                    self.delivered += len(octets)
                    return octets
            if self._ended:
                return b""
            octets = await self._receive()
            self._ended = not octets
            self._pieces = iter(self._filter.feed(octets) if octets else self._filter.finish())

    async def drain(self, sink: Sink) -> None:
        if self._filter is not None:
            while octets := await self.read_next():
                sink.write(octets)
            return
        if self._buffer and self._copied != self._count:
            sink.write(await self.read_next())
        if not self._buffer.at_end and self._copied != self._count:
            await self._move(sink)
        self._check_end()

    async def _receive(self) -> bytes:
        """Return the next bytes before the filter, or an empty value at the end."""
        count, buffer = self._count, self._buffer
        if count == self._copied:
            return b""
        if buffer or buffer.at_end:
            octets = buffer.take()
        else:
            try:
                if buffer.broken is not None:
                    raise buffer.broken
                octets = await self._stream.receive()
            except Disconnected as error:
                if not self._copied:
                    raise
                raise self._reset() from error
            buffer.at_end = not octets
        if count is not None and not octets:
            self._check_end()
        self._copied += len(octets)
        if count is not None and self._copied > count:
            surplus = self._copied - count
            buffer.feed(octets[-surplus:])
            octets = octets[:-surplus]
            self._copied = count
        return octets

    async def _move(self, sink: Sink) -> None:
        before = self._copied - self._stream.received
        try:
            if self._buffer.broken is not None:
                raise self._buffer.broken
            await self._stream.move(sink, None if self._count is None else self._count - self._copied)
        except Disconnected as error:
            self._count_moved(before)
            if not self._copied:
                raise
            raise self._reset() from error
        self._count_moved(before)

    def _count_moved(self, before: int) -> None:
        moved = before + self._stream.received - self._copied
        self._copied += moved
        self.delivered += moved

    def _check_end(self) -> None:
        if self._count is None or self._copied == self._count:
            return
        if not self._copied:
            raise Disconnected(
                f"the connection ended before the first of {self._step.count} bytes of the body"
            )
        raise self._make_truncated(f"the body ended after {self._copied} of {self._step.count} bytes")

    def _reset(self) -> Truncated:
        return self._make_truncated(f"the connection was reset after {self._copied} bytes of the body")

    def _make_truncated(self, message: str) -> Truncated:
        step = self._step
        expected = step.count if step.expected is None else step.expected
        return Truncated(message, received=self._copied, expected=expected)


class DataTlsHandshake(enum.Enum):
    """The state of the data connection's TLS handshake: not needed, pending, or interrupted.

    An interrupted handshake cannot be resumed.
    """

    NONE = "none"
    PENDING = "pending"
    INTERRUPTED = "interrupted"


class DataConnection:
    """The data connection of a transfer. `buffer` contains the bytes read ahead.

    With `tls`, the first `receive` performs the TLS handshake.
    """

    def __init__(self, gate: Gate, stream: Stream, *, tls: bool) -> None:
        self._gate = gate
        self.stream = stream
        self._handshake = DataTlsHandshake.PENDING if tls else DataTlsHandshake.NONE
        self.buffer = Buffer()

    async def receive(self) -> NetworkError | None:
        """Receive the first bytes into the buffer. Return the error of a failed connection, or None."""
        try:
            if self._handshake is DataTlsHandshake.PENDING:
                self._handshake = DataTlsHandshake.INTERRUPTED
                await self.stream.start_tls()
                self._handshake = DataTlsHandshake.NONE
            if self._handshake is DataTlsHandshake.INTERRUPTED:
                return TlsError("the control connection ended during the handshake of the data connection")
            self.buffer.feed(await self.stream.receive())
        except (Disconnected, TlsError) as error:
            return error
        return None

    async def receive_end(self) -> None:
        """Receive the end of the data. An error is raised after the buffered bytes were consumed."""
        try:
            self.buffer.feed(await self.stream.receive())
        except (Disconnected, TimedOut) as error:
            self.buffer.broken = error

    async def receive_available(self) -> NetworkError | None:
        """Receive the available bytes without waiting, and do not resume an interrupted TLS handshake."""
        if self._handshake is not DataTlsHandshake.NONE:
            return None
        received, _ = await self._gate.first_of(self.receive, _return_immediately)
        return None if received is None else received.value


async def _return_immediately() -> None:
    """Return immediately."""


# Datagrams: one socket for each exchange. The exchange (without I/O) decides which packets to send, to which
# address, when to retransmit a packet, and which replies to accept. The network gateway decides which
# addresses are allowed.


class DatagramSender:
    """The datagram exchanges of a dialogue, one after the other, each on its own socket."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._opened = AsyncExitStack()
        self._datagrams: Datagrams | None = None

    async def open_datagrams(self, route: Sequence[str]) -> OpenedConnection:
        """Open a UDP socket to the host of the last URL of the route.

        If the policy refuses any URL of the route, the error is raised.
        """
        await self.aclose()
        gate = self._gate
        for location in route:
            gate = gate.derive_gate(location)
        self._datagrams = await self._opened.enter_async_context(gate.open_datagrams())
        return OpenedConnection(tuple(self._datagrams.addresses), self._datagrams.draw_number())

    async def run_exchange(self, exchange: DatagramExchange) -> DatagramReply:
        """Perform an exchange completely, and close the socket."""
        assert self._datagrams is not None, "the dialogue has not opened datagrams"
        datagrams, self._datagrams = self._datagrams, None
        async with self._opened:
            await run_exchange(exchange, datagrams)
        return DatagramReply(tuple(exchange.pieces), datagrams.peer)

    async def aclose(self) -> None:
        await self._opened.aclose()


async def run_exchange(exchange: DatagramExchange, datagrams: Datagrams) -> None:
    """Perform an exchange completely.

    The server receives a cancel packet if the exchange is cancelled, or if enough of the reply was received.
    """
    try:
        actions = exchange.begin(datagrams.now())
        while True:
            await _perform(exchange, datagrams, actions)
            if exchange.complete:
                return
            reply = await datagrams.receive(exchange.deadline)
            now = datagrams.now()
            actions = exchange.wake(now) if reply is None else exchange.take(reply.octets, reply.address, now)
    except BaseException as error:
        if isinstance(error, LimitExceeded) or not isinstance(error, ResolveError):
            datagrams.send_at_once(exchange.cancel())
        raise


async def _perform(
    exchange: DatagramExchange, datagrams: Datagrams, actions: Sequence[DatagramAction]
) -> None:
    """Perform the actions of an exchange.

    Raises:
        Unreachable: No packet could be sent to any address of the server.
    """
    for action in actions:
        match action:
            case RedirectAddress():
                datagrams.redirect_to(action.address, action.port)
            case SwitchAddress():
                datagrams.switch_to(action.address)
            case Line():
                await _send(exchange, datagrams, action)


async def _send(exchange: DatagramExchange, datagrams: Datagrams, packet: Line) -> None:
    try:
        await datagrams.send(packet)
    except Unreachable:
        if not exchange.lose(datagrams.peer, datagrams.now()):
            raise


T = TypeVar("T")


class Performer:
    """The open connections and files of a dialogue.

    - `stream`, `buffer`: the connection of the dialogue, and the bytes read ahead.
    - `slot`, `file`: the position of the dialogue in its pipeline, and the opened file.
    - `data`: the data connection.
    - `_reader`: a reader that a cancellation interrupted. The next `Receive` continues this reader.
    - `_early_result`: a value, or a protocol error, that was received while a step was sending. The next
      `Receive` returns the value or raises the error.
    """

    # The attributes exist only after a step that opens them.
    stream: Stream
    slot: Slot
    file: LocalFile
    data: DataConnection

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self.buffer = Buffer()
        self._opened: AbstractAsyncContextManager[object] | None = None
        self._pooled: PooledConnection | None = None
        self._reader: Generator[Rest | None, None, object] | None = None
        self._early_result: FirstResult[object] | None = None
        self._timer: Timer | None = None
        self._opened_data: AbstractAsyncContextManager[Stream] | None = None
        self._exchanges: DatagramSender | None = None

    @property
    def exchanges(self) -> DatagramSender:
        if self._exchanges is None:
            self._exchanges = DatagramSender(self._gate)
        return self._exchanges

    async def aclose(self) -> None:
        """Close all connections and files, the data connection first.

        Closing the data connection notifies a peer that is still sending.
        """
        try:
            if self._opened_data is not None:
                await self._close_data()
        finally:
            if self._exchanges is not None:
                await self._exchanges.aclose()
            opened, self._opened = self._opened, None
            if opened is not None:
                await opened.__aexit__(None, None, None)

    async def perform(self, step: Step) -> object:
        """Perform a step, except `Receive` and those of the body, and return its result."""
        match step:
            case Send(lines=lines, unless=None):
                await self.stream.send(*lines)
            case Acquire():
                self._pooled = await self._open(
                    self._gate.acquire(step.pool_key, tls=step.tls, suits=step.suits)
                )
                self.stream = self._pooled.stream
                return self._pooled.state
            case Connect(tls=tls):
                self.stream = await self._open(self._gate.connect(tls=tls))
            case OpenData(port=port, tls=tls):
                await self._open_data(port, tls)
            case AwaitData(announced=announced):
                return await (self._await_announced(step) if announced else self._await_data(step))
            case CloseData():
                await self._close_data()
            case PlanNote():
                pass
            case RequestCredentials(user=user, challenged=challenged):
                return await self._gate.credentials(user, challenged=challenged)
            case Peek(reader=reader):
                return await self._peek(reader)
            case ReleaseToPool(state=state):
                return self.release(state)
            case Send(lines=lines, unless=unless):
                return await self._send_unless(partial(self.stream.send, *lines), unless)
            case SendBody(unless=unless):
                return await self._send_unless(partial(self._upload, step), unless)
            case Rest():
                await self.rest()
            case RequestPeer() | RequestAgreed() | RequestEnd():
                return self._read_property(step)
            case JoinPipeline():
                return await self._join(step)
            case StartRequest():
                await self.slot.start_request()
            case StartResponse():
                await self.slot.start_response()
            case EndResponse():
                self.slot.end_response()
            case OpenFile(segments=segments):
                self.file = await self._open(self._gate.open_file(segments))
                return self.file
            case ReadNames():
                return await self.file.names()
            case ParseBuffered(reader=reader):
                return self._parse_buffered(reader)
            case StartTimer(seconds=seconds):
                self._timer = self._gate.timer(seconds)
            case StartTls() | StartPacking():
                await self._upgrade(step)
            case RandomBytes(octets=count):
                return self._gate.random(count)
            case OpenDatagrams(route=route):
                return await self.exchanges.open_datagrams(route)
            case ExchangeDatagrams(exchange=exchange):
                return await self.exchanges.run_exchange(exchange)
            case Receive() | StartBody() | EmitBody() | CopyBody():
                raise AssertionError("the driver receives, and performs the steps of the body")
            case _:
                assert_never(step)
        return None

    def _read_property(self, step: RequestPeer | RequestAgreed | RequestEnd) -> object:
        match step:
            case RequestPeer():
                return self.stream.peer
            case RequestAgreed():
                return self.stream.agreed
            case RequestEnd():
                return self.stream.close_notify_seen if self.stream.secured else None

    async def _open(self, opening: AbstractAsyncContextManager[T]) -> T:
        """Open a connection or a file, and close the earlier connection or file of the dialogue."""
        if self._opened is not None:
            await self._reset()
        opened = await opening.__aenter__()
        self._opened = opening
        return opened

    async def _open_data(self, port: int, tls: bool) -> None:
        """Open a data connection, and close the earlier data connection of the dialogue."""
        await self._close_data()
        opening = self._gate.connect_data(port)
        self.data = DataConnection(self._gate, await opening.__aenter__(), tls=tls)
        self._opened_data = opening

    async def _close_data(self) -> None:
        opened, self._opened_data = self._opened_data, None
        if opened is not None:
            await opened.__aexit__(None, None, None)

    async def _join(self, step: JoinPipeline) -> JoinedPipeline:
        self.slot = await self._open(self._gate.join(step.key, step.state, tls=step.tls, anew=step.anew))
        self.stream, state = self.slot.stream, self.slot.state
        assert isinstance(state.buffer, Buffer)
        self.buffer = state.buffer
        return JoinedPipeline(state, self.stream.peer)

    async def _reset(self) -> None:
        await self.aclose()
        self.buffer = Buffer()
        self._reader = None
        self._early_result = None
        self._pooled = None

    def take_buffered(self, step: CopyBody) -> tuple[bytes, CopiedBody] | None:
        """Return the copied bytes and the step's result, or None if more bytes must be received."""
        count = step.count
        if step.filter is not None:
            return None
        if step.source == "data" and count is None and self.data.buffer.at_end:
            octets = self.data.buffer.take()
            return octets, CopiedBody(len(octets), self.data.stream.close_notify_seen)
        if count is None or step.source != "connection" or count > len(self.buffer):
            return None
        return self.buffer.take(count), CopiedBody(count, surplus=len(self.buffer))

    def find_source(self, step: CopyBody) -> tuple[BodySource, Buffer]:
        """Return the source for a `CopyBody` step, and the buffer with bytes of it that were read ahead."""
        match step.source:
            case "connection":
                return self.stream, self.buffer
            case "data":
                data = self.data
                return data.stream, data.buffer
            case "file":
                return FileBodySource(self.file, step.begin), Buffer()

    def release(self, state: object) -> int:
        """Return a connection to the pool, or close it if it has unread bytes, and return their number."""
        waiting = len(self.buffer)
        if self._pooled is not None and not waiting and not self.buffer.at_end:
            self._pooled.keep(state)
        return waiting

    def _parse_buffered(self, reader: Reader[T]) -> T | None:
        try:
            next(reader(self.buffer))
        except StopIteration as done:
            value: T = done.value
            return value
        return None

    async def _upgrade(self, step: StartTls | StartPacking) -> None:
        """Start TLS or compression. If bytes arrived before the change, raise an error."""
        if self.buffer and isinstance(step, StartTls):
            raise ProtocolError(f"received {len(self.buffer)} bytes in the clear before the TLS handshake")
        if self.buffer:
            raise ProtocolError(f"received {len(self.buffer)} uncompressed bytes before compression began")
        if isinstance(step, StartPacking):
            self.slot.start_packing(step.machine)
        else:
            await self.stream.start_tls()

    async def _send_unless(
        self, send: Callable[[], Awaitable[None]], unless: StopCondition[object] | None
    ) -> object | None:
        if unless is None or self._early_result is not None:
            await send()
            return None
        sent, response = await self._gate.first_of(send, partial(self._watch_response, unless))
        if response is not None and isinstance(response.value, ResolveError):
            raise response.value
        if sent is not None:
            self._early_result = response or self._early_result
            return None
        return None if response is None else response.value

    async def _watch_response(self, unless: StopCondition[object]) -> object:
        """Return the value that ends the sending, also a protocol error in the peer's response.

        The error is returned and not raised, because an exception would be lost while the last bytes are
        sent. A timeout is not an error while there is data to send.
        """
        while self._early_result is None:
            try:
                value = await self.receive(unless)
            except TimedOut:
                continue
            except ResolveError as error:
                return error
            if unless.ends(value):
                return value
            self._early_result = FirstResult(value)
        await self._gate.stand_by()

    async def _upload(self, step: SendBody) -> None:
        lines = step.lines
        while octets := await step.source():
            await self.stream.send(*lines, step.encode(octets))
            lines = ()
        await self.stream.send(*lines, step.encode(b""))

    async def receive(self, step: Receive[T] | AwaitData[T] | StopCondition[T]) -> T:
        """Read one value with the reader of the step."""
        if self._early_result is not None:
            early, self._early_result = self._early_result, None
            if isinstance(early.value, ProtocolError):
                raise early.value
            return cast(T, early.value)
        if self._reader is None:
            self._reader = step.reader(self.buffer)
        while True:
            try:
                needs = next(self._reader)
            except StopIteration as done:
                self._reader = None
                value: T = done.value
                return value
            except ResolveError:
                self._reader = None
                raise
            if needs is REST:
                await self.rest()
            else:
                self.buffer.feed(await self._read())

    async def _peek(self, reader: Reader[T]) -> T:
        parsing = reader(self.buffer)
        while True:
            try:
                needs = next(parsing)
            except StopIteration as done:
                value: T = done.value
                return value
            assert needs is REST or not self.buffer.is_all, "a reader asked for more after the end"
            if needs is REST:
                await self.rest()
                continue
            try:
                self.buffer.feed(await self._read())
            except (Disconnected, TimedOut) as error:
                self.buffer.broken = error

    def _read(self) -> Awaitable[bytes]:
        """Begin to read the next bytes of the connection."""
        if self.buffer.broken is not None:
            raise self.buffer.broken
        receive = self.stream.receive
        return receive() if self._timer is None else self._timer.run(receive)

    async def rest(self) -> None:
        """Let other tasks run during a long computation (S16, resource limits)."""
        await self._gate.pause()

    async def _await_data(self, step: AwaitData[T]) -> BodyStarted[T]:
        values: list[T] = []

        async def receive_replies() -> DataExpectation:
            try:
                expectation = DataExpectation.MORE
                while expectation is DataExpectation.MORE:
                    values.append(await self.receive(step))
                    expectation = step.weigh(values)
            # The errors are stored. If they were raised, data that arrived at the same time would be lost.
            except ProtocolError as error:
                self._early_result = FirstResult(error)
                return DataExpectation.OVER
            except Disconnected:  # The next read raises it again.
                return DataExpectation.BROKEN
            if expectation is DataExpectation.LAST:
                await self._await_more()
            return expectation

        data = self.data
        outcome, received = await self._gate.first_of(receive_replies, data.receive)
        if received is None and self._early_result is not None:
            await self.receive(step)
        broken = None
        if received is not None:
            broken = received.value
        elif outcome is not None and outcome.value is DataExpectation.LAST:
            broken = await data.receive()
        elif outcome is not None and outcome.value is DataExpectation.BROKEN:
            broken = await data.receive_available()
        return BodyStarted(tuple(values), len(data.buffer), broken, data.stream.close_notify_seen)

    async def _await_announced(self, step: AwaitData[T]) -> BodyStarted[T]:
        values, data, broken = (await self.receive(step),), self.data, None
        match step.weigh(values):
            case DataExpectation.MORE | DataExpectation.LAST:
                broken = await data.receive()
                if data.buffer and len(data.buffer) == step.size:
                    await data.receive_end()
            case DataExpectation.BROKEN:
                broken = await data.receive_available()
        return BodyStarted(values, len(data.buffer), broken, data.stream.close_notify_seen)

    async def _await_more(self) -> None:
        """Receive from the control connection while the data connection receives data.

        All replies have been received, so the peer may close the control connection without an error.
        """
        try:
            self.buffer.feed(await self.stream.receive())
        except Disconnected:
            self.buffer.feed(b"")
