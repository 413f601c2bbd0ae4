"""Commands and responses of a news server: status lines and data blocks (RFC 3977 3.1 and 3.2).

A response is interpreted by its code alone. Whether a block follows depends on the code *and* the command:
211 brings one to LISTGROUP and none to GROUP, so a response cannot be read without its command. One mistake
puts a client out of step for good; a code that the command cannot have is a `ProtocolError`.
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
from protocols.step import Dialogue, EmitBody, receive
from protocols.wire import Buffer, Reader, Rest, Secret, encode_line

# The commands of this client; no others are sent (RFC 3977, 4642, 4643, 8054).
#
# Of a URL only a checked group name, a checked message-id and an integer become arguments. POST, IHAVE and
# all other commands that change a server are missing (S05).

#: RFC 3977 3.1: octets of a command, CR LF included.
COMMAND_LIMIT = 512
#: Digits of an article number (RFC 3977 9.8).
MOST_DIGITS = 16


class NntpVerb(enum.StrEnum):
    """A keyword with its fixed first argument, as it is sent."""

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
    STAT = "STAT"
    OVER = "OVER"
    XOVER = "XOVER"
    LIST_ACTIVE = "LIST ACTIVE"
    LIST_NEWSGROUPS = "LIST NEWSGROUPS"
    QUIT = "QUIT"


#: Nothing may be sent behind these before they are answered (RFC 3977 3.5, 5.3, RFC 4642, 4643, 8054).
ALONE = frozenset(
    {
        *(NntpVerb.MODE_READER, NntpVerb.STARTTLS, NntpVerb.COMPRESS_DEFLATE),
        *(NntpVerb.AUTHINFO_USER, NntpVerb.AUTHINFO_PASS, NntpVerb.QUIT),
    }
)
#: After these, if they are granted, another group is the selected one.
SELECTING = frozenset({NntpVerb.GROUP, NntpVerb.LISTGROUP})
#: The variants of LIST.
LISTS = frozenset({NntpVerb.LIST_ACTIVE, NntpVerb.LIST_NEWSGROUPS})
#: Those that a server in transit mode need not know.
READER_VERBS = frozenset(
    {
        *(NntpVerb.GROUP, NntpVerb.LISTGROUP, NntpVerb.ARTICLE, NntpVerb.HEAD, NntpVerb.STAT),
        *(NntpVerb.OVER, NntpVerb.XOVER, *LISTS),
    }
)


@dataclass(frozen=True, slots=True)
class NntpCommand:
    """One command and the line that says it. Raises `Refused` (S02) for an argument that would end it or make
    it too long."""

    verb: NntpVerb
    argument: bytes | Secret | None = None
    line: Line = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        verb = self.verb.value.encode("ascii")
        line = encode_line(verb) if self.argument is None else encode_line(verb, self.argument)
        if len(line.octets) > COMMAND_LIMIT:
            raise Refused("S02", f"{self.verb} with this argument is longer than {COMMAND_LIMIT} octets")
        object.__setattr__(self, "line", line)

    def __str__(self) -> str:
        """For a message: no line end, no secret, no control character."""
        return repr(self.line.shown.rstrip().decode("ascii", "backslashreplace"))


def encode_number(number: int) -> bytes:
    """An article number as it is sent: no leading zeros."""
    return b"%d" % number


def encode_range(first: int, last: int) -> bytes:
    return b"%d-%d" % (first, last)


def encode_message_id(message_id: bytes) -> bytes:
    """A URL's message-id as it is sent: always in angle brackets (RFC 5538 section 3)."""
    return b"<%s>" % message_id


_STATUS = re.compile(rb"([1-5][0-9][0-9])(?: (.*))?", re.DOTALL)

#: What each command is granted with, and whether a block follows.
_GRANTED: dict[NntpVerb, dict[int, bool]] = {
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
    NntpVerb.STAT: {223: False},
    NntpVerb.OVER: {224: True},
    NntpVerb.XOVER: {224: True},
    NntpVerb.LIST_ACTIVE: {215: True},
    NntpVerb.LIST_NEWSGROUPS: {215: True},
    NntpVerb.QUIT: {205: False},
}
#: Codes below 400 with a meaning of their own in RFC 977, 2980, 3977, 4642, 4643, 4644, 6048 or 8054:
#: none of them means another thing than its own.
_LISTED = frozenset(
    {
        *(100, 101, 111, 199, 200, 201, 202, 203, 205, 206, 211, 215, 218, 220, 221, 222, 223, 224, 225),
        *(230, 231, 235, 238, 239, 240, 250, 281, 282, 283, 288, 335, 340, 350, 381, 382, 383),
    }
)


