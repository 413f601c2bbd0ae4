"""A listing without an end: its lines are delivered while it arrives, and a signal ends the command."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from resolver.testing.contract.peers import read_to_end, serve
from resolver.testing.replay import Peer
from tests.faults.command import resolve

FIRST = b"a\r\nb\r\n"


async def serve_names(nursery: trio.Nursery, pieces: Iterator[bytes]) -> str:
    """Run an ftp server whose directory has these names; then the data connection stays open."""

    async def send_names(peer: Peer) -> None:
        for piece in pieces:
            await peer.send_all(piece)
        await read_to_end(peer)

    port = await serve(nursery, send_names)
    replies = {
        b"USER": b"230 in",
        b"EPSV": b"229 ok (|||%d|)" % port,
        b"NLST": b"150 here",
        b"TYPE": b"200 ok",
    }

    async def attend(peer: Peer) -> None:
        await peer.send_all(b"220 hello\r\n")
        waiting = b""
        while octets := await peer.receive_some(65_536):
            *heard, waiting = (waiting + bytes(octets)).split(b"\r\n")
            for line in heard:
                await peer.send_all(replies.get(line[:4], b"500 what?") + b"\r\n")

    return f"ftp://127.0.0.1:{await serve(nursery, attend)}/"


@pytest.mark.parametrize("options", [(), ("--json",)])
async def test_ls_prints_lines_before_end_of_listing(
    options: tuple[str, ...], nursery: trio.Nursery, tmp_path: Path
) -> None:
    """Two short lines arrive. A client that waits for a full buffer, or for the end, would hang."""
    url = await serve_names(nursery, iter([FIRST]))
    port = url.split(":")[2].rstrip("/")
    listing = ("ls", "--nlst", "--allow-port", port, *options, url)
    async with resolve(tmp_path, *listing, stdout=subprocess.PIPE) as running:
        assert running.process.stdout is not None
        shown = b""
        while shown.count(b"\n") < 2:
            octets = await running.process.stdout.receive_some(65_536)
            assert octets, running.err
            shown += octets
        running.process.send_signal(signal.SIGINT)
        assert await running.status() == 130


async def test_signal_ends_endless_listing(nursery: trio.Nursery, tmp_path: Path) -> None:
    """Names arrive faster than the client reads them, so the client never waits for data."""
    url = await serve_names(nursery, iter(lambda: b"name\r\n" * 20_000, b""))
    port = url.split(":")[2].rstrip("/")
    async with resolve(
        tmp_path, "ls", "--nlst", "--allow-port", port, url, stdout=subprocess.PIPE
    ) as running:
        assert running.process.stdout is not None
        assert await running.process.stdout.receive_some(1)
        running.process.send_signal(signal.SIGINT)
        async for _ in running.process.stdout:
            pass
        assert await running.status() == 130
    assert b"Traceback" not in running.err
