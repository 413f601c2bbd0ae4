"""One request and its answer on a connection: h11's machine, kept within our limits. No I/O.

A head that leaves no doubt is written and read at once (`plain`), and h11 never hears of it: it is not even
imported. Any other is read line by line under the limits and given to h11 (`machine`) whole, so h11 never
holds what follows: a body of known length, or one that the end of the connection ends, is taken from the
connection itself, in bulk. Only chunks go through h11.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import suppress
from typing import TYPE_CHECKING

from protocols.connection import Line
from protocols.errors import Disconnected, LimitExceeded, ProtocolError
from protocols.http.head import BodyFraming, ResponseHead, check_head_size, framing_of
from protocols.http.plain import read_plain, write_plain
from protocols.http.request import HttpRequest
from protocols.options import Limits
from protocols.wire import Buffer, encode_head, encode_payload

if TYPE_CHECKING:
    from protocols.http.machine import Answered, H11Machine

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
        from protocols.http.machine import H11Machine  # brings h11, and what is plain needs none

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
