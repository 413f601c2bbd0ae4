"""Lists of groups: two lists merged, patterns, oddities, and counting."""

from __future__ import annotations

import fnmatch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.news.listing import (
    ActiveLine,
    GroupReader,
    count_groups,
    matches,
    parse_active,
    parse_description,
)
from protocols.wire import run_reader
from resolver import Entry, Finding, Kind, LimitExceeded, Truncated

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
def test_a_line_of_list_active(line: bytes, active: ActiveLine, empty: bool) -> None:
    assert parse_active(line) == active._replace(raw=line)
    assert active.is_empty is empty


@pytest.mark.parametrize(
    "line", [b"", b"  ", b"a.b", b"a.b 1", b"a.b x 1 y", b"a.b 1 x y", b"a.b -1 1 y", b"a 1 " + b"1" * 17]
)
def test_what_is_none(line: bytes) -> None:
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
def test_a_line_of_list_newsgroups(line: bytes, name: bytes, description: bytes) -> None:
    assert parse_description(line) == (name, description)


def read(
    octets: bytes, pattern: bytes = b"*", size: int = 1 << 20, hold: int = 1 << 20
) -> tuple[list[Entry], list[str]]:
    findings: list[Finding] = []
    reader = GroupReader(pattern, lambda name: f"news:{name.decode('latin-1')}", 1_000, findings, hold)
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
def test_the_lists_are_merged(size: int) -> None:
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


def test_names_are_matched_again() -> None:
    """Old servers ignore the pattern."""
    assert [entry.name for entry in read(LISTS, b"b.t*")[0]] == ["b.two", "b.three"]


def test_without_descriptions() -> None:
    entries, findings = read(LISTS[: LISTS.index(b".\r\n")])
    assert ([entry.title for entry in entries], findings) == ([None] * 4, [])


def test_lines_that_are_none() -> None:
    entries, findings = read(b"x\r\na.one 1 1 y\r\n\r\n.\r\n\r\n")
    assert ([entry.name for entry in entries], findings) == (["a.one"], ["nntp:group-line"])


def test_a_description_may_be_a_lone_period() -> None:
    """Only the first one stands between the lists."""
    assert [entry.title for entry in read(b"a 1 1 y\r\n.\r\n.\r\na\tx\r\n")[0]] == ["x"]


def test_more_than_may_wait() -> None:
    entries, findings = read(LISTS, hold=15)
    assert [(entry.name, entry.title) for entry in entries][:3] == [
        ("b.two", None),
        ("a.one", None),
        ("b.three", None),
    ]
    assert findings == ["nntp:descriptions"]


def test_descriptions_without_end_do_not_wait_either() -> None:
    """One group is enough to wait for, and any number of names may be described."""
    described = b"".join(b"a.%d\t%s\r\n" % (number, b"x" * 100) for number in range(1_000))
    findings: list[Finding] = []
    reader = GroupReader(b"*", lambda name: f"news:{name.decode()}", 1_000, findings, hold=10_000)
    first = [*reader.feed(b"a.3 1 1 y\r\n.\r\n" + described)]
    assert [(entry.name, entry.title) for entry in first] == [("a.3", "x" * 100)]
    assert [*reader.finish()] == []
    assert [finding.rule for finding in findings] == ["nntp:descriptions"]


@pytest.mark.parametrize(("pattern", "count"), [(b"*", 4), (b"b.*", 3), (b"none", 0)])
@pytest.mark.parametrize("size", [1, 2, 3, 1 << 20])
def test_counting(pattern: bytes, count: int, size: int) -> None:
    block = LISTS[: LISTS.index(b".\r\n") + 3]
    pieces = [block[start : start + size] for start in range(0, len(block), size)]
    assert run_reader(count_groups(pattern, 1_000), *pieces) == count


def test_counting_has_limits_and_an_end() -> None:
    with pytest.raises(LimitExceeded):
        run_reader(count_groups(b"*", 10), b"x" * 20)
    with pytest.raises(Truncated):
        run_reader(count_groups(b"*", 10), b"a 1 1 y\r\n")


# -- patterns of names: the whole name, case and all

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
def test_a_pattern(pattern: bytes, name: bytes, expected: bool) -> None:
    assert matches(pattern, name) is expected


@given(st.text("ab*?", max_size=8), st.text("ab", max_size=12))
def test_as_file_names_are_matched(pattern: str, name: str) -> None:
    assert matches(pattern.encode(), name.encode()) == fnmatch.fnmatchcase(name, pattern)


def test_hostile_patterns_take_no_time() -> None:
    """A search that goes back for every star would not end in the life of a universe."""
    assert not matches(b"*a" * 240 + b"b", b"a" * 5_000)
