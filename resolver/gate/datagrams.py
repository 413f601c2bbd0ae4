"""A UDP socket to one place that was checked; it can be turned to another only through the policy.

The socket is not connected: a server may answer from another port or address, and its dialogue decides
whom to believe. There is no idle limit here: retransmission is the dialogue's business, so each wait
has a deadline of its own.
"""

from __future__ import annotations

import contextlib
import ipaddress
import secrets
import socket
from collections.abc import Callable

import trio

from protocols.contract import Datagram, Line
from protocols.errors import Unreachable
from resolver.events import Received, Sent
from resolver.gate.connecting import family_of
from resolver.gate.faults import reason
from resolver.gate.stream import Terms

#: The most a UDP datagram can hold, headers included.
_LARGEST = 65_535


class Datagrams:
    """See `protocols.contract.Datagrams`. `check` raises `Refused` for a place not to be followed to."""

    def __init__(self, peer: str, port: int, terms: Terms, check: Callable[[str, int], None]) -> None:
        self._address = peer
        self._port = port
        self._terms = terms
        self._check = check
        self._sock = _open_socket(peer)
        self._buffer = bytearray(_LARGEST)

    @property
    def peer(self) -> str:
        return canonical(self._address)

    @property
    def port(self) -> int:
        return self._port

    def now(self) -> float:
        return trio.current_time()

    def send_at_once(self, packet: Line) -> None:
        with contextlib.suppress(OSError):  # it is a courtesy, and nobody waits
            self._sock.sendto(packet.octets, (self._address, self._port))
            self._tell_sent(packet)

    def draw_number(self) -> int:
        return 1 + secrets.randbelow(65_535)

    async def send(self, packet: Line) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()
        while True:
            try:
                self._sock.sendto(packet.octets, (self._address, self._port))
                break
            except BlockingIOError:
                await trio.lowlevel.wait_writable(self._sock)
            except OSError as error:
                raise Unreachable(f"cannot send to {self.peer} port {self._port}: {reason(error)}") from error
        self._tell_sent(packet)

    def _tell_sent(self, packet: Line) -> None:
        if self._terms.tell is not None:
            self._terms.tell(Sent(self._terms.url, packet.shown))

    async def receive(self, deadline: float) -> Datagram | None:
        await trio.lowlevel.checkpoint()  # a peer that never pauses must not keep everybody else waiting
        with trio.CancelScope() as scope:
            while True:
                try:
                    count, source = self._sock.recvfrom_into(self._buffer)
                except BlockingIOError:
                    scope.deadline = deadline  # only now: what waits already is delivered in any case
                    await trio.lowlevel.wait_readable(self._sock)
                except OSError as error:
                    raise Unreachable(f"cannot receive from {self.peer}: {reason(error)}") from error
                else:
                    return self._came(bytes(self._buffer[:count]), str(source[0]), int(source[1]))
        return None

    def _came(self, octets: bytes, address: str, port: int) -> Datagram:
        if self._terms.tell is not None:
            self._terms.tell(Received(self._terms.url, octets))
        return Datagram(octets, canonical(address), port)

    def turn_to(self, address: str, port: int) -> None:
        self._check(address, port)
        if family_of(address) is not self._sock.family:
            self._sock.close()
            self._sock = _open_socket(address)
        self._address, self._port = address, port

    def close(self) -> None:
        self._sock.close()


def canonical(address: str) -> str:
    """A numeric address in its one spelling, without a zone: so that addresses can be compared as text."""
    return str(ipaddress.ip_address(address.partition("%")[0]))


def _open_socket(address: str) -> socket.socket:
    sock = socket.socket(family_of(address), socket.SOCK_DGRAM)
    sock.setblocking(False)
    return sock
