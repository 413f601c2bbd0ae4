"""Python clients, each in a separate process: `python -m bench.clients KIND URL FIRST COUNT AT_ONCE [MORE]`.

A client fetches COUNT resources; `{}` in URL is replaced by the number of the resource. Before the
measurement, the client fetches one resource, so that imports and the first connection are not measured. The
last line of the output contains the measured values (`Measurement`) as JSON.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import sys
import threading
import time
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from resolver.files.commit import Sync

#: A function that fetches a URL and returns the size of the body in bytes.
Get: TypeAlias = Callable[[str], Awaitable[int]]
_CHUNK_SIZE = 65_536


class Work(NamedTuple):
    url: str
    first: int
    total: int
    at_once: int
    more: str = ""

    def urls(self) -> Iterator[str]:
        return map(self.format_url, range(self.first, self.first + self.total))

    def format_url(self, number: int) -> str:
        return self.url.format(number)

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or 0


class Measurement(NamedTuple):
    """The measured values: seconds, CPU seconds, received bytes, and peak memory in KiB."""

    seconds: float
    processor: float
    octets: int
    peak: int


class Timer:
    def __init__(self) -> None:
        self._start, self._processor_start = time.perf_counter(), time.process_time()

    def measure(self, octets: int) -> Measurement:
        seconds, processor = time.perf_counter() - self._start, time.process_time() - self._processor_start
        return Measurement(seconds, processor, octets, read_memory("self"))


def read_memory(process: int | str, name: str = "VmHWM") -> int:
    """Return the peak memory (or `VmRSS`) of a process in KiB, or 0 if the process has ended."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    return 0


# ---- sequential or concurrent requests, of all clients


async def fetch_all(get: Get, urls: Iterator[str], octets: list[int]) -> None:
    for url in urls:
        octets.append(await get(url))


Client: TypeAlias = Callable[[Work], AbstractAsyncContextManager[Get]]


async def run_under_trio(client: Client, work: Work) -> Measurement:
    import trio

    octets: list[int] = []
    async with client(work) as get:
        await get(work.format_url(work.first))
        timer, urls = Timer(), work.urls()
        async with trio.open_nursery() as nursery:
            for _ in range(work.at_once):
                nursery.start_soon(fetch_all, get, urls, octets)
        return timer.measure(sum(octets))


async def run_under_asyncio(client: Client, work: Work) -> Measurement:
    octets: list[int] = []
    async with client(work) as get:
        await get(work.format_url(work.first))
        timer, urls = Timer(), work.urls()
        async with asyncio.TaskGroup() as group:
            for _ in range(work.at_once):
                group.create_task(fetch_all(get, urls, octets))
        return timer.measure(sum(octets))


# ---- small resources


@asynccontextmanager
async def with_resolver(work: Work) -> AsyncIterator[Get]:
    import resolver

    policy = resolver.Policy(allow_port=frozenset({work.port}))
    async with resolver.Resolver(policy=policy, environment={}) as session:

        async def get(url: str) -> int:
            return len((await session.fetch(url)).content)

        yield get


@asynccontextmanager
async def with_saving(work: Work, sync: Sync) -> AsyncIterator[Get]:
    """Save the resources into the folder `more`."""
    import resolver

    policy = resolver.Policy(allow_port=frozenset({work.port}))
    async with resolver.Resolver(policy=policy, environment={}, sync=sync) as session:

        async def get(url: str) -> int:
            await session.save(url, f"{work.more}/{url.rpartition('/')[2]}")
            return 1

        async def get_first(url: str) -> int:
            """Fetch the unmeasured resource, and save it under a name that is not used again."""
            target = f"{work.more}/.first"
            await session.save(url, target)
            os.unlink(target)
            getters.append(get)
            return 1

        getters: list[Get] = [get_first]
        yield lambda url: getters[-1](url)


@asynccontextmanager
async def with_httpx(work: Work) -> AsyncIterator[Get]:
    import httpx

    limits = httpx.Limits(max_connections=work.at_once)
    async with httpx.AsyncClient(trust_env=False, limits=limits, timeout=None) as session:

        async def get(url: str) -> int:
            return len((await session.get(url)).content)

        yield get


