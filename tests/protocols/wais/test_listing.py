"""Hits as entries, and media types (wais page, sections 5, 9 and 11)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from fixtures.wais.coding import write_element
from protocols.wais.listing import (
    HitReader,
    find_catalog,
    find_media_type,
    linked_url,
    make_results_reply,
    parse_date,
)
from resolver import Entry, Kind, WaisUrl
from tests.protocols.typed_url import parse_as
from tests.protocols.wais.captures import capture, parse_records

HOST = "wais://h.example:8210"


def searched_url(text: str = f"{HOST}/demo?ferries") -> WaisUrl:
    return parse_as(WaisUrl, text)


def entries(group: bytes, *, size: int | None = None, searched: WaisUrl | None = None) -> list[Entry]:
    """Return the entries of a group, read in chunks of `size` bytes."""
    reader = HitReader(searched or searched_url())
    step = len(group) or 1 if size is None else size
    found = [
        entry for start in range(0, len(group), step) for entry in reader.feed(group[start : start + step])
    ]
    return [*found, *reader.finish()]


def hit(document_id: bytes = b"an id", **elements: bytes) -> bytes:
    tags = {"score": 118, "length": 120, "types": 132, "date": 122, "headline": 123}
    return write_element(
        150,
        write_element(116, document_id),
        *(write_element(tags[name], each) for name, each in elements.items()),
    )


def types(*names: bytes) -> bytes:
    return b"".join(write_element(133, name) for name in names)


def recorded(name: str) -> bytes:
    """Return the records of the first search in a recording."""
    return next(records.octets for search, records in capture(name).searches if search.query_type == b"3")


@pytest.mark.parametrize("size", [None, 1, 2, 3])
def test_hits_of_capture_become_entries(size: int | None) -> None:
    found = entries(recorded("search-hits"), size=size)
    assert [(entry.name, entry.size, entry.kind) for entry in found] == [
        ("Unicode sampler", 49, Kind.DOCUMENT),
        ("Harbour notes", 107, Kind.DOCUMENT),
        ("Café menu", 55, Kind.DOCUMENT),
    ]
    harbour = found[1]
    fields = (
        "%01%11wais.example%3A8210%02%11%2Fsrv%2Fwais%2Fdb%2Fdemo%03%200%20107%20%2Fsrv%2Fwais%2Fdocs"
        "%2Fharbour.txt%04%11wais.example%3A8210%05%11%2Fsrv%2Fwais%2Fdb%2Fdemo%06%200%20107%20%2Fsrv%2Fwais"
        "%2Fdocs%2Fharbour.txt%07%01%00"
    )
    assert harbour.url == f"{HOST}/demo/TEXT/{fields}"
    assert harbour.title is None
    assert harbour.modified is None
    assert harbour.raw is not None
    assert harbour.raw.startswith(b"\x81\x16")
    assert harbour.extra == {
        "score": 321,
        "best_match": 0,
        "lines": 3,
        "types": ["TEXT"],
        "media_type": "text/plain",
        "date": "0",
        "source": "/srv/wais/db/demo",
        "city": None,
        "stock_codes": None,
        "company_codes": None,
        "industry_codes": None,
        "other_types": [],
        "libwww_url": f"{HOST}/demo/TEXT/107/1=wais.example%3A8210;2=/srv/wais/db/demo;"
        "3=0%20107%20/srv/wais/docs/harbour.txt;4=wais.example%3A8210;5=/srv/wais/db/demo;"
        "6=0%20107%20/srv/wais/docs/harbour.txt;7=%00;",
    }


#: Recordings and the entries of their first search: kind, name, media type.
RECORDED = [
    ("search-html-type", [("document", "page.html", "text/html")]),
    ("search-ps-type", [("document", "chart.ps", "application/postscript")]),
    ("search-url-type", [("link", "http://www.example/docs/page.html", None)]),
    ("search-no-hits", []),
    ("search-no-hits-no-catalog", []),
    ("multi-type", [("document", "Twin exhibit", "text/plain")]),
    ("header-version-1", [("document", "Unterminated page", "text/plain")]),
    (
        "source-description",
        [
            ("document", "Information on database: demo", "application/x-wais-source"),
            ("document", "Catalog for database: demo", "text/plain"),
        ],
    ),
]


@pytest.mark.parametrize(("name", "expected"), RECORDED)
def test_captures_yield_expected_entries(name: str, expected: list[tuple[str, str, str | None]]) -> None:
    found = entries(recorded(name))
    assert [(each.kind, each.name, (each.extra or {})["media_type"]) for each in found] == expected


def test_captured_dates_are_parsed() -> None:
    found = entries(recorded("search-dates"))
    assert [entry.modified for entry in found] == [
        datetime(1994, 12, 20, tzinfo=UTC),
        datetime(1994, 7, 18, tzinfo=UTC),
    ]


def test_substitute_catalog_is_not_a_hit() -> None:
    records = parse_records(recorded("search-no-hits"))
    substitute = find_catalog(records)
    assert substitute is not None
    assert substitute.length == 550
    assert make_results_reply(parse_as(WaisUrl, f"{HOST}/demo?x"), records, 10_000, 40).extra == {"hits": 0}


@pytest.mark.parametrize(
    "group",
    [
        hit(score=b"\0", headline=b"Search produced something."),
        hit(score=b"\1", headline=b"Search produced no result. Here's more"),
        hit(headline=b"Search produced no result."),
        hit(score=b"\0", headline=b"Search produced no result.") * 2,
    ],
)
def test_substitute_needs_single_record_without_score(group: bytes) -> None:
    assert entries(group)


def test_entry_has_url_of_every_type() -> None:
    (only,) = entries(hit(b"\x02\x01x", types=types(b"TEXT", b"GIF", b"T/X"), length=b"\x39"))
    assert only.url == f"{HOST}/demo/TEXT/%02%01x"
    assert only.extra is not None
    assert only.extra["types"] == ["TEXT", "GIF", "T/X"]
    assert only.extra["other_types"] == [f"{HOST}/demo/GIF/%02%01x", f"{HOST}/demo/T%2FX/%02%01x"]
    assert only.extra["libwww_url"] == f"{HOST}/demo/TEXT/57/2=x;"


def test_entry_url_uses_searched_server_and_database() -> None:
    (only,) = entries(hit(), searched=searched_url("wais://joe@h/two%20words?a#f"))
    assert only.url == "wais://h/two%20words/TEXT/an%20id"


@pytest.mark.parametrize("group", [hit(b"i" * 2_049), hit(types=types(b"T" * 65))])
def test_hit_with_too_long_id_or_type_has_no_url(group: bytes) -> None:
    (only,) = entries(group)
    assert only.url is None


NAMES = [
    (b"Caf\xe9", "Café"),
    ("Café".encode(), "Café"),
    (b"\x1b[2Jgone\x07", "\ufffd[2Jgone\ufffd"),
    (b"\xc2\x9b2J", "\ufffd2J"),
    (b"two\r\nlines", "two\r\nlines"),  # a listing escapes the line end
    (b"", "an id"),
]


@pytest.mark.parametrize(("headline", "name"), NAMES)
def test_headline_control_characters_are_replaced(headline: bytes, name: str) -> None:
    (only,) = entries(hit(headline=headline))
    assert only.name == name


LINKS = [
    (b"http://www.example/docs/page.html", True),
    (b"HTTPS://www.example/", True),
    (b"wais://h/d", True),
    (b"telnet://h/", True),
    (b"file:///etc/passwd", False),  # S20: not offered
    (b"javascript:alert(1)", False),
    (b"prospero://h/x", False),
    (b"mailto:joe@h", False),
    (b"http://h/a b", False),
    (b"http://h/\r\n", False),
    (b"http://h/\xe9", False),
    (b"a page of the web", False),
    (b"", False),
]


@pytest.mark.parametrize(("headline", "offered"), LINKS)
def test_hit_of_type_url_without_an_address_is_a_document(headline: bytes, offered: bool) -> None:
    assert linked_url(headline) == (headline.decode() if offered else None)
    (only,) = entries(hit(types=types(b"URL"), headline=headline))
    assert only.kind is (Kind.LINK if offered else Kind.DOCUMENT)
    assert only.url == (headline.decode() if offered else f"{HOST}/demo/URL/an%20id")
    assert only.extra is not None
    assert only.extra["media_type"] == (None if offered else "application/octet-stream")
    (second,) = entries(hit(types=types(b"TEXT", b"URL"), headline=headline))
    assert second.extra is not None
    assert second.extra["other_types"] == [only.url]


def test_type_url_becomes_link_in_any_position() -> None:
    headline = b"http://www.example/x"
    (first,) = entries(hit(types=types(b"url", b"TEXT"), headline=headline))
    (second,) = entries(hit(types=types(b"TEXT", b"URL"), headline=headline))
    assert first.extra is not None
    assert second.extra is not None
    assert (first.kind, first.url) == (Kind.LINK, "http://www.example/x")
    assert first.extra["other_types"] == [f"{HOST}/demo/TEXT/an%20id"]
    assert (second.kind, second.url) == (Kind.DOCUMENT, f"{HOST}/demo/TEXT/an%20id")
    assert second.extra["other_types"] == ["http://www.example/x"]


DATES = [
    (b"941220", (1994, 12, 20)),
    (b"691231", (2069, 12, 31)),
    (b"700101", (1970, 1, 1)),
    (b"000229", (2000, 2, 29)),
    (b"19940718", (1994, 7, 18)),
    (b"0", None),
    (b"", None),
    (b"941320", None),
    (b"00000000", None),
    (b"94122", None),
    (b"9412201", None),
    ("٩٤١٢٢٠".encode(), None),
    (b"94 220", None),
]


@pytest.mark.parametrize(("date", "expected"), DATES)
def test_parse_date(date: bytes, expected: tuple[int, int, int] | None) -> None:
    assert parse_date(date) == (None if expected is None else datetime(*expected, tzinfo=UTC))


# The media types of WAIS types (wais page, section 9).

TYPES = [
    (b"TEXT", "text/plain"),
    (b"WCAT", "text/plain"),
    (b"HTML", "text/html"),
    (b"WSRC", "application/x-wais-source"),
    (b"GIF", "image/gif"),
    (b"TIFF", "image/tiff"),
    (b"PICT", "image/pict"),
    (b"JPEG", "image/jpeg"),
    (b"JFIF", "image/jpeg"),
    (b"PS", "application/postscript"),
    (b"DVI", "application/x-dvi"),
    (b"gif", "image/gif"),
    (b"TEXT-FTP", "application/octet-stream"),
    (b"FTP-DIR", "application/octet-stream"),
    (b"", "application/octet-stream"),
    (b"TEXT,GIF", "application/octet-stream"),
    (b"\xff", "application/octet-stream"),
]


@pytest.mark.parametrize(("wtype", "media_type"), TYPES)
def test_media_type_of_wais_type(wtype: bytes, media_type: str) -> None:
    assert find_media_type(wtype) == media_type
