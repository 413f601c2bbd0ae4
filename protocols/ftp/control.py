"""The FTP control connection of a dialogue: commands, replies, and whether it can be reused for a URL."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from protocols.contract import Line
from protocols.errors import Declined, ProtocolError, Refused, TryLater
from protocols.ftp.reply import ControlReply, make_declined, read_reply, shown_text
from protocols.ftp.url import FtpUrl
from protocols.options import Limits, Options
from protocols.step import Dialogue, Send, receive
from protocols.wire import Secret, encode_line, encode_refusals

# Reuse of a control connection. The draft of RFC 1738 says that after a CWD there is no general way back. So
# a connection is reused only in its current directory (the same CWD arguments, byte for byte), or through the
# login directory: `CWD` to the answer of `PWD` right after login, believed only if `PWD` gives it again.
# Paths are compared with nothing else and never combined. All this is state without I/O; a pool keeps it
# beside its connection.


@dataclass(frozen=True, slots=True)
class LoginKey:
    """All that makes a login as far as the protocol knows it. A pool adds what the gate knows: address
    family, proxy, trust (CVE-2014-0138, CVE-2023-27535)."""

    scheme: str
    host: str
    port: int
    user: bytes | None
    password: bytes | None = field(repr=False)
    anonymous_password: bytes | None = field(repr=False)
    tls: str = "never"


def stands_in(cwds: tuple[bytes, ...], state: object) -> bool:
    """Is a connection in this state where these CWDs lead?"""
    return isinstance(state, FtpSessionState) and state.route(cwds) is DirectoryRoute.STAY


def login_key(url: FtpUrl, options: Options) -> LoginKey:
    anonymous = options.anonymous_password if url.user is None else None
    tls = "implicit" if url.scheme == "ftps" else options.tls
    return LoginKey(url.scheme, url.host, url.effective_port, url.user, url.password, anonymous, tls)


class DirectoryRoute(enum.Enum):
    """How to get from where a connection stands to where a URL's directory is."""

    STAY = "send no CWD"
    HOME = "go to the login directory first"
    ANEW = "make a new connection"


@dataclass(slots=True)
class FtpSessionState:
    """The server's side of one control connection, as far as its replies have told.

    `protected` says that data goes through TLS. `type_code` is the last TYPE that was answered 2yz,
    `extended` whether EPSV works (None: not tried), `lists_facts` whether FEAT names MLSD (None: not asked).
    `in_order`: it is a server that is known to answer commands in order that were sent together, to say 150
    before data comes, and to end each data connection of which it said that. `home` is what PWD said right
    after login.
    `cwds` are the CWD arguments that led from the login directory to where it stands, None after a failed or
    an additional CWD. `idle` is False while a transfer is under way, and stays so without its final reply:
    then the connection must not serve again.
    """

    protected: bool = False
    type_code: bytes | None = None
    extended: bool | None = None
    in_order: bool = False
    lists_facts: bool | None = None
    home: bytes | None = None
    cwds: tuple[bytes, ...] | None = ()
    idle: bool = True

    def route(self, cwds: tuple[bytes, ...]) -> DirectoryRoute:
        if not self.idle:
            return DirectoryRoute.ANEW
        if self.cwds == cwds:
            return DirectoryRoute.STAY
        return DirectoryRoute.ANEW if self.home is None else DirectoryRoute.HOME


#: Above 4 KiB vsftpd answers 500, Pure-FTPd closes and ProFTPD says nothing any more.
ARGUMENT_LIMIT = 4000
#: 1yz replies in a row. Pure-FTPd sends two; more than this many is a server that plays for time.
PRELIMINARY_LIMIT = 100


class ServiceClosing(TryLater):
    """421 to a command or unasked: this connection is gone, a new one may do (RFC 959 5.4)."""


