"""Commands and responses of a news server: status lines and data blocks (RFC 3977 3.1 and 3.2).

The client interprets only the code of a response, not the text. The code *and* the command determine whether
a block follows: 211 has a block as the response to LISTGROUP, but not as the response to GROUP. A code that
is invalid for the command is a `ProtocolError`. Without this error, the client could lose synchronization and
misread all later responses of the pipeline.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import NamedTuple

from protocols.contract import Line
from protocols.errors import (
    AccessDenied,
    Declined,
    Disconnected,
    LimitExceeded,
    LoginRequired,
    NotFound,
    ProtocolError,
    Refused,
    Truncated,
    TryLater,
)
from protocols.news.url import MAX_DIGITS
from protocols.step import Dialogue, EmitBody, Receive
from protocols.text import decode_text
from protocols.wire import Buffer, Reader, Secret, encode_line

# The commands of this client (RFC 3977, 4642, 4643, 8054). The client does not implement POST, IHAVE or any
# other command that changes data on a server (S05, no side effects).
#
# The only arguments from a URL are a group name, a message-id and an integer, all of them checked.

#: The maximum size of a command line in bytes, including CR LF (RFC 3977 3.1).
COMMAND_LIMIT = 512


class NntpVerb(enum.StrEnum):
    """The keyword of a command, with the fixed first argument of some commands."""

    CAPABILITIES = "CAPABILITIES"
    MODE_READER = "MODE READER"
    STARTTLS = "STARTTLS"
    COMPRESS_DEFLATE = "COMPRESS DEFLATE"
    AUTHINFO_USER = "AUTHINFO USER"
    AUTHINFO_PASS = "AUTHINFO PASS"
    GROUP = "GROUP"
    LISTGROUP = "LISTGROUP"
    ARTICLE = "ARTICLE"
    HEAD = "HEAD"
    OVER = "OVER"
    XOVER = "XOVER"
    LIST_ACTIVE = "LIST ACTIVE"
    LIST_NEWSGROUPS = "LIST NEWSGROUPS"
    QUIT = "QUIT"


#: Commands that must not be pipelined. After such a command, the client waits for the response before it
#: sends the next command (RFC 3977 3.5, 5.3, RFC 4642, 4643, 8054).
UNPIPELINED = frozenset(
    {
        *(NntpVerb.MODE_READER, NntpVerb.STARTTLS, NntpVerb.COMPRESS_DEFLATE),
        *(NntpVerb.AUTHINFO_USER, NntpVerb.AUTHINFO_PASS, NntpVerb.QUIT),
    }
)
#: Commands that select another group if they succeed.
GROUP_VERBS = frozenset({NntpVerb.GROUP, NntpVerb.LISTGROUP})
#: The variants of LIST.
LISTS = frozenset({NntpVerb.LIST_ACTIVE, NntpVerb.LIST_NEWSGROUPS})
#: Commands that a server in transit mode may not support.
READER_VERBS = GROUP_VERBS | LISTS | {NntpVerb.ARTICLE, NntpVerb.HEAD, NntpVerb.OVER, NntpVerb.XOVER}


@dataclass(frozen=True, slots=True)
class NntpCommand:
    """A command and its encoded command line.

    Raises:
        Refused: the argument contains a line end (S02, CRLF injection), or the command line is too long.
    """

    verb: NntpVerb
    argument: bytes | Secret | None = None
    line: Line = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        verb = self.verb.encode("ascii")
        line = encode_line(verb) if self.argument is None else encode_line(verb, self.argument)
        if len(line.octets) > COMMAND_LIMIT:
            raise Refused("S02", f"{self.verb} with this argument is longer than {COMMAND_LIMIT} bytes")
        object.__setattr__(self, "line", line)

    def __str__(self) -> str:
        """Return the command for display, without line end, secrets and control characters."""
        return repr(self.line.shown.rstrip().decode("ascii", "backslashreplace"))


_STATUS = re.compile(rb"([1-5][0-9][0-9])(?: (.*?))?\r?\n", re.DOTALL)

#: The success codes of each command; the value tells whether a block follows.
_SUCCESS_CODES: dict[NntpVerb, dict[int, bool]] = {
    NntpVerb.CAPABILITIES: {101: True},
    NntpVerb.MODE_READER: {200: False, 201: False},
    NntpVerb.STARTTLS: {382: False},
    NntpVerb.COMPRESS_DEFLATE: {206: False},
    NntpVerb.AUTHINFO_USER: {281: False, 381: False},
    NntpVerb.AUTHINFO_PASS: {281: False},
    NntpVerb.GROUP: {211: False},
    NntpVerb.LISTGROUP: {211: True},
    NntpVerb.ARTICLE: {220: True},
    NntpVerb.HEAD: {221: True},
    NntpVerb.OVER: {224: True},
    NntpVerb.XOVER: {224: True},
    NntpVerb.LIST_ACTIVE: {215: True},
    NntpVerb.LIST_NEWSGROUPS: {215: True},
    NntpVerb.QUIT: {205: False},
}
#: The codes below 400 that RFC 977, 2980, 3977, 4642, 4643, 4644, 6048 or 8054 define. A defined code is
#: never interpreted by its first digit.
_DEFINED_CODES = frozenset(
    {
        *(100, 101, 111, 199, 200, 201, 202, 203, 205, 206, 211, 215, 218, 220, 221, 222, 223, 224, 225),
        *(230, 231, 235, 238, 239, 240, 250, 281, 282, 283, 288, 335, 340, 350, 381, 382, 383),
    }
)


class NntpResponse(NamedTuple):
    """A status line; `text` is the text after the code, `block` is set if a multi-line data block follows."""

    code: int
    text: bytes = b""
    block: bool = False

    @property
    def is_refusal(self) -> bool:
        return self.code >= 400

    @property
    def shown(self) -> str:
        """Return the code and the escaped text, which prevents terminal escape injection."""
        return ascii(f"{self.code} {decode_text(self.text)}".rstrip())


def read_status(limit: int, command: NntpCommand | None = None) -> Reader[NntpResponse]:
    """Return a reader for the status line of the response to a command.

    Without a command, the line may be any response, and `block` of the result is always False.

    A lone LF also ends the line, because some old servers send LF instead of CR LF. RFC 3977 allows lines of
    512 octets; this reader accepts lines of up to `limit` bytes.

    Raises:
        ProtocolError: the line contains NUL, does not start with three digits, or has a code that is invalid
            for the command.
        LimitExceeded: the line has more than `limit` bytes (line).
        Disconnected: the connection ended before the first byte.
        Truncated: the connection ended after the first byte.
    """

    def reader(buffer: Buffer) -> Generator[None, None, NntpResponse]:
        while (index := buffer.search(b"\n", limit)) < 0:
            if len(buffer) >= limit:
                raise LimitExceeded("line", f"a status line is longer than {limit} bytes")
            if buffer.at_end and buffer:
                raise Truncated("the connection ended inside a status line", received=len(buffer))
            if buffer.at_end:
                raise Disconnected("the server closed the connection without a response")
            yield
        response = parse_status(buffer.take(index + 1))
        return response if command is None else response_to(command, response)

    return reader


def parse_status(line: bytes) -> NntpResponse:
    """Parse a status line with its line end."""
    match = _STATUS.fullmatch(line)
    if match is None or b"\0" in line:
        raise ProtocolError(f"this is not the response of a news server: {line[:60].decode('latin-1')!r}")
    return NntpResponse(int(match[1]), match[2] or b"")


def response_to(command: NntpCommand, response: NntpResponse) -> NntpResponse:
    """Return the response with the correct value of `block` for its command.

    A refusal (4yz, 5yz) never has a block. If no RFC defines a code, the first digit decides, but only for a
    command whose responses never have a block. For other commands, an undefined code raises `ProtocolError`,
    because the client cannot know whether a block follows.
    """
    if response.is_refusal:
        return response
    success_codes = _SUCCESS_CODES[command.verb]
    if response.code in success_codes:
        return NntpResponse(response.code, response.text, success_codes[response.code])
    if response.code in _DEFINED_CODES or not 200 <= response.code < 300 or any(success_codes.values()):
        raise ProtocolError(f"{response.shown} is not a valid response to {command}")
    return response


@dataclass(frozen=True, slots=True)
class GroupSelection:
    """The numbers in a 211 response: the estimated article count, the lowest and the highest number."""

    count: int
    low: int
    high: int

    @property
    def is_empty(self) -> bool:
        """Return whether the group is empty.

        RFC 3977 6.1.1.2 allows three representations of an empty group. Old servers send `0 0 0`.
        """
        return self.count == 0 or self.high < self.low


def parse_selected(response: NntpResponse) -> GroupSelection:
    """Parse the three numbers in a 211 response to GROUP. The group name may be missing."""
    words = response.text.split()[:3]
    if len(words) < 3 or not all(map(is_number, words)):
        raise ProtocolError(f"expected three numbers for a group, got {response.shown}")
    return GroupSelection(*map(int, words))


def is_number(word: bytes) -> bool:
    """Return whether a token is a number: only digits, at most `MAX_DIGITS`."""
    return word.isdigit() and len(word) <= MAX_DIGITS


def find_message_id(response: NntpResponse) -> bytes | None:
    """Return the message-id in a response (220 to 223) without brackets, or None if missing or `<0>`."""
    words = response.text.split(maxsplit=2)
    if len(words) < 2 or not (words[1].startswith(b"<") and words[1].endswith(b">")):
        return None
    message_id = words[1][1:-1]
    return None if message_id in (b"", b"0") else message_id


# -- The exceptions for 4yz and 5yz responses (RFC 3977 3.2.1; the codes of RFC 4642 and 4643). The exception
# depends only on the code, and never on the text. Preconditions (reader mode, a login, TLS) are handled
# earlier, in `protocols.news.negotiation`.

_MEANINGS: dict[int, tuple[type[Declined], str]] = {
    400: (TryLater, "the server is closing"),
    401: (Declined, "the server requires an unsupported capability"),
    403: (TryLater, "a server error"),
    411: (NotFound, "no such group"),
    420: (NotFound, "no such article"),
    423: (NotFound, "no such article"),
    430: (NotFound, "no such article"),
    480: (LoginRequired, "a name and password are required"),
    481: (AccessDenied, "wrong name or password"),
    483: (Declined, "the server requires TLS"),
    500: (Declined, "the server does not support the command"),
    501: (Declined, "the server does not accept the argument"),
    502: (AccessDenied, "not permitted"),
    503: (Declined, "the server does not support this"),
}


def refusal(action: NntpCommand | str, response: NntpResponse) -> Declined | ProtocolError:
    """Return the exception for a refusal of `action`, a command or an action."""
    if response.code in (412, 482):
        return ProtocolError(f"{action}: {response.shown} is not possible after the previous commands")
    kind, meaning = _MEANINGS.get(response.code, (Declined, "refused"))
    return make_declined(kind, action, response, meaning)


def make_declined(
    kind: type[Declined], action: NntpCommand | str, response: NntpResponse, meaning: str
) -> Declined:
    """Return the exception for a refusal, with the class and meaning that the caller chose."""
    text = decode_text(response.text)
    return kind(f"{action}: {meaning}: the server said {response.shown}", code=str(response.code), text=text)


# Multi-line data blocks, exactly as specified (RFC 3977 3.1.1), and the lines of a listing in a block.
#
# A block begins after the status line, and ends with a line of one period. *Only CR LF ends a line*. A lone
# LF or CR is content like any other byte, which prevents response smuggling. If a lone LF ended a line, an
# article with `LF . LF 200 …` could end its block early, and the text of the article would be parsed as a
# response. If a longer
# line begins with a period, the first period is removed (dot-stuffing). The line end before the final period
# belongs to the content; the decoder does not add or trim bytes. The length of a line is not limited.

_PERIOD = re.compile(rb"(?<=\r\n)\.")
_END_LENGTH = 5  # CR LF . CR LF


class DataBlock:
    """A decoder for one block. It reads the block from a buffer and returns the content.

    The decoder has three states:

    - `_is_begun` is False: the start of the first line has not arrived yet. The first line is special,
      because a period at its start does not follow a line end.
    - `_is_begun` is True: the decoder returns content. A possible terminator stays in the buffer.
    - `ended` is True: the terminator was consumed. The bytes after the terminator stay in the buffer.

    `received` is the number of content bytes. `terminator` has the bytes of the terminator.
    """

    _is_begun = ended = False
    received = 0
    terminator = b""

    def take(self, buffer: Buffer) -> bytes:
        """Consume and return the content that is decodable now, or empty bytes if more bytes are needed.

        Raises:
            Truncated: the connection ended before the end of the block.
        """
        if not self._is_begun:
            self._begin(buffer)
        content = self._take(buffer) if self._is_begun and not self.ended else b""
        self.received += len(content)
        if buffer.at_end and not self.ended and not content:
            raise make_truncated_block(self.received)
        return content

    def read(self, buffer: Buffer) -> Generator[None, None, bytes]:
        """Return the next bytes of the content, or empty bytes at the end of the block."""
        while not (content := self.take(buffer)) and not self.ended:
            yield
        return content

    def _begin(self, buffer: Buffer) -> None:
        """Decode the start of the first line, which has no line end before it."""
        first = bytes(buffer[:3])
        if first == b".\r\n":
            self.terminator = buffer.take(3)
            self._is_begun = self.ended = True
        elif first not in (b"", b".", b".\r") or buffer.at_end:
            if first.startswith(b"."):
                buffer.take(1)
            self._is_begun = True

    def _take(self, buffer: Buffer) -> bytes:
        index = buffer.search(b"\r\n.\r\n", len(buffer))
        if index < 0:
            return _undot(buffer.take(len(buffer) - _open_length(buffer)))
        content = buffer.take(index + 2)
        self.terminator = buffer.take(_END_LENGTH - 2)
        self.ended = True
        return _undot(content)


class RawBlock(DataBlock):
    """A block that returns its raw bytes, including stuffed periods and the terminator."""

    def _begin(self, buffer: Buffer) -> None:
        self._is_begun = buffer.peek(3) not in (b"", b".", b".\r") or buffer.at_end

    def _take(self, buffer: Buffer) -> bytes:
        if not self.received and buffer.peek(3) == b".\r\n":
            return self._end(buffer.take(3))
        index = buffer.search(b"\r\n.\r\n", len(buffer))
        if index < 0:
            return buffer.take(len(buffer) - _open_length(buffer))
        return self._end(buffer.take(index + _END_LENGTH))

    def _end(self, octets: bytes) -> bytes:
        self.ended = True
        return octets


def _open_length(buffer: Buffer) -> int:
    """Return the number of bytes at the buffer's end that may begin a terminator or a dot-stuffed line."""
    tail = buffer.tail(_END_LENGTH - 1)
    for start in range(len(tail)):
        if tail[start:] in (b"\r", b"\r\n", b"\r\n.", b"\r\n.\r"):
            return len(tail) - start
    return 0


