"""The same transcripts against a server on a socket, through the real gate."""

from __future__ import annotations

import ssl
from dataclasses import replace
from pathlib import Path

import pytest
import trio

from fixtures.transcript import transcripts
from resolver import NewsUrl, NntpUrl, Policy, parse
from resolver.policy.subject import NewsServer
from resolver.testing import DialogueTranscript, check
from resolver.testing.outcome import resolve
from resolver.testing.replay import serve_transcript
from resolver.transfer.network import Network
from tests.hang import HANG
from tests.protocols.opening import open_url

TRANSCRIPTS = transcripts("nntp")
PLACE = "127.0.0.1"


def at_port(url: NewsUrl | NntpUrl, port: int) -> NewsUrl | NntpUrl:
    return url if url.host is None else replace(url, host=PLACE, port=port)


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda each: each.name)
async def test_what_the_transcript_says(
    transcript: DialogueTranscript, server_tls: ssl.SSLContext, cafile: Path
) -> None:
    url = parse(transcript.url)
    assert isinstance(url, NewsUrl | NntpUrl)
    tls = server_tls if url.scheme in ("nntps", "snews") else None
    with trio.fail_after(HANG):
        async with trio.open_nursery() as nursery:
            replay = await serve_transcript(nursery, transcript, tls)
            policy = Policy(allow_port={replay.port}, allow_password=True)
            async with Network(policy=policy, cafile=str(cafile)) as network:
                url_gate = network.admit(at_port(url, replay.port), server=NewsServer(PLACE, replay.port))
                outcome = await resolve(open_url, at_port(url, replay.port), url_gate)
            expected = transcript.outcome
            here = [(kind, shift(child, replay.port), name) for kind, child, name in expected.entries]
            check(outcome, replace(expected, entries=here))
            while replay.served < len(transcript.connections) and not replay.complaints:
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
    assert replay.complaints == []
    assert replay.served == len(transcript.connections)


def shift(child: str | None, port: int) -> str | None:
    """The URL of a child found at that port of this machine."""
    return None if child is None else child.replace("//h/", f"//{PLACE}:{port}/")
