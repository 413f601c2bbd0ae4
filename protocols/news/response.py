"""Responses of a news server: the status line, and whether a block follows it (RFC 3977 3.1 and 3.2).

A response goes by its code alone. Whether a block follows is a matter of the code *and* the command: 211
brings one to LISTGROUP and none to GROUP, so nobody can read a response without knowing what was asked.
Getting this wrong once puts a client out of step for good; what the command cannot have is a `ProtocolError`.
"""

from __future__ import annotations

import re
from collections.abc import Generator

from protocols.errors import (
    AccessDenied,
    Declined,
    Disconnected,
    LimitExceeded,
    LoginRequired,
    NotFound,
    ProtocolError,
    Truncated,
    TryLater,
)
from protocols.news.commands import MOST_DIGITS, NntpCommand, NntpVerb
from protocols.values import NamedTuple, dataclass
from protocols.wire import Buffer, Reader, Rest

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
    return declined(kind, doing, response, meaning)


def declined(
    kind: type[Declined], doing: NntpCommand | str, response: NntpResponse, meaning: str
) -> Declined:
    """A refusal whose meaning something else than its code has settled."""
    text = decode_text(response.text)
    return kind(f"{doing}: {meaning}: the server said {response.shown}", code=str(response.code), text=text)
