"""Terminal output of a session: the control sequences that are passed and dropped (S15)."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path

import pyte
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.telnet.board import FIRST_PAGE
from protocols.telnet.octets import TelnetData
from protocols.telnet.terminal import NvtTerminal
from resolver.terminal.screen import (
    MAX_SEQUENCE,
    MAX_STRING,
    PlainScreen,
    RawScreen,
    Screen,
    TerminalOutput,
)

ESC = "\x1b"

PASSES = [
    "text, caf\u00e9 \u65e5\u672c \u2592",
    "\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f",
    *(f"{ESC}{lone}" for lone in "78=>DEHM"),
    *(f"{ESC}{slot}{charset}" for slot in "()" for charset in "0AB"),
    *(f"{ESC}[{final}" for final in "@ABCDEFGHIJKLMPSTXZ`abdefgmrsu"),
    f"{ESC}[1;31m red {ESC}[38;5;208m {ESC}[38:2::255:0:0m{ESC}[m",
    f"{ESC}[12;40H{ESC}[2J{ESC}[1;24r",
    f"{ESC}[4h{ESC}[20l",
    *(
        f"{ESC}[?{mode}{end}"
        for mode in (1, 3, 5, 6, 7, 12, 25, 47, 1000, 1002, 1003, 1006, 1047, 1048, 1049, 2004)
        for end in "hl"
    ),
    f"{ESC}[2 q",
]

DROPPED = [
    f"{ESC}]0;title\x07",
    f"{ESC}]52;c;aGVsbG8=\x07",
    f"{ESC}]10;?{ESC}\\",
    f"{ESC}P$q q{ESC}\\",
    f"{ESC}P+q544e{ESC}\\",
    f"{ESC}_payload{ESC}\\",
    f"{ESC}^private{ESC}\\",
    f"{ESC}Xstring{ESC}\\",
    f"{ESC}]0;ended by C1\u009c",
    "\u009d0;begun by C1\x07",
    "\u0090$q\u009c",
    "\u009b31m",
    "\u0085\u008e\u0080",
    *(f"{ESC}[{final}" for final in "cntxyipNORVWYjklovwz{|}~"),
    f"{ESC}[6n",
    f"{ESC}[22;2t",
    f"{ESC}[>c",
    f"{ESC}[>4;2m",
    f"{ESC}[=c",
    f"{ESC}[<u",
    f"{ESC}[?u",
    f"{ESC}[?6n",
    f"{ESC}[?1004h",
    f"{ESC}[?9999h",
    f"{ESC}[2h",
    f"{ESC}[!p",
    f"{ESC}[2$p",
    f"{ESC}[1>m",
    f"{ESC}[999999999b",
    f"{ESC}[{MAX_SEQUENCE * '1;'}m",
    f"{ESC}Z",
    f"{ESC}c",
    f"{ESC}#8",
    f"{ESC} G",
    f"{ESC}%G",
    f"{ESC}(K",
    f"{ESC}\\",
    "\0\x01\x02\x03\x04\x05\x06\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1c\x1d\x1e\x1f\x7f",
]

#: Sequences that end or interrupt others, and similar cases.
MADE_OF = [
    (f"{ESC}[?1049;9999h", f"{ESC}[?1049h"),
    (f"a{ESC}]0;t{ESC}[1mb", f"a{ESC}[1mb"),
    (f"a{ESC}]0;t\x18b", "ab"),
    (f"a{ESC}[3\x18b", "ab"),
    (f"a{ESC}[3\x1ab", "ab"),
    (f"a{ESC}[3{ESC}[1mb", f"a{ESC}[1mb"),
    (f"a{ESC}[3\u00e9b", "a\u00e9b"),
    (f"a{ESC}[3\u009b1mb", "ab"),
    (f"a{ESC}{ESC}[1mb", f"a{ESC}[1mb"),
    (f"a{ESC}[\r1\x05mb", f"a\r{ESC}[1mb"),
    (f"a{ESC}\u00e9b", "a\u00e9b"),
    ("a\u202eb\u200f", "a\ufffdb\ufffd"),
    ("a\u200bb\ufeff\U000e0041\u200d", "a\ufffdb\ufffd\ufffd\u200d"),
    (f"a{ESC}]{MAX_STRING * 'x'}b", "ab"),
    (f"a{ESC}]{(MAX_STRING - 1) * 'x'}{ESC}\\b", "ab"),
    (f"a{ESC}]never ended", "a"),
]


def shown(octets: bytes, screen: Screen | None = None) -> bytes:
    return (screen or Screen()).feed(octets)


def octet_by_octet(octets: bytes, screen: Screen) -> bytes:
    return b"".join(screen.feed(octets[at : at + 1]) for at in range(len(octets)))


@pytest.mark.parametrize("text", PASSES)
def test_screen_passes_move_color_and_clear(text: str) -> None:
    octets = text.encode()
    assert shown(octets) == octets == octet_by_octet(octets, Screen())


@pytest.mark.parametrize("text", DROPPED)
def test_screen_drops_strings_and_queries(text: str) -> None:
    octets = f"a{text}b".encode()
    assert shown(octets) == b"ab" == octet_by_octet(octets, Screen())


@pytest.mark.parametrize(("text", "shown_text"), MADE_OF)
def test_screen_handles_interrupted_sequences(text: str, shown_text: str) -> None:
    assert shown(text.encode()) == shown_text.encode() == octet_by_octet(text.encode(), Screen())


def test_screen_replaces_invalid_utf8() -> None:
    assert shown(b"caf\xe9 \xc3\xa9\x9b31m") == "caf\ufffd \u00e9\ufffd31m".encode()
    assert Screen(utf8=False).feed(b"caf\xe9 \x9b31mb\x9d0;t\x9cc\x85") == b"caf\xe9 bc"


@pytest.mark.parametrize("text", [*PASSES[2:], *DROPPED[:4]])
def test_plain_screen_drops_sequences(text: str) -> None:
    assert PlainScreen().feed(f"a{text}b".encode()).replace(b" red ", b"").replace(b" ", b"") == b"ab"


def test_plain_screen_escapes_control_characters() -> None:
    octets = "a\x07\x05\x08\t\r\n\x0b\x0e\x7f\u009b31m\u202e\U000e0041\u00e9".encode()
    assert (
        PlainScreen().feed(octets)
        == "a\\x07\\x05\x08\t\r\n\\x0b\\x0e\\x7f\\x9b\\u202e\\U000e0041\u00e9".encode()
    )


def test_raw_screen_passes_bytes_and_tracks_modes() -> None:
    screen = RawScreen()
    assert screen.feed(b"\x1b]0;t\x07\x1b[?1049h\xff") == b"\x1b]0;t\x07\x1b[?1049h\xff"
    assert screen.reset_sequences == b"\x1b[?1049l"


@pytest.mark.parametrize(
    ("sent", "reset"),
    [
        ("text \x1b[H\x1b[2J\x1b[0m", ""),
        ("\x1b[?1049h\x1b[?25l\x1b[?1h\x1b=", "\x1b[?1049l\x1b[?25h\x1b[?1l\x1b>"),
        ("\x1b[?1049h\x1b[?25l\x1b[?1h\x1b=\x1b[?1049l\x1b[?25h\x1b[?1l\x1b>", ""),
        ("\x1b[?7;25l", "\x1b[?25h\x1b[?7h"),
        ("\x1b[1;23r", "\x1b7\x1b[r\x1b8"),
        ("\x1b[1;23r\x1b[r", ""),
        ("\x1b[1;31m", "\x1b[m"),
        ("\x1b[31m\x1b[0;0m", ""),
        ("\x1b(0\x0e", "\x1b(B\x0f"),
        ("\x1b(0\x0e\x0f\x1b(B", ""),
        ("\x1b[3 q", "\x1b[0 q"),
        ("\x1b[4h\x1b[20h", "\x1b[4l\x1b[20l"),
        ("\x1b[?1000;1006;2004h", "\x1b[?1000l\x1b[?1006l\x1b[?2004l"),
        ("\x1b[?1004h\x1b]0;t\x07\x1b[?12h", ""),
    ],
)
def test_screen_reset_sequences_reset_modes(sent: str, reset: str) -> None:
    screen = Screen()
    screen.feed(sent.encode())
    assert screen.reset_sequences == reset.encode()
    screen.feed(screen.reset_sequences)
    assert screen.reset_sequences == b""


#: Parts of control sequences, and other bytes.
MEANINGFUL = st.lists(
    st.one_of(
        st.sampled_from([b"\x1b", b"\x1b[", b"\x1b]", b"\x1bP", b"\x1b\\", b"\x07", b"\x18", b"\xc2\x9b"]),
        st.sampled_from([b"?", b";", b"1049", b"25", b"h", b"l", b"m", b"c", b"n", b"(", b"0", b" q", b">"]),
        st.binary(min_size=1, max_size=3),
    ),
    max_size=60,
).map(b"".join)


@settings(max_examples=200)
@given(MEANINGFUL, st.lists(st.integers(0, 100), max_size=5), st.sampled_from([Screen, PlainScreen]))
def test_screen_output_is_stable_for_any_split(octets: bytes, cuts: list[int], kind: type[Screen]) -> None:
    places = [0, *sorted(cut for cut in cuts if cut < len(octets)), len(octets)]
    whole, cut = kind(), kind()
    out = whole.feed(octets)
    assert b"".join(cut.feed(octets[start:end]) for start, end in pairwise(places)) == out
    assert cut.reset_sequences == whole.reset_sequences
    again = kind()
    assert again.feed(out) == out  # the output is stable: a dropped sequence does not create another


# Terminal output of complete sessions: recorded ones and that of a bulletin board.

RECORDINGS = sorted(Path("fixtures/recordings/telnet").glob("*.json"))

#: Text and sequences that move, color or clear.
HARMLESS = re.compile(
    rb"[^\0-\x06\x10-\x1f\x7f]|\x1b[78=>DEHM]|\x1b[()][0AB]|\x1b\[\?[0-9;]+[hl]|\x1b\[[0-9;:]*[@A-MPSTXZ`a-bd-hlmrsu]"
)


def shown_in_terminal(octets: bytes, shown: TerminalOutput, size: int) -> bytes:
    """Return the output for all bytes, fed in pieces of `size` bytes."""
    terminal, out = NvtTerminal(b"xterm"), b""
    for at in range(0, len(octets), size):
        for happening in terminal.feed(octets[at : at + size]):
            if isinstance(happening, TelnetData):
                out += shown.show_data(happening.octets, binary=terminal.receives_binary)
    return out


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_recorded_sessions_show_harmless_sequences_only(path: Path) -> None:
    exchanges = json.loads(path.read_text())["exchanges"]
    octets = b"".join(bytes.fromhex(exchange["hex"]) for exchange in exchanges if exchange["dir"] == "server")
    if len(octets) > 40_000:
        octets = octets[:40_000]
    out = shown_in_terminal(octets, TerminalOutput(), len(octets) or 1)
    assert HARMLESS.sub(b"", out) == b""
    assert shown_in_terminal(octets, TerminalOutput(), 1) == out
    assert b"\x1b" not in shown_in_terminal(octets, TerminalOutput(plain=True), 7)


def test_recordings_exist() -> None:
    assert len(RECORDINGS) > 50


def read_as_utf8(text: str) -> str:
    """Return CP437 text as a UTF-8 terminal decodes it."""
    return text.encode("cp437").decode("utf-8", "replace")


@pytest.mark.parametrize("size", [1, 3, len(FIRST_PAGE)])
def test_bulletin_board_is_drawn_correctly(size: int) -> None:
    out = shown_in_terminal(FIRST_PAGE, TerminalOutput(), size)
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
