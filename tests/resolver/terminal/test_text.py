"""Untrusted text on a terminal (S15)."""

from __future__ import annotations

from encodings.aliases import aliases

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resolver.terminal.text import TerminalText, escape, escape_line

BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
TITLE = "\x1b]0;rm -rf\x07"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("two\r\nlines\r\n", "two\nlines\n"),
        ("over\rwritten", "over\\x0dwritten"),
        ("\r\r\n", "\\x0d\n"),
        (TITLE, "\\x1b]0;rm -rf\\x07"),
        ("\x00\x08\x0b\x0c\x7f", "\\x00\\x08\\x0b\\x0c\\x7f"),
        ("\x80\x9b31m\x9f\xa0", "\\x80\\x9b31m\\x9f\xa0"),
        ("a\u202etxt", "a\\u202etxt"),
        ("\udc80\udcff\udc7f\ud800\udd00", "\\x80\\xff\\udc7f\\ud800\\udd00"),
        ("naïve 日本 🙂 \u200c\u200d", "naïve 日本 🙂 \u200c\u200d"),
        ("pay\u200bpal\ufeff \u2060\xad", "pay\\u200bpal\\ufeff \\u2060\\xad"),
        ("a\U000e0001\U000e0041\U000e007f", "a\\U000e0001\\U000e0041\\U000e007f"),
        ("\\x1b", "\\x1b"),
    ],
)
def test_escape(text: str, shown: str) -> None:
    assert escape(text) == shown


def test_escape_covers_control_and_invisible_characters_only() -> None:
    driving = {chr(c) for c in (*range(0x20), *range(0x7F, 0xA0), *range(0xD800, 0xE000))} | set(BIDI)
    unseen = {*range(0x2060, 0x2065), *range(0xFFF9, 0xFFFC), *range(0xE0000, 0xE0080)}
    unseen |= {0xAD, 0x180E, 0x200B, 0x2028, 0x2029, 0xFEFF}
    for code in (*range(0x3000), *range(0xFE00, 0x10000), *range(0xE0000, 0xE0200)):
        is_unchanged = chr(code) not in driving - {"\n", "\t"} and code not in unseen
        assert (escape(chr(code)) == chr(code)) is is_unchanged, hex(code)


def test_escape_line_escapes_line_ends() -> None:
    assert escape_line("a\r\nb\nc\td\x1b") == "a\\x0d\\x0ab\\x0ac\td\\x1b"


def through(octets: bytes, charset: str | None, size: int) -> str:
    text = TerminalText(charset)
    pieces = [text.feed(octets[at : at + size]) for at in range(0, len(octets), size)]
    return "".join(pieces) + text.finish()


@pytest.mark.parametrize("size", [1, 2, 3, 1000])
@pytest.mark.parametrize(
    ("octets", "charset", "shown"),
    [
        (b"one\r\ntwo\rthree\r\n\r", None, "one\ntwo\\x0dthree\n\\x0d"),
        ("naïve 日本 🙂".encode(), None, "naïve 日本 🙂"),
        (b"caf\xe9 na\xc3\xafve", None, "café naïve"),  # mixed: some bytes are not UTF-8
        (b"a\x9bb\xc2\x9bc", None, "a\\x9bb\\x9bc"),  # CSI, as a byte and in UTF-8
        (b"cut \xe6\x97", None, "cut æ\\x97"),  # ended inside a character
        ("\u202e".encode(), "utf-8", "\\u202e"),
        ("\ufeffa\u200b\U000e0041".encode(), None, "\\ufeffa\\u200b\\U000e0041"),
        (b"caf\xe9\x85", "iso-8859-1", "café\\x85"),
        (b"caf\xe9", "utf-8", "caf\ufffd"),
        ("日本\r\n".encode("utf-16"), "utf-16", "日本\n"),
        ("日本\r\n".encode("iso2022_jp"), "ISO-2022-JP", "日本\n"),
        (b"caf\xe9", "no-such-charset", "café"),
        (b"caf\xe9", "zlib", "café"),  # a codec, not a character set
        (b"\\x1b", "unicode_escape", "\\x1b"),
        (b"x", "a\0b", "x"),
        (TITLE.encode("ascii"), "us-ascii", "\\x1b]0;rm -rf\\x07"),
        (b"", None, ""),
    ],
)
def test_terminal_text_decodes_pieces_of_any_size(
    octets: bytes, charset: str | None, shown: str, size: int
) -> None:
    assert through(octets, charset, size) == shown


@given(st.binary(), st.none() | st.sampled_from(sorted(aliases)) | st.text(max_size=8), st.integers(1, 9))
def test_terminal_text_of_any_bytes_is_harmless(octets: bytes, charset: str | None, size: int) -> None:
    shown = through(octets, charset, size)
    assert escape(shown) == shown
    shown.encode("utf-8")


@given(st.text(), st.integers(1, 9))
def test_terminal_text_is_independent_of_pieces(text: str, size: int) -> None:
    octets = text.encode("utf-8", "replace")
    assert through(octets, None, size) == escape(octets.decode())
