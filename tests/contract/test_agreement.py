"""A plan and a retrieval have the same outcome for any URL, if every server accepts the request.

Errors that only a server, a disk or a network can cause are not in these tables.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
import trio

import resolver
from fixtures.ports import serve_connections
from resolver import Entry, ResolveError, Resolver
from resolver.testing.contract import Case, CaseSetting, MockServer
from resolver.testing.contract.case import start
from resolver.url import registry
from tests.contract.cases import CASES
from tests.plugin import installed

#: Faults of the authority that all schemes with a host share; a plug-in parses its own authority.
_AUTHORITIES = (
    *("//", "///a", "//{at}%0A/a", "//h..example/a", "//h.example:99999/a", "//h.example:0/a"),
    *("//h.example\\@i.example/", "//a@b@{at}/", "//[::1/", "//[::1%25eth0]/"),
)
#: For schemes that refuse ports of other protocols; no address is needed.
_PORTS = ("//127.0.0.1:25/a", "//127.0.0.1:19/a")

_FTP = (
    "a",
    "/a",
    *("//{at}", "//{at}/", "//{at}/pub", "//{at}/pub/;type=i", "//{at}/pub/;type=a", "//{at}/pub/;type=d"),
    *("//{at}/;type=i", "//{at};type=i", "//{at}/;type=d", "//{at}/pub/a.txt;type=a", "//{at}/%2Fpub/a.txt"),
    *("//{at}/pub/a.txt#x", "//{at}/a%0Ab", "//{at}/a%00", f"//{{at}}/{'a' * 4001}"),
)
_HTTP = (
    *("//{at}", "//{at}/", "//{at}?x", "//{at}/about.txt?x%0D%0A", "//{at}/about.txt#x", "//u:p%0A@{at}/"),
    *("//u%3Aa:p@{at}/", "//u:p@{at}/about.txt"),
)
_GOPHER = (
    *("//{at}", "//{at}/0", "//{at}/1", "//{at}/00/about%09", "//{at}/00/about%09%09+", "//{at}/7/find"),
    *("//{at}/00/about%09%09!", "//{at}/00/about%09%09+%09", "//{at}/0a%0Ab", "//{at}/0a%00", "//{at}/%00"),
    *("//{at}/8x", "//{at}/Tx", "//{at}/2x", "//{at}/hURL:http://h.example/", "//{at}/hURL:nix"),
    *("//{at}/hURL:file:///x", "//{at}/hURL:", f"//{{at}}/0{'a' * 4097}"),
    "//{at}/00/about%09%09%2B%091%0D%0A%2B-1%0D%0Ax%0D%0A.%0D%0A",
)
_NEWS = ("//{at}", "//{at}/comp.misc", "//{at}/a%0Ab@c", "//{at}/a@", "//{at}/a@b@c", "//{at}/comp.*")
_NNTP = (
    *("//{at}", "//{at}/", "//{at}/comp.misc/", "//{at}/comp.misc/x", "//{at}/*", "//{at}/a%0Ab"),
    *("//{at}/comp.misc/99999999999999999999", "//{at}/comp.misc/1-2"),
)
_TELNET = ("//h.example", "//h.example/x", "//h.example:24/", "//u%0A@h.example/", "//-x/")

SPECIFIC: Mapping[str, tuple[str, ...]] = {
    "ftp": _FTP,
    "ftps": _FTP,
    "http": (*_HTTP, *_PORTS),
    "https": (*_HTTP, *_PORTS),
    "gopher": _GOPHER,
    "gophers": _GOPHER,
    "news": (*_NEWS, "", "comp.misc", "*", "smuggled@example.test", "a@", "a%0Ab@c", "comp.*"),
    "snews": _NEWS,
    "nntp": _NNTP,
    "nntps": _NNTP,
    "wais": (
        *("//{at}", "//{at}/demo", "//{at}/demo?", "//{at}/demo/TEXT/", "//{at}/demo/TEXT", "//{at}/d%1Fe"),
        *("//{at}/demo@x", f"//{{at}}/demo/{'T' * 65}/1", f"//{{at}}/demo?{'a' * 4001}"),
    ),
    "prospero": (
        *("//{at}", "//{at}/AFTP/pub/hello.txt;a", "//{at}/x%0A", "//{at}/x;%0A=1", "//{at}/x;a=%00"),
        "//{at}/AFTP/pub/hello.txt;HOST-TYPE=X",
    ),
    "telnet": _TELNET,
    "telnets": _TELNET,
    "mailto": ("", "a", "a@b.example?subject=x%0Ay", "a@b,c@d", "a%0A@b", "a@b?body=x%0D%0Ay"),
    "file": (
        *(
            "{folder}/a.txt",
            "//localhost{folder}/a.txt",
            "//127.0.0.1{folder}",
            "//[::1]{folder}/a.txt",
            "//h.example/a",
            "a",
            "//h:21/a",
            "//u:p@{folder}",
        ),
        *("///a%00", "///a%2Fb", "{folder}"),
    ),
    "finger": ("//{at}", "//{at}/a%0D%0Ab", "//{at}/a?b%00", "///a", "//:{port}/a", "//u@{at}/a", "//-x/a"),
}


async def _finger(nursery: trio.Nursery, tls: ssl.SSLContext) -> MockServer:
    """Start a server that gives every client the same answer."""

    async def attend(stream: trio.SocketStream) -> None:
        async with stream:
            heard.append(bytes(await stream.receive_some()))
            await stream.send_all(b"Nobody is here.\r\n")

    heard: list[bytes] = []
    return _Finger(await serve_connections(nursery, attend), heard)


class _Finger:
    def __init__(self, port: int, heard: list[bytes]) -> None:
        self.port = port
        self.heard = heard


FINGER = Case(name="finger", start=_finger, document="finger://{at}/joe", content=b"Nobody is here.\r\n")
_FIRST = {case.scheme: case for case in reversed(CASES)}
ROWS = (*_FIRST.values(), FINGER)


@pytest.fixture(scope="module", autouse=True)
def _plugin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with installed(tmp_path_factory.mktemp("site")):
        yield


def test_agreement_tables_cover_every_scheme() -> None:
    assert set(SPECIFIC) == {*registry.SCHEMES, "finger"} == {row.scheme for row in ROWS}


@pytest.mark.parametrize("row", ROWS, ids=str)
@pytest.mark.parametrize("policy", ["default", "cautious", "untrusted"])
async def test_plan_and_retrieval_have_same_error(
    row: Case, policy: str, nursery: trio.Nursery, tls: ssl.SSLContext, folder: Path
) -> None:
    setting = await start(row, nursery, tls, folder)
    policy_ = replace(setting.policy, name=policy)  # type: ignore[arg-type]
    async with setting.resolver(policy=policy_) as session:
        for url in _urls(setting):
            plan = resolver.explain(url, policy=policy_, news_server=setting.news_server)
            before = setting.connections
            error = await _failure(session, url)
            assert _status(plan.error) == _status(error), (url, plan, error)
            assert type(plan.error) is type(error)
            assert error is None or setting.connections == before, f"{url}: something was sent"


#: Names that end with a space, contain an encoded slash, are empty, or are too long for a server.
_NAMES = ("a%20", "a%2Fb", "%2F", "", "a" * 4_000, "a" * 4_096, "%41" * 4_096)


@pytest.mark.parametrize("row", ROWS, ids=str)
async def test_info_and_listing_of_unusual_name_yield_result_or_error(
    row: Case, nursery: trio.Nursery, tls: ssl.SSLContext, folder: Path
) -> None:
    setting = await start(row, nursery, tls, folder)
    base = setting.url(row.document).rpartition("/")[0] or f"{row.scheme}:"
    async with setting.resolver() as session:
        for name in _NAMES:
            with suppress(ResolveError):
                assert isinstance(await session.info(f"{base}/{name}"), Entry)
            with suppress(ResolveError):
                async with session.entries(f"{base}/{name}") as entries:
                    async for entry in entries:
                        assert isinstance(entry, Entry)


def _urls(setting: CaseSetting) -> Iterator[str]:
    scheme = setting.case.scheme
    given = (setting.case.document, setting.case.listing, setting.case.login)
    odd = (
        (*_AUTHORITIES, *SPECIFIC[scheme]) if setting.case.start and scheme != "finger" else SPECIFIC[scheme]
    )
    port = "" if setting.server is None else str(setting.port)
    for template in (*(url for url in given if url is not None), *(f"{scheme}:{rest}" for rest in odd)):
        yield (
            template.replace("{port}", port)
            .replace("{at}", setting.at)
            .replace("{folder}", str(setting.folder))
        )


async def _failure(session: Resolver, url: str) -> ResolveError | None:
    try:
        await session.fetch(url)
    except ResolveError as error:
        return error
    return None


def _status(error: ResolveError | None) -> int:
    return 0 if error is None else error.exit_code
