"""Simulated UDP: datagrams with latency, which arrive in any order, and faults of single datagrams.

The client has a socket with a file descriptor, because the network gate waits for file descriptors. The
descriptor has one byte for each datagram that has arrived.

The port of a closed socket is soon used again, so a late datagram may arrive at the socket of another
exchange.
"""

from __future__ import annotations

import errno
import os
import random
import socket
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeAlias

import trio

from resolver.loops import running
from resolver.testing.world.schedule import DATAGRAMS, Killed, Schedule

Place: TypeAlias = "tuple[str, int]"

#: A simulated UDP server: a function that maps a datagram and its source to the datagrams to send back.
Answer: TypeAlias = "Callable[[bytes, Place], Sequence[bytes]]"

_CLIENT = "192.0.2.1"
_FIRST_PORT, _FREE_PORTS = 49_152, 4
#: The latencies in seconds of the datagrams of a socket, chosen for each datagram.
_LATENCIES = ((0.0,), (0.001,), (0.4,), (0.0, 0.001, 0.05, 0.4))


class ClientUdpSocket(socket.socket):
    """The client's UDP socket.

    Attributes:
        source: The source of the random latencies.
        place: The address and port of the first datagram that was sent.
    """

    def __init__(self, carrier: DatagramCarrier, number: int, source: random.Random) -> None:
        near, self._far = socket.socketpair()
        super().__init__(fileno=near.detach())
        self.setblocking(False)
        self._far.setblocking(False)
        self._carrier = carrier
        self._arrived: deque[tuple[bytes, Place]] = deque()
        self.number = number
        self.source = source
        self.latencies = source.choice(_LATENCIES)
        self.place: Place | None = None

    @property
    def family(self) -> socket.AddressFamily:
        return socket.AF_INET

    @property
    def is_open(self) -> bool:
        return self.fileno() != -1

    def sendto(self, octets: bytes, place: Place) -> int:  # type: ignore[override]
        self._carrier.send(self, octets, place)
        return len(octets)

    def recvfrom_into(self, buffer: bytearray) -> tuple[int, Place]:  # type: ignore[override]
        self.recv(1)
        octets, place = self._arrived.popleft()
        buffer[: len(octets)] = octets
        return len(octets), place

    def deliver(self, octets: bytes, place: Place) -> None:
        """Add a datagram to the received datagrams, except if the socket's buffer is full."""
        with suppress(BlockingIOError):
            self._far.send(b"\0")
            self._arrived.append((octets, place))

    def close(self) -> None:
        super().close()
        self._far.close()


class DatagramCarrier:
    """The simulated UDP network of one life of the process.

    Args:
        seed: The seed of the random choices.
        max_sockets: The highest number of concurrent sockets to each IP address and port.
        problems: The list to which the exceptions of the simulated servers are added.

    Attributes:
        answers: The simulated servers, by IP address and port.
    """

    def __init__(self, seed: int, max_sockets: Counter[Place], problems: list[BaseException]) -> None:
        self._seed, self._max_sockets, self._problems = seed, max_sockets, problems
        self._numbers = random.Random(f"numbers {seed}")
        self._drawn: set[int] = set()
        self._sockets: dict[int, ClientUdpSocket] = {}
        self.answers: dict[Place, Answer] = {}

    def begin(self, schedule: Schedule, life: int, step: Callable[[], None]) -> None:
        self._schedule, self._life, self._step = schedule, life, step
        self._opened = self._sent = 0
        self._outage_until = -1.0

    def end(self) -> int:
        """Close all sockets, and return the number of sockets that were open."""
        open_sockets = [sock for sock in self._sockets.values() if sock.is_open]
        for sock in open_sockets:
            sock.close()
        self._sockets.clear()
        return len(open_sockets)

    def randbelow(self, limit: int) -> int:
        """Return a random number that was not returned before in this run.

        The servers of a run remember the exchanges of all lives by port and number, and there are few ports.
        """
        number = self._numbers.randrange(limit)
        while number in self._drawn:
            number = self._numbers.randrange(limit)
        self._drawn.add(number)
        return number

    def open(self, _addresses: Sequence[str]) -> ClientUdpSocket:
        """Open a UDP socket as `resolver.network.datagrams._open_socket` does."""
        self._opened += 1
        source = random.Random(f"{self._seed} {self._life} udp {self._opened}")
        used = [port for port, sock in self._sockets.items() if sock.is_open]
        ports = range(_FIRST_PORT, _FIRST_PORT + _FREE_PORTS + len(used))
        port = source.choice([number for number in ports if number not in used])
        self._sockets[port] = ClientUdpSocket(self, port, source)
        return self._sockets[port]

    def send(self, sock: ClientUdpSocket, octets: bytes, place: Place) -> None:
        """Send a datagram of the client."""
        self._step()
        if sock.place is None:
            sock.place = place
            sockets = [other for other in self._sockets.values() if other.place == place and other.is_open]
            self._max_sockets[place] = max(self._max_sockets[place], len(sockets))
        is_sent = self._carry(sock, partial(self._answer, sock, octets, place))
        if not is_sent:
            raise OSError(errno.ENETUNREACH, os.strerror(errno.ENETUNREACH))

    def _answer(self, sock: ClientUdpSocket, octets: bytes, place: Place) -> None:
        answer = self.answers.get(place)
        for datagram in () if answer is None else answer(octets, (_CLIENT, sock.number)):
            self._carry(sock, partial(self._deliver, sock.number, datagram, place))

    def _deliver(self, port: int, octets: bytes, place: Place) -> None:
        if (sock := self._sockets[port]).is_open:
            sock.deliver(octets, place)

    def _carry(self, sock: ClientUdpSocket, deliver: Callable[[], None]) -> bool:
        """Carry a datagram to its receiver, and return False for the fault `unsent`."""
        self._sent += 1
        fault = self._schedule.find(DATAGRAMS, self._sent)
        kind, seconds = ("", 0.0) if fault is None else (fault.kind, fault.octets / 1000)
        now, latency = running().current_time(), sock.source.choice(sock.latencies)
        if kind == "outage":
            self._outage_until = now + seconds
        if kind not in ("lost", "unsent") and now > self._outage_until:
            delays = {"late": (latency + seconds,), "doubled": (latency, latency + seconds)}
            for delay in delays.get(kind, (latency,)):
                trio.lowlevel.spawn_system_task(self._perform, delay, deliver)
        return kind != "unsent"

    async def _perform(self, delay: float, deliver: Callable[[], None]) -> None:
        try:
            await trio.sleep(delay)
            self._step()
            deliver()
        except Killed:
            pass
        except Exception as error:  # noqa: BLE001 - the test fails with the exception of the server
            self._problems.append(error)
