"""Every wais transcript drives the dialogue alone, on streams in memory, and on a socket behind the gate."""

from __future__ import annotations

from dataclasses import replace

import pytest
import trio

from fixtures.transcript import transcripts
from protocols.wais.dialogue import converse
from resolver import Limits, Policy, WaisUrl, parse
from resolver.testing import CUTTERS, DialogueTranscript, check, recite
from resolver.testing.outcome import resolve
from resolver.testing.replay import serve_transcript
from resolver.transfer.network import Network
from tests.hang import HANG
from tests.protocols.in_memory import MemoryGate
from tests.protocols.opening import open_url
from tests.protocols.typed_url import parse_as

TRANSCRIPTS = transcripts("wais")
PLACE = "127.0.0.1"


def test_there_are_some() -> None:
    assert len(TRANSCRIPTS) == 16


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda each: each.name)
def test_the_dialogue_alone(transcript: DialogueTranscript) -> None:
    check(recite(converse(parse_as(WaisUrl, transcript.url)), transcript), transcript.outcome)


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda each: each.name)
async def test_the_handler_in_memory(transcript: DialogueTranscript) -> None:
    for cutter in CUTTERS:
        gate = MemoryGate.of(transcript, cutter)
        check(await resolve(open_url, parse(transcript.url), gate), transcript.outcome)
        gate.check_finished()


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda each: each.name)
async def test_on_a_socket(transcript: DialogueTranscript) -> None:
    url = parse(transcript.url)
    assert isinstance(url, WaisUrl)
    with trio.fail_after(HANG):
        async with trio.open_nursery() as nursery:
            replay = await serve_transcript(nursery, transcript)
            here = replace(url, host=PLACE, port=replay.port)
            policy = Policy(allow_port={replay.port})
            async with Network(policy=policy, limits=Limits(idle=0.2)) as network:
                outcome = await resolve(open_url, here, network.admit(here))
            while replay.served < len(transcript.connections) and not replay.complaints:
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
    assert replay.complaints == []
    outcome.entries = transcript.outcome.entries  # their URLs depend on where the server is
    check(outcome, transcript.outcome)
