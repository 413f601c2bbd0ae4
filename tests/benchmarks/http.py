"""Small http bodies a second, ours beside a plain httpx client's, in one run: `make bench`.

2,000 requests for a body of 1,000 octets, 32 at once, to a server of its own process that does nothing
but answer: an event loop of `selectors`, so that it is slower than none of the clients. Each client runs
three times in turn with the others; its best run counts.
"""

from __future__ import annotations

import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import TypeAlias

REQUESTS = 2_000
AT_ONCE = 32
RUNS = 3
BODY = b"x" * 1_000
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%b" % (len(BODY), BODY)

Get: TypeAlias = Callable[[str], Awaitable[bytes]]
Client: TypeAlias = Callable[[AsyncExitStack], Awaitable[Get]]


def serve() -> None:
    """Answer every request on every connection, until killed; the port goes to standard output."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    print(listener.getsockname()[1], flush=True)
    selector = selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.fileobj is listener:
                connection, _ = listener.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                selector.register(connection, selectors.EVENT_READ)
            elif isinstance(key.fileobj, socket.socket):
                answer(key.fileobj, selector)


def answer(connection: socket.socket, selector: selectors.BaseSelector) -> None:
    octets = connection.recv(65_536)
    if octets:
        connection.sendall(ANSWER * octets.count(b"\r\n\r\n"))
    else:
        selector.unregister(connection)
        connection.close()


async def with_resolver(stack: AsyncExitStack) -> Get:
    import resolver

    session = await stack.enter_async_context(resolver.Resolver())

    async def get(url: str) -> bytes:
        return (await session.fetch(url)).content

    return get


async def with_transport(stack: AsyncExitStack) -> Get:
    import httpx

    import resolver

    client = await stack.enter_async_context(httpx.AsyncClient(transport=resolver.HttpxTransport()))

    async def get(url: str) -> bytes:
        return (await client.get(url)).content

    return get


async def with_httpx(stack: AsyncExitStack) -> Get:
    import httpx

    client = await stack.enter_async_context(httpx.AsyncClient())

    async def get(url: str) -> bytes:
        return (await client.get(url)).content

    return get


CLIENTS: dict[str, Client] = {
    "resolver.Resolver": with_resolver,
    "httpx.AsyncClient(transport=resolver.HttpxTransport())": with_transport,
    "httpx.AsyncClient()": with_httpx,
}


async def requests_per_second(client: Client, url: str) -> float:
    import trio

    left = REQUESTS

    async def work(get: Get) -> None:
        nonlocal left
        while left > 0:
            left -= 1
            assert await get(url) == BODY

    async with AsyncExitStack() as stack:
        get = await client(stack)
        await get(url)  # what is imported on first use is not what is measured
        start = time.perf_counter()
        async with trio.open_nursery() as nursery:
            for _ in range(AT_ONCE):
                nursery.start_soon(work, get)
        return REQUESTS / (time.perf_counter() - start)


def main() -> None:
    import trio

    with subprocess.Popen([sys.executable, __file__, "serve"], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            url = f"http://127.0.0.1:{int(server.stdout.readline())}/small"
            best = dict.fromkeys(CLIENTS, 0.0)
            for _ in range(RUNS):
                for name, client in CLIENTS.items():
                    best[name] = max(best[name], trio.run(requests_per_second, client, url))
        finally:
            server.kill()
    print(f"{REQUESTS} bodies of {len(BODY)} octets, {AT_ONCE} at once; best of {RUNS} runs:")
    for name, rate in best.items():
        print(f"{rate:8,.0f} requests/s  {name}")


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        serve()
    else:
        main()
