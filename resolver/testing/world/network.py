"""A simulated network with latency, packets of random sizes, and fault injection.

A schedule determines which connections fail. A connection is a socket pair. The client has a real socket,
because the network gate waits for file descriptors. The peer has a stream of trio. TLS runs over the same
socket pair, in OpenSSL.

A run with TLS is the same for the same seed if the handshakes of the server have constant lengths. The bytes
themselves are random. RSA signatures have a constant length, signatures with elliptic curves do not. Session
tickets have a constant length with the option `ssl.OP_NO_TICKET` of the server.
"""

from __future__ import annotations

import errno
import os
import random
import socket
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeAlias, TypeVar

import trio
import trio.testing

from resolver.loops import running
from resolver.network.connecting import ConnectTimeout
from resolver.network.tls import WrappedSocket, is_truncation
from resolver.testing.world.datagrams import Answer, DatagramCarrier, Place
from resolver.testing.world.schedule import NAMES, NETWORK, Fault, Killed, Schedule, leaves

T = TypeVar("T")

#: A simulated server: a function that serves one connection.
Handler: TypeAlias = "Callable[[Any], Awaitable[None]]"

_LATENCIES = (0.0, 0.001, 0.05, 0.4)
_PACKETS = (97, 536, 1_460, 16_384, 65_536)
#: The number of bytes on a connection after which packets have at least 8,192 bytes, so that a run stays
#: short.
_SMALL_UP_TO = 4_000
_LAG, _DRIP, _DROPS = 45.0, 20.0, 3
#: The linger timeout in seconds: a peer that has sent its last byte (half-close) still reads for this time.
_LINGER = 180.0
_FIRST_PORT = 40_000
_READ = 65_536
_GONE = (trio.BrokenResourceError, trio.ClosedResourceError)


class ClientSocket(socket.socket):
    """The client's socket of a connection, which reports a reset and the peer's address as TCP does."""

    link: Link

    def getpeername(self) -> Place:
        return self.link.place

    def setsockopt(self, *arguments: Any) -> None:
        if arguments[0] != socket.IPPROTO_TCP:
            super().setsockopt(*arguments)

    def recv_into(self, *arguments: Any, **more: Any) -> int:
        # Linux returns the bytes that arrived before a reset, and then the error (tcp_recvmsg).
        count = super().recv_into(*arguments, **more)
        if not count:
            self.link.check_reset()
        return count

    def send(self, *arguments: Any) -> int:
        self.link.check_reset()
        return super().send(*arguments)


class ClientTlsSocket(WrappedSocket):
    """The TLS socket that replaces a `ClientSocket`.

    OpenSSL reads from the file descriptor, so a reset is the end of the stream for OpenSSL.
    """

    link: Link

    @classmethod
    def _create(cls, sock: ClientSocket, *arguments: Any, **more: Any) -> ClientTlsSocket:
        secured: ClientTlsSocket = super()._create(sock, *arguments, **more)  # type: ignore[misc]
        secured.link = sock.link
        secured.link.near = secured
        return secured

    def do_handshake(self, block: bool = False) -> None:
        self._perform(super().do_handshake, block)

    def read(self, *arguments: Any) -> Any:
        return self._perform(super().read, *arguments)

    def send(self, *arguments: Any) -> int:
        self.link.check_reset()
        return super().send(*arguments)

    def _perform(self, operation: Callable[..., T], *arguments: Any) -> T:
        try:
            return operation(*arguments)
        except ssl.SSLError as error:
            if is_truncation(error):
                self.link.check_reset()
            raise


