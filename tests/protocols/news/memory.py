"""A gate in memory for news: connections are joined, alone, and left with a farewell."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Hashable, Iterable
from contextlib import asynccontextmanager

from fixtures.transcript import Connection, Transcript
from protocols.contract import Credentials, Limits, Memory, Options, Stream
from tests.protocols.in_memory import Cutter, MemoryGate, whole

LOOPBACK = "127.0.0.1"


class MemorySeat:
    """A seat in a row of one."""

    def __init__(self, stream: Stream, memory: Memory) -> None:
        self.stream = stream
        self.memory = memory
        self.kept = False

    async def take_floor(self) -> None:
        assert not self.kept, "speaks after it said that all is over"

    async def await_turn(self) -> None:
        assert not self.kept, "listens after it said that all is over"

    def keep(self) -> None:
        self.kept = True


class NewsGate(MemoryGate):
    """`peer` is the address of every server, `held` the credentials for it. `asked` are the users whose
    credentials were asked for, `whom` who was said to speak."""

    def __init__(
        self,
        connections: Iterable[Connection],
        cutter: Cutter = whole,
        *,
        tls: bool = False,
        limits: Limits | None = None,
        options: Options | None = None,
        peer: str = LOOPBACK,
        held: Callable[[bytes | None], Credentials | None] = lambda user: None,
    ) -> None:
        super().__init__(connections, cutter, tls=tls, limits=limits, options=options)
        self._peer = peer
        self._held = held
        self.asked: list[bytes | None] = []
        self.whom: list[Hashable] = []

    @classmethod
    def of(cls, transcript: Transcript, cutter: Cutter = whole) -> NewsGate:
        tls = transcript.url.partition(":")[0] in ("nntps", "snews")
        return cls(transcript.connections, cutter, tls=tls)

    @asynccontextmanager
    async def join(
        self, whom: Hashable, memory: Memory, *, tls: bool, anew: bool
    ) -> AsyncIterator[MemorySeat]:
        self.whom.append(whom)
        async with self.connect(tls=tls) as stream:
            self.streams[-1].peer = self._peer
            seat = MemorySeat(stream, memory)
            try:
                yield seat
            finally:
                if seat.kept and memory.at_rest:
                    await stream.send(*memory.farewell)

    async def credentials(self, user: bytes | None) -> Credentials | None:
        self.asked.append(user)
        return self._held(user)
