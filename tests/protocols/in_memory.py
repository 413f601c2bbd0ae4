"""An in-memory `Gate` with scripted connections, to test dialogues.

A connection follows the turns of a transcript. The bytes sent must equal the client's turns, byte for byte. A
test fails if the client reads while the server waits for a turn, or sends while the server does not wait. A
cutter splits the received bytes into pieces, because the result must not depend on the split.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Hashable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import NoReturn, TypeVar

from protocols.contract import (
    Datagrams,
    FirstResult,
    Gate,
    Line,
    LocalFile,
    PipelineState,
    PooledConnection,
    Sink,
    Slot,
    Stream,
    Timer,
)
from resolver import Credentials, Disconnected, Limits, Options, TimedOut
from resolver.testing import Cutter, DialogueTranscript, whole
from resolver.testing.transcript import Connection

A = TypeVar("A")
B = TypeVar("B")

_TLS_FROM_THE_START = ("https", "ftps", "gophers", "nntps", "snews", "telnets")


class MemoryStream:
    """A `Stream` that plays the server's side of a connection."""

    def __init__(self, connection: Connection, cutter: Cutter, *, tls: bool) -> None:
        self._turns = list(connection.turns)
        self._end = connection.end
        self._cutter = cutter
        self._waiting: list[bytes] = []
        self.sent = b""
        self.received = self.moved = 0
        self.secured = tls
        self.close_notify_seen = False
        self.closed = False
        self.peer = "192.0.2.1"
        self.agreed: str | None = None

    async def send(self, *lines: Line) -> None:
        assert not self.closed, "sent on a closed connection"
        octets = b"".join(line.octets for line in lines)
        self.sent += octets
        assert [turn.speaker for turn in self._turns[:1]] == ["C"], f"the server does not expect {octets!r}"
        expected = self._turns.pop(0).octets
        assert octets == expected, f"sent {octets!r}, not {expected!r}"

    async def receive(self) -> bytes:
        assert not self.closed, "received on a closed connection"
        if not self._waiting:
            self._waiting = [piece for piece in self._next_turn() if piece]
        if not self._waiting:
            return self._finish()
        octets = self._waiting.pop(0)
        self.received += len(octets)
        return octets

    def _next_turn(self) -> Iterable[bytes]:
        if not self._turns:
            return ()
        assert self._turns[0].speaker == "S", f"reads while the server waits for {self._turns[0].octets!r}"
        return self._cutter(self._turns.pop(0).octets)

    def _finish(self) -> bytes:
        if self._end == "reset":
            self._end = "close"  # a socket reports a reset only once
            raise Disconnected("the connection was reset")
        if self._end == "quiet":
            raise TimedOut("nothing came")
        assert self._end != "left", "waits for the end after the last turn"
        self.close_notify_seen = self.secured and self._end == "close"
        return b""

    async def move(self, sink: Sink, count: int | None) -> int:
        moved = 0
        while count is None or moved < count:
            octets = await self.receive()
            if not octets:
                break
            if count is not None and len(octets) > count - moved:
                self._waiting.insert(0, octets[count - moved :])
                self.received -= len(octets) - (count - moved)
                octets = octets[: count - moved]
            sink.write(octets)
            moved += len(octets)
        self.moved += moved
        return moved

    async def start_tls(self) -> None:
        assert not self.secured
        self.secured = True

    async def aclose(self) -> None:
        self.closed = True

    def check_finished(self) -> None:
        assert self.closed, "a connection is still open"
        unsaid = b"".join(turn.octets for turn in self._turns if turn.speaker == "C")
        assert unsaid == b"", f"never sent {unsaid!r}"


class MemoryLoan:
    """A `PooledConnection` whose connection is closed nevertheless; `kept` is the state passed to `keep`."""

    state: object | None = None

    def __init__(self, stream: Stream, pool_key: Hashable) -> None:
        self.stream = stream
        self.pool_key = pool_key
        self.kept: object | None = None

    def keep(self, state: object) -> None:
        self.kept = state


