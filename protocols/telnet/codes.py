"""Octets that RFC 854 and its options give a meaning, and the names that people know them by."""

from __future__ import annotations

from enum import IntEnum

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
