"""One datagram of ARDP version 0: a header that is cut off behind the last field needed, then text.

A field beyond the header's stated length has its default; a length that ends inside a field leaves that
field out. Datagrams of any other kind are told apart by their first octet: of those only the one that
lists the versions a server knows means anything here. Section 2 of the protocol page, and of section 3
how version 1 is recognised.
"""

from __future__ import annotations

import enum
from typing import TypeVar

from protocols.connection import Line
from protocols.values import NamedTuple, dataclass
from protocols.wire import encode_datagram

D = TypeVar("D")

#: Octets of text that a client may put into one packet.
MOST_TEXT = 1250

_LONGEST_HEADER = 31
_CONTROL = 0  # the number of a packet that is no part of a message
_ACKNOWLEDGE = 0x80
_SEQUENCED_CONTROL = 0x40
_CANCEL = b"\0\0\0\1"  # wait 0, no flags, option 1


class ArdpOption(enum.IntEnum):
    """Octet 12, as far as it says something to a client."""

    NONE = 0
    REFUSED = 1
    SET_RECEIVED = 2
    REDIRECT = 4
    REDIRECT_LASTING = 5
    BAD_VERSION = 8
    QUEUE = 254


@dataclass(frozen=True, slots=True)
class ArdpPacket:
    """A packet of version 0. `received_through` and `wait` are None where the header says nothing of
    them. `data` is what belongs to the option; `text` is empty for a sequenced control packet, which has
    a number and no part in the message."""

    connection: int = 0
    number: int = 1
    total: int = 1
    received_through: int | None = None
    wait: int | None = None
    acknowledge: bool = False
    option: int = ArdpOption.NONE
    data: bytes = b""
    text: bytes = b""

    @property
    def is_control(self) -> bool:
        return self.number == _CONTROL


class KnownVersions(NamedTuple):
    """A server knows these versions of ARDP, and ours is not among them."""

    versions: tuple[int, ...]


def decode_packet(datagram: bytes) -> ArdpPacket | KnownVersions | None:
    """None for what is not for us: empty, cut inside its header, of version 1 or later, or plain text."""
    length = datagram[0] if datagram else 32
    if length == 0:
        return KnownVersions(tuple(datagram[1:]))
    if length > _LONGEST_HEADER or length > len(datagram):
        return None
    return _decode(datagram[:length], datagram[length:])


def _decode(header: bytes, text: bytes) -> ArdpPacket:
    flags = header[11] if len(header) > 11 else 0
    data = header[13 + _flag_data(header, flags) :]
    return ArdpPacket(
        connection=_number(header, 1, 0),
        number=_number(header, 3, 1),
        total=_number(header, 5, 0 if len(header) >= 5 else 1),
        received_through=_number(header, 7, None),
        wait=_number(header, 9, None),
        acknowledge=bool(flags & _ACKNOWLEDGE),
        option=header[12] if len(header) > 12 else ArdpOption.NONE,
        data=data,
        text=b"" if flags & _SEQUENCED_CONTROL else text,
    )


def _number(header: bytes, start: int, default: D) -> int | D:
    octets = header[start : start + 2]
    return int.from_bytes(octets) if len(octets) == 2 else default


def _flag_data(header: bytes, flags: int) -> int:
    """Octets of data for the flags, which stand before those for the option, lowest bit first."""
    address = 2 + sum(header[14:15]) if flags & 0x01 else 0
    return address + 2 * (flags >> 1 & 0x07).bit_count()


def decode_redirect(data: bytes) -> tuple[str, int] | None:
    """The numeric address and the port that a redirect names; None where it names none."""
    if len(data) < 6:
        return None
    return ".".join(str(octet) for octet in data[:4]), int.from_bytes(data[4:6])


def decode_queue(data: bytes) -> str:
    """What a server says of our place in its queue, in words; empty where it says nothing."""
    flags, said, at = data[0] if data else 0, [], 1
    if flags & 0x01 and len(data) >= at + 2:
        said.append(f"place {int.from_bytes(data[at : at + 2])} in the queue")
        at += 2
    if flags & 0x02 and len(data) >= at + 4:
        said.append(f"{int.from_bytes(data[at : at + 4])} s to go")
    return ", ".join(said)


def encode_piece(
    connection: int, number: int, total: int, received_through: int, piece: Line, *, acknowledge: bool
) -> Line:
    """A packet of a request. With `acknowledge`, one that wants to be acknowledged."""
    rest = b"\0\0" + bytes((_ACKNOWLEDGE,)) if acknowledge else b""
    return encode_datagram(_header(connection, number, total, received_through, rest), piece)


def encode_acknowledgement(connection: int, received_through: int) -> Line:
    """Nothing but how far the reply has come."""
    return encode_datagram(_header(connection, _CONTROL, 0, received_through))


def encode_cancel(connection: int) -> Line:
    """Nobody waits for the answer any more."""
    return encode_datagram(_header(connection, _CONTROL, 0, 0, _CANCEL))


def _header(connection: int, number: int, total: int, received_through: int, rest: bytes = b"") -> bytes:
    """`rest` are the fields behind received-through."""
    fields = (connection, number, total, received_through)
    header = b"".join(field.to_bytes(2) for field in fields) + rest
    return (1 + len(header)).to_bytes(1) + header
