"""Every nntp transcript drives the dialogue alone, and the handler on streams in memory."""

from __future__ import annotations

import re
from contextlib import suppress

import pytest

from fixtures.transcript import transcripts
from protocols.news.dialogue import converse
from resolver import Limits, Options, Truncated, parse
from resolver.testing import CUTTERS, Cutter, DialogueTranscript, check, recite
from resolver.testing.outcome import resolve
from tests.protocols.in_memory import MemorySink
from tests.protocols.news.memory import NewsGate, news_url
from tests.protocols.opening import open_url

TRANSCRIPTS = transcripts("nntp")
NAMES = [transcript.name for transcript in TRANSCRIPTS]

#: The rows of the table in section 4 of the news page; 27 to 30 connect to nothing.
ROWS = range(1, 27)


def test_every_row_of_the_table_has_its_transcript() -> None:
    rows = {int(found[1]) for name in NAMES if (found := re.match(r"nntp/row-(\d\d)", name))}
    assert rows == set(ROWS)


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=NAMES)
def test_the_dialogue_alone(transcript: DialogueTranscript) -> None:
    dialogue = converse(news_url(transcript.url), Options(), Limits())
    check(recite(dialogue, transcript), transcript.outcome)


@pytest.mark.parametrize("cutter", CUTTERS, ids=lambda cutter: cutter.__name__)
@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=NAMES)
async def test_the_handler_in_memory(transcript: DialogueTranscript, cutter: Cutter) -> None:
    gate = NewsGate.of(transcript, cutter)
    outcome = await resolve(open_url, parse(transcript.url), gate)
    check(outcome, transcript.outcome)
    gate.check_finished()


@pytest.mark.parametrize(
    "transcript", [each for each in TRANSCRIPTS if each.outcome.body is not None], ids=lambda each: each.name
)
async def test_draining_gives_what_iterating_gives(transcript: DialogueTranscript) -> None:
    gate, sink = NewsGate.of(transcript), MemorySink()
    moved = None
    with suppress(Truncated):
        async with open_url(news_url(transcript.url), gate) as reply:
            moved = await reply.body.drain(sink)
    assert bytes(sink.octets) == transcript.outcome.body
    assert moved == (len(sink.octets) if transcript.outcome.error is None else None)
    gate.check_finished()
