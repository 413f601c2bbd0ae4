"""Recordings: events become messages with source, target, time, connection and outcome."""

from __future__ import annotations

import json
import re

import pytest
import trio
from lxml import etree

import resolver
from fixtures.http import Page, moved, serve
from protocols.text import Masked
from resolver import (
    Closed,
    Connected,
    Event,
    Finding,
    Finished,
    Kept,
    LookedUp,
    NotFound,
    Progress,
    Received,
    Retrying,
    Sent,
    Started,
    TlsBegun,
    Unreachable,
    Warned,
)
from resolver.web.dialogue.recording import MAX_HALF_MESSAGES as HALF
from resolver.web.dialogue.recording import MAX_HALF_RECORDINGS as RECORDINGS_HALF
from resolver.web.dialogue.recording import Recordings, record_event, record_exchange
from tests.resolver.web.client import running
from tests.resolver.web.dialogue.spoken import URL, make_clock, message_lines, record

HTTP = Masked("http://h.example/a")
OTHER = Masked("http://h.example/b")
FILE, PROSPERO = Masked("file:///a"), Masked("prospero://h.example/a")
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"

TRANSFER: list[Event] = [
    Started(URL, 1),
    LookedUp(URL, "h.example", ("192.0.2.1",)),
    Connected(URL, "192.0.2.1", 21, False),
    Received(URL, b"220 here\r\n"),
    Sent(URL, b"AUTH TLS\r\n"),
    Received(URL, b"234 go\r\n"),
    TlsBegun(URL),
    Sent(URL, b"EPSV\r\n"),
    Received(URL, b"229 (|||4000|)\r\n"),
    Connected(URL, "192.0.2.1", 4000, False, data=True),
    Sent(URL, b"RETR a\r\n"),
    Received(URL, b"150 comes\r\n"),
    TlsBegun(URL, data=True),
    Received(URL, b"one\ntwo", data=True),
    Progress(URL, 7, None),
    Received(URL, b"three\n", data=True),
    Progress(URL, 13, None),
    Closed(URL, True, data=True),
    Received(URL, b"226 done\r\n"),
    Finished(URL, None),
    Closed(URL, False),
]


def test_recording_of_transfer_has_a_message_per_event() -> None:
    exchange = record(TRANSFER)
    assert message_lines(exchange) == [
        "ask client>names h.example ?",
        "answer names>client 192.0.2.1",
        "open client>server connects to 192.0.2.1 port 21",
        "hear server>client 220 here",
        "say client>server AUTH TLS",
        "hear server>client 234 go",
        "tls client>server TLS established: all further data is encrypted",
        "say client>server EPSV",
        "hear server>client 229 (|||4000|)",
        "open client>data connects to 192.0.2.1 port 4000",
        "say client>server RETR a",
        "hear server>client 150 comes",
        "tls client>data TLS established: all further data is encrypted",
        "body data>client 13 one",
        "close data>client closes the connection",
        "hear server>client 226 done",
        "note > done",
        "close client>server closes the connection",
    ]
    assert [(lane.place, lane.title, lane.who) for lane in exchange.lanes] == [
        ("client", "this machine", ""),
        ("server", "h.example", "192.0.2.1 port 21"),
        ("data", "data", "192.0.2.1 port 4000"),
        ("names", "names", ""),
    ]


def test_recording_marks_messages_inside_tls() -> None:
    messages = {" ".join(message.lines): message for message in record(TRANSFER).messages}
    assert not messages["AUTH TLS"].secured
    assert not messages["150 comes"].secured or messages["EPSV"].secured
    assert messages["EPSV"].secured
    assert not messages["connects to 192.0.2.1 port 4000"].secured
    assert messages["one"].secured


def test_recording_times_are_milliseconds_from_start() -> None:
    exchange = record(TRANSFER)
    times = [message.at for message in exchange.messages if message.at is not None]
    assert times == sorted(times)
    assert times[0] == pytest.approx(1.0)  # The start has no message.
    assert exchange.elapsed == pytest.approx(19.0)
    assert exchange.outcome == "done"
    assert not exchange.failed


