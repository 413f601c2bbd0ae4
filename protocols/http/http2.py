"""A request and its response in HTTP/2 frames (RFC 9113), within the limits, without I/O.

The module takes one frame at a time from the buffer, so each frame has a limited size. Bytes after the
response stay in the buffer. The HTTP/2 state machine (`Frames`, from the options) interprets the frames. The
body is not stored in memory: each step emits the bytes of one read from the connection.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import TypeAlias

from protocols.errors import Disconnected, LimitExceeded, ProtocolError, Refused, ResolveError, Truncated
from protocols.http.request import HttpRequest
from protocols.http.response import BodyFraming, ResponseHead, check_head_size
from protocols.options import Frames, Limits
from protocols.step import Send
from protocols.wire import Buffer, encode_frames

#: The size of a frame header in bytes (RFC 9113 4.1), and the default maximum size of a frame's payload in
#: bytes (4.2).
_PREFIX = 9
_MAX_FRAME = 16_384
_GOAWAY = 7
#: The maximum number of consecutive frames without response data. A normal server sends fewer frames. Some
#: denial-of-service attacks send SETTINGS, PING, empty DATA or endless header blocks (CVE-2019-9512 to 9518,
#: CVE-2024-27316).
_IDLE_FRAMES = 1_000
#: The minimum of the size limit for a header section, in bytes. h2 uses the same number.
_HEADER_SECTION = 65_536

#: Header fields that are not sent in HTTP/2: the fields of an HTTP/1.1 connection (RFC 9113 8.2.2), and Host.
#: HTTP/2 sends the host as `:authority`.
_OF_HTTP1 = frozenset({b"connection", b"host", b"keep-alive", b"proxy-connection", b"te", b"upgrade"})
_NAME = re.compile(rb"[-!#$%&'*+.^_`|~0-9a-z]+")
_VALUE = re.compile(rb"[^\x00\r\n]*")
#: A Content-Length with more digits is invalid, as in h11.
_LENGTH = re.compile(rb"[0-9]{1,20}")
_STATUS = re.compile(rb"[1-9][0-9]{2}")

_Fields: TypeAlias = "tuple[tuple[bytes, bytes], ...]"


def header_section(limits: Limits) -> int:
    """Return the maximum size in bytes of a peer's header section, at least a line of maximum length."""
    return max(_HEADER_SECTION, limits.line)


