"""Tests of http and https URLs (RFC 1738 3.3)."""

from __future__ import annotations

import pytest

from protocols.http.url import build, list_names
from resolver import HttpUrl, InvalidUrl
from tests.protocols.url_rows import Good, check_good

GOOD = [
    Good("http://h", {"path": None, "search": None, "default_port": 80}),
    Good("https://h", {"path": None, "search": None, "default_port": 443}),
    Good("http://h/", {"path": "", "search": None}),
    Good("http://h//", {"path": "/", "search": None}),
    Good("http://h/?", {"path": "", "search": ""}),
    Good("http://h/;:@&=/x", {"path": ";:@&=/x"}),
    Good("http://h/a?;:@&=", {"search": ";:@&="}),
    Good("http://h/a/../b/./%2e%2e/%7e+", {"path": "a/../b/./%2e%2e/%7e+"}),
    Good("http://h/a?%2541+b", {"search": "%2541+b"}),
    Good("http://h/a?b/c", {"path": "a", "search": "b/c"}, "reserved-char"),
    Good("http://h/a?b?c", {"path": "a", "search": "b?c"}, "reserved-char"),
    Good("http://h/a?b/c?d", {"search": "b/c?d"}, "reserved-char"),
    Good("http://h/a?[~]", {"search": "[~]"}, "unsafe-char"),
    Good("http://h/a\\b", {"path": "a\\b"}, "unsafe-char"),  # a backslash in a path is data
    Good("http://h?x", {"path": None, "search": "x"}, "missing-slash"),
    Good("https://h?", {"path": None, "search": ""}, "missing-slash"),
    Good("http://h?a/b", {"path": None, "search": "a/b"}, "missing-slash reserved-char"),
    Good("http://h:81?#", {"port": 81, "search": "", "fragment": ""}, "missing-slash"),
    Good("http://h/a#b?c", {"path": "a", "search": None, "fragment": "b?c"}),
]


@pytest.mark.parametrize("row", GOOD, ids=lambda row: row.text)
def test_http_urls_are_parsed(row: Good) -> None:
    check_good(row)


def http(path: str | None, search: str | None = None) -> HttpUrl:
    return HttpUrl(scheme="http", host="h", path=path, search=search)


@pytest.mark.parametrize(
    ("url", "written"),
    [
        (http(None), "http://h"),
        (http(""), "http://h/"),
        (http("a/%2F/../b", ""), "http://h/a/%2F/../b?"),
        (http(None, "q"), "http://h/?q"),  # a slash is added before the search
        (http("~[x]", "{y}"), "http://h/%7E%5Bx%5D?%7By%7D"),
        (http("a", "b/c?d"), "http://h/a?b/c?d"),  # an escape would change the meaning
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_http_urls_are_built(url: HttpUrl, written: str) -> None:
    assert build(url) == written


@pytest.mark.parametrize(
    ("path", "names"),
    [
        (None, ()),
        ("", ()),
        ("a/b", (b"a", b"b")),
        ("a/b/", (b"a", b"b")),
        ("a//b//", (b"a", b"", b"b", b"")),
        ("./a/./b/.", (b"a", b"b")),
        ("a/b/../c", (b"a", b"c")),
        ("a/%2e%2e/c%20d/%2E", (b"c d",)),
        ("../../a", (b"a",)),
    ],
)
def test_names_of_path_has_no_dot_segments(path: str | None, names: tuple[bytes, ...]) -> None:
    assert list_names(http(path)) == names


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        (http("a?b"), "bad-char"),
        (http("a#b"), "bad-char"),
        (http("a b"), "bad-char"),
        (http("a\r\nHost: x"), "bad-char"),
        (http("a", "b#c"), "bad-char"),
        (http("a", "%zz"), "bad-escape"),
        (http("ä"), "non-ascii"),
    ],
)
def test_http_url_build_refuses_ambiguous_parts(url: HttpUrl, kind: str) -> None:
    with pytest.raises(InvalidUrl) as caught:
        build(url)
    assert caught.value.kind == kind
