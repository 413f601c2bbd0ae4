"""Tests of HTTP requests: fields, Basic credentials, masking, and range requests."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from protocols.http.http1 import Http1Exchange
from protocols.http.request import (
    check_part,
    compose,
    encode_basic,
    entity_tag,
    format_host,
    format_target,
    prepare,
    range_headers,
)
from protocols.http.response import BodyFraming, ResponseHead
from protocols.wire import secret_parts
from resolver import (
    Credentials,
    HttpUrl,
    Limits,
    NotConfigured,
    Options,
    ProtocolError,
    Refused,
    ResolveError,
    Validators,
)
from resolver.testing.transcript import Connection, TranscriptTurn
from tests.protocols.in_memory import MemoryGate
from tests.protocols.opening import open_url
from tests.protocols.typed_url import parse_as


def url_of(text: str) -> HttpUrl:
    return parse_as(HttpUrl, text)


def sent(options: Options, credentials: Credentials | None = None) -> list[bytes]:
    """Return the lines of a request without their line ends."""
    request = compose(url_of("http://h.dom/x"), options, ("gzip", "deflate"))
    if credentials is not None:
        request = request.sign(encode_basic(credentials))
    return Http1Exchange(request, Limits()).line.octets.split(b"\r\n")[:-2]


PLAIN = [
    b"GET /x HTTP/1.1",
    b"Host: h.dom",
    b"User-Agent: url-resolver",
    b"Accept: */*",
    b"Accept-Encoding: gzip, deflate",
]


@pytest.mark.parametrize(
    ("options", "lines"),
    [
        (Options(), PLAIN),
        (Options(want="facts"), [b"HEAD /x HTTP/1.1", *PLAIN[1:]]),
        (Options(user_agent=b"me/1"), [*PLAIN[:2], b"User-Agent: me/1", *PLAIN[3:]]),
        (Options(user_agent=b""), [*PLAIN[:2], *PLAIN[3:]]),
        (Options(headers=((b"X-A", b"1"), (b"x-a", b"2"))), [*PLAIN, b"X-A: 1", b"x-a: 2"]),
        (Options(headers=((b"accept", b"text/html"),)), [*PLAIN[:3], PLAIN[4], b"accept: text/html"]),
        (Options(headers=((b"X-A", b" \tb c\xe9 "),)), [*PLAIN, b"X-A: b c\xe9"]),
        (Options(headers=((b"X-A", b""),)), [*PLAIN, b"X-A: "]),
    ],
)
def test_compose_sends_expected_lines(options: Options, lines: list[bytes]) -> None:
    assert sent(options) == lines


def test_compose_without_codings_requests_identity() -> None:
    request = compose(url_of("http://h.dom/x"), Options(), ())
    assert (b"Accept-Encoding", b"identity") in request.headers


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (b"Host", b"other.dom"),
        (b"hOsT", b"other.dom"),
        (b"Content-Length", b"5"),
        (b"Transfer-Encoding", b"chunked"),
        (b"Connection", b"close"),
        (b"Upgrade", b"h2c"),
        (b"Expect", b"100-continue"),
        (b"Range", b"bytes=0-"),
        (b"Accept-Encoding", b"br"),
        (b"X-A", b"a\r\nX-B: b"),
        (b"X-A", b"a\nb"),
        (b"X-A", b"a\rb"),
        (b"X-A", b"a\0b"),
        (b"X-A", b"a\x1bb"),
        (b"X A", b"b"),
        (b"X-A:", b"b"),
        (b"X-A\r\nX-B", b"b"),
        (b"", b"b"),
    ],
)
def test_compose_refuses_reserved_headers(name: bytes, value: bytes) -> None:
    with pytest.raises(NotConfigured) as caught:
        sent(Options(headers=((name, value),)))
    assert value.decode() not in caught.value.message or not value.strip()


def test_compose_refuses_invalid_user_agent() -> None:
    with pytest.raises(NotConfigured):
        sent(Options(user_agent=b"me\r\nX-A: b"))


@pytest.mark.parametrize(
    ("text", "target", "host"),
    [
        ("http://h", b"/", b"h"),
        ("http://h?a", b"/?a", b"h"),
        ("http://h/?", b"/?", b"h"),
        ("http://h//%2e/../x", b"//%2e/../x", b"h"),
        ("http://h:80/", b"/", b"h"),
        ("https://h:443/", b"/", b"h"),
        ("https://h:80/", b"/", b"h:80"),
        ("http://[2001:DB8::1]/", b"/", b"[2001:db8::1]"),
        ("http://h./", b"/", b"h."),
    ],
)
def test_target_and_host_of_url(text: str, target: bytes, host: bytes) -> None:
    assert (format_target(url_of(text)), format_host(url_of(text))) == (target, host)


@pytest.mark.parametrize("octet", [octet for octet in range(256) if not 0x21 <= octet <= 0x7E])
def test_prepare_refuses_target_with_non_graphic_byte(octet: int) -> None:
    with pytest.raises(Refused) as caught:
        prepare(b"GET", b"/a" + bytes((octet,)) + b"b", ())
    assert caught.value.rule == "S02"


@pytest.mark.parametrize("path", ["a b", "a\r\nb", "a\0b", "a\x7fb", "\xe9", "\ud800", "€"])
def test_compose_refuses_unparsed_path(path: str) -> None:
    """The check also holds where the policy is not applied."""
    url = HttpUrl(scheme="http", host="h", default_port=80, path=path)
    with pytest.raises(Refused) as caught:
        compose(url, Options(), ())
    assert caught.value.rule == "S02"


@pytest.mark.parametrize(
    ("user", "password", "value"),
    [
        (b"Aladdin", b"open sesame", b"Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="),  # RFC 7617 2
        (b"test", "123\u00a3".encode(), b"Basic dGVzdDoxMjPCow=="),  # RFC 7617 2.1
        (b"", b"", b"Basic Og=="),
        (b"u", b"a:b:", b"Basic dTphOmI6"),
        (b"u" * 100, b"p" * 100, None),
    ],
)
def test_encode_basic_matches_rfc_7617(user: bytes, password: bytes, value: bytes | None) -> None:
    encoded = encode_basic(Credentials(user, password))
    assert b"\n" not in encoded
    assert value is None or encoded == value


@pytest.mark.parametrize(
    ("user", "password"),
    [(b"a:b", b""), (b"a\0", b""), (b"a\r", b""), (b"a\n", b""), (b"", b"\0"), (b"", b"\r"), (b"", b"\n")],
)
def test_encode_basic_refuses_invalid_credentials(user: bytes, password: bytes) -> None:
    with pytest.raises(Refused) as caught:
        encode_basic(Credentials(user, password))
    assert caught.value.rule == "S02"


def test_compose_masks_secrets() -> None:
    headers = ((b"Cookie", b"a"), (b"X-Api-Key", b"k"), (b"X-Plain", b"a"), (b"authorization", b"Bearer t"))
    request = compose(url_of("http://h.dom/a"), Options(headers=headers), ())
    line = Http1Exchange(request, Limits()).line
    shown = line.shown.split(b"\r\n")
    assert b"Cookie: a" in line.octets
    assert shown[0] == b"GET /a HTTP/1.1"
    assert shown[-6:-2] == [b"Cookie: ****", b"X-Api-Key: ****", b"X-Plain: a", b"authorization: ****"]
    assert request.pool_key(request.secrets) == tuple(header for header in headers if header[0] != b"X-Plain")


def test_secret_parts_of_cookies_are_each_long_value() -> None:
    fields = [(b"Cookie", b'sid="0123456789"; lang=en; other=abcdefgh; bare-value')]
    assert secret_parts(fields) == (fields[0][1], b"0123456789", b"abcdefgh")


def test_sign_keeps_authorization_of_the_caller() -> None:
    options = Options(headers=((b"Authorization", b"Bearer t"),))
    lines = sent(options, Credentials(b"u", b"p"))
    assert [line for line in lines if line.lower().startswith(b"auth")] == [b"Authorization: Bearer t"]


# Resuming after held bytes: the range request and the accepted responses.

WHEN = datetime(1994, 11, 6, 8, 49, 37, tzinfo=UTC)
DATE = b"Sun, 06 Nov 1994 08:49:37 GMT"


@pytest.mark.parametrize(
    ("known", "condition"),
    [
        (Validators(), None),
        (Validators(size=9), None),
        (Validators(modified=WHEN), DATE),
        (Validators(modified=WHEN.replace(tzinfo=None)), DATE),
        (Validators(modified=WHEN, etag='"a\xe9"'), b'"a\xe9"'),
        (Validators(modified=WHEN, etag='W/"a"'), DATE),
        (Validators(etag='W/"a"'), None),
    ],
)
def test_range_headers_have_the_condition(known: Validators, condition: bytes | None) -> None:
    headers = range_headers(7, known)
    assert headers.pop(b"Range") == b"bytes=7-"
    assert headers == ({} if condition is None else {b"If-Range": condition})
    assert range_headers(7, known, 9) == {b"Range": b"bytes=7-8", **headers}


@pytest.mark.parametrize(
    ("value", "tag"),
    [
        ('"a"', '"a"'),
        ('""', '""'),
        ('W/"a"', 'W/"a"'),
        ('w/"a"', None),
        ("a", None),
        ('"a', None),
        ('"a"b"', None),
        ("", None),
    ],
)
def test_entity_tag_is_strong_or_weak(value: str, tag: str | None) -> None:
    assert entity_tag(ResponseHead(200, "", (("etag", value),))) == tag


def partial(*ranges: str, length: int | None = 3, coding: str = "") -> ResponseHead:
    fields = [("content-range", value) for value in ranges]
    fields += [("content-encoding", coding)] if coding else []
    return ResponseHead(206, "", tuple(fields), BodyFraming.LENGTH if length else BodyFraming.CHUNKED, length)


@pytest.mark.parametrize(
    ("head", "size"),
    [
        (partial("bytes 7-9/10"), 10),
        (partial("Bytes 7-9/*"), None),
        (partial("bytes 7-9/10", length=None), 10),
        (partial("bytes 7-9/10", coding="identity"), 10),
    ],
)
def test_check_part_accepts_requested_range(head: ResponseHead, size: int | None) -> None:
    assert check_part(head, 7) == size


@pytest.mark.parametrize(
    ("head", "start", "size"),
    [
        (partial("bytes 7-9/20"), 7, 20),
        (partial("bytes 7-9/10"), 7, 10),
        (partial("bytes 7-9/*", length=None), 7, None),
        (partial("bytes 0-9/20", length=10), 0, 20),
    ],
)
def test_check_part_with_stop_accepts_requested_range(
    head: ResponseHead, start: int, size: int | None
) -> None:
    assert check_part(head, start, 10) == size


@pytest.mark.parametrize(
    "head",
    [
        partial("bytes 7-8/20", length=2),
        partial("bytes 7-10/20", length=4),
        partial("bytes 6-9/20", length=4),
        partial("bytes 7-9/9"),
        partial("bytes 7-9/20", length=4),
        replace(partial("bytes 7-9/20"), framing=BodyFraming.CLOSE, length=None),  # the body may be endless
    ],
)
def test_check_part_with_stop_refuses_other_range(head: ResponseHead) -> None:
    with pytest.raises(ProtocolError):
        check_part(head, 7, 10)


@pytest.mark.parametrize(
    "head",
    [
        partial(),
        partial(""),
        partial("bytes 6-9/10", length=4),
        partial("bytes 8-9/10", length=2),
        partial("bytes 7-8/10", length=2),  # not to the end
        partial("bytes 7-9/9"),
        partial("bytes 7-6/7", length=None),
        partial("bytes 7-9/10", length=4),
        partial("bytes 7-9/10", "bytes 7-9/10"),
        partial("items 7-9/10"),
        partial("bytes */10"),
        partial("bytes 7-9/99999999999999999999"),
        partial(f"bytes 7-{2**63}/{2**63 + 1}", length=None),
        partial("bytes 7-9/10", coding="gzip"),
    ],
)
def test_check_part_refuses_other_range(head: ResponseHead) -> None:
    with pytest.raises(ProtocolError):
        check_part(head, 7)


def request(*more: bytes) -> bytes:
    lines = (b"GET /x HTTP/1.1", b"Host: h.dom", b"User-Agent: url-resolver", b"Accept: */*")
    return b"".join(line + b"\r\n" for line in (*lines, b"Accept-Encoding: identity", *more, b""))


ASKED = TranscriptTurn("C", request(b"Range: bytes=2-", b'If-Range: "1"'))
OPTIONS = Options(start=2, known=Validators(etag='"1"'), want="file")


def answer(status: bytes, *fields: bytes, body: bytes = b"") -> TranscriptTurn:
    lines = (b"HTTP/1.1 " + status, *fields, b"Content-Length: %d" % len(body), b"", body)
    return TranscriptTurn("S", b"\r\n".join(lines))


@pytest.mark.parametrize(
    ("turns", "start", "size", "body"),
    [
        ([answer(b"206 P", b"Content-Range: bytes 2-4/5", body=b"llo")], 2, 5, b"llo"),
        ([answer(b"200 OK", body=b"hello")], 0, 5, b"hello"),  # changed, or ranges are not supported
    ],
)
async def test_body_starts_where_reply_says(
    turns: list[TranscriptTurn], start: int, size: int, body: bytes
) -> None:
    gate = MemoryGate([Connection((ASKED, *turns), "left")], options=OPTIONS, logins=[None])
    async with open_url(parse_as(HttpUrl, "http://h.dom/x"), gate) as reply:
        assert (reply.start, reply.size) == (start, size)
        assert b"".join([octets async for octets in reply.body]) == body
    assert reply.verified == {"length"}
    gate.check_finished()


async def test_range_not_satisfiable_requests_complete_body() -> None:
    gone = Connection((ASKED, answer(b"416 No", b"Content-Range: bytes */1", body=b"no")), "left")
    whole = Connection((TranscriptTurn("C", request()), answer(b"200 OK", b'ETag: "2"', body=b"h")), "left")
    gate = MemoryGate([gone, whole], options=OPTIONS, logins=[None])
    async with open_url(parse_as(HttpUrl, "http://h.dom/x"), gate) as reply:
        assert (reply.start, reply.size, reply.etag) == (0, 1, '"2"')
        assert [octets async for octets in reply.body] == [b"h"]
    gate.check_finished()


@pytest.mark.parametrize(
    "fields",
    [
        (b"Content-Range: bytes 3-4/5",),
        (b"Content-Range: bytes 2-4/5", b"Content-Encoding: gzip"),
        (b"Content-Type: multipart/byteranges; boundary=x",),
        (),
    ],
)
async def test_wrong_range_requests_complete_body(fields: tuple[bytes, ...]) -> None:
    another = Connection((ASKED, answer(b"206 P", *fields, body=b"llo")), "left")
    whole = Connection((TranscriptTurn("C", request()), answer(b"200 OK", body=b"hello")), "left")
    gate = MemoryGate([another, whole], options=OPTIONS, logins=[None])
    async with open_url(parse_as(HttpUrl, "http://h.dom/x"), gate) as reply:
        assert (reply.start, reply.size) == (0, 5)
        assert [octets async for octets in reply.body] == [b"hello"]
    gate.check_finished()


async def test_wrong_range_twice_raises() -> None:
    """The second request had no range."""
    part = answer(b"206 P", b"Content-Range: bytes 3-4/5", body=b"lo")
    turns = [Connection((asked, part), "left") for asked in (ASKED, TranscriptTurn("C", request()))]
    gate = MemoryGate(turns, options=OPTIONS, logins=[None])
    with pytest.raises(ResolveError) as caught:
        async with open_url(parse_as(HttpUrl, "http://h.dom/x"), gate):
            pass
    assert type(caught.value) is ProtocolError