def command(verb: bytes, *arguments: bytes | Secret) -> Line:
    """A command. A null argument keeps its blank: `CWD ` (RFC 1738 3.2.2). `Refused` (S02) for octets
    that would end it and for more than 4,000 in an argument. 0xFF goes single: vsftpd and Pure-FTPd
    look for a name with two where RFC 959 would double it."""
    for argument in arguments:
        octets = argument.octets if isinstance(argument, Secret) else argument
        if len(octets) > ARGUMENT_LIMIT:
            raise Refused("S02", f"an argument of {len(octets)} octets is longer than {ARGUMENT_LIMIT}")
    return encode_line(verb, *arguments)


def shown_command(verb: bytes, *arguments: bytes | Secret) -> str:
    """A command for a message: no secret, no control character."""
    line = command(verb, *arguments).shown
    return repr(shown_text(line[:-2]))


class Control:
    """Asks and hears. Refuses Telnet options outside of transfers, and knows when the peer says goodbye."""

    def __init__(self, limits: Limits, state: FtpSessionState) -> None:
        self.limits = limits
        self.state = state
        self.reader = read_reply(limits)
        self.commands = 0
        self._options: list[tuple[int, int]] = []

    def say(self, verb: bytes, *arguments: bytes | Secret) -> Dialogue[None]:
        self.commands += 1
        yield Send((command(verb, *arguments),))

    def say_together(self, *lines: Line) -> Dialogue[None]:
        """Commands in one write, for a server that answers them in order. They count as one: a failure of the
        first of them is one of all."""
        self.commands += 1
        yield Send(lines)

    def command(
        self, verb: bytes, *arguments: bytes | Secret, ideal: tuple[int, bytes]
    ) -> Dialogue[ControlReply]:
        """Send a command and hear its reply. `ideal` are code and text of a willing server's."""
        yield from self.say(verb, *arguments)
        return (yield from self.hear_reply(verb, *arguments, ideal=ideal))

    def hear_reply(
        self, verb: bytes, *arguments: bytes | Secret, ideal: tuple[int, bytes]
    ) -> Dialogue[ControlReply]:
        """The reply to a command that was sent."""
        reply = yield from receive(
            self.reader, f"the reply to {verb.decode('ascii')}", ControlReply(ideal[0], (ideal[1],))
        )
        for argument in arguments:
            if isinstance(argument, Secret):
                reply = reply.hide_secret(argument.octets)
        self.take(reply)
        yield from self.refuse_options()
        return reply

    def demand(
        self, verb: bytes, *arguments: bytes | Secret, ideal: tuple[int, bytes], hint: str = ""
    ) -> Dialogue[ControlReply]:
        """The same, and nothing but 2yz will do: `Declined` for 4yz and 5yz, else `ProtocolError`."""
        reply = yield from self.command(verb, *arguments, ideal=ideal)
        check_good(reply, shown_command(verb, *arguments), hint)
        return reply

    def hear_greeting(self) -> Dialogue[ControlReply]:
        """The first reply. A 421 here is the server's answer: another connection would hear it again."""
        reply = yield from receive(self.reader, "the server's greeting", ControlReply(220, (b"Ready",)))
        self._options += reply.options
        yield from self.refuse_options()
        return reply

    def take(self, reply: ControlReply) -> None:
        """Take note of a reply that was heard. Raises `ServiceClosing` for 421, which may come at any
        time."""
        self._options += reply.options
        if reply.code == 421:
            raise ServiceClosing(
                f"the server closes the connection: it said {reply.shown!r}",
                code="421",
                text=reply.text,
            )

    def refuse_options(self) -> Dialogue[None]:
        """Answer the Telnet options that replies asked for. Not to be used during a transfer."""
        if not self._options:
            return
        answer = encode_refusals(self._options)
        self._options.clear()
        if answer.octets:
            yield Send((answer,))


def check_good(reply: ControlReply, doing: str, hint: str = "") -> None:
    if not reply.good:
        raise refusal(reply, doing, hint)


def refusal(reply: ControlReply, doing: str, hint: str = "") -> Declined | ProtocolError:
    """The error for a reply that is not the one that was needed."""
    if reply.refused:
        return make_declined(reply, doing, hint)
    return ProtocolError(f"{doing}: {reply.shown!r} is no answer to that")