def _undot(octets: bytes) -> bytes:
    # Lines that begin with a period are rare. The search is thirty times faster than the regular expression.
    return _PERIOD.sub(b"", octets) if b"\r\n." in octets else octets


def undot_start(octets: bytes) -> bytes:
    """Decode the start of a block that does not contain the terminator."""
    return _undot(octets[1:] if octets[:1] == b"." else octets)


def make_truncated_block(received: int) -> Truncated:
    return Truncated(f"the connection ended inside a block, after {received} bytes", received=received)


def read_block(limit: int) -> Reader[bytes]:
    """Return a reader for the content of a block.

    The reader returns the content after the complete block has arrived.

    Raises:
        LimitExceeded: the content is longer than `limit` bytes (lines).
    """

    def reader(buffer: Buffer) -> Generator[None, None, bytes]:
        block = DataBlock()
        pieces = []
        while not block.ended:
            pieces.append((yield from block.read(buffer)))
            if block.received > limit:
                raise LimitExceeded("lines", f"a response is longer than {limit} bytes")
        return b"".join(pieces)

    return reader


def skip_block(limit: int) -> Reader[None]:
    """Return a reader that discards a block.

    Raises:
        LimitExceeded: the block is longer than `limit` bytes (lines).
    """

    def reader(buffer: Buffer) -> Generator[None, None, None]:
        block = DataBlock()
        while not block.ended:
            yield from block.read(buffer)
            if block.received > limit:
                raise LimitExceeded("lines", f"a discarded response is longer than {limit} bytes")

    return reader


