"""Forty hosts in one process, ten each of ftp, http, gopher and nntp, on 127.0.1.1 to 127.0.1.40.

`python -m tests.bulk.peers LOG PAUSE OBJECTS SERVERS`:
- LOG: the log of all hosts (`tests.bulk.front`)
- PAUSE: the delay of each reply in seconds
- OBJECTS: the number of objects of each host
- SERVERS: in JSON, the real servers by scheme that replace mock servers: `[[host, port], …]`, a server for
  all hosts or one for each

The first line of output is the list of addresses. Then a line of input is a command: `mark NAME` writes that
into the log, `trip N` prints `tripped` when N more requests have begun. The process ends with its input.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path

import trio

from fixtures import ftp, gopher, http, nntp
from fixtures.ftp.tree import File, Folder
from fixtures.gopher.tree import Item
from fixtures.http.site import Page
from fixtures.nntp.spool import Group, Spool, write_article
from tests.bulk.front import Front, LogFile
from tests.bulk.hosts import EACH, SCHEMES, content, is_missing

Address = tuple[str, int]


def _there(scheme: str, objects: int) -> list[int]:
    return [number for number in range(1, objects + 1) if not is_missing(scheme, number)]


async def _ftp(nursery: trio.Nursery, host: str, objects: int) -> Address:
    """Serve ftp at the host's own address, because data connections use it too."""
    server = await ftp.serve(nursery, host=host)
    files = {b"%d.bin" % number: File(content("ftp", number)) for number in _there("ftp", objects)}
    server.root = Folder({b"bulk": Folder({**files})})
    return host, server.port


async def _http(nursery: trio.Nursery, host: str, objects: int) -> Address:
    site = {f"/bulk/{number}.bin": Page(content("http", number)) for number in _there("http", objects)}
    server = await http.serve(nursery, site)
    return server.host, server.port


async def _gopher(nursery: trio.Nursery, host: str, objects: int) -> Address:
    tree = {
        b"/bulk/%d.bin" % number: Item("9", b"an object", content("gopher", number))
        for number in _there("gopher", objects)
    }
    server = await gopher.serve(nursery, tree)
    return "127.0.0.1", server.port


async def _nntp(nursery: trio.Nursery, host: str, objects: int) -> Address:
    group = b"test.prose"
    articles = {
        number: write_article(b"%d@example.test" % number, group, content("nntp", number))
        for number in _there("nntp", objects)
    }
    server = await nntp.serve(nursery, Spool({group: Group(articles, high=objects)}))
    return server.host, server.port


MOCKS: Mapping[str, Callable[[trio.Nursery, str, int], Awaitable[Address]]] = {
    "ftp": _ftp,
    "http": _http,
    "gopher": _gopher,
    "nntp": _nntp,
}


class Peers:
    """The hosts: `listen` starts all of them; `obey` performs commands."""

    def __init__(self, log: LogFile, pause: float, objects: int, real: Mapping[str, list[Address]]) -> None:
        self._log, self._pause, self._objects, self._real = log, pause, objects, real
        self._trip = 0
        log.heard = self._count

    async def listen(self, nursery: trio.Nursery) -> list[tuple[str, str, int]]:
        found = []
        for number in range(EACH * len(SCHEMES)):
            scheme, host = SCHEMES[number % len(SCHEMES)], f"127.0.1.{number + 1}"
            real = self._real.get(scheme)
            if real is None:
                server = await MOCKS[scheme](nursery, host, self._objects)
            else:
                server = real[number // len(SCHEMES) % len(real)]
            front = Front(self._log, scheme, host, server, self._pause)
            listeners = await trio.open_tcp_listeners(0, host=host)
            nursery.start_soon(partial(trio.serve_listeners, front.attend, listeners))
            found.append((scheme, host, listeners[0].socket.getsockname()[1]))
        return found

    def obey(self, line: str) -> None:
        verb, argument = line.split()
        if verb == "mark":
            self._log.mark(argument.encode())
            print("marked", flush=True)
        else:
            self._trip = int(argument)

    def _count(self) -> None:
        self._trip -= 1
        if self._trip == 0:
            print("tripped", flush=True)


async def main(*words: str) -> None:
    log, pause, objects, real = words
    with closing(LogFile(Path(log))) as file:
        servers = {scheme: [(host, port) for host, port in each] for scheme, each in json.loads(real).items()}
        peers = Peers(file, float(pause), int(objects), servers)
        async with trio.open_nursery() as nursery:
            print(json.dumps(await peers.listen(nursery)), flush=True)
            while line := await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
                peers.obey(line)
            nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(main, *sys.argv[1:])
