"""A finger server (RFC 1288) on loopback, for the test plug-ins."""

from __future__ import annotations

from functools import partial

import trio

SAID = b"Login: joe\r\nNo Plan.\r\n"


class FingerServer:
    """A server that answers every client with `SAID` and records the requests."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.heard: list[bytes] = []

    @classmethod
    async def start(cls, nursery: trio.Nursery) -> FingerServer:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        server = cls(listeners[0].socket.getsockname()[1])
        nursery.start_soon(partial(trio.serve_listeners, server.attend, listeners))
        return server

    async def attend(self, stream: trio.SocketStream) -> None:
        async with stream:
            asked = b""
            while not asked.endswith(b"\r\n") and (octets := await stream.receive_some()):
                asked += octets
            self.heard.append(asked)
            await stream.send_all(SAID)
