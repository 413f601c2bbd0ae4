"""Servers for the command: every mock server, peers with one fixed reply, and a closed port.

They run on a loop in another thread, so that the command can run its own loop in the main thread.
"""

from __future__ import annotations

import hashlib
import queue
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

import trio

import fixtures.ftp.server
import fixtures.gopher.server
import fixtures.http.server
import fixtures.nntp.server
import fixtures.prospero.server
import fixtures.wais.server
from fixtures.__main__ import server_tls
from fixtures.http.request import Request
from fixtures.http.site import Page, moved
from fixtures.nntp.flavor import LOGIN
from fixtures.ports import serve_connections
from tests.hang import HANG

T = TypeVar("T")
Places = Mapping[str, str]


class FixedPeer(NamedTuple):
    """A peer for URLs of `scheme` that sends the reply `words` and closes the connection.

    The peer sends the reply `first` or after it received data. A `silent` peer does not close the connection.
    """

    scheme: str
    words: bytes
    first: bool = False
    silent: bool = False


def answer(head: str, body: str = "") -> FixedPeer:
    """Return an HTTP server with one fixed response."""
    return FixedPeer("http", f"HTTP/1.1 {head}\r\nConnection: close\r\n\r\n{body}".encode())


#: Peers by the name that the URLs of the tables use.
PEERS: Mapping[str, FixedPeer] = {
    "ftp_later": FixedPeer("ftp", b"421 not now\r\n", first=True),
    "ftp_never": FixedPeer("ftp", b"530 never\r\n", first=True),
    "ftp_mute": FixedPeer("ftp", b"", silent=True),
    "nntp_later": FixedPeer("nntp", b"400 not now\r\n", first=True),
    "nntp_escape": FixedPeer("nntp", b"400 \x1b]0;owned\x07 \xc2\x9b\r\n", first=True),
    "gopher_menu": FixedPeer(
        "gopher", b"0A\x1b[31m text\t/a\th.example\t70\r\niprose\t\t\t1\r\n+nonsense\r\n.\r\n"
    ),
    "gopher_gone": FixedPeer("gopher", b"3no such thing\t\terror.host\t1\r\n.\r\n"),
    "ftp_garbage": FixedPeer("ftp", b"what \xff is {this}\r\n", first=True),
    "ftp_unasked": FixedPeer("ftp", b"220 go on\r\n299 'b'\r\n299 b\r\n", first=True),
    "nntp_garbage": FixedPeer("nntp", b"what \xff is {this}\r\n", first=True),
    "wais_garbage": FixedPeer("wais", b"what \xff is this, nothing that anybody knows\r\n"),
    "wais_armored": FixedPeer("wais", b"0000000003z2wais      uu0abc"),
    "wais_other": FixedPeer("wais", b"0000000003\xff2wais        0abc"),
    "gopher_odd": FixedPeer("gopher", b"0A\ta\th.example\t\xff99\r\n\xff\tb\th.example\t70\r\n.\r\n"),
    "gopher_refusal": FixedPeer("gopher", b"--2\r\n3 \xff\r\nwords\xff\r\n"),
    "telnet_login": FixedPeer("telnet", b"\xff\xfb\x01login: ", first=True),
    "garbage": FixedPeer("http", b"what is this\r\n\r\n"),
    "leaves": FixedPeer("http", b""),
    "tls_garbage": FixedPeer("https", b"what is this\r\n\r\n"),
    "login": answer("401 Who are you\r\nWWW-Authenticate: Basic realm=x\r\nContent-Length: 0"),
    "forbidden": answer("403 No\r\nContent-Length: 0"),
    "named": answer(
        '200 OK\r\nContent-Disposition: attachment; filename="../../.bashrc"\r\nContent-Length: 3', "abc"
    ),
    "named_part": answer(
        '200 OK\r\nContent-Disposition: attachment; filename="tool.PART"\r\nContent-Length: 3', "abc"
    ),
    "unnamed": answer('200 OK\r\nContent-Disposition: inline; filename=""\r\nContent-Length: 3', "abc"),
    "misnamed": answer("200 OK\r\nContent-Disposition: inline; filename=..\r\nContent-Length: 3", "abc"),
    "short": answer("200 OK\r\nContent-Length: 10", "abc"),
    "large": answer("200 OK\r\nContent-Length: 600", "x" * 600),
    "nowhere": answer("302 Moved\r\nContent-Length: 0"),
    "no_url": answer("302 Moved\r\nLocation: http://\r\nContent-Length: 0"),
    "to_file": answer("302 Moved\r\nLocation: file:///etc/passwd\r\nContent-Length: 0"),
    "to_mail": answer("302 Moved\r\nLocation: http://127.0.0.1:25/\r\nContent-Length: 0"),
    "unknown": answer("302 Moved\r\nLocation: nosuch:thing\r\nContent-Length: 0"),
}


