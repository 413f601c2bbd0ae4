"""Listings of groups and articles: merged lists, patterns, counting, overview lines and child URLs."""

from __future__ import annotations

import fnmatch
import time
import tracemalloc
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.news.article import parse_head
from protocols.news.listing import (
    BUFFER_LIMIT,
    ActiveLine,
    EntryUrls,
    GroupReader,
    OverviewReader,
    compile_wildmat,
    count_groups,
    encode_overview,
    parse_active,
    parse_description,
)
from protocols.wire import run_reader
from resolver import Entry, Finding, Kind, LimitExceeded, Truncated, parse
from tests.protocols.news.captures import exchanges
from tests.protocols.news.memory import news_url

ACTIVE = [
    (b"a.b 0000000022 0000000001 y", ActiveLine(b"a.b", 22, 1, b"y", b""), False),
    (b"a.b 0 1 n", ActiveLine(b"a.b", 0, 1, b"n", b""), True),
    (b"a.b 0 0 m", ActiveLine(b"a.b", 0, 0, b"m", b""), True),
    (b"a.b  7   1  x", ActiveLine(b"a.b", 7, 1, b"x", b""), False),
    (b"a.b 7 1 j", ActiveLine(b"a.b", 7, 1, b"j", b""), False),
    (b"a.b 7 1 =c.d", ActiveLine(b"a.b", 7, 1, b"=c.d", b""), False),
    (b"a.b 7 1 =", ActiveLine(b"a.b", 7, 1, None, b""), False),
    (b"a.b 7 1 Q", ActiveLine(b"a.b", 7, 1, None, b""), False),
    (b"a.b 7 1", ActiveLine(b"a.b", 7, 1, None, b""), False),
    (b"a.b 7 1 y more", ActiveLine(b"a.b", 7, 1, b"y", b""), False),
]


@pytest.mark.parametrize(("line", "active", "empty"), ACTIVE)
def test_parse_active_reads_line(line: bytes, active: ActiveLine, empty: bool) -> None:
    assert parse_active(line) == active._replace(raw=line)
    assert active.is_empty is empty


@pytest.mark.parametrize(
    "line", [b"", b"  ", b"a.b", b"a.b 1", b"a.b x 1 y", b"a.b 1 x y", b"a.b -1 1 y", b"a 1 " + b"1" * 17]
)
def test_parse_active_of_invalid_line_returns_none(line: bytes) -> None:
    assert parse_active(line) is None


@pytest.mark.parametrize(
    ("line", "name", "description"),
    [
        (b"a.b\tGeneral topics.", b"a.b", b"General topics."),
        (b"a.b\t\t x  y ", b"a.b", b"x  y"),
        (b"a.b x", b"a.b", b"x"),
        (b"a.b ", b"a.b", b""),
        (b"a.b", b"a.b", b""),
        (b"", b"", b""),
    ],
)
def test_parse_description_splits_line(line: bytes, name: bytes, description: bytes) -> None:
    assert parse_description(line) == (name, description)


def read(
    octets: bytes, pattern: bytes = b"*", size: int = 1 << 20, limit: int = 1 << 20
) -> tuple[list[Entry], list[str]]:
    findings: list[Finding] = []
    reader = GroupReader(pattern, lambda name: f"news:{name.decode('latin-1')}", 1_000, findings, limit)
    entries: list[Entry] = []
    for start in range(0, len(octets), size):
        entries += reader.feed(octets[start : start + size])
    entries += reader.finish()
    return entries, [finding.rule for finding in findings]


LISTS = (
    b"b.two 9 3 y\r\na.one 1 1 m\r\nb.three 0 1 =a.one\r\nb.caf\xe9 1 1 y\r\n.\r\n"
    b"a.one\tOnly\r\nb.two\tZw\xc3\xb6lf\r\nb.gone\tnot there\r\nb.caf\xe9\tcaf\xe9\r\n"
)


@pytest.mark.parametrize("size", [1, 2, 3, 1 << 20])
def test_group_reader_merges_both_lists(size: int) -> None:
    entries, findings = read(LISTS, size=size)
    assert [(entry.name, entry.title) for entry in entries] == [
        ("b.two", "Zwölf"),
        ("a.one", "Only"),
        ("b.three", None),
        ("b.café", "café"),
    ]
    assert findings == []
    assert entries[0] == Entry(
        name="b.two",
        url="news:b.two",
        kind=Kind.GROUP,
        title="Zwölf",
        raw=b"b.two 9 3 y",
        extra={"high": 9, "low": 3, "empty": False, "status": "y"},
    )
    assert entries[2].extra == {"high": 0, "low": 1, "empty": True, "status": "=a.one"}


