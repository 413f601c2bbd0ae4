"""What peers say in tests of dialogues: a transcript, octets and no more, or a value for each step."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from protocols.contract import Credentials
from protocols.errors import Disconnected, NetworkError, TimedOut
from protocols.step import (
    Acquire,
    CopiedBody,
    CopyBody,
    JoinedPipeline,
    JoinPipeline,
    OpenData,
    Peek,
    Receive,
    RequestCredentials,
    Step,
)
from resolver import registry
from resolver.testing.cutting import Cutter, whole
from resolver.testing.peer import UNSCRIPTED, Opening, PeerOutput, ScriptedPeer
from resolver.testing.transcript import Connection, DialogueTranscript, TranscriptTurn

#: The port of FTP's data connection that transcripts tell.
PORT = 40001
#: How a connection ends that does not end in an orderly way.
BREAKS: dict[str, NetworkError] = {"reset": Disconnected("reset"), "quiet": TimedOut("silence")}


class TranscriptScript(ScriptedPeer):
    """The server's part of a transcript, strict about the order. `password` is what a person knows, `cutter`
    how what the server says on its connection comes in pieces."""

    def __init__(
        self, transcript: DialogueTranscript, password: bytes | None = None, cutter: Cutter = whole
    ) -> None:
        self._connections = list(transcript.connections)
        row = registry.find(transcript.url.partition(":")[0].lower())
        self._tls = row is not None and row.tls == "always"
        self._cutter = cutter
        self._pieces: list[bytes] = []
        self._turns: list[TranscriptTurn] = []
        self._connection: Connection | None = None
        self._password = password

    def connect(self, step: Opening) -> object:
        assert self._connections, "nobody expects another connection"
        self._connection = self._connections.pop(0)
        self._turns = list(self._connection.turns)
        return JoinedPipeline(step.state, self.address) if isinstance(step, JoinPipeline) else None

    def hear(self, octets: bytes) -> None:
        assert not self._pieces, f"{octets!r} is said while the server has to say {b''.join(self._pieces)!r}"
        assert self._turns, f"nobody waits for {octets!r}"
        turn = self._turns.pop(0)
        assert turn.speaker == "C", f"{octets!r} is said while the server has to say {turn.octets!r}"
        assert turn.octets.startswith(octets), f"{octets!r}, not {turn.octets!r}"
        if turn.octets != octets:
            self._turns.insert(0, TranscriptTurn("C", turn.octets[len(octets) :]))

    def speak(self) -> PeerOutput:
        if self._pieces:
            return PeerOutput(self._pieces.pop(0))
        if not self._turns:
            return self._end()
        turn = self._turns[0]
        assert turn.speaker != "C", f"it waits for words, not for {turn.octets!r}"
        del self._turns[0]
        match turn.speaker:
            case "S":
                self._pieces = [piece for piece in self._cutter(turn.octets) if piece]
                return PeerOutput(self._pieces.pop(0))
            case "D":
                return PeerOutput(turn.octets, "data")
            case _:
                return PeerOutput(on="data", broken=BREAKS.get(turn.octets.decode()))

    def _end(self) -> PeerOutput:
        assert self._connection is not None
        end = self._connection.end
        assert end != "left", "it waits for words that never come"
        return PeerOutput(broken=BREAKS.get(end), close_notify=self._tls and end == "close")

    def credentials(self, user: bytes | None) -> Credentials | None:
        return None if user is None or self._password is None else Credentials(user, self._password)

    def open_data(self, step: OpenData) -> None:
        assert step.port == PORT, f"port {step.port}, not {PORT}"

    @property
    def unmet(self) -> int:
        return len(self._connections)

    @property
    def unsaid(self) -> bytes:
        return b"".join(turn.octets for turn in self._turns if turn.speaker == "C")

    @property
    def unread(self) -> bytes:
        return b"".join(self._pieces) + b"".join(turn.octets for turn in self._turns if turn.speaker in "SD")


class OctetScript(ScriptedPeer):
    """Says what it is given, and listens to anything: `connections`, each in one piece or in several, and
    then its end. Those that others used come with what they left, in `known`."""

    def __init__(self, *connections: bytes | Iterable[bytes], known: Iterable[object] = ()) -> None:
        self._connections = [iter([each] if isinstance(each, bytes) else each) for each in connections]
        self._known = list(known)
        self._speaking: list[bytes] = []

    def connect(self, step: Opening) -> object:
        assert self._connections, "nobody expects another connection"
        self._speaking = list(self._connections.pop(0))
        known = self._known.pop(0) if self._known else None
        if isinstance(step, JoinPipeline):
            return JoinedPipeline(step.state if known is None else known, self.address)  # type: ignore[arg-type]
        return known

    def hear(self, octets: bytes) -> None:
        """Whoever plays compares what was sent."""

    def credentials(self, user: bytes | None) -> Credentials | None:
        """Nobody has any."""
        return None

    def speak(self) -> PeerOutput:
        return PeerOutput(self._speaking.pop(0)) if self._speaking else PeerOutput()

    @property
    def unmet(self) -> int:
        return len(self._connections)

    @property
    def unread(self) -> bytes:
        return b"".join(self._speaking)


class ValueScript(ScriptedPeer):
    """Answers steps by values and not by octets: with what `answer` says to them, which may raise; where that
    is None, what it is asked for has its ideal answer. It listens to anything."""

    def __init__(self, answer: Callable[[Step], object] = lambda step: None) -> None:
        self._answer = answer

    def answer(self, step: Step) -> object:
        answer = self._answer(step)
        if answer is not None:
            return answer
        return step.ideal if isinstance(step, Receive | Peek | RequestCredentials) else UNSCRIPTED

    def connect(self, step: Opening) -> object:
        return JoinedPipeline(step.state, self.address) if isinstance(step, JoinPipeline) else None

    def hear(self, octets: bytes) -> None:
        """Whoever plays compares what was sent."""


def leaving(gone: int, *, used: object) -> Callable[[Step], object]:
    """What a server answers that is gone when the first so many heads are to be heard; the first connection
    is one that was `used`."""
    left = [gone]
    known = [used]

    def answer(step: Step) -> object:
        if isinstance(step, Receive) and left[0]:
            left[0] -= 1
            raise Disconnected("gone")
        if isinstance(step, Acquire):
            return known.pop() if known else None
        return CopiedBody(0) if isinstance(step, CopyBody) else None

    return answer
