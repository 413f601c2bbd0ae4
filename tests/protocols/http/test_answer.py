"""When a connection may serve again, and when it is given up: what came, what did not, what was said."""

from __future__ import annotations

import gzip
import zlib
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resolver import HttpUrl, Limits, Options, ResolveError
from resolver.testing import CUTTERS, Cutter
from resolver.testing.transcript import Connection, End, TranscriptTurn
from tests.protocols.in_memory import MemoryGate, MemorySink
from tests.protocols.opening import open_url
from tests.protocols.typed_url import parse_as

REQUEST = (
    b"GET /x HTTP/1.1\r\nHost: h.dom\r\nUser-Agent: url-resolver\r\nAccept: */*\r\n"
    b"Accept-Encoding: gzip, deflate\r\n\r\n"
)
OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"


def gate_of(said: bytes, cutter: Cutter = CUTTERS[0], limits: Limits | None = None) -> MemoryGate:
    script = Connection((TranscriptTurn("C", REQUEST), TranscriptTurn("S", said)), "left")
    return MemoryGate([script], cutter, limits=limits, options=Options(), logins=[None])


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        (OK + b"Content-Length: 2\r\n\r\nhi", True),
        (OK + b"Content-Length: 0\r\n\r\n", True),
        (OK + CHUNKED + b"2\r\nhi\r\n0\r\n\r\n", True),
        (b"HTTP/1.1 204 No\r\n\r\n", True),
        (OK + b"Connection: close\r\nContent-Length: 2\r\n\r\nhi", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi", False),
        (OK + b"Content-Length: 2\r\n\r\nhi!", False),  # who says more than announced is not believed
        (OK + CHUNKED + b"0\r\n\r\n!", False),
        (b"HTTP/1.1 204 No\r\n\r\n!", False),
        (OK + b"Content-Length: 3\r\n" + CHUNKED + b"2\r\nhi\r\n0\r\n\r\n", False),
        (b"HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 3\r\n\r\nyes", True),
        (b"HTTP/1.1 302 Found\r\nLocation: /\r\n" + CHUNKED + b"2\r\nhi\r\n0\r\n\r\n", True),
        (b"HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 4\r\n\r\nyes", False),  # not waited for
        (b"HTTP/1.1 302 Found\r\nLocation: /\r\n" + CHUNKED + b"2\r\nhi\r\n", False),
        (b"HTTP/1.1 302 Found\r\nLocation: /\r\n" + CHUNKED + b"zz\r\n", False),
        (b"HTTP/1.1 302 Found\r\nLocation: /\r\n\r\n", False),
        (b"HTTP/1.1 404 No\r\nContent-Length: 3\r\n\r\nno!", True),
        (b"HTTP/1.1 404 No\r\nContent-Length: 3\r\n\r\nno", False),
        (b"HTTP/1.1 404 No\r\nContent-Length: 3\r\n\r\nno!!", False),
        (b"HTTP/1.1 404 No\r\nConnection: close\r\nContent-Length: 3\r\n\r\nno!", False),
        (OK + b"Content-Encoding: compress\r\nContent-Length: 2\r\n\r\nhi", False),
    ],
)
async def test_which_connections_are_kept(said: bytes, kept: bool) -> None:
    gate = gate_of(said)
    try:
        async with open_url(parse_as(HttpUrl, "http://h.dom/x"), gate) as reply:
            _ = [octets async for octets in reply.body]
    except ResolveError:
        pass
    gate.check_finished()
    assert (gate.loans[0].kept is not None) is kept


@pytest.mark.parametrize("cutter", CUTTERS, ids=lambda cutter: cutter.__name__)
async def test_a_body_that_is_left_unread_ends_the_connection(cutter: Cutter) -> None:
    gate = gate_of(OK + b"Content-Length: 6\r\n\r\nhello!", cutter)
    async with open_url(parse_as(HttpUrl, "http://h.dom/x"), gate) as reply:
        await anext(aiter(reply.body))
    assert gate.loans[0].kept is None


async def test_an_end_is_an_end_however_often_one_asks() -> None:
    gate = gate_of(OK + CHUNKED + b"2\r\nhi\r\n0\r\n\r\n")
    async with open_url(parse_as(HttpUrl, "http://h.dom/x"), gate) as reply:
        assert [octets async for octets in reply.body] == [b"hi"]
        assert [octets async for octets in reply.body] == []
    assert reply.verified == {"terminator"}


async def test_small_chunks_come_together() -> None:
    """One piece for what was read at once, and not one a chunk."""
    gate = gate_of(OK + CHUNKED + b"1\r\nx\r\n" * 5_000 + b"0\r\n\r\n")
    async with open_url(parse_as(HttpUrl, "http://h.dom/x"), gate) as reply:
        assert [len(octets) async for octets in reply.body] == [5_000]


GOOD = [
    OK + b"Content-Length: 5\r\nContent-Type: text/plain\r\n\r\nhello",
    OK + CHUNKED + b"5;x\r\nhello\r\n0\r\nT: u\r\n\r\n",
    OK + b"Content-Encoding: gzip\r\nContent-Length: 25\r\n\r\n" + gzip.compress(b"hello", mtime=0),
    OK + b"Content-Encoding: deflate\r\n" + CHUNKED + b"d\r\n" + zlib.compress(b"hello") + b"\r\n0\r\n\r\n",
    b"HTTP/1.1 103 Early\r\n\r\n" + OK + b"\r\nhello",
    b"HTTP/1.1 302 Found\r\nLocation: /y\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 503 No\r\nRetry-After: 5\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n",
]
#: Where, how much goes, what comes instead.
edits = st.lists(
    st.tuples(
        st.floats(0, 1),
        st.integers(0, 4),
        st.sampled_from(
            [b"", b"\r\n", b"\n", b"0", b"9" * 30, b",", b": ", b"\0", b"\xff", b"gzip", b"chunked"]
        ),
    ),
    min_size=1,
    max_size=4,
)


@given(st.sampled_from(GOOD), edits, st.sampled_from(["close", "reset", "cut", "quiet"]), st.booleans())
async def test_any_octets_give_a_reply_or_an_error_of_ours(
    said: bytes, changes: list[tuple[float, int, bytes]], end: End, drained: bool
) -> None:
    for where, gone, instead in changes:
        at = int(where * len(said))
        said = said[:at] + instead + said[at + gone :]
    script = Connection((TranscriptTurn("C", REQUEST), TranscriptTurn("S", said)), end)
    gate = MemoryGate([script], limits=Limits(line=200, lines=10), logins=[None])
    sink = MemorySink()
    with suppress(ResolveError):
        async with open_url(parse_as(HttpUrl, "http://h.dom/x"), gate) as reply:
            if drained:
                await reply.body.drain(sink)
            else:
                sink.octets += b"".join([octets async for octets in reply.body])
    assert len(sink.octets) <= 1_032 * len(said)  # deflate makes no more of them
    gate.check_finished()
