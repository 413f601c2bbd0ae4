"""Fuzz tests: any bytes from a Gopher server give a value or an expected error, in bounded time."""

from __future__ import annotations

import os
import random
import time
from typing import cast

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from protocols.contract import JsonValue
from protocols.gopher.request import encode_request
from protocols.gopher.url import with_gopherplus
from resolver import GopherUrl
from resolver.testing import CUTTERS, Cutter, TranscriptOutcome, oddly
from resolver.testing.player import resolve
from resolver.testing.transcript import Connection, End, TranscriptTurn
from tests.protocols.gopher.captures import ROWS, Row, octets
from tests.protocols.in_memory import MemoryGate
from tests.protocols.opening import open_url
from tests.protocols.typed_url import parse_as
from tests.sampled import sampled

#: The number of mutations of each recorded reply; `GOPHER_FUZZ` sets more.
ROUNDS = int(os.environ.get("GOPHER_FUZZ", "20"))
ERRORS = {
    None,
    "Declined",
    "Disconnected",
    "LimitExceeded",
    "NotFound",
    "ProtocolError",
    "TimedOut",
    "Truncated",
    "TryLater",
}
PATHS = (
    "",
    "0a",
    "9a",
    "Ia",
    "pa",
    "7a%09b",
    "7a",
    "ia",
    "0a%09%09+",
    "1a%09%09+",
    "9a%09%09+",
    "Ia%09%09+",
    "0a%09%09!",
    "0a%09%09!+ABSTRACT%20+X",
    "1a%09%09$",
    "1a%09%09$+VIEWS",
    "0a%09%09?",
    "7a%09b%09+",
    "0a%09+",
    "1a%09%09+text/html",
    "1a%09%09+application/gopher+-menu",
    "0a%09%09+%091%0D%0A+-1%0D%0A.%0D%0A",
)
PIECES = [
    *(b"+-1\r\n", b"+-2\r\n", b"+5\r\n", b"--1\r\n", b"--2\r\n", b"-9\r\n", b"+", b"-"),
    *(b"+99999999999999999\r\n", b"1 a\r\n", b"2\r\n", b"3 ", b"0", b"3", b"i", b"GIF89a", b"a" * 300),
    *(b".", b"..", b"\r\n", b"\n", b"\r", b"\t", b"\0", b" ", b":", b"\xff"),
    *(b"0x\ty\th.dom\t70\r\n", b"3no\t\terror.host\t1\r\n", b"hx\tURL:http://w/\r\n"),
    *(b"+z\tz\t[::1]\t70\t?\r\n", b"+INFO: ", b"+INFO", b"+ADMIN:\r\n", b" Mod-Date: <20261121081719>\r\n"),
    *(b"+VIEWS:\r\n", b" a/b: <1k>\r\n", b"+ASK:\r\n", b" Ask: x\ty\r\n", b" Choose: a\tb\r\n"),
    *(b"+ABSTRACT: 0x\ty\th\t70\r\n", b"+9\n", b"-0\r\n"),
]


def url_of(path: str) -> GopherUrl:
    return parse_as(GopherUrl, f"gopher://h.dom/{path}")


async def answer(url: GopherUrl, said: bytes, end: End, cutter: Cutter) -> TranscriptOutcome:
    """Return the outcome when the server sends the bytes on every connection."""
    connections = [
        Connection((TranscriptTurn("C", encode_request(asked).octets), TranscriptTurn("S", said)), end)
        for asked in (url, with_gopherplus(url, b"+"))
    ]
    gate = MemoryGate(connections, cutter)
    outcome = await resolve(open_url, url, gate)
    for stream in gate.streams:
        stream.check_finished()
    assert outcome.error in ERRORS
    for _, target, name in outcome.entries:
        assert target is None or target.isascii()
        assert name.isprintable() or "\u202e" in name or not name.isascii()
    return outcome


@given(
    path=st.sampled_from(PATHS),
    pieces=st.lists(st.sampled_from(PIECES) | st.binary(max_size=8), max_size=20),
    end=st.sampled_from(("close", "reset", "quiet")),
    cutter=st.sampled_from(CUTTERS),
)
@settings(max_examples=15 * ROUNDS)
@pytest.mark.slow
def test_random_replies_do_not_depend_on_split(
    path: str, pieces: list[bytes], end: str, cutter: Cutter
) -> None:
    said = b"".join(pieces)
    outcome = trio.run(answer, url_of(path), said, cast(End, end), cutter)
    again = trio.run(answer, url_of(path), said, cast(End, end), oddly)
    assert outcome == again, "the way octets are cut makes a difference"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.capture)
