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

from bench.served import run_module

_LOOPBACK = "127.0.0.1"
_PASSIVE = re.compile(rb"(?m)^(227 .*?\(?\d+,\d+,\d+,\d+),(\d+),(\d+)|^(229 .*?\|\|\|)(\d+)(?=\|)")

#: The maximum length of an FTP reply in bytes. Longer data is file data, which must not be changed.
_REPLY = 512

_Rewrite: TypeAlias = Callable[[bytes], Awaitable[bytes]]


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
        port: int = listener.socket.getsockname()[1]
        return port

    async def _accept(self, listener: trio.SocketListener, server: int, once: bool) -> None:
        async with listener:
            while True:
                client = await listener.accept()
                self._nursery.start_soon(self._relay_connection, client, server)
                if once:
                    return

    async def _relay_connection(self, client: trio.SocketStream, server: int) -> None:
        start = trio.current_time()
        async with (
            client,
            await trio.open_tcp_stream(_LOOPBACK, server) as upstream,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(self._forward, client, upstream, start + 3 * self._delay, _keep_data)
            nursery.start_soon(self._forward, upstream, client, start + 4 * self._delay, self._rewrite_reply)

    async def _forward(
        self, source: trio.SocketStream, target: trio.SocketStream, earliest: float, rewrite: _Rewrite
    ) -> None:
        sender, receiver = trio.open_memory_channel[tuple[float, bytes]](float("inf"))
        async with trio.open_nursery() as nursery, sender:
            nursery.start_soon(_send_delayed, receiver, target)
            with suppress(trio.BrokenResourceError):
                async for octets in source:
                    due = max(earliest, trio.current_time() + self._delay)
                    sender.send_nowait((due, await rewrite(bytes(octets))))

    async def _rewrite_reply(self, octets: bytes) -> bytes:
        """Replace the port in an FTP reply by a local port of the relay."""
        match = _PASSIVE.search(octets[:_REPLY])
        if match is None:
            return octets
        address, high, low, prefix, port = match.groups()
        server_port = int(port) if port else int(high) * 256 + int(low)
        local = await self.serve(server_port, once=True)
        reply = b"%s%d" % (prefix, local) if port else b"%s,%d,%d" % (address, local >> 8, local & 255)
        return octets[: match.start()] + reply + octets[match.end() :]


async def _keep_data(octets: bytes) -> bytes:
    return octets


async def _send_delayed(
    receiver: trio.MemoryReceiveChannel[tuple[float, bytes]], target: trio.SocketStream
) -> None:
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        async for due, octets in receiver:
            await trio.sleep_until(due)
            await target.send_all(octets)
        await target.send_eof()


async def serve(server: int, round_trip: float) -> None:
    async with trio.open_nursery() as nursery:
        print(await Relay(round_trip / 2, nursery).serve(server), flush=True)


def run_relay(server: int, round_trip: float) -> AbstractContextManager[int]:
    """Run the relay in a separate process, so that the relay does not slow down the measured process."""
    return run_module("bench.distance", server, round_trip)


def run_short_relay(server: int, round_trip: float) -> AbstractContextManager[int]:
    """Run the relay with a twentieth of the round-trip time, for quick tests."""
    return run_relay(server, round_trip / 20)


if __name__ == "__main__":
    trio.run(serve, int(sys.argv[1]), float(sys.argv[2]))
