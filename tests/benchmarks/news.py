"""Articles a second from a news server, one at a time and sent ahead, near and with a round trip between.

Articles of 2 kB by number, to a server of its own process that answers each command after the time a
round trip would take. `at once` is how many fetches wait together; they share one connection.
"""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import suppress
from functools import partial

import trio

import resolver

ARTICLES = 1_000
BODY = b"x" * 70 + b"\r\n"
HEAD = b"From: a\r\nSubject: b\r\nDate: Mon, 06 Jan 2025 10:00:24 +0000\r\nMessage-ID: <m@x>\r\n"
ARTICLE = b"220 1 <m@x> article\r\n" + HEAD + b"\r\n" + BODY * 25 + b".\r\n"
ROUND_TRIPS = (0.0, 0.05)
AT_ONCE = (1, 8, 32, 128)


async def answer(delay: float, stream: trio.SocketStream) -> None:
    sender, receiver = trio.open_memory_channel[tuple[float, bytes]](float("inf"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(send_in_time, receiver, stream)
        async with sender:
            sender.send_nowait((trio.current_time(), b"200 ready\r\n"))
            with suppress(trio.BrokenResourceError):  # who leaves does not wait for what is on its way
                async for octets in stream:
                    answers = b"".join([answer_to(bytes(command)) for command in octets.split(b"\r\n")[:-1]])
                    sender.send_nowait((trio.current_time() + delay, answers))


def answer_to(command: bytes) -> bytes:
    return ARTICLE if command.startswith(b"ARTICLE") else b"211 1000 1 1000 a.b\r\n"


async def send_in_time(
    receiver: trio.MemoryReceiveChannel[tuple[float, bytes]], stream: trio.SocketStream
) -> None:
    async for due, octets in receiver:
        await trio.sleep_until(due)
        with suppress(trio.BrokenResourceError):
            await stream.send_all(octets)


async def serve(delay: float) -> None:
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    print(listeners[0].socket.getsockname()[1], flush=True)
    await trio.serve_listeners(partial(answer, delay), listeners)


async def articles_per_second(port: int, at_once: int, count: int) -> float:
    left = count

    async def work() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            fetched = await session.fetch(f"nntp://127.0.0.1:{port}/a.b/1")
            assert len(fetched.content) == len(HEAD) + 2 + 25 * len(BODY)

    policy = resolver.Policy(allow_port={port})
    async with resolver.Resolver(policy=policy) as session:
        await session.fetch(f"nntp://127.0.0.1:{port}/a.b/1")  # what is imported on first use is not measured
        start = time.perf_counter()
        async with trio.open_nursery() as nursery:
            for _ in range(at_once):
                nursery.start_soon(work)
        return count / (time.perf_counter() - start)


def main() -> None:
    for delay in ROUND_TRIPS:
        command = [sys.executable, __file__, "serve", str(delay)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                port = int(server.stdout.readline())
                for at_once in AT_ONCE:
                    count = 100 if delay and at_once == 1 else ARTICLES
                    rate = trio.run(articles_per_second, port, at_once, count)
                    print(f"{rate:8,.0f} articles/s  {at_once:3} at once, round trip {delay * 1000:.0f} ms")
            finally:
                server.kill()


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        trio.run(serve, float(sys.argv[2]))
    else:
        main()