@asynccontextmanager
async def with_transport(work: Work) -> AsyncIterator[Get]:
    import httpx

    import resolver

    policy = resolver.Policy(allow_port=frozenset({work.port}))
    transport = resolver.HttpxTransport(policy=policy, environment={})
    async with httpx.AsyncClient(transport=transport, timeout=None) as session:

        async def get(url: str) -> int:
            return len((await session.get(url)).content)

        yield get


@asynccontextmanager
async def with_aiohttp(work: Work) -> AsyncIterator[Get]:
    import aiohttp

    connector = aiohttp.TCPConnector(limit=work.at_once)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def get(url: str) -> int:
            async with session.get(url) as response:
                return len(await response.read())

        yield get


@asynccontextmanager
async def with_h11(work: Work) -> AsyncIterator[Get]:
    """Measure the parser h11 (which `resolver` also uses) on pooled trio streams, without other layers."""
    import h11
    import trio

    idle: list[tuple[trio.SocketStream, h11.Connection]] = []

    async def get(url: str) -> int:
        server = urlsplit(url)
        if idle:
            stream, machine = idle.pop()
        else:
            stream = await trio.open_tcp_stream(server.hostname or "", server.port or 80)
            machine = h11.Connection(h11.CLIENT)
        request = h11.Request(method="GET", target=server.path, headers=[("Host", server.netloc)])
        await stream.send_all((machine.send(request) or b"") + (machine.send(h11.EndOfMessage()) or b""))
        octets = 0
        while True:
            event = machine.next_event()
            if event is h11.NEED_DATA:
                machine.receive_data(await stream.receive_some(_CHUNK_SIZE))
            elif isinstance(event, h11.Data):
                octets += len(event.data)
            elif isinstance(event, h11.EndOfMessage):
                break
        if machine.our_state is h11.MUST_CLOSE or machine.their_state is h11.MUST_CLOSE:
            await stream.aclose()
        else:
            machine.start_next_cycle()
            idle.append((stream, machine))
        return octets

    yield get
    for stream, _ in idle:
        await stream.aclose()


@asynccontextmanager
async def bare_gopher(work: Work) -> AsyncIterator[Get]:
    import trio

    async def get(url: str) -> int:
        server = urlsplit(url)
        octets = 0
        async with await trio.open_tcp_stream(server.hostname or "", server.port or 70) as stream:
            await stream.send_all(server.path[2:].encode() + b"\r\n")
            while chunk := await stream.receive_some(_CHUNK_SIZE):
                octets += len(chunk)
        return octets

    yield get


