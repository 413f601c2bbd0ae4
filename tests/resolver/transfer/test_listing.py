"""Listings as text: one line for each entry, short or long, for any name or type that a server sends."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from protocols.contract import JsonValue
from resolver import Entry, Kind
from resolver.transfer.streaming import listing_line, listing_octets, long_line


def test_long_line_shows_known_facts() -> None:
    entry = Entry(
        name="Twin map",
        kind=Kind.DOCUMENT,
        size=57,
        modified=datetime(1994, 12, 20, tzinfo=UTC),
        extra={"types": ["TEXT", "GIF"]},
    )
    assert long_line(entry, 3, "Twin map") == (
        "document            57  1994-12-20T00:00:00Z  TEXT,GIF    3  Twin map"
    )
    assert long_line(Entry(name="x"), 12, "x") == "unknown              -  -                     -      12  x"


def test_long_line_marks_approximate_values() -> None:
    loose: dict[str, JsonValue] = {"size_text": "39 KiB", "modified_local": "2001-09-08T21:46"}
    assert long_line(Entry(name="x", extra=loose), 1, "x/").split() == [
        "unknown",
        "~39KiB",
        "~2001-09-08T21:46",
        "-",
        "1",
        "x/",
    ]


#: The types of an entry, and the column of the line.
TYPES: list[tuple[JsonValue, str]] = [
    (["URL"], "URL"),
    (["A B", "C\nD", "\x1b[2J"], "A?B,C?D,?[2J"),
    ([], "-"),
    (["", None, 3], "-"),
    (None, "-"),
    ("0", "0"),
]


@pytest.mark.parametrize(("types", "shown"), TYPES)
def test_long_line_shows_types_in_one_column(types: JsonValue, shown: str) -> None:
    entry = Entry(name="a name", extra={"types" if isinstance(types, list) else "type": types})
    assert long_line(entry, 1, "a name").split() == ["unknown", "-", "-", shown, "1", "a", "name"]


#: The permissions sent by an FTP server, and the column of the line.
RIGHTS: list[tuple[dict[str, JsonValue], str]] = [
    ({"type": "file", "perm": "adfr"}, "adfr   "),
    ({"type": "dir", "perm": "flcdmpe"}, "flcdmpe"),
    ({"type": "file", "unix.mode": "0644"}, "0644"),
    ({"source": "list", "mode": "drwxr-xr-x"}, "drwxr-xr-x"),
    ({"perm": "r\x1b[2J w"}, "r?[2J?w"),
    ({"type": "file", "perm": ""}, "-   "),
    ({"type": "file", "perm": 7}, "-   "),
]


@pytest.mark.parametrize(("facts", "shown"), RIGHTS)
def test_long_line_shows_permissions_in_one_column(facts: dict[str, JsonValue], shown: str) -> None:
    line = long_line(Entry(name="a name", kind=Kind.DOCUMENT, size=1, extra=facts), 1, "a name")
    assert line == f"document             1  -                     {shown}    1  a name"


def test_listing_line_escapes_line_ends() -> None:
    entry = Entry(name="two\r\nlines")
    assert listing_octets([entry]) == b"two\\x0d\\x0alines\n"
    article = Entry(name="12", title="Sub\njekt", kind=Kind.ARTICLE)
    assert listing_line(article) == "12 Sub\\x0ajekt"
