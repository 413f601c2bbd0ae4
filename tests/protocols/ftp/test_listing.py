"""Tests of FTP listings: LIST, NLST and MLSD as entries, and the dialogues that request them.

The lines come from recorded servers and from documentation.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.ftp.listing import ListReader, MlsdReader, NlstReader, parse_date, shown_name, split_lines
from protocols.text import instant
from resolver import (
    AccessDenied,
    Entry,
    Finding,
    FtpUrl,
    Kind,
    LimitExceeded,
    Limits,
    NotFound,
    Options,
    ResolveError,
    Truncated,
    TryLater,
)
from tests.protocols.ftp.script import Outcome, Script, play
from tests.protocols.typed_url import parse_as

RECORDINGS = Path(__file__).parents[3] / "fixtures" / "recordings" / "listings"
#: The time of the recordings.
NOW = datetime(2026, 11, 22, 12, 18, tzinfo=UTC)


def directory_url() -> FtpUrl:
    return parse_as(FtpUrl, "ftp://h/d/")


def reader_of(form: str, findings: list[Finding]) -> ListReader | MlsdReader | NlstReader:
    if form == "list":
        return ListReader(directory_url(), Limits(), findings, NOW)
    if form == "mlsd":
        return MlsdReader(directory_url(), Limits(), findings)
    return NlstReader(directory_url(), b"", Limits(), findings)


def read(form: str, octets: bytes, step: int = 1 << 20) -> tuple[list[Entry], list[Finding]]:
    findings: list[Finding] = []
    reader = reader_of(form, findings)
    pieces = (octets[at : at + step] for at in range(0, len(octets), step))
    entries = [entry for piece in pieces for entry in reader.feed(piece)]
    return [*entries, *reader.finish()], findings


def rows(name: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in (RECORDINGS / name).read_text().splitlines()]


def extra_member(entry: Entry, member: str) -> object:
    return (entry.extra or {}).get(member)


def shown(row: dict[str, object]) -> str:
    """Return the name of the row, or the complete line if the row has no name."""
    if row["name"] is None:
        return shown_name(str(row["raw"]).encode("latin-1"))
    return shown_name(str(row["name"]).encode("utf-8", "surrogateescape"))


#: The findings that the notes of the rows may name.
LIST_ODDITIES = {"ftp:list-link", "ftp:list-date", "ftp:list-size", "ftp:list-line", "ftp:list-name"}


@pytest.mark.parametrize("row", rows("list-lines.jsonl"), ids=lambda row: repr(row["raw"])[:50])
def test_list_line_gives_expected_entry(row: dict[str, object]) -> None:
    raw = str(row["raw"]).encode("latin-1")
    entries, findings = read("list", raw + b"\r\n")
    if row["kind"] is None:
        assert (entries, findings) == ([], [])
        return
    (entry,) = entries
    assert (entry.name, entry.kind.value, entry.size) == (shown(row), row["kind"], row["size"])
    assert (instant(entry.modified) or extra_member(entry, "modified_local")) == row["modified"]
    assert (extra_member(entry, "precision"), extra_member(entry, "link")) == (row["precision"], row["link"])
    assert (entry.raw, extra_member(entry, "source")) == (raw, "list")
    told = {finding.rule for finding in findings}
    assert told <= LIST_ODDITIES
    assert bool(told) == ("finding" in str(row["note"]))
    assert all(rule in told for rule in LIST_ODDITIES if rule in str(row["note"]))
    leads_nowhere = bool(told & {"ftp:list-name"}) or row["name"] is None or "not a file" in str(row["note"])
    assert (entry.url is None) == (leads_nowhere or raw[:1] in b"bcps")


@pytest.mark.parametrize("row", rows("mlsd-lines.jsonl"), ids=lambda row: repr(row["raw"])[:50])
def test_mlsd_line_gives_expected_entry(row: dict[str, object]) -> None:
    raw = str(row["raw"]).encode("latin-1")
    entries, findings = read("mlsd", raw + b"\r\n")
    if row["kind"] is None:
        assert (entries, findings) == ([], [])
        return
    (entry,) = entries
    assert (entry.name, entry.kind.value, entry.size) == (shown(row), row["kind"], row["size"])
    to_the_second = None if row["modified"] is None else str(row["modified"]).replace(".500Z", "Z")
    assert instant(entry.modified) == to_the_second
    assert (extra_member(entry, "link"), extra_member(entry, "unique")) == (row["link"], row["unique"])
    odd = any(word in str(row["note"]) for word in ("report", "finding", "separator"))
    assert (bool(findings), entry.raw) == (odd, raw)
    assert (entry.url is None) == (odd and "last one counts" not in str(row["note"]))


#: Broken links of the recordings, which MLSD and NLST of some servers omit.
BROKEN = {"link-broken", "link-sp"}


def recorded(server: str, form: str, folder: str) -> bytes:
    exchanges = json.loads((RECORDINGS / f"ftp-{server}-{form}-{folder}.json").read_text())["exchanges"]
    return b"".join(bytes.fromhex(each["hex"]) for each in exchanges if each.get("channel") == "data")


LISTINGS = sorted(path.stem.split("-")[1:] for path in RECORDINGS.glob("ftp-*-list-*.json"))


@pytest.mark.parametrize("step", [1, 7, 1 << 20])
@pytest.mark.parametrize(("server", "form", "folder"), LISTINGS)
def test_recorded_listings_give_an_entry_per_line(server: str, form: str, folder: str, step: int) -> None:
    """Every line is an entry, and the reader recognizes every line."""
    octets = recorded(server, form, folder)
    entries, findings = read(form, octets, step)
    assert findings == []
    headings = octets.startswith(b"total")
    own = sum(line.startswith(b"d") and line.endswith((b" .", b" ..")) for line in octets.split(b"\r\n"))
    assert len(entries) == octets.count(b"\r\n") - headings - own
    assert all(extra_member(entry, "source") == "list" for entry in entries)


@pytest.mark.parametrize("folder", ["kinds", "names", "owners", "sizes", "times", "loop"])
@pytest.mark.parametrize("server", ["proftpd", "pureftpd"])
def test_list_agrees_with_mlsd_of_same_server(server: str, folder: str) -> None:
    """LIST and MLSD of a server agree: LIST has no other names and no other sizes."""
    facts = {entry.name: entry for entry in read("mlsd", recorded(server, "mlsd", folder))[0]}
    for entry in read("list", recorded(server, "list", folder))[0]:
        if "\\x0a" in entry.name or entry.kind is Kind.UNKNOWN or entry.name in BROKEN:
            continue  # ProFTPD breaks such names in MLSD, reports a device as a file and omits broken links
        fact = facts[entry.name]
        assert (entry.kind, entry.size, entry.url) == (fact.kind, fact.size, fact.url)
        assert entry.modified is None, "the server's own clock is no moment"


def test_list_names_are_in_nlst_of_same_server() -> None:
    for server in ("vsftpd", "proftpd", "pureftpd"):
        names = {entry.name for entry in read("nlst", recorded(server, "nlst", "names"))[0]}
        listed = {entry.name for entry in read("list", recorded(server, "list", "names"))[0]}
        assert {name for name in listed if "\\x0a" not in name} <= names | BROKEN


HOSTILE = [
    b"-rw-r--r-- 1 0 0 " + b"9" * 30_000 + b" Sep  9  2001 x",
    b"-rw-r--r-- " + b"1 " * 30_000,
    b"-rw-r--r-- " + b"1" + b" " * 60_000 + b"Sep",
    b"-rw-r--r-- " + b"1 Sep  9 " * 6_000,
    b"-rw-r--r-- " + b"1,  " * 15_000,
    b"-rw-r--r-- 1 " + b"x 9 " * 15_000,
    b"lrwxrwxrwx 1 0 0 3 Sep  9  2001 " + b" -> " * 15_000,
    b"+" + b"m1," * 20_000 + b"\tx",
    b"01-01-01 01:01 " + b" " * 60_000,
    b"d [" + b"-" * 60_000,
    b"x;1 " + b" " * 60_000,
    b"total " * 10_000,
]


@pytest.mark.parametrize("line", HOSTILE, ids=lambda line: repr(line[:20]))
def test_list_hostile_lines_are_entries(line: bytes) -> None:
    """Ten lines of up to 64 KiB: a pattern that tests pairs of bytes would take minutes."""
    entries, _ = read("list", (b"first\r\n" + line + b"\r\n") * 10)
    assert len(entries) == 20


#: Any line except the MLSD entries of the directory and of its parent.
LINES = st.binary(max_size=60).filter(lambda line: re.search(rb"(?i)[\r\n]|=[cp]dir", line) is None)


@given(st.lists(LINES, max_size=6))
def test_listing_keeps_every_line(lines: list[bytes]) -> None:
    octets = b"-rw-r--r-- 1 0 0 2 Sep  9  2001 first\r\n" + b"".join(line + b"\r\n" for line in lines)
    for form in ("list", "mlsd"):
        entries, findings = read(form, octets)
        assert [entry.raw for entry in entries[1:]] == [line for line in lines if is_entry(form, line)]
        assert len({finding.rule for finding in findings}) == len(findings), "each told once"


def is_entry(form: str, line: bytes) -> bool:
    """Return whether the line is an entry; empty lines and `total N` headings are not entries."""
    return bool(line) and (form == "mlsd" or re.fullmatch(rb"total {1,20}\d{1,20}", line) is None)


@pytest.mark.parametrize("form", ["list", "nlst"])
@pytest.mark.parametrize("step", [7, 1000])
def test_listing_without_last_line_end_is_reported(form: str, step: int) -> None:
    """A mirror removes no file after this finding."""
    line = b"-rw-r--r-- 1 0 0 2 Sep  9  2001 " if form == "list" else b""
    entries, findings = read(form, line + b"a\r\n" + line + b"b", step)
    assert [entry.name for entry in entries] == ["a", "b"]
    assert [finding.rule for finding in findings] == ["ftp:listing-cut"]


def test_list_detects_bare_lf_line_ends() -> None:
    line = b"-rw-r--r-- 1 0 0 2 Sep  9  2001 "
    unix, _ = read("list", b"".join(line + name + b"\n" for name in (b"a", b"b\r", b"c")))
    assert [entry.name for entry in unix] == ["a", "b", "c"]
    network, findings = read("list", b"".join(line + name + b"\r\n" for name in (b"a\nx", b"b", b"c\rd")))
    assert ([entry.name for entry in network], findings) == (["a\\x0ax", "b", "c\\x0dd"], [])
    assert network[0].url == "ftp://h/d/a%0Ax"


def test_list_line_end_detection_is_bounded() -> None:
    """The reader does not wait for the last of a million lines."""
    reader = ListReader(directory_url(), Limits(), [], NOW)
    line = b"-rw-r--r-- 1 0 0 2 Sep  9  2001 name\r\n"
    counts = [len(list(reader.feed(line))) for _ in range(1_000)]
    assert max(counts) < 400
    assert counts[500:] == [1] * 500
    assert list(reader.finish()) == []


def test_list_line_beyond_limit_raises() -> None:
    reader = ListReader(directory_url(), Limits(line=20_000), [], NOW)
    with pytest.raises(LimitExceeded):
        list(reader.feed(b"x" * 20_001))


DATES = [
    ("Nov 23 14:17", "2026-11-23T14:17"),  # 26 hours ahead: another time zone
    ("Nov 23 14:19", None),
    ("May 16 12:19", "2026-05-16T12:19"),  # 190 days ago
    ("May 16 12:17", None),
    ("Feb 30 2001", None),
    ("sep 9 2001", "2001-09-09"),
    ("Nov 22 25:00", None),
    ("09-09-69  12:00AM", "2069-09-09T00:00"),
    ("09-09-70  12:30PM", "1970-09-09T12:30"),
    ("09-09-70  13:30PM", None),
    ("2001-09-09 01:46:40 -0500", "2001-09-09T06:46:40Z"),
    ("2001-09-09 01:46:40 +9999", None),
    ("0000-01-01 00:00", None),
    ("Jan 01 0005", "0005-01-01"),
    ("0005-01-01 00:00", "0005-01-01T00:00"),
    ("0005-01-01 00:00:01", "0005-01-01T00:00:01"),
    ("0001-01-01 00:00:00 +0500", None),
]


@pytest.mark.parametrize(("text", "moment"), DATES, ids=[row[0] for row in DATES])
def test_parse_date_accepts_known_formats(text: str, moment: str | None) -> None:
    date = parse_date(text.encode(), NOW)
    assert (instant(date.certain) or date.local, date.text) == (moment, text)


def test_parse_date_without_year_needs_clock() -> None:
    assert parse_date(b"Nov 22 12:18", None).local is None
    new_year = datetime(2027, 1, 1, 0, 5, tzinfo=UTC)
    assert parse_date(b"Dec 31 23:50", new_year).local == "2026-12-31T23:50"
    assert parse_date(b"Jan  1 00:10", datetime(2026, 12, 31, 20, tzinfo=UTC)).local == "2027-01-01T00:10"
    assert parse_date(b"Feb 29 12:00", datetime(2028, 3, 1, tzinfo=UTC)).local == "2028-02-29T12:00"


# NLST and MLSD as entries, as servers send them.


def ftp(text: str) -> FtpUrl:
    return parse_as(FtpUrl, text)


def names(url: str, argument: bytes, octets: bytes) -> tuple[list[str], list[str | None], list[Finding]]:
    findings: list[Finding] = []
    reader = NlstReader(ftp(url), argument, Limits(), findings)
    entries = [*reader.feed(octets), *reader.finish()]
    return [entry.name for entry in entries], [entry.url for entry in entries], findings


NLST = [
    ("all three servers", "ftp://h/pub/", b"", b"a\r\nb\r\n", ["a", "b"]),
    ("NLST dir gives dir/name", "ftp://h/pub;type=d", b"pub", b"pub/a\r\npub/b\r\n", ["a", "b"]),
    ("Pure-FTPd lists itself and its parent", "ftp://h/x;type=d", b"x", b"x/a\r\nx/.\r\nx/..\r\n", ["a"]),
    ("an empty directory of Pure-FTPd", "ftp://h/x;type=d", b"x", b"x/.\r\nx/..\r\n", []),
    ("Pure-FTPd without argument", "ftp://h/x/", b"", b"a\r\n.\r\n..\r\n", ["a"]),
    ("Pure-FTPd and NLST .", "ftp://h/.;type=d", b".", b"./a\r\n./b\r\n", ["a", "b"]),
    ("the root", "ftp://h/%2F;type=d", b"/", b"/etc\r\n/pub\r\n", ["etc", "pub"]),
    ("names without the argument", "ftp://h/x;type=d", b"x", b"a\r\nb\r\n", ["a", "b"]),
    ("the prefix only if all have it", "ftp://h/x;type=d", b"x", b"x/a\r\nb\r\n", ["b"]),
    ("what still leads elsewhere", "ftp://h/x;type=d", b"x", b"x/a\r\nx/../b\r\nx/c/d\r\n", ["a"]),
    ("absolute", "ftp://h/x/", b"", b"/etc/passwd\r\nb\r\n", ["b"]),
    ("bare LF", "ftp://h/x/", b"", b"a\nb\n", ["a", "b"]),
    ("a name with CR, by bare LF", "ftp://h/x/", b"", b"a\rb\nc\n", ["a\\x0db", "c"]),
    ("a name with LF cannot be told", "ftp://h/x/", b"", b"new\nline\r\nplain\r\n", ["new", "line", "plain"]),
    ("no line end at the end", "ftp://h/x/", b"", b"a\r\nb", ["a", "b"]),
    ("empty lines", "ftp://h/x/", b"", b"\r\na\r\n\r\n", ["a"]),
    ("nothing", "ftp://h/x/", b"", b"", []),
    ("not UTF-8", "ftp://h/x/", b"", b"caf\xe9\r\n", ["caf\udce9"]),
    ("dot files stay", "ftp://h/x/", b"", b".hidden\r\n...\r\n", [".hidden", "..."]),
    ("NUL", "ftp://h/x/", b"", b"a\0b\r\nc\r\n", ["c"]),
]


@pytest.mark.parametrize(("why", "url", "argument", "octets", "expected"), NLST, ids=[row[0] for row in NLST])
def test_nlst_gives_names_without_argument(
    why: str, url: str, argument: bytes, octets: bytes, expected: list[str]
) -> None:
    found, _, findings = names(url, argument, octets)
    assert found == expected
    left_out = why in ("the prefix only if all have it", "what still leads elsewhere", "absolute", "NUL")
    cut = why == "no line end at the end"
    assert [finding.rule for finding in findings] == ["ftp:foreign-name"] * left_out + [
        "ftp:listing-cut"
    ] * cut


CHILDREN = [
    ("ftp://h", b"a", "ftp://h/a"),
    ("ftp://h/", b"a", "ftp://h/a"),
    ("ftp://h/pub", b"a", "ftp://h/pub/a"),
    ("ftp://h/pub;type=d", b"a", "ftp://h/pub/a"),
    ("ftp://h/pub/;type=d", b"a", "ftp://h/pub/a"),
    ("ftp://h:2121/pub/#top", b"a", "ftp://h:2121/pub/a"),
    ("<URL:ftp://h/pub/>", b"a", "ftp://h/pub/a"),
    ("ftp://u@h/%2Fetc//", b"motd", "ftp://u@h/%2Fetc//motd"),
    ("ftp://u:secret@h/d/", b"a", "ftp://u@h/d/a"),
    ("ftps://h/d/", b"a", "ftps://h/d/a"),
    ("ftp://h/", b"a;type=d", "ftp://h/a%3Btype%3Dd"),
    ("ftp://h/", b"q?a=b&c:@%#", "ftp://h/q%3Fa%3Db%26c%3A%40%25%23"),
    ("ftp://h/", b" b ", "ftp://h/%20b%20"),
    ("ftp://h/", b"~x\xff\x01", "ftp://h/%7Ex%FF%01"),
    ("ftp://h/", b"a$-_.+!*'(),b", "ftp://h/a$-_.+!*'(),b"),
]


@pytest.mark.parametrize(("url", "name", "child"), CHILDREN)
def test_nlst_child_url_is_one_segment_below(url: str, name: bytes, child: str) -> None:
    _, (written,), _ = names(url, b"", name + b"\r\n")
    assert written == child
    parsed = ftp(child)
    assert parsed.name == name
    assert parsed.typecode is None
    assert parsed.password is None


def test_nlst_gives_same_entries_for_single_bytes() -> None:
    octets = b"pub/a\r\npub/b\r\n"
    reader = NlstReader(ftp("ftp://h/pub"), b"pub", Limits(), [])
    assert [list(reader.feed(octets[at : at + 1])) for at in range(len(octets))] == [[]] * len(octets)
    assert [(entry.name, entry.raw) for entry in reader.finish()] == [("a", b"pub/a"), ("b", b"pub/b")]


def test_nlst_beyond_limit_raises() -> None:
    reader = NlstReader(ftp("ftp://h/"), b"", Limits(body=10), [])
    reader.feed(b"0123456789")
    with pytest.raises(LimitExceeded) as raised:
        reader.feed(b"x")
    assert raised.value.limit == "body"
    with pytest.raises(LimitExceeded) as raised:
        NlstReader(ftp("ftp://h/"), b"", Limits(line=10), []).feed(b"a\r\n0123456789x")
    assert raised.value.limit == "line"


def test_nlst_gives_entries_as_lines_arrive() -> None:
    """The line ending is detected for each line."""
    reader = NlstReader(ftp("ftp://h/pub/"), b"", Limits(body=10), [])
    pieces = [b"a\r", b"\nb", b"", b"b\r\n", b"c\nd\r\n", b"e" * 9 + b"\n"]
    found = [[entry.name for entry in reader.feed(piece)] for piece in pieces]
    assert found == [[], ["a"], [], ["bb"], ["c", "d"], ["e" * 9]]
    assert list(reader.finish()) == []


def test_nlst_prefix_detection_is_bounded() -> None:
    """The prefix must be common to all names, but the reader does not wait for the last of a million."""
    findings: list[Finding] = []
    reader = NlstReader(ftp("ftp://h/x;type=d"), b"x", Limits(), findings)
    lines = [b"x/%05d\r\n" % number for number in range(10_000)]
    held = max(number for number, line in enumerate(lines) if not list(reader.feed(line)))
    assert held < 2_000
    assert [entry.name for entry in reader.feed(b"x/y\nno/prefix\nnone\nx/z\n")] == ["y", "z"]
    assert [finding.rule for finding in findings] == ["ftp:foreign-name"]
    other = NlstReader(ftp("ftp://h/x;type=d"), b"x", Limits(), [])
    assert [entry.name for entry in other.feed(b"x/a\nb\n")] == ["b"]
    assert [entry.name for entry in other.feed(b"c\n")] == ["c"], "one without settles it"


def test_nlst_reports_foreign_names_once() -> None:
    _, _, findings = names("ftp://h/", b"", b"a/b\r\n" * 1000)
    assert len(findings) == 1


def test_split_lines() -> None:
    assert split_lines(b"a\r\nb\r\n") == [b"a", b"b", b""]
    assert split_lines(b"a\nb\r\n") == [b"a", b"b", b""]


MLSD = (
    b"Type=cdir;Modify=20010909014640;Perm=flcdmpe; .\r\n"
    b"type=pdir;modify=20010909014640; ..\r\n"
    b"Size=29;Type=file;Modify=20010909014640.5;UNIX.mode=0644; a.txt\r\n"
    b"type=DIR;modify=191010909014640; with  blanks \r\n"
    b"type=OS.unix=slink:/etc;size=x; link\r\n"
    b"; no facts; at all\n"
    b"nothing-that-is-a-line\r\n"
    b"type=file; a name with\r\n"
    b"line ends in it.txt\r\n"  # a ProFTPD name with a line break
    b"type=file;size=99999999999999999999; big\r\n"
    b"type=file; a/b\r\n"
    b"broken\r\n"
)


@pytest.mark.parametrize("step", [1, 7, 10_000])
def test_mlsd_facts_give_entries(step: int) -> None:
    findings: list[Finding] = []
    reader = MlsdReader(ftp("ftp://h/pub/"), Limits(), findings)
    entries = [entry for at in range(0, len(MLSD), step) for entry in reader.feed(MLSD[at : at + step])]
    entries += reader.finish()
    moment = datetime(2001, 9, 9, 1, 46, 40, tzinfo=UTC)
    assert [(e.name, e.kind, e.size, e.modified) for e in entries] == [
        ("a.txt", Kind.DOCUMENT, 29, moment),
        ("with  blanks ", Kind.DIRECTORY, None, None),
        ("link", Kind.LINK, None, None),
        ("no facts; at all", Kind.UNKNOWN, None, None),
        ("nothing-that-is-a-line", Kind.UNKNOWN, None, None),
        ("a name with", Kind.DOCUMENT, None, None),
        ("line ends in it.txt", Kind.UNKNOWN, None, None),
        ("big", Kind.DOCUMENT, None, None),
        ("a/b", Kind.UNKNOWN, None, None),
        ("broken", Kind.UNKNOWN, None, None),
    ]
    nowhere = [entry.name for entry in entries if entry.url is None]
    assert nowhere == ["nothing-that-is-a-line", "line ends in it.txt", "a/b", "broken"]
    assert entries[1].url == "ftp://h/pub/with%20%20blanks%20"
    assert entries[0].extra == {
        "size": "29",
        "type": "file",
        "modify": "20010909014640.5",
        "unix.mode": "0644",
    }
    assert [finding.rule for finding in findings] == ["ftp:facts-line", "ftp:foreign-name"]


@pytest.mark.parametrize("rest", [b"type=file;size=1; b", b"type=file;si", b"t", b"type=file; b\r"])
def test_mlsd_listing_with_incomplete_last_line_is_truncated(rest: bytes) -> None:
    """Every line of MLSD ends in CR LF (RFC 3659 7.2); the name in an incomplete line may be too short."""
    reader = MlsdReader(ftp("ftp://h/pub/"), Limits(), [])
    assert [entry.name for entry in reader.feed(b"type=file; a\r\n" + rest)] == ["a"]
    with pytest.raises(Truncated) as caught:
        list(reader.finish())
    assert caught.value.received == len(b"type=file; a\r\n" + rest)


def test_mlsd_line_beyond_limit_raises() -> None:
    reader = MlsdReader(ftp("ftp://h/"), Limits(line=20), [])
    with pytest.raises(LimitExceeded):
        reader.feed(b"x" * 21)


# Listings as a dialogue: empty or missing directories, NLST or MLSD.

EMPTY: list[tuple[str, str, Script, list[bytes], type[ResolveError] | None]] = [
    ("nothing, and a directory", "ftp://h/e;type=d", Script(data=b""), [b"NLST e", b"CWD e"], None),
    (
        "nothing, and none: vsftpd",
        "ftp://h/e;type=d",
        Script(data=b"", replies={b"CWD": b"550 no\r\n"}),
        [b"NLST e", b"CWD e"],
        NotFound,
    ),
    (
        "nothing, and CWD not now",
        "ftp://h/e;type=d",
        Script(data=b"", replies={b"CWD": b"450 no\r\n"}),
        [b"NLST e", b"CWD e"],
        TryLater,
    ),
    (
        "550, and a directory",
        "ftp://h/e;type=d",
        Script(replies={b"NLST": b"550 no\r\n"}),
        [b"NLST e", b"CWD e"],
        None,
    ),
    (
        "450, and none: ProFTPD",
        "ftp://h/e;type=d",
        Script(replies={b"NLST": b"450 no\r\n", b"CWD": b"550 no\r\n"}),
        [b"NLST e", b"CWD e"],
        NotFound,
    ),
    (
        "425 says nothing about names",
        "ftp://h/e;type=d",
        Script(replies={b"NLST": b"425 no\r\n"}),
        [b"NLST e"],
        TryLater,
    ),
    (
        "failed on the way",
        "ftp://h/e;type=d",
        Script(data=b"", replies={b"NLST": b"150 a\r\n"}, late=b"550 b\r\n"),
        [b"NLST e"],
        NotFound,
    ),
    (
        "nothing where it stands",
        "ftp://h/e/",
        Script(data=b""),
        [b"CWD e", b"TYPE A", b"EPSV", b"NLST"],
        None,
    ),
    (
        "550 where it stands",
        "ftp://h/e/",
        Script(replies={b"NLST": b"550 none\r\n"}),
        [b"TYPE A", b"EPSV", b"NLST"],
        None,
    ),
    (
        "550 in the login directory",
        "ftp://h/",
        Script(replies={b"NLST": b"550 no\r\n"}),
        [b"TYPE A", b"EPSV", b"NLST"],
        NotFound,
    ),
    (
        "a directory by guess, empty",
        "ftp://h/e",
        Script(data=b"", replies={b"RETR": b"550 no\r\n"}),
        [b"CWD e", b"TYPE A", b"EPSV", b"NLST"],
        None,
    ),
]


@pytest.mark.parametrize(("why", "url", "script", "sent", "error"), EMPTY, ids=[row[0] for row in EMPTY])
def test_listing_empty_is_distinguished_from_missing(
    why: str, url: str, script: Script, sent: list[bytes], error: type[ResolveError] | None
) -> None:
    player, outcome = play(url, script)
    assert player.commands[-len(sent) :] == sent
    if error is None:
        assert isinstance(outcome, Outcome)
        assert outcome.found.kind is Kind.DIRECTORY
        assert [finding.rule for finding in outcome.findings] == ["ftp:empty"] * ("550" in why)
        assert player.body == b""
    else:
        assert type(outcome) is error


DIRECTORY_MLSD: list[tuple[str, Script, list[bytes], type[object]]] = [
    ("there", Script(), [b"TYPE A", b"EPSV", b"MLSD d"], MlsdReader),
    (
        "not there: vsftpd",
        Script(replies={b"MLSD": b"500 no\r\n"}),
        [b"TYPE A", b"EPSV", b"MLSD d", b"EPSV", b"NLST d"],
        NlstReader,
    ),
]


@pytest.mark.parametrize(
    ("why", "script", "sent", "reader"), DIRECTORY_MLSD, ids=[row[0] for row in DIRECTORY_MLSD]
)
def test_mlsd_option_falls_back_to_nlst(
    why: str, script: Script, sent: list[bytes], reader: type[object]
) -> None:
    player, outcome = play("ftp://h/d;type=d", script, Options(mlsd=True))
    assert isinstance(outcome, Outcome)
    assert player.commands[2:] == sent
    assert type(outcome.found.listing) is reader


FEATURES = (
    ("MLST stands for both", b"211-Features:\r\n MLST type*;size*;\r\n211 End\r\n", True),
    ("MLSD alone, in other case", b"211-Features:\r\n mlsd\r\n211 End\r\n", True),
    ("neither: vsftpd", b"211-Features:\r\n EPRT\r\n UTF8\r\n211 End\r\n", False),
    ("a longer word", b"211-Features:\r\n MLSTX\r\n XMLSD\r\n211 End\r\n", False),
    ("no FEAT", b"500 what?\r\n", False),
)


@pytest.mark.parametrize(("why", "answer", "facts"), FEATURES, ids=[row[0] for row in FEATURES])
def test_detailed_listing_uses_mlsd_if_feat_offers_it(why: str, answer: bytes, facts: bool) -> None:
    script = Script(data=b"", replies={b"FEAT": answer})
    player, outcome = play("ftp://h/d/", script, Options(detailed=True))
    assert isinstance(outcome, Outcome)
    assert player.commands[-3:] == [b"FEAT", b"EPSV", b"MLSD" if facts else b"LIST"]
    assert type(outcome.found.listing) is (MlsdReader if facts else ListReader)


WITHOUT_FACTS = {b"FEAT": b"500 what?\r\n"}
LIST: list[tuple[str, str, dict[bytes, bytes | list[bytes]], list[bytes], type[object]]] = [
    ("after the CWDs", "ftp://h/d/", {}, [b"CWD d", b"TYPE A", b"FEAT", b"EPSV", b"LIST"], ListReader),
    (
        "without an argument: `-a` is an option to some",
        "ftp://h/-a;type=d",
        {},
        [b"FEAT", b"CWD -a", b"EPSV", b"LIST"],
        ListReader,
    ),
    (
        "of what is no directory",
        "ftp://h/f;type=d",
        {b"CWD": b"550 no\r\n"},
        [b"EPSV", b"NLST f"],
        NlstReader,
    ),
    ("unknown", "ftp://h/d/", {b"LIST": b"502 no\r\n"}, [b"EPSV", b"LIST", b"EPSV", b"NLST"], NlstReader),
    (
        "an empty one is refused",
        "ftp://h/d;type=d",
        {b"LIST": b"550 none\r\n", b"NLST": b"550 none\r\n"},
        [b"CWD d", b"EPSV", b"LIST", b"EPSV", b"NLST"],
        NlstReader,
    ),
    (
        "MLSD is known by FEAT and by nothing else",
        "ftp://h/d/",
        {b"FEAT": b"211-F\r\n MLST size*;\r\n211 E\r\n", b"MLSD": b"500 no\r\n"},
        [b"EPSV", b"MLSD", b"EPSV", b"LIST"],
        ListReader,
    ),
]


@pytest.mark.parametrize(("why", "url", "replies", "sent", "reader"), LIST, ids=[row[0] for row in LIST])
def test_detailed_listing_without_mlsd_uses_list(
    why: str, url: str, replies: dict[bytes, bytes | list[bytes]], sent: list[bytes], reader: type[object]
) -> None:
    script = Script(data=b"x", replies={**WITHOUT_FACTS, **replies})
    player, outcome = play(url, script, Options(detailed=True))
    assert isinstance(outcome, Outcome)
    assert player.commands[-len(sent) :] == sent
    assert type(outcome.found.listing) is reader


@pytest.mark.parametrize(("code", "error"), [(b"425", TryLater), (b"530", AccessDenied)])
def test_list_refused_raises(code: bytes, error: type[ResolveError]) -> None:
    script = Script(replies={**WITHOUT_FACTS, b"LIST": code + b" no\r\n"})
    player, outcome = play("ftp://h/d/", script, Options(detailed=True))
    assert type(outcome) is error
    assert player.commands[-1] == b"LIST"


CUT = b"226-Options: -a -l\r\n226 Output truncated to 10000 matches\r\n"  # Pure-FTPd


@pytest.mark.parametrize(
    ("options", "facts"),
    [(Options(), True), (Options(mlsd=True), True), (Options(detailed=True), False)],
    ids=["NLST", "MLSD", "LIST"],
)
@pytest.mark.parametrize("data", [b"type=file; a\r\n", b""], ids=["some", "none"])
def test_listing_truncated_by_server_is_reported(options: Options, facts: bool, data: bytes) -> None:
    replies: dict[bytes, bytes | list[bytes]] = {} if facts else dict(WITHOUT_FACTS)
    _, outcome = play("ftp://h/d/", Script(late=CUT, data=data, replies=replies), options)
    assert isinstance(outcome, Outcome)
    (finding,) = outcome.findings
    assert (finding.rule, finding.action) == ("ftp:listing-cut", "warn")
    assert "10000 matches" in finding.detail
    _, whole = play("ftp://h/d/", Script(data=data, replies=replies), options)
    assert isinstance(whole, Outcome)
    assert whole.findings == []


def test_mlsd_refused_for_login_raises() -> None:
    player, error = play("ftp://h/d;type=d", Script(replies={b"MLSD": b"530 no\r\n"}), Options(mlsd=True))
    assert isinstance(error, AccessDenied)
    assert player.commands[-1] == b"MLSD d"


ENTRIES = Options(want="listing")
MLST = b"211-F\r\n MLST size*;\r\n211 E\r\n"


@pytest.mark.parametrize("code", [b"450", b"500", b"501", b"502", b"504", b"550"])
def test_entries_fall_back_to_list_and_nlst_in_one_connection(code: bytes) -> None:
    refused = code + b" no\r\n"
    script = Script(replies={b"FEAT": MLST, b"MLSD": refused, b"LIST": refused})
    player, outcome = play("ftp://h/d/", script, ENTRIES)
    assert isinstance(outcome, Outcome)
    assert [each for each in player.commands if each != b"EPSV"][-5:] == [
        *(b"TYPE A", b"FEAT", b"MLSD", b"LIST", b"NLST")
    ]
    assert player.commands.count(b"USER anonymous") == 1
    assert type(outcome.found.listing) is NlstReader


def test_entries_refused_by_all_commands_raise_refusal_of_mlsd() -> None:
    refused = b"550 no\r\n"
    script = Script(replies={b"FEAT": MLST, b"MLSD": refused, b"LIST": refused, b"NLST": refused})
    _, error = play("ftp://h/d/", script, ENTRIES)
    assert isinstance(error, NotFound)
    assert "MLSD" in error.message


def test_empty_list_after_refused_mlsd_raises_refusal_of_mlsd() -> None:
    replies: dict[bytes, bytes | list[bytes]] = {b"FEAT": MLST, b"MLSD": b"550 no\r\n"}
    _, error = play("ftp://h/d/", Script(data=b"", replies=replies), ENTRIES)
    assert isinstance(error, NotFound)
    assert "MLSD" in error.message


@pytest.mark.parametrize(
    "text",
    [
        b"226 Transfer done (but failed to open directory).\r\n",  # vsftpd
        b"226-Sorry, we were unable to read [.]\r\n226 0 matches total\r\n",  # Pure-FTPd
    ],
)
@pytest.mark.parametrize("options", [Options(), Options(detailed=True)], ids=["NLST", "LIST"])
def test_empty_listing_of_unreadable_directory_raises(text: bytes, options: Options) -> None:
    script = Script(late=text, data=b"", replies=dict(WITHOUT_FACTS))
    _, error = play("ftp://h/d/", script, options)
    assert isinstance(error, AccessDenied)
    assert error.code == "226"


@pytest.mark.parametrize(
    ("reply", "is_refused"),
    [
        (b"212-Status of .:\r\n212 End of status\r\n", True),
        (b"212-Status of .:\r\n drwxr-xr-x 2 0 0 4096 Nov 30 23:08 .\r\n212 End of status\r\n", False),
        (b"500 no\r\n", False),
    ],
    ids=["unreadable", "empty", "unknown"],
)
@pytest.mark.parametrize("options", [Options(), Options(detailed=True)], ids=["NLST", "LIST"])
def test_empty_listing_of_proftpd_is_checked_with_stat(
    reply: bytes, is_refused: bool, options: Options
) -> None:
    replies: dict[bytes, bytes | list[bytes]] = {**WITHOUT_FACTS, b"STAT": reply}
    script = Script(greeting=b"220 ProFTPD Server\r\n", data=b"", replies=replies)
    player, outcome = play("ftp://h/d/", script, options)
    assert player.commands[-1] == b"STAT ."
    assert isinstance(outcome, AccessDenied if is_refused else Outcome)


def test_entries_with_nlst_option_send_only_nlst() -> None:
    for options in (ENTRIES, Options(detailed=True)):
        player, outcome = play("ftp://h/d/", Script(), replace(options, nlst=True))
        assert isinstance(outcome, Outcome)
        assert player.commands[-3:] == [b"TYPE A", b"EPSV", b"NLST"]


@pytest.mark.parametrize("want", ["content", "file"])
def test_body_of_directory_is_nlst(want: Literal["content", "file"]) -> None:
    player, _ = play("ftp://h/d/", Script(replies={b"FEAT": MLST}), Options(want=want))
    assert player.commands[-3:] == [b"TYPE A", b"EPSV", b"NLST"]


def test_type_d_uses_only_nlst() -> None:
    player, _ = play("ftp://h/d;type=d")
    assert not {sent.partition(b" ")[0] for sent in player.commands} & {b"LIST", b"MLSD", b"STAT", b"FEAT"}
