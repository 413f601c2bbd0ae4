"""Heads that leave no doubt, each written or read in one step: what most requests and answers have.

What is plain is part of what h11 takes, and is the same to both: each field once, printable ASCII, no line
folded, CR LF behind each, nothing about the framing but one Content-Length, and a connection that may serve
again. `exchange` has h11 judge whatever else there is: nothing is looser here, and a doubt costs only time.
"""

from __future__ import annotations

import re

from protocols.connection import Line
from protocols.http.head import BodyFraming, ResponseHead, framing_of
from protocols.http.request import HttpRequest
from protocols.options import Limits
from protocols.wire import Buffer, encode_head_lines

_TOKEN = r"[-!#$%&'*+.^_`|~0-9A-Za-z]+"
#: As the fields are written, no octet can be of two parts: what does not match costs no more than what does.
_VALUE = r"(?:[!-~]+(?:[ \t]+[!-~]+)*)?"

#: The lines of a request that says nothing of its framing or its connection.
_REQUEST = re.compile(
    rf"(?:GET|HEAD) [!-~]+ HTTP/1\.1\nHost: {_VALUE}(?:\n"
    r"(?:(?i:connection: keep-alive)|"
    r"(?!(?i:connection|content-length|expect|host|trailer|transfer-encoding|te|upgrade):)"
    rf"{_TOKEN}: {_VALUE}))*".encode("ascii")
)
_FIELDS = re.compile(rf"({_TOKEN}):[ \t]*({_VALUE})\r\n")
_ANSWER = re.compile(rf"HTTP/1\.1 ([2-5][0-9][0-9]) ([ -~]*)\r\n(?:{_TOKEN}:[ \t]*{_VALUE}\r\n)+\r\n")

#: Digits of a length that no file has more of.
_LONGEST_LENGTH = 19


def write_plain(request: HttpRequest) -> Line | None:
    """The head of a request without a body, which is the whole of it; None for any other, and for one of
    which more is to be said."""
    if request.body != b"":
        return None
    lines = [b"%b %b HTTP/1.1" % (request.method, request.target)]
    lines += [b"%b: %b" % field for field in request.headers]
    return encode_head_lines(lines, request.secrets) if _REQUEST.fullmatch(b"\n".join(lines)) else None


def read_plain(buffer: Buffer, method: bytes, limits: Limits) -> ResponseHead | None:
    """Take the head of an answer to a plain request, which says how long its body is. None, and nothing is
    taken, where it is not there yet or not plain, or could be beyond a limit."""
    octets = buffer.peek_head(limits.line)
    if not octets.isascii() or not (found := _ANSWER.fullmatch(text := octets.decode("ascii"))):
        return None
    names, values = zip(*_FIELDS.findall(text, found.end(2)), strict=True)
    fields = tuple(zip(map(str.lower, names), values, strict=True))
    named = dict(fields)
    if not len(named) == len(fields) <= limits.lines or not _is_clear(named):
        return None
    status = int(found[1])
    framing, length = framing_of(method, status, fields)
    if framing is BodyFraming.CLOSE:
        return None
    buffer.take(len(octets))
    return ResponseHead(status, found[2], fields, framing, length)


def _is_clear(named: dict[str, str]) -> bool:
    """Does it say where the body ends, in one way, and that the connection goes on?"""
    if "transfer-encoding" in named:
        return False
    if "connection" in named and named["connection"].lower() != "keep-alive":
        return False
    length = named.get("content-length", "0")
    return length.isdigit() and len(length) <= _LONGEST_LENGTH
