"""The number of function calls in a warm fetch or save, by file of the package.

Unlike a duration, the number of calls is the same on every machine. One session repeatedly fetches a small
resource of each kind from the mock servers, which run in a separate process. The benchmark reads a socket
only after data has arrived, because a wait for a slow server would add calls. The fetch with the fewest calls
is reported. Each resumption of a generator or coroutine counts as a call. The row `saved` is one call of
`save_all` that saves an http resource with a new ledger; its calls in worker threads count too.

The output is a table, then one line of JSON. With the name of a kind (`python -m bench.calls gopher`), the
output lists the calls of each function. The output also has the number of objects that the fetches left in
reference cycles. Only the garbage collector can free such objects, which costs time and memory.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from select import select
from socket import socket
from tempfile import TemporaryDirectory
from types import BuiltinMethodType, CodeType, FrameType
from typing import NamedTuple, TypeAlias

import trio

import fixtures.ftp
import fixtures.gopher
import fixtures.http
import fixtures.nntp
import resolver
from fixtures.gopher import Item

CHECKOUT = Path(__file__).parents[1]
PACKAGES = tuple(f"{CHECKOUT / package}/" for package in ("protocols", "resolver"))
WARM = 20  # number of uncounted fetches, which open connections and fill caches
COUNTED = 10
ONE_LINE = b"One line.\r\n"
LATE = 0.1  #: maximum response time of a mock server, in seconds

#: The path of the resource to fetch, by scheme.
KINDS = {"gopher": "/0line", "http": "/about.txt", "ftp": "/pub/a.txt", "nntp": "/comp.misc/1234"}
SAVED = "saved"


class Count(NamedTuple):
    """The result for a kind of resource.

    `size` is the size of the resource in bytes. `cycles` is the number of objects in
    reference cycles after all fetches.
    """

    size: int
    calls: int
    files: int
    cycles: int
    functions: list[tuple[str, int]]


async def serve() -> None:
    """Run the servers until the process is killed; print their ports to standard output."""
    async with trio.open_nursery() as nursery:
        running = (
            await fixtures.ftp.serve(nursery),
            await fixtures.gopher.serve(nursery, {b"line": Item("0", b"Line", ONE_LINE)}),
            await fixtures.http.serve(nursery),
            await fixtures.nntp.serve(nursery),
        )
        ports = dict(zip(("ftp", "gopher", "http", "nntp"), (server.port for server in running), strict=True))
        print(json.dumps(ports), flush=True)


async def fetch(session: resolver.Resolver, url: str) -> int:
    return len((await session.fetch(url)).content)


async def save(session: resolver.Resolver, url: str) -> int:
    with TemporaryDirectory() as directory:
        return sum(
            [
                outcome.bytes
                async for outcome in session.save_all(
                    [url], directory=directory, ledger=f"{directory}/ledger"
                )
            ]
        )


#: A function that fetches or saves a resource, and returns its size in bytes.
Work: TypeAlias = Callable[[resolver.Resolver, str], Awaitable[int]]


def count_calls(url: str, policy: resolver.Policy, work: Work = fetch) -> Count:
    size, cycles, counters = trio.run(run_work, url, policy, work)
    counter = min(counters, key=Counter.total)
    functions = sorted((f"{locate(code)} {code.co_qualname}", calls) for code, calls in counter.items())
    return Count(size, counter.total(), len({code.co_filename for code in counter}), cycles, functions)


def locate(code: CodeType) -> str:
    return f"{Path(code.co_filename).relative_to(CHECKOUT)}:{code.co_firstlineno}"


def find_read_socket(function: object) -> socket | None:
    """Return the socket that the function reads, or None."""
    if isinstance(function, BuiltinMethodType) and function.__name__.startswith("recv"):
        return function.__self__ if isinstance(function.__self__, socket) else None
    return None


async def run_work(url: str, policy: resolver.Policy, work: Work) -> tuple[int, int, list[Counter[CodeType]]]:
    """Fetch or save a URL repeatedly.

    Returns:
        The size of the resource in bytes, the number of objects in reference cycles, and for each fetch the
        number of calls by function.
    """
    counters: list[Counter[CodeType]] = []

    def record_call(frame: FrameType, event: str, argument: object) -> None:
        if counters and event == "call" and frame.f_code.co_filename.startswith(PACKAGES):
            counters[-1][frame.f_code] += 1
        elif event == "c_call" and (connection := find_read_socket(argument)) is not None:
            select([connection], [], [], LATE)

    threading.setprofile(record_call)
    async with resolver.Resolver(policy=policy) as session:
        for _ in range(WARM):
            size = await work(session, url)
        gc.collect()
        gc.disable()
        for _ in range(COUNTED):
            counters.append(Counter())
            sys.setprofile(record_call)
            await work(session, url)
            sys.setprofile(None)
        cycles = gc.collect()
        gc.enable()
    threading.setprofile(None)
    return size, cycles, counters


def main(*details: str) -> None:
    with subprocess.Popen([sys.executable, "-m", __spec__.name, "serve"], stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout is not None
            ports = json.loads(server.stdout.readline())
            policy = resolver.Policy(allow_port=frozenset(ports.values()))
            urls = {kind: f"{kind}://127.0.0.1:{ports[kind]}{path}" for kind, path in KINDS.items()}
            counts = {kind: count_calls(url, policy) for kind, url in urls.items()}
            report({**counts, SAVED: count_calls(urls["http"], policy, save)}, *details)
        finally:
            server.kill()


def report(counts: dict[str, Count], *details: str) -> None:
    print("one warm fetch or save: calls of functions in protocols and resolver, and their files")
    for kind, count in counts.items():
        print(f"{count.calls:6} calls {count.files:4} files  {kind}, {count.size} bytes")
        if kind in details:
            print("".join(f"  {calls:6}  {name}\n" for name, calls in count.functions), end="")
    results = {kind: {"calls": c.calls, "files": c.files, "left": c.cycles} for kind, c in counts.items()}
    print(json.dumps(results))


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        trio.run(serve)
    else:
        main(*sys.argv[1:])
