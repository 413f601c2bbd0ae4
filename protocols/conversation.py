"""The one driver of dialogues: it performs their steps on connections that the gate opens.

The steps, and what a dialogue is, stand in `protocols.step`. The driver stops at a `HandOver`, where the
octets become a body; `Conversation.resume` goes on once the body has ended, for protocols that still have
something to say (FTP's final reply). With a second connection, the octets behind a hand-over are those of
`data` and `data_buffer`.
"""

from __future__ import annotations

import enum
from collections.abc import Generator, Hashable
from contextlib import AsyncExitStack
from functools import partial
from types import TracebackType
from typing import Generic, TypeVar, cast

from protocols.contract import Gate, Loan, LocalFile, Seat, Stream
from protocols.errors import Disconnected, NetworkError, ProtocolError, ResolveError, TlsError
from protocols.step import AskAgreed as AskAgreed
from protocols.step import AskCredentials as AskCredentials
from protocols.step import AskPeer as AskPeer
from protocols.step import AwaitData as AwaitData
from protocols.step import AwaitTurn as AwaitTurn
from protocols.step import Begun as Begun
from protocols.step import Borrow as Borrow
from protocols.step import CloseData as CloseData
from protocols.step import Connect as Connect
from protocols.step import Dialogue as Dialogue
from protocols.step import HandOver as HandOver
from protocols.step import Hear as Hear
from protocols.step import Join as Join
from protocols.step import Joined as Joined
from protocols.step import Keep as Keep
from protocols.step import Note as Note
from protocols.step import OpenData as OpenData
from protocols.step import OpenFile as OpenFile
from protocols.step import Pace as Pace
from protocols.step import Say as Say
from protocols.step import StartTls as StartTls
from protocols.step import Step as Step
from protocols.step import TakeFloor as TakeFloor
from protocols.step import hear as hear
from protocols.step import rehearse as rehearse
from protocols.wire import Buffer, Reader

T = TypeVar("T")
R = TypeVar("R")


class Handshake(enum.Enum):
    """Of the data connection: none to make, still to make, or begun and cut short, which cannot be mended."""

    NONE = "none"
    DUE = "due"
    BEGUN = "begun"


