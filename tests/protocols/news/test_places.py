"""URLs of what listings hold: the parent's way, and only what the builder takes."""

from __future__ import annotations

import pytest

from protocols.news.listing import article_urls, group_urls
from resolver import NewsUrl, NntpUrl, parse

ARTICLES = [
    ("nntp://h/a.b", "nntp://h/a.b/7"),
    ("nntp://h:1119/a.b", "nntp://h:1119/a.b/7"),
    ("nntps://h/a.b", "nntps://h/a.b/7"),
    ("nntp://u:p@h/a.b", "nntp://h/a.b/7"),  # a password does not go along
    ("nntp://[::1]/a.b", "nntp://[::1]/a.b/7"),
    ("news:a.b", "news:m@x"),
    ("news://h/a.b", "nntp://h/a.b/7"),
    ("news://u:p@h:1119/a.b", "nntp://h:1119/a.b/7"),
    ("snews://h/a.b", "snews://h/m@x"),
    ("snews:a.b", "snews:m@x"),
]
GROUPS = [
    ("news:*", "news:a.b"),
    ("news://h/*", "nntp://h/a.b"),
    ("news://h:1119", "nntp://h:1119/a.b"),
    ("snews://h/a.*", "snews://h/a.b"),
    ("snews:*", "snews:a.b"),
]


def parent(text: str) -> NewsUrl | NntpUrl:
    url = parse(text)
    assert isinstance(url, NewsUrl | NntpUrl)
    return url


@pytest.mark.parametrize(("listed", "child"), ARTICLES)
def test_an_article(listed: str, child: str) -> None:
    assert article_urls(parent(listed))(b"a.b", 7, b"m@x") == child
    assert parse(child).text == child


@pytest.mark.parametrize(("listed", "child"), GROUPS)
def test_a_group(listed: str, child: str) -> None:
    assert group_urls(parent(listed))(b"a.b") == child
    assert parse(child).text == child


@pytest.mark.parametrize(
    "message_id", [None, b"", b"no at", b"a b@c", b"a\r\nb@c", b"a@b>", b"x" * 249 + b"@h"]
)
def test_no_article(message_id: bytes | None) -> None:
    assert article_urls(parent("news:a.b"))(b"a.b", 7, message_id) is None


@pytest.mark.parametrize("number", [-1, 10**16])
def test_no_number(number: int) -> None:
    assert article_urls(parent("nntp://h/a.b"))(b"a.b", number, b"m@x") is None


@pytest.mark.parametrize("listed", ["news:*", "news://h/*", "snews:*"])
@pytest.mark.parametrize("name", [b"", b"a b", b"a*", b"a\r\nQUIT", "grüße".encode(), b"g" * 495, b"a/b"])
def test_no_group(listed: str, name: bytes) -> None:
    assert group_urls(parent(listed))(name) is None
