"""Servers that repeat each secret they receive, in each place where a server chooses the text (S17).

The bodies of these servers contain no secret: a body belongs to the user and is never masked.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

import trio

import fixtures.ftp.server
import fixtures.http.server
from fixtures.ftp.behavior import Behavior as FtpBehavior
from fixtures.http.server import Behavior as HttpBehavior
from fixtures.http.site import Page, moved
from fixtures.ports import serve_connections
from tests.contract.test_contract import NNTP, SPOKEN, Parrot
from tests.contract.test_contract import attend as attend_parrot
from tests.resolver.cli.places import in_thread

Attend: TypeAlias = Callable[[trio.SocketStream], Awaitable[None]]

USER, PASSWORD = "alice", "open-sesame"
BASIC = b64encode(f"{USER}:{PASSWORD}".encode()).decode()
TOKEN, API_KEY, COOKIE, SECOND_COOKIE = (
    "t0ken-of-bearer",
    "k3y-of-the-api",
    "c00kie-of-ours",
    "an0ther-cookie",
)
PROXY_PASSWORD = "pr0xy-sesame"
PROXY_BASIC = b64encode(f"{USER}:{PROXY_PASSWORD}".encode()).decode()
TYPED = "typed-sesame"

#: Options of the command for each login, and the secrets that they send.
_KEYS = ("-H", f"X-Api-Key: {API_KEY}", "-H", f"Cookie: sid={COOKIE}; other={SECOND_COOKIE}")
KEY_SECRETS = (API_KEY, COOKIE, SECOND_COOKIE)
LOGINS = {
    "basic": (_KEYS, (PASSWORD, BASIC, *KEY_SECRETS)),
    "bearer": ((*_KEYS, "-H", f"Authorization: Bearer {TOKEN}"), (TOKEN, *KEY_SECRETS)),
}

_WORDS = f"{PASSWORD} {BASIC} {TOKEN} {API_KEY} {COOKIE} {SECOND_COOKIE} {PROXY_PASSWORD} {PROXY_BASIC}"
_TARGET = _WORDS.replace(" ", "&")
_FIELDS = (
    ("X-Echo", _WORDS),
    (f"X-{API_KEY}", "1"),
    ("ETag", f'"{_WORDS}"'),
    ("Set-Cookie", f"{PASSWORD}={COOKIE}; Path=/{TOKEN}"),
    ("Content-Disposition", f'attachment; filename="{_TARGET}.txt"'),
    ("Content-Language", API_KEY),
    ("Link", f"</{_TARGET}>; rel=describedby"),
    ("Repr-Digest", f"sha-256=:{BASIC}:"),
)
_TYPE = f'text/plain; charset="{PASSWORD}"; said="{_WORDS}"'
_HEAD = f"HTTP/1.1 200 {_WORDS}\r\n" + "".join(f"{name}: {value}\r\n" for name, value in _FIELDS)

_PROXIED_TYPE = f'Content-Type: text/plain; charset="{PROXY_PASSWORD}"\r\n'
_PROXIED = f"{_HEAD}{_PROXIED_TYPE}Content-Length: 7\r\n\r\na body\n".encode()
_UNKNOWN = b"HTTP/1.1 407 Who?\r\nProxy-Authenticate: Basic realm=here\r\nContent-Length: 0\r\n\r\n"

PAGES = {
    "/whole": Page(b"a body\n", _TYPE, reason=_WORDS, headers=_FIELDS),
    "/typed": Page(b"a body\n", f"text/{PASSWORD}", headers=_FIELDS),
    "/untyped": Page(b"a body\n", f"{API_KEY}/{TOKEN}", headers=_FIELDS),
    "/coded": Page(b"a body\n", _TYPE, headers=(*_FIELDS, ("Content-Encoding", PASSWORD))),
    "/index/": Page(b"<title>A page</title>\n", "text/html", reason=_WORDS, headers=_FIELDS),
    "/moved": moved(f"/whole?{_TARGET}"),
    "/again": moved(f"/again?{_TARGET}"),
    "/astray": moved(f"nosuch:{_TARGET}"),
    "/lost": moved(f"http://{_TARGET} x/"),
    "/gone": Page(b"no such page\n", _TYPE, 404, _WORDS, _FIELDS),
    "/later": Page(b"not now\n", _TYPE, 503, _WORDS, (*_FIELDS, ("Retry-After", _WORDS))),
    "/login": Page(b"who?\n", _TYPE, 401, _WORDS, (("WWW-Authenticate", f'Basic realm="{_WORDS}"'),)),
    "/cut": Page(b"a body\n" * 9, _TYPE, reason=_WORDS, headers=_FIELDS),
}
SPOILT = {
    "/cut": HttpBehavior(length_off=9, unannounced=True),
    "/garbage": HttpBehavior(instead=f"HTTP/1.1 {_WORDS}\r\n\r\n".encode()),
    "/length": HttpBehavior(instead=f"{_HEAD}Content-Length: {_WORDS}\r\n\r\n".encode()),
    "/chunk": HttpBehavior(instead=f"{_HEAD}Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\nmore\r\n".encode()),
    "/coding": HttpBehavior(instead=f"{_HEAD}Transfer-Encoding: {PASSWORD}\r\n\r\n".encode()),
    "/part": HttpBehavior(
        instead=f"HTTP/1.1 206 {_WORDS}\r\nContent-Range: {_WORDS}\r\nContent-Length: 2\r\n\r\nab".encode()
    ),
}

_FTP_WORDS = PASSWORD.encode()
_FTP = FtpBehavior(
    replies={
        b"PASS": b"230-" + _FTP_WORDS + b"\r\n230 you said " + _FTP_WORDS + b"\r\n",
        b"MDTM": b"213 " + _FTP_WORDS + b"\r\n",
        b"RETR gone": b"550 " + _FTP_WORDS + b" is not here\r\n",
        b"CWD gone": b"550 " + _FTP_WORDS + b" is not here\r\n",
        b"SIZE gone": b"550 " + _FTP_WORDS + b" is not here\r\n",
        b"RETR later": b"450 " + _FTP_WORDS + b" is busy\r\n",
    },
    first=b"150 Here it comes for " + _FTP_WORDS + b"\r\n",
    final=b"226 That was it for " + _FTP_WORDS + b"\r\n",
)
_NNTP = replace(
    NNTP,
    answers={
        **NNTP.answers,
        b"GROUP": b"211 1 1 1 a.b " + SPOKEN + b"\r\n",
        b"ARTICLE 1": b"220 1 <1@a.b> " + SPOKEN + b"\r\nSubject: one\r\n\r\na body\r\n.\r\n",
        b"HEAD 1": b"221 1 <1@a.b> " + SPOKEN + b"\r\nSubject: one\r\n.\r\n",
        b"ARTICLE 2": b"423 none for " + SPOKEN + b"\r\n",
    },
)


@dataclass(frozen=True)
class Echoes:
    """The URLs of the servers, without a path.

    A URL has a login if its server requires a login. `bearer` is `basic` without the login. `locked_nntp`
    denies every request.
    """

    basic: str
    bearer: str
    ftp: str
    nntp: str
    locked_nntp: str
    proxy: str
    telnet: str


async def _start(nursery: trio.Nursery) -> Echoes:
    http = await fixtures.http.server.serve(nursery, PAGES, SPOILT)
    ftp = await fixtures.ftp.server.serve(nursery, _FTP)
    ports: list[int] = []
    attends: list[Attend] = [_attend_proxy, _attend_terminal]
    attends += [partial(_attend_as, parrot) for parrot in (NNTP, _NNTP)]
    for attend in attends:
        ports.append(await serve_connections(nursery, partial(_attend, attend)))
    return Echoes(
        basic=f"http://{USER}:{PASSWORD}@127.0.0.1:{http.port}",
        bearer=f"http://127.0.0.1:{http.port}",
        ftp=f"ftp://{USER}:{PASSWORD}@127.0.0.1:{ftp.port}",
        nntp=_NNTP.url.format(at=f"127.0.0.1:{ports[3]}").removesuffix("/1"),
        locked_nntp=NNTP.url.format(at=f"127.0.0.1:{ports[2]}"),
        proxy=f"http://{USER}:{PROXY_PASSWORD}@127.0.0.1:{ports[0]}",
        telnet=f"telnet://127.0.0.1:{ports[1]}",
    )


async def _attend(attend: Attend, stream: trio.SocketStream) -> None:
    with suppress(trio.BrokenResourceError):  # the client may disconnect at any time
        await attend(stream)


async def _attend_as(parrot: Parrot, stream: trio.SocketStream) -> None:
    """Repeat only the bytes received on this connection."""
    await attend_parrot(parrot, [], stream)


async def _attend_proxy(stream: trio.SocketStream) -> None:
    """Serve as an HTTP proxy that requires a login and answers for every server."""
    async with stream:
        head = b""
        while octets := await stream.receive_some():
            head += octets
            if head.endswith(b"\r\n\r\n"):
                is_known = b"Proxy-Authorization: Basic " + PROXY_BASIC.encode() in head
                await stream.send_all(_PROXIED if is_known else _UNKNOWN)
                head = b""


async def _attend_terminal(stream: trio.SocketStream) -> None:
    """Serve a login whose prompt repeats the typed text."""
    async with stream:
        await stream.send_all(b"login: ")
        await stream.receive_some()
        await stream.send_all(b"no such user " + TYPED.encode() + b"\r\n")


@contextmanager
def echoes() -> Iterator[Echoes]:
    """Run the servers on a loop in another thread."""
    with in_thread(_start) as command:
        yield command
