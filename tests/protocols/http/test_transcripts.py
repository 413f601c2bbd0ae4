"""Every http transcript drives the dialogue alone, and the handler on streams in memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fixtures.transcript import transcripts
from protocols.http.dialogue import retrieve
from resolver import HttpUrl, parse
from resolver.testing import CUTTERS, Cutter, DialogueTranscript, check, recite
from resolver.testing.outcome import resolve
from tests.protocols.in_memory import MemoryGate, MemorySink
from tests.protocols.opening import open_url
from tests.protocols.typed_url import parse_as

TRANSCRIPTS = transcripts("http")
GOOD = [each for each in TRANSCRIPTS if each.outcome.error is None]
#: What a server says behind the body that it announced.
SURPLUS = {"http/length-surplus": b"HTTP/1.1 200 OK\r\n", "http/chunked-surplus": b"more"}
#: Those whose head is never whole, or is none.
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
def test_the_dialogue_alone(transcript: DialogueTranscript) -> None:
    """It says the whole request, and begins with what the head says, or raises what that means."""
    dialogue = retrieve(parse_as(HttpUrl, transcript.url))
    outcome = recite(dialogue, transcript, surplus=SURPLUS.get(transcript.name, b""))
    check(outcome, transcript.outcome)
    assert (outcome.kind is None) == (transcript.outcome.error is not None and outcome.body is None)
    if transcript.name in HEADLESS:
        assert outcome.kind is None


@pytest.mark.parametrize("cutter", CUTTERS, ids=lambda cutter: cutter.__name__)
@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda each: each.name)
async def test_the_handler_in_memory(transcript: DialogueTranscript, cutter: Cutter) -> None:
    gate = MemoryGate.of(transcript, cutter, logins=[None, None])
    outcome = await resolve(open_url, parse(transcript.url), gate)
    expected = transcript.outcome
    if cutter is not CUTTERS[0] and "http:surplus" in expected.findings:
        expected = replace(expected, findings=outcome.findings)  # what was not read yet was not seen
    check(outcome, expected)
    gate.check_finished()


@pytest.mark.parametrize("transcript", GOOD, ids=lambda each: each.name)
async def test_draining_gives_what_iterating_gives(transcript: DialogueTranscript) -> None:
    gate, sink = MemoryGate.of(transcript, logins=[None]), MemorySink()
    async with open_url(parse_as(HttpUrl, transcript.url), gate) as reply:
        moved = await reply.body.drain(sink)
    assert (bytes(sink.octets), moved) == (transcript.outcome.body, len(sink.octets))
    assert tuple(sorted(reply.verified)) == transcript.outcome.verified or transcript.outcome.verified is None
    gate.check_finished()
