"""A server that sends half of a body, and then expects that the client closes the connection."""

from __future__ import annotations

import threading

import trio

from fixtures.ports import serve_connections


async def serve_half(nursery: trio.Nursery, sent: threading.Event | trio.Event) -> tuple[str, trio.Event]:
    """Start the server; set `sent` after half of the body.

    Returns:
        The URL, and the event that is set after the client has closed the connection.
    """
    closed = trio.Event()

    async def send_half(stream: trio.SocketStream) -> None:
        async with stream:
            await stream.receive_some()
            await stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")
            sent.set()
            assert await stream.receive_some() == b""
        closed.set()

    return f"http://127.0.0.1:{await serve_connections(nursery, send_half)}/", closed
