"""The files in an article, and the articles with the other parts of a file."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.nntp.attachments import MIXED_BODY, MIXED_FIELDS, PICTURE, write_yenc, write_yenc_parts
from protocols.attachment import Attachment, FilePart, PartsListing
from protocols.errors import LimitExceeded, NotFound, ResolveError, Truncated
from protocols.location import Entry, JsonValue, Kind
from protocols.news.attachments import NewsPost, parse_counter
from protocols.news.listing import OverviewReader
from protocols.news.url import NewsUrl, NntpUrl
from protocols.options import Limits
from tests.protocols.news.captures import exchanges

URL = NntpUrl(scheme="nntp", host="h", group=b"g", article=100)
PARTS = write_yenc_parts(PICTURE, b"p.bin", 3)
HEAD = b'From: A <a@h>\r\nSubject: "p.bin" yEnc (1/3)\r\n'


def read(fields: bytes, body: bytes) -> list[Attachment]:
    return list(NewsPost(URL, b"Subject: x\r\n" + fields + b"\r\n" + body, Limits()).read_attachments())


def test_read_mixed_article_returns_parts_with_name_or_type() -> None:
    assert read(MIXED_FIELDS, MIXED_BODY) == [
        Attachment(b"../../x.png", "image/png", bytes(range(5))),
        Attachment(b"/etc/notes.txt", "text/plain", "café ends".encode()),
    ]


def test_read_yenc_article_returns_files() -> None:
    body = b"text\r\n" + write_yenc(b"one", b"1") + write_yenc(b"two", b"2")
    verified = ("length", "digest")
    assert read(b"", body) == [
        Attachment(b"1", None, b"one", verified=verified),
        Attachment(b"2", None, b"two", verified=verified),
    ]


def test_read_yenc_in_part_of_mime_returns_file() -> None:
    body = b"--=-=\r\n\r\n" + write_yenc(PICTURE, b"p.bin") + b"\r\n--=-=--\r\n"
    assert [(each.name, each.content) for each in read(MIXED_FIELDS, body)] == [(b"p.bin", PICTURE)]


@pytest.mark.parametrize(
    ("disposition", "name"),
    [
        (b"attachment; filename*=utf-8''Gr%C3%BC%C3%9Fe", "Grüße".encode()),
        (b'attachment; filename="=?utf-8?q?Gr=C3=BC=C3=9Fe?="', "Grüße".encode()),
        (b"attachment; filename*=no-such'x'a%00b", b"a\0b"),
        (b"attachment", None),
    ],
)
def test_read_name_of_part_decodes(disposition: bytes, name: bytes | None) -> None:
    [found] = read(b"Content-Type: image/png\r\nContent-Disposition: " + disposition + b"\r\n", b"x")
    assert found.name == name


def test_read_article_without_body_returns_nothing() -> None:
    post = NewsPost(URL, b"Subject: x (1/2)\r\nXref: s a.b:7\r\n", Limits())
    assert list(post.read_attachments()) == []
    assert post.list_parts(PART._replace(total=None)).total == 2


def test_read_article_without_attachments_returns_nothing() -> None:
    assert read(b"", b"a text\r\n") == []
    assert read(MIXED_FIELDS, b"--=-=\r\n\r\ntext\r\n--=-=--\r\n") == []


@pytest.mark.parametrize(
    ("fields", "body"),
    [
        (MIXED_FIELDS, MIXED_BODY.replace(b"--=-=--", b"")),
        (b"Content-Type: image/png\r\nContent-Transfer-Encoding: base64\r\n", b"AAEC\r\nAwQ"),
        (b"", write_yenc(PICTURE, b"x")[:500]),
    ],
)
def test_read_truncated_attachment_has_error(fields: bytes, body: bytes) -> None:
    assert type(read(fields, body)[-1].error) is Truncated


def nested(depth: int) -> bytes:
    return b"".join(
        b'Content-Type: multipart/mixed; boundary="%d"\r\n\r\n--%d\r\n' % (at, at) for at in range(depth)
    )


@pytest.mark.parametrize(
    "octets",
    [
        nested(40),
        MIXED_FIELDS + b"\r\n" + b"--=-=\r\n\r\n" * 1_100,
        b"Content-Type: image/png; " + b';"' * 40_000 + b"\r\n\r\n",
        b"\r\n" + write_yenc(b"", b"x") * 1_100,
    ],
    ids=["depth", "parts", "field", "files"],
)
def test_read_article_beyond_limit_is_limit_exceeded(octets: bytes) -> None:
    with pytest.raises(LimitExceeded):
        NewsPost(URL, octets, Limits()).read_attachments()


LINES = [*MIXED_BODY.splitlines(True), *MIXED_FIELDS.splitlines(True), b"\r\n", b"=ybegin "]


@given(st.lists(st.sampled_from(LINES), max_size=30), st.binary(max_size=50))
def test_read_any_article_is_value_or_resolve_error(lines: list[bytes], noise: bytes) -> None:
    for octets in (b"".join(lines) + noise, noise + b"".join(lines), MIXED_FIELDS + noise + b"".join(lines)):
        with suppress(ResolveError):
            NewsPost(URL, octets, Limits()).read_attachments()


@pytest.mark.parametrize(
    ("subject", "counter"),
    [
        ('"a (1/2).bin" yEnc (3/40) 99', ('"a (1/2).bin" yEnc (40) 99', 3, 40)),
        ("a reply", None),
        ("(x/y) (1/)", None),
    ],
)
def test_parse_counter_takes_last(subject: str, counter: tuple[str, int, int] | None) -> None:
    assert parse_counter(subject) == counter


PART = FilePart(1, 3, 0, 1280, None)


def entry(number: int, subject: str, author: str = "A <a@h>", message_id: str = "i@h") -> Entry:
    raw = f"{number}\t{subject}\t{author}\t\t<{message_id}>".encode()
    extra: dict[str, JsonValue] = {"number": number, "from": author}
    return Entry(name=str(number), url=None, kind=Kind.ARTICLE, title=subject, raw=raw, extra=extra)


def test_find_parts_takes_nearest_article_of_same_post() -> None:
    post = NewsPost(URL, HEAD + b"\r\n" + PARTS[0], Limits())
    overview = [
        entry(90, '"p.bin" yEnc (2/3)'),
        entry(99, '"p.bin" yEnc (2/3)'),
        entry(101, '"p.bin" yEnc (3/3)', author="Other <o@h>"),
        entry(102, '"other.bin" yEnc (3/3)'),
        entry(103, '"p.bin" yEnc (3/4)'),
        entry(104, "Re: a reply"),
        entry(120, '"p.bin" yEnc (3/3)'),
    ]
    assert post.list_parts(PART) == PartsListing(replace(URL, article=None), 3, 1006, 603)
    assert post.find_parts(PART, overview) == {2: replace(URL, article=99), 3: replace(URL, article=120)}


def test_find_parts_with_long_author_takes_linear_time() -> None:
    """An overview may have 21,000 articles. Decoding the author for each of them would take minutes."""
    head = b"From: " + b"=?utf-8?q?y?= " * 4_600 + HEAD[HEAD.index(b"\r\n") :]
    overview = [entry(number, '"p.bin" yEnc (2/3)') for number in range(1_000)]
    began = time.process_time()
    assert NewsPost(URL, head + b"\r\n", Limits()).find_parts(PART, overview) == {}
    assert time.process_time() - began < 2


def test_find_parts_of_news_url_uses_xref() -> None:
    url = NewsUrl(scheme="news", message_id=b"1@h")
    post = NewsPost(url, HEAD + b"Xref: s.example a.b:100 c.d:7\r\n\r\n" + PARTS[0], Limits())
    assert post.list_parts(PART) == PartsListing(replace(url, message_id=None, group=b"a.b"), 3, 1006, 603)
    found = post.find_parts(PART, [entry(101, '"p.bin" yEnc (2/3)')])
    assert found == {2: replace(url, message_id=b"i@h")}


def test_list_parts_without_xref_is_not_found() -> None:
    post = NewsPost(NewsUrl(scheme="news", message_id=b"1@h"), HEAD + b"\r\n", Limits())
    with pytest.raises(NotFound, match="nntp"):
        post.list_parts(PART)


def test_list_parts_of_too_many_is_limit_exceeded() -> None:
    with pytest.raises(LimitExceeded):
        NewsPost(URL, HEAD + b"\r\n", Limits()).list_parts(PART._replace(total=10_001))


# Recordings of INN, which stored the posted articles.


def articles_of(capture: str) -> list[NewsPost]:
    """Return the articles of a recording; the number of an article is that of its command."""
    return [
        NewsPost(
            NntpUrl(scheme="nntp", host="h", group=b"test.files", article=int(each.command[8:])),
            each.content or b"",
            Limits(),
        )
        for each in exchanges(capture)
        if each.command.startswith(b"ARTICLE ")
    ]


def test_read_recorded_articles_returns_files() -> None:
    [single], [mime] = articles_of("yenc_single"), articles_of("mime_attachments")
    assert [(each.name, each.content) for each in single.read_attachments()] == [(b"picture.bin", PICTURE)]
    assert [(each.name, each.content) for each in mime.read_attachments()] == [
        (b"../../x.png", bytes(range(5))),
        (b"/etc/notes.txt", "café ends".encode()),
    ]


def test_find_parts_in_recorded_overview_finds_other_articles() -> None:
    posts = articles_of("yenc_parts")
    [overview] = (each.content for each in exchanges("yenc_parts") if each.command.startswith(b"OVER"))
    reader = OverviewReader(b"test.files", lambda *found: None, Limits().line, [])
    entries = [*reader.feed(overview or b""), *reader.finish()]
    attachments = [post.read_attachments()[0] for post in posts]
    parts = [each.part for each in attachments]
    assert [None if part is None else part.number for part in parts] == [2, 1, 3]
    assert parts[0] is not None
    found = posts[0].find_parts(parts[0], entries)
    assert found == {
        1: replace(URL, group=b"test.files", article=2),
        3: replace(URL, group=b"test.files", article=4),
    }
    assert b"".join(attachments[at].content for at in (1, 0, 2)) == PICTURE
