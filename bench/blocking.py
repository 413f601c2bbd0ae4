"""The cost of the blocking API: a call, a small fetch and a large body, compared with the async API.

The module also compares two transports of `httpx2.Client`: `HttpxTransport` and the own transport of httpx2.
Their requests alternate, and the processor time of each request is measured. The aim is that `HttpxTransport`
reaches 0.8 times the request rate of the other transport.

The server is a separate process that sends a file of 512 MiB with sendfile(2). Runs of both APIs alternate.
The received bytes are discarded. The aim: the blocking API streams a body in at most 1.3 times the duration
of the async API under trio.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import httpx2
import trio

from bench.rows.large import MIB, write_source
from bench.served import run_server
from resolver import HttpxTransport, Policy, Resolver, blocking
from resolver.blocking.portal import portal

RUNS = 5
CALLS = 2_000
#: Size of the large body in MiB.
SIZE = 512


async def do_nothing() -> None:
    pass


def call_portal() -> None:
    portal().run(do_nothing)


def measure_time(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


async def stream(url: str, policy: Policy) -> None:
    async with Resolver(policy=policy) as session, session.stream(url) as reply:
        count = 0
        async for octets in reply.body:
            count += len(octets)
    assert count == SIZE * MIB


def stream_blocking(url: str, policy: Policy) -> None:
    with blocking.stream(url, policy=policy) as reply:
        assert sum(map(len, reply.body)) == SIZE * MIB


async def fetch(url: str) -> float:
    """Return the mean duration of a fetch in seconds."""
    async with Resolver() as session:
        await session.fetch(url)
        start = time.perf_counter()
        for _ in range(CALLS):
            await session.fetch(url)
        return (time.perf_counter() - start) / CALLS


def fetch_blocking(url: str) -> float:
    with blocking.Resolver() as session:
        session.fetch(url)
        return measure_time(lambda: [session.fetch(url) for _ in range(CALLS)]) / CALLS


def processor_time(client: httpx2.Client, url: str) -> float:
    """Return the processor time of `httpx2.Client.get` in seconds, of all threads of this process."""
    start = time.process_time()
    client.get(url)
    return time.process_time() - start


def microseconds(seconds: list[float]) -> str:
    return f"{statistics.median(seconds) * 1_000_000:6.0f} µs in the median of {len(seconds)}"


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        small, large = Path(name) / "small", Path(name) / "large"
        small.write_bytes(b"One line.\r\n")
        write_source(large, SIZE)
        call_portal()
        print(f"a blocking call: {microseconds([measure_time(call_portal) for _ in range(CALLS)])}")
        awaited, waited = trio.run(fetch, small.as_uri()), fetch_blocking(small.as_uri())
        print(f"a fetch of a small file: {awaited * 1e6:.0f} µs async, {waited * 1e6:.0f} µs blocking")
        compare(small)
        measure(large)


def compare(source: Path) -> None:
    own, ours = list[float](), list[float]()
    with run_server("file", source) as port:
        url, policy = f"http://127.0.0.1:{port}/", Policy(allow_port=frozenset({port}))
        with (
            httpx2.Client(trust_env=False) as plain,
            httpx2.Client(trust_env=False, transport=HttpxTransport(policy=policy)) as guarded,
        ):
            for _ in range(CALLS):
                own.append(processor_time(plain, url))
                ours.append(processor_time(guarded, url))
    print(f"a response to httpx2.Client: {microseconds(own)}; with HttpxTransport: {microseconds(ours)}")
    print(f"  {statistics.median(own) / statistics.median(ours):.2f} of the rate of its own transport")


def measure(source: Path) -> None:
    awaited, waited = list[float](), list[float]()
    with run_server("file", source) as port:
        url, policy = f"http://127.0.0.1:{port}/", Policy(allow_port=frozenset({port}))
        for _ in range(RUNS):
            awaited.append(measure_time(partial(trio.run, stream, url, policy)))
            waited.append(measure_time(partial(stream_blocking, url, policy)))
    ratio = statistics.median(waited) / statistics.median(awaited)
    print(f"{SIZE} MiB streamed, {RUNS} alternating runs: fastest, median")
    for name, seconds in (("awaited", awaited), ("by a thread", waited)):
        print(f"  {name:12} {min(seconds):6.2f} {statistics.median(seconds):6.2f} s")
    print(f"  {ratio:.2f} ratio of the medians")


if __name__ == "__main__":
    main()
