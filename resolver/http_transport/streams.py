"""The two bodies of a call as httpx has them: what a request sends, and what the answer brings."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TYPE_CHECKING

import httpx

from protocols.contract import Reply
from protocols.errors import LimitExceeded, ResolveError
from resolver.http_transport.faults import translated
from resolver.http_transport.timeouts import TimeoutGate
from resolver.portal import OpenResource, ask
from resolver.portal import PortalBody as WaitingBody
from resolver.tracebacks import outermost

if TYPE_CHECKING:
    from resolver.retrieval.recorded import CaptureRecording


class RequestBody:
    """What a request sends: `octets` where they are known before, None where `next_piece` gives them. Closing
    it closes what gives them, for not all of it may have been taken."""

    def __init__(self, request: httpx.Request) -> None:
        stream = request.stream
        self.octets: bytes | None = None
        self._pieces: AsyncIterator[bytes] | None = None
        if isinstance(stream, httpx.ByteStream):
            self.octets = b"".join(stream)
        else:
            self._pieces = (
                aiter(stream) if isinstance(stream, httpx.AsyncByteStream) else _asked(iter(stream))
            )

    async def next_piece(self) -> bytes:
        """The next octets; none at the end."""
        assert self._pieces is not None, "they are known already"
        async for octets in self._pieces:
            if octets:
                return octets
        return b""

    async def aclose(self) -> None:
        """Nobody takes any more of it."""
        if isinstance(self._pieces, AsyncGenerator):  # as httpx has them
            await self._pieces.aclose()


async def _asked(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """What a client that waits gives, each in the thread in which it waits."""
    while (octets := await ask(partial(next, pieces, None))) is not None:
        yield octets


class ResponseBody(httpx.AsyncByteStream):
    """What the answer brings, whose conversation is `opened`; closing it gives the connection back, or up."""

    def __init__(
        self,
        reply: Reply,
        opened: AbstractAsyncContextManager[Reply],
        gate: TimeoutGate,
        recording: CaptureRecording | None = None,
    ) -> None:
        self._opened: AbstractAsyncContextManager[Reply] | None = opened
        self._body = reply.body
        self._gate = gate
        self._most = gate.options.most
        self._received = 0
        self._recording = recording

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        try:
            with self._gate.clock.bound():
                octets = await anext(self._body)
            self._received += len(octets)
            if self._most is not None and self._received > self._most:
                raise LimitExceeded("body", f"the body is larger than the limit of {self._most} octets")
        except ResolveError as error:
            self._end_record(error)
            raise translated(error, self._gate.timed_out) from outermost(error)
        return octets

    async def aclose(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.__aexit__(None, None, None)
            self._end_record(None)

    def _end_record(self, error: ResolveError | None) -> None:
        if self._recording is not None:
            self._recording.end(error)


class HeldBody(httpx.SyncByteStream):
    """The same for a client that waits; closing it closes what is held."""

    def __init__(self, body: ResponseBody, held: OpenResource) -> None:
        self._body = WaitingBody(body, held)
        self._held = held

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._body)

    def close(self) -> None:
        self._held.leave()
