"""Tests of HTTP response heads: fields, framing, statuses, dates and suggested names."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.contract import Moved
from protocols.http.response import (
    BodyFraming,
    ResponseHead,
    check_status,
    parse_date,
    parse_suggested_name,
)
from resolver import Declined, ProtocolError, TryLater


def head(*fields: tuple[str, str]) -> ResponseHead:
    return ResponseHead(200, "OK", fields)


def framing_of(
    method: bytes, status: int, fields: tuple[tuple[str, str], ...]
) -> tuple[BodyFraming, int | None]:
    found = ResponseHead(status, "", fields)
    found.find_framing(method)
    return found.framing, found.length


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
def test_content_type_of_head(value: str, media_type: str | None, charset: str | None) -> None:
    assert head(("content-type", value)).content_type == (media_type, charset)


def test_content_type_first_field_counts() -> None:
    assert head(("content-type", "text/plain"), ("content-type", "text/html")).content_type == (
        "text/plain",
        None,
    )
    assert head().content_type == (None, None)


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
def test_content_encoding_gives_codings(values: list[str], codings: list[str]) -> None:
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
def test_framing_of_method_status_and_fields(
    method: bytes, status: int, fields: tuple[tuple[str, str], ...], framing: BodyFraming, length: int | None
) -> None:
    assert framing_of(method, status, fields) == (framing, length)


def test_length_of_2_to_63_raises() -> None:
    assert framing_of(b"GET", 200, (("content-length", str(2**63 - 1)),))[1] == 2**63 - 1
    with pytest.raises(ProtocolError):
        framing_of(b"GET", 200, (("content-length", str(2**63)),))
    with pytest.raises(ProtocolError):
        _ = head(("content-length", str(2**63))).announced


def test_announced_length_of_head_response() -> None:
    assert head(LENGTH).announced == 5
    assert head(LENGTH, CHUNKED).announced is None
    assert ResponseHead(204, "", (LENGTH,)).announced is None
    assert head().announced is None


# Every status has one meaning. The transcripts contain most statuses; these are the others.


def statuses_head(status: int, *locations: str, reason: str = "Because") -> ResponseHead:
    return ResponseHead(status, reason, tuple(("location", location) for location in locations))


@pytest.mark.parametrize("status", [200, 201, 202, 203, 205, 207, 226, 299])
def test_check_status_2xx_passes(status: int) -> None:
    assert check_status(statuses_head(status, "/ignored")) is None


@pytest.mark.parametrize("status", [300, 301, 302, 303, 307, 308])
def test_check_status_3xx_gives_location(status: int) -> None:
    assert check_status(statuses_head(status, "/there")) == Moved("/there", str(status))
    assert check_status(statuses_head(status, "/there", "/there")) == Moved("/there", str(status))


@pytest.mark.parametrize("status", [300, 301, 302, 303, 307, 308])
@pytest.mark.parametrize("locations", [(), ("",), ("/a", "/b")])
def test_check_status_3xx_without_single_location_raises(status: int, locations: tuple[str, ...]) -> None:
    with pytest.raises(ProtocolError):
        check_status(statuses_head(status, *locations))


def test_check_status_3xx_escapes_location() -> None:
    location = "https://h.example/\xc3\xa9 \xe9?a b%20#\xff"
    expected = "https://h.example/%C3%A9%20%E9?a%20b%20#%FF"
    assert check_status(statuses_head(302, location)) == Moved(expected, "302")


def test_check_status_3xx_without_location_names_reason() -> None:
    with pytest.raises(ProtocolError, match=r"^the server answers 302 Found without a location$"):
        check_status(statuses_head(302, reason="Found"))


@pytest.mark.parametrize("status", [206, 304, 305, 306, 309, 399])
def test_check_status_unexpected_raises(status: int) -> None:
    with pytest.raises(
        ProtocolError, match=rf"^the server answers {status} Because(, but no range| instead of the content$)"
    ):
        check_status(statuses_head(status, "/there"))


def test_check_status_refusal_has_reason_of_server() -> None:
    with pytest.raises(TryLater) as caught:
        check_status(statuses_head(503, reason="Back at noon"))
    error = caught.value
    assert (error.code, error.text) == ("503", "Back at noon")
    assert "503 Back at noon" in error.message


@pytest.mark.parametrize(("status", "setting"), [(401, "user"), (407, "proxy"), (403, None)])
def test_check_status_names_setting_of_login(status: int, setting: str | None) -> None:
    with pytest.raises(Declined) as caught:
        check_status(statuses_head(status))
    assert caught.value.setting == setting


NOW = ("date", "Sun, 06 Nov 1994 08:49:37 GMT")


@pytest.mark.parametrize(
    ("fields", "after"),
    [
        ((), None),
        ((("retry-after", "120"),), 120.0),
        ((("retry-after", "0"),), 0.0),
        ((("retry-after", "9" * 400),), 86_400.0),
        ((("retry-after", "-1"),), None),
        ((("retry-after", "soon"),), None),
        ((("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT"), NOW), 30.0),
        ((("retry-after", "Sun, 06 Nov 1994 08:00:00 GMT"), NOW), 0.0),
        ((("retry-after", "Sun, 06 Nov 2094 08:50:07 GMT"), NOW), 86_400.0),
        ((("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT"),), None),
    ],
)
def test_retry_after_gives_seconds(fields: tuple[tuple[str, str], ...], after: float | None) -> None:
    with pytest.raises(TryLater) as caught:
        check_status(ResponseHead(503, "", fields))
    assert caught.value.after == after
    assert caught.value.until is None or len(fields) == 1


def test_retry_after_date_without_server_date_gives_until() -> None:
    with pytest.raises(TryLater) as caught:
        check_status(ResponseHead(503, "", (("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT"),)))
    assert caught.value.until == datetime(1994, 11, 6, 8, 50, 7, tzinfo=UTC)


def test_check_status_4xx_and_above_raises_declined() -> None:
    for status in range(400, 1000):
        with pytest.raises(Declined) as caught:
            check_status(statuses_head(status, "/there"))
        assert caught.value.code == str(status)


# The three date formats, and invalid dates.

WHEN = datetime(1994, 11, 6, 8, 49, 37, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("Sun, 06 Nov 1994 08:49:37 GMT", WHEN),  # RFC 9110 5.6.7: all three
        ("Sunday, 06-Nov-94 08:49:37 GMT", WHEN),
        ("Sun Nov  6 08:49:37 1994", WHEN),
        ("Sun Nov 16 08:49:37 1994", WHEN.replace(day=16)),
        ("Fri, 31 Dec 1999 23:59:60 GMT", datetime(1999, 12, 31, 23, 59, 59, tzinfo=UTC)),
        ("Thursday, 01-Jan-70 00:00:00 GMT", datetime(1970, 1, 1, tzinfo=UTC)),
        ("Tuesday, 01-Jan-69 00:00:00 GMT", datetime(2069, 1, 1, tzinfo=UTC)),
        ("", None),
        ("0", None),
        ("Sun, 06 Nov 1994 08:49:37 +0100", None),
        ("Sun, 06 Nov 1994 08:49:37", None),
        ("Sun, 31 Nov 1994 08:49:37 GMT", None),
        ("Sun, 06 Foo 1994 08:49:37 GMT", None),
        ("Sun, 06 Nov 1994 24:49:37 GMT", None),
        ("Sun, 06 Nov 0000 08:49:37 GMT", None),
        ("Sun, 06 Nov 1994 08:49:37 GMT ", None),
        ("Sun, ٠٦ Nov 1994 08:49:37 GMT", None),
    ],
)
def test_parse_date_accepts_three_formats(text: str, moment: datetime | None) -> None:
    assert parse_date(text) == moment


@given(st.text() | st.from_regex(r"\A[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT\Z"))
def test_parse_date_accepts_any_text(text: str) -> None:
    found = parse_date(text)
    assert found is None or found.tzinfo is UTC


# Content-Disposition: the file name that the server suggests.


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("attachment; filename=a.txt", b"a.txt"),
        ('Attachment ; FileName = "a b.txt" ; size=3', b"a b.txt"),
        (r'inline; filename="a\"b\\c"', rb'a"b\c'),
        ('attachment; filename="a;b=c.txt"', b"a;b=c.txt"),
        ("attachment; filename=first; filename=second", b"first"),
        ("attachment; filename*=UTF-8''%e2%82%ac%20rates", "€ rates".encode()),
        ("attachment; filename=EURO; filename*=utf-8'en'%e2%82%ac", "€".encode()),
        ("attachment; filename*=iso-8859-1''%a3", "£".encode()),
        ("attachment; filename=plain; filename*=UTF-8''%zz", b"plain"),  # not encoded as in RFC 8187
        ("attachment; filename=plain; filename*=koi8-r''%c1", b"plain"),
        ('attachment; filename="caf\xe9"', b"caf\xe9"),
        # the writer of the file sanitizes the name
        ('attachment; filename="../../.bashrc"', b"../../.bashrc"),
        ("attachment; filename*=UTF-8''..%2f..%2fx", b"../../x"),
        ('attachment; filename=""', b""),
        ("attachment", None),
        ("attachment;", None),
        ("", None),
        ("attachment; name=a", None),
        ('attachment; filename="a', None),
        ("attachment; filename=a b", None),
        ("filename=a", None),
        ("attachment; filename", None),
    ],
)
def test_suggested_name_of_content_disposition(value: str, name: bytes | None) -> None:
    assert parse_suggested_name(value) == name
