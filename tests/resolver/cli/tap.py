"""An HTTP server that sends only the bytes that a test releases."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field

import trio

from fixtures.http.request import parse_head
from fixtures.ports import serve_connections


@dataclass
class Object:
    """The object at one path, of which the server sends the first `level` bytes.

    A range request receives the object from its offset on.
    """

    size: int
    has_size: bool = True
    level: int = 0
    ends_at: int | None = None
    more: trio.Event = field(default_factory=trio.Event)


class Tap:
    """A server of objects by path; `connections` counts the connections of each path."""

    def __init__(self) -> None:
        self.port = 0
        self.objects: dict[str, Object] = {}
        self.connections: dict[str, int] = defaultdict(int)

    def add(self, path: str, size: int, *, has_size: bool = True) -> str:
        """Add an object without released bytes and return its URL."""
        self.objects[path] = Object(size, has_size)
        return f"http://127.0.0.1:{self.port}{path}"

    def release(self, path: str, level: int | None = None) -> None:
        """Release the bytes up to `level`, or all bytes."""
        result = self.objects[path]
        result.level = result.size if level is None else level
        result.more.set()
        result.more = trio.Event()

    def close_connection(self, path: str) -> None:
        """Close the connection after the bytes sent so far."""
        self.objects[path].ends_at = self.objects[path].level
        self.release(path, self.objects[path].level)

    async def attend(self, stream: trio.SocketStream) -> None:
        async with stream:
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                await self._answer(stream)

    async def _answer(self, stream: trio.SocketStream) -> None:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            octets = await stream.receive_some()
            if not octets:
                return
            head += octets
        request = parse_head(head)
        self.connections[request.path] += 1
        await self._send(stream, self.objects[request.path], request.values("range"))

    async def _send(self, stream: trio.SocketStream, object: Object, ranges: list[str]) -> None:
        position = int(ranges[0].removeprefix("bytes=").rstrip("-")) if ranges else 0
        lines = [b"206 Some" if ranges else b"200 OK", b'ETag: "1"', b"Connection: close"]
        if ranges:
            lines.append(b"Content-Range: bytes %d-%d/%d" % (position, object.size - 1, object.size))
        if object.has_size:
            lines.append(b"Content-Length: %d" % (object.size - position))
        await stream.send_all(b"HTTP/1.1 " + b"\r\n".join(lines) + b"\r\n\r\n")
        while position < object.size:
            if object.ends_at is not None and position >= object.ends_at:
                object.ends_at = None
                return
            if position >= object.level:
                await object.more.wait()
                continue
            level = object.level  # may rise during the send
            await stream.send_all(bytes(level - position))
            position = level


async def open_tap(nursery: trio.Nursery) -> Tap:
    tap = Tap()
    tap.port = await serve_connections(nursery, tap.attend)
    return tap
