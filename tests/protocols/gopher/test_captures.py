"""Tests of every recorded exchange with a real Gopher server: the request and the result."""

from __future__ import annotations

import pytest

from protocols.gopher.request import encode_request
from resolver import GopherUrl, Truncated
from resolver.testing import CUTTERS, Cutter, TranscriptOutcome, check
from resolver.testing.player import resolve
from resolver.testing.transcript import Connection, TranscriptTurn
from tests.protocols.gopher.captures import FOLDER, ROWS, Row, octets
from tests.protocols.in_memory import MemoryGate, MemorySink
from tests.protocols.opening import open_url
from tests.protocols.typed_url import parse_as

NAMES = [row.capture for row in ROWS]


def gopher(row: Row) -> GopherUrl:
    return parse_as(GopherUrl, row.url)


def test_captures_all_have_a_row() -> None:
    assert sorted(NAMES) == sorted(path.stem for path in FOLDER.iterdir())


@pytest.mark.parametrize("row", ROWS, ids=NAMES)
def test_capture_request_matches(row: Row) -> None:
    sent = encode_request(gopher(row)).octets
    assert (sent == octets(row.capture, "client")) == (row.other_request is None)


def expected(row: Row) -> TranscriptOutcome:
    if row.error is not None and row.error != "Truncated":
        return TranscriptOutcome(error=row.error)
    said = octets(row.capture, "server")
    return TranscriptOutcome(
        kind=row.kind,
        media_type=row.media_type,
        body=said[row.head : len(said) - row.tail] if row.body is None else row.body,
        verified=row.verified if row.error is None else None,
        findings=list(row.findings),
        error=row.error,
    )


@pytest.mark.parametrize("cutter", CUTTERS, ids=lambda cutter: cutter.__name__)
@pytest.mark.parametrize("row", ROWS, ids=NAMES)
async def test_capture_reply_gives_expected_result(row: Row, cutter: Cutter) -> None:
    url = gopher(row)
    turns = (
        TranscriptTurn("C", encode_request(url).octets),
        TranscriptTurn("S", octets(row.capture, "server")),
    )
    counted = "length" in row.verified  # then the client does not wait for the close
    gate = MemoryGate([Connection(turns, "left" if counted else "close")], cutter)
    outcome = await resolve(open_url, url, gate)
    check(outcome, expected(row))
    assert len(outcome.entries) == (row.entries or 0)
    gate.check_finished()


#: The items of a real server's root menu, in order.
ROOT = [
    ("info", None, "Test burrow"),
    ("info", None, "This is an info line"),
    ("document", "gopher://127.0.0.1:7102/0/welcome.txt%09%09+", "A welcome text"),
    ("document", "gopher://127.0.0.1:7102/0/dots.txt%09%09+", "Dots"),
    ("directory", "gopher://127.0.0.1:7102/1/sub%09%09+", "A sub directory"),
    ("directory", "gopher://127.0.0.1:7102/1/with%20space%09%09+", "Dir with space"),
    ("document", "gopher://127.0.0.1:7102/g/pixel.gif%09%09+", "A GIF"),
    ("document", "gopher://127.0.0.1:7102/I/pixel.gif%09%09+", "An image"),
    ("document", "gopher://127.0.0.1:7102/9/data.bin%09%09+", "Binary"),
    ("link", "http://example.test/path?q=1", "Web link"),
    ("document", "gopher://127.0.0.1:7102/h/page.html%09%09+", "Local html"),
    ("search", "gopher://127.0.0.1:7102/7/search.pyg%09%09+", "Search"),
    ("service", "gopher://127.0.0.1:7105/2/ns", "Phone book"),
    ("service", "telnet://%2Fguest@127.0.0.1:7106/", "Telnet"),
    ("service", "tn3270://%2FTn3270@127.0.0.1:7106/", "Tn3270"),
    ("info", None, "3A static error item"),
    ("service", "tn3270://%2Fsub@127.0.0.1:7102/", "Redundant server"),
    ("document", "gopher://127.0.0.1:7102/s/sound.wav", "A sound"),
    ("document", "gopher://127.0.0.1:7102/d/doc.pdf", "A document"),
    ("document", "gopher://127.0.0.1:7102/%3B/movie.mpg", "A movie"),
    ("document", "gopher://127.0.0.1:7102/P/doc.pdf", "PDF"),
    ("info", None, "Ünïcode info ☃"),
]


async def test_capture_root_menu_entries() -> None:
    row = next(row for row in ROWS if row.capture == "menu-root-pygopherd")
    turns = (TranscriptTurn("C", b"\r\n"), TranscriptTurn("S", octets(row.capture, "server")))
    outcome = await resolve(open_url, gopher(row), MemoryGate([Connection(turns, "close")]))
    assert outcome.entries == ROOT


async def test_short_reply_error_has_both_lengths() -> None:
    row = next(row for row in ROWS if row.capture == "gplus-view-short-count-umn30")
    turns = (
        TranscriptTurn("C", octets(row.capture, "client")),
        TranscriptTurn("S", octets(row.capture, "server")),
    )
    async with open_url(gopher(row), MemoryGate([Connection(turns, "close")])) as reply:
        assert reply.size == 525
        with pytest.raises(Truncated) as caught:
            await reply.body.drain(MemorySink())
    assert (caught.value.received, caught.value.expected) == (514, 525)
