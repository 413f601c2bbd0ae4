"""news, snews, nntp and nntps URLs (RFC 1738 3.6 and 3.7; RFC 5538)."""

from __future__ import annotations

import pytest

from protocols.news.url import build_news, build_nntp
from resolver import InvalidUrl, NewsUrl, NntpUrl, parse
from tests.protocols.url_rows import Bad, Good, check_bad, check_good


def group(name: str, **more: str | int | None) -> dict[str, str | int | None]:
    return {"group": name, "message_id": None, **more}


def article(message_id: str, **more: str | int | None) -> dict[str, str | int | None]:
    return {"group": None, "message_id": message_id, **more}


NEWS = [
    Good("news:a", group("a", host=None, port=None, user=None, password=None, default_port=119)),
    Good("snews:a", group("a", host=None, default_port=563)),
    # Groups.
    Good("news:*", group("*")),
    Good("news:Alt.X-1.c++_z", group("Alt.X-1.c++_z")),
    Good("news:a.", group("a.")),
    *(Good(f"news:{first}x", group(f"{first}x"), "group-syntax") for first in "0-.+_"),
    Good("news:%61b", group("ab"), "group-syntax"),
    Good("news:a%2Eb", group("a.b"), "group-syntax"),
    Good("news:%31b", group("1b"), "group-syntax"),
    Good("news:comp.*", group("comp.*"), "news-wildmat"),
    Good("news:*.comp", group("*.comp"), "news-wildmat"),
    Good("news:**", group("**"), "news-wildmat"),
    Good("news:1*", group("1*"), "news-wildmat group-syntax"),
    Good("news:%2A", group("*"), "group-syntax"),
    Good("news:" + "a" * 494, group("a" * 494)),
    # Message-ids: every character except @ is valid left of the @.
    Good("news:a@b", article("a@b", host=None)),
    Good("news:;/?:&=@h.example", article(";/?:&=@h.example")),
    Good("news:A%25%40b@C.d", article("A%@b@C.d")),
    Good("news:a+b$c@h", article("a+b$c@h")),
    Good("news:a~b@h", article("a~b@h"), "unsafe-char"),
    Good("news:a/b@h#f", article("a/b@h", fragment="f")),
    Good("news:1@192.0.2.1", article("1@192.0.2.1")),
    Good("news:1@999.0.2.1", article("1@999.0.2.1")),  # four groups of digits, by the RFC's grammar
    Good("news:1@1.2.3", article("1@1.2.3"), "host-syntax"),
    Good("news:1@my_host", article("1@my_host"), "host-syntax"),
    Good("news:1@h.example.", article("1@h.example."), "host-syntax"),
    Good("news:1@3com", article("1@3com"), "host-syntax"),
    Good("news:1@[x]", article("1@[x]"), "host-syntax unsafe-char"),
    Good("news:1@a/b", article("1@a/b"), "host-syntax reserved-char"),
    Good("news:1@%68.example", article("1@h.example"), "encoded-host"),
    Good("news:1@a%2Fb", article("1@a/b"), "encoded-host host-syntax"),
    Good("news:1@a%40b", article("1@a@b"), "encoded-host host-syntax"),
    Good("news:" + "a" * 246 + "@h", article("a" * 246 + "@h")),
    # With a server.
    Good("news://H.Example", group("*", host="h.example", port=None, default_port=119), "news-server"),
    Good("snews://h/", group("*", host="h", port=None, default_port=563), "news-server"),
    Good("news://h:1119/a.b", group("a.b", host="h", port=1119), "news-server"),
    Good("news://h/*", group("*", host="h"), "news-server"),
    Good("news://h/a/b@c", article("a/b@c", host="h"), "news-server"),
    Good("news://h//b@c", article("/b@c", host="h"), "news-server"),
    Good("news://u@h/a", group("a", host="h", user="u", password=None), "news-server"),
    Good("news://u:p@h:/a", group("a", user="u", password="p"), "news-server empty-port"),
    Good("news://h#f", group("*", host="h", fragment="f"), "news-server"),
    # after two slashes, a@b is user and host
    Good("news://a@b", group("*", host="b", user="a"), "news-server"),
]

NNTP = [
    Good("nntp://h/a", {"group": "a", "article": None, "default_port": 119}),
    Good("nntps://h/a/1", {"group": "a", "article": 1, "default_port": 563}),
    Good("nntp://h/a/0", {"article": 0}),
    Good("nntp://h/a/007", {"article": 7}),
    Good("nntp://h/a/9999999999999999", {"article": 9999999999999999}),
    Good("nntp://h/0a", {"group": "0a"}, "group-syntax"),
    Good("nntp://h/%61/1", {"group": "a", "article": 1}, "group-syntax"),
]

