"""Dialogues are generators that yield what they want done; the one driver performs it.

A dialogue yields steps: `Connect`, `OpenFile`, `Say`, `Hear`, `HandOver`, `Note`. It gets back what the
step is for: nothing, or the value that was heard. Every `Hear` carries the value that a willing server
would give; driven with those (`rehearse`), the same generator is the plan that `explain` shows, so plan and
dialogue cannot drift apart. What other branches would do is a `Note`.

`HandOver` says: from here on the octets are the body. The driver stops there; `Conversation.resume`
goes on once the body has ended, for protocols that still have something to say (FTP's final reply).
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Generic, TypeAlias, TypeVar, cast

from protocols.contract import Gate, Line, LocalFile, Stream
from protocols.wire import Buffer, Reader

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Connect:
    """Open the connection to the URL's host and port; with TLS from the first octet if asked."""

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
class HandOver:
    """The octets that follow are the body: `what` describes them. `count` is their number if the
    protocol told it; None means until the connection ends."""

    what: str
    count: int | None = None


@dataclass(frozen=True, slots=True)
class Note:
    """A branch that the ideal case does not take, or a fact for the person who reads the plan."""

    text: str


Step: TypeAlias = "Connect | OpenFile | Say | Hear[Any] | HandOver | Note"
Dialogue: TypeAlias = Generator[Step, object, R]


def hear(reader: Reader[T], what: str, ideal: T) -> Dialogue[T]:
    """`value = yield from hear(…)`: the typed form of yielding a `Hear`."""
    return cast(T, (yield Hear(reader, what, ideal)))


def rehearse(dialogue: Dialogue[object]) -> list[Step]:
    """All steps of a dialogue as they would go with a willing server; nothing is done."""
    steps: list[Step] = []
    answer: object = None
    while True:
        try:
            step = dialogue.send(answer)
        except StopIteration:
            return steps
        steps.append(step)
        answer = step.ideal if isinstance(step, Hear) else None


class Conversation(Generic[R]):
    """One dialogue performed on connections that the gate opens.

    An async context manager: leaving it closes everything opened. `run` goes to the hand-over, or to
    the end if there is none; then `stream` and `buffer` hold the connection and what was read ahead.
    """

    def __init__(self, dialogue: Dialogue[R], gate: Gate) -> None:
        self._dialogue = dialogue
        self._gate = gate
        self._connections = AsyncExitStack()
        self.buffer = Buffer()
        self._stream: Stream | None = None
        self._file: LocalFile | None = None
        self.result: R | None = None

    @property
    def stream(self) -> Stream:
        assert self._stream is not None, "the dialogue has not connected"
        return self._stream

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
        await self._connections.aclose()

    async def run(self) -> HandOver | None:
        """Perform steps until the body begins; None when the dialogue ended without one."""
        return await self.resume(None)

    async def resume(self, answer: object) -> HandOver | None:
        """Go on with `answer` as what the last step was for."""
        while True:
            try:
                step = self._dialogue.send(answer)
            except StopIteration as done:
                self.result = done.value
                return None
            if isinstance(step, HandOver):
                return step
            answer = await self._perform(step)

    async def _perform(self, step: Step) -> object:
        match step:
            case Connect(tls=tls):
                await self._connections.aclose()
                self.buffer = Buffer()
                self._stream = await self._connections.enter_async_context(self._gate.connect(tls=tls))
            case OpenFile(segments=segments):
                self._file = await self._connections.enter_async_context(self._gate.open_file(segments))
            case Say(lines=lines):
                await self.stream.send(*lines)
            case Hear(reader=reader):
                return await self._hear(reader)
            case Note():
                pass
            case HandOver():
                raise AssertionError("a hand-over is the caller's")
        return None

    async def _hear(self, reader: Reader[T]) -> T:
        waiting = reader(self.buffer)
        while True:
            try:
                next(waiting)
            except StopIteration as done:
                return cast(T, done.value)
            self.buffer.feed(await self.stream.receive())
