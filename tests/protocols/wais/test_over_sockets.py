"""The handler through the real gate, the public functions and the command, against the mock server.

The mock server also misbehaves on request.
"""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

import resolver
from fixtures.wais import EXAMPLE, Behavior, Database, Document, Search, WaisServer, World, serve
from fixtures.wais.coding import write_element
from protocols.syntax import encode
from resolver import (
    AccessDenied,
    Disconnected,
    LimitExceeded,
    Limits,
    NotFound,
    Options,
    Policy,
    Refused,
    ResolveError,
    Truncated,
    WaisUrl,
)
from resolver.testing import TranscriptOutcome
from resolver.testing.player import resolve
from resolver.transfer.network import Network
from tests.hang import HANG
from tests.protocols.command import command
from tests.protocols.in_memory import MemorySink
from tests.protocols.opening import open_url
from tests.protocols.typed_url import parse_as
from tests.protocols.wais.captures import RECORDED, capture, names, recorded_world

DEMO = {document.headline: document for document in EXAMPLE.databases[b"demo"].documents}
MAP = EXAMPLE.databases[b"pictures"].documents[0].text


def path_of(headline: bytes, database: bytes = b"demo", wtype: str = "TEXT", world: World = EXAMPLE) -> str:
    found = world.databases[database]
    document = next(each for each in found.documents if each.headline == headline)
    return f"{database.decode()}/{wtype}/{encode(world.hit_id(found, document))}"


QUAY, LOGBOOK, EVEN = path_of(b"Quay notes"), path_of(b"Logbook"), path_of(b"Even")


def network(server: WaisServer, idle: float = 5.0) -> Network:
    return Network(policy=Policy(allow_port={server.port}), limits=Limits(idle=idle))


async def fetch(
    server: WaisServer, path: str, *, options: Options | None = None, idle: float = 5.0
) -> TranscriptOutcome:
    url = parse_as(WaisUrl, server.url(path))
    async with network(server, idle) as open_network:
        return await resolve(open_url, url, open_network.admit(url, options=options))


async def take_all(server: WaisServer, path: str) -> bytes:
    url = parse_as(WaisUrl, server.url(path))
    async with network(server) as open_network, open_url(url, open_network.admit(url)) as reply:
        return b"".join([octets async for octets in reply.body])


