"""The h11 state machine of one request, with the limits and the errors of this package."""

from __future__ import annotations

from typing import TypeAlias

import h11

from protocols.errors import LimitExceeded, ProtocolError, Refused
from protocols.http.request import HttpRequest
from protocols.http.response import SWITCHING
from protocols.options import Limits

_TOO_LONG = 431  # the status code in an h11 error about a head that exceeds `max_incomplete_event_size`
#: The status code, reason phrase, header fields and HTTP version of a response.
Answered: TypeAlias = "tuple[int, str, tuple[tuple[str, str], ...], str]"


class H11Machine:
    """An h11 connection for one request and its response.

    `head` is the request head that h11 wrote. After the last chunk and the trailer section, `ended` is set,
    and `surplus` contains the bytes after the trailer section.

    Raises:
        Refused: the request cannot be sent (S02, command injection).
    """

    def __init__(self, request: HttpRequest, limits: Limits) -> None:
        self._limits = limits
        self._connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=limits.line)
        self.ended = False
        self.surplus = b""
        try:
            head = h11.Request(method=request.method, target=request.target, headers=list(request.headers))
            self.head = self._connection.send(head) or b""
        except h11.LocalProtocolError as error:
            raise Refused("S02", f"the request cannot be sent: {_without_octets(error)}") from error

    def encode(self, octets: bytes) -> bytes:
        """Encode a block of the request body. An empty block ends the request, with the last chunk.

        Raises:
            Refused: the body does not have the announced length.
        """
        try:
            return self._connection.send(h11.Data(data=octets) if octets else h11.EndOfMessage()) or b""
        except h11.LocalProtocolError as error:
            raise Refused("S02", f"the request body does not have the announced length: {error}") from error

    @property
    def has_sent_all(self) -> bool:
        """Return whether the request was encoded completely."""
        return self._connection.our_state is h11.DONE

    def read_head(self, octets: bytes) -> Answered | None:
        """Parse a complete response head, or return None for an interim head (1xx).

        A head with the status 101 (Switching Protocols) is final. h11 accepts the status 101 only if the
        request has the field `Upgrade`.

        Raises:
            ProtocolError: the bytes are not a response head.
        """
        self._connection.receive_data(octets)
        event = self._next_event()
        if isinstance(event, h11.Response) or (
            isinstance(event, h11.InformationalResponse) and event.status_code == SWITCHING
        ):
            fields = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in event.headers)
            version = event.http_version.decode("ascii")
            return event.status_code, event.reason.decode("latin-1"), fields, version
        if not isinstance(event, h11.InformationalResponse):
            raise ProtocolError("the response does not begin with a valid head")
        return None

    def take_chunks(self, octets: bytes) -> bytes:
        """Return the body data in these bytes of a chunked body.

        Raises:
            ProtocolError: the bytes are not chunks.
            LimitExceeded: a line or the trailer exceeds its limit.
        """
        if octets:  # h11 interprets empty bytes as the end of the connection
            self._connection.receive_data(octets)
        data: list[bytes] = []
        while isinstance(event := self._next_event(), h11.Data):
            data.append(bytes(event.data))
        if isinstance(event, h11.EndOfMessage):
            self.ended = True
            self.surplus = self._connection.trailing_data[0]
            if len(event.headers) > self._limits.lines:
                raise LimitExceeded("lines", f"the trailer has more than {self._limits.lines} fields")
        return b"".join(data)

    def _next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        try:
            return self._connection.next_event()
        except h11.RemoteProtocolError as error:
            if error.error_status_hint == _TOO_LONG:
                limit = self._limits.line
                raise LimitExceeded("line", f"a line between chunks is longer than {limit} bytes") from error
            raise ProtocolError(f"this is not HTTP/1.1: {_without_octets(error)}") from error


def _without_octets(error: h11.ProtocolError) -> str:
    """Return h11's error message without the quoted bytes, which may be data or a secret."""
    return str(error).partition(": b")[0].partition(": bytearray")[0].partition(" (expected")[0]
