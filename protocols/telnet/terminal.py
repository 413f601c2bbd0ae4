"""One end of a telnet session, the terminal's: what comes is taken apart, options are answered, text typed.

A machine without I/O. Nothing is asked for here, every session begins in silence: a request costs (a server
that is asked for BINARY ends its lines without carriage returns), and a server asks for what it needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

from protocols.connection import Line
from protocols.errors import LimitExceeded
from protocols.telnet.codes import NegotiationVerb, TelnetOption, option_name
from protocols.telnet.negotiation import NegotiationAnswer, OptionSide
from protocols.telnet.octets import (
    OptionNegotiation,
    Subnegotiation,
    TelnetData,
    TelnetEvent,
    TelnetScanner,
    UnknownCommand,
)
from protocols.values import NamedTuple
from protocols.wire import (
    encode_entered,
    encode_keys,
    encode_negotiation,
    encode_subnegotiation,
    encode_typed,
)

if TYPE_CHECKING:
    from protocols.location import JsonValue

#: What the server may have on, and what we have on if it asks. All else is refused (S18): names of users,
#: displays and environments, speeds, and lines that the server does not show are nobody's business.
HIS = frozenset({TelnetOption.BINARY, TelnetOption.ECHO, TelnetOption.SGA})
OURS = frozenset({TelnetOption.BINARY, TelnetOption.SGA, TelnetOption.TERMINAL_TYPE, TelnetOption.NAWS})

#: How many negotiations may follow one another without data between them, and be on one connection.
MOST_IN_A_ROW, MOST_IN_ALL = 1_000, 100_000

#: How often the type of the terminal is told; who asks for more is in a loop.
MOST_TYPES = 64

_SEND, _IS = b"\x01", b"\0"
_TLS_FOLLOWS = b"\x01"
_LARGEST = 9_999


class WindowSize(NamedTuple):
    """Of a window, in characters; 0 where it is not known."""

    columns: int
    rows: int


#: What a terminal has that nobody looks at.
USUAL_SIZE = WindowSize(80, 24)


class OptionChanged(NamedTuple):
    """An option was agreed on, or is no longer. `server`: it is one of the server's side."""

    option: int
    server: bool
    on: bool

    def as_json(self) -> dict[str, JsonValue]:
        side = "server" if self.server else "client"
        return {"option": option_name(self.option), "side": side, "on": self.on}


class PeerReply(NamedTuple):
    """The service says that TLS follows (START_TLS)."""

    def as_json(self) -> dict[str, JsonValue]:
        return {"option": option_name(TelnetOption.START_TLS), "side": "client", "on": True}


Happening: TypeAlias = TelnetData | TelnetEvent | OptionChanged | PeerReply | UnknownCommand


