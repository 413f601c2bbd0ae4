"""Tests of every Gopher transcript, through the dialogue alone and on streams in memory."""

from __future__ import annotations

import pytest

from fixtures.transcript import transcripts
from protocols.gopher.dialogue import converse
from resolver import GopherUrl, Refused, parse
from resolver.testing import CUTTERS, Cutter, DialogueTranscript, check, recite
from resolver.testing.player import resolve
from tests.protocols.in_memory import MemoryGate, MemorySink
from tests.protocols.opening import open_url
from tests.protocols.typed_url import parse_as

TRANSCRIPTS = transcripts("gopher")
NAMES = [transcript.name for transcript in TRANSCRIPTS]

#: Bytes that the client does not read: after the counted length, or on the second request.
SURPLUS = {"gopher/odd-surplus": b".\r\n", "gopher/odd-no-form-unframed": b"The document.\r\n"}

#: The rows of the table in section 3 of the Gopher+ page; row 48 is not a URL.
ROWS = set(range(1, 50)) - {48}


def test_transcripts_cover_the_table() -> None:
    assert {f"gopher/row-{row:02d}" for row in ROWS} <= set(NAMES)


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=NAMES)
def test_transcript_through_dialogue(transcript: DialogueTranscript) -> None:
    url = parse_as(GopherUrl, transcript.url)
    if transcript.outcome.error == "Refused":
        with pytest.raises(Refused):
            next(converse(url))
        return
    surplus = SURPLUS.get(transcript.name, b"")
    check(recite(converse(url), transcript, surplus=surplus), transcript.outcome)


@pytest.mark.parametrize("cutter", CUTTERS, ids=lambda cutter: cutter.__name__)
@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=NAMES)
async def test_transcript_in_memory(transcript: DialogueTranscript, cutter: Cutter) -> None:
    gate = MemoryGate.of(transcript, cutter)
    outcome = await resolve(open_url, parse(transcript.url), gate)
    check(outcome, transcript.outcome)
    gate.check_finished()


@pytest.mark.parametrize(
    "transcript", [each for each in TRANSCRIPTS if each.outcome.error is None], ids=lambda each: each.name
)
async def test_drain_gives_the_iterated_body(transcript: DialogueTranscript) -> None:
    gate, sink = MemoryGate.of(transcript), MemorySink()
    async with open_url(parse_as(GopherUrl, transcript.url), gate) as reply:
        moved = await reply.body.drain(sink)
    assert (bytes(sink.octets), moved) == (transcript.outcome.body, len(sink.octets))
    assert tuple(sorted(reply.verified)) == transcript.outcome.verified or transcript.outcome.verified is None
    gate.check_finished()


@pytest.mark.parametrize(
    "transcript", [each for each in TRANSCRIPTS if each.outcome.error is None], ids=lambda each: each.name
)
async def test_raw_returns_the_bytes_sent(transcript: DialogueTranscript) -> None:
    """The raw bytes are the server's bytes after the header line, limited to the announced length."""
    async with open_url(parse_as(GopherUrl, transcript.url), MemoryGate.of(transcript)) as reply:
        content = b"".join([octets async for octets in reply.body])
    if reply.raw is not None:
        sent = transcript.connections[-1].said_by("S")
        raw = reply.raw(content)
        assert sent[sent.index(raw) :] == raw
        assert sent[: sent.index(raw)].rstrip(b" \r\n") in (b"", b"+-1", b"+-2")