class MemoryGate:
    """A `Gate` to scripted connections; each `connect` takes the next script."""

    def __init__(
        self,
        connections: Iterable[Connection],
        cutter: Cutter = whole,
        *,
        tls: bool = False,
        limits: Limits | None = None,
        options: Options | None = None,
        logins: Iterable[Credentials | None] | None = None,
    ) -> None:
        self._logins = None if logins is None else list(logins)
        self._scripts = list(connections)
        self._cutter = cutter
        self._tls = tls
        self.limits = Limits() if limits is None else limits
        self.options = Options() if options is None else options
        self.streams: list[MemoryStream] = []
        self.loans: list[MemoryLoan] = []

    @classmethod
    def of(
        cls,
        transcript: DialogueTranscript,
        cutter: Cutter = whole,
        logins: Iterable[Credentials | None] | None = None,
    ) -> MemoryGate:
        tls = transcript.url.partition(":")[0] in _TLS_FROM_THE_START
        return cls(transcript.connections, cutter, tls=tls, logins=logins)

    @asynccontextmanager
    async def connect(self, *, tls: bool) -> AsyncIterator[Stream]:
        assert tls == self._tls, f"connected with tls={tls}"
        assert self._scripts, "unexpected connection"
        stream = MemoryStream(self._scripts.pop(0), self._cutter, tls=tls)
        self.streams.append(stream)
        try:
            yield stream
        finally:
            await stream.aclose()

    def check_finished(self) -> None:
        """Assert that every script was used and every connection was finished and closed."""
        assert not self._scripts, f"{len(self._scripts)} connections were never made"
        for stream in self.streams:
            stream.check_finished()

    @asynccontextmanager
    async def acquire(
        self, pool_key: Hashable, *, tls: bool, suits: Callable[[object], bool] | None = None
    ) -> AsyncIterator[PooledConnection]:
        """Open a new connection each time and record the loan in `loans`."""
        async with self.connect(tls=tls) as stream:
            self.loans.append(MemoryLoan(stream, pool_key))
            yield self.loans[-1]

    def random(self, count: int) -> bytes:
        return bytes(range(count))

    async def credentials(self, user: bytes | None, *, challenged: bool = True) -> Credentials | None:
        """Return the next of `logins`."""
        assert self._logins, f"unexpected login as {user!r}"
        return self._logins.pop(0)

    def join(
        self, key: Hashable, state: PipelineState, *, tls: bool, anew: bool
    ) -> AbstractAsyncContextManager[Slot]:
        raise AssertionError("unexpected shared connection")

    async def stand_by(self) -> NoReturn:
        raise AssertionError("unexpected concurrent steps")

    async def pause(self) -> None: ...

    def timer(self, seconds: float) -> Timer:
        raise AssertionError("unexpected timer")

    def derive_gate(self, location: str) -> Gate:
        raise AssertionError("unexpected gate for a different location")

    def connect_data(self, port: int) -> AbstractAsyncContextManager[Stream]:
        raise AssertionError("unexpected data connection")

    def open_datagrams(self) -> AbstractAsyncContextManager[Datagrams]:
        raise AssertionError("unexpected datagrams")

    async def first_of(
        self, first: Callable[[], Awaitable[A]], second: Callable[[], Awaitable[B]]
    ) -> tuple[FirstResult[A] | None, FirstResult[B] | None]:
        raise AssertionError("unexpected concurrent steps")

    def open_file(self, segments: tuple[bytes, ...]) -> AbstractAsyncContextManager[LocalFile]:
        raise AssertionError("unexpected file")


class MemorySink:
    """A `Sink` that collects the bytes written."""

    def __init__(self) -> None:
        self.octets = b""

    def fileno(self) -> int:
        raise AssertionError("the sink has no file descriptor")

    def write(self, octets: bytes | memoryview) -> None:
        self.octets += octets


async def pour(pieces: AsyncIterable[bytes], sink: Sink) -> int:
    """Write all pieces to the sink and return the number of bytes."""
    count = 0
    async for octets in pieces:
        sink.write(octets)
        count += len(octets)
    return count
