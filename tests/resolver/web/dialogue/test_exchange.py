"""Texts shown in an exchange: masked secrets, escaped control characters, at most `CELLS` cells a line."""

from __future__ import annotations

import pytest

from resolver.terminal.text import measure_width
from resolver.web.dialogue.exchange import (
    CELLS,
    LINES,
    escape_text,
    make_preview,
    mask_logins,
    show_note,
    split_message,
    truncate,
    wrap_text,
)

#: Bytes with a secret, and their masked form.
SECRETS = [
    (b"USER alice\r\n", b"USER ****\r\n"),
    (b"user alice\r\n", b"user ****\r\n"),
    (b"PASS hunter2 and more\r\n", b"PASS ****\r\n"),
    (b"ACCT x\r\n", b"ACCT ****\r\n"),
    (b"AUTHINFO USER alice\r\n", b"AUTHINFO USER ****\r\n"),
    (b"AUTHINFO PASS hunter2\r\n", b"AUTHINFO PASS ****\r\n"),
    (b"AUTHINFO SASL PLAIN AGFsaWNl\r\n", b"AUTHINFO SASL ****\r\n"),
    (b"GROUP a\r\nPASS b\r\nARTICLE 1\r\n", b"GROUP a\r\nPASS ****\r\nARTICLE 1\r\n"),
    (b"Authorization: Basic YTpi\r\n", b"Authorization: Basic ****\r\n"),
    (b"authorization:Digest username=a, x=b\r\n", b"authorization:Digest ****\r\n"),
    (b"Proxy-Authorization: Basic YTpi\r\n", b"Proxy-Authorization: Basic ****\r\n"),
    (b"Cookie: a=b; c=d\r\nHost: h\r\n", b"Cookie: ****\r\nHost: h\r\n"),
    (b"Set-Cookie: a=b; Path=/\r\n", b"Set-Cookie: ****\r\n"),
    (b"X-Auth-Token: abc\r\n", b"X-Auth-Token: ****\r\n"),
    (b"X-Api-Key: abc\r\n", b"X-Api-Key: ****\r\n"),
    (b"GET /a?token=abc&b=1 HTTP/1.1\r\n", b"GET /a?token=****&b=1 HTTP/1.1\r\n"),
    (b"GET /a?b=1&access_token=abc HTTP/1.1\r\n", b"GET /a?b=1&access_token=**** HTTP/1.1\r\n"),
]
#: Bytes that resemble a secret. A reader who learns anonymous FTP needs them.
PLAIN = [
    b"USER anonymous\r\n",
    b"USER ftp\r\n",
    b"PASV\r\n",
    b"331 Password, please\r\n",
    b"Host: cookie.example\r\n",
    b"GET /tokens HTTP/1.1\r\n",
]


@pytest.mark.parametrize(("octets", "masked"), SECRETS)
def test_mask_logins_masks_secret(octets: bytes, masked: bytes) -> None:
    assert mask_logins(octets) == masked
    assert mask_logins(octets.rstrip(b"\r\n")) == masked.rstrip(b"\r\n")


@pytest.mark.parametrize("octets", PLAIN)
def test_mask_logins_keeps_text_without_secret(octets: bytes) -> None:
    assert mask_logins(octets) == octets
    assert mask_logins(octets.rstrip(b"\r\n")) == octets.rstrip(b"\r\n")


def test_lines_of_long_secret_masks_before_truncation() -> None:
    assert split_message(b"Cookie: " + b"s3cret" * 100) == ("Cookie: ****",)
    assert make_preview(b"\0\1token=abcdefgh") == ("token=****",)


def test_lines_of_long_text_are_truncated_and_counted() -> None:
    assert split_message(b"a\r\nb\nc\r\n\r\n") == ("a", "b", "c")
    assert split_message(b"\r\n") == ("(empty line)",)
    lines = split_message(b"x\r\n" * 1000)
    assert len(lines) == LINES
    assert lines[-1] == f"… {1000 - LINES + 1} more lines"
    assert measure_width(split_message(b"y" * 10_000)[0]) == CELLS


@pytest.mark.parametrize(
    ("text", "cells", "expected"),
    [
        ("abc", 3, "abc"),
        ("abcd", 3, "ab…"),
        ("漢字漢字", 8, "漢字漢字"),
        ("漢字漢字", 7, "漢字漢…"),
        ("漢字漢字", 6, "漢字…"),
        ("e\u0301e\u0301e\u0301", 3, "e\u0301e\u0301e\u0301"),
    ],
)
def test_cut_counts_terminal_cells(text: str, cells: int, expected: str) -> None:
    assert truncate(text, cells) == expected
    assert measure_width(expected) <= cells


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\x1b[2Jb", "a\\x1b[2Jb"),
        ("\u202egpj.exe", "\\u202egpj.exe"),
        ("a\u200b\ufeff\u2028b", "a\\u200b\\ufeff\\u2028b"),
        ("a\ufffe\uffff\ud800\udcffb", "a\\ufffe\\uffff\\ud800\\xffb"),
        ("a\r\nb\rc\nd\te", "a\\x0d\\x0ab\\x0dc\\x0ad → e"),
    ],
)
def test_escape_text_escapes_control_characters(text: str, expected: str) -> None:
    assert escape_text(text) == expected
    assert show_note(text) == expected


def test_preview_shows_readable_text_only() -> None:
    assert make_preview(b"one\ntwo\nthree\nfour\n") == ("one", "two", "three")
    assert make_preview("é".encode() * 300)[0].startswith("ééé")  # Truncated within a character.
    assert make_preview(b"") == ()
    assert make_preview(bytes(range(128, 256)) * 4) == ()
    assert make_preview(b"0000000039z2wais        0\0\x16\x16demo\x14ferryo\x01") == (
        "0000000039z2wais        0 · demo · ferryo",
    )


def test_wrap_text_breaks_lines_between_words() -> None:
    assert wrap_text("one two three", 8) == ("one two", "three")
    assert wrap_text("abcdefghij k", 4) == ("abcd", "efgh", "ij k")
    assert wrap_text("", 4) == ("",)
