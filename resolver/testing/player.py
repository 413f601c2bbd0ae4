"""The test driver for protocol exchanges, which runs the exchange of any scheme without I/O.

The mock peer of the client is a transcript, bytes, or a value for each step. On each connection, the mock
peer checks the bytes that the client sends, and supplies the bytes that the client receives. A test fails in
three cases: the client sends unexpected bytes, the client waits for bytes that never arrive, or bytes are
unsent or unread at the end of the exchange.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar

from protocols.contract import Credentials, Entry, Finding, Gate, Line, PipelineState, Reply, Url
from protocols.errors import Disconnected, NetworkError, ProtocolError, ResolveError, TimedOut, Truncated
from protocols.step import (
    Acquire,
    AwaitData,
    BodyStarted,
    CloseData,
    Connect,
    CopiedBody,
    CopyBody,
    DataExpectation,
    Dialogue,
    EmitBody,
    EndResponse,
    JoinedPipeline,
    JoinPipeline,
    OpenData,
    ParseBuffered,
    Peek,
    PlanNote,
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
)
from protocols.wire import REST, Buffer, Reader, Rest
from resolver.testing.transcript import (
    Connection,
    Cutter,
    DialogueTranscript,
    TranscriptOutcome,
    TranscriptTurn,
    whole,
)
from resolver.url import registry

Opening: TypeAlias = "Connect | Acquire | JoinPipeline"


class PeerOutput(NamedTuple):
    """The next bytes that a peer sends, on the control connection or the data connection.

    If `octets` is empty, the connection ends: with the error `broken` if `broken` is set, and otherwise
    normally. A normal end is with or without the close_notify of TLS.
    """

    octets: bytes = b""
    on: Literal["connection", "data"] = "connection"
    broken: NetworkError | None = None
    close_notify: bool = False


#: The result of `ScriptedPeer.answer` for a step that the player itself performs.
UNSCRIPTED = object()


class ScriptedPeer:
    """A mock peer that rejects every step; subclasses override the methods of the expected steps."""

    address = "127.0.0.1"

    def answer(self, step: Step) -> object:
        """Return the result of a step that reads no bytes, or raise the error."""
        return UNSCRIPTED

    def connect(self, step: Opening) -> object:
        """Return the stored state of a reused connection, or None for a new connection."""
        raise AssertionError(f"unexpected step {step}")

    def hear(self, octets: bytes) -> None:
        raise AssertionError(f"unexpected bytes {octets!r}")

    def speak(self) -> PeerOutput:
        raise AssertionError("waiting for bytes that never come")

    def credentials(self, user: bytes | None) -> Credentials | None:
        raise AssertionError(f"unexpected login as {user!r}")

    def open_data(self, step: OpenData) -> None:
        raise AssertionError(f"unexpected data connection to port {step.port}")

    @property
    def unmet(self) -> int:
        """Return the number of connections that the peer still expects."""
        return 0

    @property
    def unsaid(self) -> bytes:
        """Return the bytes that the peer still expects on this connection."""
        return b""

    @property
    def unread(self) -> bytes:
        """Return the bytes that the peer has not sent yet on this connection."""
        return b""


R = TypeVar("R")


class Player(Generic[R]):
    """The test driver of one protocol exchange, with a mock peer.

    Attributes:
        steps: the steps of the exchange so far.
        sent: the bytes of each `Send`.
        shown: the redacted bytes of each `Send`.
        heard: the values that the readers returned.
        body: the bytes of the body that were received so far.
    """

    def __init__(self, dialogue: Dialogue[R], peer: ScriptedPeer) -> None:
        self.steps: list[Step] = []
        self.sent: list[bytes] = []
        self.shown: list[bytes] = []
        self.heard: list[object] = []
        self.begun: Reply | None = None
        self.body = b""
        self.result: R | None = None
        self.over = False
        self.peer = peer
        self._dialogue = dialogue
        self._answer: object = None
        self._error: ResolveError | None = None
        self.buffer = Buffer()
        self._waiting: Generator[Rest | None, None, object] | None = None
        self._data: list[PeerOutput] = []
        self._is_data_over = False
        self._unread = b""
        self._pending: Step | None = None
        self._state: PipelineState | None = None
        self._response_ended = False

    @property
    def reply(self) -> Reply:
        assert self.begun is not None, "no body was started"
        return self.begun

    @property
    def verified(self) -> set[str]:
        return self.reply.verified

    @property
    def findings(self) -> list[Finding]:
        return self.reply.findings

    def play(self, surplus: bytes | None = b"") -> Reply:
        """Run the exchange to its end, and return the reply.

        After an error, further bytes of the peer are ignored.

        Args:
            surplus: the bytes that the peer sends and that the exchange must not read. If None, the caller
                checks `unread`.

        Raises:
            ResolveError: the error of the exchange.
        """
        try:
            self.advance()
        except ResolveError:
            self._end()
            raise
        self._end()
        assert surplus is None or self.unread == surplus, f"never read: {self.unread!r}"
        return self.reply

    def advance(self, *until: type) -> Step | None:
        """Perform all steps before the next step of one of the kinds in `until`.

        The next call starts with the step of this kind.

        Returns:
            The step of one of the kinds in `until`, or None at the end of the exchange.
        """
        if self._pending is not None:
            self._perform_step(self._pending)
        while (step := self._take_next()) is not None:
            self.steps.append(step)
            if isinstance(step, until):
                self._pending = step
                return step
            self._perform_step(step)
        return None

    @property
    def unread(self) -> bytes:
        """Return the bytes of the peer that the exchange has not read."""
        data = b"".join(output.octets for output in self._data)
        return self._unread + self.buffer.peek(len(self.buffer)) + data + self.peer.unread

    def _take_next(self) -> Step | None:
        answer, error = self._answer, self._error
        self._answer, self._error = None, None
        try:
            return self._dialogue.send(answer) if error is None else self._dialogue.throw(error)
        except StopIteration as done:
            self.result, self.over = done.value, True
            return None

    def _perform_step(self, step: Step) -> None:
        self._pending = None
        try:
            answer = self.peer.answer(step)
            self._answer = self.perform(step) if answer is UNSCRIPTED else answer
        except ResolveError as error:
            self._error = error
        if isinstance(step, Receive | Peek) and self._error is None:
            self.heard.append(self._answer)

    def perform(self, step: Step) -> object:
        match step:
            case Connect() | Acquire() | JoinPipeline():
                return self._connect(step)
            case Send(lines=lines):
                self._send(lines)
            case SendBody():
                self._upload(step)
            case Receive(reader=reader):
                return self._read(reader)
            case Peek(reader=reader):
                return self._peek(reader)
            case ParseBuffered(reader=reader):
                return self._parse_buffered(reader)
            case StartTls():
                if self.buffer:
                    raise ProtocolError("unencrypted bytes left")
            case StartPacking():
                if self.buffer:
                    raise ProtocolError("uncompressed bytes left")
            case OpenData():
                self._data.clear()
                self._is_data_over = False
                self.peer.open_data(step)
            case AwaitData():
                return self._await_data(step)
            case StartBody(reply=reply):
                assert self.begun is None, "a body can start only once"
                self.begun = reply
            case EmitBody(octets=octets):
                self._append_pieces((octets,))
            case CopyBody():
                return self._copy_body(step)
            case RequestPeer():
                return self.peer.address
            case RequestAgreed() | RequestEnd():
                return None
            case RequestCredentials(user=user):
                return self.peer.credentials(user)
            case CloseData():
                self._is_data_over = False
            case EndResponse():
                self._response_ended = True
            case ReleaseToPool():
                return len(self.buffer)
            case PlanNote() | StartTimer() | StartRequest() | StartResponse() | Rest():
                pass
            case _:
                raise AssertionError(f"the player cannot perform {step!r}: the peer must answer it")
        return None

    def _connect(self, step: Opening) -> object:
        self._leave()
        self._unread = self.unread
        self.buffer, self._waiting = Buffer(), None
        answer = self.peer.connect(step)
        if isinstance(answer, JoinedPipeline):
            assert isinstance(answer.state.buffer, Buffer)
            self._state, self.buffer = answer.state, answer.state.buffer
        return answer

    def _end(self) -> None:
        self._leave()
        assert self.peer.unmet == 0, f"{self.peer.unmet} connections were not opened"

    def _leave(self) -> None:
        """Leave a connection as the network gateway does; an idle pipeline sends its farewell."""
        if self._state is not None and self._response_ended and self._state.idle:
            self.peer.hear(b"".join(line.octets for line in self._state.farewell))
        self._state, self._response_ended = None, False
        assert self.peer.unsaid == b"", f"never sent: {self.peer.unsaid!r}"

    def _append_pieces(self, pieces: Iterable[bytes]) -> None:
        for octets in pieces:
            assert self.begun is not None, "body bytes before the body was started"
            self.body += octets

    # -- sending data

    def _send(self, lines: tuple[Line, ...]) -> None:
        self.sent.append(b"".join(line.octets for line in lines))
        self.shown.append(b"".join(line.shown for line in lines))
        self.peer.hear(self.sent[-1])

    def _upload(self, step: SendBody) -> None:
        lines = step.lines
        while piece := _await_now(step.source()):
            self._send((*lines, step.encode(piece)))
            lines = ()
        self._send((*lines, step.encode(b"")))

    # -- receiving data

    def _read(self, reader: Reader[object]) -> object:
        if self._waiting is None:
            self._waiting = reader(self.buffer)
        while True:
            try:
                needs = next(self._waiting)
            except StopIteration as done:
                self._waiting = None
                return done.value
            except ResolveError:
                self._waiting = None
                raise
            if needs is not REST:
                self.receive()

    def _peek(self, reader: Reader[object]) -> object:
        running = reader(self.buffer)
        while True:
            try:
                needs = next(running)
            except StopIteration as done:
                return done.value
            assert needs is REST or not self.buffer.is_all, "a reader peeks beyond the end"
            try:
                if needs is not REST:
                    self.receive()
            except (Disconnected, TimedOut) as error:
                self.buffer.broken = error

    def _parse_buffered(self, reader: Reader[object]) -> object:
        try:
            next(reader(self.buffer))
        except StopIteration as done:
            return done.value
        return None

    def receive(self) -> PeerOutput:
        """Receive the next bytes of the control connection; bytes of the data connection are stored."""
        assert not self.buffer.at_end, "a reader reads beyond the end"
        if self.buffer.broken is not None:
            raise self.buffer.broken
        assert not self._is_data_over, "the data connection must be closed first"
        while (output := self.peer.speak()).on == "data":
            self._data.append(output)
        if output.broken is not None:
            raise output.broken
        self.buffer.feed(output.octets)
        return output

    # -- reading bodies

    def _await_data(self, step: AwaitData[object]) -> BodyStarted[object]:
        values: list[object] = []
        while True:
            while self.buffer or self.buffer.at_end:
                values.append(self._read(step.reader))
                self.heard.append(values[-1])
                if step.weigh(values) is DataExpectation.OVER:
                    return BodyStarted(tuple(values), 0)
            output = self.peer.speak()
            if output.on == "data":
                self._data.append(output)
                self._is_data_over = not output.octets
                return BodyStarted(tuple(values), len(output.octets), output.broken, output.close_notify)
            if output.broken is not None:
                raise output.broken
            self.buffer.feed(output.octets)

    def _copy_body(self, step: CopyBody) -> CopiedBody:
        count = 0
        while step.count is None or count < step.count:
            try:
                output = self._next_data() if step.source == "data" else self._next_octets(step, count)
            except Disconnected as error:
                if not count:
                    raise
                raise self._make_truncated(step, count) from error
            count += len(output.octets)
            if not output.octets:
                break
            self._append_pieces((output.octets,) if step.filter is None else step.filter.feed(output.octets))
        if step.count is not None and count < step.count:
            raise self._make_truncated(step, count) if count else Disconnected("no data arrived")
        self._append_pieces(() if step.filter is None else step.filter.finish())
        if step.count is None:
            return CopiedBody(count, output.close_notify)
        return CopiedBody(count, surplus=len(self.buffer))

    def _make_truncated(self, step: CopyBody, count: int) -> Truncated:
        expected = step.count if step.expected is None else step.expected
        return Truncated("cut", received=count, expected=expected)

    def _next_data(self) -> PeerOutput:
        """Return the next bytes of the data connection, beginning with the stored bytes.

        Bytes that arrive on the control connection in the meantime can be read later.
        """
        while not self._data:
            output = self.peer.speak()
            if output.on == "data":
                self._data.append(output)
            else:
                self.buffer.feed(output.octets)
        output = self._data.pop(0)
        self._is_data_over = not output.octets
        if output.broken is not None:
            raise output.broken
        return output

    def _next_octets(self, step: CopyBody, count: int) -> PeerOutput:
        assert step.source == "connection", f"the player cannot copy from {step.source}"
        if not self.buffer:
            output = PeerOutput() if self.buffer.at_end else self.receive()
            if not self.buffer:
                return output
        size = len(self.buffer) if step.count is None else step.count - count
        return PeerOutput(self.buffer.take(min(size, len(self.buffer))))


def _await_now(awaitable: Awaitable[bytes]) -> bytes:
    """Return the result of an awaitable that never waits."""
    try:
        next(awaitable.__await__())
    except StopIteration as done:
        octets: bytes = done.value
        return octets
    raise AssertionError("the player does not support a source that waits")


#: The port of FTP's data connection in transcripts.
PORT = 40001
#: The errors for connections that are not closed normally, by the keyword in the transcript.
BREAKS: dict[str, NetworkError] = {"reset": Disconnected("reset"), "quiet": TimedOut("silence")}


class TranscriptScript(ScriptedPeer):
    """The server's side of a transcript, in strict order.

    `password` is the user's answer to a password prompt. `cutter` splits the server's bytes into blocks.
    """

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
        assert self._connections, "unexpected connection"
        self._connection = self._connections.pop(0)
        self._turns = list(self._connection.turns)
        return JoinedPipeline(step.state, self.address) if isinstance(step, JoinPipeline) else None

    def hear(self, octets: bytes) -> None:
        assert not self._pieces, f"{octets!r} sent while the server must send {b''.join(self._pieces)!r}"
        assert self._turns, f"unexpected bytes {octets!r}"
        turn = self._turns[0]
        assert turn.speaker == "C", f"{octets!r} sent while the server must send {turn.octets!r}"
        while octets:  # the replies to commands of one write stay in their order (pipelining)
            index = next((at for at, turn in enumerate(self._turns) if turn.speaker == "C"), None)
            assert index is not None, f"unexpected bytes {octets!r}"
            turn = self._turns.pop(index)
            part, octets = octets[: len(turn.octets)], octets[len(turn.octets) :]
            assert turn.octets.startswith(part), f"got {part!r}, expected {turn.octets!r}"
            if turn.octets != part:
                self._turns.insert(index, TranscriptTurn("C", turn.octets[len(part) :]))

    def speak(self) -> PeerOutput:
        if self._pieces:
            return PeerOutput(self._pieces.pop(0))
        if not self._turns:
            return self._end()
        turn = self._turns[0]
        assert turn.speaker != "C", f"waiting for bytes, but expected to send {turn.octets!r}"
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
        assert end != "left", "waiting for bytes that never come"
        return PeerOutput(broken=BREAKS.get(end), close_notify=self._tls and end == "close")

    def credentials(self, user: bytes | None) -> Credentials | None:
        return None if user is None or self._password is None else Credentials(user, self._password)

    def open_data(self, step: OpenData) -> None:
        assert step.port == PORT, f"got port {step.port}, expected {PORT}"

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
    """A server that sends the given bytes and accepts any request.

    `connections` contains the bytes to send on each connection, as one block or several blocks. After the
    last byte, the server closes the connection. `known` contains the stored states of reused connections.
    """

    def __init__(self, *connections: bytes | Iterable[bytes], known: Iterable[object] = ()) -> None:
        self._connections = [iter([item] if isinstance(item, bytes) else item) for item in connections]
        self._states = list(known)
        self._blocks: list[bytes] = []

    def connect(self, step: Opening) -> object:
        assert self._connections, "unexpected connection"
        self._blocks = list(self._connections.pop(0))
        state = self._states.pop(0) if self._states else None
        if isinstance(step, JoinPipeline):
            return JoinedPipeline(step.state if state is None else state, self.address)  # type: ignore[arg-type]
        return state

    def hear(self, octets: bytes) -> None:
        """Accept any bytes; the test compares the sent bytes."""

    def credentials(self, user: bytes | None) -> Credentials | None:
        """Return None, because no credentials are stored."""
        return None

    def speak(self) -> PeerOutput:
        return PeerOutput(self._blocks.pop(0)) if self._blocks else PeerOutput()

    @property
    def unmet(self) -> int:
        return len(self._connections)

    @property
    def unread(self) -> bytes:
        return b"".join(self._blocks)


class ValueScript(ScriptedPeer):
    """A mock peer that returns a Python value for each step, without bytes, and accepts any request.

    `answer` returns the value for a step or raises an error. If `answer` returns None, the step gets its
    expected reply.
    """

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
        """Accept any bytes; the test compares the sent bytes."""


def leaving(gone: int, *, used: object) -> Callable[[Step], object]:
    """Return the `answer` of a server that closes the connection at the first `gone` reads.

    The first connection is a reused connection whose stored state is `used`.
    """
    remaining = [gone]
    states = [used]

    def answer(step: Step) -> object:
        if isinstance(step, Receive) and remaining[0]:
            remaining[0] -= 1
            raise Disconnected("gone")
        if isinstance(step, Acquire):
            return states.pop() if states else None
        return CopiedBody(0) if isinstance(step, CopyBody) else None

    return answer


# Comparison of an outcome with the outcome in the transcript. Tests compute the outcome twice: with the
# protocol exchange alone, and with a complete session.

Opener = Callable[[Any, Gate], AbstractAsyncContextManager[Reply]]


async def resolve(open_: Opener, url: Url, gate: Gate) -> TranscriptOutcome:
    """Open the URL, and read the complete body and its entries up to the first error."""
    outcome = TranscriptOutcome()
    try:
        async with open_(url, gate) as reply:
            await take(reply, outcome)
    except ResolveError as error:
        outcome.error = type(error).__name__
    return outcome


async def take(reply: Reply, outcome: TranscriptOutcome) -> None:
    _describe(reply, outcome)
    outcome.body = b""
    entries: list[Entry] = []
    listing = reply.listing if reply.records is None else None
    async for octets in reply.body:
        assert octets, "an empty block of a body"
        outcome.body += octets
        if listing is not None:
            entries += listing.feed(octets)
    if reply.listing is not None and reply.records is not None:
        entries += reply.listing.feed(reply.records)
    if reply.listing is not None:
        entries += reply.listing.finish()
    _conclude(reply, entries, outcome)


def check(outcome: TranscriptOutcome, expected: TranscriptOutcome) -> None:
    """Check that an outcome equals the outcome in the transcript.

    The error is always compared. Kind, media type, body, verified properties and target are compared if the
    transcript states them. If no error is expected, the findings are compared. If the transcript states
    entries, the entries are compared, too.

    Args:
        outcome: the actual outcome.
        expected: the outcome that the transcript states.

    Raises:
        AssertionError: the outcomes differ.

    Examples:
        >>> from resolver.testing import TranscriptOutcome, check
        >>> check(TranscriptOutcome(body=b"hello"), TranscriptOutcome(body=b"hello"))
    """
    assert outcome.error == expected.error
    for name in ("kind", "media_type", "body", "verified", "target"):
        if (value := getattr(expected, name)) is not None:
            assert getattr(outcome, name) == value, name
    if expected.error is None:
        assert outcome.findings == sorted(expected.findings)
        if expected.entries:
            assert outcome.entries == expected.entries


def recite(
    dialogue: Dialogue[Any],
    transcript: DialogueTranscript,
    password: bytes | None = None,
    surplus: bytes = b"",
    cutter: Cutter = whole,
) -> TranscriptOutcome:
    r"""Run an exchange alone, against the server's side of a transcript, and return the outcome.

    Args:
        dialogue: the exchange, not started yet.
        transcript: both sides of the exchange.
        password: the user's answer to a password prompt.
        surplus: the bytes that the server sends and the exchange must not read.
        cutter: the function that splits the server's bytes into blocks.

    Raises:
        AssertionError: the exchange sends other bytes, waits for bytes that never arrive, or leaves bytes
            unsent or unread.

    Examples:
        >>> from protocols.contract import Limits, Options
        >>> from resolver import parse
        >>> from resolver.url import registry
        >>> from resolver.testing import one_by_one, parse_transcript, recite
        >>> text = "# made up\nU: gopher://h.example/0a\nC: a\\r\\n\nS: hello\nE: close\n"
        >>> talk = parse_transcript(text, "hello")
        >>> dialogue = registry.converse(registry.find("gopher"), parse(talk.url), Options(), Limits())
        >>> recite(dialogue, talk, cutter=one_by_one).body
        b'hello'
    """
    outcome, player = TranscriptOutcome(), Player(dialogue, TranscriptScript(transcript, password, cutter))
    try:
        player.play(surplus)
    except ResolveError as error:
        outcome.error = type(error).__name__
    if player.begun is not None:
        _describe(player.begun, outcome)
        outcome.body = player.body
    if outcome.error is None:
        _conclude(player.reply, _entries(player.reply, player.body), outcome)
    return outcome


def _entries(reply: Reply, body: bytes) -> list[Entry]:
    if reply.listing is None:
        return []
    return [*reply.listing.feed(body if reply.records is None else reply.records), *reply.listing.finish()]


def _describe(reply: Reply, outcome: TranscriptOutcome) -> None:
    outcome.kind, outcome.media_type, outcome.target = reply.kind.value, reply.media_type or "-", reply.target


def _conclude(reply: Reply, entries: Iterable[Entry], outcome: TranscriptOutcome) -> None:
    outcome.entries = [(entry.kind.value, entry.url, entry.name) for entry in entries]
    outcome.verified = tuple(sorted(reply.verified))
    outcome.findings = sorted(finding.rule for finding in reply.findings)
