"""Bytes from a telnet server (RFC 854, RFC 855): data, commands, negotiations and line ends.

The readers have no I/O. The result does not depend on the block boundaries. An incomplete element at the end
of a block continues in the next block. Only a subnegotiation without an end is an error.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple, TypeAlias

from protocols.errors import LimitExceeded

# The bytes with a meaning in RFC 854 and its options, with their usual names.

IAC = 0xFF


class NegotiationVerb(IntEnum):
    """The four commands of a negotiation (RFC 855), each followed by the code of an option."""

    WILL = 0xFB
    WONT = 0xFC
    DO = 0xFD
    DONT = 0xFE


class TelnetCommand(IntEnum):
    """The commands of RFC 854 and RFC 1184 that follow an IAC and have no option."""

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
    """The options that the client accepts, and other options with a name for display."""

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
    """Return the name of an option for display, such as `ECHO`, or the number of an unknown option."""
    try:
        return TelnetOption(code).name.replace("_", "-")
    except ValueError:
        return str(code)


#: The maximum number of stored bytes of a subnegotiation. The longest supported subnegotiation has about
#: forty bytes.
MAX_STORED = 1_024

#: The maximum size of a subnegotiation in bytes. A longer subnegotiation is an error.
MAX_SUBNEGOTIATION = 65_536


class TelnetData(NamedTuple):
    """Bytes of data, with each IAC IAC decoded to one byte 255. Line ends are not converted."""

    octets: bytes


class TelnetEvent(NamedTuple):
    """A command that is not a negotiation."""

    command: TelnetCommand


class OptionNegotiation(NamedTuple):
    """A negotiation command of the peer about an option: WILL, WONT, DO or DONT."""

    verb: NegotiationVerb
    option: int


class Subnegotiation(NamedTuple):
    """A subnegotiation of the peer about an option that is on."""

    option: int
    octets: bytes


class UnknownCommand(NamedTuple):
    """An unknown command, which the client ignores. `rule` and `detail` describe the finding."""

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
    """A parser that splits received bytes into elements. `inside` is set while an element is incomplete."""

    def __init__(self) -> None:
        self._state = _ScannerState.DATA
        self._verb = NegotiationVerb.WILL
        self._option = 0
        self._buffer = bytearray()
        self._count = 0

    @property
    def inside(self) -> bool:
        return self._state is not _ScannerState.DATA

    def feed(self, octets: bytes) -> Iterator[Element]:
        """Yield the elements of the bytes.

        Raises:
            LimitExceeded: A subnegotiation has more than 64 KiB.
        """
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
                self._store(octets[at:] if end < 0 else octets[at:end])
                if end < 0:
                    return
                self._state, at = _ScannerState.SB_IAC, end + 1
            else:
                yield from self._process(octets[at])
                at += 1

    def _process(self, octet: int) -> Iterator[Element]:
        match self._state:
            case _ScannerState.VERB:
                self._state = _ScannerState.DATA
                yield OptionNegotiation(self._verb, octet)
            case _ScannerState.SB:
                self._option, self._state = octet, _ScannerState.SB_DATA
                self._buffer.clear()
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
            yield UnknownCommand(
                "telnet:command", f"IAC {octet:02X} is not a command; both bytes are dropped"
            )

    def _take_in_subnegotiation(self, octet: int) -> Iterator[Element]:
        if octet == IAC:
            self._state = _ScannerState.SB_DATA
            self._store(b"\xff")
        elif octet == TelnetCommand.SE:
            self._state = _ScannerState.DATA
            if self._count > MAX_STORED:
                yield UnknownCommand(
                    "telnet:subnegotiation",
                    f"subnegotiation of {self._count} bytes is too long, it is dropped",
                )
            else:
                yield Subnegotiation(self._option, bytes(self._buffer))
        else:  # the subnegotiation is invalid: the byte after IAC is a new command
            yield UnknownCommand(
                "telnet:subnegotiation", f"IAC {octet:02X} inside a subnegotiation, which is dropped"
            )
            yield from self._take_command(octet)

    def _store(self, octets: bytes) -> None:
        self._count += len(octets)
        if self._count > MAX_SUBNEGOTIATION:
            raise LimitExceeded(
                "subnegotiation", f"subnegotiation exceeds {MAX_SUBNEGOTIATION} bytes without an end"
            )
        if self._count <= MAX_STORED:
            self._buffer += octets


# Received line ends of the network virtual terminal (RFC 854, RFC 1123 3.3.1).
#
# CR LF is the end of a line, and CR NUL is a carriage return. Other single CR and LF bytes are not changed. A
# single NUL is removed. In BINARY mode (RFC 856), no byte has a special meaning, but in text CR LF is still
# the end of a line.


class NvtText:
    """A decoder to text with LF line ends; it keeps a carriage return at the end of a block."""

    def __init__(self) -> None:
        self._buffer = b""

    def feed(self, octets: bytes, *, binary: bool) -> bytes:
        octets = self._buffer + octets
        self._buffer = octets[-1:] if octets.endswith(b"\r") else b""
        text = octets[: len(octets) - len(self._buffer)].replace(b"\r\n", b"\n")
        return text if binary else text.replace(b"\r\0", b"\r").replace(b"\0", b"")

    def finish(self) -> bytes:
        """Return the buffered carriage return at the end of the data."""
        octets, self._buffer = self._buffer, b""
        return octets


def decode_for_terminal(octets: bytes, *, binary: bool) -> bytes:
    """Convert received data for a terminal, which interprets line ends itself."""
    return octets if binary else octets.replace(b"\0", b"")
