"""A scripted FTP server for the player; it accepts every command unless the test says otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from protocols.contract import Reply
from protocols.ftp.control import Control
from protocols.ftp.dialogue import retrieve
from protocols.ftp.reply import ControlReply, PassiveReply
from protocols.step import (
    Acquire,
    CloseData,
    Connect,
    CopyBody,
    OpenData,
    RequestCredentials,
    Send,
    StartTls,
    Step,
)
from resolver import (
    Credentials,
    Disconnected,
    Finding,
    FtpUrl,
    NetworkError,
    Options,
    ResolveError,
    TimedOut,
    parse,
)
from resolver.testing import PeerOutput, Player, ScriptedPeer
from resolver.testing.player import Opening

#: The replies of a server that accepts every command, by command name.
DEFAULT_REPLIES: dict[bytes, bytes] = {
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
    b"LIST": b"150 here it comes\r\n",
}
TRANSFERS = (b"RETR", b"NLST", b"MLSD", b"LIST")


@dataclass
class Script:
    """The behavior of a scripted server.

    `replies` override `WILLING`, by the complete command or by its name; a list has a reply for each use.
    `late` is sent after the client closed the data connection. `data` are the bytes of each transfer.
    `broken` and `close_notify` say how the data connection ends. If `first`, data precede the reply on the
    control connection. If `silent`, the server keeps the control connection open. If `left`, the server
    closed the pooled connections.
    """

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
        return DEFAULT_REPLIES[verb]

    def next_data(self) -> bytes:
        if isinstance(self.data, list):
            return self.data.pop(0) if len(self.data) > 1 else self.data[0]
        return self.data


class Server(ScriptedPeer):
    """A peer that plays a script; pooled connections in `kept` are used first."""

    def __init__(self, script: Script, kept: Iterable[Control] = ()) -> None:
        self.script = script
        self.address = script.peer
        self._kept = list(kept)
        self._left = False
        self._octets = b""
        self._turns: list[PeerOutput] = []
        self.greeted: list[Opening] = []

    def connect(self, step: Opening) -> Control | None:
        self._turns = []
        self._left = isinstance(step, Acquire) and bool(self._kept) and self.script.left
        if isinstance(step, Acquire) and self._kept:
            return self._kept.pop(0)
        self.greeted.append(step)
        self._say(self.script.greeting)
        return None

    def hear(self, octets: bytes) -> None:
        if octets.startswith(b"\xff") or self._left:
            return
        assert octets.endswith(b"\r\n")
        for command in octets.removesuffix(b"\r\n").split(b"\r\n"):
            assert not set(command) & set(b"\0\r\n"), command
            self._obey(command)

    def _obey(self, command: bytes) -> None:
        reply = self.script.reply_to(command)
        if command.partition(b" ")[0] in TRANSFERS:
            self._transfer(reply)
        else:
            self._say(reply)

    def _say(self, octets: bytes) -> None:
        if octets:
            self._turns.append(PeerOutput(octets))

    def _transfer(self, reply: bytes) -> None:
        """Queue the reply and the data of a transfer.

        A refused transfer has no data, and a reply that is already final is not followed by `late`.
        """
        if not self.script.first:
            self._say(reply)
        if self.script.first or reply[:1] not in b"45" or not reply:
            self._send()
        if self.script.first:
            self._say(reply)
        if len(reply) == 0 or reply.rstrip().rpartition(b"\n")[2][:1] == b"1":
            self._say(self.script.late)

    def _send(self) -> None:
        script = self.script
        if self._octets and (script.broken is None or script.broken_later):
            self._turns.append(PeerOutput(self._octets, "data"))
        self._turns.append(PeerOutput(b"", "data", script.broken, script.close_notify))

    def speak(self) -> PeerOutput:
        if self._turns:
            return self._turns.pop(0)
        return PeerOutput(broken=TimedOut("silence") if self.script.silent else None)

    def credentials(self, user: bytes | None) -> Credentials | None:
        return self.script.credentials

    def open_data(self, step: OpenData) -> None:
        self._octets = self.script.next_data()
        if step.port in self.script.unreachable:
            raise TimedOut("nobody there")

    @property
    def unread(self) -> bytes:
        return b"".join(turn.octets for turn in self._turns)


@dataclass(frozen=True)
class Outcome:
    """The reply of a completed dialogue and the state of its pooled connection."""

    found: Reply
    left: Control | None

    @property
    def state(self) -> Control:
        assert self.left is not None
        return self.left

    @property
    def verified(self) -> set[str]:
        return self.found.verified

    @property
    def findings(self) -> list[Finding]:
        return self.found.findings


class Retrieval(Player[Control | None]):
    """A player whose steps are shown as FTP commands and replies."""

    def __init__(self, url: FtpUrl, server: Server, options: Options | None = None) -> None:
        super().__init__(retrieve(url, options), server)
        self._server = server

    @property
    def commands(self) -> list[bytes]:
        """Return the commands sent, without line ends and without telnet answers."""
        return [octets.removesuffix(b"\r\n") for octets in self.sent if not octets.startswith(b"\xff")]

    @property
    def commands_shown(self) -> list[bytes]:
        return [octets.removesuffix(b"\r\n") for octets in self.shown if not octets.startswith(b"\xff")]

    @property
    def replies(self) -> list[ControlReply]:
        return [each.reply if isinstance(each, PassiveReply) else each for each in self.heard]  # type: ignore[misc]

    @property
    def transfer(self) -> CopyBody | None:
        passes = [step for step in self.steps if isinstance(step, CopyBody)]
        return passes[-1] if passes else None

    @property
    def events(self) -> list[object]:
        """Return all events in order, commands as bytes; a reused connection has no `Connect`."""
        return [event for step in self.steps for event in self._events(step)]

    def _events(self, step: Step) -> Iterator[object]:
        match step:
            case Send(lines=lines):
                yield b"".join(line.octets for line in lines).removesuffix(b"\r\n")
            case Connect() | Acquire():
                if any(step is each for each in self._server.greeted):
                    yield Connect(step.tls)
            case StartTls() | RequestCredentials() | OpenData() | CloseData() | CopyBody():
                yield step


def play(
    url: str | FtpUrl,
    script: Script | None = None,
    options: Options | None = None,
    kept: Iterable[Control] = (),
) -> tuple[Retrieval, Outcome | ResolveError]:
    """Retrieve a URL from a script and return the player with the outcome or the error."""
    parsed = parse(url) if isinstance(url, str) else url
    assert isinstance(parsed, FtpUrl)
    retrieval = Retrieval(parsed, Server(script or Script(), kept), options)
    try:
        return retrieval, Outcome(retrieval.play(), retrieval.result)
    except ResolveError as error:
        return retrieval, error


def reset_error() -> Disconnected:
    return Disconnected("the connection was reset")
