"""The same transcripts against a server on a socket, through the real gate."""

from __future__ import annotations

import ssl
from dataclasses import replace
from pathlib import Path

import pytest
import trio

from fixtures.transcript import transcripts
from resolver import GopherUrl, Limits, Policy, parse
from resolver.testing import DialogueTranscript, check
from resolver.testing.outcome import resolve
from resolver.testing.replay import serve_transcript
from resolver.transfer.network import Network
from tests.hang import HANG
from tests.protocols.opening import open_url

ON_A_SOCKET = [each for each in transcripts("gopher") if each.connections]
PLACE = "127.0.0.1"


@pytest.mark.parametrize("transcript", ON_A_SOCKET, ids=lambda each: each.name)
async def test_what_the_transcript_says(
    transcript: DialogueTranscript, server_tls: ssl.SSLContext, cafile: Path
) -> None:
    url = parse(transcript.url)
    assert isinstance(url, GopherUrl)
    tls = server_tls if url.scheme == "gophers" else None
    with trio.fail_after(HANG):
        async with trio.open_nursery() as nursery:
            replay = await serve_transcript(nursery, transcript, tls)
            here = replace(url, host=PLACE, port=replay.port)
            policy = Policy(allow_port={replay.port}, allow_form=True)
            quiet = any(connection.end == "quiet" for connection in transcript.connections)
            limits = Limits(idle=0.2) if quiet else Limits()
            async with Network(policy=policy, limits=limits, cafile=str(cafile)) as network:
                outcome = await resolve(open_url, here, network.admit(here))
            while replay.served < len(transcript.connections) and not replay.complaints:
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
    assert replay.complaints == []
    outcome.entries = (
        transcript.outcome.entries
    )  # their URLs depend on where the menu is; see test_transcripts
    check(outcome, transcript.outcome)
