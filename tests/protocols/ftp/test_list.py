"""LIST as entries: lines of recorded and described servers, and what becomes of those nobody understands."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.ftp.listing import ListReader, MlsdReader, NlstReader, parse_date, shown_name
from protocols.text import instant
from resolver import Entry, Finding, FtpUrl, Kind, LimitExceeded, Limits, parse

RECORDINGS = Path(__file__).parents[3] / "fixtures" / "recordings" / "listings"
#: When they were made.
NOW = datetime(2026, 11, 22, 12, 18, tzinfo=UTC)


def at_home() -> FtpUrl:
    url = parse("ftp://h/d/")
    assert isinstance(url, FtpUrl)
    return url


def reader_of(form: str, findings: list[Finding]) -> ListReader | MlsdReader | NlstReader:
    if form == "list":
        return ListReader(at_home(), Limits(), findings, NOW)
    if form == "mlsd":
        return MlsdReader(at_home(), Limits(), findings)
    return NlstReader(at_home(), b"", Limits(), findings)


def read(form: str, octets: bytes, step: int = 1 << 20) -> tuple[list[Entry], list[Finding]]:
    findings: list[Finding] = []
    reader = reader_of(form, findings)
    pieces = (octets[at : at + step] for at in range(0, len(octets), step))
    entries = [entry for piece in pieces for entry in reader.feed(piece)]
    return [*entries, *reader.finish()], findings


def rows(name: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in (RECORDINGS / name).read_text().splitlines()]


def said(entry: Entry, member: str) -> object:
    return (entry.extra or {}).get(member)


def shown(row: dict[str, object]) -> str:
    """The name that the row has; the whole line where it has none."""
    if row["name"] is None:
        return shown_name(str(row["raw"]).encode("latin-1"))
    return shown_name(str(row["name"]).encode("utf-8", "surrogateescape"))


#: What the notes of the rows call for, and the kinds of line that it is told of.
LIST_ODDITIES = {"ftp:list-link", "ftp:list-date", "ftp:list-size", "ftp:list-line", "ftp:list-name"}


@pytest.mark.parametrize("row", rows("list-lines.jsonl"), ids=lambda row: repr(row["raw"])[:50])
def test_a_line_of_list(row: dict[str, object]) -> None:
    raw = str(row["raw"]).encode("latin-1")
    entries, findings = read("list", raw + b"\r\n")
    if row["kind"] is None:
        assert (entries, findings) == ([], [])
        return
    (entry,) = entries
    assert (entry.name, entry.kind.value, entry.size) == (shown(row), row["kind"], row["size"])
    assert (instant(entry.modified) or said(entry, "modified_local")) == row["modified"]
    assert (said(entry, "precision"), said(entry, "link")) == (row["precision"], row["link"])
    assert (entry.raw, said(entry, "source")) == (raw, "list")
    told = {finding.rule for finding in findings}
    assert told <= LIST_ODDITIES
    assert bool(told) == ("finding" in str(row["note"]))
    assert all(rule in told for rule in LIST_ODDITIES if rule in str(row["note"]))
    leads_nowhere = bool(told & {"ftp:list-name"}) or row["name"] is None or "not a file" in str(row["note"])
    assert (entry.url is None) == (leads_nowhere or raw[:1] in b"bcps")


@pytest.mark.parametrize("row", rows("mlsd-lines.jsonl"), ids=lambda row: repr(row["raw"])[:50])
def test_a_line_of_mlsd(row: dict[str, object]) -> None:
    raw = str(row["raw"]).encode("latin-1")
    entries, findings = read("mlsd", raw + b"\r\n")
    if row["kind"] is None:
        assert (entries, findings) == ([], [])
        return
    (entry,) = entries
    assert (entry.name, entry.kind.value, entry.size) == (shown(row), row["kind"], row["size"])
    to_the_second = None if row["modified"] is None else str(row["modified"]).replace(".500Z", "Z")
    assert instant(entry.modified) == to_the_second
    assert (said(entry, "link"), said(entry, "unique")) == (row["link"], row["unique"])
    odd = any(word in str(row["note"]) for word in ("report", "finding", "separator"))
    assert (bool(findings), entry.raw) == (odd, raw)
    assert (entry.url is None) == (odd and "last one counts" not in str(row["note"]))


#: Links of the recordings that lead nowhere, which not every command has.
BROKEN = {"link-broken", "link-sp"}


def recorded(server: str, form: str, folder: str) -> bytes:
    exchanges = json.loads((RECORDINGS / f"ftp-{server}-{form}-{folder}.json").read_text())["exchanges"]
    return b"".join(bytes.fromhex(each["hex"]) for each in exchanges if each.get("channel") == "data")


LISTINGS = sorted(path.stem.split("-")[1:] for path in RECORDINGS.glob("ftp-*-list-*.json"))


@pytest.mark.parametrize("step", [1, 7, 1 << 20])
@pytest.mark.parametrize(("server", "form", "folder"), LISTINGS)
def test_recorded_listings_are_read_whole(server: str, form: str, folder: str, step: int) -> None:
    """Every line is an entry, and all of them are understood."""
    octets = recorded(server, form, folder)
    entries, findings = read(form, octets, step)
    assert findings == []
    headings = octets.startswith(b"total")
    own = sum(line.startswith(b"d") and line.endswith((b" .", b" ..")) for line in octets.split(b"\r\n"))
    assert len(entries) == octets.count(b"\r\n") - headings - own
    assert all(said(entry, "source") == "list" for entry in entries)


@pytest.mark.parametrize("folder", ["kinds", "names", "owners", "sizes", "times", "loop"])
@pytest.mark.parametrize("server", ["proftpd", "pureftpd"])
def test_a_line_says_no_more_than_the_facts(server: str, folder: str) -> None:
    """Where a server has MLSD, what is read of its LIST agrees: no other names, no invented sizes."""
    facts = {entry.name: entry for entry in read("mlsd", recorded(server, "mlsd", folder))[0]}
    for entry in read("list", recorded(server, "list", folder))[0]:
        if "\\x0a" in entry.name or entry.kind is Kind.UNKNOWN or entry.name in BROKEN:
            continue  # ProFTPD breaks such a name in MLSD, calls a device a file, and leaves out broken links
        fact = facts[entry.name]
        assert (entry.kind, entry.size, entry.url) == (fact.kind, fact.size, fact.url)
        assert entry.modified is None, "the server's own clock is no moment"


def test_names_are_those_that_nlst_has() -> None:
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
def test_hostile_lines_are_entries_too(line: bytes) -> None:
    """Some of them, 64 KiB each: a pattern that looked at pairs of octets would take minutes."""
    entries, _ = read("list", (b"first\r\n" + line + b"\r\n") * 10)
    assert len(entries) == 20


#: Any line, but for what a directory says of itself and of the one above it.
LINES = st.binary(max_size=60).filter(lambda line: re.search(rb"(?i)[\r\n]|=[cp]dir", line) is None)


@given(st.lists(LINES, max_size=6))
def test_no_line_is_lost(lines: list[bytes]) -> None:
    octets = b"-rw-r--r-- 1 0 0 2 Sep  9  2001 first\r\n" + b"".join(line + b"\r\n" for line in lines)
    for form in ("list", "mlsd"):
        entries, findings = read(form, octets)
        assert [entry.raw for entry in entries[1:]] == [line for line in lines if counts(form, line)]
        assert len({finding.rule for finding in findings}) == len(findings), "each told once"


def counts(form: str, line: bytes) -> bool:
    """An empty line is none, and a heading, which is a word and a number, says nothing of a file."""
    return bool(line) and (form == "mlsd" or re.fullmatch(rb"total {1,20}\d{1,20}", line) is None)


def test_lf_alone_ends_lines_where_most_end_so() -> None:
    line = b"-rw-r--r-- 1 0 0 2 Sep  9  2001 "
    unix, _ = read("list", b"".join(line + name + b"\n" for name in (b"a", b"b\r", b"c")))
    assert [entry.name for entry in unix] == ["a", "b", "c"]
    network, findings = read("list", b"".join(line + name + b"\r\n" for name in (b"a\nx", b"b", b"c\rd")))
    assert ([entry.name for entry in network], findings) == (["a\\x0ax", "b", "c\\x0dd"], [])
    assert network[0].url == "ftp://h/d/a%0Ax"


def test_how_lines_end_is_settled_by_the_first() -> None:
    """Nobody waits for the last of a million."""
    reader = ListReader(at_home(), Limits(), [], NOW)
    line = b"-rw-r--r-- 1 0 0 2 Sep  9  2001 name\r\n"
    counts = [len(list(reader.feed(line))) for _ in range(1_000)]
    assert max(counts) < 400
    assert counts[500:] == [1] * 500
    assert list(reader.finish()) == []


def test_a_line_has_a_limit() -> None:
    reader = ListReader(at_home(), Limits(line=20_000), [], NOW)
    with pytest.raises(LimitExceeded):
        list(reader.feed(b"x" * 20_001))


DATES = [
    ("Nov 23 14:17", "2026-11-23T14:17"),  # 26 hours ahead: another zone
    ("Nov 23 14:19", None),
    ("May 16 12:19", "2026-05-16T12:19"),  # 190 days back
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
    ("0001-01-01 00:00:00 +0500", None),
]


@pytest.mark.parametrize(("text", "moment"), DATES, ids=[row[0] for row in DATES])
def test_dates(text: str, moment: str | None) -> None:
    date = parse_date(text.encode(), NOW)
    assert (instant(date.certain) or date.local, date.text) == (moment, text)


def test_a_year_that_is_left_out_needs_a_clock() -> None:
    assert parse_date(b"Nov 22 12:18", None).local is None
    new_year = datetime(2027, 1, 1, 0, 5, tzinfo=UTC)
    assert parse_date(b"Dec 31 23:50", new_year).local == "2026-12-31T23:50"
    assert parse_date(b"Jan  1 00:10", datetime(2026, 12, 31, 20, tzinfo=UTC)).local == "2027-01-01T00:10"
    assert parse_date(b"Feb 29 12:00", datetime(2028, 3, 1, tzinfo=UTC)).local == "2028-02-29T12:00"
