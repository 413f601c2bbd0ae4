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

from bench.clients import Measurement, Timer, Work, parse_work

_CHUNK_SIZE = 262_144

Stream: TypeAlias = Callable[[Work], Awaitable[Measurement]]


async def with_resolver(work: Work) -> Measurement:
    import resolver

    settings: resolver.Settings = {
        "policy": resolver.Policy(allow_port=frozenset({work.port})),
        "cafile": work.more or None,
        "environment": {},
    }
    session = resolver.Resolver(**settings)  # creating the session imports all modules
    timer, octets = Timer(), 0
    async with session, session.stream(work.url) as reply:
        async for chunk in reply.body:
            octets += len(chunk)
    return timer.measure(octets)


async def with_httpx(work: Work) -> Measurement:
    import httpx

    context = ssl.create_default_context(cafile=work.more) if work.more else False
    timer, octets = Timer(), 0
    async with (
        httpx.AsyncClient(trust_env=False, verify=context, timeout=None) as session,
        session.stream("GET", work.url) as response,
    ):
        async for chunk in response.aiter_bytes():
            octets += len(chunk)
    return timer.measure(octets)


async def bare_trio(work: Work) -> Measurement:
    import trio

    server, timer = urlsplit(work.url), Timer()
    async with await trio.open_tcp_stream(server.hostname or "", work.port) as stream:
        await stream.send_all(format_request(work.url))
        head = b""
        while b"\r\n\r\n" not in head:
            head += await stream.receive_some(_CHUNK_SIZE)
        octets = len(head.partition(b"\r\n\r\n")[2])
        while chunk := await stream.receive_some(_CHUNK_SIZE):
            octets += len(chunk)
    return timer.measure(octets)


def bare_ssl(work: Work) -> Measurement:
    """Measure only the module `ssl`, with reads into one reused buffer and without an event loop."""
    server, context = urlsplit(work.url), ssl.create_default_context(cafile=work.more)
    timer, buffer, octets, head = Timer(), bytearray(_CHUNK_SIZE), 0, b""
    with (
        closing(socket.create_connection((server.hostname, work.port))) as raw_socket,
        closing(context.wrap_socket(raw_socket, server_hostname=server.hostname)) as tls_socket,
    ):
        tls_socket.sendall(format_request(work.url))
        while b"\r\n\r\n" not in head:
            head += tls_socket.recv(_CHUNK_SIZE)
        octets = len(head.partition(b"\r\n\r\n")[2])
        while count := tls_socket.recv_into(buffer):
            octets += count
    return timer.measure(octets)


def format_request(url: str) -> bytes:
    server = urlsplit(url)
    return f"GET {server.path} HTTP/1.1\r\nHost: {server.netloc}\r\nConnection: close\r\n\r\n".encode()


TRIO_CLIENTS: dict[str, Stream] = {"ours": with_resolver, "httpx": with_httpx, "trio": bare_trio}


def measure_client(kind: str, work: Work) -> Measurement:
    if kind not in TRIO_CLIENTS:
        return bare_ssl(work)
    import trio

    return trio.run(TRIO_CLIENTS[kind], work)


if __name__ == "__main__":
    print(json.dumps(measure_client(sys.argv[1], parse_work(sys.argv[2:]))._asdict()))
