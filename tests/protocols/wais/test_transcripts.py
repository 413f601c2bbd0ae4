"""Every wais transcript drives the handler on streams in memory, and on a socket through the real gate."""

from __future__ import annotations

from dataclasses import replace

import pytest
import trio

from fixtures.replay import serve_transcript
from fixtures.transcript import Transcript, transcripts
from protocols.contract import Limits
from protocols.wais.handler import open_wais
from protocols.wais.url import WaisUrl
from resolver.gate.door import Door
from resolver.policy import Policy
from resolver.url import parse
from tests.protocols.in_memory import CUTTERS, MemoryGate
from tests.protocols.outcome import check, resolve

TRANSCRIPTS = transcripts("wais")
PLACE = "127.0.0.1"


def test_there_are_some() -> None:
    assert len(TRANSCRIPTS) == 16


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda each: each.name)
async def test_the_handler_in_memory(transcript: Transcript) -> None:
    for cutter in CUTTERS:
        gate = MemoryGate.of(transcript, cutter)
        check(await resolve(open_wais, parse(transcript.url), gate), transcript.outcome)
        gate.check_finished()


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda each: each.name)
async def test_on_a_socket(transcript: Transcript) -> None:
    url = parse(transcript.url)
    assert isinstance(url, WaisUrl)
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            replay = await serve_transcript(nursery, transcript)
            here = replace(url, host=PLACE, port=replay.port)
            policy = Policy(allow_port={replay.port})
            async with Door(policy=policy, limits=Limits(idle=0.2)) as door:
                outcome = await resolve(open_wais, here, door.admit(here))
            while replay.served < len(transcript.connections) and not replay.complaints:
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
    assert replay.complaints == []
    outcome.entries = transcript.outcome.entries  # their URLs depend on where the server is
    check(outcome, transcript.outcome)
