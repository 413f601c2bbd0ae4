"""Where the data connection goes: the port in a 229 (RFC 2428) or a 227 (RFC 959, RFC 1123 4.1.2.6).

A port and nothing else. The four host numbers of a 227 are read past: the data connection goes to the
peer of the control connection, whatever they say (S13, CVE-2020-8284).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator

from protocols.errors import ProtocolError
from protocols.ftp.reply import ControlReply
from protocols.values import NamedTuple
from protocols.wire import Buffer, Reader, Rest

_ENTERING_EXTENDED = 229
_EXTENDED = re.compile(rb"\(([!-~])\1\1(\d{1,5})\1\)")
_SIX_NUMBERS = re.compile(rb"(?<!\d)(?<!\d,)(\d{1,3}(?:,\d{1,3}){5})(?!,?\d)")


class PassiveReply(NamedTuple):
    """A reply to EPSV or PASV, and the port in it: None if it tells none."""

    reply: ControlReply
    port: int | None


def parse_extended(reply: ControlReply) -> int | None:
    """The port of a 229. `ProtocolError` if there is none, if it is out of range, or if the protocol or
    address before it is not empty. Another 2yz may tell a port too; without one it is no answer."""
    match = _EXTENDED.search(reply.octets)
    if match is None or not 1 <= (port := int(match[2])) <= 65_535:
        if reply.code != _ENTERING_EXTENDED:
            return None
        raise ProtocolError(f"no port can be read from the reply to EPSV, {reply.shown!r}")
    return port


def parse_passive(reply: ControlReply) -> int:
    """The port of a 227: six numbers anywhere in the text. `ProtocolError` if they are not there, if one
    is above 255, or if the port is 0."""
    match = _SIX_NUMBERS.search(reply.octets)
    numbers = [int(number) for number in match[1].split(b",")] if match else [256]
    if max(numbers) > 255 or (port := numbers[4] << 8 | numbers[5]) == 0:
        raise ProtocolError(f"no port can be read from the reply to PASV, {reply.shown!r}")
    return port


def read_offer(
    reader: Reader[ControlReply], parse: Callable[[ControlReply], int | None]
) -> Reader[PassiveReply]:
    """A reader for a reply and the port in it."""

    def read(buffer: Buffer) -> Generator[Rest | None, None, PassiveReply]:
        reply = yield from reader(buffer)
        return PassiveReply(reply, parse(reply) if reply.good else None)

    return read
