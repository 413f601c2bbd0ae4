"""The request extension `trace`: a function of the caller that receives trace events, as in httpcore.

The first step of a request is `connection.connect_tcp` (DNS lookup, connection and TLS together). The other
steps are `send_request_headers`, `send_request_body`, `receive_response_headers` and `receive_response_body`,
with the prefix `http11` or `http2`. Each step has the event `started`, and then `complete` or `failed`. A
small request body is sent together with the request head, in one step. If a pooled connection is used, the
step `connect_tcp` does not occur.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from protocols.contract import Line
    from resolver.network.stream import SocketStream

#: A function that reports a trace event. The function passes the name and the data of the event to the
#: caller's `trace` function.
Report: TypeAlias = Callable[[str, Mapping[str, Any]], Awaitable[None]]

_HEADERS, _BODY = "receive_response_headers", "receive_response_body"


class RequestTrace:
    """The trace of a request. It reports each step to the caller's function."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._prefix = "http11"
        self._step: str | None = None
        self.is_sending = False

    @asynccontextmanager
    async def watch(self, step: str, facts: Mapping[str, Any]) -> AsyncIterator[None]:
        """Report the start of a step, and then its completion or failure."""
        await self._report(f"{step}.started", facts)
        try:
            yield
        except Exception as error:
            await self._report(f"{step}.failed", {"exception": error})
            raise
        await self._report(f"{step}.complete", {"return_value": None})

    def wrap(self, stream: SocketStream) -> TracedStream:
        """Wrap a connection, so that its first writes and reads are reported."""
        self._prefix = "http2" if stream.agreed == "h2" else "http11"
        return TracedStream(stream, self)

    @asynccontextmanager
    async def watch_send(self, number: int) -> AsyncIterator[None]:
        """Report a write of the request.

        HTTP/2 frames after the request are not reported, because these frames only manage the connection.
        """
        if number and self._prefix == "http2":
            yield
            return
        async with self.watch(f"{self._prefix}.send_request_{'body' if number else 'headers'}", {}):
            yield

    async def begin(self, step: str) -> None:
        """Report that a step of receiving started; repeated calls have no effect."""
        if self._step != step:
            self._step = step
            await self._report(f"{self._prefix}.{step}.started", {})

    async def begin_headers(self) -> None:
        """Report the start of the response head, unless the request is still being sent."""
        if self._step is None and not self.is_sending:
            await self.begin(_HEADERS)

    async def end_headers(self, head: tuple[bytes, int, bytes, list[tuple[bytes, bytes]]]) -> None:
        """Report the received response head: version, status, reason phrase and header fields."""
        await self.begin(_HEADERS)
        await self._report(f"{self._prefix}.{_HEADERS}.complete", {"return_value": head})

    async def begin_body(self) -> None:
        """Report the first read of the response body."""
        await self.begin(_BODY)

    async def end_body(self) -> None:
        """Report that the response body is complete."""
        await self._report(f"{self._prefix}.{_BODY}.complete", {"return_value": None})

    async def fail(self, error: Exception) -> None:
        """Report that the current step of receiving failed."""
        if self._step is not None:
            await self._report(f"{self._prefix}.{self._step}.failed", {"exception": error})


class TracedStream:
    """A connection that reports its writes and reads to a `RequestTrace`."""

    def __init__(self, stream: SocketStream, trace: RequestTrace) -> None:
        self._stream = stream
        self._trace = trace
        self._sent = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def send(self, *lines: Line) -> None:
        """Send lines, and report the write as one step."""
        async with self._trace.watch_send(self._sent):
            self._sent += 1
            await self._stream.send(*lines)

    async def receive(self) -> bytes:
        """Return the next received bytes; the first read starts the step for the response head."""
        await self._trace.begin_headers()
        return await self._stream.receive()
