"""Messages from a server: a header of 25 printable octets, then one APDU (wais page, section 2).

A message of length 0 is an answer too: the server cannot do what it was asked.
"""

from __future__ import annotations

import re
from collections.abc import Generator

from protocols.errors import Disconnected, ProtocolError
from protocols.wais.text import plain_text
from protocols.wire import Buffer, Reader

HEADER_LENGTH = 25
#: Octets of an APDU, on which client and server agree; what holds where they have not.
LARGEST = 100_000

_COUNT_LENGTH = 10
_COUNT = re.compile(rb" *[0-9]+")
#: What a count may begin with, as far as it has come.
_COUNT_BEGUN = re.compile(rb" *[0-9]*")
_TYPE, _CODINGS = slice(10, 11), slice(22, 24)


def read_message(limit: int) -> Reader[bytes]:
    """A reader for one message; its value is the APDU, empty for a message of length 0.

    Raises `ProtocolError` for what is no header, as soon as that shows, and for an APDU of more than
    `limit` octets; `Disconnected` where the connection ends first.
    """

    def reader(buffer: Buffer) -> Generator[None, None, bytes]:
        while len(buffer) < HEADER_LENGTH:
            _check_beginning(buffer.peek(_COUNT_LENGTH))
            _check_open(buffer, "header")
            yield
        length = parse_header(buffer.peek(HEADER_LENGTH))
        if length > limit:
            raise ProtocolError(f"a message of {length} octets, at most {limit} were agreed on")
        while len(buffer) < HEADER_LENGTH + length:
            _check_open(buffer, "message")
            yield
        return buffer.take(HEADER_LENGTH + length)[HEADER_LENGTH:]

    return reader


def parse_header(header: bytes) -> int:
    """The number of octets behind the header. Server name, version and checksum say nothing to us."""
    count = header[:_COUNT_LENGTH]
    if not _COUNT.fullmatch(count):
        raise ProtocolError(f"the length in a message header is no number: {plain_text(count)!r}")
    if header[_TYPE].lower() != b"z":
        raise ProtocolError(f"a message of type {plain_text(header[_TYPE])!r} and not z")
    if header[_CODINGS] != b"  ":
        coding = plain_text(header[_CODINGS])
        raise ProtocolError(
            f"a message in the coding {coding!r}, compressed or armoured, which nobody asked for"
        )
    return int(count)


def _check_beginning(octets: bytes) -> None:
    if not _COUNT_BEGUN.fullmatch(octets):
        raise ProtocolError(f"not the header of a message: {plain_text(octets)!r}")


def _check_open(buffer: Buffer, part: str) -> None:
    if not buffer.at_end:
        return
    if buffer:
        raise Disconnected(f"the connection ended inside the {part}, after {len(buffer)} octets of it")
    raise Disconnected("the server closed the connection without an answer")