#: Name of the case, events, expected messages.
CASES: list[tuple[str, list[Event], list[str]]] = [
    (
        "a head and its body in one piece",
        [
            Connected(HTTP, "192.0.2.1", 80, False),
            Sent(HTTP, b"GET / HTTP/1.1\r\n\r\n"),
            Received(HTTP, HEAD + b"hello"),
        ],
        [
            "open client>server connects to 192.0.2.1 port 80",
            "say client>server GET / HTTP/1.1",
            "hear server>client HTTP/1.1 200 OK | Content-Length: 5",
            "body server>client 5 hello",
        ],
    ),
    (
        "a head in two pieces",
        [
            Connected(HTTP, "192.0.2.1", 80, False),
            Received(HTTP, HEAD[:20]),
            Received(HTTP, HEAD[20:] + b"hello"),
        ],
        [
            "open client>server connects to 192.0.2.1 port 80",
            "hear server>client HTTP/1.1 200 OK | Content-Length: 5",
            "body server>client 5 hello",
        ],
    ),
    (
        "a reply that is cut in its line",
        [
            Connected(URL, "192.0.2.1", 21, False),
            Received(URL, b"220 he"),
            Received(URL, b"re\r\n"),
        ],
        ["open client>server connects to 192.0.2.1 port 21", "hear server>client 220 here"],
    ),
    (
        "a reply that never goes on",
        [
            Connected(URL, "192.0.2.1", 21, False),
            Received(URL, b"220 he"),
            Closed(URL, True),
        ],
        [
            "open client>server connects to 192.0.2.1 port 21",
            "hear server>client 220 he",
            "close server>client closes the connection",
        ],
    ),
    (
        "a connection that was kept",
        [Started(URL, 1), Sent(URL, b"PWD\r\n"), Received(URL, b"257 here\r\n")],
        [
            "open client>server reuses a pooled connection",
            "say client>server PWD",
            "hear server>client 257 here",
        ],
    ),
    (
        "a tunnel through a proxy, which is told of once it stands",
        [
            Started(URL, 1),
            Sent(URL, b"CONNECT h\r\n"),
            Connected(URL, "192.0.2.9", 3128, False),
            Received(URL, b"220 here\r\n"),
        ],
        [
            "open client>server connects to 192.0.2.9 port 3128",
            "say client>server CONNECT h",
            "hear server>client 220 here",
        ],
    ),
    (
        "a redirect",
        [
            Started(HTTP, 1),
            Connected(HTTP, "192.0.2.1", 80, True),
            Sent(OTHER, b"GET /b\r\n"),
        ],
        [
            "open client>server connects to 192.0.2.1 port 80",
            "tls client>server TLS established: all further data is encrypted",
            "note > continues with http://h.example/b",
            "say client>server GET /b",
        ],
    ),
    (
        "a try that fails and another one",
        [
            Started(URL, 1),
            Finished(URL, Unreachable("no route")),
            Retrying(URL, Unreachable("no route"), 1.0),
            Started(URL, 2),
            Finished(URL, NotFound("not there")),
        ],
        [
            "note > Unreachable: no route",
            "note > no route; retrying in 1 s",
            "note > attempt 2",
            "note > NotFound: not there",
        ],
    ),
    (
        "octets moved in bulk into a file",
        [
            Started(URL, 1),
            Connected(URL, "192.0.2.1", 21, False),
            Connected(URL, "192.0.2.1", 4000, False, data=True),
            Received(URL, b"abc\n", data=True),
            Progress(URL, 1_000_000, None),
            Progress(URL, 1_048_576, None),
        ],
        [
            "open client>server connects to 192.0.2.1 port 21",
            "open client>data connects to 192.0.2.1 port 4000",
            "body data>client 1048576 abc",
        ],
    ),
    (
        "octets moved in bulk, which are counted at the end",
        [
            Started(URL, 1),
            Connected(URL, "192.0.2.1", 21, False),
            Connected(URL, "192.0.2.1", 4000, False, data=True),
            Received(URL, b"abc\n", data=True),
            Closed(URL, True, data=True),
            Received(URL, b"226 done\r\n"),
            Progress(URL, 1_048_576, None),
        ],
        [
            "open client>server connects to 192.0.2.1 port 21",
            "open client>data connects to 192.0.2.1 port 4000",
            "body data>client 1048576 abc",
            "close data>client closes the connection",
            "hear server>client 226 done",
        ],
    ),
    (
        "octets behind those that were here before",
        [
            Started(URL, 1),
            Connected(URL, "192.0.2.1", 21, False),
            Progress(URL, 1500, None, 1000),
        ],
        ["open client>server connects to 192.0.2.1 port 21", "body server>client 500"],
    ),
    (
        "an object in a coding, of which more is counted than came",
        [
            Connected(HTTP, "192.0.2.1", 80, False),
            Received(HTTP, b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + bytes(20)),
            Progress(HTTP, 5000, None),
        ],
        [
            "open client>server connects to 192.0.2.1 port 80",
            "hear server>client HTTP/1.1 200 OK | Content-Encoding: gzip",
            "body server>client 20",
        ],
    ),
    (
        "a file of this machine",
        [
            Started(FILE, 1),
            Progress(FILE, 3, 3),
            Finished(FILE, None),
        ],
        ["body client>client 3", "note > done"],
    ),
    (
        "datagrams, which have no connection",
        [
            Started(PROSPERO, 1),
            Sent(PROSPERO, b"\x09\0VERSION 5\n"),
        ],
        ["say client>server 12 VERSION 5"],
    ),
    (
        "a warning, and what stays of a file",
        [Warned(URL, Finding("S04", "warn", "port 22")), Kept(URL, "a.part", 1, True)],
        ["note > warning (S04): port 22", "note > 1 byte kept beside a.part"],
    ),
]


