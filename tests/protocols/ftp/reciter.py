"""Plays the server's part of a transcript for a dialogue alone: strict about order, without I/O."""

from __future__ import annotations

from collections.abc import Generator

from fixtures.ftp_urls import ASKED
from fixtures.transcript import Connection, Transcript, Turn
from protocols.contract import Credentials
from protocols.conversation import (
    AskCredentials,
    AskPeer,
    AwaitData,
    Begun,
    Borrow,
    CloseData,
    Connect,
    Dialogue,
    Hear,
    Note,
    OpenData,
    Pace,
    Say,
    Step,
)
from protocols.errors import Disconnected, ResolveError, TimedOut, Truncated
from protocols.ftp.transfer import Ended, Transfer
from protocols.ftp.visit import Outcome
from protocols.wire import Buffer

#: The port that transcripts tell.
PORT = 40001


class Reciter:
    """`body` is what came on the data connection that was handed over."""

    def __init__(self, transcript: Transcript) -> None:
        self._connections = list(transcript.connections)
        self._turns: list[Turn] = []
        self._connection: Connection | None = None
        self._buffer = Buffer()
        self._waiting: Generator[None, None, object] | None = None
        self._data = b""
        self.body = b""

    def play(self, dialogue: Dialogue[Outcome]) -> Outcome:
        """To the end; then all of the transcript must have been said."""
        answer: object = None
        error: ResolveError | None = None
        while True:
            try:
                step = dialogue.send(answer) if error is None else dialogue.throw(error)
            except StopIteration as done:
                outcome: Outcome = done.value
                return outcome
            answer, error = None, None
            try:
                answer = self._perform(step)
            except ResolveError as raised:
                error = raised

    def check_finished(self) -> None:
        assert not self._connections
        assert [turn for turn in self._turns if turn.speaker == "C"] == []

    def _perform(self, step: Step) -> object:
        match step:
            case Borrow() | Connect():
                self._buffer, self._waiting = Buffer(), None
                self._connection = self._connections.pop(0)
                self._turns = list(self._connection.turns)
            case AskPeer():
                return "192.0.2.1"
            case AskCredentials(user=user):
                return None if user is None else Credentials(user, ASKED)
            case Say(lines=lines):
                self._say(b"".join(line.octets for line in lines))
            case Hear():
                return self._hear(step)
            case OpenData(port=port):
                assert port == PORT
                self._data = b""
            case AwaitData():
                return self._await_data(step)
            case Transfer():
                return self._take_body()
            case CloseData() | Note():
                pass
            case _:
                raise AssertionError(f"not in any transcript: {step!r}")
        return None

    def _say(self, octets: bytes) -> None:
        assert self._turns, f"nobody waits for {octets!r}"
        turn = self._turns.pop(0)
        assert turn.speaker == "C", f"{octets!r} is said while the server has to say {turn.octets!r}"
        assert turn.octets.startswith(octets), f"{octets!r}, not {turn.octets!r}"
        if turn.octets != octets:
            self._turns.insert(0, Turn("C", turn.octets[len(octets) :]))

    def _hear(self, step: Hear[object] | AwaitData[object]) -> object:
        if self._waiting is None:
            self._waiting = step.reader(self._buffer)
        while True:
            try:
                next(self._waiting)
            except StopIteration as done:
                self._waiting = None
                return done.value
            self._buffer.feed(self._next_octets())

    def _next_octets(self) -> bytes:
        """What the server says next on the control connection; data on the way is put aside."""
        while self._turns:
            assert self._turns[0].speaker != "C", f"waits for words, not for {self._turns[0].octets!r}"
            turn = self._turns.pop(0)
            if turn.speaker == "S":
                return turn.octets
            if turn.speaker == "D":
                self._data += turn.octets
        assert self._connection is not None
        assert self._connection.end != "left", "waits for words that never come"
        if self._connection.end == "quiet":
            raise TimedOut("silence")
        return b""

    def _await_data(self, step: AwaitData[object]) -> Begun[object]:
        values: list[object] = []
        while True:
            while self._buffer:
                values.append(self._hear(step))
                if step.weigh(values) is Pace.OVER:
                    return Begun(tuple(values), 0)
            if not self._turns or self._turns[0].speaker == "C":
                raise Disconnected("the server left")
            turn = self._turns.pop(0)
            if turn.speaker == "S":
                self._buffer.feed(turn.octets)
            elif turn.speaker == "D":
                self._data = turn.octets
                return Begun(tuple(values), len(turn.octets))
            else:
                broken = Disconnected("reset") if turn.octets == b"reset" else None
                return Begun(tuple(values), 0, broken)

    def _take_body(self) -> Ended:
        while (turn := self._turns.pop(0)).speaker != "Z":
            assert turn.speaker != "C"
            if turn.speaker == "S":
                self._buffer.feed(turn.octets)
            else:
                self._data += turn.octets
        self.body = self._data
        if turn.octets == b"reset":
            raise Truncated("reset", received=len(self.body))
        return Ended(len(self.body), close_notify=False)
