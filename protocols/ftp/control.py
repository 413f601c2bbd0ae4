"""The control connection as a dialogue uses it: a command, its reply, what every reply may bring along."""

from __future__ import annotations

from protocols.connection import Line
from protocols.errors import Declined, ProtocolError, Refused, TryLater
from protocols.ftp.refusal import declined
from protocols.ftp.reply import ControlReply, read_reply, shown_text
from protocols.ftp.reuse import FtpSessionState
from protocols.options import Limits
from protocols.step import Dialogue, Send, receive
from protocols.wire import Secret, encode_line, encode_refusals

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
                reply = reply.hiding(argument.octets)
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
        return declined(reply, doing, hint)
    return ProtocolError(f"{doing}: {reply.shown!r} is no answer to that")
