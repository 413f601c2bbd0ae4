"""Peers that are not what a client takes them for: on sockets, inside TLS or not."""

from __future__ import annotations

import random
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import TypeAlias

import trio

from resolver.testing.replay import Peer, reset

#: What is done with one connection; it is closed behind that.
Attend: TypeAlias = Callable[[Peer], Awaitable[None]]

_AT_ONCE = 65_536


async def leave(peer: Peer) -> None:
    """In order: the client is heard out, for octets that nobody read would make it a reset."""
    if isinstance(peer, trio.SSLStream):
        await peer.unwrap()
    else:
        await peer.send_eof()
        await hear_out(peer)


async def hear_out(peer: Peer) -> None:
    """Until the client leaves."""
    while await peer.receive_some(_AT_ONCE):
        pass


async def break_off(peer: Peer) -> None:
    if isinstance(peer, trio.SSLStream):
        await peer.do_handshake()
        peer = peer.transport_stream
    await reset(peer)


async def say_endlessly(peer: Peer) -> None:
    """A line without an end."""
    while True:
        await peer.send_all(b"x" * _AT_ONCE)


async def babble(peer: Peer, seed: int) -> None:
    """Random octets, and the end."""
    source = random.Random(seed)
    await peer.send_all(source.randbytes(source.choice((1, 30, 3_000))))
    await leave(peer)


async def greet(peer: Peer) -> None:
    """As many a protocol does, TLS not among them."""
    await peer.send_all(b"220 hello\r\n")
    await hear_out(peer)


async def garble(peer: Peer, seed: int, port: int) -> None:
    """What the server at a port says, with octets changed, lost, doubled and put in on the way."""
    source = random.Random(seed)
    server = await trio.open_tcp_stream("127.0.0.1", port)
    async with server, trio.open_nursery() as nursery:
        nursery.start_soon(_pass_on, peer, server, bytes)
        await _pass_on(server, peer, partial(_spoil, source))
        nursery.cancel_scope.cancel()


async def _pass_on(one: Peer, other: Peer, change: Callable[[bytes], bytes]) -> None:
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        while octets := await one.receive_some(_AT_ONCE):
            await other.send_all(change(bytes(octets)))
        await other.send_eof()


def _spoil(source: random.Random, octets: bytes) -> bytes:
    spoilt = bytearray(octets)
    for _ in range(source.choice((0, 1, 1, 3))):
        at = source.randrange(len(spoilt) + 1)
        match source.randrange(4):
            case 0:
                spoilt[at : at + 1] = source.randbytes(1)
            case 1:
                del spoilt[at : at + source.choice((1, 7))]
            case 2:
                spoilt[at:at] = spoilt[at : at + 40]
            case 3:
                spoilt[at:at] = source.choice((b"\r\n", b"\n", b"\0", b" ", b"9", b".\r\n", b"\xff"))
    return bytes(spoilt)


async def serve(nursery: trio.Nursery, attend: Attend, tls: ssl.SSLContext | None = None) -> int:
    """A peer at a free port of 127.0.0.1 until the nursery is cancelled; with a context, inside TLS."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    nursery.start_soon(partial(trio.serve_listeners, partial(_meet, attend, tls), listeners))
    port: int = listeners[0].socket.getsockname()[1]
    return port


async def _meet(attend: Attend, tls: ssl.SSLContext | None, raw: trio.SocketStream) -> None:
    peer: Peer = raw if tls is None else trio.SSLStream(raw, tls, server_side=True)
    try:
        await attend(peer)
    except* (trio.BrokenResourceError, trio.ClosedResourceError, OSError):
        pass  # the client has left, or never took it for a peer
    finally:
        with trio.CancelScope(shield=True):
            await trio.aclose_forcefully(raw)


#: What comes back for a datagram. Octets 2 and 3 say which connection it is of (ARDP).
DATAGRAMS: dict[str, Callable[[bytes], bytes]] = {
    "nothing in it": lambda asked: b"",
    "what was asked": lambda asked: asked,
    "noise": lambda asked: random.Random(len(asked)).randbytes(500),
    "noise of the right connection": lambda asked: asked[:9] + random.Random(1).randbytes(500),
    "a header cut short": lambda asked: asked[:5],
}


async def answer_datagrams(nursery: trio.Nursery, answer: Callable[[bytes], bytes]) -> int:
    """Somebody at a free UDP port of 127.0.0.1 who answers everything like this."""
    sock = trio.socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    await sock.bind(("127.0.0.1", 0))
    nursery.start_soon(_answer, sock, answer)
    port: int = sock.getsockname()[1]
    return port


async def _answer(sock: trio.socket.SocketType, answer: Callable[[bytes], bytes]) -> None:
    with sock:
        while True:
            asked, source = await sock.recvfrom(_AT_ONCE)
            await sock.sendto(answer(asked), source)
