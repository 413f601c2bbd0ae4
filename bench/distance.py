"""A server of this machine as it would be far away: a relay that hands on all octets after the time they
would be under way, and opens another way where an FTP server tells of a port (RFC 959 PASV, RFC 2428 EPSV).

A connection to the relay is made at once, so what is sent first is under way for a whole round trip longer.
Nothing is lost, and the line is as wide as the machine lets it be.

`python -m bench.distance PORT SECONDS`: of a round trip; it says the port that it serves at.
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

#: Octets in which a reply of a control connection is, at most; data that looks like one is hardly ever there.
_REPLY = 512

_Change: TypeAlias = Callable[[bytes], Awaitable[bytes]]


class Relay:
    """All ports of one server. `delay` is of one way, in seconds."""

    def __init__(self, delay: float, nursery: trio.Nursery) -> None:
        self._delay = delay
        self._nursery = nursery

    async def serve(self, server: int, *, once: bool = False) -> int:
        """The port that leads to that of the server; `once` for one connection alone."""
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
        """The same, with a port of ours in place of each that the server tells of."""
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
    """In a process of its own, so that it takes no turn of who measures."""
    return listening("bench.distance", server, round_trip)


def not_so_far_away(server: int, round_trip: float) -> AbstractContextManager[int]:
    """The same relay at a twentieth of the distance, for tests that all works: nothing waits for long."""
    return far_away(server, round_trip / 20)


if __name__ == "__main__":
    trio.run(serve, int(sys.argv[1]), float(sys.argv[2]))
