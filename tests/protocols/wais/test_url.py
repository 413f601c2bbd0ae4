"""wais URLs (RFC 1738 3.9)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.wais.coding import write_element
from protocols.contract import JsonValue
from protocols.syntax import encode
from protocols.wais.url import (
    WrittenId,
    build,
    parse_fields,
    parse_wpath,
    with_search,
    write_fields,
)
from resolver import InvalidUrl, WaisUrl, parse
from tests.protocols.typed_url import parse_as
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
def test_parse_wais_url_returns_components(row: Good) -> None:
    check_good(row)


@pytest.mark.parametrize("row", BAD, ids=lambda row: row.text)
def test_parse_invalid_wais_url_reports_position(row: Bad) -> None:
    check_bad(row)


def test_parse_wais_url_keeps_component_positions() -> None:
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
def test_build_wais_url(url: WaisUrl, written: str) -> None:
    assert build(url) == written


def test_build_of_unencoded_wpath_raises() -> None:
    with pytest.raises(InvalidUrl, match="wpath"):
        build(wais(b"d", None, "T", "a b"))


# Document ids and their two spellings (wais page, sections 6 and 11).

HARBOUR = (
    write_element(1, b"wais.example:8210")
    + write_element(2, b"/srv/wais/db/demo")
    + write_element(3, b"0 107 /srv/wais/docs/harbour.txt")
    + write_element(7, b"\0")
)

#: Encoded path, and the id: the browsers' spelling.
IN_FIELDS = [
    (
        "107/1=wais.example%3A8210;2=/srv/wais/db/demo;3=0%20107%20/srv/wais/docs/harbour.txt;7=%00;",
        WrittenId(HARBOUR, True, 107),
    ),
    ("2=demo;3=x;", WrittenId(b"\x02\x04demo\x03\x01x", True, None)),  # the length is missing
    ("9/2=demo;3=x", WrittenId(b"\x02\x04demo\x03\x01x", True, 9)),  # the last semicolon is missing
    ("9/2=demo;7=;", WrittenId(b"\x02\x04demo\x07\x01\0", True, 9)),  # the NUL was lost
    ("9/2=demo;7=", WrittenId(b"\x02\x04demo\x07\x01\0", True, 9)),
    ("9/2=demo;7=0;", WrittenId(b"\x02\x04demo\x07\x010", True, 9)),  # Emacs wrote a decimal number
    ("9/7=;2=;", WrittenId(b"\x07\x01\0\x02\x00", True, 9)),
    ("9/2=a%3Bb%3Dc;3=x;", WrittenId(b"\x02\x05a;b=c\x03\x01x", True, 9)),  # escaped delimiters are data
    ("9/2=a=b;", WrittenId(b"\x02\x03a=b", True, 9)),
    ("9/127=x;", WrittenId(b"\x7f\x01x", True, 9)),
    ("9/007=x;", WrittenId(b"\x07\x01x", True, 9)),
    ("9/3=" + "x" * 180 + ";", WrittenId(b"\x03\x81\x34" + b"x" * 180, True, 9)),  # a two-byte length
    ("0/1=;", WrittenId(b"\x01\x00", True, 0)),
    ("9" * 40 + "/1=x;", WrittenId(b"\x01\x01x", True, None)),
]

#: The RFC's spelling: every path that is not in the browsers' spelling.
OPAQUE = [
    ("", b""),
    ("%02%04demo%03%01x", b"\x02\x04demo\x03\x01x"),
    ("0000000001WJ", b"0000000001WJ"),
    ("107/abc", b"107/abc"),
    ("107/", b"107/"),
    ("a/1=x;", b"a/1=x;"),
    ("9/1=x;y", b"9/1=x;y"),
    ("9/1=x;;", b"9/1=x;;"),
    ("9/=x;", b"9/=x;"),
    ("9/1%3Dx;", b"9/1=x;"),
    ("%31=x;", b"1=x;"),
    ("9/0=x;", b"9/0=x;"),  # tags outside 1 to 127
    ("9/128=x;", b"9/128=x;"),
    ("9/1=x;" + "1" * 9_000 + "=x;", b"9/1=x;" + b"1" * 9_000 + b"=x;"),
]


@pytest.mark.parametrize(("wpath", "written"), IN_FIELDS, ids=lambda value: str(value)[:40])
def test_parse_wpath_in_browser_spelling(wpath: str, written: WrittenId) -> None:
    assert parse_wpath(wpath) == written


@pytest.mark.parametrize(("wpath", "octets"), OPAQUE, ids=lambda value: str(value)[:40])
def test_parse_wpath_in_rfc_spelling(wpath: str, octets: bytes) -> None:
    assert parse_wpath(wpath) == WrittenId(octets)


def test_document_id_is_written_in_both_spellings() -> None:
    assert encode(HARBOUR).startswith("%01%11wais.example%3A8210%02%11%2Fsrv%2Fwais")
    assert encode(HARBOUR).endswith("%07%01%00")
    assert write_fields(HARBOUR, 107) == (
        "107/1=wais.example%3A8210;2=/srv/wais/db/demo;3=0%20107%20/srv/wais/docs/harbour.txt;7=%00;"
    )


@pytest.mark.parametrize(
    "document_id",
    [
        b"",
        b"0000000001WJ",
        HARBOUR[:-1],
        HARBOUR + b"\x81",
        write_element(11, b"x"),  # a tag that browsers refuse
        write_element(200, b"x"),
        write_element(0, b"x"),
        b"\x02\x80\x01x",  # a padded length would not survive a round trip
        b"\x07\x00",  # parsing would restore a lost NUL
    ],
)
def test_write_fields_of_invalid_id_returns_none(document_id: bytes) -> None:
    assert write_fields(document_id, 9) is None
    assert parse_wpath(encode(document_id)) == WrittenId(document_id)


def test_write_fields_without_length_returns_none() -> None:
    assert write_fields(HARBOUR, None) is None


def test_parse_fields() -> None:
    fields = parse_fields(HARBOUR)
    assert fields is not None
    assert [field.tag for field in fields] == [1, 2, 3, 7]
    assert parse_fields(b"") is None


@settings(max_examples=40)
@given(st.binary(max_size=300))
def test_rfc_spelling_round_trips(document_id: bytes) -> None:
    assert parse_wpath(encode(document_id)) == WrittenId(document_id)


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.integers(1, 10), st.binary(min_size=1, max_size=200)), min_size=1),
    st.integers(0, 2**32 - 1),
)
def test_browser_spelling_round_trips(fields: list[tuple[int, bytes]], length: int) -> None:
    document_id = b"".join(write_element(tag, value) for tag, value in fields)
    written = write_fields(document_id, length)
    assert written is not None
    assert parse_wpath(written) == WrittenId(document_id, True, length)


# Components that a caller adds to a URL.


@pytest.mark.parametrize("text", ["wais://h/db", "wais://h/db?x", "wais://h/db/TEXT/x"])
def test_with_search_replaces_search(text: str) -> None:
    url = parse_as(WaisUrl, text)
    assert build(with_search(url, "two wörds?")) == "wais://h/db?two%20w%C3%B6rds%3F"
