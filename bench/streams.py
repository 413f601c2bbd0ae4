"""Streaming a large body in chunks, in a separate process.

`python -m bench.streams KIND URL 0 1 1 [AUTHORITY]`. The measurement includes the connection setup, and
excludes imports.
"""

from __future__ import annotations

import json
import socket
import ssl
import sys
from collections.abc import Awaitable, Callable
from contextlib import closing
from typing import TypeAlias
from urllib.parse import urlsplit

from bench.clients import Told, Watch, Work, work_of

_PIECE = 262_144

Stream: TypeAlias = Callable[[Work], Awaitable[Told]]


async def ours(work: Work) -> Told:
    import resolver

    settings: resolver.Settings = {
        "policy": resolver.Policy(allow_port=frozenset({work.port})),
        "cafile": work.more or None,
        "environment": {},
    }
    session = resolver.Resolver(**settings)  # creating the session imports all modules
    watch, octets = Watch(), 0
    async with session, session.stream(work.url) as reply:
        async for piece in reply.body:
            octets += len(piece)
    return watch.tell(octets)


async def with_httpx(work: Work) -> Told:
    import httpx

    trust = ssl.create_default_context(cafile=work.more) if work.more else False
    watch, octets = Watch(), 0
    async with (
        httpx.AsyncClient(trust_env=False, verify=trust, timeout=None) as session,
        session.stream("GET", work.url) as response,
    ):
        async for piece in response.aiter_bytes():
            octets += len(piece)
    return watch.tell(octets)


async def bare_trio(work: Work) -> Told:
    import trio

    there, watch = urlsplit(work.url), Watch()
    async with await trio.open_tcp_stream(there.hostname or "", work.port) as stream:
        await stream.send_all(_asked(work.url))
        head = b""
        while b"\r\n\r\n" not in head:
            head += await stream.receive_some(_PIECE)
        octets = len(head.partition(b"\r\n\r\n")[2])
        while piece := await stream.receive_some(_PIECE):
            octets += len(piece)
    return watch.tell(octets)


def bare_ssl(work: Work) -> Told:
    """Measure only the module `ssl`, with reads into one reused buffer and without an event loop."""
    there, trust = urlsplit(work.url), ssl.create_default_context(cafile=work.more)
    watch, buffer, octets, head = Watch(), bytearray(_PIECE), 0, b""
    with (
        closing(socket.create_connection((there.hostname, work.port))) as plain,
        closing(trust.wrap_socket(plain, server_hostname=there.hostname)) as secured,
    ):
        secured.sendall(_asked(work.url))
        while b"\r\n\r\n" not in head:
            head += secured.recv(_PIECE)
        octets = len(head.partition(b"\r\n\r\n")[2])
        while count := secured.recv_into(buffer):
            octets += count
    return watch.tell(octets)


def _asked(url: str) -> bytes:
    there = urlsplit(url)
    return f"GET {there.path} HTTP/1.1\r\nHost: {there.netloc}\r\nConnection: close\r\n\r\n".encode()


UNDER_TRIO: dict[str, Stream] = {"ours": ours, "httpx": with_httpx, "trio": bare_trio}


def told_by(kind: str, work: Work) -> Told:
    if kind not in UNDER_TRIO:
        return bare_ssl(work)
    import trio

    return trio.run(UNDER_TRIO[kind], work)


if __name__ == "__main__":
    print(json.dumps(told_by(sys.argv[1], work_of(sys.argv[2:]))._asdict()))
