"""How far a warm fetch goes through the house: calls of functions of ours, and the files that they stand in.

Counted and not timed, so that it says the same on every machine: one session fetches a small thing of each
kind again and again from the mock servers, in a process of their own. Before a socket is read, what it will
give has come: where a server is late, more is waited for, and each wait is some calls of its own. Told is
the warm fetch that needed least. A generator or a coroutine that is taken up again counts as called again.
A table, then one line of JSON; with the name of a kind (`python -m bench.calls gopher`) where its
calls go. Told is also how many objects the fetches left in circles, which only the garbage collector finds:
it takes time, and what it has not found yet is in the way of what is new.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from select import select
from socket import socket
from types import BuiltinMethodType, CodeType, FrameType
from typing import NamedTuple

import trio

import fixtures.ftp
import fixtures.gopher
import fixtures.http
import fixtures.nntp
import resolver
from fixtures.gopher import Item

CHECKOUT = Path(__file__).parents[1]
OURS = tuple(f"{CHECKOUT / package}/" for package in ("protocols", "resolver"))
WARM = 20  # before anything is counted: the session has its connections and caches
COUNTED = 10
ONE_LINE = b"One line.\r\n"
LATE = 0.1  #: seconds in which a mock server says what it is asked for, if it is to say anything

#: What is fetched of the server of its scheme.
KINDS = {"gopher": "/0line", "http": "/about.txt", "ftp": "/pub/a.txt", "nntp": "/comp.misc/1234"}


class Count(NamedTuple):
    """One warm fetch of `size` octets, and what all of them left in circles."""

    size: int
    calls: int
    files: int
    left: int
    functions: list[tuple[str, int]]


async def serve() -> None:
    """The servers, until killed; their ports go to standard output."""
    async with trio.open_nursery() as nursery:
        running = (
            await fixtures.ftp.serve(nursery),
            await fixtures.gopher.serve(nursery, {b"line": Item("0", b"Line", ONE_LINE)}),
            await fixtures.http.serve(nursery),
            await fixtures.nntp.serve(nursery),
        )
        ports = dict(zip(("ftp", "gopher", "http", "nntp"), (server.port for server in running), strict=True))
        print(json.dumps(ports), flush=True)


def counted(url: str, policy: resolver.Policy) -> Count:
    size, left, each = trio.run(calls_of, url, policy)
    least = min(each, key=Counter.total)
    functions = sorted((f"{place_of(code)} {code.co_qualname}", calls) for code, calls in least.items())
    return Count(size, least.total(), len({code.co_filename for code in least}), left, functions)


def place_of(code: CodeType) -> str:
    return f"{Path(code.co_filename).relative_to(CHECKOUT)}:{code.co_firstlineno}"


def read_by(function: object) -> socket | None:
    """The socket, if the function is one that reads it."""
    if isinstance(function, BuiltinMethodType) and function.__name__.startswith("recv"):
        return function.__self__ if isinstance(function.__self__, socket) else None
    return None


async def calls_of(url: str, policy: resolver.Policy) -> tuple[int, int, list[Counter[CodeType]]]:
    """The octets of `url`, how many objects the fetches left in circles, and for each of them each
    function of ours, and how often it was called."""
    each: list[Counter[CodeType]] = []

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(OURS):
            each[-1][frame.f_code] += 1
        elif event == "c_call" and (read := read_by(argument)) is not None:
            select([read], [], [], LATE)

    async with resolver.Resolver(policy=policy) as session:
        for _ in range(WARM):
            response = await session.fetch(url)
        gc.collect()
        gc.disable()
        for _ in range(COUNTED):
            each.append(Counter())
            sys.setprofile(note)
            await session.fetch(url)
            sys.setprofile(None)
        left = gc.collect()
        gc.enable()
    return len(response.content), left, each


def main(*wanted: str) -> None:
    with subprocess.Popen([sys.executable, "-m", __spec__.name, "serve"], stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout is not None
            ports = json.loads(server.stdout.readline())
            policy = resolver.Policy(allow_port=frozenset(ports.values()))
            urls = {kind: f"{kind}://127.0.0.1:{ports[kind]}{path}" for kind, path in KINDS.items()}
            report({kind: counted(url, policy) for kind, url in urls.items()}, *wanted)
        finally:
            server.kill()


def report(counts: dict[str, Count], *wanted: str) -> None:
    print("one warm fetch: calls of functions of ours, and the files that they stand in")
    for kind, count in counts.items():
        print(f"{count.calls:6} calls {count.files:4} files  {kind}, {count.size} octets")
        if kind in wanted:
            print("".join(f"  {calls:6}  {name}\n" for name, calls in count.functions), end="")
    told = {kind: {"calls": c.calls, "files": c.files, "left": c.left} for kind, c in counts.items()}
    print(json.dumps(told))


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        trio.run(serve)
    else:
        main(*sys.argv[1:])