class WorldNetwork:
    """The simulated network: the hosts, their servers, and the sockets of one life of the process.

    Attributes:
        most: The highest number of concurrent sockets to each IP address and port, over all lives.
        problems: The exceptions that the simulated servers raised.
        cuts: The last byte that was delivered before each `cut` of the life.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._addresses: dict[str, list[str]] = {}
        self._together: dict[str, bool] = {}
        self._handlers: dict[Place, Handler] = {}
        self._ports = _FIRST_PORT
        self.most: Counter[Place] = Counter()
        self.problems: list[BaseException] = []
        self.datagrams = DatagramCarrier(seed, self.most, self.problems)
        self.begin(Schedule(seed), 0, lambda: None)

    def begin(self, schedule: Schedule, life: int, step: Callable[[], None]) -> None:
        """Begin a life of the simulated process.

        Args:
            schedule: The faults of the life.
            life: The number of the life.
            step: The function that is called for each packet. It may kill the process.
        """
        self._schedule, self._life, self.step = schedule, life, step
        self._connections = self._lookups = 0
        self._links: list[Link] = []
        self.datagrams.begin(schedule, life, step)
        self.cuts: list[bytes] = []

    def end(self) -> int:
        """Close all sockets, and return the number of sockets that were open."""
        open_sockets = [link.near for link in self._links if link.is_open]
        for sock in open_sockets:
            sock.close()
        self._links.clear()
        return len(open_sockets) + self.datagrams.end()

    def name(self, host: str, *addresses: str, together: bool = False) -> None:
        """Set the IP addresses of a host.

        A DNS lookup returns the first address, or all addresses if `together` is set. After the fault
        `moved`, it returns the last address.
        """
        self._addresses[host] = list(addresses)
        self._together[host] = together

    def listen(self, host: str, port: int, handler: Handler) -> None:
        """Listen on a port of each IP address of a host; `handler` serves each connection."""
        for address in self._addresses[host]:
            self._handlers[address, port] = handler

    def listen_udp(self, host: str, port: int, answer: Answer) -> None:
        """Listen on a UDP port of each IP address of a host; `answer` returns the datagrams to send back."""
        for address in self._addresses[host]:
            self.datagrams.answers[address, port] = answer

    def listen_anywhere(self, handler: Handler) -> int:
        """Listen on a free port of all IP addresses, and return the port."""
        self._ports += 1
        self._handlers["*", self._ports] = handler
        return self._ports

    def unlisten(self, port: int) -> None:
        """Stop listening on a port that `listen_anywhere` returned."""
        self._handlers.pop(("*", port), None)

    async def getaddrinfo(self, host: bytes | str, port: int, **_: object) -> list[Any]:
        """Return the result of a simulated DNS lookup, in the format of `socket.getaddrinfo`."""
        await running().sleep(0.01)
        self._lookups += 1
        name = host.decode() if isinstance(host, bytes) else host
        fault = self._schedule.find(NAMES, self._lookups)
        if name not in self._addresses:
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        if fault is not None and fault.kind == "unnamed":
            raise socket.gaierror(socket.EAI_AGAIN, "the name server does not answer")
        if fault is not None:
            addresses = self._addresses[name]
            for servers in (self._handlers, self.datagrams.answers):
                for place in [place for place in servers if place[0] == addresses[0] and len(addresses) > 1]:
                    del servers[place]
            del addresses[:-1]
        results = self._addresses[name][: None if self._together[name] else 1]
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (address, port)) for address in results]

    async def connect_to(self, address: str, port: int, until: float) -> socket.socket:
        """Open a connection as `resolver.network.connecting.connect_to` does."""
        self._connections += 1
        fault = self._schedule.find(NETWORK, self._connections)
        source = random.Random(f"{self._seed} {self._life} {self._connections}")
        self.step()
        loop = running()
        if fault is not None and fault.kind == "blackhole":
            await loop.sleep(until - loop.current_time())
            raise ConnectTimeout
        await loop.sleep(source.choice(_LATENCIES))
        handler = self._handlers.get((address, port)) or self._handlers.get(("*", port))
        if handler is None or (fault is not None and fault.kind == "refuse"):
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        near, far = socket.socketpair()
        sock = ClientSocket(fileno=near.detach())
        sock.setblocking(False)
        place = address, port
        sock.link = Link(self, sock, place, far, fault, source)
        self._links.append(sock.link)
        self.most[place] = max(
            self.most[place], sum(link.is_open for link in self._links if link.place == place)
        )
        trio.lowlevel.spawn_system_task(sock.link.run, handler)
        return sock


class Link:
    """A connection between the client's socket and a simulated server."""

    def __init__(
        self,
        network: WorldNetwork,
        near: ClientSocket | ClientTlsSocket,
        place: Place,
        far: socket.socket,
        fault: Fault | None,
        source: random.Random,
    ) -> None:
        self._network = network
        self.near = near
        self.place = place
        self._is_reset = False
        self._far = trio.SocketStream(trio.socket.from_stdlib_socket(far))
        self._fault = fault
        self._latency, self._packet = source.choice(_LATENCIES), source.choice(_PACKETS)
        self._sent = 0
        self._last = b""
        self._is_closed = trio.Event()

    @property
    def is_open(self) -> bool:
        """Return whether the client has not closed its socket."""
        return self.near.fileno() != -1

    def check_reset(self) -> None:
        """Raise `ConnectionResetError` once if the connection was reset, as Linux does."""
        if self._is_reset:
            self._is_reset = False
            raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))

    async def run(self, handler: Handler) -> None:
        inner, outer = trio.testing.memory_stream_pair()
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._serve, handler, outer)
                nursery.start_soon(self._send_up, inner)
                await self._send_down(inner)
                with trio.move_on_after(_LINGER):
                    await self._is_closed.wait()
                nursery.cancel_scope.cancel()
        except BaseException as error:
            problems = [problem for problem in leaves(error) if not isinstance(problem, trio.Cancelled)]
            if not problems:
                raise
            self._network.problems += [problem for problem in problems if not isinstance(problem, Killed)]
        finally:
            self._far.socket.close()

    async def _serve(self, handler: Handler, stream: trio.StapledStream[Any, Any]) -> None:
        with suppress(*_GONE):
            await handler(stream)
        with suppress(*_GONE):
            await stream.aclose()

    async def _send_up(self, inner: trio.StapledStream[Any, Any]) -> None:
        with suppress(*_GONE):
            while octets := await self._far.receive_some(_READ):
                self._network.step()
                await trio.sleep(self._latency)
                await inner.send_all(bytes(octets))
        self._is_closed.set()
        with suppress(*_GONE):
            await inner.send_eof()

    async def _send_down(self, inner: trio.StapledStream[Any, Any]) -> None:
        with suppress(*_GONE):
            while octets := await inner.receive_some(_READ):
                while octets:
                    size = self._packet if self._sent < _SMALL_UP_TO else max(self._packet, 8_192)
                    packet, octets = octets[:size], octets[size:]
                    if not await self._send(bytes(packet)):
                        return
            await self._far.send_eof()

    async def _send(self, packet: bytes) -> bool:
        """Send a packet to the client, and inject the fault of the connection at its byte offset.

        Returns:
            Whether the connection can send further packets.
        """
        fault = self._fault
        if fault is None or fault.octets >= self._sent + len(packet):
            await self._deliver(packet)
            return True
        prefix = packet[: max(0, fault.octets - self._sent)]
        self._fault = None
        if prefix:
            await self._deliver(prefix)
        match fault.kind:
            case "cut":
                self._network.cuts.append(self._last)
                await self._far.send_eof()
                return False
            case "reset":
                self._is_reset = True
                self._far.socket.close()
                return False
            case "hang":
                await self._is_closed.wait()
                return False
            case "lag":
                await trio.sleep(_LAG)
            case "drip":
                for at in range(len(prefix), min(len(packet), len(prefix) + _DROPS)):
                    await trio.sleep(_DRIP)
                    await self._deliver(packet[at : at + 1])
                await self._deliver(packet[len(prefix) + _DROPS :])
                return True
        await self._deliver(packet[len(prefix) :])
        return True

    async def _deliver(self, octets: bytes) -> None:
        if octets:
            self._network.step()
            await trio.sleep(self._latency)
            self._sent += len(octets)
            self._last = octets[-1:]
            await self._far.send_all(octets)
