"""wais URLs through the public functions and the command, against the mock server on loopback."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trio

import resolver
from fixtures.wais import EXAMPLE, Behaviour, serve
from resolver import AccessDenied, LimitExceeded, NotFound, Policy, Refused
from tests.protocols.command import command
from tests.protocols.wais.test_over_sockets import LOGBOOK, QUAY, path_of

DEMO = EXAMPLE.databases[b"demo"]
QUAY_TEXT, LOGBOOK_TEXT = (
    next(each.text for each in DEMO.documents if each.headline == name)
    for name in (b"Quay notes", b"Logbook")
)


def saved(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in folder.iterdir()]


def records(octets: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in octets.splitlines()]


# -- the functions


async def test_fetch_gives_a_document(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    response = await resolver.fetch(server.url(QUAY))
    assert (response.content, response.text) == (QUAY_TEXT, QUAY_TEXT.decode())
    assert (response.kind, response.media_type, response.size) == ("document", "text/plain", 121)
    assert response.verified == ("terminator",)
    assert server.violations == []


async def test_fetch_gives_a_database(nursery: trio.Nursery) -> None:
    """What it has to say of itself; its records are for `entries`."""
    server = await serve(nursery)
    response = await resolver.fetch(server.url("demo"))
    assert (response.content, response.entries) == (DEMO.source, None)
    assert (response.kind, response.media_type) == ("search", "application/x-wais-source")
    async with resolver.entries(server.url("demo")) as entries:
        names = [entry.name async for entry in entries]
    assert names == ["Information on database: demo", "Catalog for database: demo"]


async def test_entries_lead_to_documents(nursery: trio.Nursery) -> None:
    """What a hit says is followed as found by a machine, in either spelling."""
    server = await serve(nursery)
    async with resolver.entries(server.url("demo?ferry")) as entries:
        found = [entry async for entry in entries]
    assert [entry.name for entry in found] == ["Quay notes", "Menu of the café"]
    for entry in found:
        assert entry.url is not None
        assert entry.extra is not None
        assert entry.referrer is not None
        referrer = (entry.referrer.url, entry.referrer.address)
        for url in (entry.url, str(entry.extra["libwww_url"])):
            response = await resolver.fetch(url, origin=entry.origin, referrer=referrer)
            assert len(response.content) == entry.size
    response = await resolver.fetch(server.url("demo?ferry"))
    assert response.entries is not None
    assert [entry.name for entry in response.entries] == [entry.name for entry in found]
    assert server.violations == []


async def test_info_says_what_a_url_names(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    for path, kind, size in [
        ("demo", "search", None),
        ("demo?ferry", "directory", None),
        (QUAY, "document", 121),
        (LOGBOOK, "document", None),
    ]:
        entry = await resolver.info(server.url(path))
        assert (entry.kind, entry.size) == (kind, size), path
    assert len(server.requests) == 3 + 2 + 2 + 2  # of the logbook, one range


async def test_a_document_without_an_end_meets_the_limit(nursery: trio.Nursery) -> None:
    server = await serve(nursery, behaviour=Behaviour(endless=True))
    async with resolver.Resolver(limits=resolver.Limits(body=45_000)) as session:
        with pytest.raises(LimitExceeded) as caught:
            await session.fetch(server.url(QUAY))
    assert caught.value.limit == "body"
    assert len(server.requests) == 1 + 5


async def test_errors_are_typed(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    with pytest.raises(AccessDenied) as denied:
        await resolver.fetch(server.url("private?x"))
    assert (denied.value.code, denied.value.url) == ("T2", server.url("private?x"))
    with pytest.raises(NotFound):
        await resolver.fetch(server.url("demo/TEXT/0000000001WJ"))


async def test_what_is_refused_is_never_sent(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    for path in ("demo%40other.example", "demo%1FINFO?x", "demo%00/TEXT/x", f"demo?{'x' * 4_001}"):
        with pytest.raises(Refused) as caught:
            await resolver.fetch(server.url(path))
        assert caught.value.rule == "S02"
    with pytest.raises(Refused) as cautious:
        async with resolver.Resolver(policy=Policy.cautious()) as session:
            await session.fetch(server.url("demo"))
    assert cautious.value.rule == "S04"
    assert server.connections == 0


async def test_a_server_that_hangs_up_again_and_again(nursery: trio.Nursery, tmp_path: Path) -> None:
    """Each connection ends after two ranges; each further one goes on where the last one stopped."""
    server = await serve(nursery, behaviour=Behaviour(spoilt=3, closes=True))
    target = tmp_path / "logbook"
    status, _, said = await command("-q", "-O", str(target), "--retry-delay", "0.01", server.url(LOGBOOK))
    assert (status, said) == (0, b"")
    assert target.read_bytes() == LOGBOOK_TEXT
    assert 6 <= server.connections <= 9
    assert server.violations == []


# -- the command


async def test_cat_gives_documents_descriptions_and_lists(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    status, printed, said = await command(
        *("cat", "-q", server.url(QUAY), server.url("demo"), server.url("demo?ferry"))
    )
    assert (status, said) == (0, b"")
    assert printed == QUAY_TEXT + (DEMO.source or b"") + "Quay notes\nMenu of the café\n".encode()


async def test_ls_searches(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    status, printed, said = await command(
        *("ls", "--json", "--search", "map", "--entries", "2", server.url("pictures"), server.url("demo?x"))
    )
    assert status == 0
    found = records(printed)
    assert len(found) == 2
    assert all(each["url"].startswith(server.url("pictures/")) for each in found)
    assert b"S04" in said
    assert b"wais:more: 2 hits came" in said
    assert b"wais:no-result: nothing was found; the catalogue is wais://127.0.0.1:" in said


async def test_get_saves_and_tells(nursery: trio.Nursery, tmp_path: Path) -> None:
    server = await serve(nursery)
    picture, text = path_of(b"map.gif", b"pictures", "GIF"), EXAMPLE.databases[b"pictures"].documents[0].text
    status, told, _ = await command("get", "-q", "--json", "-d", str(tmp_path), server.url(picture))
    assert status == 0
    (outcome,) = records(told)
    assert (outcome["status"], outcome["media_type"]) == ("done", "image/gif")
    assert (outcome["verified"], outcome["bytes"]) == (["terminator"], len(text))
    assert saved(tmp_path) == [text]


async def test_info(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    status, told, _ = await command("info", "-q", "--json", server.url("demo"))
    assert status == 0
    (record,) = records(told)
    assert (record["kind"], record["extra"]["media_type"]) == ("search", "application/x-wais-source")
    assert record["extra"]["description"]["url"] == "wais://wais.example/demo"


async def test_explain_shows_what_is_then_sent(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    plan = resolver.explain(server.url("demo?ferry")).as_json()
    assert server.connections == 0
    steps: Any = plan["steps"]
    planned = [step["octets"].encode("latin-1") for step in steps if step["action"] == "send"]
    sent: list[bytes] = []

    def watch(event: object) -> None:
        if isinstance(event, resolver.Sent):
            sent.append(event.octets)

    async with resolver.Resolver(on_event=watch) as session:
        await session.fetch(server.url("demo?ferry"))
    assert b"".join(sent) == b"".join(planned)


STATUSES = [
    ("private?x", 6),
    ("nowhere?x", 8),
    ("demo/TEXT/0000000001WJ", 8),
    ("demo/TEXT/%03%01x", 4),  # hung up without an answer
    ("demo/TEXT/", 12),  # no document id: the real server would hang up
    ("demo%40other?x", 9),
    ("demo/TEXT", 12),
]


async def test_exit_statuses(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    urls = [server.url(path) for path, _ in STATUSES]
    status, printed, said = await command("cat", "-q", "--json", "-t", "1", *urls)
    assert (status, printed) == (1, b"")
    assert [record["exit"] for record in records(said)] == [expected for _, expected in STATUSES]
    assert server.connections == 4  # nothing is sent of what is refused
    assert server.violations == []
