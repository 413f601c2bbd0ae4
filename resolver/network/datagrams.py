"""A UDP socket that sends only to IP addresses that passed the policy.

The socket is not connected, because a server may respond from another port or address. The dialogue decides
which sender is trusted, and when the next address of the host is tried. The exchange also retransmits
requests, so each wait has its own deadline instead of the idle timeout.
"""

from __future__ import annotations

import contextlib
import ipaddress
import math
import secrets
import socket
from collections.abc import Callable, Sequence

from protocols.contract import Datagram, Line
from protocols.errors import Unreachable
from resolver.files.faults import reason
from resolver.network.clock import ResponseRateCheck
from resolver.network.connecting import find_family
from resolver.network.events import Received, Sent
from resolver.network.lookup import format_peer, socket_address
from resolver.network.stream_settings import StreamSettings, TappedConnection

#: Maximum size of a UDP datagram in bytes, including the headers.
_MAX_SIZE = 65_535


class UdpSocket:
    """A UDP socket of one retrieval; see `protocols.contract.Datagrams`.

    Args:
        check: the function that checks a new address and port that a peer requests. The arguments are the
            peer, the new address and the port. The function raises `Refused` if the policy forbids the new
            address.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        port: int,
        settings: StreamSettings,
        check: Callable[[str, str, int], None],
    ) -> None:
        self.addresses = tuple(dict.fromkeys(map(canonical, addresses)))
        self.peer = self.addresses[0]
        self.port = port
        self._settings = settings
        self._loop = settings.loop
        self._check = check
        self._sock = _open_socket(self.addresses)
        self._buffer = bytearray(_MAX_SIZE)
        self._rate_check = None if settings.min_rate is None else ResponseRateCheck(settings.min_rate)
        if settings.tap is not None:
            settings.tap.record_connected(
                self, TappedConnection(settings.host, self.peer, port, "udp", "query")
            )

    def now(self) -> float:
        return self._loop.current_time()

    def send_at_once(self, packet: Line) -> None:
        with contextlib.suppress(OSError):  # The packet is optional.
            self._sock.sendto(packet.octets, self._destination())
            self._report_sent(packet)

    def draw_number(self) -> int:
        return 1 + secrets.randbelow(65_535)

    async def send(self, packet: Line) -> None:
        await self._loop.checkpoint_if_cancelled()
        while True:
            try:
                self._sock.sendto(packet.octets, self._destination())
                break
            except BlockingIOError:
                await self._loop.writable_by(self._sock, math.inf)
            except OSError as error:
                raise Unreachable(f"cannot send to {self.peer} port {self.port}: {reason(error)}") from error
        self._report_sent(packet)

    def _destination(self) -> tuple[str, int] | tuple[str, int, int, int]:
        """Return the address for `sendto`; a dual-stack socket needs IPv4-mapped IPv6 addresses."""
        mapped = self._sock.family is socket.AF_INET6 and ":" not in self.peer
        return socket_address(f"::ffff:{self.peer}" if mapped else self.peer, self.port)

    def _report_sent(self, packet: Line) -> None:
        if self._settings.report is not None:
            self._settings.report(Sent(self._settings.url, packet.shown))
        if self._settings.tap is not None:
            self._settings.tap.record_sent(self, packet.shown, masked=packet.octets != packet.shown)

    async def receive(self, deadline: float) -> Datagram | None:
        start = self._loop.current_time()
        await self._loop.checkpoint()  # Other tasks run even if the peer sends without a pause.
        while True:
            try:
                count, source = self._sock.recvfrom_into(self._buffer)
            # A datagram in the socket buffer is delivered even if the deadline has passed.
            except BlockingIOError:
                if not await self._loop.readable_by(self._sock, deadline):
                    return None
            except OSError as error:
                raise Unreachable(f"cannot receive from {self.peer}: {reason(error)}") from error
            else:
                if self._rate_check is not None:
                    self._rate_check.record_received(self._loop.current_time() - start, count)
                return self._make_datagram(bytes(self._buffer[:count]), format_peer(source), int(source[1]))

    def _make_datagram(self, octets: bytes, address: str, port: int) -> Datagram:
        if self._settings.report is not None:
            self._settings.report(Received(self._settings.url, octets))
        if self._settings.tap is not None:
            self._settings.tap.record_received(self, octets)
        return Datagram(octets, canonical(address), port)

    def switch_to(self, address: str) -> None:
        assert address in self.addresses, "cannot send to an unchecked address"
        self.peer = address

    def redirect_to(self, address: str, port: int) -> None:
        self._check(self.peer, address, port)
        self.addresses = (canonical(address),)
        if find_family(self.addresses[0]) is not self._sock.family:
            self._sock.close()
            self._sock = _open_socket(self.addresses)
        self.peer, self.port = self.addresses[0], port

    def close(self) -> None:
        self._sock.close()


def canonical(address: str) -> str:
    """Return the comparable text of an IP address and its zone; a mapped IPv4 address becomes IPv4."""
    parsed = ipaddress.ip_address(address)
    return str(getattr(parsed, "ipv4_mapped", None) or parsed)


def _open_socket(addresses: Sequence[str]) -> socket.socket:
    """Open one dual-stack socket, or an IPv4 socket if this machine has no IPv6."""
    families = {find_family(address) for address in addresses}
    try:
        sock = socket.socket(max(families), socket.SOCK_DGRAM)
    except OSError:
        if len(families) == 1:
            raise
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    if len(families) == 2 and sock.family is socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    sock.setblocking(False)
    return sock