def test_group_reader_filters_by_pattern() -> None:
    """Old servers ignore the pattern."""
    assert [entry.name for entry in read(LISTS, b"b.t*")[0]] == ["b.two", "b.three"]


def test_group_reader_without_descriptions_has_no_titles() -> None:
    entries, findings = read(LISTS[: LISTS.index(b".\r\n")])
    assert ([entry.title for entry in entries], findings) == ([None] * 4, [])


def test_group_reader_skips_and_reports_invalid_lines() -> None:
    entries, findings = read(b"x\r\na.one 1 1 y\r\n\r\n.\r\n\r\n")
    assert ([entry.name for entry in entries], findings) == (["a.one"], ["nntp:group-line"])


def test_group_reader_skips_period_among_descriptions() -> None:
    """Only the first lone period separates the lists."""
    assert [entry.title for entry in read(b"a 1 1 y\r\n.\r\n.\r\na\tx\r\n")[0]] == ["x"]


def test_group_reader_over_limit_emits_without_titles() -> None:
    entries, findings = read(LISTS, limit=15)
    assert [(entry.name, entry.title) for entry in entries][:3] == [
        ("b.two", None),
        ("a.one", None),
        ("b.three", None),
    ]
    assert findings == ["nntp:descriptions"]


def test_group_reader_memory_for_descriptions_is_bounded() -> None:
    """A single group is enough to wait for, and the server may describe any number of names."""
    described = b"".join(b"a.%d\t%s\r\n" % (number, b"x" * 100) for number in range(1_000))
    findings: list[Finding] = []
    reader = GroupReader(b"*", lambda name: f"news:{name.decode()}", 1_000, findings, limit=10_000)
    first = [*reader.feed(b"a.3 1 1 y\r\n.\r\n" + described)]
    assert [(entry.name, entry.title) for entry in first] == [("a.3", "x" * 100)]
    assert [*reader.finish()] == []
    assert [finding.rule for finding in findings] == ["nntp:descriptions"]


def test_group_reader_memory_for_short_lines_is_bounded() -> None:
    """A hostile server sends an endless list. A line of six bytes needs much more memory than its text."""
    findings: list[Finding] = []
    reader = GroupReader(b"*", lambda name: None, 1_000, findings, limit=1_000_000)
    lines = b"a 1 1\r\n" * 10_000
    tracemalloc.start()
    try:
        for _ in range(10):
            for _ in reader.feed(lines):
                pass
        assert tracemalloc.get_traced_memory()[1] < 3_000_000
    finally:
        tracemalloc.stop()
    for _ in reader.finish():
        pass
    assert [finding.rule for finding in findings] == ["nntp:descriptions"]


@pytest.mark.parametrize(("pattern", "count"), [(b"*", 4), (b"b.*", 3), (b"none", 0)])
@pytest.mark.parametrize("size", [1, 2, 3, 1 << 20])
def test_count_groups_counts_matches(pattern: bytes, count: int, size: int) -> None:
    block = LISTS[: LISTS.index(b".\r\n") + 3]
    pieces = [block[start : start + size] for start in range(0, len(block), size)]
    assert run_reader(count_groups(pattern, 1_000), *pieces) == count


def test_count_groups_over_limit_or_truncated_raises() -> None:
    with pytest.raises(LimitExceeded):
        run_reader(count_groups(b"*", 10), b"x" * 20)
    with pytest.raises(Truncated):
        run_reader(count_groups(b"*", 10), b"a 1 1 y\r\n")


