"""START_TLS (option 46, an old draft that some servers have): TLS inside a session that began in the clear.

We say that we will; who agrees says so, each says that TLS follows, and it does. What was agreed on before
counts for nothing inside TLS, where the session begins anew. A machine without I/O.
"""

from __future__ import annotations

import enum
from typing import Literal

from protocols.connection import Line
from protocols.errors import TlsError
from protocols.telnet.codes import TelnetOption
from protocols.telnet.negotiation import OptionState
from protocols.telnet.octets import TelnetData, UnknownCommand
from protocols.telnet.terminal import NvtTerminal, OptionChanged, PeerReply
from protocols.wire import encode_subnegotiation

_FOLLOWS = encode_subnegotiation(TelnetOption.START_TLS, b"\x01")

#: What a willing server says.
WILLING = b"\xff\xfd\x2e\xff\xfa\x2e\x01\xff\xf0"


#: What there is to say of a session that goes on.
IN_CLEAR = UnknownCommand("telnet:clear", "the service has no TLS to offer: the session is in the clear")


class StartTlsOutcome(enum.Enum):
    """What has become of the offer: nothing yet, TLS begins, or the session goes on in the clear."""

    OPEN = enum.auto()
    AGREED = enum.auto()
    REFUSED = enum.auto()


class StartTlsOffer:
    """Made by who begins the session at `terminal`; `required`: without TLS there is none."""

    def __init__(self, terminal: NvtTerminal, how: Literal["try", "require"]) -> None:
        self._terminal = terminal
        self._required = how == "require"
        self._said = False
        self._to_say = False
        self.outcome = StartTlsOutcome.OPEN
        terminal.offer(TelnetOption.START_TLS)

    def lines(self) -> tuple[Line, ...]:
        """What is to be said now; behind our own word that TLS follows nothing more goes out in the clear."""
        if self._to_say:
            self._to_say, self._said = False, True
            return (_FOLLOWS,)
        return () if self._said else self._terminal.answers()

    def feed(self, octets: bytes) -> bytes:
        """What is behind a refusal, for the session that goes on; what stands there is text, too. Raises
        `TlsError` for what is no beginning of TLS, and for a refusal where TLS is required."""
        for at in range(len(octets)):  # one at a time, for behind the last one are those of TLS
            for happening in self._terminal.feed(octets[at : at + 1]):
                match happening:
                    case TelnetData(octets=text):
                        return self._refused("text", text.replace(b"\xff", b"\xff\xff") + octets[at + 1 :])
                    case OptionChanged(option=TelnetOption.START_TLS, server=False, on=True):
                        self._to_say = True
                    case PeerReply():
                        return self._agreed(octets[at + 1 :])
            if self._terminal.ours.state(TelnetOption.START_TLS) is OptionState.NO:
                return self._refused("DONT START-TLS", octets[at + 1 :])
        return b""

    def _agreed(self, behind: bytes) -> bytes:
        if behind:  # CVE-2021-22947
            raise TlsError(f"{len(behind)} octets came in the clear where TLS had to begin")
        self.outcome = StartTlsOutcome.AGREED
        return b""

    def _refused(self, said: str, behind: bytes) -> bytes:
        if self._said or self._to_say:
            raise TlsError(f"the service agreed to TLS, and then said {said}")
        if self._required:
            raise TlsError(f"TLS was asked for, and the service said {said}")
        self.outcome = StartTlsOutcome.REFUSED
        return behind
