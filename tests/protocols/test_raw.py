"""Tests of `Options.raw`: a body has exactly the bytes that the server sent.

Every transcript is tested, including the transcripts of real servers. The framing around a body depends on
the protocol.
"""

from __future__ import annotations

import gzip
import re
from dataclasses import replace

import pytest
import trio

from fixtures.transcript import transcripts
from protocols.news.response import RawBlock
from protocols.wire import Buffer
from resolver import (
    Declined,
    FtpUrl,
    NewsUrl,
    NntpUrl,
    Options,
    Policy,
    ResolveError,
    Resolver,
    RetryPolicy,
    build,
    parse,
)
from resolver.testing import CUTTERS, Cutter, DialogueTranscript, TranscriptOutcome
from resolver.testing.replay import serve_transcript
from resolver.testing.transcript import Connection, TranscriptTurn
from tests.hang import HANG
from tests.protocols.in_memory import MemoryGate
from tests.protocols.opening import open_url
from tests.protocols.wais.captures import parse_records
from tests.sampled import kind_of, sampled

RAW = Options(raw=True)

#: A status line before a multi-line block; the group is the block with its final line.
_BLOCK = re.compile(rb"(?:211 Article numbers|215|220|224)[^\r\n]*\r?\n((?:.*?\r\n)?\.\r\n)", re.DOTALL)


async def in_memory(transcript: DialogueTranscript, gate: MemoryGate) -> TranscriptOutcome:
    """Perform the exchange and return its body, verified properties and error."""
    outcome = TranscriptOutcome(body=b"")
    try:
        async with open_url(parse(transcript.url), gate) as reply:
            async for octets in reply.body:
                outcome.body = (outcome.body or b"") + octets
            outcome.verified = tuple(sorted(reply.verified))
    except ResolveError as error:
        outcome.error = type(error).__name__
    return outcome


async def on_a_socket(transcript: DialogueTranscript, nursery: trio.Nursery) -> bytes:
    """Return the complete body, fetched by the resolver over a socket."""
    url = parse(transcript.url)
    with trio.fail_after(HANG):
        replay = await serve_transcript(nursery, transcript)
        if isinstance(url, FtpUrl | NewsUrl | NntpUrl) and url.host is not None:
            url = replace(url, host="127.0.0.1", port=replay.port)
        policy = Policy(allow_port=frozenset({replay.port}), allow_password=True)
        place = f"127.0.0.1:{replay.port}"
        async with Resolver(
            policy=policy, options=RAW, news_server=place, patience=RetryPolicy(1), environment={}
        ) as session:
            response = await session.fetch(build(url))
        while replay.served < len(transcript.connections) and not replay.complaints:
            await trio.lowlevel.checkpoint()
    assert replay.complaints == []
    assert response.entries is None
    return response.content


def good(scheme: str) -> list[DialogueTranscript]:
    return [each for each in transcripts(scheme) if each.outcome.error is None and each.connections]


# -- gopher: all bytes up to the end of the connection


@pytest.mark.parametrize("cutter", CUTTERS, ids=lambda cutter: cutter.__name__)
@pytest.mark.parametrize(
    "transcript",
    [each for each in transcripts("gopher") if len(each.connections) == 1],
    ids=lambda each: each.name,
)
async def test_raw_gopher_gives_all_bytes(transcript: DialogueTranscript, cutter: Cutter) -> None:
    (connection,) = transcript.connections
    gate = MemoryGate(
        transcript.connections,
        cutter,
        tls=transcript.url.startswith("gophers"),
        options=RAW,
    )
    outcome = await in_memory(transcript, gate)
    sent = connection.said_by("S")
    body = outcome.body or b""
    if outcome.error != transcript.outcome.error:  # as raw bytes, a malformed menu is not an error
        assert (outcome.error, transcript.outcome.error) == (None, "ProtocolError")
        assert body == sent
        return
    assert sent.startswith(body)
    if outcome.error is None:
        assert body == sent or connection.end == "left"  # bytes after the counted length
        assert transcript.outcome.verified in (None, outcome.verified)


# -- ftp: all bytes of the data connection


FTP_ROWS = sampled(
    [
        each
        for each in good("ftp")
        if len(each.connections) == 1 and "@" not in each.url and "USER anonymous" in str(each.connections)
    ],
    kind_of,
    10,
)


