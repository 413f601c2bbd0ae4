"""ARDP, the datagram protocol of Prospero: packets, server addresses, and one request with its reply.

`ArdpExchange` is a sans-I/O state machine without a clock (protocol page, section 4). Each method takes the
current time, and returns the actions to perform: datagrams to send, or a destination address to switch to.
`deadline` is the time of the driver's next call if no datagram arrives. If an acknowledgment is due,
`deadline` is in the past. The driver therefore sends the acknowledgment after it has read all received
packets.

To reject spoofed packets, the client checks two fields of a packet. The source address must be an address of
the server, and the connection id must be the id of the exchange. The source port is not checked, and the two
bytes of the connection id may be swapped. An exchange times out after `patience` seconds without progress,
even if the server asks the client to wait longer (idle timeout).
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from protocols.contract import DatagramAction, Line, RedirectAddress, SwitchAddress
from protocols.errors import Declined, LimitExceeded, Refused, TimedOut
from protocols.wire import encode_datagram, split_message

# The datagram of ARDP version 0 (protocol page, section 2). A header of variable length precedes the text.
#
# A sender may omit fields at the end of the header. A missing or truncated field has its default value. The
# first byte shows whether a datagram has another version or format (section 3 for version 1). The client
# ignores datagrams of another version. One datagram is an exception: the list of the supported versions.

D = TypeVar("D")

#: The maximum size of the text in a packet of the request, in bytes.
MAX_TEXT = 1250

_MAX_HEADER = 31
_CONTROL = 0  # the packet number of a control packet, which is not part of the message
_ACKNOWLEDGE = 0x80
_SEQUENCED_CONTROL = 0x40
_CANCEL = b"\0\0\0\1"  # the header fields of a cancel packet: wait 0 (2 bytes), flags 0, option 1


class ArdpOption(enum.IntEnum):
    """The options in byte 12 of the header that a client must support."""

    NONE = 0
    REFUSED = 1
    SET_RECEIVED = 2
    REDIRECT = 4
    REDIRECT_LASTING = 5
    BAD_VERSION = 8
    QUEUE = 254


@dataclass(frozen=True, slots=True)
class ArdpPacket:
    """A packet of ARDP version 0.

    Attributes:
        received_through: The number of the last packet before the first gap in the packets that the sender
            received, or None.
        wait: The number of seconds that the server asks the client to wait, or None.
        data: The data of the option.
        text: The segment of the message in the packet. A control packet with a sequence number has an empty
            text.
    """

    connection: int = 0
    number: int = 1
    total: int = 1
    received_through: int | None = None
    wait: int | None = None
    acknowledge: bool = False
    option: int = ArdpOption.NONE
    data: bytes = b""
    text: bytes = b""

    @property
    def is_control(self) -> bool:
        return self.number == _CONTROL


class SupportedVersions(NamedTuple):
    """The ARDP versions of a server that does not support version 0."""

    versions: tuple[int, ...]


def decode_packet(datagram: bytes) -> ArdpPacket | SupportedVersions | None:
    """Decode a datagram, or return None for a datagram that the client ignores.

    The client ignores an empty datagram, a datagram with a truncated header, a datagram of version 1 or
    later, and plain text.
    """
    length = datagram[0] if datagram else 32
    if length == 0:
        return SupportedVersions(tuple(datagram[1:]))
    if length > _MAX_HEADER or length > len(datagram):
        return None
    return _decode(datagram[:length], datagram[length:])


def _decode(header: bytes, text: bytes) -> ArdpPacket:
    flags = header[11] if len(header) > 11 else 0
    data = header[13 + _flag_data(header, flags) :]
    return ArdpPacket(
        connection=_number(header, 1, 0),
        number=_number(header, 3, 1),
        total=_number(header, 5, 0 if len(header) >= 5 else 1),
        received_through=_number(header, 7, None),
        wait=_number(header, 9, None),
        acknowledge=bool(flags & _ACKNOWLEDGE),
        option=header[12] if len(header) > 12 else ArdpOption.NONE,
        data=data,
        text=b"" if flags & _SEQUENCED_CONTROL else text,
    )


def _number(header: bytes, start: int, default: D) -> int | D:
    octets = header[start : start + 2]
    return int.from_bytes(octets) if len(octets) == 2 else default


def _flag_data(header: bytes, flags: int) -> int:
    """Return the length of the header fields that `flags` announces, before the option's data."""
    address = 2 + sum(header[14:15]) if flags & 0x01 else 0
    return address + 2 * (flags >> 1 & 0x07).bit_count()