#: Pages whose path is a directory, and a page whose path has a file name.
DIRECTORIES: Mapping[str, Page] = {
    "/": Page(b"<p>hello</p>\n", media_type="text/html; charset=utf-8"),
    "/deep/": Page(b"{}", media_type="Application/JSON"),
    "/odd/": Page(b"?", media_type="chemical/x-pdb"),
    "/untold/": Page(b"?", media_type=None),
    "/moved/": moved("/"),
    "/gone/": Page(b"", status=404, reason="Not Found"),
    "/index.html": Page(b"another", media_type="text/html"),
}


class CookieEcho:
    """A guard that returns the request's field Cookie as the body."""

    def answer(self, request: Request, page: Page) -> Page:
        return replace(page, content="".join(request.values("cookie")).encode())


COOKIES: Mapping[str, Page] = {
    "/set": Page(headers=(("Set-Cookie", "c=sekret; Path=/"),), guard=CookieEcho())
}


class UrlGuard:
    """A guard that replaces `{here}` in a page by the URL of its server."""

    def answer(self, request: Request, page: Page) -> Page:
        prefix = b"http://" + "".join(request.values("host")).encode()
        return replace(page, content=page.content.replace(b"{here}", prefix))


def _sum(octets: bytes, name: str) -> str:
    return f"{hashlib.sha256(octets).hexdigest()}  {name}\n"


A, B = b"the octets of a\n", b"those of b\n"
_METALINK = f"""<?xml version="1.0"?>
<metalink xmlns="urn:ietf:params:xml:ns:metalink">
  <file name="kept/under/a"><size>{len(A)}</size><hash type="sha-256">{_sum(A, "").strip()}</hash>
    <url priority="1">{{here}}/gone</url><url priority="3">{{here}}/pub/a</url>
    <url priority="2">rsync://127.0.0.1/a</url></file>
  <file name="b"><size>{len(B)}</size><url>{{here}}/pub/sub/b</url></file>
</metalink>
""".encode()
_INDEX = b"""<title>Index of /t/</title><h1>Index of /t/</h1><hr><pre><a href="../">../</a>
<a href="a.txt">a.txt</a>  09-Sep-2001 01:46  1
</pre><hr>"""
#: Lists, and the files that they name.
LISTS: Mapping[str, Page] = {
    "/t/": Page(_INDEX, "text/html"),
    "/t/a.txt": Page(b"a"),
    "/book/": Page(b"<title>A book</title>", "text/html"),
    "/pub/a": Page(A, "application/octet-stream"),
    "/pub/sub/b": Page(B, "application/octet-stream"),
    "/pub/SHA256SUMS": Page(f"# digests\n{_sum(A, 'a')}{_sum(B, 'sub/b')}".encode()),
    "/pub/WRONG": Page(f"{_sum(A, 'sub/b')}{_sum(B, '../../b')}{_sum(A, 'a')}".encode()),
    "/pub/long": Page(f"# {'-' * 65_530}\n{_sum(A, 'a')}#{'-' * 65_470}\n{_sum(B, 'sub/b')}".encode()),
    "/pub/empty": Page(b""),
    "/elsewhere": moved("/pub/SHA256SUMS"),
    "/pub/two.meta4": Page(_METALINK, "application/metalink4+xml", guard=UrlGuard()),
    "/pub/cut.meta4": Page(_METALINK[: _METALINK.index(b'<file name="b">')], guard=UrlGuard()),
    "/pub/list": Page(b'{here}/pub/a\n{"url": "file:///etc/passwd", "origin": "user"}\n', guard=UrlGuard()),
}