def test_count_groups_of_endless_list_raises() -> None:
    line = b"x" * 1_048_576 + b"\r\n"
    with pytest.raises(LimitExceeded) as caught:
        run_reader(count_groups(b"*", len(line)), *[line] * (BUFFER_LIMIT // len(line) + 2))
    assert caught.value.limit == "lines"


# -- wildmat patterns: case-sensitive, matched against the complete name

PATTERNS = [
    (b"*", b"", True),
    (b"*", b"comp.misc", True),
    (b"comp.*", b"comp.misc", True),
    (b"comp.*", b"comp.", True),
    (b"comp.*", b"comp", False),
    (b"comp.*", b"x.comp.misc", False),
    (b"*.misc", b"comp.misc", True),
    (b"*.misc", b"comp.misc.x", False),
    (b"c?mp", b"comp", True),
    (b"c?mp", b"cmp", False),
    (b"?", b"", False),
    (b"", b"", True),
    (b"", b"a", False),
    (b"comp.misc", b"comp.misc", True),
    (b"comp.misc", b"comp_misc", False),
    (b"Comp.*", b"comp.misc", False),
    (b"a*b*c", b"aXbXbXc", True),
    (b"a*b*c", b"aXbXbXd", False),
    (b"**a**", b"bab", True),
    (b"a.[bc]", b"a.b", False),
    (b"a.[bc]", b"a.[bc]", True),
]


@pytest.mark.parametrize(("pattern", "name", "expected"), PATTERNS)
def test_compile_wildmat_implements_wildmat(pattern: bytes, name: bytes, expected: bool) -> None:
    assert compile_wildmat(pattern)(name) is expected


@given(st.text("ab*?", max_size=8), st.text("ab", max_size=12))
def test_compile_wildmat_agrees_with_fnmatch(pattern: str, name: str) -> None:
    assert compile_wildmat(pattern.encode())(name.encode()) == fnmatch.fnmatchcase(name, pattern)


@pytest.mark.parametrize(
    "pattern", [b"*a" * 240 + b"b", b"*" + b"a" * 400 + b"b*", b"*" + b"?a" * 200 + b"b*"]
)
def test_compile_wildmat_with_longest_name_is_fast(pattern: bytes) -> None:
    """A matcher that backtracks for every star takes exponential time; one in Python takes 5 s a line."""
    began = time.process_time()
    assert not compile_wildmat(pattern)(b"a" * 65_000)
    assert time.process_time() - began < 2


# Overview lines from the server, and overview lines built from heads.

LINE = (
    b"7\t=?utf-8?q?=C3=BC?= x\tA <a@b>\tMon, 06 Jan 2025 10:00:24 +0000\t<m@x>\t<r@x>  <s@x>\t280\t12"
    b"\tXref: news.example a.b:7\tX-Odd: y: z"
)


def overview_read(octets: bytes, size: int = 1 << 20) -> tuple[list[Entry], list[Finding]]:
    findings: list[Finding] = []
    reader = OverviewReader(b"a.b", lambda group, number, message_id: f"{number}", 1_000, findings)
    entries: list[Entry] = []
    for start in range(0, len(octets), size):
        entries += reader.feed(octets[start : start + size])
    entries += reader.finish()
    return entries, findings


@pytest.mark.parametrize("size", [1, 2, 3, 1 << 20])
def test_overview_line_becomes_entry(size: int) -> None:
    entries, findings = overview_read(LINE + b"\r\n", size)
    assert entries == [
        Entry(
            name="7",
            url="7",
            kind=Kind.ARTICLE,
            size=280,
            modified=datetime(2025, 1, 6, 10, 0, 24, tzinfo=UTC),
            title="ü x",
            raw=LINE,
            extra={
                "number": 7,
                "from": "A <a@b>",
                "date": "Mon, 06 Jan 2025 10:00:24 +0000",
                "message_id": "m@x",
                "references": ["<r@x>", "<s@x>"],
                "bytes": 280,
                "lines": 12,
                "fields": [["Xref", "news.example a.b:7"], ["X-Odd", "y: z"]],
            },
        )
    ]
    assert findings == []


@pytest.mark.parametrize(
    ("line", "size", "lines", "references"),
    [
        (b"7\ts\tf\td\t<m@x>", None, None, []),
        (b"7\ts\tf\td\t<m@x>\t\t\t", None, None, []),
        (b"7\ts\tf\td\t<m@x>\t<r>\t12", 12, None, ["<r>"]),
        (b"7\ts\tf\td\t<m@x>\t\tx\t-1", None, None, []),
        (b"7\ts\tf\td\t<m@x>\t\t 5 \t0", 5, 0, []),
        (b"7\t\t\t\t\t\t\t", None, None, []),
        (b"007\ts\tf\td\tm@x\t\t99999999999999999\t1", None, 1, []),
    ],
)
def test_overview_line_with_missing_fields_becomes_entry(
    line: bytes, size: int | None, lines: int | None, references: list[str]
) -> None:
    entries, findings = overview_read(line + b"\r\n")
    assert [entry.name for entry in entries] == ["7"]
    assert entries[0].extra is not None
    assert (entries[0].size, entries[0].extra["lines"]) == (size, lines)
    assert entries[0].extra["references"] == references
    assert findings == []


@pytest.mark.parametrize(
    "line", [b"", b"7", b"7\ta\tb\tc", b"x\ta\tb\tc\td", b"-7\ta\tb\tc\td", b"1" * 17 + b"\t\t\t\t"]
)
def test_invalid_overview_lines_are_reported(line: bytes) -> None:
    entries, findings = overview_read(line + b"\r\n" + LINE + b"\r\n" + line + b"\r\n")
    assert [entry.name for entry in entries] == ["7"]
    assert [(finding.rule, finding.detail[:2]) for finding in findings] == [("nntp:overview-line", "2 ")]


def test_overview_out_of_order_is_reported() -> None:
    entries, findings = overview_read(b"8\t\t\t\t\r\n7\t\t\t\t\r\n")
    assert [entry.name for entry in entries] == ["8", "7"]
    assert [finding.rule for finding in findings] == ["nntp:overview-order"]


def test_overview_line_over_limit_raises() -> None:
    with pytest.raises(LimitExceeded):
        overview_read(b"7\t" + b"x" * 1_000 + b"\t\t\t\r\n")


def test_overview_with_odd_headers_of_inn_is_read() -> None:
    content = next(each.content for each in exchanges("over_odd_headers") if each.command == b"OVER 4-17")
    assert content is not None
    entries, findings = overview_read(content)
    assert findings == []
    titles = {entry.name: entry.title for entry in entries}
    assert titles["4"] == "Raw UTF-8 header: Grüße — 日本語"
    assert all(entry.modified is not None and entry.size for entry in entries)
    assert len(entries) == 14


def test_encode_overview_removes_control_characters() -> None:
    head = parse_head(
        b"From: a\tb\r\nSubject: x\r\n\ty\0z\nq\r\nDate: d\r\nMessage-ID: <m@x>\r\n"
        b"References: <r@x>\r\nLines: 3\r\nXref: news a.b:7\r\n"
    )
    line = encode_overview(7, head)
    assert line == b"7\tx y z q\ta b\td\t<m@x>\t<r@x>\t\t3\tXref: news a.b:7\r\n"
    entries, findings = overview_read(line)
    assert (len(entries), findings) == (1, [])


def test_encode_overview_of_empty_head_has_empty_fields() -> None:
    assert encode_overview(7, parse_head(b"")) == b"7\t\t\t\t\t\t\t\r\n"


# URLs of listing entries: as in the parent's URL, and only names that the builder accepts.

ARTICLES = [
    ("nntp://h/a.b", "nntp://h/a.b/7"),
    ("nntp://h:1119/a.b", "nntp://h:1119/a.b/7"),
    ("nntps://h/a.b", "nntps://h/a.b/7"),
    ("nntp://u:p@h/a.b", "nntp://h/a.b/7"),  # the password is not copied to the child
    ("nntp://[::1]/a.b", "nntp://[::1]/a.b/7"),
    ("news:a.b", "news:m@x"),
    ("news://h/a.b", "nntp://h/a.b/7"),
    ("news://u:p@h:1119/a.b", "nntp://h:1119/a.b/7"),
    ("snews://h/a.b", "snews://h/m@x"),
    ("snews:a.b", "snews:m@x"),
]
GROUPS = [
    ("news:*", "news:a.b"),
    ("news://h/*", "nntp://h/a.b"),
    ("news://h:1119", "nntp://h:1119/a.b"),
    ("snews://h/a.*", "snews://h/a.b"),
    ("snews:*", "snews:a.b"),
]


@pytest.mark.parametrize(("listed", "child"), ARTICLES)
def test_article_urls_follow_listing_url(listed: str, child: str) -> None:
    assert EntryUrls(news_url(listed)).article(b"a.b", 7, b"m@x") == child
    assert parse(child).text == child


@pytest.mark.parametrize(("listed", "child"), GROUPS)
def test_group_urls_follow_listing_url(listed: str, child: str) -> None:
    assert EntryUrls(news_url(listed)).group(b"a.b") == child
    assert parse(child).text == child


@pytest.mark.parametrize(
    "message_id", [None, b"", b"no at", b"a b@c", b"a\r\nb@c", b"a@b>", b"x" * 249 + b"@h"]
)
def test_article_url_of_invalid_message_id_is_none(message_id: bytes | None) -> None:
    assert EntryUrls(news_url("news:a.b")).article(b"a.b", 7, message_id) is None


@pytest.mark.parametrize("number", [-1, 10**16])
def test_article_url_of_invalid_number_is_none(number: int) -> None:
    assert EntryUrls(news_url("nntp://h/a.b")).article(b"a.b", number, b"m@x") is None


@pytest.mark.parametrize("listed", ["news:*", "news://h/*", "snews:*"])
@pytest.mark.parametrize("name", [b"", b"a b", b"a*", b"a\r\nQUIT", "grüße".encode(), b"g" * 495, b"a/b"])
def test_group_url_of_invalid_name_is_none(listed: str, name: bytes) -> None:
    assert EntryUrls(news_url(listed)).group(name) is None