class NntpResponse(NamedTuple):
    """A status line. `text` is what follows the code; `block`: a multi-line block follows."""

    code: int
    text: bytes = b""
    block: bool = False

    @property
    def refused(self) -> bool:
        return self.code >= 400

    @property
    def shown(self) -> str:
        """Code and text for a message: nothing in it can drive a terminal."""
        return ascii(f"{self.code} {decode_text(self.text)}".rstrip())


def decode_text(octets: bytes) -> str:
    """Octets of a server as text: UTF-8 if they are, else ISO 8859-1."""
    try:
        return octets.decode("utf-8")
    except UnicodeDecodeError:
        return octets.decode("latin-1")


def read_status(limit: int) -> Reader[NntpResponse]:
    """A reader for a status line, whatever it answers; `block` is left False.

    A lone LF ends it too (some old servers); RFC 3977 has 512 octets, this takes up to `limit`. Raises
    `ProtocolError` for NUL and for what does not start with three digits, `LimitExceeded` (line),
    `Disconnected` where the connection ended before its first octet, `Truncated` behind that.
    """

    def reader(buffer: Buffer) -> Generator[None, None, NntpResponse]:
        while (index := buffer.find(b"\n", limit)) < 0:
            if len(buffer) >= limit:
                raise LimitExceeded("line", f"a status line is longer than {limit} octets")
            if buffer.at_end:
                raise _cut(buffer)
            yield
        return parse_status(buffer.take(index + 1))

    return reader


def _cut(buffer: Buffer) -> Disconnected | Truncated:
    if not buffer:
        return Disconnected("the server closed the connection without an answer")
    return Truncated("the connection ended inside a status line", received=len(buffer))


def parse_status(line: bytes) -> NntpResponse:
    """The status line, its line end included."""
    line = line.removesuffix(b"\n").removesuffix(b"\r")
    found = _STATUS.fullmatch(line)
    if found is None or b"\0" in line:
        raise ProtocolError(f"this is no answer of a news server: {line[:60].decode('latin-1')!r}")
    return NntpResponse(int(found[1]), found[2] or b"")


def read_response(command: NntpCommand, limit: int) -> Reader[NntpResponse]:
    """A reader for the status line of the response to `command`. Raises like `read_status`, and
    `ProtocolError` for one that this command cannot have."""

    def reader(buffer: Buffer) -> Generator[Rest | None, None, NntpResponse]:
        response = yield from read_status(limit)(buffer)
        return response_to(command, response)

    return reader


def response_to(command: NntpCommand, response: NntpResponse) -> NntpResponse:
    """The response, knowing to what.

    A refusal (4yz, 5yz) never has a block. Of a code that no RFC lists the first digit tells, where the
    command has no block whatever happens; else it cannot be read.
    """
    if response.refused:
        return response
    granted = _GRANTED[command.verb]
    if response.code in granted:
        return NntpResponse(response.code, response.text, granted[response.code])
    if response.code in _LISTED or not 200 <= response.code < 300 or any(granted.values()):
        raise ProtocolError(f"{response.shown} is no answer to {command}")
    return response


@dataclass(frozen=True, slots=True)
class GroupSelection:
    """What 211 says of a group: how many articles (an estimate), and the lowest and highest number."""

    count: int
    low: int
    high: int

    @property
    def is_empty(self) -> bool:
        """RFC 3977 6.1.1.2 has three ways to say so; `0 0 0` is that of old servers."""
        return self.count == 0 or self.high < self.low


def parse_selected(response: NntpResponse) -> GroupSelection:
    """The three numbers of 211 to GROUP; the name behind them may be missing."""
    words = response.text.split()[:3]
    if len(words) < 3 or not all(map(is_number, words)):
        raise ProtocolError(f"three numbers belong to a group, and the server said {response.shown}")
    return GroupSelection(*map(int, words))


