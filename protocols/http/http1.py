"""An HTTP/1 request and its response on a connection, without I/O, within the limits.

A plain head (the usual form, defined below) is written and parsed in one step, without an import of h11. Any
other head is read line by line within the limits, and then passed to h11 as one block. Only chunked bodies
pass through h11. All other bodies are copied in bulk from the connection.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING

from protocols.contract import Line
from protocols.errors import Disconnected, LimitExceeded, ProtocolError
from protocols.http.request import Headers, HostFields, HttpRequest
from protocols.http.response import BodyFraming, ResponseHead, check_head_size
from protocols.options import Limits
from protocols.wire import Buffer, begin_head, encode_head, encode_payload, join_head

if TYPE_CHECKING:
    from protocols.http.h11_machine import Answered, H11Machine

# Fast encoding and parsing of plain heads, the form of most heads.
#
# Plain heads are a subset of the heads that h11 accepts, with the same meaning. Each field occurs once, in
# printable ASCII without line folding, and each line ends in CR LF. The only framing field is one
# Content-Length, and the connection can be reused. The checks here are at least as strict as those of h11.
# h11 parses all other heads, more slowly.

_TOKEN = r"[-!#$%&'*+.^_`|~0-9A-Za-z]+"
#: The pattern of a field value without surrounding whitespace. Here and in `_ANSWER`, a value has one start,
#: and only one end before CR LF. Therefore a mismatch takes linear time, like a match (ReDoS).
_VALUE = r"(?:[!-~][\t -~]*(?<![\t ]))?"

_START = re.compile(rb"(?:GET|HEAD) [!-~]+ HTTP/1\.1")
#: The fields of a request, without framing fields. The only accepted `Connection` field is keep-alive.
_REQUEST_FIELDS = re.compile(
    rf"Host: {_VALUE}\r\n(?:"
    r"(?:(?i:connection: keep-alive)|"
    r"(?!(?i:connection|content-length|expect|host|trailer|transfer-encoding|te|upgrade):)"
    rf"{_TOKEN}: {_VALUE})\r\n)*\r\n".encode("ascii")
)
_ANSWER = re.compile(
    rf"HTTP/1\.1 ([2-5][0-9][0-9]) ([ -~]*)\r\n((?:{_TOKEN}:(?:[\t -~]*(?<![\t ])|[ \t]+)\r\n)+)\r\n"
)
#: A field of a head that `_ANSWER` matches.
_FIELDS = re.compile(r"([^:]+):[ \t]*([^\r]*)\r\n")
#: A Content-Length. A length with more digits exceeds every file size.
_LENGTH = re.compile(r"[0-9]{1,19}")


def write_plain(request: HttpRequest, secrets: Headers) -> Line | None:
    """Return the head of a plain request, which is the complete request, or None for any other request."""
    start = b"%b %b HTTP/1.1" % (request.method, request.target)
    if request.body != b"" or not _START.fullmatch(start):
        return None
    write = _write_host_fields if type(request.headers) is HostFields else _write_fields
    fields = write(request.headers, secrets)
    return None if fields is None else begin_head(start, fields)


def _write_fields(headers: Headers, secrets: Headers) -> Line | None:
    lines = join_head([*map(b": ".join, headers)])
    return encode_head(lines, secrets) if _REQUEST_FIELDS.fullmatch(lines) else None


_write_host_fields = lru_cache(maxsize=256)(_write_fields)


def read_plain(buffer: Buffer, method: bytes, limits: Limits) -> ResponseHead | None:
    """Parse the head of a response to a plain request, with a known body length.

    The result is `None` for a head that is incomplete, not plain, or possibly above a limit. If the result is
    `None`, no bytes are consumed.
    """
    text = buffer.peek_head(limits.line)
    if (match := _ANSWER.fullmatch(text)) is None:
        return None
    fields = tuple([(name.lower(), value) for name, value in _FIELDS.findall(match[3])])
    head = ResponseHead(int(match[1]), match[2], fields)
    first = head.first
    if not len(first) == len(fields) <= limits.lines or "transfer-encoding" in first:
        return None
    if first.get("connection", "keep-alive").lower() != "keep-alive":
        return None
    if _LENGTH.fullmatch(first.get("content-length", "0")) is None:
        return None
    head.find_framing(method)
    if head.framing is BodyFraming.CLOSE:
        return None
    del buffer[: len(text)]
    return head


_PREFIX = b"HTTP/1."

#: The maximum size in bytes of a request that every operating system accepts in one write. A response to a
#: request of at most this size cannot arrive before the complete request was sent.
MAX_SINGLE_WRITE = 16_384


class Http1Exchange:
    """An HTTP/1.1 request and its response on one connection.

    First send `line`, and a body with `encode_piece`. Then read the head with `read_head`. Finally read the
    body. `secrets` are the secret fields of the request. Set `is_cut_off` if the response came before the
    complete request was sent: the connection cannot be reused.

    Raises:
        Refused: the request cannot be sent (S02).
    """

    #: The HTTP version of the response.
    version = "HTTP/1.1"

    def __init__(self, request: HttpRequest, limits: Limits) -> None:
        self._request = request
        self._limits = limits
        self._h11: H11Machine | None = None
        self._response: ResponseHead | None = None
        self.is_cut_off = False
        self.ended = False
        self.secrets = request.secrets
        line = write_plain(request, self.secrets)
        self.is_plain = line is not None
        self.line = line or encode_head(self._machine.head, self.secrets)

    @property
    def _machine(self) -> H11Machine:
        """Return the h11 machine; a plain request needs it only if the response is not plain."""
        if self._h11 is None:
            # lazy import: h11 takes 25 ms to import, and a plain head does not need h11
            from protocols.http.h11_machine import H11Machine

            self._h11 = H11Machine(self._request, self._limits)
            if self.is_plain:
                self._h11.encode(b"")
        return self._h11

    def encode_piece(self, octets: bytes) -> Line:
        """Encode a block of the request body. An empty block ends the body, as in `H11Machine.encode`.

        Raises:
            Refused: the body does not have the announced length.
        """
        return encode_payload(b"" if self.is_plain and not octets else self._machine.encode(octets))

    def read_head(self, buffer: Buffer) -> Generator[None, None, ResponseHead]:
        """Read the head of the final response, after any interim responses (1xx).

        Raises:
            LimitExceeded: a line, the number of lines or the total size exceeds its limit.
            ProtocolError: the bytes are not a response head.
            Disconnected: the connection ended before the end of the head.
        """
        while not buffer and not buffer.at_end:
            yield
        if self.is_plain and (head := read_plain(buffer, self._request.method, self._limits)) is not None:
            self._response = head
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
                if len(lines) > self._limits.lines + 1:  # 1 for the status line
                    raise LimitExceeded("lines", f"the response has more than {self._limits.lines} headers")
            response = self._machine.read_head(b"".join(lines[start:]) + line)
            if response is not None:
                return self._head(response)

    def _check_beginning(self, buffer: Buffer) -> Generator[None, None, None]:
        """Check whether the first bytes belong to another protocol or HTTP version.

        A peer with another protocol may never send a line end, and the client would wait until the timeout.
        HTTP/2 has no status line (RFC 9113 8.3.2).
        """
        while (begin := buffer.peek(len(_PREFIX))) != _PREFIX:
            if not _PREFIX.startswith(begin):
                raise ProtocolError("the response does not begin with a status line")
            if buffer.at_end:
                raise Disconnected("the connection ended before the end of the head")
            yield

    def _read_line(self, buffer: Buffer) -> Generator[None, None, bytes]:
        limit = self._limits.line
        while (index := buffer.search(b"\n", limit)) < 0:
            if len(buffer) >= limit:
                raise LimitExceeded("line", f"a line of the head is longer than {limit} bytes")
            if buffer.at_end:
                raise Disconnected("the connection ended before the end of the head")
            yield
        return buffer.take(index + 1)

    def _head(self, response: Answered) -> ResponseHead:
        status, reason, fields, version = response
        self.version = f"HTTP/{version}"
        self._response = ResponseHead(status, reason, fields)
        self._response.find_framing(self._request.method, version)
        return self._response

    def take_chunks(self, buffer: Buffer) -> bytes:
        """Decode the complete chunks in the buffer.

        `ended` is set after the last chunk and the trailer. Bytes after the trailer stay in the buffer.

        Raises:
            ProtocolError: the bytes are not chunks.
            LimitExceeded: a line exceeds the limit.
        """
        machine = self._machine
        data = machine.take_chunks(buffer.take())
        self.ended = machine.ended
        if machine.surplus:
            buffer.feed(machine.surplus)
        return data

    def read_chunks(self, buffer: Buffer) -> Generator[None, None, bytes]:
        """Read the next data of a chunked body, or an empty value at the end of the body.

        Raises:
            Disconnected: the connection ended before the last chunk.
            ProtocolError: the bytes are not chunks.
            LimitExceeded: a line exceeds the limit.
        """
        while not self.ended:
            if buffer and (octets := self.take_chunks(buffer)):
                return octets
            if not self.ended:
                if buffer.at_end:
                    raise Disconnected("the connection ended")
                yield
        return b""

    def skip_body(self, buffer: Buffer) -> Generator[None, None, bool]:
        """Skip an unwanted body without waiting, and return whether the complete body was buffered."""
        assert self._response is not None
        match self._response.framing:
            case BodyFraming.LENGTH if len(buffer) >= (self._response.length or 0):
                buffer.take(self._response.length)
                return True
            case BodyFraming.CHUNKED if buffer:
                with suppress(ProtocolError):  # the body is unwanted, so an error only closes the connection
                    self.take_chunks(buffer)
                return self.ended
        return self._response.framing is BodyFraming.NONE
        yield

    @property
    def state(self) -> object:
        """Return the state for the pool, or None if client or server excludes reuse (keep-alive)."""
        has_sent_all = self._h11 is None or self._h11.has_sent_all
        return True if has_sent_all and not self.is_cut_off else None
