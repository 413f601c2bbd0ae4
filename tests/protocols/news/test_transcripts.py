"""NNTP transcripts and captures.

Every transcript runs against the dialogue alone and the handler on in-memory streams; those of each kind run
against the handler on sockets. Every capture runs against the readers and the handler.
"""

from __future__ import annotations

import re
import ssl
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import trio

from fixtures.transcript import transcripts
from protocols.news.dialogue import converse
from protocols.news.response import NntpCommand, NntpVerb, response_to
from resolver import Limits, NewsUrl, NntpUrl, Options, Policy, Truncated, parse
from resolver.network.url_gate import UrlGate
from resolver.policy.subject import NewsServer
from resolver.testing import (
    CUTTERS,
    Cutter,
    DialogueTranscript,
    TranscriptOutcome,
    check,
    one_by_one,
    recite,
    whole,
)
from resolver.testing.player import resolve
from resolver.testing.replay import serve_transcript
from resolver.transfer.network import Network
from tests.hang import HANG
from tests.protocols.in_memory import MemorySink
from tests.protocols.news.capture_rows import ROWS, Case, Row
from tests.protocols.news.captures import FOLDER, RecordedGate, RecordedServer, exchanges
from tests.protocols.news.memory import NewsGate, news_url
from tests.protocols.opening import open_url
from tests.sampled import kind_of, sampled

TRANSCRIPTS = transcripts("nntp")
NAMES = [transcript.name for transcript in TRANSCRIPTS]

#: The rows of the table in section 4 of page "news"; rows 27 to 30 open no connection.
TABLE_ROWS = range(1, 27)


def test_every_table_row_has_transcript() -> None:
    rows = {int(found[1]) for name in NAMES if (found := re.match(r"nntp/row-(\d\d)", name))}
    assert rows == set(TABLE_ROWS)


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=NAMES)
def test_dialogue_follows_transcript(transcript: DialogueTranscript) -> None:
    dialogue = converse(news_url(transcript.url), Options(), Limits())
    check(recite(dialogue, transcript), transcript.outcome)


@pytest.mark.parametrize("cutter", CUTTERS, ids=lambda cutter: cutter.__name__)
@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=NAMES)
async def test_handler_in_memory_follows_transcript(transcript: DialogueTranscript, cutter: Cutter) -> None:
    gate = NewsGate.of(transcript, cutter)
    outcome = await resolve(open_url, parse(transcript.url), gate)
    check(outcome, transcript.outcome)
    gate.check_finished()


@pytest.mark.parametrize(
    "transcript", [each for each in TRANSCRIPTS if each.outcome.body is not None], ids=lambda each: each.name
)
async def test_drain_writes_transcript_body(transcript: DialogueTranscript) -> None:
    gate, sink = NewsGate.of(transcript), MemorySink()
    moved = None
    with suppress(Truncated):
        async with open_url(news_url(transcript.url), gate) as reply:
            moved = await reply.body.drain(sink)
    assert bytes(sink.octets) == transcript.outcome.body
    assert moved == (len(sink.octets) if transcript.outcome.error is None else None)
    gate.check_finished()


# Every recorded exchange with a real server yields the expected result.

CAPTURE_NAMES = [row.capture for row in ROWS]


def pieces(size: int) -> Cutter:
    def cutter(octets: bytes) -> list[bytes]:
        return [octets[start : start + size] for start in range(0, len(octets), size)]

    cutter.__name__ = f"by_{size}"
    return cutter


CAPTURE_CUTTERS = (whole, one_by_one, pieces(2), pieces(3))
CASES = [(row, case) for row in ROWS for case in row.cases]


def test_every_capture_has_row() -> None:
    assert sorted(CAPTURE_NAMES) == sorted(path.stem for path in FOLDER.iterdir())
    assert all(bool(row.cases) != bool(row.reason) for row in ROWS)


def undotted(answer: bytes) -> bytes:
    """Return the content of a block, decoded line by line (RFC 3977 3.1.1)."""
    _, *lines = answer.split(b"\r\n")
    assert lines[-2:] == [b".", b""]
    return b"".join(line.removeprefix(b".") + b"\r\n" for line in lines[:-2])


@pytest.mark.parametrize("name", CAPTURE_NAMES)
def test_readers_split_capture_into_answers(name: str) -> None:
    """Each answer ends where the next one begins."""
    for each in exchanges(name):
        if each.content is not None:
            assert each.content == undotted(each.octets)
        else:
            assert each.octets.count(b"\r\n") == 1


@pytest.mark.parametrize("name", CAPTURE_NAMES)
def test_response_to_predicts_block_of_capture(name: str) -> None:
    verbs = sorted(NntpVerb, key=len, reverse=True)
    for each in exchanges(name):
        verb = next((verb for verb in verbs if each.command.startswith(verb.encode())), None)
        if verb is not None:
            assert response_to(NntpCommand(verb), each.answer).block == (each.content is not None)


def expected(row: Row, case: Case) -> TranscriptOutcome:
    if case.error is not None:
        return TranscriptOutcome(error=case.error)
    recorded = [each for name in (row.capture, *case.also) for each in exchanges(name)]
    blocks = []
    for command in case.body_of:
        last = [each for each in recorded if each.command == command and each.content is not None][-1]
        blocks.append(undotted(last.octets))
    return TranscriptOutcome(
        kind=case.kind,
        body=b".\r\n".join(blocks),
        verified=("terminator",) if blocks else (),
        findings=list(case.findings),
    )


@pytest.mark.parametrize("cutter", CAPTURE_CUTTERS, ids=lambda cutter: cutter.__name__)
@pytest.mark.parametrize(("row", "case"), CASES, ids=[f"{row.capture}-{case.url}" for row, case in CASES])
async def test_url_resolves_from_capture(row: Row, case: Case, cutter: Cutter) -> None:
    server = RecordedServer(row.capture, *case.also, ending=case.ending)
    outcome = await resolve(open_url, parse(case.url), RecordedGate(server, cutter, options=case.options))
    check(outcome, expected(row, case))
    assert len(outcome.entries) == case.entries
    assert not any(first == b"MODE READER" == second for first, second in pairwise(server.said))
    assert server.said.count(b"MODE READER") <= 1


# The same transcripts over sockets, through the real gate.

HOST = "127.0.0.1"


def at_port(url: NewsUrl | NntpUrl, port: int) -> NewsUrl | NntpUrl:
    return url if url.host is None else replace(url, host=HOST, port=port)


TRIED_OVER_SOCKETS = sampled(TRANSCRIPTS, kind_of, 2)


@pytest.mark.parametrize("transcript", TRIED_OVER_SOCKETS, ids=lambda each: each.name)
async def test_url_resolves_over_sockets(
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
                server = NewsServer(HOST, replay.port)
                url_gate = UrlGate(network.judge_url(at_port(url, replay.port), server=server))
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
    """Return the URL of a child with the host and port of the test server."""
    return None if child is None else child.replace("//h/", f"//{HOST}:{port}/")
