"""Servers of listings of any length.

Each server implements only the part of its protocol that a listing needs. It generates the bytes while
sending, so that a million entries need no memory.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import trio

import fixtures.prospero
from fixtures.prospero.tree import Link, Node
from fixtures.wais.coding import read_head, write_element, write_message, write_number
from protocols.http.index import html as markup
from protocols.http.index import structured as elements
from protocols.http.index import structured as objects
from resolver import Options
from resolver.testing.contract.peers import leave, read_to_end, serve
from resolver.testing.replay import Peer

#: Lines per write.
_AT_ONCE = 1_000
#: The APDU size in bytes that WAIS servers accept.
_MESSAGE = 100_000


#: Imported here once per process, so that the imports count neither as work nor as memory of a listing.
READERS = (elements, markup, objects)

#: Starts a server of a listing with the given number of entries and a directory for files; returns the URL.
Start: TypeAlias = Callable[[trio.Nursery, Path, int], Awaitable[str]]


@dataclass(frozen=True, kw_only=True)
class Many:
    """A kind of listing with any number of entries, up to `most`.

    - `start`: starts the server and returns the URL; the folder is for files
    - `held`: bytes of memory per entry, for a protocol that reports nothing before the end
    - `shown`: entries that each item yields
    - `document`: `fetch` returns no listing
    - `telling`: a number of entries that takes several times the work allowed in one turn
    """

    name: str
    start: Start
    most: int = 1_000_000
    held: int = 0
    shown: int = 1
    document: bool = False
    telling: int = 2_000
    options: Options = field(default_factory=Options)

    def __str__(self) -> str:
        return self.name


#: The reply to a line of the client, line by line; None closes the connection.
ReplyTo: TypeAlias = Callable[[bytes], "Iterator[bytes] | None"]


def lines(line: Callable[[int], bytes], count: int) -> Iterator[bytes]:
    for start in range(0, count, _AT_ONCE):
        yield b"".join(line(number) for number in range(start, min(count, start + _AT_ONCE)))


async def _converse(peer: Peer, greeting: bytes, reply_to: ReplyTo) -> None:
    """Answer lines until a line has no answer."""
    await peer.send_all(greeting)
    waiting = b""
    while octets := await peer.receive_some(65_536):
        *heard, waiting = (waiting + bytes(octets)).split(b"\r\n")
        for line in heard:
            answer = reply_to(line)
            if answer is None:
                return await leave(peer)
            for piece in answer:
                await peer.send_all(piece)


def _news(table: dict[bytes, Callable[[], Iterator[bytes]]]) -> Callable[[trio.Nursery], Awaitable[int]]:
    """Return a news server that answers lines with the given prefixes and rejects all other commands."""

    def reply_to(line: bytes) -> Iterator[bytes] | None:
        known = (answer for command, answer in table.items() if line.startswith(command))
        return next(known, lambda: iter([b"500 what?\r\n"]))()

    async def attend(peer: Peer) -> None:
        await _converse(peer, b"200 hello\r\n", reply_to)

    return lambda nursery: serve(nursery, attend)


def _block(status: bytes, content: Iterator[bytes]) -> Iterator[bytes]:
    yield status + b"\r\n"
    yield from content
    yield b".\r\n"


async def _overview(nursery: trio.Nursery, folder: Path, count: int) -> str:
    selected = b"211 %d 1 %d a.b\r\n" % (count, count)
    line = b"%d\tRe: subject\tme@h\tMon, 01 Jan 2024 00:00:00 GMT\t<%d@h>\t\t100\t3\r\n"
    port = await _news(
        {
            b"GROUP": lambda: iter([selected]),
            b"OVER": lambda: _block(b"224 ok", lines(lambda n: line % (n + 1, n), count)),
        }
    )(nursery)
    return f"nntp://127.0.0.1:{port}/a.b"


async def _heads(nursery: trio.Nursery, folder: Path, count: int) -> str:
    """Serve a group without overviews."""
    selected = b"211 %d 1 %d a.b" % (count, count)
    head = b"221 %s <%s@h>\r\nSubject: s\r\nFrom: me\r\nDate: x\r\nMessage-ID: <%s@h>\r\n.\r\n"

    def reply_to(line: bytes) -> Iterator[bytes] | None:
        if line.startswith(b"HEAD "):
            number = line[5:]
            return iter([head % (number, number, number)])
        if line.startswith(b"LISTGROUP"):
            return _block(selected, lines(lambda n: b"%d\r\n" % (n + 1), count))
        return iter([selected + b"\r\n"] if line.startswith(b"GROUP") else [b"500 what?\r\n"])

    async def attend(peer: Peer) -> None:
        await _converse(peer, b"200 hello\r\n", reply_to)

    return f"nntp://127.0.0.1:{await serve(nursery, attend)}/a.b"


async def _groups(nursery: trio.Nursery, folder: Path, count: int) -> str:
    port = await _news(
        {
            b"LIST ACTIVE": lambda: _block(b"215 ok", lines(lambda n: b"a.g%d 9 1 y\r\n" % n, count)),
            b"LIST NEWSGROUPS": lambda: _block(
                b"215 ok", lines(lambda n: b"a.g%d\tabout %d\r\n" % (n, n), count)
            ),
        }
    )(nursery)
    return f"news://127.0.0.1:{port}/*"


def _ftp(line: Callable[[int], bytes], path: str) -> Callable[[trio.Nursery, Path, int], Awaitable[str]]:
    async def start(nursery: trio.Nursery, folder: Path, count: int) -> str:
        request, requests = trio.open_memory_channel[bytes](1)

        async def send_names(peer: Peer) -> None:
            if await requests.receive() == b"LIST":
                await read_to_end(peer)  # the server refuses the command, so it sends no data
                return
            for piece in lines(line, count):
                await peer.send_all(piece)
            await leave(peer)

        data = await serve(nursery, send_names)
        replies = {
            b"USER": b"230 in\r\n",
            b"EPSV": b"229 ok (|||%d|)\r\n" % data,
            b"NLST": b"150 here\r\n226 done\r\n",
            b"MLSD": b"150 here\r\n226 done\r\n",
            b"CWD": b"250 ok\r\n",
            b"TYPE": b"200 ok\r\n",
        }

        def reply_to(said: bytes) -> Iterator[bytes] | None:
            command = said.partition(b" ")[0]
            if command in (b"LIST", b"NLST", b"MLSD"):
                request.send_nowait(command)
            return iter([replies.get(command, b"500 what?\r\n")])

        async def attend(peer: Peer) -> None:
            await _converse(peer, b"220 hello\r\n", reply_to)

        return f"ftp://127.0.0.1:{await serve(nursery, attend)}{path}"

    return start


def _gopher(
    line: Callable[[int], bytes], path: str, before: bytes = b""
) -> Callable[[trio.Nursery, Path, int], Awaitable[str]]:
    async def start(nursery: trio.Nursery, folder: Path, count: int) -> str:
        async def attend(peer: Peer) -> None:
            await peer.receive_some(65_536)
            await peer.send_all(before)
            for piece in lines(line, count):
                await peer.send_all(piece)
            await leave(peer)

        return f"gopher://127.0.0.1:{await serve(nursery, attend)}{path}"

    return start


async def _wais(nursery: trio.Nursery, folder: Path, count: int) -> str:
    """Serve records of the minimum size, because a message holds 100,000 bytes."""
    size = write_number(_MESSAGE)
    init = b"\x15\1" + b"".join(
        (write_element(3, b"\x80"), write_element(4, b"\x80"), write_element(5, size), write_element(6, size))
    )
    answer = b"\x17\1" + bytes(9) + write_element(27, b"\0")
    records = write_element(99, write_element(150, write_element(116, b"x")) * count)

    async def attend(peer: Peer) -> None:
        octets = b""
        for header, rest in ((init, b""), (answer, records)):
            while len(octets) < 25 or len(octets) < 25 + read_head(octets[:25]).length:
                octets += await peer.receive_some(65_536)
            head = read_head(octets[:25])
            octets = octets[25 + head.length :]
            await peer.send_all(write_message(head, len(header).to_bytes(2, "big") + header + rest))
        await read_to_end(peer)

    return f"wais://127.0.0.1:{await serve(nursery, attend)}/db?x"


async def _prospero(nursery: trio.Nursery, folder: Path, count: int) -> str:
    links = tuple(Link(b"FILE", b"f%d" % number, b"/f%d" % number) for number in range(count))
    server = await fixtures.prospero.serve(nursery, {b"/many": Node(links=links)})
    return server.url("/many")


async def _file(nursery: trio.Nursery, folder: Path, count: int) -> str:
    for number in range(count):
        os.close(os.open(folder / f"f{number:07d}", os.O_CREAT))
    return f"{folder.as_uri()}/"


def _item(number: int) -> bytes:
    return b"0item %d\t/%d\th.example\t70\r\n" % (number, number)


def _info(number: int) -> bytes:
    return (
        b"+INFO: 0item\t/%d\th\t70\t+\r\n+ADMIN:\r\n Admin: me <a@b>\r\n+VIEWS:\r\n Text/plain: <1k>\r\n"
        % number
    )


def _index(media_type: bytes, before: bytes, line: Callable[[int], bytes], after: bytes) -> Start:
    async def start(nursery: trio.Nursery, folder: Path, count: int) -> str:
        async def attend(peer: Peer) -> None:
            await peer.receive_some(65_536)
            await peer.send_all(b"HTTP/1.1 200 OK\r\nContent-Type: " + media_type + b"\r\n\r\n" + before)
            for piece in lines(line, count):
                await peer.send_all(piece)
            await peer.send_all(after)
            await leave(peer)

        return f"http://127.0.0.1:{await serve(nursery, attend)}/d/"

    return start


def _row(number: int) -> bytes:
    return b'<a href="f%d">f%d</a>   09-Sep-2001 01:46    12\n' % (number, number)


def _object(number: int) -> bytes:
    comma = b"," if number else b""
    date = b"Sun, 09 Sep 2001 01:46:40 GMT"
    return comma + b'{"name":"f%d","type":"file","mtime":"%s","size":12}\n' % (number, date)


def _name(number: int) -> bytes:
    return b"f%07d\r\n" % number


MANY: tuple[Many, ...] = (
    Many(name="ftp", start=_ftp(_name, "/"), options=Options(nlst=True)),
    Many(
        name="ftp with an argument",
        start=_ftp(lambda number: b"d/" + _name(number), "/d;type=d"),
        options=Options(nlst=True),
    ),
    Many(
        name="ftp with facts",
        start=_ftp(lambda number: b"type=file;size=9;modify=20200102030405; " + _name(number), "/"),
        options=Options(mlsd=True),
    ),
    Many(name="ftp with nothing but line ends", start=_ftp(lambda number: b"\r\n" * 20, "/"), shown=0),
    Many(name="gopher", start=_gopher(_item, "/")),
    Many(
        name="gopher with links",
        telling=1_000,
        start=_gopher(lambda number: b"hx\tURL:http://h.example/%d\tx\t1\r\n" % number, "/"),
    ),
    Many(name="gopher+ records", telling=300, start=_gopher(_info, "/1%09%09$", b"+-2\r\n")),
    Many(name="overviews", telling=1_000, start=_overview),
    Many(name="heads", telling=200, start=_heads, most=10_000),
    Many(name="groups", telling=1_000, start=_groups, held=600),
    Many(name="wais", telling=500, start=_wais, most=16_000, held=2_000),
    Many(name="prospero", telling=500, start=_prospero, most=20_000, held=3_000),
    Many(name="file", start=_file, held=200),
    Many(
        name="index page",
        telling=600,
        start=_index(b"text/html", b'<h1>Index of /d/</h1><pre><a href="../">../</a>\n', _row, b"</pre>"),
        document=True,
    ),
    Many(name="index of json", start=_index(b"application/json", b"[", _object, b"]"), document=True),
)
