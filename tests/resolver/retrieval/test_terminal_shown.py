"""What a terminal gets of whole sessions: recorded ones, and a bulletin board's."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyte
import pytest

from fixtures.telnet.board import FIRST_PAGE
from protocols.telnet.octets import TelnetData
from protocols.telnet.terminal import NvtTerminal
from resolver.terminal.screen import TerminalOutput

RECORDINGS = sorted(Path("fixtures/recordings/telnet").glob("*.json"))

#: Text, what moves, colours and clears, and nothing else.
HARMLESS = re.compile(
    rb"[^\0-\x06\x10-\x1f\x7f]|\x1b[78=>DEHM]|\x1b[()][0AB]|\x1b\[\?[0-9;]+[hl]|\x1b\[[0-9;:]*[@A-MPSTXZ`a-bd-hlmrsu]"
)


def shown(octets: bytes, shown: TerminalOutput, size: int) -> bytes:
    """All of it, in pieces of that many octets."""
    terminal, out = NvtTerminal(b"xterm"), b""
    for at in range(0, len(octets), size):
        for happening in terminal.feed(octets[at : at + size]):
            if isinstance(happening, TelnetData):
                out += shown.of(happening.octets, binary=terminal.his_binary)
    return out


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_recorded_sessions_move_colour_and_clear(path: Path) -> None:
    exchanges = json.loads(path.read_text())["exchanges"]
    octets = b"".join(bytes.fromhex(each["hex"]) for each in exchanges if each["dir"] == "server")
    if len(octets) > 40_000:
        octets = octets[:40_000]
    out = shown(octets, TerminalOutput(), len(octets) or 1)
    assert HARMLESS.sub(b"", out) == b""
    assert shown(octets, TerminalOutput(), 1) == out
    assert b"\x1b" not in shown(octets, TerminalOutput(plain=True), 7)


def test_recordings_were_found() -> None:
    assert len(RECORDINGS) > 50


def read_as_utf8(text: str) -> str:
    """What a terminal of UTF-8 makes of CP437."""
    return text.encode("cp437").decode("utf-8", "replace")


@pytest.mark.parametrize("size", [1, 3, len(FIRST_PAGE)])
def test_a_board_is_drawn_as_it_was_meant(size: int) -> None:
    out = shown(FIRST_PAGE, TerminalOutput(), size)
    assert (b"\x1b]" in out, b"6n" in out) == (False, False)
    screen = pyte.Screen(80, 24)
    pyte.ByteStream(screen).feed(out)
    rows = [row.rstrip() for row in screen.display]
    assert rows[0] == read_as_utf8("\u2554" + 10 * "\u2550" + "\u2557")
    assert rows[1] == read_as_utf8("\u2551 \u2591\u2592\u2593\u2588 B\u00dc \u2551")
    assert rows[3] == read_as_utf8("\u00c4rger? [J]a \u221a9 \u2248 3")
    assert rows[4] == "Handle:"
    assert rows[19] == 59 * " " + read_as_utf8("NEW\u00a0MAIL")
    assert screen.buffer[3][8].fg == "white"
    assert screen.buffer[19][59].fg == "red"
