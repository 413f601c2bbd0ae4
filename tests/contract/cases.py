"""The cases of the contract: for each scheme a server, URLs, and expected results.

`{at}` in a URL is the address and port of the server, `{folder}` the path of a local directory.
"""

from __future__ import annotations

import ssl
from base64 import b64encode
from dataclasses import replace
from functools import partial
from pathlib import Path

import trio

import fixtures.ftp
import fixtures.gopher
import fixtures.http
import fixtures.nntp
import fixtures.prospero
import fixtures.wais
from fixtures.ftp.tree import TEXT
from fixtures.http import ABOUT, Page
from fixtures.nntp.flavor import COMPRESSING, LOGIN
from fixtures.prospero.tree import TEXT as HELLO
from resolver import Kind, Options
from resolver.testing.contract import SECRET, Case, MockServer


async def _ftp(nursery: trio.Nursery, tls: ssl.SSLContext) -> MockServer:
    return await fixtures.ftp.serve(nursery)


async def _ftps(nursery: trio.Nursery, tls: ssl.SSLContext) -> MockServer:
    strict = fixtures.ftp.Behavior(resumes_sessions=True)
    return await fixtures.ftp.serve(nursery, strict, tls=tls, implicit=True)


async def _gopher(nursery: trio.Nursery, tls: ssl.SSLContext, *, secured: bool) -> MockServer:
    return await fixtures.gopher.serve(nursery, ssl_context=tls if secured else None)


async def _http(nursery: trio.Nursery, tls: ssl.SSLContext, *, secured: bool) -> MockServer:
    site = {**fixtures.http.EXAMPLE, "/private": Page(ABOUT, login=("user", SECRET))}
    return await fixtures.http.serve(nursery, site, ssl_context=tls if secured else None)


async def _news(nursery: trio.Nursery, tls: ssl.SSLContext, *, secured: bool) -> MockServer:
    return await fixtures.nntp.serve(nursery, ssl_context=tls if secured else None)


async def _packing_news(nursery: trio.Nursery, tls: ssl.SSLContext) -> MockServer:
    return await fixtures.nntp.serve(nursery, flavor=COMPRESSING)


async def _locked_news(nursery: trio.Nursery, tls: ssl.SSLContext) -> MockServer:
    return await fixtures.nntp.serve(nursery, flavor=LOGIN)


async def _wais(nursery: trio.Nursery, tls: ssl.SSLContext) -> MockServer:
    return await fixtures.wais.serve(nursery)


class _Prospero:
    """A Prospero server whose datagrams are comparable: the random connection id is removed."""

    def __init__(self, server: fixtures.prospero.ProsperoServer) -> None:
        self._server = server
        self.port = server.port

    @property
    def heard(self) -> list[bytes]:
        return [
            b"".join(datagram[:1] + bytes(2) + datagram[3:] for datagram in datagrams)
            for datagrams in self._server.heard.values()
        ]


async def _prospero(nursery: trio.Nursery, tls: ssl.SSLContext) -> MockServer:
    return _Prospero(await fixtures.prospero.serve(nursery))


def furnish(folder: Path) -> None:
    """Write the files that the file URLs name."""
    (folder / "sub").mkdir(parents=True)
    (folder / "a.txt").write_bytes(TEXT)


def _article(number: int) -> bytes:
    return fixtures.nntp.EXAMPLE.groups[b"comp.misc"].articles[number].octets


_MENU = (
    *("About", "Periods", "Nothing at all", "A story", "Grüße", "A poll", "Octets", "A picture", "A page"),
    *("A folder", "A blank in the name", "Find"),
)
_PUB = (
    *("a.bin", "a.txt", "bare-cr.txt", "crlf.txt", "empty", "empty.bin", "large.bin", "names"),
    "unreadable.txt",
)
_QUAY = "1=wais.example%3A210;2=/srv/wais/db/demo;3=0%20121%20/srv/wais/docs/{name}.txt;7=%00;"

FTP = Case(
    name="ftp",
    start=_ftp,
    document="ftp://{at}/pub/a.txt",
    content=TEXT,
    saved="a.txt",
    listing="ftp://{at}/pub/",
    names=_PUB,
    barred=frozenset({"unreadable.txt"}),
    missing="ftp://{at}/pub/none",
    login="ftp://me:asked@{at}/pub/a.txt",
    secret="asked",
    spoken=b"asked",
)
HTTP = Case(
    name="http",
    any_port=True,
    start=partial(_http, secured=False),
    document="http://{at}/about.txt",
    content=ABOUT,
    saved="about.txt",
    missing="http://{at}/none",
    login=f"http://user:{SECRET}@{{at}}/private",
    spoken=b"Basic " + b64encode(f"user:{SECRET}".encode()),
)
GOPHER = Case(
    name="gopher",
    start=partial(_gopher, secured=False),
    document="gopher://{at}/00/about",
    content=b"A text of two lines.\r\nThe second one.\r\n",
    listing="gopher://{at}/",
    names=_MENU,
    asking=frozenset({"A poll", "Find"}),
    missing="gopher://{at}/0nix",
)
NNTP = Case(
    name="nntp",
    start=partial(_news, secured=False),
    document="nntp://{at}/comp.misc/1234",
    content=_article(1234),
    kind=Kind.ARTICLE,
    listing="nntp://{at}/comp.misc",
    listing_kind=Kind.GROUP,
    names=("1230", "1234", "1235", "1236"),
    missing="nntp://{at}/comp.misc/99",
    later=((b"OVER 0-0", b"OVER 1230-1236"),),
    farewell=b"QUIT\r\n",
)
NEWS = replace(
    NNTP,
    name="news",
    document="news:smuggled@example.test",
    content=_article(1235),
    listing="news:comp.misc",
    missing="news:none@example.test",
    by_setting=True,
)

