"""What an href is, on the page of `http://h/d/`."""

from __future__ import annotations

import pytest

from protocols.http.index.links import Directory, Role
from resolver import HttpUrl, parse

ENTRIES = (
    ("x", "x", b"x", False),
    ("x/", "x", b"x", True),
    ("/d/abs", "abs", b"abs", False),
    ("./dot", "dot", b"dot", False),
    ("../d/up", "up", b"up", False),
    ("http://h/d/x", "x", b"x", False),
    ("HTTP://H/d/x", "x", b"x", False),
    ("//h/d/x", "x", b"x", False),
    ("http://h/%64/x", "x", b"x", False),  # the same path, written otherwise
    ("..%5c..%5cevil2", "..%5c..%5cevil2", b"..\\..\\evil2", False),  # S14 cleans it
    ("..%252f", "..%252f", b"..%2f", False),  # decoded once
    ("%252e%252e", "%252e%252e", b"%2e%2e", False),
    ("%3FC=N;O=D", "%3FC=N;O=D", b"?C=N;O=D", False),
    ("100%", "100%25", b"100%", False),
    (" sp ace ", "sp%20ace", b"sp ace", False),
    ("<b>", "%3Cb%3E", b"<b>", False),
    ("caf\xe9", "caf%E9", b"caf\xe9", False),  # an octet stays that octet
    ("\u65e5", "%E6%97%A5", "日".encode(), False),  # a reference to a character is its UTF-8
    ("n\nl", "n%0Al", b"n\nl", False),
    ("\tx\r\n", "x", b"x", False),
)
OTHERS = (
    ("?C=N;O=D", Role.SORT),
    ("?C=M&O=A", Role.SORT),
    ("?sort=name&order=asc", Role.SORT),
    ("?sort=x", Role.NOTHING),
    ("x?y", Role.NOTHING),
    ("x?C=N;O=D", Role.NOTHING),
    ("#x", Role.NOTHING),
    ("z#f", Role.NOTHING),
    ("", Role.NOTHING),
    (".", Role.NOTHING),
    ("./", Role.NOTHING),
    ("/d/", Role.NOTHING),
    ("../", Role.PARENT),
    ("..", Role.PARENT),
    ("/", Role.PARENT),
    ("/d/../", Role.PARENT),
    ("http://other/d/x", Role.OUTSIDE),
    ("http://h:81/d/x", Role.OUTSIDE),
    ("https://h/d/x", Role.OUTSIDE),
    ("//other/d/x", Role.OUTSIDE),
    ("javascript:alert(1)", Role.OUTSIDE),
    ("http:x", Role.OUTSIDE),
    ("/e/x", Role.OUTSIDE),
    ("../e", Role.OUTSIDE),
    ("../../../e", Role.OUTSIDE),
    ("sub/deep.txt", Role.OUTSIDE),
    ("/d//x", Role.OUTSIDE),
    ("a%2Fb", Role.FOREIGN),
    ("..%2f..%2fevil", Role.FOREIGN),
    ("%2e%2e", Role.FOREIGN),
    ("%2E", Role.FOREIGN),
    ("%00", Role.FOREIGN),
)


def directory_at(text: str) -> Directory:
    url = parse(text)
    assert isinstance(url, HttpUrl)
    return Directory(url)


@pytest.mark.parametrize(("href", "segment", "name", "is_directory"), ENTRIES)
def test_an_entry_is_one_segment_below(href: str, segment: str, name: bytes, is_directory: bool) -> None:
    link = directory_at("http://h/d/").read(href)
    assert link == (Role.ENTRY, segment, name, is_directory)


@pytest.mark.parametrize(("href", "role"), OTHERS)
def test_nothing_else_is(href: str, role: Role) -> None:
    assert directory_at("http://h/d/").read(href).role is role


def test_a_search_of_the_page_and_a_login_are_not_the_directory() -> None:
    directory = directory_at("http://me:secret@h/d/?C=N;O=D")
    assert directory.text == "http://me@h/d/"
    assert directory.read("x").role is Role.ENTRY


def test_the_root_has_no_parent() -> None:
    directory = directory_at("http://h")
    assert directory.text == "http://h/"
    assert [directory.read(href).role for href in ("../", "/", "x")] == [
        Role.NOTHING,
        Role.NOTHING,
        Role.ENTRY,
    ]


@pytest.mark.parametrize(
    ("base", "astray"),
    [("/d/", False), ("http://h/d/other", False), ("/e/", True), ("http://other/d/", True)],
)
def test_a_base_decides_where_links_are_from(base: str, astray: bool) -> None:
    directory = directory_at("http://h/d/")
    directory.rebase(base)
    assert directory.astray is astray
    assert (directory.read("x").role is Role.ENTRY) is not astray
    assert directory.read("http://h/d/x").role is Role.ENTRY
