"""Bytes from a telnet server (RFC 854, RFC 855): data, commands, negotiations, subnegotiations, line ends.

The readers have no I/O and give the same result for every cut of the bytes: a part at the end of one piece is
continued in the next. Only a subnegotiation without end is an error.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple, TypeAlias

from protocols.errors import LimitExceeded

# Bytes with a meaning in RFC 854 and its options, and their usual names.

IAC = 0xFF


class NegotiationVerb(IntEnum):
    """The four commands of a negotiation (RFC 855): each is followed by the code of an option."""

    WILL = 0xFB
    WONT = 0xFC
    DO = 0xFD
    DONT = 0xFE


class TelnetCommand(IntEnum):
    """What may stand behind an IAC by itself (RFC 854, RFC 1184)."""

    EOF = 0xEC
    SUSP = 0xED
    ABORT = 0xEE
    EOR = 0xEF
    SE = 0xF0
    NOP = 0xF1
    DM = 0xF2
    BRK = 0xF3
    IP = 0xF4
    AO = 0xF5
    AYT = 0xF6
    EC = 0xF7
    EL = 0xF8
    GA = 0xF9
    SB = 0xFA


class TelnetOption(IntEnum):
    """Options that are agreed to, or that have a name to be told by."""

    BINARY = 0
    ECHO = 1
    SGA = 3
    STATUS = 5
    TIMING_MARK = 6
    TERMINAL_TYPE = 24
    END_OF_RECORD = 25
    NAWS = 31
    TERMINAL_SPEED = 32
    FLOW_CONTROL = 33
    LINEMODE = 34
    X_DISPLAY = 35
    ENVIRON = 36
    AUTHENTICATION = 37
    ENCRYPT = 38
    NEW_ENVIRON = 39
    START_TLS = 46


def option_name(code: int) -> str:
    """The name of an option for a person: `ECHO`, or its number where it has none here."""
    try:
        return TelnetOption(code).name.replace("_", "-")
    except ValueError:
        return str(code)


#: Octets of a subnegotiation that are kept: the longest that means anything here has some forty.
LONGEST_KEPT = 1_024

#: Octets of one after which nobody waits for its end.
LONGEST_SUBNEGOTIATION = 65_536


class TelnetData(NamedTuple):
    """Octets of data, each IAC IAC one octet 255; line ends are not looked at."""

    octets: bytes


class TelnetEvent(NamedTuple):
    """A command that is no negotiation."""

    command: TelnetCommand


class OptionNegotiation(NamedTuple):
    """What the peer will or will not do, or would have us do or not."""

    verb: NegotiationVerb
    option: int


class Subnegotiation(NamedTuple):
    """What the peer says of an option that is on."""

    option: int
    octets: bytes


class UnknownCommand(NamedTuple):
    """What means nothing and is dropped; `rule` and `detail` are those of a finding."""

    rule: str
    detail: str


Element: TypeAlias = TelnetData | TelnetEvent | OptionNegotiation | Subnegotiation | UnknownCommand


class _ScannerState(enum.Enum):
    DATA = enum.auto()
    IAC = enum.auto()
    VERB = enum.auto()
    SB = enum.auto()
    SB_DATA = enum.auto()
    SB_IAC = enum.auto()


class TelnetScanner:
    """Fed what comes, it gives the elements. `inside` tells whether one is half read."""

    def __init__(self) -> None:
        self._state = _ScannerState.DATA
        self._verb = NegotiationVerb.WILL
        self._option = 0
        self._kept = bytearray()
        self._count = 0

    @property
    def inside(self) -> bool:
        return self._state is not _ScannerState.DATA

    def feed(self, octets: bytes) -> Iterator[Element]:
        """Raises `LimitExceeded` for a subnegotiation of more than 64 KiB."""
        at = 0
        while at < len(octets):
            if self._state is _ScannerState.DATA:
                end = octets.find(IAC, at)
                if end != at:
                    yield TelnetData(octets[at:] if end < 0 else octets[at:end])
                if end < 0:
                    return
                self._state, at = _ScannerState.IAC, end + 1
            elif self._state is _ScannerState.SB_DATA:
                end = octets.find(IAC, at)
                self._keep(octets[at:] if end < 0 else octets[at:end])
                if end < 0:
                    return
                self._state, at = _ScannerState.SB_IAC, end + 1
            else:
                yield from self._take(octets[at])
                at += 1

    def _take(self, octet: int) -> Iterator[Element]:
        match self._state:
            case _ScannerState.VERB:
                self._state = _ScannerState.DATA
                yield OptionNegotiation(self._verb, octet)
            case _ScannerState.SB:
                self._option, self._state = octet, _ScannerState.SB_DATA
                self._kept.clear()
                self._count = 0
            case _ScannerState.SB_IAC:
                yield from self._take_in_subnegotiation(octet)
            case _:
                yield from self._take_command(octet)

    def _take_command(self, octet: int) -> Iterator[Element]:
        self._state = _ScannerState.DATA
        if octet == IAC:
            yield TelnetData(b"\xff")
        elif octet >= NegotiationVerb.WILL:
            self._verb, self._state = NegotiationVerb(octet), _ScannerState.VERB
        elif octet == TelnetCommand.SB:
            self._state = _ScannerState.SB
        elif octet >= TelnetCommand.EOF:
            yield TelnetEvent(TelnetCommand(octet))
        else:
            yield UnknownCommand("telnet:command", f"IAC {octet:02X} is no command; both octets are dropped")

    def _take_in_subnegotiation(self, octet: int) -> Iterator[Element]:
        if octet == IAC:
            self._state = _ScannerState.SB_DATA
            self._keep(b"\xff")
        elif octet == TelnetCommand.SE:
            self._state = _ScannerState.DATA
            if self._count > LONGEST_KEPT:
                yield UnknownCommand("telnet:subnegotiation", f"one of {self._count} octets is dropped")
            else:
                yield Subnegotiation(self._option, bytes(self._kept))
        else:  # void; what stands here is a command of its own
            yield UnknownCommand("telnet:subnegotiation", f"IAC {octet:02X} inside one: it is dropped")
            yield from self._take_command(octet)

    def _keep(self, octets: bytes) -> None:
        self._count += len(octets)
        if self._count > LONGEST_SUBNEGOTIATION:
            raise LimitExceeded("subnegotiation", f"more than {LONGEST_SUBNEGOTIATION} octets without an end")
        if self._count <= LONGEST_KEPT:
            self._kept += octets


# Line ends of the network virtual terminal (RFC 854, RFC 1123 3.3.1), received.
#
# CR LF is the end of a line, CR NUL a carriage return. A carriage return before anything else and a lone line
# feed stand for themselves, and a NUL is removed. In BINARY (RFC 856) bytes stand for themselves; in text CR
# LF is the end of a line all the same.


class NvtText:
    """Fed data, it gives text, whose lines end with LF. A carriage return at the end of a piece waits for
    what follows."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, octets: bytes, *, binary: bool) -> bytes:
        octets = self._held + octets
        self._held = octets[-1:] if octets.endswith(b"\r") else b""
        text = octets[: len(octets) - len(self._held)].replace(b"\r\n", b"\n")
        return text if binary else text.replace(b"\r\0", b"\r").replace(b"\0", b"")

    def finish(self) -> bytes:
        """Behind the end of all: a carriage return that was held back."""
        held, self._held = self._held, b""
        return held


def decode_for_terminal(octets: bytes, *, binary: bool) -> bytes:
    """What a terminal gets of data: it knows line ends itself."""
    return octets if binary else octets.replace(b"\0", b"")
