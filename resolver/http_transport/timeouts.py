"""The gate of one request of httpx's: what is opened through it heeds the timeouts that the client gave.

httpx has a time for each phase: to connect, to write once, to read once. Whichever ends first, that or the
limit of ours, ends the request. The time for a head begins when all is sent.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar

import httpx

from protocols.contract import Came, Line, PooledConnection, Sink, Stream
from protocols.errors import TimedOut
from resolver.clock import Clock
from resolver.gate import UrlGate
from resolver.loops import running

A = TypeVar("A")
B = TypeVar("B")
T = TypeVar("T")

Phase: TypeAlias = Literal["connect", "write", "read"]
_TIMED_OUT: Mapping[Phase, type[httpx.TimeoutException]] = {
    "connect": httpx.ConnectTimeout,
    "write": httpx.WriteTimeout,
    "read": httpx.ReadTimeout,
}


class TimedGate:
    """See `protocols.contract.Gate`. `timeouts` are httpx's, in seconds by phase; None is no bound."""

    def __init__(self, url_gate: UrlGate, timeouts: Mapping[str, float | None]) -> None:
        self._url_gate = url_gate
        self._timeouts = timeouts
        self._loop = running()
        self._sending = False
        self._head: Clock | None = None
        self._begun = False
        self._timed_out: type[httpx.TimeoutException] = httpx.ReadTimeout
        self.limits = url_gate.limits
        self.options = url_gate.options
        self.credentials = url_gate.credentials
        self.random = url_gate.random
        self.join = url_gate.join
        self.connect_data = url_gate.connect_data
        self.open_datagrams = url_gate.open_datagrams
        self.open_file = url_gate.open_file
        self.elsewhere = url_gate.elsewhere
        self.pause = url_gate.pause
        self.stand_by = url_gate.stand_by
        self.timer = url_gate.timer

    def timed_out(self, message: str) -> httpx.TimeoutException:
        """httpx's error for the phase that took too long."""
        return self._timed_out(message)

    def begin_body(self) -> None:
        """The head has come: its time is no matter any more."""
        self._begun = True

    @asynccontextmanager
    async def connect(self, *, tls: bool) -> AsyncIterator[Stream]:
        async with AsyncExitStack() as opened:
            stream = await self._open(opened, self._url_gate.connect(tls=tls))
            yield _TimedStream(stream, self)

    @asynccontextmanager
    async def acquire(self, pool_key: Hashable, *, tls: bool) -> AsyncIterator[PooledConnection]:
        async with AsyncExitStack() as opened:
            pooled = await self._open(opened, self._url_gate.acquire(pool_key, tls=tls))
            yield _TimedConnection(_TimedStream(pooled.stream, self), pooled.state, pooled.keep)

    async def _open(self, opened: AsyncExitStack, connection: AbstractAsyncContextManager[T]) -> T:
        self._head = None
        with self.within("connect"):
            return await opened.enter_async_context(connection)

    async def first_of(
        self, first: Callable[[], Awaitable[A]], second: Callable[[], Awaitable[B]]
    ) -> tuple[Came[A] | None, Came[B] | None]:
        """Nobody does two things at once here but who still sends."""
        self._sending = True
        try:
            return await self._url_gate.first_of(first, second)
        finally:
            self._sending = False

    @contextmanager
    def within(self, phase: Phase) -> Iterator[None]:
        """Bound what is awaited inside by the client's timeout for this phase."""
        seconds = self._timeouts.get(phase)
        try:
            with self._loop.move_on_after(float("inf") if seconds is None else seconds) as scope:
                yield
            if scope.cancelled_caught:
                raise TimedOut(f"timed out: not done within {seconds:g} s, as the client has it")
        except TimedOut:
            self._timed_out = _TIMED_OUT[phase]
            raise

    @contextmanager
    def hearing(self) -> Iterator[None]:
        """Bound one read; as long as no head has come, by what is left of the time for that, too."""
        with self.within("read"):
            if self._sending or self._begun:
                yield
                return
            if self._head is None:
                self._head = Clock.for_head(self.limits)
            with self._head.bound():
                yield


@dataclass(frozen=True, slots=True)
class _TimedConnection:
    """See `protocols.contract.PooledConnection`. What is kept is the connection itself."""

    stream: Stream
    state: object | None
    keep: Callable[[object], None]


class _TimedStream:
    """See `protocols.contract.Stream`."""

    def __init__(self, stream: Stream, gate: TimedGate) -> None:
        self._stream = stream
        self._gate = gate
        self.peer = stream.peer
        self.aclose = stream.aclose

    @property
    def secured(self) -> bool:
        return self._stream.secured

    @property
    def agreed(self) -> str | None:
        return self._stream.agreed

    @property
    def received(self) -> int:
        return self._stream.received

    @property
    def close_notify_seen(self) -> bool:
        return self._stream.close_notify_seen

    async def send(self, *lines: Line) -> None:
        with self._gate.within("write"):
            await self._stream.send(*lines)

    async def receive(self) -> bytes:
        with self._gate.hearing():
            return await self._stream.receive()

    async def move(self, sink: Sink, count: int | None) -> int:
        with self._gate.hearing():
            return await self._stream.move(sink, count)

    async def start_tls(self) -> None:
        with self._gate.within("connect"):
            await self._stream.start_tls()
