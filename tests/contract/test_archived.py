"""An archive yields the same results as the recorded server.

Every case of the contract is recorded from its mock server and requested again without the server.
"""

from __future__ import annotations

import importlib
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import pytest
import trio

from fixtures.ports import serve_connections
from resolver import NotFound, Policy, ResolveError, Resolver
from resolver.network.connector import Connector
from resolver.testing.contract import Case
from resolver.testing.contract.case import start
from resolver.url import registry
from resolver.warc.archive import Archive
from resolver.warc.recorder import Recorder
from tests.contract.cases import CASES, FTP
from tests.hang import HANG
from tests.plugin.distribution import PLUGINS

Ask: TypeAlias = Callable[[Resolver, str, Path], Awaitable[object]]

#: Facts of an object that an archive must reproduce.
FACTS = ("kind", "media_type", "charset", "size", "modified", "etag", "title", "suggested", "meta", "target")
PROOFS = ("findings", "verified", "final_url")


def facts_of(value: object, *, names: tuple[str, ...] = FACTS + PROOFS) -> dict[str, object]:
    facts = {name: getattr(value, name) for name in names if hasattr(value, name)}
    extra = dict(getattr(value, "extra", None) or {})
    extra.pop("unique", None)  # identifies a directory on the recording machine only
    return {**facts, "extra": extra}


async def fetch(session: Resolver, url: str, path: Path) -> object:
    response = await session.fetch(url)
    return facts_of(response), response.content, listed(response.entries)


async def stream(session: Resolver, url: str, path: Path) -> object:
    async with session.stream(url) as reply:
        octets = b"".join([piece async for piece in reply.body])
        return facts_of(reply, names=FACTS), octets


async def entries(session: Resolver, url: str, path: Path) -> object:
    async with session.entries(url) as found:
        return listed([entry async for entry in found])


def take(path: Path) -> bytes:
    octets = path.read_bytes()
    path.unlink()
    return octets


async def save(session: Resolver, url: str, path: Path) -> object:
    saved = await session.save(url, path, digest=True)
    return facts_of(saved), take(path), saved.digest


async def info(session: Resolver, url: str, path: Path) -> object:
    return facts_of(await session.info(url))


def listed(found: object) -> object:
    if not isinstance(found, list | tuple):
        return None
    rows = [entry.as_json() for entry in found]
    for row in rows:
        (row["extra"] or {}).pop("unique", None)
        row["extra"] = row["extra"] or None
    return rows


#: Requests by archive, the most informative kind last. Entries have an archive of their own, because ftp
#: requests them with other commands than a body.
ASKED: tuple[tuple[Ask, ...], ...] = ((fetch, stream, save, info), (entries, info))


async def ask(
    session: Resolver, urls: list[str], folder: Path, ways: tuple[Ask, ...]
) -> dict[tuple[str, str], object]:
    """Run these kinds of requests for every URL."""
    answers: dict[tuple[str, str], object] = {}
    for way in ways:
        for url in urls:
            try:
                answers[way.__name__, url] = await way(session, url, folder / "saved")
            except ResolveError as error:
                answers[way.__name__, url] = type(error), error.exit_code, getattr(error, "code", None)
    return answers


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_archive_reproduces_live_results(
    case: Case, tls: ssl.SSLContext, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with trio.fail_after(HANG):
        async with trio.open_nursery() as nursery:
            setting = await start(case, nursery, tls, folder)
            urls = [setting.url(each) for each in (case.document, case.listing, case.missing) if each]
            given = {"policy": setting.policy, "news_server": setting.news_server}
            live = []
            for number, ways in enumerate(ASKED):
                with Recorder(tmp_path / f"{number}.warc.gz") as recorder:
                    async with Resolver(recorder=recorder, **given) as session:  # type: ignore[arg-type]
                        live.append(await ask(session, urls, tmp_path, ways))
            nursery.cancel_scope.cancel()
        monkeypatch.setattr(Connector, "addresses", None)  # no DNS lookup and no connection
        monkeypatch.setattr("resolver.files.local.open_local", None)
        for number, ways in enumerate(ASKED):
            with Archive([tmp_path / f"{number}.warc.gz"]) as archive:
                async with Resolver(archive=archive, policy=setting.policy) as session:
                    assert await ask(session, urls, tmp_path, ways) == live[number]


async def test_url_missing_from_archive_is_not_found(tmp_path: Path) -> None:
    with Recorder(tmp_path / "a.warc"):
        pass
    with Archive([tmp_path / "a.warc"]) as archive:
        async with Resolver(archive=archive, policy=Policy()) as session:
            for case in CASES:
                if case.start is None:
                    continue
                with pytest.raises(NotFound, match="archive"):
                    await session.fetch(case.document.format(at="192.0.2.1", folder="/none"))


async def test_archive_reproduces_detailed_listing(
    nursery: trio.Nursery, tls: ssl.SSLContext, folder: Path, tmp_path: Path
) -> None:
    setting = await start(replace(FTP), nursery, tls, folder)
    url = setting.url(FTP.listing)
    for options in (replace(FTP.options, mlsd=True), replace(FTP.options, detailed=True)):
        path = tmp_path / "a.warc.gz"
        with Recorder(path) as recorder:
            async with Resolver(recorder=recorder, policy=setting.policy, options=options) as session:
                live = await entries(session, url, path)
        with Archive([path]) as archive:
            async with Resolver(archive=archive, policy=setting.policy) as session:
                assert await entries(session, url, path) == live
        take(path)


WORDS = b"220 dict.example <1@dict.example>\r\n"
DEFINED = b'150 1 found\r\n151 "cat" pets "Pets"\r\nSmall.\r\n..purrs\r\n.\r\n250 ok\r\n221 bye\r\n'
MATCHED = b'152 2 found\r\npets "cat"\r\npets "a \\"cat"\r\n.\r\n250 ok\r\n221 bye\r\n'


async def look_up(stream: trio.SocketStream) -> None:
    await stream.send_all(WORDS)
    asked = await stream.receive_some()
    await stream.send_all(DEFINED if asked.startswith(b"DEFINE") else MATCHED)
    await stream.aclose()


async def point(stream: trio.SocketStream) -> None:
    await stream.receive_some()
    await stream.send_all(b"Login: joe\r\nNo Plan.\r\n")
    await stream.aclose()


async def test_archive_reproduces_third_party_schemes(
    nursery: trio.Nursery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(PLUGINS))
    rows = (
        importlib.import_module("more_schemes.dictionary").DICT,
        importlib.import_module("more_schemes.finger").FINGER,
    )
    for row in rows:
        monkeypatch.setitem(registry._registered, row.name, row)
    ports = [await serve_connections(nursery, handler) for handler in (look_up, point)]
    policy = Policy(allow_port=frozenset(ports))
    dictionary, finger = (f"127.0.0.1:{port}" for port in ports)
    urls = [f"dict://{dictionary}/d:cat", f"dict://{dictionary}/m:cat:!:prefix", f"finger://{finger}/joe"]
    path = tmp_path / "a.warc.gz"
    with trio.fail_after(HANG), Recorder(path) as recorder:
        async with Resolver(recorder=recorder, policy=policy) as session:
            live = [await fetch(session, url, path) for url in urls]
    monkeypatch.setattr(Connector, "addresses", None)
    with trio.fail_after(HANG), Archive([path]) as archive:
        async with Resolver(archive=archive, policy=policy) as session:
            assert [await fetch(session, url, path) for url in urls] == live
