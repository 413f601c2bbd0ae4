"""Overview lines, and lines made of heads."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from protocols.news.article import parse_head
from protocols.news.listing import OverviewReader, encode_overview
from resolver import Entry, Finding, Kind, LimitExceeded
from tests.protocols.news.captures import exchanges

LINE = (
    b"7\t=?utf-8?q?=C3=BC?= x\tA <a@b>\tMon, 06 Jan 2025 10:00:24 +0000\t<m@x>\t<r@x>  <s@x>\t280\t12"
    b"\tXref: news.example a.b:7\tX-Odd: y: z"
)


def read(octets: bytes, size: int = 1 << 20) -> tuple[list[Entry], list[Finding]]:
    findings: list[Finding] = []
    reader = OverviewReader(b"a.b", lambda group, number, message_id: f"{number}", 1_000, findings)
    entries: list[Entry] = []
    for start in range(0, len(octets), size):
        entries += reader.feed(octets[start : start + size])
    entries += reader.finish()
    return entries, findings


@pytest.mark.parametrize("size", [1, 2, 3, 1 << 20])
def test_a_whole_line(size: int) -> None:
    entries, findings = read(LINE + b"\r\n", size)
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
def test_what_may_be_missing_or_wrong(
    line: bytes, size: int | None, lines: int | None, references: list[str]
) -> None:
    entries, findings = read(line + b"\r\n")
    assert [entry.name for entry in entries] == ["7"]
    assert entries[0].extra is not None
    assert (entries[0].size, entries[0].extra["lines"]) == (size, lines)
    assert entries[0].extra["references"] == references
    assert findings == []


@pytest.mark.parametrize(
    "line", [b"", b"7", b"7\ta\tb\tc", b"x\ta\tb\tc\td", b"-7\ta\tb\tc\td", b"1" * 17 + b"\t\t\t\t"]
)
def test_what_is_no_overview(line: bytes) -> None:
    entries, findings = read(line + b"\r\n" + LINE + b"\r\n" + line + b"\r\n")
    assert [entry.name for entry in entries] == ["7"]
    assert [(finding.rule, finding.detail[:2]) for finding in findings] == [("nntp:overview-line", "2 ")]


def test_a_wrong_order_is_told() -> None:
    entries, findings = read(b"8\t\t\t\t\r\n7\t\t\t\t\r\n")
    assert [entry.name for entry in entries] == ["8", "7"]
    assert [finding.rule for finding in findings] == ["nntp:overview-order"]


def test_a_line_too_long() -> None:
    with pytest.raises(LimitExceeded):
        read(b"7\t" + b"x" * 1_000 + b"\t\t\t\r\n")


def test_odd_headers_of_a_real_server() -> None:
    content = next(each.content for each in exchanges("over_odd_headers") if each.command == b"OVER 4-17")
    assert content is not None
    entries, findings = read(content)
    assert findings == []
    titles = {entry.name: entry.title for entry in entries}
    assert titles["4"] == "Raw UTF-8 header: Grüße — 日本語"
    assert all(entry.modified is not None and entry.size for entry in entries)
    assert len(entries) == 14


def test_a_line_made_of_a_head() -> None:
    head = parse_head(
        b"From: a\tb\r\nSubject: x\r\n\ty\0z\nq\r\nDate: d\r\nMessage-ID: <m@x>\r\n"
        b"References: <r@x>\r\nLines: 3\r\nXref: news a.b:7\r\n"
    )
    line = encode_overview(7, head)
    assert line == b"7\tx y z q\ta b\td\t<m@x>\t<r@x>\t\t3\tXref: news a.b:7\r\n"
    entries, findings = read(line)
    assert (len(entries), findings) == (1, [])


def test_a_line_made_of_nothing() -> None:
    assert encode_overview(7, parse_head(b"")) == b"7\t\t\t\t\t\t\t\r\n"