def is_number(word: bytes) -> bool:
    """Digits, no more of them than an article number may have."""
    return word.isdigit() and len(word) <= MOST_DIGITS


def message_id_of(response: NntpResponse) -> bytes | None:
    """The message-id of 220 to 223, without its brackets; None where it is missing or `<0>`."""
    words = response.text.split(maxsplit=2)
    if len(words) < 2 or not (words[1].startswith(b"<") and words[1].endswith(b">")):
        return None
    message_id = words[1][1:-1]
    return None if message_id in (b"", b"0") else message_id


# -- What a 4yz or 5yz response becomes (RFC 3977 3.2.1; the codes of RFC 4642 and 4643). The code decides,
# never the text. What asks for a way round (another mode, a login, TLS) has been tried before.

_MEANINGS: dict[int, tuple[type[Declined], str]] = {
    400: (TryLater, "the server is closing"),
    401: (Declined, "the server wants something first that this client does not have"),
    403: (TryLater, "a fault of the server"),
    411: (NotFound, "no such group"),
    420: (NotFound, "no such article"),
    423: (NotFound, "no such article"),
    430: (NotFound, "no such article"),
    480: (LoginRequired, "a name and password are needed"),
    481: (AccessDenied, "wrong name or password"),
    483: (Declined, "the server needs TLS for this"),
    500: (Declined, "unknown to the server"),
    501: (Declined, "the server does not take this"),
    502: (AccessDenied, "not permitted"),
    503: (Declined, "the server does not have this"),
}


def refusal(doing: NntpCommand | str, response: NntpResponse) -> Declined | ProtocolError:
    """The error for a response that says no to what was being done."""
    if response.code in (412, 482):
        return ProtocolError(f"{doing}: {response.shown} cannot be, in this order of commands")
    kind, meaning = _MEANINGS.get(response.code, (Declined, "refused"))
    return make_declined(kind, doing, response, meaning)


def make_declined(
    kind: type[Declined], doing: NntpCommand | str, response: NntpResponse, meaning: str
) -> Declined:
    """A refusal whose meaning something else than its code has settled."""
    text = decode_text(response.text)
    return kind(f"{doing}: {meaning}: the server said {response.shown}", code=str(response.code), text=text)


# Multi-line data blocks, to the letter (RFC 3977 3.1.1), and the lines of a listing in one.
#
# A block begins right behind the status line's line end and ends with a line of one period. *Only CR LF ends
# a line*: a lone LF or CR is content like any other byte, so that an article holding `LF . LF 200 …` is an
# article and not a response. A longer line that begins with a period loses that period. The line end before
# the last period belongs to the content; nothing is added or trimmed. Lines have no limit, and the bytes are
# examined in bulk.

_PERIOD = re.compile(rb"(?<=\r\n)\.")
_END_LENGTH = 5  # CR LF . CR LF


class DataBlock:
    """Takes the content of one block out of a buffer, as far as it is certain.

    `ended` when the terminator has been taken; what follows it is left in the buffer. `received` counts
    the octets of the content, `terminator` is what ended it.
    """

    def __init__(self) -> None:
        self._begun = False
        self.ended = False
        self.received = 0
        self.terminator = b""

    def take(self, buffer: Buffer) -> bytes:
        """Content that no later octet can change; nothing if more is needed first. Raises `Truncated`
        when the buffer is at its end and the block is not."""
        if not self._begun:
            self._begin(buffer)
        content = self._take(buffer) if self._begun and not self.ended else b""
        self.received += len(content)
        if buffer.at_end and not self.ended and not content:
            raise cut_block(self.received)
        return content

    def read(self, buffer: Buffer) -> Generator[None, None, bytes]:
        """A reader for the next of the content; nothing once the block has ended."""
        while not (content := self.take(buffer)) and not self.ended:
            yield
        return content

    def _begin(self, buffer: Buffer) -> None:
        """The first line has no line end before it."""
        first = buffer.peek(3)
        if first == b".\r\n":
            self.terminator = buffer.take(3)
            self._begun = self.ended = True
        elif first not in (b"", b".", b".\r") or buffer.at_end:
            if first.startswith(b"."):
                buffer.take(1)
            self._begun = True

    def _take(self, buffer: Buffer) -> bytes:
        index = buffer.find(b"\r\n.\r\n", len(buffer))
        if index < 0:
            return _undot(buffer.take(len(buffer) - _open_length(buffer)))
        content = buffer.take(index + 2)
        self.terminator = buffer.take(_END_LENGTH - 2)
        self.ended = True
        return _undot(content)


