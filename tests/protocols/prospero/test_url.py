"""prospero URLs (RFC 1738 3.11)."""

from __future__ import annotations

import pytest

from protocols.prospero.url import Field, build
from resolver import ProsperoUrl, parse
from tests.protocols.url_rows import Bad, Good, check_bad, check_good

GOOD = [
    Good("prospero://h/", {"hsoname": "", "fields": [], "default_port": 1525}),
    Good("prospero://h//a/b", {"hsoname": "/a/b"}),
    Good("prospero://h/?:@&=/x", {"hsoname": "?:@&=/x", "fields": []}),
    Good("prospero://h/a%3Bb%2541", {"hsoname": "a;b%41", "fields": []}),
    Good("prospero://h/a~", {"hsoname": "a~"}, "unsafe-char"),
    Good("prospero://h/;a=b", {"hsoname": "", "fields": [["a", "b"]]}),
    Good("prospero://h/a;=", {"fields": [["", ""]]}),
    Good("prospero://h/a;b=2;a=1;b=2", {"fields": [["b", "2"], ["a", "1"], ["b", "2"]]}),
    Good("prospero://h/a;b%3D=%3B%2F%3D", {"fields": [["b=", ";/="]]}),
    Good("prospero://h/a;?:@&=?:@&", {"fields": [["?:@&", "?:@&"]]}),
    Good("prospero://h/a;b=c=d", {"fields": [["b", "c=d"]]}, "reserved-char"),
    Good("prospero://h/a;b=c/d", {"fields": [["b", "c/d"]]}, "reserved-char"),
    Good("prospero://h/a;b/=c", {"fields": [["b/", "c"]]}, "reserved-char"),
    Good("prospero://h/a;b=~", {"fields": [["b", "~"]]}, "unsafe-char"),
    Good("prospero://h/a;b", {"fields": [["b", None]]}, "field-without-value"),
    Good("prospero://h/a;", {"fields": [["", None]]}, "field-without-value"),
    Good("prospero://h/a;;b=", {"fields": [["", None], ["b", ""]]}, "field-without-value"),
    Good("prospero://h/a;b#;c", {"fields": [["b", None]], "fragment": ";c"}, "field-without-value"),
]

BAD = [Bad("prospero://h→", "missing-path"), Bad("prospero://h→#/x", "missing-path")]


@pytest.mark.parametrize("row", GOOD, ids=lambda row: row.text)
def test_parse_prospero_url_returns_components(row: Good) -> None:
    check_good(row)


@pytest.mark.parametrize("row", BAD, ids=lambda row: row.text)
def test_parse_invalid_prospero_url_reports_position(row: Bad) -> None:
    check_bad(row)


def test_parse_prospero_url_keeps_component_positions() -> None:
    url = parse("prospero://h/x/y;a;b=%0A")
    shown = {place.name: url.text[place.start : place.end] for place in url.places[2:]}
    assert shown == {"hsoname": "x/y", "fields[0].name": "a", "fields[1].name": "b", "fields[1].value": "%0A"}


@pytest.mark.parametrize(
    ("hsoname", "fields", "written"),
    [
        (b"", (), "prospero://h/"),
        (b"/a/b;c~", (), "prospero://h//a/b%3Bc%7E"),
        (b"a", ((b"b", b""), (b"c", None)), "prospero://h/a;b=;c"),
        (b"a", ((b"x=/;y", b"z=/;"),), "prospero://h/a;x%3D%2F%3By=z%3D%2F%3B"),
    ],
)
def test_build_prospero_url(hsoname: bytes, fields: tuple[Field, ...], written: str) -> None:
    assert build(ProsperoUrl(scheme="prospero", host="h", hsoname=hsoname, fields=fields)) == written
