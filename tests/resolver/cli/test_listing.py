"""`ls` for people: columns of every scheme, sort order, numbers for `--follow`, and colors on a terminal."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from resolver import Entry, Kind
from resolver.cli.listing import EntryColors, fit, load_colors, short_columns
from tests.resolver.cli.command import resolve
from tests.resolver.cli.terminal import Terminal
from tests.resolver.cli.terminal import on_terminal as beside_a_terminal
from tests.resolver.cli.test_streams import on_terminal

#: A URL of every scheme with listings, and the first column of its first entry.
LONG = {
    "{ftp}/pub/;type=d": "document",
    "{gopher}/11/sub": "document",
    "{http}/pub/": "directory",
    "{nntp}/comp.misc": "article",
    "{wais}/demo?ferry": "document",
    "{file}/": "document",
}


@pytest.mark.parametrize("place", LONG)
def test_ls_long_has_same_columns_for_every_scheme(at: dict[str, str], place: str) -> None:
    done = resolve("ls", "-q", "-l", place.format(**at))
    assert done.status == 0
    lines = done.out.decode("utf-8", "surrogateescape").splitlines()
    assert lines[0].startswith(LONG[place])
    for number, line in enumerate(lines, 1):
        kind, size, date, types, shown = line.split(maxsplit=5)[:5]
        assert Kind(kind)
        assert size == "-" or size.lstrip("~")[0].isdigit()
        assert date == "-" or date.lstrip("~")[:4].isdigit()
        assert (shown, bool(types)) == (str(number), True)
        assert (line[55:57], line[57:58].strip()) != ("  ", "")  # names begin at the same column


def test_ls_with_nlst_option_has_names_only(at: dict[str, str]) -> None:
    done = resolve("ls", "-q", "-l", "--nlst", f"{at['ftp']}/pub/")
    assert done.out.startswith(b"unknown              -  -  ")
    assert resolve("ls", "--mlsd", "--nlst", f"{at['ftp']}/pub/").status == 2


def test_ls_json_of_ftp_has_kind_size_and_date(at: dict[str, str]) -> None:
    result = {row["name"]: row for row in resolve("ls", "-q", "--json", f"{at['ftp']}/pub/").records}
    assert (result["a.txt"]["kind"], result["a.txt"]["size"]) == ("document", 29)
    assert result["a.txt"]["modified"] == "2001-09-09T01:46:40Z"
    assert result["names"]["kind"] == "directory"


def test_ls_long_marks_rounded_sizes_and_dates(at: dict[str, str]) -> None:
    assert resolve("ls", "-q", "-l", f"{at['http']}/pub/").out == (
        b"directory            -  ~2001-09-09T01:46     -       1  sub/\n"
        b"document             7  ~2001-09-09T01:46     -       2  a b\n"
        b"document          ~39K  ~2002-10-10T02:46     -       3  big.iso\n"
    )


@pytest.mark.parametrize(
    ("key", "names"),
    [
        ("name", [b"a b", b"big.iso", b"sub"]),
        ("size", [b"big.iso", b"a b", b"sub"]),  # 39K is more than 7; a directory has no size
        ("date", [b"big.iso", b"sub", b"a b"]),
    ],
)
def test_ls_sort_orders_entries_and_keeps_numbers(at: dict[str, str], key: str, names: list[bytes]) -> None:
    url = f"{at['http']}/pub/"
    assert resolve("ls", "-q", "--sort", key, url).out.splitlines() == names
    records = resolve("ls", "-q", "--json", "--sort", key, url).records
    assert [record["name"].encode() for record in records] == names
    numbers = [line.split()[4] for line in resolve("ls", "-lq", "--sort", key, url).out.splitlines()]
    assert sorted(numbers) == [b"1", b"2", b"3"]
    assert numbers == [b"%d" % ([b"sub", b"a b", b"big.iso"].index(name) + 1) for name in names]


def test_ls_sort_respects_entry_limit(at: dict[str, str]) -> None:
    done = resolve("ls", "--sort", "name", "--limit", "entries=2", f"{at['http']}/pub/")
    assert (done.status, done.out) == (7, b"")
    assert "more than 2 entries" in done.messages


def test_follow_selects_entry_by_number(at: dict[str, str], folder: Path) -> None:
    lines = resolve("ls", "-q", "-l", f"{at['gopher']}/").out.decode().splitlines()
    (number,) = [line.split()[4] for line in lines if line.endswith("  About")]
    assert resolve("cat", "-q", "--follow", number, f"{at['gopher']}/").out.startswith(b"A text of two")
    done = resolve("get", "--follow", number, f"{at['gopher']}/")
    assert done.status == 0
    assert [path.read_bytes()[:13] for path in folder.iterdir()] == [b"A text of two"]
    (number,) = [line.split()[4] for line in lines if line.endswith("  A folder/")]
    direct = resolve("ls", "-q", "--json", f"{at['gopher']}/11/sub").records
    followed = resolve("ls", "-q", "--json", "--follow", number, f"{at['gopher']}/").records
    assert [entry["url"] for entry in followed] == [entry["url"] for entry in direct]


def test_follow_checks_entry_as_link(at: dict[str, str]) -> None:
    """The user chose a number in an untrusted menu: the rules for links apply."""
    lines = resolve("ls", "-q", "--json", f"{at['gopher_menu']}/").records
    assert lines[0]["url"].startswith("gopher://h.example")
    done = resolve("cat", "--follow", "1", "--policy", "untrusted", f"{at['gopher_menu']}/")
    assert done.status != 0
    assert done.out == b""


@pytest.mark.parametrize(("number", "words"), [("2", "has no URL"), ("99", "no entry 99")])
def test_follow_entry_without_url_exits_with_status_8(at: dict[str, str], number: str, words: str) -> None:
    done = resolve("cat", "--follow", number, f"{at['gopher_menu']}/")
    assert (done.status, done.out) == (8, b"")
    assert words in done.messages


@pytest.mark.parametrize("number", ["0", "-1", "x", "1.5", "1" * 30])
def test_follow_invalid_number_is_usage_error(number: str) -> None:
    assert resolve("ls", f"--follow={number}", "gopher://h.example/").status == 2


def test_ls_on_terminal_has_colors_and_slashes(at: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"{at['http']}/pub/"
    for name in ("NO_COLOR", "LS_COLORS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert on_terminal(monkeypatch, "ls", url) == (0, b"\x1b[01;34msub\x1b[0m/\na b\nbig.iso\n")
    monkeypatch.setenv("LS_COLORS", "di=32:*.iso=01;31:ln=\x1b[5m:fi=x")
    assert on_terminal(monkeypatch, "ls", url)[1] == (
        b"\x1b[32msub\x1b[0m/\na b\n\x1b[01;31mbig.iso\x1b[0m\n"
    )
    monkeypatch.setenv("NO_COLOR", "1")
    assert on_terminal(monkeypatch, "ls", url)[1] == b"sub/\na b\nbig.iso\n"
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert on_terminal(monkeypatch, "ls", url)[1] == b"sub/\na b\nbig.iso\n"
    assert resolve("ls", url).out == b"sub\na b\nbig.iso\n"


def test_ls_colored_name_is_escaped(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """S15: the name is escaped before it is colored."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("LS_COLORS", "fi=31")
    (folder / "n\x1b[2Jx").write_bytes(b"")
    status, shown = on_terminal(monkeypatch, "ls", "-l", folder.as_uri() + "/")
    assert status == 0
    assert shown.endswith(b"  \x1b[31mn\\x1b[2Jx\x1b[0m\n")


