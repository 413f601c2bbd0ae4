"""What a telnet server sends, taken apart (RFC 854, RFC 855): data, commands, negotiations, subnegotiations.

A machine without I/O, the same for every cut of the octets: what stands half at the end of one piece is gone
on with in the next. Nothing that comes makes it fail but a subnegotiation without end.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import TypeAlias

from protocols.errors import LimitExceeded
from protocols.telnet.codes import IAC, Command, Verb
from protocols.values import NamedTuple

#: Octets of a subnegotiation that are kept: the longest that means anything here has some forty.
LONGEST_KEPT = 1_024

#: Octets of one after which nobody waits for its end.
LONGEST_SUBNEGOTIATION = 65_536


class Data(NamedTuple):
    """Octets of data, each IAC IAC one octet 255; line ends are not looked at."""

    octets: bytes


class Heard(NamedTuple):
    """A command that is no negotiation."""

    command: Command


class Negotiation(NamedTuple):
    """What the peer will or will not do, or would have us do or not."""

    verb: Verb
    option: int


class Subnegotiation(NamedTuple):
    """What the peer says of an option that is on."""

    option: int
    octets: bytes


class Odd(NamedTuple):
    """What means nothing and is dropped; `rule` and `detail` are those of a finding."""

    rule: str
    detail: str


Element: TypeAlias = Data | Heard | Negotiation | Subnegotiation | Odd


class _State(enum.Enum):
    DATA = enum.auto()
    IAC = enum.auto()
    VERB = enum.auto()
    SB = enum.auto()
    SB_DATA = enum.auto()
    SB_IAC = enum.auto()


class Scanner:
    """Fed what comes, it gives the elements. `inside` tells whether one is half read."""

    def __init__(self) -> None:
        self._state = _State.DATA
        self._verb = Verb.WILL
        self._option = 0
        self._kept = bytearray()
        self._count = 0

    @property
    def inside(self) -> bool:
        return self._state is not _State.DATA

    def feed(self, octets: bytes) -> Iterator[Element]:
        """Raises `LimitExceeded` for a subnegotiation of more than 64 KiB."""
        at = 0
        while at < len(octets):
            if self._state is _State.DATA:
                end = octets.find(IAC, at)
                if end != at:
                    yield Data(octets[at:] if end < 0 else octets[at:end])
                if end < 0:
                    return
                self._state, at = _State.IAC, end + 1
            elif self._state is _State.SB_DATA:
                end = octets.find(IAC, at)
                self._keep(octets[at:] if end < 0 else octets[at:end])
                if end < 0:
                    return
                self._state, at = _State.SB_IAC, end + 1
            else:
                yield from self._take(octets[at])
                at += 1

    def _take(self, octet: int) -> Iterator[Element]:
        match self._state:
            case _State.VERB:
                self._state = _State.DATA
                yield Negotiation(self._verb, octet)
            case _State.SB:
                self._option, self._state = octet, _State.SB_DATA
                self._kept.clear()
                self._count = 0
            case _State.SB_IAC:
                yield from self._take_in_subnegotiation(octet)
            case _:
                yield from self._take_command(octet)

    def _take_command(self, octet: int) -> Iterator[Element]:
        self._state = _State.DATA
        if octet == IAC:
            yield Data(b"\xff")
        elif octet >= Verb.WILL:
            self._verb, self._state = Verb(octet), _State.VERB
        elif octet == Command.SB:
            self._state = _State.SB
        elif octet >= Command.EOF:
            yield Heard(Command(octet))
        else:
            yield Odd("telnet:command", f"IAC {octet:02X} is no command; both octets are dropped")

    def _take_in_subnegotiation(self, octet: int) -> Iterator[Element]:
        if octet == IAC:
            self._state = _State.SB_DATA
            self._keep(b"\xff")
        elif octet == Command.SE:
            self._state = _State.DATA
            if self._count > LONGEST_KEPT:
                yield Odd("telnet:subnegotiation", f"one of {self._count} octets is dropped")
            else:
                yield Subnegotiation(self._option, bytes(self._kept))
        else:  # void; what stands here is a command of its own
            yield Odd("telnet:subnegotiation", f"IAC {octet:02X} inside one: it is dropped")
            yield from self._take_command(octet)

    def _keep(self, octets: bytes) -> None:
        self._count += len(octets)
        if self._count > LONGEST_SUBNEGOTIATION:
            raise LimitExceeded("subnegotiation", f"more than {LONGEST_SUBNEGOTIATION} octets without an end")
        if self._count <= LONGEST_KEPT:
            self._kept += octets
