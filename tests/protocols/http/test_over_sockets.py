"""The same transcripts against a server on a socket, through the real gate."""

from __future__ import annotations

import ssl
from dataclasses import replace
from pathlib import Path

import pytest
import trio

from fixtures.transcript import transcripts
from resolver import HttpUrl, Limits, Policy, parse
from resolver.testing import DialogueTranscript, check
from resolver.testing.outcome import resolve
from resolver.testing.replay import serve_transcript
from resolver.transfer.network import Network
from tests.hang import HANG
from tests.protocols.opening import open_url

HOST = "h.dom"
#: Host names the port and the address that a transcript has; what is asked is shown in memory.
ON_A_SOCKET = [each for each in transcripts("http") if not each.name.startswith("http/ask-")]


async def here(host: str, port: int) -> list[str]:
    assert host == HOST
    return ["127.0.0.1"]


@pytest.mark.parametrize("transcript", ON_A_SOCKET, ids=lambda each: each.name)
async def test_what_the_transcript_says(
    transcript: DialogueTranscript, server_tls: ssl.SSLContext, cafile: Path
) -> None:
    url = parse(transcript.url)
    assert isinstance(url, HttpUrl)
    tls = server_tls if url.scheme == "https" else None
    quiet = any(connection.end == "quiet" for connection in transcript.connections)
    with trio.fail_after(HANG):
        async with trio.open_nursery() as nursery:
            replay = await serve_transcript(nursery, transcript, tls)
            there = replace(url, default_port=replay.port)  # so that Host is as written
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
        expected = replace(expected, findings=outcome.findings)  # whether it was read with the rest is chance
    check(outcome, expected)
