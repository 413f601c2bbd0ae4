"""A body under the limits of its retrieval: its time, its rate, its size, progress, the URL on every error.

A handler does none of that. Iterated or moved in bulk, the same limits hold: beside a move somebody looks
every now and then at how far it has come.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import TracebackType

import trio

from protocols.body import pour
from protocols.contract import Reply, Sink
from protocols.errors import LimitExceeded, ResolveError, Truncated
from resolver.clock import Clock, Pace
from resolver.events import OnEvent, Progress
from resolver.gate.race import first_of
from resolver.gate.sink import position_of

_SKIPPED_AT_ONCE = 1_048_576

#: Seconds between two looks at a body that is moved in bulk: what a person takes for steady progress.
_LOOK_EVERY = 0.2


class WatchedBody:
    """A body under the limits of its retrieval. Iterate it, or drain it, or take some and drain the rest;
    once. `received` counts from the beginning of the object, wherever the body begins."""

    def __init__(
        self, reply: Reply, url: str, clock: Clock, most: int | None, least: int | None, on_event: OnEvent
    ) -> None:
        self._body = reply.body
        self._url = url
        self._clock = clock
        self._most = most
        self._pace = Pace(least)
        self._start = reply.start
        self._expected = reply.size
        self._on_event = on_event
        self._ahead = b""
        self._closed = False
        self.received = reply.start

    def __aiter__(self) -> WatchedBody:
        return self

    def close(self) -> None:
        """The reply is over, and what it was read from may be somebody else's by now: from here on
        `trio.ClosedResourceError`."""
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise trio.ClosedResourceError("the body of a reply is read before the reply is left")

    async def __anext__(self) -> bytes:
        self._check_open()
        octets, self._ahead = self._ahead, b""
        if octets:
            return octets
        with self._watched():
            octets = await self._next()
        self._count(len(octets))
        return octets

    async def _next(self) -> bytes:
        if self._pace.patience == float("inf"):
            return await anext(self._body)
        began = trio.current_time()
        with trio.move_on_after(self._pace.patience):
            octets = await anext(self._body)
            self._pace.spend(trio.current_time() - began, len(octets))
            return octets
        raise self._pace.too_slow()

    async def take(self, count: int) -> bytes:
        """The next `count` octets; fewer only when there are no more."""
        pieces: list[bytes] = []
        while count > 0:
            octets = await anext(self, b"")
            if not octets:
                break
            pieces.append(octets[:count])
            self._ahead = octets[count:]
            count -= len(pieces[-1])
        return b"".join(pieces)

    async def skip(self, count: int) -> None:
        """Pass over the next `count` octets, without keeping them."""
        while count > 0 and (octets := await self.take(min(count, _SKIPPED_AT_ONCE))):
            count -= len(octets)

    async def drain(self, sink: Sink) -> int:
        """Move what is left into `sink`, in bulk where no limit has to be watched; how many octets."""
        self._check_open()
        if self._most is not None:
            return await pour(self, sink)
        ahead, self._ahead = self._ahead, b""
        sink.write(ahead)
        with self._watched():
            moved = await self._move(sink)
        return len(ahead) + moved

    async def _move(self, sink: Sink) -> int:
        """Drain the body, and look every now and then at how far it has come."""
        before, held = self.received, position_of(sink)

        async def look() -> None:
            while True:
                await trio.sleep(_LOOK_EVERY)
                position = position_of(sink)
                if held is not None and position is not None:
                    came = before + position - held - self.received
                    self._count(came)
                    self._pace.spend(_LOOK_EVERY, came)

        moved, _ = await first_of(partial(self._body.drain, sink), look)
        assert moved is not None, "looking never ends"
        self._count(before + moved.value - self.received)
        return moved.value

    def _count(self, octets: int) -> None:
        self.received += octets
        if self._most is not None and self.received > self._most:
            raise LimitExceeded(
                "body",
                f"the body is larger than the limit of {self._most} octets (--max-size)",
                url=self._url,
            )
        self._on_event(Progress(self._url, self.received, self._expected))

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """One call under the clock. A body that was cut tells its octets from its own beginning; here they
        become those of the object."""
        with named(self._url), self._clock.bound():
            try:
                yield
            except Truncated as error:
                if not self._start:
                    raise
                raise Truncated(
                    f"{error.message}, behind {self._start} that were there already",
                    received=self._start + error.received,
                    expected=None if error.expected is None else self._start + error.expected,
                ) from error


class named:
    """Every error of ours that passes says which URL it is about. No generator, for it is entered around
    each piece of a body."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, ResolveError) and error.url is None:
            error.url = self._url
