"""An in-memory gate for news: each pipeline has one user and ends with QUIT."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Hashable, Iterable
from contextlib import asynccontextmanager

from protocols.contract import PipelineState, Stream, StreamCodec
from resolver import Credentials, Limits, NewsUrl, NntpUrl, Options, parse
from resolver.testing import Cutter, DialogueTranscript, whole
from resolver.testing.transcript import Connection
from tests.protocols.in_memory import MemoryGate

LOOPBACK = "127.0.0.1"


class MemorySlot:
    """A slot in a pipeline of one."""

    def __init__(self, stream: Stream, state: PipelineState) -> None:
        self.stream = stream
        self.state = state
        self.ended = False

    async def start_request(self) -> None:
        assert not self.ended, "starts a request after the last request"

    async def start_response(self) -> None:
        assert not self.ended, "starts a response after the last request"

    def end_response(self) -> None:
        self.ended = True

    def start_packing(self, machine: StreamCodec) -> None:
        raise AssertionError("no server in memory offers compression")


class NewsGate(MemoryGate):
    """An in-memory gate which records the logins and pipeline keys.

    - `peer`: the address of every server
    - `held`: returns the stored credentials of a user
    - `asked`: the users whose credentials were requested
    - `keys`: the pipeline keys of the connections
    """

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
        self.keys: list[Hashable] = []

    @classmethod
    def of(
        cls,
        transcript: DialogueTranscript,
        cutter: Cutter = whole,
        logins: Iterable[Credentials | None] | None = None,
    ) -> NewsGate:
        assert logins is None, "`held` supplies the logins"
        tls = transcript.url.partition(":")[0] in ("nntps", "snews")
        return cls(transcript.connections, cutter, tls=tls)

    @asynccontextmanager
    async def join(
        self, key: Hashable, state: PipelineState, *, tls: bool, anew: bool
    ) -> AsyncIterator[MemorySlot]:
        self.keys.append(key)
        async with self.connect(tls=tls) as stream:
            self.streams[-1].peer = self._peer
            slot = MemorySlot(stream, state)
            try:
                yield slot
            finally:
                if slot.ended and state.idle:
                    await stream.send(*state.farewell)

    def random(self, count: int) -> bytes:
        raise AssertionError("no test needs random bytes")

    async def credentials(self, user: bytes | None, *, challenged: bool = True) -> Credentials | None:
        self.asked.append(user)
        return self._held(user)


def news_url(text: str) -> NewsUrl | NntpUrl:
    url = parse(text)
    assert isinstance(url, NewsUrl | NntpUrl)
    return url
