"""wais URLs (RFC 1738 3.9)."""

from __future__ import annotations

import pytest

from protocols.contract import JsonValue
from protocols.wais.url import build
from resolver import InvalidUrl, WaisUrl, parse
from tests.protocols.url_rows import Bad, Good, check_bad, check_good


def parts(
    database: str, search: str | None = None, wtype: str | None = None, wpath: str | None = None
) -> dict[str, JsonValue]:
    return {"database": database, "search": search, "wtype": wtype, "wpath": wpath}


GOOD = [
    Good("wais://h/", {**parts(""), "default_port": 210}),
    Good("wais://h/d%2Fb%3Fc", parts("d/b?c")),
    Good("wais://h/d;b", parts("d;b"), "reserved-char"),
    Good("wais://h/d=b", parts("d=b"), "reserved-char"),
    Good("wais://h/d~", parts("d~"), "unsafe-char"),
    Good("wais://h/?", parts("", "")),
    Good("wais://h/?x", parts("", "x")),
    Good("wais://h/d?;:@&=+%20", parts("d", ";:@&=+ ")),
    Good("wais://h/d?a/b", parts("d", "a/b"), "reserved-char"),
    Good("wais://h/d?a?b", parts("d", "a?b"), "reserved-char"),
    Good("wais://h/d:?x~", parts("d:", "x~"), "reserved-char unsafe-char"),
    # The document form: a slash before any `?`.
    Good("wais://h///", parts("", None, "", "")),
    Good("wais://h/d/TEXT/", parts("d", None, "TEXT", "")),
    Good("wais://h/d/T%20X/%2541%00", parts("d", None, "T X", "%2541%00")),
    Good("wais://h/d/T/a/b", parts("d", None, "T", "a/b"), "reserved-char"),
    Good("wais://h/d/T/a?b", parts("d", None, "T", "a?b"), "reserved-char"),
    Good("wais://h/d/T?x/y", parts("d", None, "T?x", "y"), "reserved-char"),
    Good("wais://h/d&/T/y", parts("d&", None, "T", "y"), "reserved-char"),
    Good("wais://h/d/T/a|b", parts("d", None, "T", "a|b"), "unsafe-char"),
    Good(
        "wais://h/d/HTML/107/1=a%2Fb;7=%00;", parts("d", None, "HTML", "107/1=a%2Fb;7=%00;"), "reserved-char"
    ),
    Good("wais://h/d#f", {**parts("d"), "fragment": "f"}),
]

BAD = [
    Bad("wais://h→", "missing-path"),
    Bad("wais://h→#f", "missing-path"),
    Bad("wais://h/d/→", "missing-path"),
    Bad("wais://h/d/T→", "missing-path"),
    Bad("wais://h/d/T?x→", "missing-path"),
]


@pytest.mark.parametrize("row", GOOD, ids=lambda row: row.text)
def test_wais_urls_are_read(row: Good) -> None:
    check_good(row)


@pytest.mark.parametrize("row", BAD, ids=lambda row: row.text)
def test_wais_urls_are_refused(row: Bad) -> None:
    check_bad(row)


def test_the_place_of_every_piece_is_kept() -> None:
    for text, pieces in [
        ("wais://h/d%1Fb?x", {"database": "d%1Fb", "search": "x"}),
        ("wais://h/d/T/p/q", {"database": "d", "wtype": "T", "wpath": "p/q"}),
    ]:
        url = parse(text)
        assert {place.name: text[place.start : place.end] for place in url.places[2:]} == pieces


def wais(database: bytes, search: bytes | None = None, *document: str) -> WaisUrl:
    wtype, wpath = (document[0].encode(), document[1]) if document else (None, None)
    return WaisUrl(scheme="wais", host="h", database=database, search=search, wtype=wtype, wpath=wpath)


@pytest.mark.parametrize(
    ("url", "written"),
    [
        (wais(b""), "wais://h/"),
        (wais(b"a/b?c;~"), "wais://h/a%2Fb%3Fc%3B%7E"),
        (wais(b"d", b""), "wais://h/d?"),
        (wais(b"d", b"a/b?c:d e"), "wais://h/d?a%2Fb%3Fc:d%20e"),
        (wais(b"d", None, "", ""), "wais://h/d//"),
        (wais(b"d", None, "T/X", "107/1=%00;~"), "wais://h/d/T%2FX/107/1=%00;%7E"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_wais_urls_are_written(url: WaisUrl, written: str) -> None:
    assert build(url) == written


def test_a_document_that_is_not_written_as_a_part_of_a_url() -> None:
    with pytest.raises(InvalidUrl, match="wpath"):
        build(wais(b"d", None, "T", "a b"))