def decode_redirect(data: bytes) -> tuple[str, int] | None:
    """Return the IP address and the port of a redirect, or None if the address or the port is missing."""
    if len(data) < 6:
        return None
    return ".".join(str(octet) for octet in data[:4]), int.from_bytes(data[4:6])


def decode_queue(data: bytes) -> str:
    """Describe the client's position in the server's queue, or return an empty text."""
    flags, parts, at = data[0] if data else 0, [], 1
    if flags & 0x01 and len(data) >= at + 2:
        parts.append(f"position {int.from_bytes(data[at : at + 2])} in the queue")
        at += 2
    if flags & 0x02 and len(data) >= at + 4:
        parts.append(f"{int.from_bytes(data[at : at + 4])} s left")
    return ", ".join(parts)


def encode_piece(
    connection: int, number: int, total: int, received_through: int, piece: Line, *, acknowledge: bool
) -> Line:
    """Encode a packet of a request. If `acknowledge` is set, the packet requests an acknowledgment."""
    rest = b"\0\0" + bytes((_ACKNOWLEDGE,)) if acknowledge else b""
    return encode_datagram(_header(connection, number, total, received_through, rest), piece)


def encode_acknowledgment(connection: int, received_through: int) -> Line:
    """Encode an acknowledgment of all packets of the reply up to number `received_through`."""
    return encode_datagram(_header(connection, _CONTROL, 0, received_through))


def encode_cancel(connection: int) -> Line:
    """Encode a cancel packet, which tells the server that the client no longer waits."""
    return encode_datagram(_header(connection, _CONTROL, 0, 0, _CANCEL))


def _header(connection: int, number: int, total: int, received_through: int, rest: bytes = b"") -> bytes:
    """Encode a header. `rest` has the encoded fields that follow the field received-through."""
    fields = (connection, number, total, received_through)
    header = b"".join(field.to_bytes(2) for field in fields) + rest
    return (1 + len(header)).to_bytes(1) + header


# The IP addresses of a server, with the selection of a working address (Happy Eyeballs, RFC 8305).
#
# UDP has no handshake. Only a response shows that an address works. If an address does not respond within a
# delay, the request is also sent to the next address (rule S09, DNS pinning). After the first response, the
# client accepts only the source address of this response. A multihomed host may respond from any of its
# addresses (protocol page 4.6).

#: The delay in seconds before the request is also sent to the next address (RFC 8305 section 5).
ATTEMPT_DELAY = 0.25

_NEVER = float("inf")


class CandidateAddresses:
    """The addresses of a server in order of preference, at least one.

    Attributes:
        requested: The addresses to which the request was sent.
        next_at: The time at which to send the request to the next address.
        is_settled: Whether the address is chosen, for example after the first response.
    """

    def __init__(self, addresses: Sequence[str]) -> None:
        first, *rest = addresses
        self.requested = [first]
        self._untried = rest
        self.is_settled = not rest
        self.next_at = _NEVER

    def begin(self, now: float) -> None:
        self.next_at = now + ATTEMPT_DELAY if self._untried else _NEVER

    def request_next(self, now: float) -> str:
        """Return the next address to which the request is sent."""
        address = self._untried.pop(0)
        self.requested.append(address)
        self.begin(now)
        return address

    def accepts(self, address: str) -> bool:
        return address in self.requested or address in self._untried

    def settle(self, address: str) -> None:
        """Select `address`, because a response came from this address."""
        self.requested, self._untried, self.is_settled, self.next_at = [address], [], True, _NEVER

    def lose(self, address: str, now: float) -> bool:
        """Remove an unreachable address, and return whether another address was requested or is due now."""
        self.requested = [candidate for candidate in self.requested if candidate != address]
        if self._untried:
            self.next_at = now
        return bool(self.requested or self._untried)


#: The maximum number of unacknowledged packets in transit (the send window).
WINDOW = 16
#: The maximum number of redirects of one request.
MAX_REDIRECTS = 5

_NOW = float("-inf")


