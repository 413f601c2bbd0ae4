"""The client side of a telnet session: it parses received bytes, negotiates options, and encodes typed text.

The module has no I/O. The client requests no option and sends nothing at the start of a session. The server
requests the options that it needs. An unnecessary option can cause errors: for example, a server that agreed
to BINARY ends its lines without carriage returns.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from protocols.contract import Line
from protocols.errors import LimitExceeded, TlsError
from protocols.telnet.octets import (
    NegotiationVerb,
    OptionNegotiation,
    Subnegotiation,
    TelnetData,
    TelnetEvent,
    TelnetOption,
    TelnetScanner,
    UnknownCommand,
    option_name,
)
from protocols.wire import (
    encode_entered,
    encode_keys,
    encode_negotiation,
    encode_subnegotiation,
    encode_typed,
)

if TYPE_CHECKING:
    from protocols.location import JsonValue


# Option negotiation by RFC 1143, which prevents endless negotiations. An `OptionSide` contains the options of
# one side of the connection. The client replies to a command only if the command changes the state of an
# option, or if the client refuses the command. The client never requests to turn an option off. Therefore the
# states WANTNO and the queues of RFC 1143 are not necessary.


class OptionState(enum.Enum):
    """The state of an option of one side. In the state `WANT_YES`, the client waits for a reply."""

    NO = enum.auto()
    YES = enum.auto()
    WANT_YES = enum.auto()


class NegotiationAnswer(NamedTuple):
    """The effect of a negotiation command of the peer.

    `answer` is the reply to send: True for on, False for off, None for no reply. `changed` is set if the
    option was turned on or off.
    """

    answer: bool | None
    changed: bool


class OptionSide:
    """The 256 options of one side, all off at first."""

    def __init__(self) -> None:
        self._states: dict[int, OptionState] = {}

    def state(self, option: int) -> OptionState:
        return self._states.get(option, OptionState.NO)

    def is_on(self, option: int) -> bool:
        """Return whether the option is on."""
        return self.state(option) is OptionState.YES

    @property
    def on(self) -> list[int]:
        """Return the numbers of all options that are on."""
        return sorted(option for option in self._states if self.is_on(option))

    @property
    def names(self) -> list[str]:
        """Return the names of all options that are on."""
        return [option_name(option) for option in self.on]

    def reply(self, option: int, positive: bool, *, agree: bool) -> NegotiationAnswer:
        """Process the command WILL or DO if `positive`, otherwise WONT or DONT.

        `agree` means that the client accepts the option.
        """
        old = self.state(option)
        new, answer = _POSITIVE[old] if positive else _NEGATIVE[old]
        if old is OptionState.NO and positive and not agree:
            new, answer = OptionState.NO, False
        self._states[option] = new
        return NegotiationAnswer(answer, OptionState.YES in (old, new) and old is not new)

    def request(self, option: int) -> bool:
        """Request to turn the option on, and return whether the request must be sent."""
        is_new = self.state(option) is OptionState.NO
        if is_new:
            self._states[option] = OptionState.WANT_YES
        return is_new


#: For each state, the new state and the reply to a positive command (WILL, DO) and to a negative command
#: (WONT, DONT) (RFC 1143 section 7).
_POSITIVE: dict[OptionState, tuple[OptionState, bool | None]] = {
    OptionState.NO: (OptionState.YES, True),
    OptionState.YES: (OptionState.YES, None),
    OptionState.WANT_YES: (OptionState.YES, None),
}
_NEGATIVE: dict[OptionState, tuple[OptionState, bool | None]] = {
    OptionState.NO: (OptionState.NO, None),
    OptionState.YES: (OptionState.NO, False),
    OptionState.WANT_YES: (OptionState.NO, None),
}

#: The options that the server may turn on, and the options that the client turns on at the server's request.
#: All other options are refused (S18). Otherwise the client would reveal user names, displays, environment
#: variables, line speeds, and text without echo.
PEER_CODES = frozenset({TelnetOption.BINARY, TelnetOption.ECHO, TelnetOption.SGA})
OWN_CODES = frozenset({TelnetOption.BINARY, TelnetOption.SGA, TelnetOption.TERMINAL_TYPE, TelnetOption.NAWS})

#: The maximum number of option negotiations: consecutive negotiations without data, and all negotiations on
#: one connection.
MAX_CONSECUTIVE, MAX_NEGOTIATIONS = 1_000, 100_000

#: The maximum number of replies about the terminal type. A server that requests the type more often is in a
#: loop.
MAX_TYPES = 64

_SEND, _IS = b"\x01", b"\0"
_TLS_FOLLOWS = b"\x01"
_MAX_CHARACTERS = 9_999


class WindowSize(NamedTuple):
    """The size of a terminal window in characters, or 0 for an unknown size."""

    columns: int
    rows: int


#: The default window size, for a session without a display.
DEFAULT_SIZE = WindowSize(80, 24)


class OptionChanged(NamedTuple):
    """An option that was turned on or off. `server` is set for an option of the server's side."""

    option: int
    server: bool
    on: bool

    def as_json(self) -> dict[str, JsonValue]:
        side = "server" if self.server else "client"
        return {"option": option_name(self.option), "side": side, "on": self.on}


