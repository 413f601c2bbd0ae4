"""Connections that are in order and wait for another retrieval to the same place.

Found by key in constant time, the last one used first: it is the least likely to have been given up by
the peer. Who says which suit him gets the last used of those. A connection on which anything came meanwhile,
were it only the end, is closed and never used. Whether its address is still allowed is for the caller to say
(S09).
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Container, Hashable
from contextlib import AsyncExitStack, suppress

from protocols.contract import Line
from protocols.errors import ResolveError
from protocols.values import dataclass
from resolver.disk.descriptors import most_descriptors
from resolver.gate.stream import SocketStream
from resolver.loops import running

#: Seconds a connection waits. Servers give up after 5 (Apache) to 75 (nginx); one that did shows.
LIFETIME = 30.0

#: Connections kept at most, over all places: each holds a descriptor. They are an eighth of all at most.
CAPACITY = 100


@dataclass(frozen=True, slots=True)
class IdleConnection:
    """A connection at rest, what its last dialogue had to say of it, since when it waits, and what to say
    before it is closed."""

    stream: SocketStream
    state: object
    since: float
    farewell: tuple[Line, ...] = ()

    async def aclose(self) -> None:
        """The farewell is sent if that can be done at once."""
        try:
            if self.farewell:
                with running().move_on_at(-math.inf), suppress(ResolveError):
                    await self.stream.send(*self.farewell)
        finally:
            await self.stream.aclose()


@dataclass(slots=True)
class AcquiredConnection:
    """See `protocols.contract.PooledConnection`. `left` is what `keep` was given."""

    stream: SocketStream
    state: object | None = None
    left: object | None = None

    def keep(self, state: object) -> None:
        self.left = state


def _choice(waiting: dict[int, IdleConnection], suits: Callable[[object], bool] | None) -> int:
    """The last one that was put there. Who says which suit him gets the last one of those, else the first of
    all: the last one may suit who comes next."""
    if suits is None:
        return next(reversed(waiting))
    return next((each for each in reversed(waiting) if suits(waiting[each].state)), next(iter(waiting)))


class ConnectionPool:
    """Keeps nothing until it is opened: what nobody will close must not be kept."""

    def __init__(self) -> None:
        self._open = False
        self._most = CAPACITY
        self._serial = 0
        self._kept: dict[Hashable, dict[int, IdleConnection]] = {}
        self._oldest: OrderedDict[int, Hashable] = OrderedDict()

    def __len__(self) -> int:
        return len(self._oldest)

    def open(self) -> None:
        """Keep connections from now on, until `aclose`."""
        self._open = True
        self._most = min(CAPACITY, most_descriptors() // 8)

    async def take(
        self, key: Hashable, addresses: Container[str], suits: Callable[[object], bool] | None = None
    ) -> IdleConnection | None:
        """A connection for `key` to one of `addresses` that has been quiet, or None. One with a state that
        `suits` comes before all others."""
        while (waiting := self._kept.get(key)) is not None:
            kept = self._remove(_choice(waiting, suits))
            waited = kept.stream.loop.current_time() - kept.since
            if kept.stream.quiet and kept.stream.peer in addresses and waited <= LIFETIME:
                return kept
            await kept.aclose()
        return None

    async def put(
        self, key: Hashable, stream: SocketStream, state: object, farewell: tuple[Line, ...] = ()
    ) -> None:
        """Keep a connection that is in order, in place of the oldest one if there are too many."""
        now = stream.loop.current_time()
        kept = IdleConnection(stream, state, now, farewell)
        if not self._open or not stream.quiet:
            await kept.aclose()
            return
        while len(self._oldest) >= self._most or (self._oldest and now - self._longest_since > LIFETIME):
            await self._remove(next(iter(self._oldest))).aclose()
        self._serial += 1
        self._oldest[self._serial] = key
        self._kept.setdefault(key, {})[self._serial] = kept

    async def leave(self, addresses: Container[str], most: int) -> None:
        """Close the oldest of those to one of `addresses`, until there are `most`."""
        there = [serial for serial, key in self._oldest.items() if self._peer(key, serial) in addresses]
        async with AsyncExitStack() as closing:
            for serial in there[: max(0, len(there) - most)]:
                closing.push_async_callback(self._remove(serial).aclose)

    def _peer(self, key: Hashable, serial: int) -> str:
        return self._kept[key][serial].stream.peer

    async def aclose(self) -> None:
        """Close all that are kept; from now on none is."""
        self._open = False
        async with AsyncExitStack() as closing:
            while self._oldest:
                closing.push_async_callback(self._remove(next(iter(self._oldest))).aclose)

    def _remove(self, serial: int) -> IdleConnection:
        key = self._oldest.pop(serial)
        waiting = self._kept[key]
        kept = waiting.pop(serial)
        if not waiting:
            del self._kept[key]
        return kept

    @property
    def _longest_since(self) -> float:
        """Since when the oldest waits."""
        serial, key = next(iter(self._oldest.items()))
        return self._kept[key][serial].since