async def _attend(peer: FixedPeer, stream: trio.SocketStream) -> None:
    async with stream:
        try:
            if not peer.first:
                await stream.receive_some()
            await stream.send_all(peer.words)
            if peer.silent:
                await trio.sleep_forever()
        except trio.BrokenResourceError:
            pass


async def _start_peers(nursery: trio.Nursery) -> dict[str, str]:
    result = {}
    for name, peer in PEERS.items():
        port = await serve_connections(nursery, partial(_attend, peer))
        result[name] = f"{peer.scheme}://127.0.0.1:{port}"
    return result


def _digest_at(port: int) -> str:
    """Return the digest of the certificate of a server on this machine."""
    certificate = ssl.get_server_certificate(("127.0.0.1", port))
    return f"sha256:{hashlib.sha256(ssl.PEM_cert_to_DER_cert(certificate)).hexdigest()}"


async def _start_all(nursery: trio.Nursery, folder: Path) -> dict[str, str]:
    tls, cafile = server_tls(folder)
    ports = {
        "ftp": (await fixtures.ftp.server.serve(nursery)).port,
        "gopher": (await fixtures.gopher.server.serve(nursery)).port,
        "http": (await fixtures.http.server.serve(nursery)).port,
        "https": (await fixtures.http.server.serve(nursery, ssl_context=tls)).port,
        "nntp": (await fixtures.nntp.server.serve(nursery)).port,
        "prospero": (await fixtures.prospero.server.serve(nursery)).port,
        "wais": (await fixtures.wais.server.serve(nursery)).port,
    }
    members = (await fixtures.nntp.server.serve(nursery, flavor=LOGIN)).port
    result = {scheme: f"{scheme}://127.0.0.1:{port}" for scheme, port in ports.items()}
    return {
        **result,
        **await _start_peers(nursery),
        "news": result["nntp"].replace("nntp", "news"),
        "news_server": result["nntp"].removeprefix("nntp://"),
        "members": f"nntp://127.0.0.1:{members}",
        "wrong_password": f"nntp://alice:wrong@127.0.0.1:{members}",
        "directories": f"http://127.0.0.1:{(await fixtures.http.server.serve(nursery, DIRECTORIES)).port}",
        "lists": f"http://127.0.0.1:{(await fixtures.http.server.serve(nursery, LISTS)).port}",
        "cookies": f"http://127.0.0.1:{(await fixtures.http.server.serve(nursery, COOKIES)).port}",
        "cafile": str(cafile),
        "pin": await trio.to_thread.run_sync(_digest_at, ports["https"]),
    }


@contextmanager
def all_places(folder: Path) -> Iterator[Places]:
    """Yield the URL of each server by name, without a path; `closed` is a port without a listener."""
    with in_thread(partial(_start_all, folder=folder)) as places, socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        places["closed"] = f"http://127.0.0.1:{bound.getsockname()[1]}"
        yield places


@contextmanager
def in_thread(start: Callable[[trio.Nursery], Awaitable[T]]) -> Iterator[T]:
    """Run `start` on a loop in another thread and yield its result."""
    started: queue.SimpleQueue[tuple[T, trio.CancelScope, trio.lowlevel.TrioToken]] = queue.SimpleQueue()

    async def run() -> None:
        async with trio.open_nursery() as nursery:
            result = await start(nursery)
            started.put((result, nursery.cancel_scope, trio.lowlevel.current_trio_token()))

    thread = threading.Thread(target=trio.run, args=(run,))
    thread.start()
    places, scope, token = started.get(timeout=HANG)
    try:
        yield places
    finally:
        trio.from_thread.run_sync(scope.cancel, trio_token=token)
        thread.join()
