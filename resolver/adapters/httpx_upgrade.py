"""The connection after a 101 response (RFC 9110 section 15.2.2), for libraries such as WebSocket clients.

The methods and exceptions are those of a network stream of httpcore. With httpx2, they are those of
httpcore2. Libraries such as httpx-ws use `response.extensions["network_stream"]` and catch
`httpcore.ReadError`. The http timeouts do not apply to this connection, because each method call has its own
timeout.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

import resolver

if TYPE_CHECKING:
    from resolver.adapters.httpx_family import HttpxFamily
    from resolver.blocking.portal import Portal
    from resolver.loops import Loop

T = TypeVar("T")


class UpgradedConnection(Protocol):
    """The connection after a 101 response, with methods that raise errors of this library."""

    loop: Loop

    async def read(self) -> bytes:
        """Return received bytes, or empty bytes at the end of the connection."""
        ...

    async def write(self, octets: bytes) -> None: ...

    async def aclose(self) -> None: ...

    def describe(self, name: str) -> object:
        """Return the property of the connection with this name, or None."""
        ...


class StreamErrors(NamedTuple):
    """The exception classes of httpcore for a failed read or write, and for its timeout."""

    failed: type[Exception]
    timed_out: type[Exception]


def _find_errors(family: HttpxFamily) -> tuple[StreamErrors, StreamErrors]:
    """Return the httpcore exception classes of a read and of a write.

    httpcore or httpcore2 is imported only when this function is called (lazily), because few responses have
    the status 101.
    """
    if family.__name__ == "httpx2":
        import httpcore2

        reading = StreamErrors(httpcore2.ReadError, httpcore2.ReadTimeout)
        return reading, StreamErrors(httpcore2.WriteError, httpcore2.WriteTimeout)
    import httpcore

    reading = StreamErrors(httpcore.ReadError, httpcore.ReadTimeout)
    return reading, StreamErrors(httpcore.WriteError, httpcore.WriteTimeout)


class AsyncUpgradedStream:
    """The network stream after a 101 response for an asynchronous client."""

    def __init__(self, connection: UpgradedConnection, family: HttpxFamily) -> None:
        self._connection = connection
        self._reading, self._writing = _find_errors(family)
        self._buffer = b""

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - of httpcore
        """Wait for bytes, and return up to `max_bytes`; empty at the end."""
        if not self._buffer:
            self._buffer = await self._call(self._connection.read, self._reading, timeout)
        octets, self._buffer = self._buffer[:max_bytes], self._buffer[max_bytes:]
        return octets

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 - of httpcore
        """Send the bytes."""
        if buffer:
            await self._call(partial(self._connection.write, bytes(buffer)), self._writing, timeout)

    async def _call(
        self, operation: Callable[[], Awaitable[T]], errors: StreamErrors, seconds: float | None
    ) -> T:
        loop = self._connection.loop
        until = float("inf") if seconds is None else loop.current_time() + seconds
        try:
            with loop.move_on_at(until):
                return await operation()
        except resolver.TimedOut as error:
            raise errors.timed_out(error.message) from error
        except resolver.ResolveError as error:
            raise errors.failed(error.message) from error
        raise errors.timed_out(f"timed out after {seconds:g} s")

    async def aclose(self) -> None:
        """Close the connection."""
        await self._connection.aclose()

    def get_extra_info(self, info: str) -> object:
        """Return a property of the connection; see `SocketStream.describe`."""
        return self._connection.describe(info)


class UpgradedStream:
    """The network stream after a 101 response for a blocking client."""

    def __init__(self, stream: AsyncUpgradedStream, portal: Portal) -> None:
        self._stream = stream
        self._portal = portal

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Wait for bytes, and return up to `max_bytes`; empty at the end."""
        return self._portal.run(partial(self._stream.read, max_bytes, timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send the bytes."""
        self._portal.run(partial(self._stream.write, buffer, timeout))

    def close(self) -> None:
        """Close the connection."""
        self._portal.run(self._stream.aclose)

    def get_extra_info(self, info: str) -> object:
        """Return a property of the connection; see `AsyncUpgradedStream`."""
        return self._stream.get_extra_info(info)