@dataclass(frozen=True, slots=True)
class RetransmitTiming:
    """The retransmission schedule of a request (exponential backoff).

    The defaults are the values of old clients. If a network loses 30 % of the datagrams in each direction,
    one exchange in 15 fails with these defaults.

    Attributes:
        first: The delay before the first retransmission, in seconds. Each further delay is twice as long.
        retries: The maximum number of retransmissions. None means that only the idle timeout ends them.
        longest: The maximum delay, in seconds.
    """

    first: float = 4.0
    retries: int | None = 3
    longest: float = float("inf")

    def pauses(self, patience: float) -> Iterator[float]:
        """Yield the delays between transmissions, in seconds, for a server that does not respond."""
        timeout, sent = self.first, 0
        while patience > 0 and (self.retries is None or sent <= self.retries):
            yield min(timeout, patience)
            patience -= timeout
            timeout, sent = min(2 * timeout, max(self.longest, self.first)), sent + 1


_DEFAULT_TIMING = RetransmitTiming()

#: A schedule with sixteen transmissions in a minute. If a network loses 30 % of the datagrams in each
#: direction, one exchange in 40,000 fails.
PERSISTENT = RetransmitTiming(first=2.0, retries=None, longest=4.0)


class ArdpExchange:
    """A request and its reply. See `protocols.contract.DatagramExchange`.

    The state of an exchange has three parts:

    - `_Request`: the packets of the request. At most a window of packets is in transit. An acknowledgment of
      the server (`received_through`) advances the window.
    - `_Reply`: the packets of the reply, which may arrive in any order. The reply is complete when all
      packets up to the announced total have arrived.
    - Timers: `_resend_at` is the time of the next retransmission, `_idle_end` the end of the idle timeout.
      Both timers restart on progress.

    `_owes_ack` is set while the client must send an acknowledgment.

    Args:
        message: the request.
        connection: an unpredictable connection id from 1 to 65,535, never used before on the same socket.
        addresses: the addresses of the server. The socket sends to the first address. The other addresses are
            used if the first address does not respond.
        patience: the idle timeout, in seconds without progress.
        silence: the maximum time before the first packet of the server, at most `patience`.
        max_size: the maximum size of the reply, in bytes.
        timing: the retransmission schedule.
        destination: the host and port from an earlier redirect or response. They replace `addresses`.

    Attributes:
        redirect: the last redirect of the server, or None without a redirect.
        has_answered: whether a packet of the server has arrived.

    Every method with the argument `now` can raise these exceptions:

    - `TimedOut`: the idle timeout has expired.
    - `Declined`: the server refused the request, or does not support ARDP version 0.
    - `Refused` (S10, redirects): the server sent too many redirects.
    - `LimitExceeded`: the reply is larger than `max_size` bytes.
    """

    def __init__(
        self,
        message: Line,
        connection: int,
        addresses: Sequence[str],
        *,
        patience: float,
        max_size: int,
        silence: float = float("inf"),
        timing: RetransmitTiming = _DEFAULT_TIMING,
        destination: RedirectAddress | SwitchAddress | None = None,
    ) -> None:
        self._request = _Request(connection, split_message(message, MAX_TEXT))
        self._reply = _Reply(max_size)
        self._ids = {connection, connection >> 8 | (connection & 0xFF) << 8}
        self._connection = connection
        self._destination = () if destination is None else (destination,)
        self._candidates = CandidateAddresses(addresses if destination is None else (destination.address,))
        self._patience = patience
        self._silence = min(silence, patience)
        self._timing = timing
        self._timeout = timing.first
        self._retries = timing.retries
        self._wait = 0
        self._resend_at = 0.0
        self._idle_end = 0.0
        self._owes_ack = False
        self._redirects = 0
        self._queue = ""
        self.redirect: RedirectAddress | None = None
        self.has_answered = False

    @property
    def packets(self) -> list[Line]:
        """Return all packets of the request, without requests for acknowledgments."""
        return self._request.packets

    @property
    def complete(self) -> bool:
        """Return whether the reply has arrived completely and no acknowledgment is due."""
        return self._reply.complete and not self._owes_ack

    @property
    def pieces(self) -> list[bytes]:
        """Return the texts of the packets of the reply, in order."""
        return self._reply.pieces

    @property
    def has_begun(self) -> bool:
        """Return whether at least one packet of the reply has arrived."""
        return self._reply.has_begun

    @property
    def deadline(self) -> float:
        """Return the time of the next call of `wake`, if no datagram arrives earlier."""
        return _NOW if self._owes_ack else min(self._resend_at, self._idle_end, self._candidates.next_at)

    def begin(self, now: float) -> list[DatagramAction]:
        """Start the exchange, and return the packets in the first window of the request."""
        self._idle_end = now + self._silence
        self._restart(now)
        self._candidates.begin(now)
        return [*self._destination, *self._request.window()]

    def lose(self, address: str, now: float) -> bool:
        """Remove an unreachable address, and return whether another address was requested or is due now."""
        return self._candidates.lose(address, now)

    def cancel(self) -> Line:
        """Return the cancel packet, after which the server does not send the reply."""
        return encode_cancel(self._connection)

    def wake(self, now: float) -> list[DatagramAction]:
        """Return the actions that are due now.

        The driver calls this method after it has parsed all received packets, and at the deadline.
        """
        if self._owes_ack:
            return [self._acknowledge()]
        if now >= self._candidates.next_at:
            return [SwitchAddress(self._candidates.request_next(now)), *self._request.window()]
        return self._expire(now)

    def _expire(self, now: float) -> list[DatagramAction]:
        if now < min(self._resend_at, self._idle_end):
            return []
        if now >= self._idle_end or self._retries == 0:
            raise TimedOut(self._describe_timeout()).with_setting("idle_timeout")
        if self._retries is not None:
            self._retries -= 1
        self._timeout = min(2 * self._timeout, max(self._timeout, self._timing.longest))
        self._resend_at = now + self._timeout
        if self._request.is_acknowledged:
            return [self._acknowledge()]
        packets = self._request.window(self._reply.received_through)
        if self._candidates.is_settled:
            return list(packets)
        actions: list[DatagramAction] = []
        for address in self._candidates.requested:
            actions += [SwitchAddress(address), *packets]
        return actions

    def take(self, datagram: bytes, address: str, now: float) -> list[DatagramAction]:
        """Process a datagram from `address`, and return the actions that are due."""
        packet = decode_packet(datagram) if self._candidates.accepts(address) else None
        actions: list[DatagramAction] = []
        if isinstance(packet, SupportedVersions):
            raise _make_version_error(packet.versions)
        if packet is not None and packet.connection in self._ids:
            actions += self._settle(address)
            if not self.has_answered:
                self.has_answered = True
                self._idle_end += self._patience - self._silence
            actions += self._process(packet, now)
        return actions if self.complete else actions + self._expire(now)

    def _settle(self, address: str) -> list[DatagramAction]:
        if self._candidates.is_settled:
            return []
        self._candidates.settle(address)
        return [SwitchAddress(address)]

    def _process(self, packet: ArdpPacket, now: float) -> list[DatagramAction]:
        actions: list[DatagramAction] = []
        if self._request.acknowledge(packet):
            actions += self._request.window(self._reply.received_through, only_new=True)
            self._record_progress(now)
        if packet.wait is not None and (packet.wait or packet.wait != self._wait):
            self._wait = packet.wait
            self._restart(now)
        self._owes_ack |= packet.acknowledge
        actions += self._apply_option(packet, now)
        if not packet.is_control and self._reply.store(packet):
            self._record_progress(now)
        if self._owes_ack and self._reply.complete:
            actions.append(self._acknowledge())
        return actions

    def _apply_option(self, packet: ArdpPacket, now: float) -> list[DatagramAction]:
        match packet.option:
            case ArdpOption.REFUSED:
                raise Declined("the server refused the request", code="refused")
            case ArdpOption.BAD_VERSION:
                raise _make_version_error(tuple(packet.data))
            case ArdpOption.QUEUE:
                self._queue = decode_queue(packet.data)
            case ArdpOption.REDIRECT | ArdpOption.REDIRECT_LASTING:
                return self._redirect(packet, now)
        return []

    def _redirect(self, packet: ArdpPacket, now: float) -> list[DatagramAction]:
        place = decode_redirect(packet.data)
        if place is None:
            return []
        self._redirects += 1
        if self._redirects > MAX_REDIRECTS:
            raise Refused("S10", f"more than {MAX_REDIRECTS} redirects of one request")
        self._candidates = CandidateAddresses(place[:1])
        self._restart(now)
        self.redirect = RedirectAddress(*place, lasting=packet.option == ArdpOption.REDIRECT_LASTING)
        return [self.redirect, *self._request.window(self._reply.received_through)]

    def _acknowledge(self) -> Line:
        self._owes_ack = False
        return encode_acknowledgment(self._connection, self._reply.received_through)

    def _record_progress(self, now: float) -> None:
        """Restart the idle timeout and the retransmission timer after progress."""
        self._idle_end = now + self._patience
        self._restart(now)

    def _restart(self, now: float) -> None:
        self._timeout = max(self._timing.first, float(self._wait))
        self._retries = self._timing.retries
        self._resend_at = now + self._timeout

    def _describe_timeout(self) -> str:
        position = f" after packet {self._reply.received_through}" if self._reply.received_through else ""
        requested = f"; the server asked to wait {self._wait} s" if self._wait else ""
        return f"timed out: no packet received{position}{requested}{self._queue and f' ({self._queue})'}"


