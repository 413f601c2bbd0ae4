"""One request and its answer on a connection: h11's machine, kept within our limits. No I/O.

A head that leaves no doubt is written and read at once (`plain`), and h11 never hears of it. Any other is
read line by line under the limits and given to h11 whole, so h11 never holds what follows: a body of known
length, or one that the end of the connection ends, is taken from the connection itself, in bulk. Only chunks
go through h11.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import suppress

import h11

from protocols.connection import Line
from protocols.errors import Disconnected, LimitExceeded, ProtocolError, Refused
from protocols.http.head import Framing, Head, check_head_size, framing_of
from protocols.http.plain import read_plain, write_plain
from protocols.http.request import Request
from protocols.options import Limits
from protocols.wire import Buffer, encode_head, encode_payload

_TOO_LONG = 431  # what h11 would have a server say of more than `max_incomplete_event_size`
_SWITCHING = 101
_BEGINNING = b"HTTP/1."

#: Octets of a request that any system takes in one write: before those are gone no answer can come.
AT_ONCE = 16_384


class Exchange:
    """Send `line` (and a body with `encode_body`, `encode_end`), then `read_head`, then the body.

    Raises `Refused` (S02) for a request that cannot be sent.
    """

    version = "HTTP/1.1"

    def __init__(self, request: Request, limits: Limits) -> None:
        self._request = request
        self._limits = limits
        self._begun: h11.Connection | None = None
        self._smuggled = False
        self._answered: Head | None = None
        self._cut_off = False
        self.ended = False
        line = write_plain(request)
        self.is_plain = line is not None
        self.line = line or encode_head(self._begin(), request.secrets)

    def _begin(self) -> bytes:
        """The head as h11 writes it."""
        request = self._request
        self._begun = h11.Connection(h11.CLIENT, max_incomplete_event_size=self._limits.line)
        try:
            octets = self._begun.send(
                h11.Request(method=request.method, target=request.target, headers=list(request.headers))
            )
        except h11.LocalProtocolError as error:
            raise Refused("S02", f"this cannot be sent as a request: {_without_octets(error)}") from error
        return octets or b""

    @property
    def _machine(self) -> h11.Connection:
        """Told of a plain request only where the answer is not plain."""
        if self._begun is None:
            self._begin()
            self._encode(h11.EndOfMessage())
        assert self._begun is not None
        return self._begun

    def cut_off(self) -> None:
        """Not all of the request went out, for the answer came before: nothing may follow it."""
        self._cut_off = True

    def encode_body(self, octets: bytes) -> Line:
        """A piece of the request's body. Raises `Refused` beyond the length that was announced."""
        return self._encode(h11.Data(data=octets))

    def encode_end(self) -> Line:
        """The request ends here: nothing to send, or the last chunk. Raises `Refused` short of the
        length that was announced."""
        return encode_payload(b"") if self.is_plain else self._encode(h11.EndOfMessage())

    def encode_piece(self, octets: bytes) -> Line:
        """A piece of the request's body; no octets are its end."""
        return self.encode_body(octets) if octets else self.encode_end()

    def _encode(self, event: h11.Data | h11.EndOfMessage) -> Line:
        try:
            return encode_payload(self._machine.send(event) or b"")
        except h11.LocalProtocolError as error:
            raise Refused("S02", f"the request's body is not as long as announced: {error}") from error

    def read_head(self, buffer: Buffer) -> Generator[None, None, Head]:
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
            self._machine.receive_data(b"".join(lines[start:]) + line)
            event = self._next_event()
            if isinstance(event, h11.Response):
                return self._head(event)
            if not isinstance(event, h11.InformationalResponse) or event.status_code == _SWITCHING:
                raise ProtocolError("the answer begins with what is no head")

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

    def _head(self, event: h11.Response) -> Head:
        fields = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in event.headers)
        framing, length = framing_of(self._request.method, event.status_code, fields)
        # Who sends both lengths may be one of two peers who disagree (RFC 9112 6.3): use it once only.
        self._smuggled = {"transfer-encoding", "content-length"} <= {name for name, _ in fields}
        reason = event.reason.decode("latin-1")
        self._answered = Head(event.status_code, reason, fields, framing, length)
        return self._answered

    def take_chunks(self, buffer: Buffer) -> bytes:
        """The data in the octets of a chunked body that are there; `ended` once the last chunk and its
        trailer came. What is behind stays in the buffer.

        Raises `ProtocolError` for what are no chunks, `LimitExceeded` for lines beyond the limits.
        """
        if buffer:  # no octets would mean the end to h11
            self._machine.receive_data(buffer.take())
        data: list[bytes] = []
        while isinstance(event := self._next_event(), h11.Data):
            data.append(bytes(event.data))
        if isinstance(event, h11.EndOfMessage):
            self.ended = True
            if surplus := self._machine.trailing_data[0]:
                buffer.feed(surplus)
            if len(event.headers) > self._limits.lines:
                raise LimitExceeded("lines", f"the trailer has more than {self._limits.lines} fields")
        return b"".join(data)

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
            case Framing.LENGTH if len(buffer) >= (self._answered.length or 0):
                buffer.take(self._answered.length)
                return True
            case Framing.CHUNKED if buffer:
                with suppress(ProtocolError):  # nobody wanted it: the connection is closed, and that is all
                    self.take_chunks(buffer)
                return self.ended
        return self._answered.framing is Framing.NONE
        yield

    @property
    def state(self) -> object:
        """What is kept with the connection for the next one: nothing but that it is in order."""
        return True

    @property
    def reusable(self) -> bool:
        """May the connection serve again once the body has ended? Both sides had to agree."""
        if self._begun is not None and self._begun.our_state is not h11.DONE:
            return False
        return not self._smuggled and not self._cut_off

    def _next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        try:
            return self._machine.next_event()
        except h11.RemoteProtocolError as error:
            if error.error_status_hint == _TOO_LONG:
                limit = self._limits.line
                raise LimitExceeded("line", f"a line between chunks is longer than {limit} octets") from error
            raise ProtocolError(f"this is not HTTP/1.1: {_without_octets(error)}") from error


def _without_octets(error: h11.ProtocolError) -> str:
    """h11's words without the octets that it quotes: they may be a body's, or a secret."""
    return str(error).partition(": b")[0].partition(": bytearray")[0].partition(" (expected")[0]
