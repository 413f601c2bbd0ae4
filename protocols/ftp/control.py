"""The FTP control connection of a dialogue: commands, replies, and the reuse of a connection."""

from __future__ import annotations

import enum
import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from protocols.contract import Line
from protocols.errors import Declined, ProtocolError, Refused, TimedOut, TryLater
from protocols.ftp.reply import ControlReply, make_declined, read_reply, shown_text
from protocols.ftp.url import FtpUrl
from protocols.options import Limits, Options
from protocols.step import Dialogue, Receive, Send, StartTimer
from protocols.wire import Reader, Secret, check_word, encode_line, encode_refusals

T = TypeVar("T")

# Reuse of a control connection. The draft of RFC 1738 says that a CWD cannot be undone in general. Therefore
# a connection is reused in only two cases:
# - The URL has the same CWD arguments (bytes) that led to the working directory of the connection.
# - The client can return to the login directory: it sends `CWD` with the path that `PWD` returned after
#   login, and `PWD` then returns this path again.
# Paths are not compared in any other way and are never joined. The connection pool stores the
# `Control` with the connection.


class LoginKey(NamedTuple):
    """The properties of an FTP login. Only URLs with equal logins share a connection.

    The pool also compares the properties of the network connection: address family, proxy and trust
    (CVE-2014-0138, CVE-2023-27535).
    """

    scheme: str
    host: str
    port: int
    user: bytes | None
    password: bytes | None
    anonymous_password: bytes | None
    tls: str = "never"

    def __repr__(self) -> str:
        return f"LoginKey({self.scheme}://{self.host}:{self.port})"


def stands_in(cwds: tuple[bytes, ...], state: object) -> bool:
    """Return whether the working directory of a connection belongs to these CWD arguments."""
    return isinstance(state, Control) and state.route(cwds) is DirectoryRoute.STAY


def login_key(url: FtpUrl, options: Options) -> LoginKey:
    anonymous = options.anonymous_password if url.user is None else None
    tls = "implicit" if url.scheme == "ftps" else options.tls
    return LoginKey(url.scheme, url.host, url.effective_port, url.user, url.password, anonymous, tls)


class DirectoryRoute(enum.Enum):
    """The route from a connection's working directory to the URL's directory."""

    STAY = "send no CWD"
    HOME = "go to the login directory first"
    ANEW = "make a new connection"


#: The maximum size of an argument in bytes. For larger arguments, vsftpd responds 500, Pure-FTPd closes the
#: connection, and ProFTPD sends no reply.
ARGUMENT_LIMIT = 4000
#: The maximum number of consecutive preliminary replies (1yz). Pure-FTPd sends two. A hostile server could
#: send preliminary replies forever (slow-loris).
PRELIMINARY_LIMIT = 100


class ServiceClosing(TryLater):
    """A 421 reply: the server closes the connection (RFC 959 5.4), and a new connection may succeed."""


class UnansweredCommand(TimedOut):
    """A timeout of a command that another command can replace.

    The reply may still arrive, so the other command needs a new connection.
    """


def await_optional(control: Control, reply: Dialogue[T]) -> Dialogue[T]:
    """Receive the reply to a command that another command can replace, within the connect timeout.

    Raises:
        UnansweredCommand: The reply did not arrive in time.
    """
    yield StartTimer(control.limits.connect)
    try:
        value = yield from reply
    except TimedOut as error:
        yield StartTimer(math.inf)
        raise UnansweredCommand(error.message) from error
    yield StartTimer(math.inf)
    return value


def command(*words: bytes | Secret) -> Line:
    """Encode a command line: the verb and its arguments.

    With an empty argument, the line still contains the space: `CWD ` (RFC 1738 3.2.2). The byte 0xFF is not
    doubled. RFC 959 requires doubling, but vsftpd and Pure-FTPd would then search for a name with two bytes
    0xFF.

    Raises:
        Refused: The arguments contain bytes that would end the line (S02, command injection), or have more
            than 4,000 bytes.
    """
    line = encode_line(*words)
    if len(line.octets) > ARGUMENT_LIMIT:
        _check_sizes(word.octets if isinstance(word, Secret) else word for word in words)
    return line


def check_arguments(*arguments: bytes) -> None:
    """Raise `Refused` if `command` refuses the arguments."""
    check_word(b"".join(arguments))
    _check_sizes(arguments)


def _check_sizes(arguments: Iterable[bytes]) -> None:
    """Raise `Refused` for an argument with more than 4,000 bytes."""
    for octets in arguments:
        if len(octets) > ARGUMENT_LIMIT:
            raise Refused("S02", f"argument of {len(octets)} bytes exceeds the limit of {ARGUMENT_LIMIT}")


#: The command that requests a data port (RFC 2428).
EPSV = command(b"EPSV")
#: The commands that transfer data.
TRANSFERS = frozenset({b"RETR", b"MLSD", b"LIST", b"NLST"})


def shown_command(verb: bytes, *arguments: bytes | Secret) -> str:
    return shown_line(command(verb, *arguments))


def shown_line(line: Line) -> str:
    """Return a command for a message, without secrets and control characters."""
    return repr(shown_text(line.shown[:-2]))