class _Request:
    """The packets of a request, and the number of acknowledged packets."""

    def __init__(self, connection: int, pieces: list[Line]) -> None:
        self._connection = connection
        self._pieces = pieces
        self._acknowledged = self._most_acknowledged = 0
        self._sent = 0

    @property
    def packets(self) -> list[Line]:
        return [self._packet(number, 0, acknowledge=False) for number in range(1, len(self._pieces) + 1)]

    @property
    def is_acknowledged(self) -> bool:
        return self._acknowledged == len(self._pieces)

    def acknowledge(self, packet: ArdpPacket) -> bool:
        """Process the acknowledgment in a packet. Return whether packets are acknowledged for the first time.

        A packet with SET_RECEIVED can withdraw acknowledgments. To receive them again is not progress.
        """
        count = min(packet.received_through or 0, len(self._pieces))
        previous = self._most_acknowledged
        may_decrease = packet.option == ArdpOption.SET_RECEIVED and packet.received_through is not None
        self._acknowledged = count if may_decrease else max(self._acknowledged, count)
        self._most_acknowledged = max(previous, count)
        return count > previous

    def window(self, received_through: int = 0, *, only_new: bool = False) -> list[Line]:
        """Return the packets in the send window, or with `only_new` those never sent.

        `received_through` is the number of the last packet before the first gap in the received reply.
        """
        start = self._sent if only_new else self._acknowledged
        end = min(self._acknowledged + WINDOW, len(self._pieces))
        self._sent = max(self._sent, end)
        # The last packet of a window requests an acknowledgment. Without an acknowledgment the window could
        # not advance.
        last = end if end < len(self._pieces) else None
        return [
            self._packet(number, received_through, acknowledge=number == last)
            for number in range(start + 1, end + 1)
        ]

    def _packet(self, number: int, received_through: int, *, acknowledge: bool) -> Line:
        piece, total = self._pieces[number - 1], len(self._pieces)
        return encode_piece(self._connection, number, total, received_through, piece, acknowledge=acknowledge)


