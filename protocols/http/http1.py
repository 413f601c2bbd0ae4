"""One HTTP/1 request and its answer on a connection, without I/O, within our limits.

An unambiguous head is written and read in one step, and h11 is not even imported. Any other head is read line
by line under the limits and given to h11 as a whole, so h11 never holds the bytes that follow. A body of
known length, or one that the end of the connection ends, is taken from the connection itself, in bulk. Only
chunks pass through h11.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import suppress
from typing import TYPE_CHECKING

from protocols.contract import Line
from protocols.errors import Disconnected, LimitExceeded, ProtocolError
from protocols.http.request import HttpRequest
from protocols.http.response import BodyFraming, ResponseHead, check_head_size, framing_of
from protocols.options import Limits
from protocols.wire import Buffer, encode_head, encode_head_lines, encode_payload

if TYPE_CHECKING:
    from protocols.http.h11_machine import Answered, H11Machine

# Plain heads: the ones of most requests and answers, each written or read in one step.
#
# Plain heads are a subset of the heads that h11 accepts, with the same meaning: each field once, printable
# ASCII, no folded line, CR LF at each line's end, no framing but one Content-Length, and a connection that
# may be reused. h11 judges everything else: nothing is looser here, and a doubt costs only time.

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


_BEGINNING = b"HTTP/1."

#: Octets of a request that any system takes in one write: before those are gone no answer can come.
AT_ONCE = 16_384


class Http1Exchange:
    """Send `line` (and a body with `encode_body`, `encode_end`), then `read_head`, then the body.

    Raises `Refused` (S02) for a request that cannot be sent.
    """

    version = "HTTP/1.1"

    def __init__(self, request: HttpRequest, limits: Limits) -> None:
        self._request = request
        self._limits = limits
        self._begun: H11Machine | None = None
        self._answered: ResponseHead | None = None
        self._cut_off = False
        self.ended = False
        line = write_plain(request)
        self.is_plain = line is not None
        self.line = line or encode_head(self._begin().head, request.secrets)

    def _begin(self) -> H11Machine:

        from protocols.http.h11_machine import H11Machine  # imports h11, 25 ms; a plain head needs none

        self._begun = H11Machine(self._request, self._limits)
        return self._begun

    @property
    def _machine(self) -> H11Machine:
        """Told of a plain request only where the answer is not plain."""
        if self._begun is None:
            self._begin().encode_end()
        assert self._begun is not None
        return self._begun

    def cut_off(self) -> None:
        """Not all of the request went out, for the answer came before: nothing may follow it."""
        self._cut_off = True

    def encode_body(self, octets: bytes) -> Line:
        """A piece of the request's body. Raises `Refused` beyond the length that was announced."""
        return encode_payload(self._machine.encode(octets))

    def encode_end(self) -> Line:
        """The request ends here: nothing to send, or the last chunk. Raises `Refused` short of the
        length that was announced."""
        return encode_payload(b"" if self.is_plain else self._machine.encode_end())

    def encode_piece(self, octets: bytes) -> Line:
        """A piece of the request's body; no octets are its end."""
        return self.encode_body(octets) if octets else self.encode_end()

    def read_head(self, buffer: Buffer) -> Generator[None, None, ResponseHead]:
        """A reader for the head of the final answer; those of interim ones (1xx) are read over.

        Raises `LimitExceeded` for a line, a number of lines or octets in all beyond the limits,
        `ProtocolError` for what is no head, `Disconnected` when the connection ends first.
        """
        while not buffer and not buffer.at_end:
            yield
        if self.is_plain and (head := read_plain(buffer, self._request.method, self._limits)) is not None:
            self._answered = head
            return head
        lines: list[bytes] = []
        octets = 0
        while True:
            start = len(lines)
            yield from self._check_beginning(buffer)
            while (line := (yield from self._read_line(buffer))) not in (b"\r\n", b"\n"):
                lines.append(line)
                octets += len(line)
                check_head_size(octets, self._limits)
                if len(lines) > self._limits.lines + 1:  # the status line is no header
                    raise LimitExceeded("lines", f"the answer has more than {self._limits.lines} headers")
            answered = self._machine.read_head(b"".join(lines[start:]) + line)
            if answered is not None:
                return self._head(answered)

    def _check_beginning(self, buffer: Buffer) -> Generator[None, None, None]:
        """Another protocol or version shows with the first octets, which may never end a line; HTTP/2
        has no status line (RFC 9113 8.3.2)."""
        while (begin := buffer.peek(len(_BEGINNING))) != _BEGINNING:
            if not _BEGINNING.startswith(begin):
                raise ProtocolError("the answer begins with what is no status line")
            if buffer.at_end:
                raise Disconnected("the connection ended before the end of the head")
            yield

    def _read_line(self, buffer: Buffer) -> Generator[None, None, bytes]:
        limit = self._limits.line
        while (index := buffer.find(b"\n", limit)) < 0:
            if len(buffer) >= limit:
                raise LimitExceeded("line", f"a line of the head is longer than {limit} octets")
            if buffer.at_end:
                raise Disconnected("the connection ended before the end of the head")
            yield
        return buffer.take(index + 1)

    def _head(self, answered: Answered) -> ResponseHead:
        status, reason, fields, version = answered
        framing, length = framing_of(self._request.method, status, fields, version)
        self._answered = ResponseHead(status, reason, fields, framing, length)
        return self._answered

    def take_chunks(self, buffer: Buffer) -> bytes:
        """The data in the octets of a chunked body that are there; `ended` once the last chunk and its
        trailer came. What is behind stays in the buffer.

        Raises `ProtocolError` for what are no chunks, `LimitExceeded` for lines beyond the limits.
        """
        machine = self._machine
        data = machine.take_chunks(buffer.take())
        self.ended = machine.ended
        if machine.surplus:
            buffer.feed(machine.surplus)
        return data

    def read_chunks(self, buffer: Buffer) -> Generator[None, None, bytes]:
        """A reader for the next octets of a chunked body: what the octets that are there make, none at its
        end. Raises `Disconnected` where the connection ends first, and what `take_chunks` does."""
        while not self.ended:
            if buffer and (octets := self.take_chunks(buffer)):
                return octets
            if not self.ended:
                if buffer.at_end:
                    raise Disconnected("the connection ended")
                yield
        return b""

    def read_over(self, buffer: Buffer) -> Generator[None, None, bool]:
        """A reader for a body that nobody wants: was all of it there? It waits for nothing."""
        assert self._answered is not None
        match self._answered.framing:
            case BodyFraming.LENGTH if len(buffer) >= (self._answered.length or 0):
                buffer.take(self._answered.length)
                return True
            case BodyFraming.CHUNKED if buffer:
                with suppress(ProtocolError):  # nobody wanted it: the connection is closed, and that is all
                    self.take_chunks(buffer)
                return self.ended
        return self._answered.framing is BodyFraming.NONE
        yield

    @property
    def state(self) -> object:
        """What is kept with the connection for the next one: nothing but that it is in order."""
        return True

    @property
    def reusable(self) -> bool:
        """May the connection serve again once the body has ended? Both sides had to agree."""
        said_all = self._begun is None or self._begun.said_all
        return said_all and not self._cut_off
