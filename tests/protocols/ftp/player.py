"""Performs an FTP dialogue against a script, without I/O and without a loop."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass, field

from protocols.contract import Credentials, Options
from protocols.conversation import (
    AskCredentials,
    AskPeer,
    AwaitData,
    Begun,
    Borrow,
    CloseData,
    Connect,
    Dialogue,
    HandOver,
    Hear,
    Note,
    OpenData,
    Pace,
    Say,
    StartTls,
    Step,
)
from protocols.errors import Disconnected, NetworkError, ProtocolError, ResolveError, TimedOut
from protocols.ftp.dialogue import retrieve
from protocols.ftp.passive import Offer
from protocols.ftp.reply import ControlReply
from protocols.ftp.reuse import Standing
from protocols.ftp.transfer import Ended, Transfer
from protocols.ftp.url import FtpUrl
from protocols.ftp.visit import Outcome
from protocols.wire import Buffer
from resolver.url import parse

#: What a willing server says, by verb. TYPE, SIZE, … of anything.
WILLING: dict[bytes, bytes] = {
    b"AUTH": b"234 ok\r\n",
    b"PBSZ": b"200 ok\r\n",
    b"PROT": b"200 ok\r\n",
    b"USER": b"331 password, please\r\n",
    b"PASS": b"230 in\r\n",
    b"PWD": b'257 "/home" is where you are\r\n',
    b"CWD": b"250 ok\r\n",
    b"TYPE": b"200 ok\r\n",
    b"SIZE": b"213 5\r\n",
    b"MDTM": b"213 20010909014640\r\n",
    b"REST": b"350 ok\r\n",
    b"EPSV": b"229 ok (|||40001|)\r\n",
    b"PASV": b"227 ok (10,0,0,5,156,66)\r\n",
    b"RETR": b"150 here it comes\r\n",
    b"NLST": b"150 here it comes\r\n",
    b"MLSD": b"150 here it comes\r\n",
}


@dataclass
class Script:
    """A server. `replies` go before `WILLING`: by the whole command, or by its verb; a list serves one
    command after the other. `late` are the replies that come once the client has closed the data
    connection. `data` are the octets of each transfer; how they end, and what says so: `broken`,
    `close_notify`. `first` puts data before what control says. `silent` servers keep control open. One
    that has `left` closed the connections that are kept."""

    greeting: bytes = b"220 ready\r\n"
    replies: dict[bytes, bytes | list[bytes]] = field(default_factory=dict)
    late: bytes = b"226 done\r\n"
    data: bytes | list[bytes] = b"12345"
    broken: NetworkError | None = None
    broken_later: bool = False
    close_notify: bool = False
    first: bool = False
    silent: bool = False
    left: bool = False
    unreachable: tuple[int, ...] = ()
    peer: str = "127.0.0.1"
    credentials: Credentials | None = None

    def reply_to(self, command: bytes) -> bytes:
        verb = command.partition(b" ")[0]
        for key in (command, verb):
            reply = self.replies.get(key)
            if isinstance(reply, list):
                return reply.pop(0) if len(reply) > 1 else reply[0]
            if reply is not None:
                return reply
        return WILLING[verb]

    def next_data(self) -> bytes:
        if isinstance(self.data, list):
            return self.data.pop(0) if len(self.data) > 1 else self.data[0]
        return self.data


class Player:
    """One dialogue and one script. `sent` are the commands, `events` all that happened in order."""

    def __init__(self, dialogue: Dialogue[Outcome], script: Script) -> None:
        self.dialogue = dialogue
        self.script = script
        self.sent: list[bytes] = []
        self.shown: list[bytes] = []
        self.events: list[object] = []
        self.heard: list[ControlReply] = []
        self.body = b""
        self.transfer: Transfer | None = None
        self._buffer = Buffer()
        self._waiting: Generator[None, None, object] | None = None
        self._late = b""
        self._octets = b""
        self.kept: list[Standing] = []
        self.left = False

    def play(self) -> Outcome:
        """To the end. Raises what the dialogue raises."""
        answer: object = None
        error: ResolveError | None = None
        while True:
            try:
                step = self.dialogue.send(answer) if error is None else self.dialogue.throw(error)
            except StopIteration as done:
                outcome: Outcome = done.value
                return outcome
            answer, error = None, None
            try:
                answer = self._perform(step)
            except ResolveError as raised:
                error = raised

    def _perform(self, step: Step) -> object:
        match step:
            case Connect(tls=tls):
                self._connect(tls)
            case Borrow(tls=tls):
                return self._borrow(tls)
            case AskPeer():
                return self.script.peer
            case Say(lines=lines):
                self._say(b"".join(line.octets for line in lines), b"".join(line.shown for line in lines))
            case Hear():
                return self._hear(step)
            case StartTls():
                self.events.append(step)
                if self._buffer:
                    raise ProtocolError("octets in the clear")
            case AskCredentials():
                self.events.append(step)
                return self.script.credentials
            case OpenData(port=port):
                self.events.append(step)
                self._octets = self.script.next_data()
                if port in self.script.unreachable:
                    raise TimedOut("nobody there")
            case AwaitData():
                return self._await_data(step)
            case CloseData():
                self.events.append(step)
                self._hear_from(self._late)
                self._late = b""
            case Transfer():
                return self._take_body(step)
            case Note():
                pass
            case HandOver():
                raise AssertionError("a hand-over of another kind")
        return None

    def _connect(self, tls: bool) -> None:
        self.events.append(Connect(tls))
        self._buffer = Buffer()
        self._waiting = None
        self._hear_from(self.script.greeting)

    def _borrow(self, tls: bool) -> Standing | None:
        self.left = bool(self.kept) and self.script.left
        if not self.kept:
            self._connect(tls)
            return None
        self._buffer = Buffer()
        return self.kept.pop(0)

    def _say(self, octets: bytes, shown: bytes) -> None:
        if octets.startswith(b"\xff"):
            self.events.append(octets)
            return
        command = octets.removesuffix(b"\r\n")
        assert octets == command + b"\r\n"
        assert not set(command) & set(b"\0\r\n"), command
        self.sent.append(command)
        self.shown.append(shown.removesuffix(b"\r\n"))
        self.events.append(command)
        self._hear_from(self.script.reply_to(command))
        if command.partition(b" ")[0] in (b"RETR", b"NLST", b"MLSD"):
            self._late = self.script.late

    def _hear_from(self, octets: bytes) -> None:
        if octets and not self.left:
            self._buffer.feed(octets)

    def _hear(self, step: Hear[object] | AwaitData[object]) -> object:
        if self._waiting is None:
            self._waiting = step.reader(self._buffer)
        for octets in (None, b""):
            if octets is not None:
                if self.script.silent:
                    raise TimedOut("silence")
                self._buffer.feed(octets)
            try:
                next(self._waiting)
            except StopIteration as done:
                self._waiting = None
                value = done.value
                self.heard.append(value.reply if isinstance(value, Offer) else value)
                return value
            except ResolveError:
                self._waiting = None
                raise
        raise AssertionError("a reader wants more after the end")

    def _await_data(self, step: AwaitData[object]) -> Begun[object]:
        values: list[object] = []
        pace = Pace.MORE
        while not self.script.first and pace is Pace.MORE and self._buffer:
            values.append(self._hear(step))
            pace = step.weigh(values)
        if pace is not Pace.MORE:
            self._late = b""
        if pace is Pace.OVER:
            return Begun(tuple(values), 0)
        broken = None if self.script.broken_later else self.script.broken
        octets = 0 if broken is not None else len(self._octets)
        return Begun(tuple(values), octets, broken, self.script.close_notify)

    def _take_body(self, step: Transfer) -> Ended:
        self.events.append(step)
        self.transfer = step
        self.body = self._octets
        if self.script.broken is not None:
            raise self.script.broken
        return Ended(len(self._octets), self.script.close_notify)


def play(
    url: str | FtpUrl,
    script: Script | None = None,
    options: Options | None = None,
    kept: Iterable[Standing] = (),
) -> tuple[Player, Outcome | ResolveError]:
    """Retrieve a URL from a script. The outcome, or the error that was raised."""
    parsed = parse(url) if isinstance(url, str) else url
    assert isinstance(parsed, FtpUrl)
    player = Player(retrieve(parsed, options), script or Script())
    player.kept += kept
    try:
        return player, player.play()
    except ResolveError as error:
        return player, error


def gone() -> Disconnected:
    return Disconnected("the connection was reset")
