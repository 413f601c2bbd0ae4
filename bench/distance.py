"""A relay that simulates the network latency of a distant server by forwarding all bytes after a delay.

The relay opens a further relay for the port in an FTP reply (RFC 959 PASV, RFC 2428 EPSV). The relay cannot
delay the TCP handshake. Instead, it delays the first bytes of a connection by an additional round trip. The
simulated network does not lose packets and does not limit the bandwidth.

`python -m bench.distance PORT SECONDS` prints the port of the relay. PORT is the port of the server, SECONDS
is the round-trip time.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, suppress
from typing import TypeAlias

import trio

from bench.served import listening

_LOOPBACK = "127.0.0.1"
_PASSIVE = re.compile(rb"(?m)^(227 .*?\(?\d+,\d+,\d+,\d+),(\d+),(\d+)|^(229 .*?\|\|\|)(\d+)(?=\|)")

#: The maximum length of an FTP reply in bytes. Longer data is file data, which must not be changed.
_REPLY = 512

_Change: TypeAlias = Callable[[bytes], Awaitable[bytes]]


class Relay:
    """A relay for all ports of one server; `delay` is the one-way delay in seconds."""

    def __init__(self, delay: float, nursery: trio.Nursery) -> None:
        self._delay = delay
        self._nursery = nursery

    async def serve(self, server: int, *, once: bool = False) -> int:
        """Open and return a local port that leads to a port of the server.

        If `once` is set, the local port accepts a single connection.
        """
        listener = (await trio.open_tcp_listeners(0, host=_LOOPBACK))[0]
        self._nursery.start_soon(self._accept, listener, server, once)
        return port_of(listener)

    async def _accept(self, listener: trio.SocketListener, server: int, once: bool) -> None:
        async with listener:
            while True:
                client = await listener.accept()
                self._nursery.start_soon(self._attend, client, server)
                if once:
                    return

    async def _attend(self, client: trio.SocketStream, server: int) -> None:
        began = trio.current_time()
        async with (
            client,
            await trio.open_tcp_stream(_LOOPBACK, server) as far,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(self._carry, client, far, began + 3 * self._delay, _same)
            nursery.start_soon(self._carry, far, client, began + 4 * self._delay, self._lead)

    async def _carry(
        self, source: trio.SocketStream, target: trio.SocketStream, earliest: float, change: _Change
    ) -> None:
        sender, receiver = trio.open_memory_channel[tuple[float, bytes]](float("inf"))
        async with trio.open_nursery() as nursery, sender:
            nursery.start_soon(hand_on, receiver, target)
            with suppress(trio.BrokenResourceError):
                async for octets in source:
                    due = max(earliest, trio.current_time() + self._delay)
                    sender.send_nowait((due, await change(bytes(octets))))

    async def _lead(self, octets: bytes) -> bytes:
        """Replace the port in an FTP reply by a local port of the relay."""
        found = _PASSIVE.search(octets[:_REPLY])
        if found is None:
            return octets
        before, high, low, extended, port = found.groups()
        told = int(port) if port else int(high) * 256 + int(low)
        ours = await self.serve(told, once=True)
        said = b"%s%d" % (extended, ours) if port else b"%s,%d,%d" % (before, ours >> 8, ours & 255)
        return octets[: found.start()] + said + octets[found.end() :]


async def _same(octets: bytes) -> bytes:
    return octets


async def hand_on(
    receiver: trio.MemoryReceiveChannel[tuple[float, bytes]], target: trio.SocketStream
) -> None:
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        async for due, octets in receiver:
            await trio.sleep_until(due)
            await target.send_all(octets)
        await target.send_eof()


def port_of(listener: trio.SocketListener) -> int:
    port: int = listener.socket.getsockname()[1]
    return port


async def serve(server: int, round_trip: float) -> None:
    async with trio.open_nursery() as nursery:
        print(await Relay(round_trip / 2, nursery).serve(server), flush=True)


def far_away(server: int, round_trip: float) -> AbstractContextManager[int]:
    """Run the relay in a separate process, so that the relay does not slow down the measured process."""
    return listening("bench.distance", server, round_trip)


def not_so_far_away(server: int, round_trip: float) -> AbstractContextManager[int]:
    """Run the relay with a twentieth of the round-trip time, for quick tests."""
    return far_away(server, round_trip / 20)


if __name__ == "__main__":
    trio.run(serve, int(sys.argv[1]), float(sys.argv[2]))