@pytest.mark.parametrize("headline", DEMO)
async def test_every_document_is_retrieved_exactly(headline: bytes, nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    found = await fetch(server, path_of(headline))
    assert (found.body, found.error, found.kind) == (DEMO[headline].text, None, "document")
    assert (found.verified, found.findings) == (("terminator",), [])
    assert server.violations == []


async def test_document_in_every_spelling_and_type_is_retrieved(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    fields = "2=/srv/wais/db/demo;3=0%20121%20/srv/wais/docs/quay.txt;7="
    for path, media_type, body in [
        (f"demo/TEXT/121/{fields}", "text/plain", DEMO[b"Quay notes"].text),
        (f"demo/TEXT/{fields}", "text/plain", DEMO[b"Quay notes"].text),
        (f"demo/TEXT,GIF/9/{fields}", "text/plain", DEMO[b"Quay notes"].text),
        (path_of(b"Twin map", b"pictures"), "text/plain", b"Twin map\nA map in two forms.\n"),
        (path_of(b"Twin map", b"pictures", "GIF"), "image/gif", MAP[:5_442]),  # longer than announced
        (path_of(b"map.gif", b"pictures", "GIF"), "image/gif", MAP),
        (path_of(b"page.html", b"pictures", "HTML"), "text/html", b"<HTML><BODY>A map.</BODY></HTML>\n"),
    ]:
        found = await fetch(server, path)
        assert (found.media_type, found.body, found.error) == (media_type, body, None), path
    assert server.violations == []


async def test_search_hits_resolve(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    found = await fetch(server, "demo?ferry")
    assert [(kind, name) for kind, _, name in found.entries] == [
        ("document", "Quay notes"),
        ("document", "Menu of the café"),
    ]
    assert (found.kind, found.media_type, found.verified) == ("directory", "-", ("length",))
    for _, url, _ in found.entries:
        assert url is not None
        assert (await fetch(server, url.removeprefix(server.url()))).error is None
    link = (await fetch(server, "pictures?elsewhere")).entries
    assert link == [("link", "http://www.example/docs/map.html", "http://www.example/docs/map.html")]
    assert server.violations == []


async def test_database_yields_records_and_description(
    nursery: trio.Nursery,
) -> None:
    server = await serve(nursery)
    url = parse_as(WaisUrl, server.url("demo"))
    async with network(server) as open_network, open_url(url, open_network.admit(url)) as reply:
        assert reply.records is not None
        assert reply.listing is not None
        octets = reply.records
        names = [entry.name for entry in [*reply.listing.feed(octets), *reply.listing.finish()]]
        assert names == ["Information on database: demo", "Catalog for database: demo"]
        assert len(server.requests) == 2  # the description is not retrieved before the body is read
        body = b"".join([octets async for octets in reply.body])
    assert body == EXAMPLE.databases[b"demo"].source
    assert reply.verified == {"terminator"}
    assert (reply.kind, reply.media_type) == ("search", "application/x-wais-source")
    assert server.connections == 1
    assert server.violations == []


async def test_facts_of_database_include_description(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    for path, description in [("demo", 'Texts of the harbour,\nwith a "quoted" word'), ("bare", None)]:
        url = parse_as(WaisUrl, server.url(path))
        url_gate = network(server).admit(url, options=Options(want="facts"))
        async with open_url(url, url_gate) as reply:
            extra = dict(reply.extra or {})
        found = extra["description"]
        assert (found["description"] if isinstance(found, dict) else found) == description
    assert server.violations == []


async def test_silent_description_costs_facts_one_timeout(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    server = await serve(nursery, behavior=Behavior(fault_at=2, silent=True))
    url = parse_as(WaisUrl, server.url("demo"))
    began = trio.current_time()
    url_gate = network(server, 60.0).admit(url, options=Options(want="facts"))
    async with open_url(url, url_gate) as reply:
        assert dict(reply.extra or {})["description"] is None
    assert trio.current_time() - began == pytest.approx(60.0)
    assert len(server.requests) == 3


async def test_database_without_description_is_not_found(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    found = await fetch(server, "bare")
    assert (found.error, found.kind) == ("NotFound", "search")


async def test_source_description_document_is_parsed(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    url = parse_as(WaisUrl, server.url(path_of(b"demo.src", b"INFO", "WSRC")))
    async with network(server) as open_network, open_url(url, open_network.admit(url)) as reply:
        assert reply.extra is not None
        description = reply.extra["description"]
    assert isinstance(description, dict)
    assert description["url"] == "wais://wais.example/demo"


async def test_entries_option_limits_hits(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    found = await fetch(server, "demo?ferry", options=Options(entries=1))
    assert [name for _, _, name in found.entries] == ["Quay notes"]
    assert found.findings == ["wais:more"]
    for wanted, most in [(None, 40), (0, 1_000), (7, 7)]:
        await fetch(server, "demo?ferry", options=Options(entries=wanted))
        search = server.requests[-1]
        assert isinstance(search, Search)
        assert search.max_hits == most


async def test_retrieval_resumes_after_existing_bytes(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    text = DEMO[b"Logbook"].text
    for held in (1, 9_999, 10_000, len(text) - 1, len(text)):
        url = parse_as(WaisUrl, server.url(LOGBOOK))
        url_gate = network(server).admit(url, options=Options(start=held))
        async with open_url(url, url_gate) as reply:
            body = b"".join([octets async for octets in reply.body])
        assert (reply.start, body, reply.verified) == (held, text[held:], {"terminator"})
    url = parse_as(WaisUrl, server.url(QUAY))
    async with open_url(url, network(server).admit(url, options=Options(start=10**6))) as reply:
        assert (reply.start, reply.size) == (0, 121)
    assert server.violations == []


async def test_reply_size_is_set_if_known(nursery: trio.Nursery) -> None:
    """The announced length belongs to another type and is not a size."""
    server = await serve(nursery)
    fields = "9999/2=x;3=0%20121%20/srv/wais/docs/quay.txt;7=%00;"
    for path, size, announced in [
        (QUAY, 121, None),
        (LOGBOOK, None, None),
        (f"demo/TEXT/{fields}", 121, 9999),
    ]:
        url = parse_as(WaisUrl, server.url(path))
        async with open_url(url, network(server).admit(url)) as reply:
            assert reply.size == size
            assert (reply.extra or {}).get("announced_length") == announced


async def test_drain_writes_document(nursery: trio.Nursery) -> None:
    server, sink = await serve(nursery), MemorySink()
    url = parse_as(WaisUrl, server.url(LOGBOOK))
    async with network(server) as open_network, open_url(url, open_network.admit(url)) as reply:
        assert await reply.body.drain(sink) == len(DEMO[b"Logbook"].text)
    assert bytes(sink.octets) == DEMO[b"Logbook"].text
    assert server.connections == 1


#: A path and its error.
DECLINED = [
    ("nowhere", "Declined"),
    ("nowhere?x", "Declined"),
    ("nowhere/TEXT/" + QUAY.rpartition("/")[2], "Declined"),
    ("private?x", "AccessDenied"),
    ("private/TEXT/" + QUAY.rpartition("/")[2], "AccessDenied"),
    ("demo?(ferry", "Declined"),
    ("demo??", "Declined"),
    ("demo/TEXT/0000000001WJ", "NotFound"),
    ("demo/TEXT/%02%01x%03%08nonsense", "NotFound"),
    ("demo/TEXT/%03%01x", "Disconnected"),
]


@pytest.mark.parametrize(("path", "error"), DECLINED)
async def test_declined_path_yields_error(path: str, error: str, nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    found = await fetch(server, path)
    assert (found.error, found.body) == (error, None)
    assert server.violations == []


def instead(octets: bytes) -> bytes:
    return b"%010dz2wais        0" % len(octets) + octets


HEADER = bytes.fromhex("000e 17 00 000000 000001 000000 1b0100")

#: A behavior, a path, and the error. With an error, the body received before it is kept.
BEHAVIORS = [
    ("refuses Init", Behavior(refuses=True), QUAY, "Declined"),
    ("can answer nothing", Behavior(fault_at=0, instead=b"0000000000z2wais        0"), "demo", "Declined"),
    ("S2", Behavior(diagnostic=(b"S2", b"overloaded")), QUAY, "TryLater"),
    ("T2", Behavior(diagnostic=(b"T2", b"no")), "demo?x", "AccessDenied"),
    ("SF", Behavior(diagnostic=(b"SF", b"")), QUAY, "NotFound"),
    ("SF of a search", Behavior(diagnostic=(b"SF", b"")), "demo?x", "Declined"),
    ("extra text", Behavior(extra_text=b"x" * 9_880), QUAY, "ProtocolError"),
    ("extra text after a full range", Behavior(extra_text=b"x"), LOGBOOK, "ProtocolError"),
    ("a count too large", Behavior(fault_at=1, count_off=5), QUAY, "TimedOut"),
    ("a count too small", Behavior(fault_at=1, count_off=-5), QUAY, "ProtocolError"),
    ("a huge count", Behavior(fault_at=1, count_off=10**9), QUAY, "ProtocolError"),
    ("a truncated element", Behavior(fault_at=1, truncated=3), QUAY, "ProtocolError"),
    ("a truncated element of a search", Behavior(fault_at=1, truncated=3), "demo?ferry", "ProtocolError"),
    ("a truncated Init-Response", Behavior(fault_at=0, truncated=1), QUAY, "ProtocolError"),
    ("no message", Behavior(fault_at=0, instead=b"220 ftp.example ready"), QUAY, "ProtocolError"),
    ("an empty answer to a search", Behavior(fault_at=1, instead=instead(b"")), "demo?x", "Declined"),
    ("empty answers", Behavior(empty_above=0), QUAY, "Declined"),
    ("neither text nor reason", Behavior(fault_at=1, instead=instead(HEADER)), QUAY, "ProtocolError"),
    ("closes immediately", Behavior(fault_at=0, closes=True), QUAY, "Disconnected"),
    ("closes without an answer", Behavior(fault_at=1, closes=True), QUAY, "Disconnected"),
    ("closed within an answer", Behavior(fault_at=1, cut_at=100), QUAY, "Disconnected"),
    ("reset within an answer", Behavior(fault_at=1, reset_at=100), QUAY, "Disconnected"),
    ("silent", Behavior(fault_at=1, silent=True), QUAY, "TimedOut"),
    ("no room for a document", Behavior(offered=200), QUAY, "ProtocolError"),
    ("closes after two ranges", Behavior(fault_at=3, closes=True), LOGBOOK, "Truncated"),
    ("closed within a later answer", Behavior(fault_at=3, cut_at=1_000), LOGBOOK, "Truncated"),
    ("reset within a later answer", Behavior(fault_at=3, reset_at=1_000), LOGBOOK, "Truncated"),
    ("silent after two ranges", Behavior(fault_at=3, silent=True), LOGBOOK, "TimedOut"),
]


@pytest.mark.parametrize(
    ("behavior", "path", "error"), [row[1:] for row in BEHAVIORS], ids=[row[0] for row in BEHAVIORS]
)
async def test_misbehaving_server_yields_error(
    behavior: Behavior, path: str, error: str, nursery: trio.Nursery
) -> None:
    server = await serve(nursery, behavior=behavior)
    with trio.fail_after(HANG):
        found = await fetch(server, path, idle=0.2)
    assert found.error == error
    if found.body:
        assert DEMO[b"Logbook"].text.startswith(found.body)
        assert len(found.body) == 20_000
    assert server.connections == 1
    assert server.violations == []


async def test_early_end_is_retryable(nursery: trio.Nursery) -> None:
    for behavior, path, kind in [
        (Behavior(fault_at=1, closes=True), QUAY, Disconnected),
        (Behavior(fault_at=1, cut_at=100), QUAY, Disconnected),
        (Behavior(fault_at=3, closes=True), LOGBOOK, Truncated),
    ]:
        server = await serve(nursery, behavior=behavior)
        with pytest.raises(ResolveError) as caught:
            await take_all(server, path)
        assert (type(caught.value), caught.value.retryable) == (kind, True)
        if isinstance(caught.value, Truncated):
            assert (caught.value.received, caught.value.expected) == (20_000, None)


#: Tolerated deviations of servers: behavior, findings, verification.
TOLERATED = [
    (Behavior(knows_no_init=True), [], ("terminator",)),
    (Behavior(offered=10**9), [], ("terminator",)),
    (Behavior(offered=3_000), [], ("terminator",)),
    (Behavior(empty_above=3_000), [], ("terminator",)),
    (Behavior(mute=True), ["wais:end-not-told"], ()),
]


@pytest.mark.parametrize(("behavior", "findings", "verified"), TOLERATED)
async def test_deviating_server_is_tolerated(
    behavior: Behavior, findings: list[str], verified: tuple[str, ...], nursery: trio.Nursery
) -> None:
    server = await serve(nursery, behavior=behavior)
    for headline in (b"Quay notes", b"Even", b"Nothing at all"):
        found = await fetch(server, path_of(headline))
        assert (found.body, found.error) == (DEMO[headline].text, None)
        assert (found.findings, found.verified) == (findings, verified)
    assert server.violations == []


async def test_offered_message_size_limits_range(nursery: trio.Nursery) -> None:
    server = await serve(nursery, behavior=Behavior(offered=3_000))
    await fetch(server, QUAY)
    search = server.requests[-1]
    assert isinstance(search, Search)
    document_id = search.terms(b"un")[0].value
    assert int(search.terms(b"wb")[1].value) == 3_000 - len(document_id) - 100


async def test_endless_document_ends_with_reader(nursery: trio.Nursery) -> None:
    server = await serve(nursery, behavior=Behavior(endless=True))
    url = parse_as(WaisUrl, server.url(QUAY))
    received = 0
    async with open_url(url, network(server).admit(url)) as reply:
        async for octets in reply.body:
            received += len(octets)
            if received >= 200_000:
                break
    assert received == 200_000
    assert len(server.requests) <= 22  # no range is requested ahead of the reader


@pytest.mark.parametrize(("size", "least"), [(100_000, 100), (4_000, 3)])
async def test_dropped_hits_are_reported(nursery: trio.Nursery, size: int, least: int) -> None:
    """The server sends as many hits as fit, and does not report the others."""
    many = {
        b"demo": Database(
            path=b"/srv/wais/db/demo",
            documents=tuple(
                Document(b"0 3 /srv/%04d" % number, {b"TEXT": b"fog"}, b"h" * 400) for number in range(300)
            ),
        )
    }
    server = await serve(nursery, World(many), Behavior(offered=size))
    found = await fetch(server, "demo?fog", options=Options(entries=0))
    assert found.findings == ["wais:dropped"]
    assert least < len(found.entries) < size // 400


@pytest.mark.parametrize("name", [name for name in names() if capture(name).document is not None])
async def test_every_captured_document_is_retrieved(name: str, nursery: trio.Nursery) -> None:
    server = await serve(nursery, recorded_world(), implementation=RECORDED)
    search = next(search for search, _ in capture(name).searches if search.query_type == b"1")
    wtype, document_id = (search.terms(use)[0].value for use in (b"wt", b"un"))
    url = WaisUrl(
        scheme="wais",
        host=server.host,
        port=server.port,
        default_port=210,
        database=search.database,
        wtype=wtype,
        wpath=encode(document_id),
    )
    async with network(server) as open_network:
        found = await resolve(open_url, url, open_network.admit(url))
    assert found.body is not None
    assert (len(found.body), sha256(found.body).hexdigest()) == capture(name).document
    assert server.violations == []


async def test_stale_document_id_is_not_found(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    gone = write_element(2, b"demo") + write_element(3, b"0 9 /srv/gone")
    url = parse_as(WaisUrl, server.url(f"demo/TEXT/{encode(gone)}"))
    with pytest.raises(NotFound) as caught:
        async with open_url(url, network(server).admit(url, options=Options(start=5))):
            pass
    assert (caught.value.code, caught.value.text) == ("SF", "Missing DocID in request")


# wais URLs through the public functions and the command, against the mock server on loopback.

END_TO_END_DEMO = EXAMPLE.databases[b"demo"]
QUAY_TEXT, LOGBOOK_TEXT = (
    next(each.text for each in END_TO_END_DEMO.documents if each.headline == name)
    for name in (b"Quay notes", b"Logbook")
)


def saved(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in folder.iterdir()]


def records(octets: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in octets.splitlines()]


# -- the functions


async def test_fetch_returns_document(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    response = await resolver.fetch(server.url(QUAY))
    assert (response.content, response.text) == (QUAY_TEXT, QUAY_TEXT.decode())
    assert (response.kind, response.media_type, response.size) == ("document", "text/plain", 121)
    assert response.verified == ("terminator",)
    assert server.violations == []


async def test_fetch_of_database_returns_description(nursery: trio.Nursery) -> None:
    """The content is the database's description; `entries` returns its records."""
    server = await serve(nursery)
    response = await resolver.fetch(server.url("demo"))
    assert (response.content, response.entries) == (END_TO_END_DEMO.source, None)
    assert (response.kind, response.media_type) == ("search", "application/x-wais-source")
    async with resolver.entries(server.url("demo")) as entries:
        names = [entry.name async for entry in entries]
    assert names == ["Information on database: demo", "Catalog for database: demo"]


async def test_entries_of_search_are_fetched(nursery: trio.Nursery) -> None:
    """The URLs of a hit are fetched with origin and referrer, in either spelling."""
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


async def test_info_returns_kind_and_size(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    for path, kind, size in [
        ("demo", "search", None),
        ("demo?ferry", "directory", None),
        (QUAY, "document", 121),
        (LOGBOOK, "document", None),
    ]:
        entry = await resolver.info(server.url(path))
        assert (entry.kind, entry.size) == (kind, size), path
    assert len(server.requests) == 3 + 2 + 2 + 2  # one range of the logbook


async def test_endless_document_over_limit_raises(nursery: trio.Nursery) -> None:
    server = await serve(nursery, behavior=Behavior(endless=True))
    async with resolver.Resolver(limits=resolver.Limits(body=45_000)) as session:
        with pytest.raises(LimitExceeded) as caught:
            await session.fetch(server.url(QUAY))
    assert caught.value.limit == "body"
    assert len(server.requests) == 1 + 5


async def test_fetch_raises_typed_errors(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    with pytest.raises(AccessDenied) as denied:
        await resolver.fetch(server.url("private?x"))
    assert (denied.value.code, denied.value.url) == ("T2", server.url("private?x"))
    with pytest.raises(NotFound):
        await resolver.fetch(server.url("demo/TEXT/0000000001WJ"))


async def test_refused_url_opens_no_connection(nursery: trio.Nursery) -> None:
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


async def test_get_resumes_after_repeated_disconnects(nursery: trio.Nursery, tmp_path: Path) -> None:
    """Each connection ends after two ranges; the next connection resumes after the last byte."""
    server = await serve(nursery, behavior=Behavior(fault_at=3, closes=True))
    target = tmp_path / "logbook"
    status, _, said = await command("-q", "-O", str(target), "--retry-delay", "0.01", server.url(LOGBOOK))
    assert (status, said) == (0, b"")
    assert target.read_bytes() == LOGBOOK_TEXT
    assert 6 <= server.connections <= 9
    assert server.violations == []


# -- the command


async def test_cat_writes_documents_descriptions_and_hits(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    status, printed, said = await command(
        *("cat", "-q", server.url(QUAY), server.url("demo"), server.url("demo?ferry"))
    )
    assert (status, said) == (0, b"")
    assert printed == QUAY_TEXT + (END_TO_END_DEMO.source or b"") + "Quay notes\nMenu of the café\n".encode()


async def test_ls_json_lists_hits(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    status, printed, said = await command(
        *("ls", "--json", "--search", "map", "--entries", "2", server.url("pictures"), server.url("demo?x"))
    )
    assert status == 0
    found = records(printed)
    assert len(found) == 2
    assert all(each["url"].startswith(server.url("pictures/")) for each in found)
    assert b"S04" in said
    assert b"wais:more: 2 hits received" in said
    assert b"wais:no-result: no hits; the catalog is wais://127.0.0.1:" in said


async def test_get_json_reports_saved_file(nursery: trio.Nursery, tmp_path: Path) -> None:
    server = await serve(nursery)
    picture, text = path_of(b"map.gif", b"pictures", "GIF"), EXAMPLE.databases[b"pictures"].documents[0].text
    status, printed, _ = await command("get", "-q", "--json", "-d", str(tmp_path), server.url(picture))
    assert status == 0
    (outcome,) = records(printed)
    assert (outcome["status"], outcome["media_type"]) == ("done", "image/gif")
    assert (outcome["verified"], outcome["bytes"]) == (["terminator"], len(text))
    assert saved(tmp_path) == [text]


async def test_info_command_prints_description(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    status, printed, _ = await command("info", "-q", "--json", server.url("demo"))
    assert status == 0
    (record,) = records(printed)
    assert (record["kind"], record["extra"]["media_type"]) == ("search", "application/x-wais-source")
    assert record["extra"]["description"]["url"] == "wais://wais.example/demo"


async def test_explain_plans_sent_bytes(nursery: trio.Nursery) -> None:
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
    ("demo/TEXT/%03%01x", 4),  # the server closes the connection without an answer
    ("demo/TEXT/", 12),  # without a document id the real server would close the connection
    ("demo%40other?x", 9),
    ("demo/TEXT", 12),
]


async def test_cat_reports_exit_status_of_each_url(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    urls = [server.url(path) for path, _ in STATUSES]
    status, printed, said = await command("cat", "-q", "--json", "-t", "1", *urls)
    assert (status, printed) == (1, b"")
    assert [record["exit"] for record in records(said)] == [expected for _, expected in STATUSES]
    assert server.connections == 4  # refused requests are not sent
    assert server.violations == []
