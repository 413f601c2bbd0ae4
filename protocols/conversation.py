"""Dialogues are generators that yield what they want done; the one driver performs it.

A dialogue yields steps: `Connect`, `Borrow`, `OpenFile`, `Say`, `Hear`, `HandOver`, `Note`. It gets back
what the step is for: nothing, or the value that was heard. Every `Hear` carries the value that a willing
server would give; driven with those (`rehearse`), the same generator is the plan that `explain` shows, so
plan and dialogue cannot drift apart. What other branches would do is a `Note`. What a step raises is raised
in the dialogue where it was yielded, which may go another way.

`HandOver` says: from here on the octets are the body. The driver stops there; `Conversation.resume`
goes on once the body has ended, for protocols that still have something to say (FTP's final reply).

A dialogue may have a second connection, for data alone: `OpenData`, `AwaitData`, `CloseData`. Then the
octets behind a hand-over are those of `data` and `data_buffer`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Generator, Hashable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Generic, TypeAlias, TypeVar, cast

from protocols.contract import Credentials, Gate, Line, Loan, LocalFile, Stream
from protocols.errors import Disconnected, NetworkError, ProtocolError, ResolveError, TlsError
from protocols.wire import Buffer, Reader

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Connect:
    """Open the connection to the URL's host and port; with TLS from the first octet if asked."""

    tls: bool = False


@dataclass(frozen=True, slots=True)
class Borrow:
    """Go on with a connection that an earlier dialogue kept, or open a new one: see `Gate.borrow`.
    Answered with what that dialogue had to say of it; None says that it is new."""

    whom: Hashable
    tls: bool = False


@dataclass(frozen=True, slots=True)
class OpenFile:
    """Open the file or directory of this machine that the segments name, from the root down."""

    segments: tuple[bytes, ...]

    @property
    def path(self) -> str:
        """The path for a person: one character per octet."""
        return "/" + b"/".join(self.segments).decode("latin-1")


@dataclass(frozen=True, slots=True)
class Say:
    """Send one or more lines in one write."""

    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Hear(Generic[T]):
    """Read one value. `what` names it for a person; `ideal` is what a willing server gives."""

    reader: Reader[T]
    what: str
    ideal: T


@dataclass(frozen=True, slots=True)
class StartTls:
    """Go on inside TLS. Octets that came before the handshake are no part of it and are refused:
    what was sent in the clear is not to be taken for what was protected (CVE-2021-22947)."""


@dataclass(frozen=True, slots=True)
class AskCredentials:
    """Answered with the `Credentials` held for this place, or None. See `Gate.credentials`."""

    user: bytes | None
    ideal: Credentials | None


@dataclass(frozen=True, slots=True)
class OpenData:
    """Open the data connection to a port of the same peer, in place of an earlier one. With `tls`, the
    handshake is made by the next `AwaitData`: the peer begins it when it has been told what to send."""

    port: int
    tls: bool = False


class Pace(enum.Enum):
    """What a value means for the data: more values follow, it was the last, or no data will come."""

    MORE = "more"
    LAST = "last"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class Begun(Generic[T]):
    """`values` were heard; `octets` of data have come. If none, and the last value did not say that none
    will, the data connection has ended: by `broken`, or orderly (None), with TLS's close_notify or not."""

    values: tuple[T, ...]
    octets: int
    broken: NetworkError | None = None
    close_notify: bool = False


@dataclass(frozen=True, slots=True)
class AwaitData(Generic[T]):
    """Read both connections until data begins or ends, or a value says that none will come. Answered
    with a `Begun`. A value half heard then is heard on by the next `Hear`, which must be of the same kind."""

    reader: Reader[T]
    what: str
    ideal: T
    weigh: Callable[[T], Pace]


@dataclass(frozen=True, slots=True)
class CloseData:
    """Close the data connection, before anything more is heard on the first."""


@dataclass(frozen=True, slots=True)
class HandOver:
    """The octets that follow are the body: `what` describes them. `count` is their number if the
    protocol told it; None means until the connection ends."""

    what: str
    count: int | None = None


@dataclass(frozen=True, slots=True)
class Note:
    """A branch that the ideal case does not take, or a fact for the person who reads the plan."""

    text: str


Step: TypeAlias = (
    "Connect | Borrow | OpenFile | Say | Hear[Any] | StartTls | AskCredentials"
    " | OpenData | AwaitData[Any] | CloseData | HandOver | Note"
)
Dialogue: TypeAlias = Generator[Step, object, R]


def hear(reader: Reader[T], what: str, ideal: T) -> Dialogue[T]:
    """`value = yield from hear(…)`: the typed form of yielding a `Hear`."""
    return cast(T, (yield Hear(reader, what, ideal)))


def rehearse(dialogue: Dialogue[object]) -> list[Step]:
    """All steps of a dialogue as they would go with a willing server; nothing is done. Where the
    dialogue would refuse by itself, the plan ends in a note that says so."""
    steps: list[Step] = []
    answer: object = None
    while True:
        try:
            step = dialogue.send(answer)
        except StopIteration:
            return steps
        except ResolveError as error:
            return [*steps, Note(error.message)]
        steps.append(step)
        answer = _ideal_answer(step)


def _ideal_answer(step: Step) -> object:
    match step:
        case Hear(ideal=ideal) | AskCredentials(ideal=ideal):
            return ideal
        case AwaitData(ideal=ideal):
            return Begun((ideal,), octets=1)
        case _:
            return None


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
            case Connect(tls=tls):
                return await self._connect(tls)
            case Borrow(whom=whom, tls=tls):
                return await self._borrow(whom, tls)
            case OpenFile(segments=segments):
                self._file = await self._connections.enter_async_context(self._gate.open_file(segments))
            case Say(lines=lines):
                await self.stream.send(*lines)
            case Hear(reader=reader):
                return await self._hear(reader)
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
            case Note():
                pass
            case HandOver():
                raise AssertionError("a hand-over is the caller's")
        return None

    async def _connect(self, tls: bool) -> str:
        """In place of an earlier connection. The numeric address of the peer."""
        await self._begin_anew()
        self._stream = await self._connections.enter_async_context(self._gate.connect(tls=tls))
        return self._stream.peer

    async def _borrow(self, whom: Hashable, tls: bool) -> object | None:
        await self._begin_anew()
        self._loan = await self._connections.enter_async_context(self._gate.borrow(whom, tls=tls))
        self._stream = self._loan.stream
        return self._loan.memory

    async def _begin_anew(self) -> None:
        await self._close()
        self.buffer = Buffer()
        self._waiting = None
        self._loan = None

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
                self.buffer.feed(await self.stream.receive())  # silence: data has all the time it needs
            return pace

        heard, received = await self._gate.first_of(hear, self._receive_data)
        broken = None if received is None else received.value
        if received is None and heard is not None and heard.value is Pace.LAST:
            broken = await self._receive_data()
        return Begun(tuple(values), len(self.data_buffer), broken, self.data.close_notify_seen)

    async def _hear_one(self, step: AwaitData[T], values: list[T]) -> Pace:
        values.append(await self._hear(step.reader))
        return step.weigh(values[-1])

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
