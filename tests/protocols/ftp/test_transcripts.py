"""Every ftp transcript drives the dialogue alone, and the handler against a server on a socket."""

from __future__ import annotations

from dataclasses import replace

import pytest
import trio

from fixtures.ftp_urls import ASKED, ROWS
from fixtures.transcript import transcripts
from protocols.ftp.dialogue import retrieve
from resolver import FtpUrl, Limits, Policy, parse
from resolver.testing import DialogueTranscript, check, recite
from resolver.testing.outcome import resolve
from resolver.testing.replay import serve_transcript
from resolver.transfer.network import Network
from tests.hang import HANG
from tests.protocols.ftp.on_a_socket import ask
from tests.protocols.opening import open_url

TRANSCRIPTS = transcripts("ftp")
ON_A_SOCKET = [each for each in TRANSCRIPTS if each.connections]
RECORDED = ("vsftpd", "proftpd", "pure-ftpd")


def ftp(transcript: DialogueTranscript) -> FtpUrl:
    url = parse(transcript.url)
    assert isinstance(url, FtpUrl)
    return url


def test_there_are_recordings_of_each_server_and_rows_of_the_table() -> None:
    names = [transcript.name.removeprefix("ftp/") for transcript in TRANSCRIPTS]
    for server in RECORDED:
        assert sum(name.startswith(f"{server}-") for name in names) == 13
    rows = {name.removeprefix("row-") for name in names if name.startswith("row-")}
    assert rows <= {f"{int(row.number):02d}" for row in ROWS if row.number.isdigit()}
    assert len(rows) == 22


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda each: each.name)
def test_the_dialogue_alone(transcript: DialogueTranscript) -> None:
    check(recite(retrieve(ftp(transcript)), transcript, password=ASKED), transcript.outcome)


@pytest.mark.parametrize("transcript", ON_A_SOCKET, ids=lambda each: each.name)
async def test_what_the_transcript_says(transcript: DialogueTranscript, nursery: trio.Nursery) -> None:
    with trio.fail_after(HANG):
        replay = await serve_transcript(nursery, transcript)
        here = replace(ftp(transcript), host="127.0.0.1", port=replay.port)
        quiet = any(connection.end == "quiet" for connection in transcript.connections)
        policy = Policy(allow_port={replay.port}, allow_password=True)
        async with Network(
            policy=policy, limits=Limits(idle=0.2) if quiet else None, credentials=ask
        ) as network:
            outcome = await resolve(open_url, here, network.admit(here))
        while replay.served < len(transcript.connections) and not replay.complaints:
            await trio.lowlevel.checkpoint()
    assert replay.complaints == []
    outcome.entries = [
        (kind, url and url.replace(f"127.0.0.1:{replay.port}", "ftp.example"), name)
        for kind, url, name in outcome.entries
    ]
    check(outcome, transcript.outcome)
