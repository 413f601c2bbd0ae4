"""Every http transcript drives the dialogue alone, and the handler on streams in memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fixtures.transcript import Transcript, transcripts
from protocols.errors import ResolveError
from protocols.http.dialogue import Answered, retrieve
from protocols.http.handler import open_http
from resolver.url import parse
from tests.protocols.in_memory import CUTTERS, Cutter, MemoryGate, MemorySink
from tests.protocols.outcome import check, play, resolve

TRANSCRIPTS = transcripts("http")
GOOD = [each for each in TRANSCRIPTS if each.outcome.error is None]
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


@pytest.mark.parametrize(
    "transcript",
    [each for each in TRANSCRIPTS if each.connections[0].end != "quiet"],
    ids=lambda each: each.name,
)
def test_the_dialogue_alone(transcript: Transcript) -> None:
    """It says the whole request, and hands over what follows the head."""
    if transcript.name in HEADLESS:
        with pytest.raises(ResolveError) as caught:
            play(retrieve(parse(transcript.url)), transcript)
        assert type(caught.value).__name__ == transcript.outcome.error
        return
    handed = play(retrieve(parse(transcript.url)), transcript)[-1]
    assert isinstance(handed, Answered)
    status = transcript.connections[0].said_by("S").split(b"HTTP/1.")[-1].split()[1]
    assert handed.head.status == int(status) or "surplus" in transcript.name


@pytest.mark.parametrize("cutter", CUTTERS, ids=lambda cutter: cutter.__name__)
@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda each: each.name)
async def test_the_handler_in_memory(transcript: Transcript, cutter: Cutter) -> None:
    gate = MemoryGate.of(transcript, cutter, logins=[None])
    outcome = await resolve(open_http, parse(transcript.url), gate)
    expected = transcript.outcome
    if cutter is not CUTTERS[0] and "http:surplus" in expected.findings:
        expected = replace(expected, findings=outcome.findings)  # what was not read yet was not seen
    check(outcome, expected)
    gate.check_finished()


@pytest.mark.parametrize("transcript", GOOD, ids=lambda each: each.name)
async def test_draining_gives_what_iterating_gives(transcript: Transcript) -> None:
    gate, sink = MemoryGate.of(transcript, logins=[None]), MemorySink()
    async with open_http(parse(transcript.url), gate) as reply:
        moved = await reply.body.drain(sink)
    assert (sink.octets, moved) == (transcript.outcome.body, len(sink.octets))
    assert tuple(sorted(reply.verified)) == transcript.outcome.verified or transcript.outcome.verified is None
    gate.check_finished()
