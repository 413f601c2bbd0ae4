"""Tests of charset names, which map to Python's text codecs only, of decoding, and of timestamps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from protocols.text import decode_text, find_codec, format_count, instant


@pytest.mark.parametrize(
    ("name", "codec"),
    [
        ("UTF-8", "utf_8"),
        ("ISO_8859-1:1987", "latin_1"),
        ("ANSI_X3.4-1968", "ascii"),
        ("KOI8-U", "koi8_u"),
        ("windows-1252", "cp1252"),
        ("Shift_JIS", "shift_jis"),
        ("utf-7", "utf_7"),
        ("hex", None),
        ("rot13", None),
        ("idna", None),
        ("unicode_escape", None),
        ("unicode-escape", None),
        ("undefined", None),
        ("mbcs", None),
        ("utf-8\u00e9", None),
        ("utf\0-8", None),
        ("", None),
        ("-", None),
        ("utf-8" + " " * 40, None),
    ],
)
def test_codec_of_charset_names(name: str, codec: str | None) -> None:
    assert find_codec(name) == codec


# Timestamps in records.


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (None, None),
        (datetime(2001, 9, 9, 1, 46, 40, tzinfo=UTC), "2001-09-09T01:46:40Z"),
        (datetime(2001, 9, 9, 1, 46, 40), "2001-09-09T01:46:40Z"),
        (datetime(2001, 9, 9, 3, 46, 40, tzinfo=timezone(timedelta(hours=2))), "2001-09-09T01:46:40Z"),
        (datetime(1, 2, 3, 4, 5, 6, 789_000, tzinfo=UTC), "0001-02-03T04:05:06Z"),
    ],
)
def test_instant_is_utc(moment: datetime | None, text: str | None) -> None:
    assert instant(moment) == text


def test_decode_text_decodes_utf_8_or_latin_1() -> None:
    assert [decode_text("Grüße".encode()), decode_text("Grüße".encode("latin-1"))] == ["Grüße", "Grüße"]


def test_format_count_has_separators_and_plural() -> None:
    assert format_count(1, "byte") == "1 byte"
    assert format_count(12_345, "byte") == "12,345 bytes"
    assert format_count(0, "URL") == "0 URLs"
    assert format_count(2, "entry", "entries") == "2 entries"