@pytest.mark.parametrize(
    ("events", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_recording_of_events_has_messages(events: list[Event], expected: list[str]) -> None:
    assert message_lines(record(events)) == expected


def test_recording_of_many_messages_keeps_first_and_last() -> None:
    events: list[Event] = [Connected(URL, "192.0.2.1", 21, False)]
    events += [Sent(URL, b"NOOP %d\r\n" % number) for number in range(10_000)]
    exchange = record(events)
    assert len(exchange.messages) == 2 * HALF + 1
    assert exchange.left_out == 10_001 - 2 * HALF
    assert exchange.messages[HALF].kind == "gap"
    assert exchange.messages[HALF].lines == ("9,501 messages omitted",)
    assert exchange.messages[HALF - 1].lines == (f"NOOP {HALF - 2}",)
    assert exchange.messages[-1].lines == ("NOOP 9999",)


def test_recording_of_body_counts_bytes_without_keeping_them() -> None:
    """A body is one message, for any sizes of its segments, and only its beginning is shown."""
    pieces = [Received(URL, b"x" * 1000 + b"\n", data=True) for _ in range(5_000)]
    exchange = record([Connected(URL, "192.0.2.1", 4000, False, data=True), *pieces])
    assert len(exchange.messages) == 2
    assert exchange.messages[1].size == 5_005_000
    assert sum(map(len, exchange.messages[1].lines)) <= 3 * 60


def test_recording_of_failure_has_it_as_outcome() -> None:
    exchange = record([Started(URL, 1), Finished(URL, NotFound("no \x1b[2J such thing"))])
    assert exchange.failed
    assert exchange.outcome == "NotFound: no \\x1b[2J such thing"
    assert exchange.messages[-1].tone == "bad"


# Concurrent retrievals have separate recordings.

SITE = {"/a": Page(b"aaa"), "/b": Page(b"bbbb"), "/to-a": moved("/a"), "/to-b": moved("/b")}


async def test_recordings_of_concurrent_requests_are_separate(nursery: trio.Nursery) -> None:
    """Two requests redirect to a URL that is fetched at the same time."""
    server = await serve(nursery, SITE)
    recordings = Recordings(make_clock())
    async with resolver.Resolver(on_event=recordings.record) as session, trio.open_nursery() as inner:
        for path in ("/to-a", "/a", "/to-b", "/b", "/to-a"):
            inner.start_soon(session.fetch, server.url(path))
    exchanges = [recording.exchange() for recording in recordings.list_all()]
    assert sorted(exchange.url for exchange in exchanges) == sorted(
        server.url(path) for path in ("/to-a", "/a", "/to-b", "/b", "/to-a")
    )
    for exchange in exchanges:
        lines = message_lines(exchange)
        assert lines.count("note > done") == 1
        requests = [line for line in lines if line.startswith("say")]
        assert len(requests) == (2 if "/to-" in exchange.url else 1)
        assert ("note > continues with " + exchange.url.replace("to-", "") in lines) == (
            "/to-" in exchange.url
        )
        body = "aaa" if exchange.url.endswith("a") else "bbbb"
        assert [line for line in lines if line.startswith("body")][-1].endswith(body)


async def test_record_exchange_records_only_requests_in_its_block(nursery: trio.Nursery) -> None:
    server = await serve(nursery, SITE)
    async with resolver.Resolver(on_event=record_event) as session:
        await session.fetch(server.url("/b"))  # This request is not recorded.
        with record_exchange(make_clock()) as recording:
            await session.fetch(server.url("/to-a"))
    exchange = recording.exchange()
    assert exchange.url == server.url("/to-a")
    assert exchange.outcome == "done"
    assert "open client>server reuses a pooled connection" in message_lines(exchange)


async def test_recordings_of_many_urls_keep_first_and_last(nursery: trio.Nursery) -> None:
    server = await serve(nursery, SITE)
    recordings = Recordings(make_clock())
    async with resolver.Resolver(on_event=recordings.record) as session:
        for number in range(2 * RECORDINGS_HALF + 7):
            await session.fetch(server.url("/a") + f"?{number}")
    assert recordings.left_out == 7
    urls = [recording.exchange().url.rpartition("?")[2] for recording in recordings.list_all()]
    assert urls == [
        str(number)
        for number in (*range(RECORDINGS_HALF), *range(RECORDINGS_HALF + 7, 2 * RECORDINGS_HALF + 7))
    ]


async def test_page_has_exchange_and_its_downloads(nursery: trio.Nursery) -> None:
    server = await serve(nursery, SITE)
    async with running() as (browser, _):
        page = await browser.typed(server.url("/a"))
        assert page.text.count('role="img"') == 2
        assert "GET /a HTTP/1.1" in page.text
        away = re.findall(r'href="(/dialogue/[^"]+)"', page.text)
        assert [path.rpartition(".")[2] for path in away] == ["svg", "json"]
        drawn, data = [await browser.ask(path) for path in away]
        assert drawn.header("content-type") == "image/svg+xml; charset=utf-8"
        assert (drawn.header("content-disposition") or "").startswith("attachment; ")
        assert etree.fromstring(drawn.body).tag == "{http://www.w3.org/2000/svg}svg"
        assert json.loads(data.body)["url"] == server.url("/a")
        for name in ("", "x.svg", away[0][len("/dialogue/") : -3] + "html"):
            assert (await browser.ask(f"/dialogue/{name}")).status == 404


async def test_page_of_failure_shows_open_exchange(nursery: trio.Nursery) -> None:
    server = await serve(nursery, {})
    async with running() as (browser, _):
        page = await browser.typed(server.url("/missing"))
        assert 'role="img"' in page.text
        assert "<details open>" in page.text
