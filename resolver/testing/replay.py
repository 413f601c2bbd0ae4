"""A mock server on a socket, which plays the server's side of a transcript and checks the client."""

from __future__ import annotations

import socket
import ssl
import struct
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

import trio

from resolver.testing.transcript import Connection, DialogueTranscript, TranscriptTurn

Peer: TypeAlias = "trio.SocketStream | trio.SSLStream[trio.SocketStream]"


@dataclass
class Replay:
    """A mock server for one transcript.

    `complaints` lists the differences between the client's bytes and the transcript. `served` counts the
    connections without a difference.
    """

    transcript: DialogueTranscript
    port: int = 0
    served: int = 0
    complaints: list[str] = field(default_factory=list)


async def serve_transcript(
    nursery: trio.Nursery, transcript: DialogueTranscript, ssl_context: ssl.SSLContext | None = None
) -> Replay:
    """Serve a transcript at a free port of 127.0.0.1 until the nursery is cancelled.

    The connections of the transcript are served one after another. If a TLS context is passed, TLS starts
    with the first byte.
    """
    replay = Replay(transcript)
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    replay.port = listeners[0].socket.getsockname()[1]
    player = _TranscriptPlayer(replay, ssl_context)
    nursery.start_soon(partial(trio.serve_listeners, player.play, listeners))
    return replay


class _TranscriptPlayer:
    def __init__(self, replay: Replay, ssl_context: ssl.SSLContext | None) -> None:
        self._replay = replay
        self._scripts = list(replay.transcript.connections)
        self._ssl_context = ssl_context
        self._data = _DataConnections()

    async def play(self, raw: trio.SocketStream) -> None:
        if not self._scripts:
            self._complain("unexpected connection")
            return
        script = self._scripts.pop(0)
        peer: Peer = raw
        if self._ssl_context is not None:
            peer = trio.SSLStream(raw, self._ssl_context, server_side=True)
        try:
            for turn in script.turns:
                await self._play_turn(peer, turn)
            if octets := await end_connection(peer, raw, script):
                self._complain(f"unexpected bytes {octets!r}")
        except trio.BrokenResourceError:
            self._complain("the client closed the connection early")
            return
        finally:
            await self._data.aclose()
        self._replay.served += 1

    async def _play_turn(self, peer: Peer, turn: TranscriptTurn) -> None:
        match turn.speaker:
            case "S":
                await peer.send_all(await self._data.announce(turn.octets))
            case "C":
                await self._receive(peer, turn)
            case "D":
                await self._data.send(turn.octets)
            case "Z":
                await self._data.end(turn.octets)

    async def _receive(self, peer: Peer, turn: TranscriptTurn) -> None:
        received = b""
        while len(received) < len(turn.octets):
            octets = await peer.receive_some(len(turn.octets) - len(received))
            if not octets:
                break
            received += octets
        if received != turn.octets:
            self._complain(f"got {received!r}, expected {turn.octets!r}")

    def _complain(self, message: str) -> None:
        self._replay.complaints.append(f"{self._replay.transcript.name}: {message}")


class _DataConnections:
    """The data connections of FTP, one after another, on a real port instead of the transcript's port."""

    def __init__(self) -> None:
        self._listener: trio.SocketListener | None = None
        self._stream: trio.SocketStream | None = None

    async def announce(self, octets: bytes) -> bytes:
        """Open a listening socket on a real port, and return the control reply with that port."""
        if not any(mark in octets for mark in (b"|40001|", b",156,65")):
            return octets
        await self.aclose()
        (self._listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = self._listener.socket.getsockname()[1]
        octets = octets.replace(b"|40001|", b"|%d|" % port)
        return octets.replace(b",156,65", b",%d,%d" % (port >> 8, port & 255))

    async def _wait_connected(self) -> trio.SocketStream:
        assert self._listener is not None, "the transcript sends data without a port"
        if self._stream is None:
            self._stream = await self._listener.accept()
        return self._stream

    async def send(self, octets: bytes) -> None:
        await (await self._wait_connected()).send_all(octets)

    async def end(self, ending: bytes) -> None:
        stream = await self._wait_connected()
        if ending == b"reset":
            await reset(stream)
            return
        await stream.send_eof()
        with suppress(trio.BrokenResourceError):
            while await stream.receive_some(4096):
                pass
        await stream.aclose()

    async def aclose(self) -> None:
        for part in (self._stream, self._listener):
            if part is not None:
                await part.aclose()
        self._stream = self._listener = None


async def end_connection(peer: Peer, raw: trio.SocketStream, script: Connection) -> bytes:
    """End the connection as the transcript states; return bytes that the transcript does not contain."""
    match script.end:
        case "close":
            await peer.aclose()
        case "cut":
            await raw.aclose()
        case "reset":
            await reset(raw)
        case "quiet" | "left":
            with suppress(trio.BrokenResourceError):  # the client closed the connection with unread bytes
                return bytes(await peer.receive_some(4096))
    return b""


async def reset(raw: trio.SocketStream) -> None:
    """Close a connection with a TCP reset."""
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    await raw.aclose()
