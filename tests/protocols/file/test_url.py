"""Tests of file URLs (RFC 1738 3.10, RFC 8089)."""

from __future__ import annotations

import pytest

from protocols.contract import JsonValue
from protocols.file.url import build
from resolver import FileUrl, InvalidUrl, parse
from tests.protocols.url_rows import Bad, Good, check_bad, check_good


def path(host: str | None, *segments: str) -> dict[str, JsonValue]:
    return {"host": host, "segments": list(segments)}


GOOD = [
    Good("file:///", path("", "")),
    Good("file:////x", path("", "", "x")),
    Good("file:///a/", path("", "a", "")),
    Good("file:///a%2Fb/%2e%2e/%00", path("", "a/b", "..", "\x00")),
    Good("file:///?:@&=", path("", "?:@&=")),
    Good("file:///a;type=i", path("", "a;type=i"), "reserved-char"),
    Good("file:///~/x", path("", "~", "x"), "unsafe-char"),
    Good("file:///a#b", {**path("", "a"), "fragment": "b"}),
    Good("file://LocalHost/x", path("localhost", "x")),
    Good("file://h.example/x", path("h.example", "x")),
    Good("file://[::1]/x", path("::1", "x"), "ipv6-literal"),
    Good("file://h%2Eexample/x", path("h.example", "x"), "encoded-host"),
    Good("file://my_host/x", path("my_host", "x"), "host-syntax"),
    Good("file://", path(""), "missing-slash"),
    Good("file://h", path("h"), "missing-slash"),
    Good("file://h#f", {**path("h"), "fragment": "f"}, "missing-slash"),
    Good("file://u:p@h/x", {**path("h", "x"), "user": "u", "password": "p"}, "userinfo-not-allowed"),
    Good("file://@/x", {**path("", "x"), "user": ""}, "userinfo-not-allowed"),
    Good("file:/", path(None, ""), "file-no-authority"),
    Good("file:/a/b", path(None, "a", "b"), "file-no-authority"),
    Good("file:/a@b?c", path(None, "a@b?c"), "file-no-authority"),
]

BAD = [
    Bad("file:→", "file-relative"),
    Bad("file:→x", "file-relative"),
    Bad("file:→?x", "file-relative"),
    Bad("file:→#/x", "file-relative"),
    Bad("file:→%2Fx", "file-relative"),
    Bad("file://h→:80/x", "port-not-allowed"),
    Bad("file://h→:/x", "port-not-allowed"),
    Bad("file://→:80/x", "port-not-allowed"),
    Bad("file://h→:x/x", "port-not-allowed"),
    Bad("file://[::1]→:80/x", "port-not-allowed"),
    Bad("file://h:1→:2/x", "bad-host"),
    Bad("file://→1.2/x", "bad-host"),
    Bad("file://C→:/x", "port-not-allowed"),  # a drive letter with one slash missing
    Bad("file://C→|/x", "bad-host"),
]


@pytest.mark.parametrize("row", GOOD, ids=lambda row: row.text)
def test_file_urls_are_parsed(row: Good) -> None:
    check_good(row)


@pytest.mark.parametrize("row", BAD, ids=lambda row: row.text)
def test_file_urls_are_refused(row: Bad) -> None:
    check_bad(row)


def test_file_url_places_include_every_segment() -> None:
    url = parse("file:///a/%00/")
    shown = {place.name: url.text[place.start : place.end] for place in url.places[1:]}
    assert shown == {"segments[0]": "a", "segments[1]": "%00", "segments[2]": ""}


@pytest.mark.parametrize(
    ("url", "written"),
    [
        (FileUrl(scheme="file", segments=(b"etc", b"")), "file:///etc/"),
        (FileUrl(scheme="file", host="h", segments=(b"a/b", b"~;?")), "file://h/a%2Fb/%7E%3B?"),
        (FileUrl(scheme="file", host="::1", segments=(b"",)), "file://[::1]/"),
        (FileUrl(scheme="file", host="h"), "file://h"),
        (FileUrl(scheme="file", host=None, segments=(b"a", b"b")), "file:/a/b"),
        # Without an empty authority, the path `//h/x` would be parsed as a host.
        (FileUrl(scheme="file", host=None, segments=(b"", b"h", b"x")), "file:////h/x"),
        (FileUrl(scheme="file", host=None), "file://"),
        (FileUrl(scheme="file", host="h", user=b"u", segments=(b"x",)), "file://u@h/x"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_file_urls_are_built(url: FileUrl, written: str) -> None:
    assert build(url) == written


def test_file_url_build_refuses_invalid_host() -> None:
    with pytest.raises(InvalidUrl, match="bad-host"):
        build(FileUrl(scheme="file", host="a/b", segments=(b"x",)))