class NvtTerminal:
    """Fed what comes, it gives what happens, in order; what is to be answered waits in `answers`.

    While a `TelnetData` is looked at, `his_binary` says how its line ends are to be read.
    """

    def __init__(self, kind: bytes = b"dumb", size: WindowSize = USUAL_SIZE) -> None:
        self._kind = kind
        self._size = size
        self._told: WindowSize | None = None
        self._types = 0
        self._scanner = TelnetScanner()
        self._in_a_row = self._in_all = 0
        self._answers: list[Line] = []
        self.his, self.ours = OptionSide(), OptionSide()

    @property
    def inside(self) -> bool:
        """Would an end of the connection be one in the middle of a command?"""
        return self._scanner.inside

    @property
    def his_binary(self) -> bool:
        return self.his.is_on(TelnetOption.BINARY)

    @property
    def echoing(self) -> bool:
        """Does the server show what is typed, or hide it?"""
        return self.his.is_on(TelnetOption.ECHO)

    @property
    def by_characters(self) -> bool:
        """Is each character sent as it is typed, and the line not edited here? Where the server needs no
        go-ahead (RFC 858)."""
        return self.his.is_on(TelnetOption.SGA)

    @property
    def has_answers(self) -> bool:
        return bool(self._answers)

    def answers(self) -> tuple[Line, ...]:
        """What is to be sent now, each whole; asked for once."""
        answers, self._answers = tuple(self._answers), []
        return answers

    def feed(self, octets: bytes) -> Iterator[Happening]:
        """Raises `LimitExceeded` for negotiation without end."""
        for element in self._scanner.feed(octets):
            match element:
                case TelnetData():
                    self._in_a_row = 0
                    yield element
                case OptionNegotiation(verb=verb, option=option):
                    self._count()
                    yield from self._negotiate(verb, option)
                case Subnegotiation(option=option, octets=said):
                    self._count()
                    yield from self._answer(option, said)
                case _:
                    yield element

    def end(self, *, whole: bool) -> Iterator[UnknownCommand]:
        """The connection has ended; `whole`: nobody on the way can have made that end."""
        if self.inside:
            yield UnknownCommand("telnet:cut", "the connection ended inside a command")
        if not whole:
            yield UnknownCommand("telnet:close-notify", "TLS ended without the word that it ends with")

    def offer(self, option: int) -> None:
        """Say that we will, without being asked."""
        self._say(self.ours.ask(option, True), option, of_server=False)

    def anew(self) -> NvtTerminal:
        """The same terminal at the beginning of a session."""
        return NvtTerminal(self._kind, self._size)

    def resize(self, size: WindowSize) -> None:
        """The window has another size: told where the server wants to know."""
        self._size = size
        if self.ours.is_on(TelnetOption.NAWS) and size != self._told:
            self._tell_size()

    def typed(self, octets: bytes) -> Line:
        """Octets as they were typed."""
        return encode_typed(octets, binary=self.ours.is_on(TelnetOption.BINARY))

    def keyed(self, octets: bytes) -> Line:
        """Keys as they were pressed, by characters."""
        return encode_keys(octets, binary=self.ours.is_on(TelnetOption.BINARY))

    def entered(self, text: bytes) -> Line:
        """A line, and its end. Raises `Refused` (S02) for one with an end in it."""
        return encode_entered(text, binary=self.ours.is_on(TelnetOption.BINARY))

    def _count(self) -> None:
        self._in_a_row += 1
        self._in_all += 1
        if self._in_a_row > MOST_IN_A_ROW or self._in_all > MOST_IN_ALL:
            raise LimitExceeded("negotiation", f"the server negotiates without end ({self._in_all} times)")

    def _negotiate(self, verb: NegotiationVerb, option: int) -> Iterator[Happening]:
        of_server = verb in (NegotiationVerb.WILL, NegotiationVerb.WONT)
        side, allowed = (self.his, HIS) if of_server else (self.ours, OURS)
        turn = side.hear(option, verb in (NegotiationVerb.WILL, NegotiationVerb.DO), agree=option in allowed)
        self._say(turn, option, of_server=of_server)
        if turn.contradicted:
            yield UnknownCommand("telnet:answer", f"{verb.name} {option_name(option)} answers our no")
        if turn.changed:
            on = side.is_on(option)
            yield OptionChanged(option, of_server, on)
            if not of_server and option == TelnetOption.NAWS:
                self._told = None
                if on:
                    self._tell_size()

    def _say(self, turn: NegotiationAnswer, option: int, *, of_server: bool) -> None:
        if turn.answer is None:
            return
        yes, no = (
            (NegotiationVerb.DO, NegotiationVerb.DONT)
            if of_server
            else (NegotiationVerb.WILL, NegotiationVerb.WONT)
        )
        self._answers.append(encode_negotiation(yes if turn.answer else no, option))

    def _answer(self, option: int, said: bytes) -> Iterator[Happening]:
        """Only what is on is spoken of: a question about anything else is dropped."""
        if option == TelnetOption.START_TLS and self.ours.is_on(option) and said == _TLS_FOLLOWS:
            yield PeerReply()
        if option != TelnetOption.TERMINAL_TYPE or not self.ours.is_on(option) or said != _SEND:
            return
        self._types += 1
        if self._types <= MOST_TYPES:
            self._answers.append(encode_subnegotiation(option, _IS + self._kind))
        elif self._types == MOST_TYPES + 1:
            yield UnknownCommand(
                "telnet:limit", f"the terminal's type was asked for more than {MOST_TYPES} times"
            )

    def _tell_size(self) -> None:
        self._told = self._size
        octets = b"".join(_as_octets(each) for each in self._size)
        self._answers.append(encode_subnegotiation(TelnetOption.NAWS, octets))


def _as_octets(count: int) -> bytes:
    """Two octets, the second never 255: a server in wide use does not undo its doubling, and reads the row
    count from the wrong place then."""
    count = min(max(count, 0), _LARGEST)
    return (count - (count & 0xFF == 0xFF)).to_bytes(2, "big")
