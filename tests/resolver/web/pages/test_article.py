"""Pages of articles and mails: every byte string is rendered as a page."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resolver.web.pages import article as mime
from resolver.web.pages.article import QuotedLines, article_page, list_parts, split
from resolver.web.pages.page import PageQuery
from tests.resolver.web.pages.facts import PNG, response
from tests.resolver.web.pages.skeleton import place, rendered, skeleton


def crlf(text: str) -> bytes:
    return text.replace("\n", "\r\n").encode()


MIXED = crlf("""\
Subject: s
Content-Type: multipart/mixed; boundary=B

preamble
--B
Content-Type: text/plain; charset=iso-8859-1
Content-Transfer-Encoding: quoted-printable

caf=E9
--B
Content-Type: multipart/alternative; boundary=C

--C

plain
--C
Content-Type: text/html

<b>html</b>
--C--
--B
Content-Type: image/png; name="../../a.png"
Content-Transfer-Encoding: base64

iVBORw0KGgo=
--B--
""")


def test_parts_of_multipart_are_leaves_in_order() -> None:
    parts = list_parts(MIXED)
    assert [(part.number, part.depth, part.media_type, part.name) for part in parts] == [
        (1, 1, "text/plain", ""),
        (2, 2, "text/plain", ""),
        (3, 2, "text/html", ""),
        (4, 1, "image/png", "../../a.png"),
    ]
    assert parts[0].text.strip() == "café"
    assert [part.is_body for part in parts] == [True, True, False, False]
    assert parts[3].octets == b"\x89PNG\r\n\x1a\n"


def deep(layers: int) -> bytes:
    head = b"".join(
        b"Content-Type: multipart/mixed; boundary=B%d\r\n\r\n--B%d\r\n" % (n, n) for n in range(layers)
    )
    return head + b"\r\nend\r\n"


@pytest.mark.parametrize(
    "octets",
    [
        b"",
        b"\r\n",
        b"\x00" * 100,
        deep(mime.MAX_MIME_DEPTH + 1),
        deep(10_000),
        b"Content-Type: text/plain; " + b"a=b; " * 200_000 + b"\r\n\r\nx",
        b"Content-Type: text/plain;" + b"\r\n a=b;" * 200_000 + b"\r\n\r\nx",
        b"Content-Type: text/plain; " + b"".join(b"a*%d=b; " % n for n in range(50_000)) + b"\r\n\r\nx",
        b"Content-Type: multipart/mixed; boundary=\r\n\r\n--\r\n--\r\n",
        b"Content-Type: multipart/mixed; boundary==?x?q?=\r\n\r\n--x\r\n",
        b"Content-Type: text/plain; charset=nonesuch; name*=x'y'%zz\r\n\r\nx",
        b"Content-Type: text/plain; charset*=utf-8'en'%FF%00\r\n\r\nx",
        b"Content-Transfer-Encoding: base64\r\n\r\n*not base64*",
        b"Content-Transfer-Encoding: x-uuencode\r\n\r\nbegin 644 x\r\n\xff\xff\r\n",
        b"Content-Disposition: attachment; filename*0*=a; filename*1=b\r\n\r\nx",
        b"Content-Type: message/rfc822\r\n\r\nContent-Type: message/rfc822\r\n\r\nx",
        b"Content-Type: multipart/digest; boundary=B\r\n\r\n--B\r\n\r\n--B\r\n\r\nx\r\n--B--",
    ],
)
def test_parts_of_malformed_message_are_bounded(octets: bytes) -> None:
    parts = list_parts(octets)
    assert 1 <= len(parts) <= mime.MAX_LISTED
    page = article_page(response("x", content=octets), PageQuery(), place(), lambda part, shown: "/d/x")
    assert skeleton(rendered(page)).elements


@given(st.binary(max_size=300))
def test_article_page_accepts_any_bytes(octets: bytes) -> None:
    for head in (b"", b"Content-Type: multipart/mixed; boundary=B\r\n\r\n--B\r\n", b"Content-Type:"):
        for view in ("", "source"):
            page = article_page(
                response("x", content=head + octets),
                PageQuery(view=view),
                place(),
                lambda part, shown: "/d/x",
            )
            rendered(page).encode()


def test_parts_of_many_are_limited() -> None:
    many = b"Content-Type: multipart/mixed; boundary=B\r\n\r\n" + b"--B\r\n\r\nx\r\n" * 5_000 + b"--B--"
    assert len(list_parts(many)) == mime.MAX_LISTED
    page = article_page(response("x", content=many), PageQuery(), place(), lambda part, shown: "/d/x")
    assert page.values["more"]


def test_parts_of_more_than_limit_is_one_text() -> None:
    head, part = b"Content-Type: multipart/mixed; boundary=B\r\n\r\n", b"--B\r\n\r\nx\r\n"
    assert len(list_parts(head + part * mime.MAX_PARTS)) == mime.MAX_LISTED
    (whole,) = list_parts(head + part * (mime.MAX_PARTS + 1))
    assert len(whole.octets) == len(part) * (mime.MAX_PARTS + 1)


def test_article_page_shows_picture_by_first_bytes() -> None:
    octets = (
        b"Content-Type: multipart/mixed; boundary=B\r\n\r\n"
        b"--B\r\nContent-Type: image/png\r\n\r\n<script>\r\n"
        b"--B\r\nContent-Type: text/html\r\n\r\n" + PNG + b"\r\n--B--"
    )
    markup = rendered(
        article_page(
            response("x", content=octets),
            PageQuery(),
            place(),
            lambda part, shown: f"/d/{part.number}/{shown}",
        )
    )
    assert 'src="/d/2/True"' in markup
    assert "/d/1/True" not in markup


def outline(stretches: tuple[QuotedLines, ...]) -> list[object]:
    return [
        [stretch.level, *outline(stretch.inner)]
        if stretch.inner
        else "".join(run.text for run in stretch.runs)
        for stretch in stretches
    ]


@pytest.mark.parametrize(
    ("text", "outlined"),
    [
        ("a\n> b\n>> c\n> d\ne", ["a", [1, "b", [2, "c"], "d"], "e"]),
        ("> > > > deep", [[1, [2, [3, "> deep"]]]]),
        (">>> x\n> y", [[1, [2, [3, "x"]], "y"]]),
        ("no quote: a > b", ["no quote: a > b"]),
        (">From here", [[1, "From here"]]),
        ("", []),
        ("\n\n", []),
    ],
)
def test_split_nests_quotes_by_level(text: str, outlined: list[object]) -> None:
    assert outline(split(text, place()).stretches) == outlined


def test_split_signature_follows_its_mark() -> None:
    assert split("text\n-- \nme", place()) == split("text\n-- \nme\n", place())
    assert split("text\n-- \nme", place()).signature == "me"
    assert split("text\n--\nme", place()).signature == ""
    assert split("text\n-- \n" + "long\n" * 50, place()).signature == ""


def test_split_closes_only_long_quotes() -> None:
    short, long = (split("> x\n" * count + "y", place()).stretches[0] for count in (3, 30))
    assert (short.closed, long.closed) == (False, True)


def test_split_of_too_many_quotes_is_plain_text() -> None:
    (only,) = split("a\n> b\n" * 5_000, place()).stretches
    assert only.level == 0
    assert not only.inner