@dataclass(slots=True, eq=False)
class Control:
    """A control connection: its commands and replies, and the server's state as known from the replies.

    The client refuses Telnet options outside of transfers, and raises `ServiceClosing` for a 421 reply. The
    connection pool stores the object with the connection.

    Attributes:
        keep: Whether further retrievals will follow.
        protected: Whether data connections use TLS.
        type_code: The last TYPE that the server accepted with 2yz.
        extended: Whether EPSV works, or None if EPSV was not sent.
        in_order: Whether the server processes pipelined commands in order. A server of this kind also sends
            150 before data, and ends each data connection that it announced with 150.
        queues: Whether the server reads no command during a transfer.
        hides_unreadable: Whether the server lists a directory that it cannot read as an empty directory.
        port: The data port for the next transfer, from an EPSV that was sent ahead.
        lists_facts: Whether FEAT lists MLSD, or None if FEAT was not sent.
        home: The path that PWD returned after login.
        cwds: The CWD arguments from the login directory to the working directory. None if the working
            directory is unknown, after a failed or an additional CWD.
        idle: Whether the connection can accept a command. False during a transfer, and after a transfer
            without a final reply. A connection that is not idle must not be reused.
        has_data: Whether the data connection for the next transfer is open.
        commands: The number of commands of this retrieval.
        options: The Telnet options that replies requested and that are not yet refused.
        ahead: The commands that `send_ahead` has sent and that were not passed to `say`.
    """

    limits: Limits
    keep: bool
    protected: bool = False
    type_code: bytes | None = None
    extended: bool | None = None
    in_order: bool = False
    queues: bool = False
    hides_unreadable: bool = False
    port: int | None = None
    lists_facts: bool | None = None
    home: bytes | None = None
    cwds: tuple[bytes, ...] | None = ()
    idle: bool = True
    has_data: bool = False
    commands: int = 0
    options: list[tuple[int, int]] = field(default_factory=list)
    ahead: deque[Line] = field(default_factory=deque)
    reader: Reader[ControlReply] = field(init=False)

    def __post_init__(self) -> None:
        self.reader = read_reply(self.limits)

    def begin(self, limits: Limits, keep: bool) -> None:
        """Prepare a reused connection for a retrieval."""
        if limits is not self.limits:
            self.limits, self.reader = limits, read_reply(limits)
        self.keep, self.has_data, self.commands = keep, False, 0

    def route(self, cwds: tuple[bytes, ...]) -> DirectoryRoute:
        if not self.idle:
            return DirectoryRoute.ANEW
        if self.cwds == cwds:
            return DirectoryRoute.STAY
        return DirectoryRoute.ANEW if self.home is None else DirectoryRoute.HOME

    def say(self, verb: bytes, *arguments: bytes | Secret) -> tuple[Send, ...]:
        """Return the step that sends a command, or an empty value if the command was sent ahead."""
        if self.ahead:
            ahead = self.ahead.popleft().octets
            assert ahead[: len(verb)] == verb, "the dialogue must send the commands of send_ahead"
            return ()
        self.commands += 1
        return (Send((command(verb, *arguments),)),)

    def send_ahead(self, *lines: Line) -> tuple[Send, ...]:
        """Return the step that sends the next commands in one write (pipelining).

        The server must process commands in order. The dialogue then calls `say` for the same commands, which
        are not sent again. The attribute `commands` counts the commands as one command, because all fail if
        the first fails.
        """
        if self.ahead or not lines:
            return ()
        self.commands += 1
        self.ahead.extend(lines)
        return (Send(lines),)

    @property
    def asks_ahead(self) -> bool:
        """Return whether to request the data port of the next transfer before it is known."""
        return self.keep and self.in_order and self.extended is True

    def command(
        self, verb: bytes, *arguments: bytes | Secret, ideal: tuple[int, bytes]
    ) -> Dialogue[ControlReply]:
        """Send a command and receive its reply with masked secrets. `ideal` is the expected reply."""
        yield from self.say(verb, *arguments)
        reply: ControlReply = yield Receive(
            self.reader, f"the reply to {verb.decode('ascii')}", ControlReply(ideal[0], (ideal[1],))
        )
        for argument in arguments:
            if type(argument) is Secret:
                reply = reply.hide_secret(argument.octets)
        self.take(reply)
        if self.options:
            yield from self.refuse_options()
        return reply

    def demand(
        self, verb: bytes, *arguments: bytes | Secret, ideal: tuple[int, bytes], hint: str = ""
    ) -> Dialogue[ControlReply]:
        """Send a command whose reply must be 2yz.

        Raises:
            Declined: The reply is 4yz or 5yz.
            ProtocolError: The reply has another code.
        """
        reply = yield from self.command(verb, *arguments, ideal=ideal)
        check_good(reply, shown_command(verb, *arguments), hint)
        return reply

    def hear_greeting(self) -> Dialogue[ControlReply]:
        """Receive the first reply of the server.

        A 421 reply is returned here and does not raise `ServiceClosing`, because a new connection would
        receive the same reply.
        """
        reply: ControlReply = yield Receive(
            self.reader, "the server's greeting", ControlReply(220, (b"Ready",))
        )
        self.options += reply.options
        if self.options:
            yield from self.refuse_options()
        return reply

    def take(self, reply: ControlReply) -> None:
        """Record the Telnet options that a reply requests.

        Raises:
            ServiceClosing: The reply is 421, which may come at any time.
        """
        self.options += reply.options
        if reply.code == 421:
            raise ServiceClosing(
                f"the server closes the connection: it said {reply.shown!r}",
                code="421",
                text=reply.text,
            )

    def refuse_options(self) -> Dialogue[None]:
        """Refuse the Telnet options in `options`. Do not call this method during a transfer."""
        answer = encode_refusals(self.options)
        self.options.clear()
        if answer.octets:
            yield Send((answer,))


def check_good(reply: ControlReply, doing: str, hint: str = "") -> None:
    if not reply.good:
        raise refusal(reply, doing, hint)


def refusal(reply: ControlReply, doing: str, hint: str = "") -> Declined | ProtocolError:
    """Return the error for an unexpected reply."""
    if reply.refused:
        return make_declined(reply, doing, hint)
    return ProtocolError(f"{doing}: unexpected reply {reply.shown!r}")