@pytest.mark.parametrize("color", ["", "x", "31m\x1b]0;owned\x07", "1" * 40, "31;"])
def test_ls_invalid_color_is_ignored(color: str) -> None:
    colors = load_colors({"TERM": "xterm", "LS_COLORS": f"di={color}:fi={color}"})
    assert colors.paint(Entry(name="x", kind=Kind.DOCUMENT), "x") == "x"
    assert isinstance(colors, EntryColors)


NAMES = [
    "a",
    "x" * 200,
    "archive-of-many-things-2001.tar.gz",
    "日本語のとても長い名前のファイル.txt",
    "e\u0301" * 40,
    "n\x1b[2J" * 20,
]


@pytest.mark.parametrize("columns", [40, 41, 60, 79])
async def test_ls_long_fits_one_row_on_narrow_terminal(columns: int, folder: Path) -> None:
    """A row contains the beginning and the end of any name, and the number for `--follow`."""
    place = folder / "there"
    place.mkdir()
    for name in NAMES:
        (place / name).write_bytes(b"")
    (place / "sub").mkdir()
    os.truncate(place / "a", 123_456_789_012)
    terminal = Terminal(columns)
    shown = ("ls", "-l", "--sort", "name", place.as_uri() + "/")
    async with beside_a_terminal(terminal, folder, *shown, stdout=terminal.slave) as command:
        assert await command.status() == 0
    rows = terminal.rows
    assert len(rows) == len(NAMES) + 1
    assert sorted(int(row.split()[3]) for row in rows) == list(range(1, len(rows) + 1))
    assert rows[0].split()[:2] == ["doc", "~114G"]
    assert next(row for row in rows if row.startswith("dir")).endswith(" sub/")
    assert sum(row.endswith("gz") for row in rows) == 1


async def test_ls_long_on_wide_terminal_has_full_columns(folder: Path) -> None:
    (folder / "there").mkdir()
    (folder / "there" / "archive-of-many-things.tar.gz").write_bytes(b"")
    terminal = Terminal(100)
    url = (folder / "there").as_uri() + "/"
    async with beside_a_terminal(terminal, folder, "ls", "-l", url, stdout=terminal.slave) as command:
        assert await command.status() == 0
    (row,) = terminal.rows
    assert (row.split()[0], row.index("archive")) == ("document", 57)


FITTED = [
    ("short", 10, "short"),
    ("exactly-10", 10, "exactly-10"),
    ("eleven-of-it", 11, "eleven-…-it"),
    ("日本語日本語日本語", 9, "日本語…語"),
    ("0123456789", 0, "01234…89"),
]


@pytest.mark.parametrize(("text", "columns", "shown"), FITTED)
def test_fit_shortens_name_in_middle(text: str, columns: int, shown: str) -> None:
    assert fit(text, columns) == shown


SHORT = [
    (Entry(name="x"), "unk      - -              7 "),
    (Entry(name="x", kind=Kind.DOCUMENT, size=99_999), "doc  99999 -              7 "),
    (Entry(name="x", kind=Kind.DOCUMENT, size=102_400), "doc  ~100K -              7 "),
    (Entry(name="x", kind=Kind.DOCUMENT, size=2**63 - 1), "doc ~8191P -              7 "),
    (
        Entry(name="x", extra={"size_text": "1.5 MiB", "modified_local": "2001-09-08T21:46"}),
        "unk ~1.5Mi ~2001-09-08    7 ",
    ),
    (
        Entry(name="x", extra={"size_text": "\x1b[2J", "modified_local": "\x1b[2J"}),
        "unk    ~2J -              7 ",
    ),
    (Entry(name="x", modified=datetime(2001, 9, 9, tzinfo=UTC)), "unk      - 2001-09-09     7 "),
]


@pytest.mark.parametrize(("entry", "shown"), SHORT)
def test_short_columns_of_entry_have_fixed_width(entry: Entry, shown: str) -> None:
    assert short_columns(entry, 7) == shown
