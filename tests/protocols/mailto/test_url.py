"""mailto URLs (RFC 1738 3.5, RFC 6068)."""

from __future__ import annotations

import pytest

from protocols.mailto import MAILTO, build
from resolver import InvalidUrl, MailtoUrl, parse
from tests.protocols.url_rows import Bad, Good, check_bad, check_good

GOOD = [
    Good("mailto:A.b@C.d", {"addr_spec": "A.b@C.d", "headers": []}),
    Good("mailto://a@b/c", {"addr_spec": "//a@b/c"}),  # no character is reserved
    Good("mailto:a;b:c&d=e@f", {"addr_spec": "a;b:c&d=e@f"}),
    Good("mailto:joe%40h", {"addr_spec": "joe@h"}),
    Good("mailto:a%2541@b", {"addr_spec": "a%41@b"}),
    Good("mailto:a~@b", {"addr_spec": "a~@b"}, "unsafe-char"),
    Good("mailto:%E9@b", {"addr_spec": "\xe9@b"}),
    Good("mailto:a@b#f", {"addr_spec": "a@b", "fragment": "f"}),
    # Quoted strings may hold signs, commas and escaped quotes.
    Good("mailto:%22a@b%22@c", {"addr_spec": '"a@b"@c'}),
    Good("mailto:%22a,b%22@c", {"addr_spec": '"a,b"@c'}),
    Good("mailto:%22a%5C%22@b%22@c", {"addr_spec": '"a\\"@b"@c'}),
    Good("mailto:%22%22@c", {"addr_spec": '""@c'}),
    # Header fields.
    Good("mailto:a@b?", {"addr_spec": "a@b", "headers": []}, "mailto-headers"),
    Good("mailto:a@b?x=1&y=2", {"headers": [["x", "1"], ["y", "2"]]}, "mailto-headers"),
    Good("mailto:a@b?x%26=1%3D2=3", {"headers": [["x&", "1=2=3"]]}, "mailto-headers"),
    Good("mailto:a@b?x&&y=", {"headers": [["x", ""], ["y", ""]]}, "mailto-headers"),
    Good("mailto:a@b?x=1?2/3", {"headers": [["x", "1?2/3"]]}, "mailto-headers"),
    Good("mailto:a@b?x=~+%0D", {"headers": [["x", "~+\r"]]}, "mailto-headers unsafe-char"),
    # Several addresses stay one string.
    Good("mailto:a@b,c@d", {"addr_spec": "a@b,c@d"}, "mailto-multiple"),
    Good("mailto:a@b%2Cc@d", {"addr_spec": "a@b,c@d"}, "mailto-multiple"),  # a comma is no delimiter of a URL
    Good("mailto:%22,%22@b,c@d?e=f", {"addr_spec": '","@b,c@d'}, "mailto-multiple mailto-headers"),
]

BAD = [
    Bad("mailto:→", "bad-address"),
    Bad("mailto:→?to=a@b", "bad-address"),
    Bad("mailto:→a", "bad-address"),
    Bad("mailto:→@b", "bad-address"),
    Bad("mailto:→a@", "bad-address"),
    Bad("mailto:→@", "bad-address"),
    Bad("mailto:→a@b@c", "bad-address"),
    Bad("mailto:→%22a@b%22", "bad-address"),
    Bad("mailto:→%22a@b", "bad-address"),
    Bad("mailto:→a@b,", "bad-address"),
    Bad("mailto:→,a@b", "bad-address"),
    Bad("mailto:→a@b,,c@d", "bad-address"),
    Bad("mailto:→a@b,c", "bad-address"),
    Bad("mailto:→a,b@c", "bad-address"),
    Bad("mailto:a→%00@b", "bad-address"),
    Bad("mailto:a@b→%0Ac@d", "bad-address"),
    Bad("mailto:a@b→%7F", "bad-address"),
    Bad("mailto:%22→%09%22@b", "bad-address"),
]


@pytest.mark.parametrize("row", GOOD, ids=lambda row: row.text)
def test_mailto_urls_are_read(row: Good) -> None:
    check_good(row)


@pytest.mark.parametrize("row", BAD, ids=lambda row: row.text)
def test_mailto_urls_are_refused(row: Bad) -> None:
    check_bad(row)


def test_the_place_of_every_piece_is_kept() -> None:
    url = parse("mailto:a@b?x=1&y")
    shown = {place.name: url.text[place.start : place.end] for place in url.places[1:]}
    assert shown == {
        "addr_spec": "a@b",
        "headers[0].name": "x",
        "headers[0].value": "1",
        "headers[1].name": "y",
        "headers[1].value": "",
    }


@pytest.mark.parametrize(
    ("addr_spec", "headers", "written"),
    [
        (b"a@b", (), "mailto:a@b"),
        (b"a?%~/b@c", (), "mailto:a%3F%25%7E/b@c"),
        (b"a@b", ((b"x&=", b"?&=y z"), (b"", b"")), "mailto:a@b?x%26%3D=%3F%26%3Dy%20z&="),
    ],
)
def test_mailto_urls_are_written(
    addr_spec: bytes, headers: tuple[tuple[bytes, bytes], ...], written: str
) -> None:
    assert build(MailtoUrl(scheme="mailto", addr_spec=addr_spec, headers=headers)) == written


@pytest.mark.parametrize("addr_spec", [b"", b"a", b"a@b\r\nc", b"a@b@c"])
def test_what_is_no_address_is_not_written(addr_spec: bytes) -> None:
    with pytest.raises(InvalidUrl, match="bad-address"):
        build(MailtoUrl(scheme="mailto", addr_spec=addr_spec))


def test_there_is_nothing_to_connect_to() -> None:
    assert (MAILTO.default_port, MAILTO.transport) == (None, None)