class UntouchedBlock(DataBlock):
    """One whose content is the block as it came, its periods and the line that ends it included."""

    def _begin(self, buffer: Buffer) -> None:
        self._begun = buffer.peek(3) not in (b"", b".", b".\r") or buffer.at_end

    def _take(self, buffer: Buffer) -> bytes:
        if not self.received and buffer.peek(3) == b".\r\n":
            return self._end(buffer.take(3))
        index = buffer.find(b"\r\n.\r\n", len(buffer))
        if index < 0:
            return buffer.take(len(buffer) - _open_length(buffer))
        return self._end(buffer.take(index + _END_LENGTH))

    def _end(self, octets: bytes) -> bytes:
        self.ended = True
        return octets


def _open_length(buffer: Buffer) -> int:
    """How many octets at the end of the buffer may turn out to belong to a terminator or to a line end
    before a period: the longest that one begins with."""
    tail = buffer.tail(_END_LENGTH - 1)
    for start in range(len(tail)):
        if tail[start:] in (b"\r", b"\r\n", b"\r\n.", b"\r\n.\r"):
            return len(tail) - start
    return 0


def _undot(octets: bytes) -> bytes:
    # Most content has no such line, and finding that out is thirty times faster than the pattern.
    return _PERIOD.sub(b"", octets) if octets.find(b"\r\n.") >= 0 else octets


def cut_block(received: int) -> Truncated:
    return Truncated(f"the connection ended inside a block, after {received} octets", received=received)


def read_block(limit: int) -> Reader[bytes]:
    """A reader for the whole content of a block of at most `limit` octets: `LimitExceeded` (lines)."""

    def reader(buffer: Buffer) -> Generator[None, None, bytes]:
        block = DataBlock()
        pieces = []
        while not block.ended:
            pieces.append((yield from block.read(buffer)))
            if block.received > limit:
                raise LimitExceeded("lines", f"an answer is longer than {limit} octets")
        return b"".join(pieces)

    return reader


def skip_block(limit: int) -> Reader[None]:
    """A reader that takes a block and keeps nothing of it; more than `limit` octets are not waited for."""

    def reader(buffer: Buffer) -> Generator[None, None, None]:
        block = DataBlock()
        while not block.ended:
            yield from block.read(buffer)
            if block.received > limit:
                raise LimitExceeded("lines", f"an answer that nobody wants is longer than {limit} octets")

    return reader


def give_block(block: DataBlock, what: str, given: int = 0) -> Dialogue[None]:
    """The content of a block into a body that has `given` octets already. What follows the block is left.

    A connection that ends or breaks before the block has ended is `Truncated`, and `Disconnected` before the
    first octet of the body.
    """
    while not block.ended:
        try:
            octets = yield from receive(block.read, f"{what}, up to a line with a lone period", b"")
        except (Disconnected, Truncated) as error:
            if given or block.received:
                raise cut_block(block.received) from error
            raise Disconnected("the connection ended before the first octet of the answer") from error
        if not octets:
            return
        yield EmitBody(octets)


class BlockLines:
    """Splits the content of a block into lines; holds the one that has not ended yet.

    Raises `LimitExceeded` (line) for a line of more than `limit` octets.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rest = bytearray()

    def feed(self, octets: bytes) -> list[bytes]:
        """The lines that have ended now, without their ends."""
        self._rest += octets
        if b"\n" not in octets:
            self._check(len(self._rest))
            return []
        *lines, rest = bytes(self._rest).split(b"\r\n")
        self._rest = bytearray(rest)
        self._check(max(map(len, [*lines, rest])))
        return lines

    def finish(self) -> list[bytes]:
        """The octets have ended: what stands behind the last line end."""
        rest, self._rest = bytes(self._rest), bytearray()
        return [rest] if rest else []

    def _check(self, longest: int) -> None:
        if longest > self._limit:
            raise LimitExceeded("line", f"a line of the listing is longer than {self._limit} octets")
