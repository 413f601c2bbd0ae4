"""A peer for tests of the simulated world: one object over http."""

from __future__ import annotations

from typing import Any

CONTENT = b"0123456789abcde\n" * 200


async def serve_http(stream: Any) -> None:
    """Answer one request with the object."""
    received = b""
    while b"\r\n\r\n" not in received:
        octets = await stream.receive_some(4_096)
        if not octets:
            return
        received += octets
    await stream.send_all(b'HTTP/1.1 200 OK\r\nContent-Length: %d\r\nETag: "1"\r\n\r\n' % len(CONTENT))
    await stream.send_all(CONTENT)