class Conversation(Generic[R]):
    """One dialogue performed on connections that the gate opens.

    An async context manager: leaving it closes everything opened. `run` goes to the hand-over, or to
    the end if there is none; then `stream` and `buffer` hold the connection and what was read ahead.
    """

    def __init__(self, dialogue: Dialogue[R], gate: Gate) -> None:
        self._dialogue = dialogue
        self._gate = gate
        self._connections = AsyncExitStack()
        self._data_connection = AsyncExitStack()
        self.buffer = Buffer()
        self.data_buffer = Buffer()
        self._stream: Stream | None = None
        self._loan: Loan | None = None
        self._seat: Seat | None = None
        self._data: Stream | None = None
        self._data_tls = Handshake.NONE
        self._waiting: Generator[None, None, object] | None = None
        self._file: LocalFile | None = None
        self.result: R | None = None

    @property
    def stream(self) -> Stream:
        assert self._stream is not None, "the dialogue has not connected"
        return self._stream

    @property
    def seat(self) -> Seat:
        """Its place on a connection that it joined."""
        assert self._seat is not None, "the dialogue has not joined others"
        return self._seat

    @property
    def data(self) -> Stream:
        assert self._data is not None, "the dialogue has not opened a data connection"
        return self._data

    @property
    def file(self) -> LocalFile:
        assert self._file is not None, "the dialogue has not opened a file"
        return self._file

    async def __aenter__(self) -> Conversation[R]:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._dialogue.close()
        await self._close()

    async def _close(self) -> None:
        """The data connection first: a peer that is still sending then hears of it there."""
        try:
            if self._data is not None:
                await self._data_connection.aclose()
        finally:
            await self._connections.aclose()

    async def run(self) -> HandOver | None:
        """Perform steps until the body begins; None when the dialogue ended without one."""
        return await self.resume(None)

    async def resume(self, answer: object) -> HandOver | None:
        """Go on with `answer` as what the last step was for."""
        advance = partial(self._dialogue.send, answer)
        while True:
            try:
                step = advance()
            except StopIteration as done:
                self.result = done.value
                return None
            if isinstance(step, HandOver):
                return step
            try:
                advance = partial(self._dialogue.send, await self._perform(step))
            except ResolveError as error:
                advance = partial(self._dialogue.throw, error)

    async def _perform(self, step: Step) -> object:
        match step:
            case Hear(reader=reader):
                return await self._hear(reader)
            case Say(lines=lines):
                await self.stream.send(*lines)
            case Note():
                pass
            case Connect(tls=tls):
                await self._connect(tls)
            case AskPeer():
                return self.stream.peer
            case AskAgreed():
                return self.stream.agreed
            case Borrow(whom=whom, tls=tls):
                return await self._borrow(whom, tls)
            case Join():
                return await self._join(step)
            case TakeFloor():
                await self.seat.take_floor()
            case AwaitTurn():
                await self.seat.await_turn()
            case Keep():
                self.seat.keep()
            case OpenFile(segments=segments):
                self._file = await self._connections.enter_async_context(self._gate.open_file(segments))
            case StartTls():
                await self._start_tls()
            case AskCredentials(user=user):
                return await self._gate.credentials(user)
            case OpenData(port=port, tls=tls):
                await self._open_data(port, tls)
            case AwaitData():
                return await self._await_data(step)
            case CloseData():
                await self._data_connection.aclose()
            case HandOver():
                raise AssertionError("a hand-over is the caller's")
        return None

    async def _connect(self, tls: bool) -> None:
        """In place of an earlier connection."""
        await self._begin_anew()
        self._stream = await self._connections.enter_async_context(self._gate.connect(tls=tls))

    async def _borrow(self, whom: Hashable, tls: bool) -> object | None:
        await self._begin_anew()
        self._loan = await self._connections.enter_async_context(self._gate.borrow(whom, tls=tls))
        self._stream = self._loan.stream
        return self._loan.memory

    async def _join(self, step: Join) -> Joined:
        await self._begin_anew()
        seat = self._gate.join(step.whom, step.memory, tls=step.tls, anew=step.anew)
        self._seat = await self._connections.enter_async_context(seat)
        self._stream = self._seat.stream
        assert isinstance(self._seat.memory.buffer, Buffer)
        self.buffer = self._seat.memory.buffer
        return Joined(self._seat.memory, self._stream.peer)

    async def _begin_anew(self) -> None:
        if self._stream is not None:
            await self._close()
        self.buffer = Buffer()
        self._waiting = None
        self._loan = None
        self._seat = None

    def keep(self, memory: object) -> None:
        """The borrowed connection is in order: on leaving it is kept, unless something came on it that
        nobody read."""
        if self._loan is not None and not self.buffer and not self.buffer.at_end:
            self._loan.keep(memory)

    async def _start_tls(self) -> None:
        if self.buffer:
            raise ProtocolError(f"{len(self.buffer)} octets came in the clear where TLS had to begin")
        await self.stream.start_tls()

    async def _hear(self, reader: Reader[T]) -> T:
        if self._waiting is None:
            self._waiting = reader(self.buffer)
        while True:
            try:
                next(self._waiting)
            except StopIteration as done:
                self._waiting = None
                return cast(T, done.value)
            except ResolveError:
                self._waiting = None
                raise
            self.buffer.feed(await self.stream.receive())

    async def _open_data(self, port: int, tls: bool) -> None:
        await self._data_connection.aclose()
        self.data_buffer = Buffer()
        self._data = await self._data_connection.enter_async_context(self._gate.connect_data(port))
        self._data_tls = Handshake.DUE if tls else Handshake.NONE

    async def _await_data(self, step: AwaitData[T]) -> Begun[T]:
        values: list[T] = []

        async def hear() -> Pace:
            while (pace := await self._hear_one(step, values)) is Pace.MORE:
                pass
            if pace is Pace.LAST:
                await self._await_more()
            return pace

        heard, received = await self._gate.first_of(hear, self._receive_data)
        broken = None
        if received is not None:
            broken = received.value
        elif heard is not None and heard.value is Pace.LAST:
            broken = await self._receive_data()
        elif heard is not None and heard.value is Pace.BROKEN:
            broken = await self._take_data()
        return Begun(tuple(values), len(self.data_buffer), broken, self.data.close_notify_seen)

    async def _hear_one(self, step: AwaitData[T], values: list[T]) -> Pace:
        values.append(await self._hear(step.reader))
        return step.weigh(values)

    async def _await_more(self) -> None:
        """In silence, for as long as data needs: all has been said, also for a peer that leaves now."""
        try:
            self.buffer.feed(await self.stream.receive())
        except Disconnected:
            self.buffer.feed(b"")

    async def _take_data(self) -> NetworkError | None:
        """The same for what is there already. A handshake that was cut short is not taken up again."""
        if self._data_tls is not Handshake.NONE:
            return None
        received, _ = await self._gate.first_of(self._receive_data, _at_once)
        return None if received is None else received.value

    async def _receive_data(self) -> NetworkError | None:
        """The first octets of the data connection into its buffer, or what broke it."""
        try:
            if self._data_tls is Handshake.DUE:
                self._data_tls = Handshake.BEGUN
                await self.data.start_tls()
                self._data_tls = Handshake.NONE
            if self._data_tls is Handshake.BEGUN:
                return TlsError("the control connection ended during the handshake of the data connection")
            self.data_buffer.feed(await self.data.receive())
        except (Disconnected, TlsError) as error:
            return error
        return None


async def _at_once() -> None:
    """Wait for nothing."""
