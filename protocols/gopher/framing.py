"""The header line of a Gopher+ reply (Gopher+ memo 2.3): is there one, and what does it promise?

Looked for only when the request was Gopher+; a document may begin with `+44` as well. Without one the
reply is *unframed*: the server does not know Gopher+, or not this use of it, and every octet that was
looked at is part of the reply.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Generator

from protocols.errors import Disconnected, ProtocolError
from protocols.values import dataclass, field
from protocols.wire import Buffer

#: Room for a sign, 18 digits and blanks; a line longer than this is no header.
HEADER_LIMIT = 64

_HEADER = re.compile(rb"([+-])(-1|-2|[0-9]{1,18})[ \t]*\r?\n")
_BEGINNING = re.compile(rb"[+-](?:-|(?:-1|-2|[0-9]{1,18})[ \t]*\r?)?\Z")


class DataEnding(enum.Enum):
    """What ends the data."""

    COUNT = "count"
    PERIOD = "lone period"
    CLOSE = "close"


@dataclass(frozen=True, slots=True)
class GopherPlusHeader:
    """`refused`: what follows is an error text. `count` is the number of octets that follow, None
    unless `ending` is COUNT. `octets` are the line as it came."""

    ending: DataEnding
    count: int | None = None
    refused: bool = False
    octets: bytes = field(default=b"", compare=False)

    @property
    def written(self) -> str:
        """The header as it is written on the wire, without its line end."""
        how = {DataEnding.PERIOD: "-1", DataEnding.CLOSE: "-2"}.get(self.ending, str(self.count))
        return ("-" if self.refused else "+") + how

    @property
    def has_period(self) -> bool:
        """Will a final period come?"""
        return self.ending is DataEnding.PERIOD

    @property
    def promise(self) -> str:
        """What it says, for a person."""
        what = "an error text" if self.refused else "the reply"
        match self.ending:
            case DataEnding.COUNT:
                return f"{what}, {self.count} octets"
            case DataEnding.PERIOD:
                return f"{what}, up to a line with a lone period, until the server closes"
            case DataEnding.CLOSE:
                return f"{what}, until the server closes"


def read_header(buffer: Buffer) -> Generator[None, None, GopherPlusHeader | None]:
    """A reader for the header line, which it takes; None for an unframed reply, of which it takes
    nothing. Asks for more only while the octets at hand can still become a header. An empty reply
    where a header may be is None too: whether it is allowed is for the asker to say."""
    while True:
        first = buffer.peek(HEADER_LIMIT)
        found = _HEADER.match(first)
        if found is not None:
            return _header(found[1], found[2], buffer.take(found.end()))
        hopeless = len(first) == HEADER_LIMIT or bool(first and not _BEGINNING.match(first))
        if hopeless or buffer.at_end:
            return None
        yield


def read_promised_header(buffer: Buffer) -> Generator[None, None, GopherPlusHeader | None]:
    """The same for a request that certainly was Gopher+: an empty reply to it is a `ProtocolError`, and one
    that ends inside a header was cut off there: `Disconnected`."""
    header = yield from read_header(buffer)
    if header is None and buffer.at_end and _BEGINNING.match(buffer.peek(HEADER_LIMIT)):
        raise Disconnected("the connection ended inside the header line of a Gopher+ reply")
    if header is None and not buffer:
        raise ProtocolError(
            "the server closed without a single octet in answer to a Gopher+ request",
            retryable=True,  # whether it never answers so or was cut off this time, nobody can tell
        )
    return header


def _header(sign: bytes, how: bytes, octets: bytes) -> GopherPlusHeader:
    refused = sign == b"-"
    if how == b"-1":
        return GopherPlusHeader(DataEnding.PERIOD, None, refused, octets)
    if how == b"-2":
        return GopherPlusHeader(DataEnding.CLOSE, None, refused, octets)
    return GopherPlusHeader(DataEnding.COUNT, int(how), refused, octets)
