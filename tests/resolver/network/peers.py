"""Loopback servers for the network tests.

A function that gets the connection defines the behavior of a server.
"""

from __future__ import annotations

import errno
import os
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

import trio
import trustme

from fixtures.ports import serve_connections
from resolver import Event, Limits, Policy, parse
from resolver.network.url_gate import UrlGate
from resolver.transfer.network import Network

Serve: TypeAlias = Callable[[trio.SocketStream], Awaitable[object]]
ServeTls: TypeAlias = Callable[["trio.SSLStream[trio.SocketStream]"], Awaitable[None]]


async def start(nursery: trio.Nursery, serve: Serve, host: str = "127.0.0.1") -> int:
    """Serve every connection with the function `serve`; return the port."""
    return await serve_connections(nursery, serve, host=host)


async def start_tls(
    nursery: trio.Nursery,
    certificate: trustme.LeafCert,
    serve: ServeTls,
    version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3,
) -> int:
    """Serve every connection with the function `serve` after a TLS handshake of at most this version.

    Resets and closes by the client are ignored.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.maximum_version = version
    certificate.configure_cert(context)

    async def secured(stream: trio.SocketStream) -> None:
        wrapped = trio.SSLStream(stream, context, server_side=True)
        try:
            await wrapped.do_handshake()
            await serve(wrapped)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass

    return await start(nursery, secured)


async def stay_silent(stream: trio.SocketStream) -> None:
    await trio.sleep_forever()


def silent_listener() -> tuple[socket.socket, int]:
    """Return a listener that accepts no connection, and its port.

    `seen` reports whether a client connected.
    """
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    return listener, listener.getsockname()[1]


@contextmanager
def closed_port() -> Iterator[int]:
    """Yield a bound port without a listener, on every address of this machine.

    The socket stays bound, so that no other process can take the port. A port that was merely closed could
    belong to another process by the time of a connection.
    """
    family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
    with socket.socket(family) as bound:
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        bound.bind(("", 0))
        yield bound.getsockname()[1]


def seen(listener: socket.socket) -> bool:
    """Return whether a client connected."""
    try:
        listener.accept()[0].close()
    except BlockingIOError:
        return False
    return True


async def echo(stream: trio.abc.Stream) -> None:
    async for octets in stream:
        await stream.send_all(octets)


def reset(stream: trio.SocketStream) -> None:
    """Close with a RST instead of a FIN."""
    stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    stream.socket.close()


def admit(
    url: str,
    *,
    policy: Policy | None = None,
    idle: float = 5.0,
    connect: float = 5.0,
    events: list[Event] | None = None,
    cafile: str | None = None,
) -> UrlGate:
    """Return the gate of a separate network on which every DNS lookup fails."""
    network = Network(
        policy=Policy.default() if policy is None else policy,
        limits=Limits(idle=idle, connect=connect),
        on_event=None if events is None else events.append,
        cafile=cafile,
        lookup=no_lookup,
    )
    return network.admit(parse(url))


async def no_lookup(host: str, port: int) -> list[str]:
    raise AssertionError(f"{host} was looked up")


class RemoteSocket(socket.socket):
    """A socket that must wait for its connection, as for a remote peer."""

    __slots__ = ("is_asked",)

    def getpeername(self) -> object:
        if not hasattr(self, "is_asked"):
            self.is_asked = True
            raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))
        return super().getpeername()
