"""The servers of the soak: http, ftp and gopher, with and without TLS, with a fault for each path or server.

The servers run in a separate process, so that their memory and descriptors are not measured.
"""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import trio

from fixtures.ftp import MockFtp
from fixtures.ftp.behavior import Behavior as FtpBehavior
from fixtures.ftp.behavior import Data
from fixtures.ftp.tree import File, Folder
from fixtures.gopher import Behavior as GopherBehavior
from fixtures.gopher import GopherServer, Item
from fixtures.gopher.flavor import UMN23
from fixtures.http import HttpServer, Page
from fixtures.http.server import Behavior as HttpBehavior
from fixtures.ports import serve_connections
from resolver.testing.certificates import server_tls
from tests.fresh import environment

#: The objects of all servers. The sizes are below and above the size of a socket buffer and of a chunk.
SIZES = {"tiny": 0, "small": 100, "medium": 9_000, "large": 150_000}
#: The name of an http path and of a gopher selector whose server never answers.
SILENT = "silent"


@cache
def content_of(name: str) -> bytes:
    """Return the content of an object, which is different for each name."""
    size = SIZES[name]
    return b"".join(b"%s %06d\n" % (name.encode(), line) for line in range(size // 8 + 1))[:size]


@dataclass(frozen=True)
class Target:
    """A URL of the soak, and the name of its object; None if the server does not have the object."""

    url: str
    name: str | None = None
    is_listing: bool = False

    @property
    def is_secure(self) -> bool:
        return self.url.partition(":")[0] in ("https", "gophers", "ftps")


_HTTP: Mapping[str, HttpBehavior] = {
    "/cut": HttpBehavior(cut_at=4_000),
    "/reset": HttpBehavior(reset_at=4_000),
    "/early": HttpBehavior(reset_at=0),
    "/short": HttpBehavior(length_off=500, cut_at=7_000),
    "/garbage": HttpBehavior(instead=b"\0\1\2 no response\r\n\r\n"),
    "/drip": HttpBehavior(drip=0.0),
    "/busy": HttpBehavior(instead=b"HTTP/1.1 503 Busy\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n"),
    "/later": HttpBehavior(
        instead=b"HTTP/1.1 503 Busy\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n", times=1
    ),
    "/surplus": HttpBehavior(surplus=b"more"),
    "/unannounced": HttpBehavior(unannounced=True),
    f"/{SILENT}": HttpBehavior(silent=True),
}

_FTP: tuple[FtpBehavior, ...] = (
    FtpBehavior(data=Data.RESET),
    FtpBehavior(max_bytes=2_000, final=b"426 Cut\r\n"),
    FtpBehavior(final=b""),
    FtpBehavior(greeting=b"421 Too many users\r\n"),
    FtpBehavior(hangs_up=frozenset({b"RETR"})),
    FtpBehavior(unreachable=frozenset({b"EPSV", b"PASV"})),
)

_GOPHER: Mapping[bytes, GopherBehavior] = {
    b"cut": GopherBehavior(cut_at=2_000),
    b"reset": GopherBehavior(reset_at=2_000),
    b"early": GopherBehavior(reset_at=0),
    SILENT.encode(): GopherBehavior(silent=True, stays=True),
}


class Peers:
    """The running servers, and the targets on them."""

    def __init__(self, nursery: trio.Nursery, tls: ssl.SSLContext) -> None:
        self._nursery = nursery
        self._tls = tls
        self.targets: list[Target] = []

    async def serve(self) -> None:
        for tls in (None, self._tls):
            await self._serve_http(tls)
            await self._serve_gopher(tls)
        await self._serve_ftp(FtpBehavior(), None)
        await self._serve_ftp(FtpBehavior(), self._tls)
        for behavior in _FTP:
            await self._serve_ftp(behavior, None)
        await self._refuse()

    async def _listen(self, attend: Any, *records: Any) -> int:
        """Serve connections at a free port, and clear the `records` of the server at each new connection."""

        async def handle(stream: trio.SocketStream) -> None:
            for each in records:
                each.clear()
            await attend(stream)

        return await serve_connections(self._nursery, handle)

    async def _serve_http(self, tls: ssl.SSLContext | None) -> None:
        site = {f"/{name}": Page(content_of(name)) for name in SIZES}
        site |= {f"/{name}.chunked": Page(content_of(name), framing="chunked") for name in SIZES}
        site |= {f"/{name}.closed": Page(content_of(name), framing="close") for name in SIZES}
        names = {path: "small" if path == "/drip" else "medium" for path in _HTTP}
        site |= {path: Page(content_of(name)) for path, name in names.items()}
        server = HttpServer(site, _HTTP, tls, 0)
        server.port = await self._listen(server.handle, server.requests, server.heard, server.violations)
        for path in site:
            name = names.get(path, path[1:].partition(".")[0])
            self.targets.append(Target(server.url(path), name))
        self.targets.append(Target(server.url("/missing")))

    async def _serve_gopher(self, tls: ssl.SSLContext | None) -> None:
        tree = {name.encode(): Item("9", name.encode(), content_of(name)) for name in SIZES}
        tree |= {selector: Item("9", selector, content_of("medium")) for selector in _GOPHER}
        tree[b""] = Item("1", b"Menu", members=tuple(b"9" + selector for selector in tree))
        server = GopherServer(tree, UMN23, _GOPHER, tls, 0)
        server.port = await self._listen(server.handle, server.requests, server.heard, server.violations)
        self.targets += [Target(server.url(f"9{name}"), name) for name in SIZES]
        # Only Gopher+ announces the size of a body, so that a truncated body is detected.
        self.targets += [Target(server.url(f"9{each.decode()}%09%09+"), "medium") for each in _GOPHER]
        self.targets += [Target(server.url("1"), is_listing=True), Target(server.url("9missing"))]

    async def _serve_ftp(self, behavior: FtpBehavior, tls: ssl.SSLContext | None) -> None:
        files: dict[bytes, Any] = {name.encode(): File(content_of(name)) for name in SIZES}
        server = MockFtp(behavior, root=Folder(files), tls=tls, implicit=tls is not None)
        server.port = await self._listen(server.handle, server.sessions, server.violations)
        self.targets += [Target(server.url(name), name) for name in SIZES]
        if behavior == FtpBehavior():
            self.targets += [Target(server.url(), is_listing=True), Target(server.url("missing"))]

    async def _refuse(self) -> None:
        """Add a port that is reserved but refuses connections."""
        self._reserved = trio.socket.socket()
        await self._reserved.bind(("127.0.0.1", 0))
        port = self._reserved.getsockname()[1]
        self.targets += [Target(f"{scheme}://127.0.0.1:{port}/9x") for scheme in ("http", "ftp", "gopher")]


@contextmanager
def started() -> Iterator[tuple[str, list[Target]]]:
    """Start all servers in another process, and return the path of the CA file and the targets."""
    command = [sys.executable, "-m", "tests.soak.peers"]
    with subprocess.Popen(
        command,
        cwd=Path(__file__).parents[2],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        yield told["cafile"], [Target(**each) for each in told["targets"]]
        process.stdin.close()


async def _main() -> None:
    """Print the path of the CA file and the targets as JSON, and serve until standard input ends."""
    with tempfile.TemporaryDirectory() as folder:
        tls, cafile = server_tls(Path(folder))
        async with trio.open_nursery() as nursery:
            peers = Peers(nursery, tls)
            await peers.serve()
            told = {"cafile": str(cafile), "targets": [vars(each) for each in peers.targets]}
            sys.stdout.write(json.dumps(told) + "\n")
            sys.stdout.flush()
            await trio.to_thread.run_sync(sys.stdin.read)
            nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(_main)