def with_requests(work: Work) -> Measurement:
    """Use a separate session for each thread, because a session of requests is not thread-safe."""
    import requests

    lock, urls, octets = threading.Lock(), work.urls(), list[int]()

    def fetch() -> None:
        with requests.Session() as session:
            session.trust_env = False
            while True:
                with lock:
                    url = next(urls, None)
                if url is None:
                    return
                octets.append(len(session.get(url).content))

    with requests.Session() as first:
        first.trust_env = False
        first.get(work.format_url(work.first))
    timer = Timer()
    threads = [threading.Thread(target=fetch) for _ in range(work.at_once)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return timer.measure(sum(octets))


def fetch_in_sequence(get: Callable[[str], bytes], work: Work) -> Measurement:
    get(work.format_url(work.first))
    timer = Timer()
    return timer.measure(sum(len(get(url)) for url in work.urls()))


def with_blocking(work: Work) -> Measurement:
    import resolver
    from resolver import blocking

    policy = resolver.Policy(allow_port=frozenset({work.port}))
    with blocking.Resolver(policy=policy, environment={}) as session:
        return fetch_in_sequence(lambda url: session.fetch(url).content, work)


def with_sync_httpx(work: Work) -> Measurement:
    import httpx

    with httpx.Client(trust_env=False, timeout=None) as session:
        return fetch_in_sequence(lambda url: session.get(url).content, work)


def with_sync_transport(work: Work) -> Measurement:
    import httpx

    import resolver

    policy = resolver.Policy(allow_port=frozenset({work.port}))
    transport = resolver.HttpxTransport(policy=policy, environment={})
    with httpx.Client(transport=transport, timeout=None) as session:
        return fetch_in_sequence(lambda url: session.get(url).content, work)


def with_cat(protocol: str, work: Work) -> Measurement:
    """Call `cat` of an fsspec file system once, with all URLs."""
    import fsspec

    import resolver

    server = urlsplit(work.url)
    options: dict[str, Any] = {"ftp": {"host": server.hostname, "port": server.port}}.get(protocol, {})
    if protocol.startswith("resolve+"):
        options = {"policy": resolver.Policy(allow_port=frozenset({work.port})), "environment": {}}
    fs = fsspec.filesystem(protocol, **options)
    paths = [fs._strip_protocol(url) for url in work.urls()]
    fs.cat_file(paths[0])
    timer = Timer()
    return timer.measure(sum(map(len, fs.cat(paths).values())))


def with_nntplib(work: Work) -> Measurement:
    """Fetch articles one after another over one connection; Python 3.13 removed nntplib."""
    warnings.simplefilter("ignore", DeprecationWarning)
    nntplib: Any = importlib.import_module("nntplib")
    location = urlsplit(work.url)
    with nntplib.NNTP(location.hostname, location.port) as server:
        server.group(location.path.split("/")[1])
        server.article(work.first)
        timer, octets = Timer(), 0
        for number in range(work.first, work.first + work.total):
            _, article = server.article(number)
            octets += sum(len(line) + 2 for line in article.lines)
        return timer.measure(octets)


def with_get(work: Work) -> Measurement:
    """Run `resolve get` in this process with a list of URLs, and save into the folder `more`."""
    from resolver import cli

    list_file = Path(f"{work.more}.list")
    list_file.write_text("".join(f"{url}\n" for url in work.urls()))
    arguments = ["get", "-q", "--progress", "none", "-j", str(work.at_once), "--per-host", str(work.at_once)]
    arguments += ["--allow-port", str(work.port), "-d", work.more, "-i", str(list_file)]
    timer = Timer()
    status = cli.main(arguments)
    assert status == 0
    return timer.measure(work.total)


#: The clients, in one table for each event loop.
TRIO_CLIENTS: dict[str, Client] = {
    "ours": with_resolver,
    "saving-group": partial(with_saving, sync="group"),
    "saving-never": partial(with_saving, sync="never"),
    "httpx": with_httpx,
    "transport": with_transport,
    "h11": with_h11,
    "gopher": bare_gopher,
}
ASYNCIO_CLIENTS: dict[str, Client] = {"aiohttp": with_aiohttp}
BLOCKING_CLIENTS: dict[str, Callable[[Work], Measurement]] = {
    "blocking": with_blocking,
    "httpx-sync": with_sync_httpx,
    "transport-sync": with_sync_transport,
    "requests": with_requests,
    **{f"cat-{name}": partial(with_cat, name) for name in ("http", "ftp", "resolve+http", "resolve+ftp")},
    "nntplib": with_nntplib,
    "get": with_get,
}


def measure_client(kind: str, work: Work) -> Measurement:
    if kind in TRIO_CLIENTS:
        import trio

        return trio.run(run_under_trio, TRIO_CLIENTS[kind], work)
    if kind in ASYNCIO_CLIENTS:
        return asyncio.run(run_under_asyncio(ASYNCIO_CLIENTS[kind], work))
    return BLOCKING_CLIENTS[kind](work)


def parse_work(arguments: list[str]) -> Work:
    url, first, count, at_once, *more = arguments
    return Work(url, int(first), int(count), int(at_once), *more)


if __name__ == "__main__":
    print(json.dumps(measure_client(sys.argv[1], parse_work(sys.argv[2:]))._asdict()))
