"""Where octets go to stay: a file, memory, standard output. Each counts what it has and knows its last
octets, so that another try can go on behind them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Protocol

from protocols.contract import Validators

if TYPE_CHECKING:
    from resolver.retrieval.streaming import StreamingResponse


#: What is known where nothing is.
NOTHING = Validators()


class Store(Protocol):
    """Where octets stay. `position` counts them; `known` describes the object they are of. What is
    `final` is out and cannot be taken back."""

    final: bool

    @property
    def known(self) -> Validators: ...

    @property
    def position(self) -> int: ...

    def tail(self, count: int) -> bytes:
        """The last `count` octets, or as many as are held."""
        ...

    async def remember(self, known: Validators) -> None:
        """The octets that follow are of an object in this state."""
        ...

    def restart(self) -> None:
        """Begin again at octet 0. Never asked of what is final."""
        ...


class MemoryStore:
    """Octets kept in memory, for a body that is bounded."""

    final = False

    def __init__(self) -> None:
        self.known = NOTHING
        self.position = 0
        self._octets = bytearray()

    def tail(self, count: int) -> bytes:
        return bytes(self._octets[-count:]) if count else b""

    async def remember(self, known: Validators) -> None:
        self.known = known

    def restart(self) -> None:
        self._octets.clear()
        self.position, self.known = 0, NOTHING

    async def fill(self, body: AsyncIterator[bytes]) -> None:
        """Take all that is left of a body."""
        async for octets in body:
            self._octets += octets
            self.position += len(octets)

    def content(self) -> bytes:
        """All of it; the memory is empty afterwards."""
        octets, self._octets, self.position = self._octets, bytearray(), 0
        return bytes(octets)


def octets_to_keep(reply: StreamingResponse) -> AsyncIterator[bytes]:
    """What a file or standard output gets: the lines of a listing, else the body as it is."""
    return reply.lines() if reply.lists else reply.body


async def leave(reply: StreamingResponse) -> None:
    """Only the facts are wanted."""