class _Reply:
    """The packets of a reply, which may arrive in any order and more than once."""

    def __init__(self, max_size: int) -> None:
        self._max_size = max_size
        self._texts: dict[int, bytes] = {}
        self._octets = 0
        self._total = 0
        self.received_through = 0

    @property
    def complete(self) -> bool:
        return 0 < self._total <= self.received_through

    @property
    def has_begun(self) -> bool:
        return bool(self._texts)

    @property
    def pieces(self) -> list[bytes]:
        return [self._texts[number] for number in range(1, self._total + 1)]

    def store(self, packet: ArdpPacket) -> bool:
        """Store a packet, and return whether the number of packets without a gap has increased."""
        previous = self.received_through
        if packet.number not in self._texts:
            self._octets += len(packet.text)
            if self._octets > self._max_size:
                raise LimitExceeded("body", f"the reply is longer than the limit of {self._max_size} bytes")
            self._texts[packet.number] = packet.text
        self._total = packet.total or self._total
        while self.received_through + 1 in self._texts:
            self.received_through += 1
        return self.received_through > previous


def _make_version_error(versions: tuple[int, ...]) -> Declined:
    supported = f", only {', '.join(map(str, versions))}" if versions else ""
    return Declined(f"the server does not support version 0 of ARDP{supported}", code="version not supported")
