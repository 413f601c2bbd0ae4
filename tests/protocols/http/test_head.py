"""What the fields of a head say."""

from __future__ import annotations

import pytest

from protocols.http.response import BodyFraming, ResponseHead, framing_of
from resolver import ProtocolError


def head(*fields: tuple[str, str]) -> ResponseHead:
    return ResponseHead(200, "OK", fields)


@pytest.mark.parametrize(
    ("value", "media_type", "charset"),
    [
        ("text/html", "text/html", None),
        ("Text/HTML; Charset=UTF-8", "text/html", "UTF-8"),
        ('text/html;charset="utf-8"', "text/html", "utf-8"),
        ("text/html ; a=b ; charset = latin1 ; c", "text/html", "latin1"),
        ("text/html; xcharset=a; charset=b", "text/html", "b"),
        ('text/html; charset=""', "text/html", None),
        ("text/html; charset=", "text/html", None),
        ("application/ld+json", "application/ld+json", None),
        ("html", None, None),
        ("text/", None, None),
        ("text/html, text/plain", None, None),
        ("", None, None),
        (";charset=a", None, "a"),
        ("text/ht ml", None, None),
    ],
)
def test_content_type(value: str, media_type: str | None, charset: str | None) -> None:
    found = head(("content-type", value))
    assert (found.media_type, found.charset) == (media_type, charset)


def test_the_first_content_type_counts() -> None:
    assert head(("content-type", "text/plain"), ("content-type", "text/html")).media_type == "text/plain"
    assert head().media_type is None


@pytest.mark.parametrize(
    ("values", "codings"),
    [
        ([], []),
        (["identity"], []),
        ([""], []),
        (["GZip"], ["gzip"]),
        (["gzip, deflate"], ["gzip", "deflate"]),
        (["gzip", "identity", "br"], ["gzip", "br"]),
        ([" gzip ,, "], ["gzip"]),
    ],
)
def test_content_codings(values: list[str], codings: list[str]) -> None:
    assert head(*(("content-encoding", value) for value in values)).codings == codings


LENGTH, CHUNKED = ("content-length", "5"), ("transfer-encoding", "chunked")


@pytest.mark.parametrize(
    ("method", "status", "fields", "framing", "length"),
    [
        (b"GET", 200, (), BodyFraming.CLOSE, None),
        (b"GET", 200, (LENGTH,), BodyFraming.LENGTH, 5),
        (b"GET", 200, (CHUNKED,), BodyFraming.CHUNKED, None),
        (b"CONNECT", 200, (CHUNKED, LENGTH), BodyFraming.NONE, None),
        (b"GET", 404, (LENGTH,), BodyFraming.LENGTH, 5),
        (b"GET", 204, (LENGTH,), BodyFraming.NONE, None),
        (b"GET", 304, (CHUNKED,), BodyFraming.NONE, None),
        (b"GET", 205, (LENGTH,), BodyFraming.LENGTH, 5),
        (b"HEAD", 200, (LENGTH,), BodyFraming.NONE, None),
        (b"HEAD", 404, (CHUNKED,), BodyFraming.NONE, None),
        (b"HEAD", 200, (), BodyFraming.NONE, None),
    ],
)
def test_framing(
    method: bytes, status: int, fields: tuple[tuple[str, str], ...], framing: BodyFraming, length: int | None
) -> None:
    assert framing_of(method, status, fields) == (framing, length)


def test_a_length_beyond_every_file_is_a_protocol_error() -> None:
    assert framing_of(b"GET", 200, (("content-length", str(2**63 - 1)),))[1] == 2**63 - 1
    with pytest.raises(ProtocolError):
        framing_of(b"GET", 200, (("content-length", str(2**63)),))
    with pytest.raises(ProtocolError):
        _ = head(("content-length", str(2**63))).announced


def test_what_an_answer_to_head_announces() -> None:
    assert head(LENGTH).announced == 5
    assert head(LENGTH, CHUNKED).announced is None
    assert ResponseHead(204, "", (LENGTH,)).announced is None
    assert head().announced is None
