"""Tests of the role of a link on the index page `http://h/d/`."""

from __future__ import annotations

import pytest

from protocols.http.index.entries import IndexDirectory, LinkRole, parse_moment
from resolver import HttpUrl
from tests.protocols.typed_url import parse_as

ENTRIES = (
    ("x", "x", b"x", False),
    ("x/", "x", b"x", True),
    ("/d/abs", "abs", b"abs", False),
    ("./dot", "dot", b"dot", False),
    ("../d/up", "up", b"up", False),
    ("http://h/d/x", "x", b"x", False),
    ("HTTP://H/d/x", "x", b"x", False),
    ("//h/d/x", "x", b"x", False),
    ("http://h/%64/x", "x", b"x", False),  # the same path with another spelling
    ("..%5c..%5cevil2", "..%5c..%5cevil2", b"..\\..\\evil2", False),  # S14 sanitizes it
    ("..%252f", "..%252f", b"..%2f", False),  # decoded once
    ("%252e%252e", "%252e%252e", b"%2e%2e", False),
    ("%3FC=N;O=D", "%3FC=N;O=D", b"?C=N;O=D", False),
    ("100%", "100%25", b"100%", False),
    (" sp ace ", "sp%20ace", b"sp ace", False),
    ("<b>", "%3Cb%3E", b"<b>", False),
    ("caf\xe9", "caf%E9", b"caf\xe9", False),  # the byte is kept
    ("\u65e5", "%E6%97%A5", "日".encode(), False),  # a character reference is encoded as UTF-8
    ("n\nl", "n%0Al", b"n\nl", False),
    ("\tx\r\n", "x", b"x", False),
)
OTHERS = (
    ("?C=N;O=D", LinkRole.SORT),
    ("?C=M&O=A", LinkRole.SORT),
    ("?sort=name&order=asc", LinkRole.SORT),
    ("?sort=x", LinkRole.NOTHING),
    ("x?y", LinkRole.NOTHING),
    ("x?C=N;O=D", LinkRole.NOTHING),
    ("#x", LinkRole.NOTHING),
    ("z#f", LinkRole.NOTHING),
    ("", LinkRole.NOTHING),
    (".", LinkRole.NOTHING),
    ("./", LinkRole.NOTHING),
    ("/d/", LinkRole.NOTHING),
    ("../", LinkRole.PARENT),
    ("..", LinkRole.PARENT),
    ("/", LinkRole.PARENT),
    ("/d/../", LinkRole.PARENT),
    ("http://other/d/x", LinkRole.OUTSIDE),
    ("http://h:81/d/x", LinkRole.OUTSIDE),
    ("https://h/d/x", LinkRole.OUTSIDE),
    ("//other/d/x", LinkRole.OUTSIDE),
    ("javascript:alert(1)", LinkRole.OUTSIDE),
    ("http:x", LinkRole.OUTSIDE),
    ("/e/x", LinkRole.OUTSIDE),
    ("../e", LinkRole.OUTSIDE),
    ("../../../e", LinkRole.OUTSIDE),
    ("sub/deep.txt", LinkRole.OUTSIDE),
    ("/d//x", LinkRole.OUTSIDE),
    ("a%2Fb", LinkRole.FOREIGN),
    ("..%2f..%2fevil", LinkRole.FOREIGN),
    ("%2e%2e", LinkRole.FOREIGN),
    ("%2E", LinkRole.FOREIGN),
    ("%00", LinkRole.FOREIGN),
)


def directory_at(text: str) -> IndexDirectory:
    url = parse_as(HttpUrl, text)
    return IndexDirectory(url)


@pytest.mark.parametrize(("href", "segment", "name", "is_directory"), ENTRIES)
def test_link_one_segment_below_is_entry(href: str, segment: str, name: bytes, is_directory: bool) -> None:
    link = directory_at("http://h/d/").read(href)
    assert link == (LinkRole.ENTRY, segment, name, is_directory)


@pytest.mark.parametrize("href", ["x", "x/", "...", ".x/", "a.tar.gz", "(~a_!$&'*+,;=@-)/"])
def test_link_with_dot_segment_equals_plain_name(href: str) -> None:
    directory = directory_at("http://h/d/")
    assert directory.read(href) == directory.read(f"./{href}")
    assert directory.read(href).role is LinkRole.ENTRY


@pytest.mark.parametrize(("href", "role"), OTHERS)
def test_link_elsewhere_has_other_role(href: str, role: LinkRole) -> None:
    assert directory_at("http://h/d/").read(href).role is role


def test_directory_ignores_query_and_password_of_page() -> None:
    directory = directory_at("http://me:secret@h/d/?C=N;O=D")
    assert directory.text == "http://me@h/d/"
    assert directory.read("x").role is LinkRole.ENTRY


def test_directory_root_has_no_parent() -> None:
    directory = directory_at("http://h")
    assert directory.text == "http://h/"
    assert [directory.read(href).role for href in ("../", "/", "x")] == [
        LinkRole.NOTHING,
        LinkRole.NOTHING,
        LinkRole.ENTRY,
    ]


@pytest.mark.parametrize(
    ("base", "astray"),
    [("/d/", False), ("http://h/d/other", False), ("/e/", True), ("http://other/d/", True)],
)
def test_directory_base_resolves_links(base: str, astray: bool) -> None:
    directory = directory_at("http://h/d/")
    directory.rebase(base)
    assert directory.has_other_base is astray
    assert (directory.read("x").role is LinkRole.ENTRY) is not astray
    assert directory.read("http://h/d/x").role is LinkRole.ENTRY


@pytest.mark.parametrize(
    ("text", "local"),
    [
        ("09-Sep-2001 01:46", "2001-09-09T01:46"),
        ("09Sep2001 01:46:40", "2001-09-09T01:46:40"),
        ("2001-09-09 23:59", "2001-09-09T23:59"),
        ("2001-Sep-09 01:46:40", "2001-09-09T01:46:40"),
        ("2001-02-29 01:46", None),
        ("0000-09-09 01:46", None),
        ("2001-13-09 01:46", None),
        ("2001-09-09 24:00", None),
        ("2001-09-09 01:60", None),
        ("2001-09-09 01:46:60", None),
    ],
)
def test_moment_without_zone_is_local_time(text: str, local: str | None) -> None:
    moment = parse_moment(text)
    assert (None if moment is None else moment.local) == local
