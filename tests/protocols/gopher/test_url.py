"""Tests of gopher and gophers URLs (RFC 1738 3.4)."""

from __future__ import annotations

import pytest

from protocols.gopher.url import build
from resolver import GopherUrl, InvalidUrl, parse
from tests.protocols.url_rows import Bad, Good, check_bad, check_good

FORM = "+%091%0D%0A+-1%0D%0Aa%0D%0A.%0D%0A"
NONE = {"search": None, "gopherplus": None}

GOOD = [
    Good("gopher://h", {"gophertype": "1", "selector": "", **NONE, "default_port": 70}),
    Good("gophers://h/", {"gophertype": "1", "selector": "", **NONE, "default_port": 70}),
    Good("gopher://h/9", {"gophertype": "9", "selector": "", **NONE}),
    Good("gopher://h//x", {"gophertype": "/", "selector": "x"}),
    Good("gopher://h/?x", {"gophertype": "?", "selector": "x"}),
    Good("gopher://h/;/?:@&=", {"gophertype": ";", "selector": "/?:@&="}),
    Good("gopher://h/%2b%2B", {"gophertype": "+", "selector": "+"}),
    Good("gopher://h/~x", {"gophertype": "~", "selector": "x"}, "unsafe-char"),
    Good("gopher://h/0a~%09b|", {"selector": "a~", "search": "b|"}, "unsafe-char"),
    Good("gopher://h/0a%09", {"selector": "a", "search": "", "gopherplus": None}),
    Good("gopher://h/0%09%09", {"selector": "", "search": "", "gopherplus": ""}),
    Good("gopher://h/7%09a%20b", {"selector": "", "search": "a b", "gopherplus": None}),
    Good("gopher://h/0a%09b%09c%09d%09", {"selector": "a", "search": "b", "gopherplus": "c\td\t"}),
    Good("gopher://h/0a%2509b", {"selector": "a%09b", "search": None}),  # split first, then decoded once
    Good("gopher://h/0a%09+", {"search": "+", "gopherplus": None}),
    Good(f"gopher://h/1a%09%09{FORM}", {"gopherplus": "+\t1\r\n+-1\r\na\r\n.\r\n"}),  # no finding
    Good("gopher://h/0a%0D", {"selector": "a\r"}, "selector-control"),
    Good("gopher://h/0%0Aa", {"selector": "\na"}, "selector-control"),
    Good("gopher://h/7a%09b%0Dc", {"search": "b\rc"}, "selector-control"),
    Good("gopher://h/0%00%01%FF", {"selector": "\x00\x01\xff"}),
]

BAD = [Bad(f"gopher://h/→%{octet:02X}x", "bad-gophertype") for octet in (0, 9, 0x0D, 0x20, 0x7F, 0x80, 0xFF)]


@pytest.mark.parametrize("row", GOOD, ids=lambda row: row.text)
def test_gopher_urls_are_parsed(row: Good) -> None:
    check_good(row)


@pytest.mark.parametrize("row", BAD, ids=lambda row: row.text)
def test_gopher_url_invalid_type_is_refused(row: Bad) -> None:
    check_bad(row)


def test_gopher_url_places_include_every_part() -> None:
    url = parse("gopher://h/%31sel%09se%61rch%09+%09")
    shown = {place.name: url.text[place.start : place.end] for place in url.places[2:]}
    assert shown == {"gophertype": "%31", "selector": "sel", "search": "se%61rch", "gopherplus": "+%09"}


def test_selector_control_error_has_position() -> None:
    with pytest.raises(InvalidUrl) as caught:
        parse("gopher://h/0a%41b%0Dc", strict=True)
    assert (caught.value.kind, caught.value.position) == ("selector-control", 17)


def gopher(gophertype: str, selector: bytes, *rest: bytes | None) -> GopherUrl:
    search, gopherplus = (*rest, None, None)[:2]
    return GopherUrl(
        scheme="gopher",
        host="h",
        gophertype=gophertype,
        selector=selector,
        search=search,
        gopherplus=gopherplus,
    )


@pytest.mark.parametrize(
    ("url", "written"),
    [
        (gopher("1", b""), "gopher://h/1"),
        (gopher("/", b"/a b?"), "gopher://h///a%20b?"),
        (gopher("~", b"~"), "gopher://h/%7E%7E"),
        (gopher("7", b"x", b""), "gopher://h/7x%09"),
        (gopher("7", b"x", b"a+b"), "gopher://h/7x%09a+b"),
        (gopher("1", b"x", None, b"+"), "gopher://h/1x%09%09+"),
        (gopher("1", b"x", b"", b"+\t1\r\n"), "gopher://h/1x%09%09+%091%0D%0A"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_gopher_urls_are_built(url: GopherUrl, written: str) -> None:
    assert build(url) == written


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        (gopher("", b"x"), "bad-gophertype"),
        (gopher("10", b"x"), "bad-gophertype"),
        (gopher(" ", b"x"), "bad-gophertype"),
        (gopher("\t", b"x"), "bad-gophertype"),
        (gopher("é", b"x"), "bad-gophertype"),
        (gopher("1", b"a\tb"), "selector-control"),
        (gopher("7", b"a", b"b\tc"), "selector-control"),
    ],
)
def test_gopher_url_build_refuses_ambiguous_parts(url: GopherUrl, kind: str) -> None:
    with pytest.raises(InvalidUrl) as caught:
        build(url)
    assert caught.value.kind == kind