BAD = [
    Bad("news:→", "bad-group"),
    Bad("news:→#f", "bad-group"),
    Bad("news:→/a", "bad-group"),
    Bad("news:a→/b", "bad-group"),
    Bad("news:a→?b", "bad-group"),
    Bad("news:a→~b", "bad-group"),
    Bad("news:a→%40b", "bad-group"),
    Bad("news:%61→%20", "bad-group"),
    Bad("news:a→%00", "bad-group"),
    Bad("news:a→%E9", "bad-group"),
    Bad("news:a→,b", "bad-group"),
    Bad("news:a→!b", "bad-group"),
    Bad("news://h/→/a", "bad-group"),
    Bad("news:" + "a" * 494 + "→a", "bad-group"),
    Bad("news:→@h", "bad-message-id"),
    Bad("news:a→@", "bad-message-id"),
    Bad("news:→@", "bad-message-id"),
    Bad("news:a@b→@c", "bad-message-id"),
    Bad("news:a@→@b", "bad-message-id"),
    Bad("snews://h/a@→@b", "bad-message-id"),
    Bad("news:a→%20b@c", "bad-message-id"),
    Bad("news:a→%09b@c", "bad-message-id"),
    Bad("news:a→%7Fb@c", "bad-message-id"),
    Bad("news:a@c→%0D%0AQUIT", "bad-message-id"),
    Bad("news:→%3Ca@b%3E", "bad-message-id"),
    Bad("news:%61→%3Ea@b", "bad-message-id"),
    Bad("news:a→%80@b", "bad-message-id"),
    Bad("news:a@b→%FF", "bad-message-id"),
    Bad("news:" + "a" * 247 + "@→h", "bad-message-id"),
    Bad("news:" + "%61" * 248 + "→@h", "bad-message-id"),
    Bad("news://→/a", "no-host"),
    Bad("news://h:→x/a", "bad-port"),
    Bad("nntp://h→", "missing-path"),
    Bad("nntp://h→/", "missing-path"),
    Bad("nntp://h/→/1", "bad-group"),
    Bad("nntp://h/→*", "bad-group"),
    Bad("nntp://h/a.→*/1", "bad-group"),
    Bad("nntp://h/a→@b", "bad-group"),
    Bad("nntp://h/a→%0D/x", "bad-group"),  # the leftmost error is reported
    Bad("nntp://h/a/→", "bad-article"),
    Bad("nntp://h/a/→x", "bad-article"),
    Bad("nntp://h/a/1→/", "bad-article"),
    Bad("nntp://h/a/1→-2", "bad-article"),
    Bad("nntp://h/a/→%31", "bad-article"),
    Bad("nntp://h/a/→+1", "bad-article"),
    Bad("nntp://h/a/→" + "1" * 17, "bad-article"),
    Bad("nntp://h/a/→" + "0" * 5000, "bad-article"),
]


@pytest.mark.parametrize("row", NEWS + NNTP, ids=lambda row: row.text[:60])
def test_parse_valid_url_returns_components(row: Good) -> None:
    check_good(row)


@pytest.mark.parametrize("row", BAD, ids=lambda row: row.text[:60])
def test_parse_invalid_url_reports_position(row: Bad) -> None:
    check_bad(row)


def test_effective_port_uses_default() -> None:
    urls = [parse(text) for text in ("news:a", "snews:a", "news://h:8/a", "nntps://h/a")]
    assert [getattr(url, "effective_port", None) for url in urls] == [119, 563, 8, 563]


def news(**components: bytes) -> NewsUrl:
    return NewsUrl(scheme="news", group=components.get("group"), message_id=components.get("message_id"))


@pytest.mark.parametrize(
    ("url", "written"),
    [
        (news(group=b"*"), "news:*"),
        (news(group=b"a.b"), "news:a.b"),
        (news(message_id=b"a%;/?:&=~@h"), "news:a%25;/?:&=%7E@h"),
        (news(message_id=b"a@b@h"), "news:a%40b@h"),
        (news(message_id=b"//a@h"), "news:%2F/a@h"),  # a leading // would be read as a server
        (NewsUrl(scheme="snews", host="h", port=563, default_port=563, group=b"a"), "snews://h/a"),
        (
            NewsUrl(scheme="news", host="h", port=120, user=b"u", password=b"p/", message_id=b"//a@h"),
            "news://u:p%2F@h:120///a@h",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_build_news_writes_url(url: NewsUrl, written: str) -> None:
    assert build_news(url) == written


def nntp(name: bytes, number: int | None = None) -> NntpUrl:
    return NntpUrl(scheme="nntp", host="h", group=name, article=number)


def test_build_nntp_writes_url() -> None:
    assert build_nntp(nntp(b"a.b")) == "nntp://h/a.b"
    assert build_nntp(nntp(b"a.b", 0)) == "nntp://h/a.b/0"


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        (news(), "bad-group"),
        (news(group=b"a b"), "bad-group"),
        (news(group=b"a\r\nQUIT"), "bad-group"),
        (news(group=b"a@b"), "bad-group"),
        (news(group=b"a" * 495), "bad-group"),
        (news(message_id=b"ab"), "bad-message-id"),
        (news(message_id=b"@b"), "bad-message-id"),
        (news(message_id=b"a@"), "bad-message-id"),
        (news(message_id=b"<a@b>"), "bad-message-id"),
        (news(message_id=b"a b@c"), "bad-message-id"),
        (news(message_id=b"a@b" + b"c" * 246), "bad-message-id"),
        (nntp(b"*"), "bad-group"),
        (nntp(b""), "bad-group"),
        (nntp(b"a/1"), "bad-group"),
        (nntp(b"a", -1), "bad-article"),
        (nntp(b"a", 10**16), "bad-article"),
    ],
)
def test_build_of_invalid_component_raises(url: NewsUrl | NntpUrl, kind: str) -> None:
    with pytest.raises(InvalidUrl) as caught:
        build_news(url) if isinstance(url, NewsUrl) else build_nntp(url)
    assert caught.value.kind == kind