class TlsFollows(NamedTuple):
    """An announcement of the service that TLS follows (START_TLS)."""

    def as_json(self) -> dict[str, JsonValue]:
        return {"option": option_name(TelnetOption.START_TLS), "side": "client", "on": True}


TerminalEvent: TypeAlias = TelnetData | TelnetEvent | OptionChanged | TlsFollows | UnknownCommand


class NvtTerminal:
    """A terminal that converts received bytes into events, in order.

    `answers` returns the lines that must be sent.

    While a `TelnetData` is processed, `receives_binary` determines how its line ends are decoded.
    """

    def __init__(self, kind: bytes = b"dumb", size: WindowSize = DEFAULT_SIZE) -> None:
        self._kind = kind
        self._size = size
        self._sent_size: WindowSize | None = None
        self._type_count = 0
        self._scanner = TelnetScanner()
        self._consecutive = self._total = 0
        self._answers: list[Line] = []
        self.server, self.client = OptionSide(), OptionSide()

    @property
    def inside(self) -> bool:
        """Return whether the last received command is incomplete."""
        return self._scanner.inside

    @property
    def receives_binary(self) -> bool:
        return self.server.is_on(TelnetOption.BINARY)

    @property
    def echoing(self) -> bool:
        """Return whether the option ECHO is on: the server echoes the typed text, or hides a password."""
        return self.server.is_on(TelnetOption.ECHO)

    @property
    def sends_characters(self) -> bool:
        """Return whether each character is sent when typed: the server suppresses go-ahead (RFC 858)."""
        return self.server.is_on(TelnetOption.SGA)

    @property
    def has_answers(self) -> bool:
        return bool(self._answers)

    def answers(self) -> tuple[Line, ...]:
        """Return the lines to send now, and remove them from the queue."""
        answers, self._answers = tuple(self._answers), []
        return answers

    def feed(self, octets: bytes) -> Iterator[TerminalEvent]:
        """Yield the events in the bytes.

        Raises:
            LimitExceeded: The server does not stop negotiating.
        """
        for element in self._scanner.feed(octets):
            match element:
                case TelnetData():
                    self._consecutive = 0
                    yield element
                case OptionNegotiation(verb=verb, option=option):
                    self._count_negotiation()
                    yield from self._negotiate(verb, option)
                case Subnegotiation(option=option, octets=data):
                    self._count_negotiation()
                    yield from self._answer_subnegotiation(option, data)
                case _:
                    yield element

    def end(self, *, is_complete: bool) -> Iterator[UnknownCommand]:
        """Yield the findings about the end of the connection.

        Args:
            is_complete: Whether TLS proved the end (close_notify). Without TLS, the value is True.
        """
        if self.inside:
            yield UnknownCommand("telnet:cut", "the connection ended inside a command")
        if not is_complete:
            yield UnknownCommand("telnet:close-notify", "the connection ended without TLS's close_notify")

    def offer(self, option: int) -> None:
        """Send WILL for the option, without a request of the server."""
        if self.client.request(option):
            self._answers.append(encode_negotiation(NegotiationVerb.WILL, option))

    def make_initial(self) -> NvtTerminal:
        """Return a new terminal with the same settings, in its state at the start of a session."""
        return NvtTerminal(self._kind, self._size)

    def resize(self, size: WindowSize) -> None:
        """Set the size of the window, and send the size if the server requested it."""
        self._size = size
        if self.client.is_on(TelnetOption.NAWS) and size != self._sent_size:
            self._send_size()

    def encode_typed(self, octets: bytes) -> Line:
        return encode_typed(octets, binary=self.client.is_on(TelnetOption.BINARY))

    def encode_keys(self, octets: bytes) -> Line:
        """Encode pressed keys, character by character."""
        return encode_keys(octets, binary=self.client.is_on(TelnetOption.BINARY))

    def encode_line(self, text: bytes) -> Line:
        """Encode a line and its end.

        Raises:
            Refused: The line contains a line end (S02, command injection).
        """
        return encode_entered(text, binary=self.client.is_on(TelnetOption.BINARY))

    def _count_negotiation(self) -> None:
        self._consecutive += 1
        self._total += 1
        if self._consecutive > MAX_CONSECUTIVE or self._total > MAX_NEGOTIATIONS:
            raise LimitExceeded("negotiation", f"the server negotiates without end ({self._total} times)")

    def _negotiate(self, verb: NegotiationVerb, option: int) -> Iterator[TerminalEvent]:
        of_server = verb in (NegotiationVerb.WILL, NegotiationVerb.WONT)
        side, usable = (self.server, PEER_CODES) if of_server else (self.client, OWN_CODES)
        turn = side.reply(option, verb in (NegotiationVerb.WILL, NegotiationVerb.DO), agree=option in usable)
        if turn.answer is not None:
            yes, no = (
                (NegotiationVerb.DO, NegotiationVerb.DONT)
                if of_server
                else (NegotiationVerb.WILL, NegotiationVerb.WONT)
            )
            self._answers.append(encode_negotiation(yes if turn.answer else no, option))
        if turn.changed:
            on = side.is_on(option)
            yield OptionChanged(option, of_server, on)
            if not of_server and option == TelnetOption.NAWS:
                self._sent_size = None
                if on:
                    self._send_size()

    def _answer_subnegotiation(self, option: int, octets: bytes) -> Iterator[TerminalEvent]:
        """Reply to a subnegotiation about an option that is on. Ignore any other subnegotiation."""
        if option == TelnetOption.START_TLS and self.client.is_on(option) and octets == _TLS_FOLLOWS:
            yield TlsFollows()
        if option != TelnetOption.TERMINAL_TYPE or not self.client.is_on(option) or octets != _SEND:
            return
        self._type_count += 1
        if self._type_count <= MAX_TYPES:
            self._answers.append(encode_subnegotiation(option, _IS + self._kind))
        elif self._type_count == MAX_TYPES + 1:
            yield UnknownCommand(
                "telnet:limit", f"the server asked for the terminal type more than {MAX_TYPES} times"
            )

    def _send_size(self) -> None:
        self._sent_size = self._size
        octets = b"".join(_as_octets(number) for number in self._size)
        self._answers.append(encode_subnegotiation(TelnetOption.NAWS, octets))


