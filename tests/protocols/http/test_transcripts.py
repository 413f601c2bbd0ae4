"""Tests of every HTTP transcript, through the dialogue alone, in memory and over sockets."""

from __future__ import annotations

import ssl
from dataclasses import replace
from pathlib import Path

import pytest
import trio

from fixtures.transcript import transcripts
from protocols.http.dialogue import retrieve
from resolver import HttpUrl, Limits, Policy, parse
from resolver.testing import CUTTERS, Cutter, DialogueTranscript, check, recite
from resolver.testing.player import resolve
from resolver.testing.replay import serve_transcript
from resolver.transfer.network import Network
from tests.hang import HANG
from tests.protocols.in_memory import MemoryGate, MemorySink
from tests.protocols.opening import open_url
from tests.protocols.typed_url import parse_as
from tests.sampled import kind_of, sampled

TRANSCRIPTS = transcripts("http")
GOOD = [each for each in TRANSCRIPTS if each.outcome.error is None]
#: Bytes that the server sends after the announced body.
SURPLUS = {"http/length-surplus": b"HTTP/1.1 200 OK\r\n", "http/chunked-surplus": b"more"}
#: Transcripts whose head is incomplete or invalid.
HEADLESS = {
    f"http/{name}"
    for name in (
        "another-protocol",
        "empty-head",
        "field-name-blank",
        "field-nul",
        "head-cut",
        "head-nothing",
        "length-huge",
        "length-twice",
        "length-word",
        "many-headers",
        "status-word",
        "switching",
        "transfer-coding",
        "transfer-coding-twice",
    )
}


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda each: each.name)
def test_transcript_through_dialogue(transcript: DialogueTranscript) -> None:
    """The complete request is sent; the dialogue starts the body or raises the error of the head."""
    dialogue = retrieve(parse_as(HttpUrl, transcript.url))
    outcome = recite(dialogue, transcript, surplus=SURPLUS.get(transcript.name, b""))
    check(outcome, transcript.outcome)
    assert (outcome.kind is None) == (transcript.outcome.error is not None and outcome.body is None)
    if transcript.name in HEADLESS:
        assert outcome.kind is None


@pytest.mark.parametrize("cutter", CUTTERS, ids=lambda cutter: cutter.__name__)
@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda each: each.name)
async def test_transcript_in_memory(transcript: DialogueTranscript, cutter: Cutter) -> None:
    gate = MemoryGate.of(transcript, cutter, logins=[None, None])
    outcome = await resolve(open_url, parse(transcript.url), gate)
    expected = transcript.outcome
    if cutter is not CUTTERS[0] and "http:surplus" in expected.findings:
        # surplus bytes that were not read yet are not reported
        expected = replace(expected, findings=outcome.findings)
    check(outcome, expected)
    gate.check_finished()


@pytest.mark.parametrize("transcript", GOOD, ids=lambda each: each.name)
async def test_drain_gives_the_iterated_body(transcript: DialogueTranscript) -> None:
    gate, sink = MemoryGate.of(transcript, logins=[None]), MemorySink()
    async with open_url(parse_as(HttpUrl, transcript.url), gate) as reply:
        moved = await reply.body.drain(sink)
    assert (bytes(sink.octets), moved) == (transcript.outcome.body, len(sink.octets))
    assert tuple(sorted(reply.verified)) == transcript.outcome.verified or transcript.outcome.verified is None
    gate.check_finished()


# The same transcripts against a server on a socket, through the real gate.

HOST = "h.dom"
#: Host contains the port and address of the transcript; ask transcripts are tested in memory.
ON_A_SOCKET = [each for each in transcripts("http") if not each.name.startswith("http/ask-")]


async def here(host: str, port: int) -> list[str]:
    assert host == HOST
    return ["127.0.0.1"]


TRIED = sampled(ON_A_SOCKET, kind_of, 2)


@pytest.mark.parametrize("transcript", TRIED, ids=lambda each: each.name)
async def test_transcript_over_socket(
    transcript: DialogueTranscript, server_tls: ssl.SSLContext, cafile: Path
) -> None:
    url = parse_as(HttpUrl, transcript.url)
    tls = server_tls if url.scheme == "https" else None
    quiet = any(connection.end == "quiet" for connection in transcript.connections)
    with trio.fail_after(HANG):
        async with trio.open_nursery() as nursery:
            replay = await serve_transcript(nursery, transcript, tls)
            there = replace(url, default_port=replay.port)  # keeps the port out of Host
            async with Network(
                policy=Policy.default(),
                limits=Limits(idle=0.2 if quiet else 5.0),
                cafile=str(cafile),
                lookup=here,
            ) as network:
                outcome = await resolve(open_url, there, network.admit(there))
            while replay.served < len(transcript.connections) and not replay.complaints:
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
    assert replay.complaints == []
    expected = transcript.outcome
    if "http:surplus" in expected.findings:
        # whether the surplus was read with the rest is random
        expected = replace(expected, findings=outcome.findings)
    check(outcome, expected)