@pytest.mark.parametrize(
    "transcript",
    FTP_ROWS,
    ids=lambda each: each.name,
)
async def test_raw_ftp_gives_data_connection_bytes(
    transcript: DialogueTranscript, nursery: trio.Nursery
) -> None:
    assert await on_a_socket(transcript, nursery) == transcript.connections[0].said_by("D")


# -- news: every block with its dot-stuffing and its final line


def without_heads(transcript: DialogueTranscript) -> DialogueTranscript:
    """Return the transcript without HEAD commands: a raw listing has only listings of the server."""
    turns = transcript.connections[-1].turns
    end = next((at for at, turn in enumerate(turns) if turn.octets.startswith(b"HEAD ")), len(turns))
    asked = (*turns[:end], TranscriptTurn("C", b"QUIT\r\n")) if end < len(turns) else turns
    return replace(transcript, connections=(*transcript.connections[:-1], Connection(asked, "left")))


NEWS_ROWS = sampled(
    [each for each in good("nntp") if each.url.partition(":")[0] in ("nntp", "news")], kind_of, 5
)


@pytest.mark.parametrize(
    "transcript",
    NEWS_ROWS,
    ids=lambda each: each.name,
)
async def test_raw_news_gives_complete_blocks(transcript: DialogueTranscript, nursery: trio.Nursery) -> None:
    transcript = without_heads(transcript)
    sent = transcript.connections[-1].said_by("S")
    blocks = b"".join(_BLOCK.findall(sent))
    if sent.endswith(b"\r\n500 What?\r\n"):  # the server does not support article numbers either
        with pytest.raises(Declined):
            await on_a_socket(transcript, nursery)
    else:
        assert await on_a_socket(transcript, nursery) == blocks


@pytest.mark.parametrize(
    "block",
    [b".\r\n", b"a\r\n.\r\n", b"..\r\n.\r\n", b"..a\r\n\n.\n\r\n.\r\n", b"\r\n.\r\n", b"a\r\r\n..\r\n.\r\n"],
)
@pytest.mark.parametrize("cutter", CUTTERS, ids=lambda cutter: cutter.__name__)
def test_untouched_block_ends_at_its_final_line(block: bytes, cutter: Cutter) -> None:
    """Bytes after the block belong to the next response."""
    untouched, buffer, given = RawBlock(), Buffer(), b""
    for piece in cutter(block + b".\r\n205 bye\r\n"):
        buffer.feed(piece)
        while octets := untouched.take(buffer):
            given += octets
    assert (given, untouched.ended, buffer.take(len(buffer))) == (block, True, b".\r\n205 bye\r\n")
    assert untouched.received == len(block)


# -- wais: the records of a search response; a document has no framing


@pytest.mark.parametrize("transcript", good("wais"), ids=lambda each: each.name)
async def test_raw_wais_gives_records(transcript: DialogueTranscript) -> None:
    gate = MemoryGate(transcript.connections, options=RAW)
    outcome = await in_memory(transcript, gate)
    assert outcome.error is None
    if "?" not in transcript.url:
        assert outcome.body == transcript.outcome.body
        return
    assert transcript.connections[-1].said_by("S").endswith(outcome.body or b"")
    assert len(parse_records(outcome.body or b"").headers) >= len(transcript.outcome.entries)


# -- http: the content coding is kept


def with_identity_coding(transcript: DialogueTranscript) -> DialogueTranscript:
    """Return the transcript with `Accept-Encoding: identity` in its requests."""

    def turn(each: TranscriptTurn) -> TranscriptTurn:
        octets = re.sub(rb"Accept-Encoding: [^\r]*", b"Accept-Encoding: identity", each.octets)
        return TranscriptTurn("C", octets) if each.speaker == "C" else each

    connections = tuple(Connection(tuple(map(turn, each.turns)), each.end) for each in transcript.connections)
    return replace(transcript, connections=connections)


@pytest.mark.parametrize(
    "transcript",
    [each for each in good("http") if b"\r\nContent-Encoding:" in each.connections[-1].said_by("S")],
    ids=lambda each: each.name,
)
async def test_raw_http_keeps_content_coding(transcript: DialogueTranscript) -> None:
    gate = MemoryGate(with_identity_coding(transcript).connections, options=RAW, logins=[None])
    outcome = await in_memory(transcript, gate)
    head, _, sent = transcript.connections[-1].said_by("S").partition(b"\r\n\r\n")
    assert outcome.error is None
    body = outcome.body or b""
    assert gzip.decompress(body) == transcript.outcome.body if b"chunked" in head else body == sent
