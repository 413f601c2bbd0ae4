"""The connection pool of idle (keep-alive) connections, and pipelining of concurrent retrievals.

A lookup by key takes constant time. The pool first returns the most recently used connection, because the
server is least likely to have closed this connection. If an idle connection receives data or an end of
stream, the connection is closed and never reused. The caller passes the addresses that the policy still
allows (S09).
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Container, Hashable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import TypeAlias

from protocols.contract import Line, PipelineState, Sink, StreamCodec
from protocols.errors import Disconnected, NetworkError, ResolveError, TimedOut
from resolver.files.faults import SPARE, max_descriptors
from resolver.loops import Event, running
from resolver.network.stream import SocketStream
from resolver.network.stream_settings import StreamSettings

#: Maximum idle time of a pooled connection in seconds. Apache closes idle connections after 5 s, nginx after
#: 75 s. The pool also detects connections that the server has already closed.
LIFETIME = 30.0

#: Maximum number of idle connections to all hosts, because each connection uses a file descriptor. The pool
#: uses at most an eighth of the file descriptors that are not reserved (`SPARE`).
CAPACITY = 100


@dataclass(slots=True, eq=False, repr=False)
class ReusableConnection:
    """A connection that may return to the pool; see `protocols.contract.PooledConnection`.

    Attributes:
        key: the key in the pool.
        state: the state that the last dialogue passed to `keep`; None for a new connection.
        farewell: the lines that are sent before the idle connection is closed, such as QUIT.
        next_state: the state that the current dialogue passed to `keep`.
        idle_since: the time at which the connection became idle.
    """

    stream: SocketStream
    key: Hashable
    state: object | None = None
    farewell: tuple[Line, ...] = ()
    next_state: object | None = None
    idle_since: float = 0.0

    def keep(self, state: object) -> None:
        self.next_state = state

    async def aclose(self) -> None:
        """Close the connection, after the farewell if the socket accepts it without a wait."""
        try:
            if self.farewell:
                with running().move_on_at(-math.inf), suppress(ResolveError):
                    await self.stream.send(*self.farewell)
        finally:
            await self.stream.aclose()


class ConnectionPool:
    """The idle connections of one run.

    Before the call of `open`, the pool does not store connections, because no caller would close these
    connections.

    Attributes:
        idle: the idle connections; the connection that became idle first is the first item.
    """

    def __init__(self) -> None:
        self._open = False
        self._capacity = CAPACITY
        self.idle: OrderedDict[ReusableConnection, None] = OrderedDict()
        self._by_key: dict[Hashable, list[ReusableConnection]] = {}

    def open(self) -> None:
        """Start to store idle connections."""
        self._open = True
        self._capacity = min(CAPACITY, (max_descriptors() - SPARE) // 8)

    async def take(
        self, key: Hashable, addresses: Container[str], suits: Callable[[object], bool] | None = None
    ) -> ReusableConnection | None:
        """Remove and return the most recently used connection for `key` to one of `addresses`, or None.

        Connections are preferred if `suits` returns true for their state. Without such a connection, the
        oldest connection is taken, because a later caller may prefer the newest connection. A connection with
        unread data, an expired lifetime, or another address is closed.
        """
        while (matches := self._by_key.get(key)) is not None:
            pooled = matches[-1]
            if suits is not None:
                pooled = next((match for match in reversed(matches) if suits(match.state)), matches[0])
            self._remove(pooled)
            idle_time = pooled.stream.loop.current_time() - pooled.idle_since
            if pooled.stream.is_reusable and pooled.stream.peer in addresses and idle_time <= LIFETIME:
                return pooled
            await pooled.aclose()
        return None

    async def store(self, connection: ReusableConnection) -> None:
        """Store a reusable connection, and close the oldest connection if the pool is full."""
        if not self._open:
            await connection.aclose()
            return
        connection.idle_since = now = connection.stream.loop.current_time()
        self.idle[connection] = None
        self._by_key.setdefault(connection.key, []).append(connection)
        # The new connection is stored first, because a listener may raise at the close of another.
        # During the close, another task may take all connections.
        while (oldest := next(iter(self.idle), None)) is not None:
            if len(self.idle) <= self._capacity and now - oldest.idle_since <= LIFETIME:
                break
            await self._remove(oldest).aclose()

    async def close_excess(self, addresses: Container[str], max_count: int) -> None:
        """Close the oldest idle connections to `addresses`, and leave at most `max_count` open."""
        matches = [connection for connection in self.idle if connection.stream.peer in addresses]
        async with AsyncExitStack() as closing:
            for connection in matches[: max(0, len(matches) - max_count)]:
                closing.push_async_callback(self._remove(connection).aclose)

    async def aclose(self) -> None:
        """Close all idle connections and store no further connections."""
        self._open = False
        async with AsyncExitStack() as closing:
            while self.idle:
                closing.push_async_callback(self._remove(next(iter(self.idle))).aclose)

    def _remove(self, connection: ReusableConnection) -> ReusableConnection:
        del self.idle[connection]
        connections = self._by_key[connection.key]
        connections.remove(connection)
        if not connections:
            del self._by_key[connection.key]
        return connection


# Pipelining: several retrievals share one connection. The client sends requests before earlier responses have
# arrived, and the server responds in the order of the requests.
#
# Each retrieval has a slot in the pipeline. Rules:
# - A slot sends its request after all earlier slots have sent their requests, if the connection state has
#   capacity.
# - A slot reads its response after all earlier slots have left the pipeline.
# - If a slot leaves after its request and before the end of its response, all later slots fail with
#   `Disconnected`, because the client cannot assign the following bytes to a response. The failed retrievals
#   may join another pipeline.

#: A function that returns a new or pooled connection, and its state.
Opener: TypeAlias = "Callable[[], Awaitable[tuple[SocketStream, PipelineState]]]"


class SlotStream:
    """The stream of one pipeline slot; all slots of a pipeline share the connection.

    Each operation applies the settings of the slot. Sending marks the request of the slot as sent.
    """

    def __init__(
        self, stream: SocketStream, settings: StreamSettings, pipeline: Pipeline, slot: PipelineSlot
    ) -> None:
        self._stream = stream
        self._settings = settings
        self._pipeline = pipeline
        self._slot = slot

    @property
    def peer(self) -> str:
        return self._stream.peer

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
        self._stream.apply_settings(self._settings)
        await self._stream.send(*lines)
        self._pipeline.finish_sending(self._slot)

    async def receive(self) -> bytes:
        self._stream.apply_settings(self._settings)
        try:
            return await self._stream.receive()
        except TimedOut:
            self._pipeline.has_timed_out = True
            raise

    async def move(self, sink: Sink, count: int | None) -> int:
        self._stream.apply_settings(self._settings)
        return await self._stream.move(sink, count)

    async def start_tls(self) -> None:
        self._stream.apply_settings(self._settings)
        await self._stream.start_tls()

    async def aclose(self) -> None:
        await self._stream.aclose()


class PipelineSlot:
    """A retrieval in a pipeline; see `protocols.contract.Slot`.

    Attributes:
        generation: the generation number of the connection state at the time of the request; None before the
            request.
        abandoned: whether an earlier slot left without reading its complete response, so that the response
            of this slot is lost.
        ended: whether the response has been read.
    """

    def __init__(self, pipeline: Pipeline, settings: StreamSettings) -> None:
        self._pipeline = pipeline
        self._settings = settings
        self.generation: int | None = None
        self.abandoned = False
        self.ended = False
        self.wakeup: Event | None = None

    @property
    def stream(self) -> SlotStream:
        """Return a new stream object, because a stored one would form a reference cycle with the slot."""
        return SlotStream(self._pipeline.stream, self._settings, self._pipeline, self)

    @property
    def state(self) -> PipelineState:
        return self._pipeline.state

    async def start_request(self) -> None:
        while not self._pipeline.may_start_request(self):
            await self._sleep()

    async def start_response(self) -> None:
        while not self._pipeline.may_start_response(self):
            await self._sleep()

    def end_response(self) -> None:
        self.ended = True

    def start_packing(self, machine: StreamCodec) -> None:
        self._pipeline.stream.start_packing(machine)

    async def _sleep(self) -> None:
        self.wakeup = running().event()
        await self.wakeup.wait()

    def wake(self) -> None:
        """Wake the slot if it waits for an earlier slot."""
        if self.wakeup is not None:
            self.wakeup.set()


class Pipeline:
    """A pipelined connection and its slots.

    Attributes:
        closed: whether the pipeline accepts no further slots.
        has_timed_out: whether the idle timeout of a slot passed. The other slots then fail without a wait.
        in_order: whether every slot read its complete response before the slot left the pipeline.
    """

    def __init__(self, stream: SocketStream, state: PipelineState) -> None:
        self.stream = stream
        self.state = state
        self.closed = False
        self.has_timed_out = False
        self.in_order = True
        self._slots: deque[PipelineSlot] = deque()
        self._unsent: deque[PipelineSlot] = deque()
        self._generation = state.generation

    def add(self, settings: StreamSettings) -> PipelineSlot:
        assert not self.closed, "the pipeline is closed"
        slot = PipelineSlot(self, settings)
        self._slots.append(slot)
        self._unsent.append(slot)
        return slot

    def may_start_request(self, slot: PipelineSlot) -> bool:
        """Return whether the slot may send its request.

        Raises:
            Disconnected: an earlier slot ended the pipeline.
            TimedOut: the idle timeout of an earlier slot passed.
        """
        self._check_abandoned(slot)
        if self._slots[0] is slot:
            return True
        return self._unsent[0] is slot and self.state.has_room

    def finish_sending(self, slot: PipelineSlot) -> None:
        """Record that the slot has sent its request."""
        if self._unsent and self._unsent[0] is slot:
            self._unsent.popleft()
        slot.generation = self.state.generation
        self._wake_next()

    def may_start_response(self, slot: PipelineSlot) -> bool:
        """Return whether the slot may continue.

        It then reads its response, or sends its request again.

        Raises:
            Disconnected: an earlier slot ended the pipeline.
            TimedOut: the idle timeout of an earlier slot passed.
        """
        self._check_abandoned(slot)
        return self._slots[0] is slot or slot.generation != self.state.generation

    def leave(self, slot: PipelineSlot) -> bool:
        """Remove the slot and return whether the pipeline is empty."""
        if not slot.abandoned:
            if not slot.ended and (slot.generation is not None or self._slots[0] is slot):
                self._abandon_later(slot)
            self._slots.remove(slot)
            if slot in self._unsent:
                self._unsent.remove(slot)
            self._wake_next()
        return not self._slots

    def _abandon_later(self, slot: PipelineSlot) -> None:
        """Abandon the later slots, because their responses can no longer be identified."""
        self.closed, self.in_order = True, False
        while self._slots[-1] is not slot:
            later = self._slots.pop()
            later.abandoned = True
            later.wake()
        self._unsent = deque(slot for slot in self._unsent if not slot.abandoned)

    def _check_abandoned(self, slot: PipelineSlot) -> None:
        if slot.abandoned and self.has_timed_out:
            words = f"timed out: no data from {self.stream.peer} on a shared connection"
            raise TimedOut(words).with_setting("idle_timeout")
        if slot.abandoned:
            raise Disconnected("the connection was closed before the response arrived")

    def _wake_next(self) -> None:
        """Wake the slots that may be able to continue."""
        if self._generation != self.state.generation:
            self._generation = self.state.generation
            self._unsent = deque(slot for slot in self._slots if slot.generation != self._generation)
            for slot in self._unsent:
                slot.wake()
        for waiting in (self._slots, self._unsent):
            if waiting:
                waiting[0].wake()


class _OpeningPipeline:
    """A pipeline whose connection attempt is still running, with the error of a failed attempt.

    `ready` exists only if another caller waits for the attempt.
    """

    ready: Event | None = None
    error: NetworkError | None = None


class Pipelines:
    """The pipelines of a run, by key. Retrievals with the same key share a pipeline."""

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool
        self._pipelines: dict[Hashable, Pipeline] = {}
        self._opening: dict[Hashable, _OpeningPipeline] = {}

    async def join(self, key: Hashable, addresses: Container[str], open_: Opener) -> Pipeline:
        """Return the pipeline for `key` to one of `addresses`, or create it.

        Concurrent callers with the same key wait for one connection attempt. If the attempt fails, all these
        callers get the same error.
        """
        while True:
            pipeline = self._pipelines.get(key)
            if pipeline is not None and not pipeline.closed:
                return pipeline if pipeline.stream.peer in addresses else Pipeline(*await open_())
            opening = self._opening.get(key)
            if opening is None:
                return await self._open(key, open_)
            if opening.ready is None:
                opening.ready = running().event()
            await opening.ready.wait()
            if opening.error is not None:
                raise type(opening.error)(opening.error.message) from opening.error

    async def _open(self, key: Hashable, open_: Opener) -> Pipeline:
        opening = self._opening[key] = _OpeningPipeline()
        try:
            pipeline = self._pipelines[key] = Pipeline(*await open_())
        except NetworkError as error:
            opening.error = error
            raise
        finally:
            del self._opening[key]
            if opening.ready is not None:
                opening.ready.set()
        return pipeline

    async def leave(self, key: Hashable, pipeline: Pipeline, slot: PipelineSlot) -> None:
        """Remove the slot from the pipeline. After the last slot, pool or close the connection."""
        if not pipeline.leave(slot):
            return
        pipeline.closed = True
        if self._pipelines.get(key) is pipeline:
            del self._pipelines[key]
        if pipeline.in_order and pipeline.state.idle:
            state = pipeline.state
            await self._pool.store(ReusableConnection(pipeline.stream, key, state, state.farewell))
        else:
            await pipeline.stream.aclose()
