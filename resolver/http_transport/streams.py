"""The two bodies of a call as httpx has them: what a request sends, and what the answer brings."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import AsyncExitStack
from functools import partial
from types import TracebackType

import httpx

from protocols.contract import Body
from protocols.errors import LimitExceeded
from resolver.clock import Clock
from resolver.http_transport.faults import translated
from resolver.http_transport.timeouts import TimedGate
from resolver.portal import Body as WaitingBody
from resolver.portal import Held, ask


class RequestBody:
    """What a request sends: `octets` where they are known before, None where `next_piece` gives them. On
    leaving, what gives them is closed, for not all of it may have been taken."""

    def __init__(self, request: httpx.Request) -> None:
        stream = request.stream
        self._pieces = aiter(stream) if isinstance(stream, httpx.AsyncByteStream) else _asked(iter(stream))
        self.octets = b"".join(stream) if isinstance(stream, httpx.ByteStream) else None

    async def next_piece(self) -> bytes:
        """The next octets; none at the end."""
        async for octets in self._pieces:
            if octets:
                return octets
        return b""

    async def __aenter__(self) -> RequestBody:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(self._pieces, AsyncGenerator):  # as httpx has them
            await self._pieces.aclose()


async def _asked(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """What a client that waits gives, each in the thread in which it waits."""
    while (octets := await ask(partial(next, pieces, None))) is not None:
        yield octets


class ResponseBody(httpx.AsyncByteStream):
    """What the answer brings, from what is `opened`; closing it gives the connection back, or up."""

    def __init__(self, body: Body, gate: TimedGate, clock: Clock, most: int | None) -> None:
        self.opened = AsyncExitStack()
        self._body = body
        self._gate = gate
        self._clock = clock
        self._most = most
        self._received = 0

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        with translated(self._gate.timed_out):
            with self._clock.bound():
                octets = await anext(self._body)
            self._received += len(octets)
            if self._most is not None and self._received > self._most:
                raise LimitExceeded("body", f"the body is larger than the limit of {self._most} octets")
        return octets

    async def aclose(self) -> None:
        await self.opened.aclose()


class HeldBody(httpx.SyncByteStream):
    """The same for a client that waits; closing it closes what is held."""

    def __init__(self, body: ResponseBody, held: Held) -> None:
        self._body = WaitingBody(body, held)
        self._held = held

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._body)

    def close(self) -> None:
        self._held.leave()
