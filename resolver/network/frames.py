"""HTTP/2 frames. The h2 library creates and parses the frames. A connection has one request at a time.

Server push is disabled. Flow control limits memory, because the receive window grows only when the caller
receives bytes. Exceptions of h2 are converted to `ResolveError` classes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    DataReceived,
    Event,
    InformationalResponseReceived,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)
from h2.exceptions import (
    DenialOfServiceError,
    H2Error,
    InvalidBodyLengthError,
    NoAvailableStreamIDError,
    TooManyStreamsError,
)
from h2.exceptions import ProtocolError as FramingError
from h2.settings import SettingCodes, Settings
from hpack import HeaderTuple, NeverIndexedHeaderTuple

from protocols.contract import FrameEvent
from protocols.errors import Disconnected, LimitExceeded, ProtocolError, Refused

#: Flow-control window in bytes. A window of 1 MiB allows 100 Mbit/s at a round-trip time of 80 ms
#: (bandwidth-delay product). The default window of 65,535 bytes is too small for this rate.
_WINDOW = 1 << 20
#: Initial flow-control window of a connection in bytes. A SETTINGS frame cannot change this window (RFC 9113
#: section 6.9.2).
_INITIAL_WINDOW = 65_535
_PADDED_FLAG = 0x8
_HEADER_SIZE = 9


class Http2Frames:
    """The HTTP/2 state of one connection; see `protocols.contract.Frames`."""

    def __init__(self, max_header_size: int) -> None:
        self._machine = H2Connection(H2Configuration(client_side=True, header_encoding=None))
        self._machine.local_settings = Settings(
            client=True,
            initial_values={
                SettingCodes.ENABLE_PUSH: 0,
                SettingCodes.INITIAL_WINDOW_SIZE: _WINDOW,
                SettingCodes.MAX_HEADER_LIST_SIZE: max_header_size,
            },
        )
        self._machine.decoder.max_header_list_size = max_header_size
        self._max_header_size = max_header_size
        self._stream = 0
        self._machine.initiate_connection()
        self._machine.increment_flow_control_window(_WINDOW - _INITIAL_WINDOW)

    def request(self, fields: Sequence[tuple[bytes, bytes]], secrets: Collection[tuple[bytes, bytes]]) -> int:
        packed = [
            NeverIndexedHeaderTuple(*field) if field in secrets else HeaderTuple(*field) for field in fields
        ]
        try:
            self._stream = self._machine.get_next_available_stream_id()
            self._machine.send_headers(self._stream, packed, end_stream=True)
        except (TooManyStreamsError, NoAvailableStreamIDError) as error:
            raise Disconnected("the server accepts no further request on this connection") from error
        except H2Error as error:
            raise Refused("S02", "the request cannot be sent over HTTP/2") from error
        return self._stream

    def read(self, frame: bytes) -> FrameEvent:
        try:
            events = self._machine.receive_data(frame)
        except InvalidBodyLengthError as error:
            if error.actual_length < error.expected_length:
                return FrameEvent(octets=_get_data(frame), broken="the stream ended")
            raise ProtocolError("the body is longer than its content-length") from error
        except DenialOfServiceError as error:
            message = f"the response headers are larger than {self._max_header_size} bytes"
            raise LimitExceeded("line", message) from error
        except FramingError as error:  # The error message of h2 may quote bytes of the server.
            raise ProtocolError(f"invalid HTTP/2 data: {type(error).__name__}") from error
        part = FrameEvent()
        for event in events:
            part = self._add_event(part, event)
        return part

    def take_unsent(self) -> bytes:
        return self._machine.data_to_send()

    def _add_event(self, part: FrameEvent, event: Event) -> FrameEvent:
        """Add an h2 event to the result; events of other streams are ignored."""
        if getattr(event, "stream_id", None) != self._stream:
            return part
        match event:
            case ResponseReceived() | InformationalResponseReceived() | TrailersReceived():
                return part._replace(fields=tuple((bytes(n), bytes(v)) for n, v in event.headers))
            case DataReceived():
                self._machine.acknowledge_received_data(event.flow_controlled_length, self._stream)
                return part._replace(octets=part.octets + bytes(event.data))
            case StreamEnded():
                return part._replace(ended=True)
            case StreamReset():
                return part._replace(broken=f"the server reset the stream (error {event.error_code})")
            case _:
                return part


def _get_data(frame: bytes) -> bytes:
    """Return the data of a well-formed DATA frame without the padding (RFC 9113 section 6.1)."""
    padded = frame[4] & _PADDED_FLAG
    return frame[_HEADER_SIZE + 1 : len(frame) - frame[_HEADER_SIZE]] if padded else frame[_HEADER_SIZE:]