async def test_mutated_captures_give_value_or_expected_error(row: Row) -> None:
    """Each recorded reply is changed, shortened, doubled or truncated at random."""
    chance = random.Random(row.capture)
    said = octets(row.capture, "server")
    url = parse_as(GopherUrl, row.url)
    for _ in range(ROUNDS):
        mutated = bytearray(said)
        for _ in range(chance.randint(1, 6)):
            mutate(mutated, chance)
        await answer(url, bytes(mutated), chance.choice(("close", "reset", "quiet")), chance.choice(CUTTERS))


def mutate(octets: bytearray, chance: random.Random) -> None:
    at = chance.randint(0, len(octets))
    match chance.randint(0, 5):
        case 0:
            octets[at : at + 1] = bytes([chance.randint(0, 255)])
        case 1:
            del octets[at : at + chance.randint(1, 20)]
        case 2:
            octets[at:at] = octets[at : at + chance.randint(1, 40)]
        case 3:
            octets[at:at] = chance.choice(PIECES)
        case 4:
            del octets[at:]
        case 5:
            octets[at : at + 1] = chance.choice((b"\t", b"\r", b"\n", b"+", b"-", b" ", b"."))


#: Seconds of CPU time; work quadratic in the length would take hours.
MAX_SECONDS = 60.0

#: Expensive replies, and the paths whose readers parse them.
COSTLY: list[tuple[str, bytes]] = [
    ("", b"0" + b"\t" * 1_000_000),
    ("", b"0\t\t\t9\r\n" * 50_000),
    ("", b"i\r\n" * 50_000),
    ("", b"+\ta\th\t70\r\n" * 20_000),
    ("0a", b"..\r\n" * 200_000 + b".\r\n"),
    ("0a", b".\r\n" * 200_000),
    ("0a", b"\r\n." * 200_000),
    ("0a", b"3" + b"\t" * 60_000),
    ("1a%09%09$", b"+-1\r\n" + b"+INFO: \r\n" * 20_000),
    ("1a%09%09$", b"+-1\r\n" + b"+INFO:" + b" <" * 30_000 + b"\r\n+ADMIN:\r\n" + b" Admin: " + b"<" * 60_000),
    ("1a%09%09$", b"+-1\r\n+INFO: \r\n+VIEWS:\r\n" + (b" a: " + b"<" * 60_000 + b"\r\n") * 10),
    ("1a%09%09$", b"+-1\r\n+INFO: \r\n+VIEWS:\r\n" + b" a: <" + b"9" * 60_000 + b"\r\n"),
    ("0a%09%09!", b"+-1\r\n+INFO: x\r\n+ADMIN:\r\n" + b" Mod-Date: " + b"<1" * 30_000 + b"\r\n.\r\n"),
    ("0a%09%09!", b"+-1\r\n+INFO: x\r\n+ASK:\r\n" + b" Choose: " + b"\t" * 60_000 + b"\r\n.\r\n"),
    ("0a%09%09!", b"+-1\r\n" + b"+A:\r\n" * 100_000),
    ("0a%09%09+", b"--1\r\n1" + b" " * 8000 + b"x\r\n"),
    ("0a%09%09+", b"--1\r\n" + b"3 0a\tb\tc\t0" + b"0" * 7000 + b"\r\n"),
]


COSTLY_SAMPLE = sampled(COSTLY, lambda row: row[0], 2)


@pytest.mark.parametrize(("path", "said"), COSTLY_SAMPLE, ids=range(len(COSTLY_SAMPLE)))
async def test_costly_replies_take_bounded_time(path: str, said: bytes) -> None:
    """The limit is CPU time, so other load on the machine does not matter."""
    began = time.process_time()
    await answer(url_of(path), said, "close", CUTTERS[0])
    assert time.process_time() - began < MAX_SECONDS


def is_json(value: JsonValue) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str) and is_json(each) for key, each in value.items())
    if isinstance(value, list | tuple):
        return all(map(is_json, value))
    return value is None or isinstance(value, str | int | float | bool)


@pytest.mark.parametrize("row", [row for row in ROWS if row.error is None], ids=lambda row: row.capture)
async def test_extra_of_captures_is_json(row: Row) -> None:
    url = parse_as(GopherUrl, row.url)
    turns = (
        TranscriptTurn("C", encode_request(url).octets),
        TranscriptTurn("S", octets(row.capture, "server")),
    )
    async with open_url(url, MemoryGate([Connection(turns, "close")])) as reply:
        assert is_json(dict(reply.extra or {}))
        if reply.listing is not None:
            async for piece in reply.body:
                assert all(is_json(dict(entry.extra or {})) for entry in reply.listing.feed(piece))
            assert all(is_json(dict(entry.extra or {})) for entry in reply.listing.finish())
