"""A mock server that selects a transcript by the client's requests, and sends its replies."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from functools import partial

import trio

from resolver.testing.contract.case import MockServer
from resolver.testing.replay import Peer, end_connection
from resolver.testing.transcript import Connection, DialogueTranscript, TranscriptTurn


def answering(*transcripts: DialogueTranscript, tls: bool = False) -> Callable[..., Awaitable[MockServer]]:
    """Return a function that starts a `TranscriptServer`, for the attribute `start` of a case.

    Args:
        transcripts: protocol exchanges whose first different bytes are from the client, so that the client's
            request selects the exchange.
        tls: whether TLS starts with the first byte.
    """
    connections = tuple(connection for transcript in transcripts for connection in transcript.connections)

    async def start(nursery: trio.Nursery, context: ssl.SSLContext) -> MockServer:
        server = TranscriptServer(connections, context if tls else None)
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        server.port = listeners[0].socket.getsockname()[1]
        nursery.start_soon(partial(trio.serve_listeners, server.attend, listeners))
        return server

    return start


class TranscriptServer:
    """A server that follows one of several transcripts.

    The client's requests select the transcript. `heard` contains the received bytes of each connection.
    `strange` contains the requests that are in no transcript.
    """

    def __init__(self, connections: tuple[Connection, ...], tls: ssl.SSLContext | None) -> None:
        self.port = 0
        self.heard: list[bytearray] = []
        self.strange: list[bytes] = []
        self._connections = connections
        self._tls = tls

    async def attend(self, raw: trio.SocketStream) -> None:
        peer: Peer = raw if self._tls is None else trio.SSLStream(raw, self._tls, server_side=True)
        received = bytearray()
        self.heard.append(received)
        try:
            connection = await self._converse(peer, received)
            if connection is not None:
                await end_connection(peer, raw, connection)
        except trio.BrokenResourceError:
            pass  # a client may close the connection at any time
        finally:
            with trio.CancelScope(shield=True):
                await trio.aclose_forcefully(raw)

    async def _converse(self, peer: Peer, received: bytearray) -> Connection | None:
        """Run the exchange, and return the matching connection of a transcript, or None."""
        candidates, at = list(self._connections), 0
        while at < max(len(item.turns) for item in candidates):
            active = [item for item in candidates if at < len(item.turns)]
            turn = active[0].turns[at]
            if turn.speaker == "S":
                await peer.send_all(turn.octets)
            else:
                request = await self._read(peer, received, [item.turns[at] for item in active])
                if request is None:
                    return None
                turn = request
            candidates, at = [item for item in active if item.turns[at] == turn], at + 1
        return candidates[0]

    async def _read(self, peer: Peer, log: bytearray, turns: list[TranscriptTurn]) -> TranscriptTurn | None:
        """Return the client's request from a transcript, or None if the client closes or deviates."""
        octets = b""
        while turns:
            for turn in turns:
                if turn.octets == octets:
                    return turn
            received = bytes(await peer.receive_some())
            if not received:
                return None
            octets += received
            log += received
            turns = [turn for turn in turns if turn.speaker == "C" and turn.octets.startswith(octets)]
        self.strange.append(octets)
        return None
