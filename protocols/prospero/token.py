"""Lines and tokens of a Prospero message: reading them, and quoting what is to be written.

A single quote switches quoting on and off anywhere in a token; inside, two of them are one, and every
other octet stands for itself, line ends and NUL included. So a message is read in one pass from its
first octet to its last, never line by line. Section 5 of the protocol page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from protocols.errors import LimitExceeded, ProtocolError, Refused
from protocols.values import NamedTuple

#: Tokens of one line. No line has a hundredth of that; a reply of blanks and letters would fill memory.
MOST_TOKENS = 4096

_QUOTE = ord("'")
_NEEDS_QUOTES = re.compile(rb"[ \t\n\r\f\v/'+,]")
_GAP = re.compile(rb"[ \t\r\n]*")
_TOKEN = re.compile(rb"[^ \t']+(?:'[^']*'[^ \t']*)*|(?:'[^']*'[^ \t']*)+")
# A group that repeats keeps 84 octets a turn, and a file in one token may be nothing but quotes: `_TOKEN`
# is for a line of few, the next two patterns take so many turns at a time.
_FEW_QUOTES = 1024
_PART = re.compile(rb"[^'\r\n]*(?:'[^']*'[^'\r\n]*){0,512}")
_QUOTED_OR_BLANKS = re.compile(rb"(?:'[^']*'){1,512}|[ \t]+")
#: What makes a kind server believe that the client is of the oldest sort (6.1), and the same in quotes.
_OLDEST, _SAME = b"VERSION 1", b"VERSIO'N' 1"


def quote(token: bytes) -> bytes:
    """A token as it is written: quoted from the first octet on that needs it.

    Raises `Refused` (S02) for NUL, which old servers take for the end of the packet.
    """
    if b"\0" in token:
        raise Refused("S02", "octet 00 would end the request")
    if not token:
        return b"''"
    found = _NEEDS_QUOTES.search(token)
    start = found.start() if found else len(token)
    if found is None and token.endswith(b"VERSION"):  # the next token could begin with a 1
        start = 0
    bare, rest = token[:start], token[start:]
    quoted = b"'%s'" % rest.replace(b"'", b"''") if rest else b""
    return bare + quoted.replace(_OLDEST, _SAME)


class TokenLine(NamedTuple):
    """The tokens of one line, never none, and the line as it stood from the first of them to its end."""

    tokens: tuple[bytes, ...]
    raw: bytes


def read_lines(text: bytes) -> Iterator[TokenLine]:
    """The lines of a message that have tokens. Raises `ProtocolError` for a quote that is never closed,
    and `LimitExceeded` for a line of more than `MOST_TOKENS`."""
    start = _end(_GAP, text, 0)
    while start < len(text):
        end = _line_end(text, start)
        raw = text[start:end]
        yield TokenLine(tuple(_unquote(token) if b"'" in token else token for token in _split(raw)), raw)
        start = _end(_GAP, text, end)


def _line_end(text: bytes, start: int) -> int:
    while True:
        end = _end(_PART, text, start)
        if text[end : end + 1] != b"'":
            return end
        if end == start:
            raise ProtocolError("the reply ends inside quotes")
        start = end


def _end(pattern: re.Pattern[bytes], text: bytes, start: int) -> int:
    """Where what matches from `start` on ends; the patterns match nothing too."""
    found = pattern.match(text, start)
    assert found is not None
    return found.end()


def _split(raw: bytes) -> list[bytes]:
    """The tokens of a line as they are written."""
    few = raw.count(b"'") <= _FEW_QUOTES
    tokens = _TOKEN.findall(raw) if few else list(islice(_among_quotes(raw), MOST_TOKENS + 1))
    if len(tokens) > MOST_TOKENS:
        raise LimitExceeded("line", f"a line of the reply has more than {MOST_TOKENS} tokens")
    return tokens


def _among_quotes(raw: bytes) -> Iterator[bytes]:
    """The same, piece by piece."""
    start = 0
    for found in _QUOTED_OR_BLANKS.finditer(raw):
        if raw[found.start()] == _QUOTE:
            continue
        if start < found.start():
            yield raw[start : found.start()]
        start = found.end()
    if start < len(raw):
        yield raw[start:]


def _unquote(token: bytes) -> bytes:
    """Every other piece is inside quotes; nothing between two of those is a quote inside quotes."""
    pieces = token.split(b"'")
    pieces[2:-1:2] = [piece or b"'" for piece in pieces[2:-1:2]]
    return b"".join(pieces)


def read_text(token: bytes) -> str:
    """A token for a person: UTF-8 where it is valid, else ISO 8859-1."""
    try:
        return token.decode("utf-8")
    except UnicodeDecodeError:
        return token.decode("latin-1")