class Http2Exchange:
    """An HTTP/2 request and its response.

    First perform `send_unsent`. Then read the head with `read_head`, and the body with `take_data`
    until `ended` is set. Before each further read, perform `send_unsent`. `frames` belongs to the
    connection, which can be reused.

    Raises:
        Refused: the request cannot be sent (S02, command injection).
        Disconnected: the peer accepts no more requests on the connection.
    """

    version = "HTTP/2"

    def __init__(self, request: HttpRequest, limits: Limits, frames: Frames) -> None:
        self.frames = frames
        self.ended = False
        self.received = 0
        self._method = request.method
        self._limits = limits
        self._secrets = request.secrets
        self._shown = _show_fields(request) if request.secrets else None
        self._head: ResponseHead | None = None
        self._idle = 0
        self._fields = 0
        self._framed = self._unpacked = 0
        self._data: list[bytes] = []
        self._has_goaway = False
        self._fault: ResolveError | None = None
        self._stream = frames.request(
            _make_fields(request), {(n.lower(), value) for n, value in request.secrets}
        )
        self._unsent = frames.take_unsent()

    def send_unsent(self) -> tuple[Send, ...]:
        """Return the step that sends the request, and later acknowledgments and window updates.

        Window updates are part of flow control (backpressure).
        """
        octets, self._unsent = self._unsent + self.frames.take_unsent(), b""
        shown, self._shown = self._shown, None
        return (Send((encode_frames(octets, shown, self._secrets),)),) if octets else ()

    def read_head(self, buffer: Buffer) -> Generator[None, None, ResponseHead | None]:
        """Read the head of the final response, or return None if bytes must be sent first.

        Raises:
            LimitExceeded: the head exceeds a limit.
            ProtocolError: the bytes are not valid HTTP/2.
            Disconnected: the connection ended, or the server aborted the request, before the end of the head.
        """
        while self._head is None:
            if (frame := _take_frame(buffer)) is not None:
                self._read(frame)
                if self._fault is not None and self._head is None:
                    raise self._fault
            elif self._has_unsent():
                return None
            elif buffer.at_end:
                raise Disconnected("the connection ended before the end of the head")
            else:
                yield
        return self._head

    def take_data(self, buffer: Buffer) -> bytes:
        """Return the body bytes of the buffered frames, and set `ended` at the end of the stream.

        The method raises the errors of `read_head`. If the peer aborts the stream after some body bytes, the
        method raises `Truncated`.
        """
        try:
            while not self.ended and self._fault is None and (frame := _take_frame(buffer)) is not None:
                self._read(frame)
        except ResolveError as error:
            self._fault = error
        data, self._data = b"".join(self._data), []
        if self._fault is not None and not data:
            raise self._fault
        return data

    def read_data(self, buffer: Buffer) -> Generator[None, None, bytes | None]:
        """Read the next body bytes, or return None if bytes must be sent first.

        At the end of the body, the result is empty. The method raises the errors of `take_data`.
        """
        while not (octets := self.take_data(buffer)):
            if self.ended:
                return b""
            if self._has_unsent():
                return None
            if buffer.at_end:
                raise self.make_cut_error("the connection ended")
            yield
        return octets

    def skip_body(self, buffer: Buffer) -> Generator[None, None, bool]:
        """Skip an unwanted body without waiting, and return whether the complete body was buffered."""
        try:
            while self.take_data(buffer):
                pass
        except ResolveError:
            return False  # the body is not needed, so an error only closes the connection
        return True
        yield

    @property
    def state(self) -> object:
        """Return the state of the connection for the pool, or None if the connection cannot be reused."""
        return self.frames if self.ended and self._fault is None and not self._has_goaway else None

    def make_cut_error(self, reason: str) -> Disconnected | Truncated:
        """Return the error for an incomplete body."""
        if self.received == 0:
            return Disconnected(f"{reason} before the first byte of the body")
        message = f"{reason} after {self.received} bytes of the body, before its end"
        expected = None if self._head is None else self._head.length
        return Truncated(message, received=self.received, expected=expected)

    def _has_unsent(self) -> bool:
        self._unsent += self.frames.take_unsent()
        return bool(self._unsent)

    def _read(self, frame: bytes) -> None:
        self._idle += 1
        if self._idle > _IDLE_FRAMES:
            raise ProtocolError(f"{_IDLE_FRAMES} frames in a row without a part of the response")
        if frame[3] == _GOAWAY and len(frame) >= _PREFIX + 8:
            # GOAWAY is not passed to the state machine, because the machine would then reject all later
            # frames. Responses in progress still arrive after GOAWAY (6.8).
            self._has_goaway = True
            last = int.from_bytes(frame[_PREFIX : _PREFIX + 4], "big") & 0x7FFF_FFFF
            if last < self._stream:
                self._fault = self.make_cut_error("the server rejected the request (GOAWAY)")
            return
        if self._head is None:
            self._framed += len(frame)
            check_head_size(self._framed, self._limits)
        part = self.frames.read(frame)
        if part.fields is not None:
            self._check_fields(part.fields)
        if part.octets:
            self._add_data(part.octets)
        if part.broken:
            self._fault = self._fault or self.make_cut_error(part.broken)
        elif part.ended:
            self._end()

    def _check_fields(self, fields: _Fields) -> None:
        self._fields += len(fields)
        if self._fields > self._limits.lines + 1:  # 1 for the field `:status`
            raise LimitExceeded("lines", f"the response has more than {self._limits.lines} headers")
        for name, value in fields:
            if len(name) + len(value) + 4 > self._limits.line:  # the size of the field as an HTTP/1.1 line
                raise LimitExceeded("line", f"a field is longer than {self._limits.line} bytes")
            self._unpacked += len(name) + len(value) + 4
        check_head_size(self._unpacked, self._limits)
        if self._head is None:
            self._parse_head(fields)

    def _parse_head(self, fields: _Fields) -> None:
        status = dict(fields).get(b":status", b"")
        pairs = [(name, value) for name, value in fields if not name.startswith(b":")]
        valid = all(_NAME.fullmatch(name) and _VALUE.fullmatch(value) for name, value in pairs)
        valid = valid and all(_LENGTH.fullmatch(value) for name, value in pairs if name == b"content-length")
        if not valid or not _STATUS.fullmatch(status) or status == b"101":
            raise ProtocolError("the response does not begin with a valid head")
        if status.startswith(b"1"):
            return
        shown = tuple((name.decode("latin-1"), value.decode("latin-1").strip(" \t")) for name, value in pairs)
        self._head = ResponseHead(int(status), "", shown)
        self._head.find_framing(self._method)
        self._idle = 0

    def _add_data(self, octets: bytes) -> None:
        if self._head is None or self._head.framing is BodyFraming.NONE:
            raise ProtocolError("the response has a body, although it must not have one")
        self._idle = 0
        self.received += len(octets)
        self._data.append(octets)

    def _end(self) -> None:
        if self._head is None:
            raise ProtocolError("the response ended before its head")
        if self._head.length is not None and self._head.length != self.received:
            self._fault = self.make_cut_error("the stream ended")
        else:
            self.ended = True


def _take_frame(buffer: Buffer) -> bytes | None:
    """Take the next frame if it is complete.

    Raises:
        ProtocolError: the frame is longer than allowed.
    """
    prefix = buffer.peek(_PREFIX)
    length = int.from_bytes(prefix[:3], "big")
    if len(prefix) >= 3 and length > _MAX_FRAME:
        raise ProtocolError("this is not HTTP/2: a frame is longer than allowed")
    if len(prefix) < _PREFIX or len(buffer) < _PREFIX + length:
        return None
    return buffer.take(_PREFIX + length)


def _make_fields(request: HttpRequest) -> _Fields:
    """Convert a request to HTTP/2 header fields (RFC 9113 8.3.1).

    The request target is not changed.

    Raises:
        Refused: a proxy that forwards a field in HTTP/1.1 would write several fields (S02, request smuggling,
            RFC 9113 8.2.1 and 10.3).
    """
    for name, value in request.headers:
        if not _NAME.fullmatch(name.lower()) or not _VALUE.fullmatch(value):
            raise Refused("S02", "the request has a header that HTTP/2 cannot send")
    authority = b"".join(value for name, value in request.headers if name.lower() == b"host")
    return (
        (b":method", request.method),
        (b":scheme", b"https"),
        (b":authority", authority),
        (b":path", request.target),
        *((n.lower(), value) for n, value in request.headers if n.lower() not in _OF_HTTP1),
    )


def _show_fields(request: HttpRequest) -> _Fields:
    hidden = {(name.lower(), value) for name, value in request.secrets}
    return tuple((n, b"****" if (n, value) in hidden else value) for n, value in _make_fields(request))