def emit_block(block: DataBlock, label: str, offset: int = 0) -> Dialogue[None]:
    """Copy the content of a block into the body of the reply.

    The bytes after the block stay in the buffer. `offset` is the number of bytes that the body already has.

    Raises:
        Truncated: the connection ended before the end of the block.
        Disconnected: the connection ended before the first byte of the body.
    """
    while not block.ended:
        try:
            octets: bytes = yield Receive(block.read, f"{label}, up to a line with a single period", b"")
        except (Disconnected, Truncated) as error:
            if offset or block.received:
                raise make_truncated_block(block.received) from error
            raise Disconnected("the connection ended before the first byte of the response") from error
        if not octets:
            return
        yield EmitBody(octets)


class BlockLines:
    """A splitter of a block's content into lines. It buffers an incomplete last line.

    Raises:
        LimitExceeded: a line is longer than `limit` bytes (line).
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._buffer = bytearray()

    def feed(self, octets: bytes) -> list[bytes]:
        """Feed content; return the complete lines without their line ends."""
        self._buffer += octets
        if b"\n" not in octets:
            self._check(len(self._buffer))
            return []
        *lines, rest = bytes(self._buffer).split(b"\r\n")
        self._buffer = bytearray(rest)
        self._check(max(map(len, [*lines, rest])))
        return lines

    def finish(self) -> list[bytes]:
        """Return the last line if it does not end with a line end."""
        rest, self._buffer = bytes(self._buffer), bytearray()
        return [rest] if rest else []

    def _check(self, longest: int) -> None:
        if longest > self._limit:
            raise LimitExceeded("line", f"a line of the listing is longer than {self._limit} bytes")
