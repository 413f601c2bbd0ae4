"""Tests of Gopher over sockets: all transcripts through the real gate, and Gopher+ attributes."""

from __future__ import annotations

import json
import ssl
from dataclasses import replace
from pathlib import Path

import pytest
import trio

import resolver
from fixtures.gopher import serve
from fixtures.gopher.flavor import PYGOPHERD, UMN23, UMN30, Flavor
from fixtures.transcript import transcripts
from resolver import GopherUrl, Limits, Policy
from resolver.testing import DialogueTranscript, check
from resolver.testing.player import resolve
from resolver.testing.replay import serve_transcript
from resolver.transfer.network import Network
from tests.hang import HANG
from tests.protocols.command import command
from tests.protocols.opening import open_url
from tests.protocols.typed_url import parse_as
from tests.sampled import kind_of, sampled

ON_A_SOCKET = [each for each in transcripts("gopher") if each.connections]
PLACE = "127.0.0.1"


TRIED = sampled(ON_A_SOCKET, kind_of, 2)


@pytest.mark.parametrize("transcript", TRIED, ids=lambda each: each.name)
async def test_transcript_over_socket(
    transcript: DialogueTranscript, server_tls: ssl.SSLContext, cafile: Path
) -> None:
    url = parse_as(GopherUrl, transcript.url)
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
    )  # their URLs depend on the address of the menu; see test_transcripts
    check(outcome, transcript.outcome)


# Gopher+ attributes through `fetch` and the command, against mock servers on loopback.
#
# By RFC 1738 3.4.6 a URL with `!` or `$` locates the attribute blocks: `cat` and `get` return the blocks, and
# `ls` returns the names of the items.

STORY = [b"+INFO: 0A story", b"+ADMIN:", b"+VIEWS:", b"+ABSTRACT:"]


def blocks(octets: bytes) -> list[bytes]:
    """Return the lines that open a block, items shortened to their names."""
    return [line.split(b"\t")[0].rstrip() for line in octets.splitlines() if line.startswith(b"+")]


#: A sample of one server: the subject of these tests is the command.
FLAVORS = sampled([UMN23, UMN30, PYGOPHERD], lambda flavor: None)


@pytest.mark.parametrize("flavor", FLAVORS, ids=lambda flavor: flavor.name)
async def test_command_item_attributes_are_its_blocks(
    flavor: Flavor, nursery: trio.Nursery, tmp_path: Path
) -> None:
    server = await serve(nursery, flavor=flavor)
    url = server.url("00/story%09%09!")
    status, out, err = await command("cat", "-q", url)
    assert (status, err, blocks(out)) == (0, b"", STORY)
    assert out.endswith(b"+ABSTRACT:\r\n What the story is about.\r\n It has two lines.\r\n")
    status, _, _ = await command("get", "-q", "-O", "saved", url, folder=tmp_path)
    assert (status, (tmp_path / "saved").read_bytes()) == (0, out)
    assert await command("ls", "-q", url) == (0, b"A story\n", b"")


async def test_command_directory_attributes_are_blocks_of_its_items(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    url = server.url("11/sub/deeper%09%09$")
    status, out, err = await command("cat", "-q", url)
    assert (status, err, blocks(out)) == (0, b"", STORY)
    assert await command("ls", "-q", url) == (0, b"A story\n", b"")


@pytest.mark.parametrize("path", ["00/story%09%09!+ABSTRACT", "11/sub/deeper%09%09$+ABSTRACT"])
async def test_command_named_attributes_select_blocks(path: str, nursery: trio.Nursery) -> None:
    """The server sends all blocks; the client selects."""
    server = await serve(nursery)
    status, out, _ = await command("cat", "-q", server.url(path))
    assert (status, blocks(out)) == (0, [STORY[0], STORY[3]])
    response = await resolver.fetch(server.url(path))
    assert (response.content, response.text) == (out, out.decode())


async def test_fetch_attributes_gives_blocks_and_entries(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    for path in ("00/story%09%09!", "11/sub/deeper%09%09$"):
        response = await resolver.fetch(server.url(path))
        assert blocks(response.content) == STORY
        assert response.entries is not None
        (entry,) = response.entries
        assert entry.name == "A story"
        assert entry.extra is not None
        assert entry.extra["abstract"] == "What the story is about.\nIt has two lines."


async def test_command_info_attributes_are_lines(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    status, out, _ = await command("info", "-q", server.url("00/story%09%09!"))
    lines = out.decode().splitlines()
    assert status == 0
    assert "attributes.ABSTRACT: It has two lines." in lines
    assert "views.2.language: Es_ES" in lines
    assert not any(character in out.decode() for character in "{}[]'")
    status, out, _ = await command("info", "-q", "--json", server.url("00/story%09%09!"))
    assert json.loads(out)["extra"]["views"][1]["language"] == "Es_ES"


async def test_command_menu_is_its_names(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    for path in ("11/sub", "11/sub%09%09+"):
        assert await command("cat", "-q", server.url(path)) == (0, b"About\nA folder in it\n", b"")