CASES: tuple[Case, ...] = (
    FTP,
    replace(
        FTP,
        name="ftps",
        start=_ftps,
        tls=True,
        document="ftps://{at}/pub/a.txt",
        listing="ftps://{at}/pub/",
        missing="ftps://{at}/pub/none",
        login="ftps://me:asked@{at}/pub/a.txt",
    ),
    HTTP,
    replace(
        HTTP,
        name="https",
        start=partial(_http, secured=True),
        tls=True,
        document="https://{at}/about.txt",
        missing="https://{at}/none",
        login=f"https://user:{SECRET}@{{at}}/private",
    ),
    GOPHER,
    replace(
        GOPHER,
        name="gophers",
        start=partial(_gopher, secured=True),
        tls=True,
        document="gophers://{at}/00/about",
        listing="gophers://{at}/",
        missing="gophers://{at}/0nix",
    ),
    NEWS,
    replace(
        NEWS,
        name="news with a server",
        by_setting=False,
        document="news://{at}/smuggled@example.test",
        listing="news://{at}/comp.misc",
        missing="news://{at}/none@example.test",
    ),
    replace(
        NEWS,
        name="groups",
        start=_packing_news,
        listing="news:*",
        listing_kind=Kind.DIRECTORY,
        names=("comp.misc", "alt.c++", "alt.empty", "alt.files", "private.secret"),
        barred=frozenset({"private.secret"}),
        later=(),
    ),
    replace(
        NEWS,
        name="snews",
        by_setting=False,
        start=partial(_news, secured=True),
        tls=True,
        document="snews://{at}/smuggled@example.test",
        listing="snews://{at}/comp.misc",
        missing="snews://{at}/none@example.test",
    ),
    NNTP,
    replace(
        NNTP,
        name="nntp with a login",
        start=_locked_news,
        document="nntp://alice:secret@{at}/comp.misc/1234",
        listing=None,
        missing=None,
        login="nntp://alice:secret@{at}/comp.misc/1234",
        otherwise=frozenset({"nntp://alice:secret@{at}/comp.misc/1234"}),
        secret="secret",
        spoken=b"secret",
    ),
    replace(
        NNTP,
        name="nntps",
        start=partial(_news, secured=True),
        tls=True,
        document="nntps://{at}/comp.misc/1234",
        listing="nntps://{at}/comp.misc",
        missing="nntps://{at}/comp.misc/99",
    ),
    Case(
        name="wais",
        start=_wais,
        document="wais://{at}/demo/TEXT/121/" + _QUAY.format(name="quay"),
        content=fixtures.wais.EXAMPLE.databases[b"demo"].documents[0].forms[b"TEXT"],
        listing="wais://{at}/demo?ferry",
        names=("Quay notes", "Menu of the café"),
        missing="wais://{at}/demo/TEXT/121/" + _QUAY.format(name="gone"),
    ),
    Case(
        name="prospero",
        drawn=True,
        start=_prospero,
        document="prospero://{at}/AFTP/pub/hello.txt",
        content=HELLO,
        listing="prospero://{at}//example",
        names=("hello.txt", "all.bin", "more", "nothing", "it's a file", "moved"),
        missing="prospero://{at}//example/none",
        otherwise=frozenset({"prospero://{at}//example"}),
    ),
    Case(
        name="file",
        furnish=furnish,
        document="file://{folder}/a.txt",
        content=TEXT,
        listing="file://{folder}",
        names=("a.txt", "sub"),
        missing="file://{folder}/none",
    ),
    Case(
        name="mailto",
        document="mailto:joe@h.example?subject=hi",
        content=b"To: joe@h.example\r\nSubject: hi\r\n\r\n",
        kind=Kind.ADDRESS,
    ),
    Case(
        name="telnet",
        document="telnet://guest@h.example/",
        content=b"",
        kind=Kind.SERVICE,
        login=f"telnet://guest:{SECRET}@h.example/",
    ),
    Case(name="telnets", document="telnets://h.example/", content=b"", kind=Kind.SERVICE),
)


async def _ftp_with_tls(nursery: trio.Nursery, tls: ssl.SSLContext) -> MockServer:
    return await fixtures.ftp.serve(nursery, tls=tls)


async def _news_with_tls(nursery: trio.Nursery, tls: ssl.SSLContext) -> MockServer:
    return await fixtures.nntp.serve(nursery, starttls=tls)


#: The same cases with options that a plan also shows.
OPTION_CASES: tuple[Case, ...] = (
    replace(FTP, name="ftp that keeps", options=Options(keep=True)),
    replace(FTP, name="ftp by MLSD", options=Options(mlsd=True)),
    replace(FTP, name="ftp with TLS", start=_ftp_with_tls, options=Options(tls="require")),
    replace(NNTP, name="nntp with TLS", start=_news_with_tls, options=Options(tls="try")),
    replace(NNTP, name="nntp, the newest", options=Options(entries=2), later=((b"0-0", b"1235-1236"),)),
    replace(HTTP, name="http with headers", options=Options(headers=((b"X-A", b"b"),), user_agent=b"me")),
)
SERVED = tuple(case for case in CASES if case.start is not None)
