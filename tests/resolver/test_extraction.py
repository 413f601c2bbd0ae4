"""Wrapped URLs in running text (RFC 1738, appendix)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.recordings import URLS
from resolver import Extracted, extract
from resolver.url.parsing import MOST_ALTERNATES
from resolver.url.registry import SCHEMES

CASES: list[dict[str, Any]] = [
    case for line in URLS.read_text(encoding="utf-8").splitlines() if "urls" in (case := json.loads(line))
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["text"][:50])
def test_the_corpus_is_searched(case: dict[str, Any]) -> None:
    found = extract(case["text"])
    assert [one.url for one in found] == case["urls"]
    expected = case.get("alternates", [[]] * len(case["urls"]))
    assert [set(one.alternates) for one in found] == [set(alternates) for alternates in expected]


@pytest.mark.parametrize(
    ("text", "urls"),
    [
        ("", []),
        ("no wrapper: http://h/", []),
        ("<>", []),
        ("<URL:>", []),
        ("<URL:x>", []),
        ("<URL:/x:y>", []),
        ("<URL:1x:y>", []),
        ("<URL:URL:http://h/>", []),  # `url` is no scheme
        ("<url:x:>", ["x:"]),
        ("<URL:x-foo:a b>", ["x-foo:ab"]),
        ("<UR\nL:x:y>", ["x:y"]),
        ("< uRl : x:y >", ["x:y"]),
        # Without the prefix only a scheme of ours counts.
        *((f"<{scheme}:x>", [f"{scheme}:x"]) for scheme in SCHEMES),
        ("<HTTP://h/>", ["HTTP://h/"]),
        ("<x-foo:a>", []),
        ("<afs:a>", []),
        ("<localhost:80>", []),
        ("<httpx:a>", []),
        ("<http>", []),
        ("<joe@h.example>", []),
        ('<a href="http://h/">', []),
        ("<ht tp : //h>", ["http://h"]),
        # A `<` always starts over; a `>` ends.
        ("<http://h/<URL:x:y>>", ["x:y"]),
        ("<http://a/><http://b/>", ["http://a/", "http://b/"]),
        ("> <http://a/", []),
        ("<<<http://a/>>>", ["http://a/"]),
        # All whitespace goes; what is escaped stays; nothing is parsed.
        ("<http://h/ \t a\r\n\x0b\x0c b%20c%0A>", ["http://h/ab%20c%0A"]),
        ('<http://h/é"%zz>', ['http://h/é"%zz']),
    ],
)
def test_wrappers(text: str, urls: list[str]) -> None:
    assert [found.url for found in extract(text)] == urls
    assert all(found.alternates == () for found in extract(text))


@pytest.mark.parametrize(
    ("text", "url", "alternates"),
    [
        ("<URL:x:a-\nb>", "x:a-b", {"x:ab"}),
        ("<URL:x:a-\rb>", "x:a-b", {"x:ab"}),
        ("<URL:x:a- \t\r\n b>", "x:a-b", {"x:ab"}),
        ("<URL:x:a- b>", "x:a-b", set()),  # blanks only
        ("<URL:x:a -b>", "x:a-b", set()),
        ("<URL:x:a\n-b>", "x:a-b", set()),  # the line ends before the hyphen
        ("<URL:x:a-b\n>", "x:a-b", set()),
        ("<URL:x:a%2D\nb>", "x:a%2Db", set()),
        ("<URL:x:a-\n>", "x:a-", {"x:a"}),
        ("<URL:x:a--\nb>", "x:a--b", {"x:a-b"}),
        ("<URL:x:a-\n-\nb>", "x:a--b", {"x:a-b", "x:ab"}),
        (
            "<URL:x:-\na-\nb>",
            "x:-a-b",
            {"x:a-b", "x:-ab", "x:ab"},
        ),
        ("<URL:x-\ny:a>", "x-y:a", {"xy:a"}),
        ("<http://a/b-\nc>", "http://a/b-c", {"http://a/bc"}),
    ],
)
def test_doubtful_hyphens(text: str, url: str, alternates: set[str]) -> None:
    (found,) = extract(text)
    assert found.url == url
    assert set(found.alternates) == alternates
    assert len(found.alternates) == len(alternates)


def test_readings_do_not_double_for_ever() -> None:
    letters = "abcdefghijklmnopqrstuvwxyz"
    (six,) = extract("<URL:x:" + "-\n".join(letters[:7]) + ">")
    (many,) = extract("<URL:x:" + "-\n".join(letters) + ">")
    assert len(six.alternates) == 2**6 - 1 == MOST_ALTERNATES
    assert len(many.alternates) == MOST_ALTERNATES
    singly = {f"x:{'-'.join(letters)}".replace(f"{letter}-", letter) for letter in letters[:-1]}
    assert singly <= set(many.alternates)  # the fewest drops come first


def test_where_it_was_found() -> None:
    text = "a <b> <URL:x:y> <http://h/>"
    assert extract(text) == [Extracted("x:y", (), 6), Extracted("http://h/", (), 16)]


@given(st.text(st.sampled_from("<>URLurl:http/x-\n \r@é"), max_size=60))
def test_any_text_can_be_searched(text: str) -> None:
    for found in extract(text):
        assert text[found.position] == "<"
        assert not set("<> \r\n") & set("".join([found.url, *found.alternates]))
        assert all(found.url.replace("-", "") == other.replace("-", "") for other in found.alternates)