def _as_octets(count: int) -> bytes:
    """Encode a number of columns or rows as two bytes. The second byte is never 255.

    A widely used server does not decode a doubled byte 255 (IAC IAC). The server would read the number of
    rows at a wrong offset.
    """
    count = min(max(count, 0), _MAX_CHARACTERS)
    return (count - (count & 0xFF == 0xFF)).to_bytes(2, "big")


# START_TLS (option 46, an old draft that some servers implement): TLS inside a session that began
# unencrypted.
#
# The client sends WILL, and a server that agrees sends DO. Each side then sends FOLLOWS (TLS follows), and
# the TLS handshake begins. Inside TLS the session starts again, without the options that were negotiated
# before. The code has no I/O.

_FOLLOWS = encode_subnegotiation(TelnetOption.START_TLS, b"\x01")

#: The expected reply of a server that supports START_TLS: DO, then FOLLOWS.
EXPECTED = b"\xff\xfd\x2e\xff\xfa\x2e\x01\xff\xf0"


#: The finding for a telnet session without TLS.
IN_CLEAR = UnknownCommand("telnet:clear", "the service does not offer TLS: the session is unencrypted")


class StartTlsOutcome(enum.Enum):
    """The outcome of an offer of TLS: pending, TLS begins, or the session continues unencrypted."""

    OPEN = enum.auto()
    AGREED = enum.auto()
    REFUSED = enum.auto()


class StartTlsOffer:
    """An offer of TLS at the start of the session at `terminal`.

    If `requirement` is "require", TLS is mandatory.
    """

    def __init__(self, terminal: NvtTerminal, requirement: Literal["try", "require"]) -> None:
        self._terminal = terminal
        self._is_required = requirement == "require"
        self._has_sent = False
        self._must_send = False
        self.outcome = StartTlsOutcome.OPEN
        terminal.offer(TelnetOption.START_TLS)

    def lines(self) -> tuple[Line, ...]:
        """Return the lines to send now, and none unencrypted after the client's FOLLOWS (STARTTLS)."""
        if self._must_send:
            self._must_send, self._has_sent = False, True
            return (_FOLLOWS,)
        return () if self._has_sent else self._terminal.answers()

    def feed(self, octets: bytes) -> bytes:
        """Process received bytes.

        If the server refuses TLS, the result is the received bytes after the refusal. The session continues
        with these bytes. Text of the server in place of a reply counts as a refusal, and is part of the
        result.

        Raises:
            TlsError: TLS does not begin as agreed, or the server refuses TLS although TLS is required.
        """
        # Only one byte is processed at a time, because the bytes after the server's FOLLOWS belong to TLS.
        for at in range(len(octets)):
            for event in self._terminal.feed(octets[at : at + 1]):
                match event:
                    case TelnetData(octets=text):
                        return self._refuse("text", text.replace(b"\xff", b"\xff\xff") + octets[at + 1 :])
                    case OptionChanged(option=TelnetOption.START_TLS, server=False, on=True):
                        self._must_send = True
                    case TlsFollows():
                        return self._accept(octets[at + 1 :])
            if self._terminal.client.state(TelnetOption.START_TLS) is OptionState.NO:
                return self._refuse("DONT START-TLS", octets[at + 1 :])
        return b""

    def _accept(self, rest: bytes) -> bytes:
        # Bytes that arrived before TLS must not be processed as data inside TLS (response injection,
        # CVE-2021-22947).
        if rest:
            raise TlsError(f"{len(rest)} bytes received unencrypted where TLS had to begin")
        self.outcome = StartTlsOutcome.AGREED
        return b""

    def _refuse(self, reply: str, rest: bytes) -> bytes:
        if self._has_sent or self._must_send:
            raise TlsError(f"the service agreed to TLS, then sent {reply}")
        if self._is_required:
            raise TlsError(f"TLS is required, but the service sent {reply}")
        self.outcome = StartTlsOutcome.REFUSED
        return rest
