"""What is sent for a URL, what the caller may add, and what is never shown."""

from __future__ import annotations

import pytest

from protocols.http.http1 import Http1Exchange
from protocols.http.request import compose, encode_basic, host_of, prepare, target_of
from protocols.wire import secret_parts
from resolver import Credentials, HttpUrl, Limits, NotConfigured, Options, Refused, parse


def url_of(text: str) -> HttpUrl:
    url = parse(text)
    assert isinstance(url, HttpUrl)
    return url


def sent(options: Options, credentials: Credentials | None = None) -> list[bytes]:
    """The lines of a request, without their ends."""
    request = compose(url_of("http://h.dom/x"), options, ("gzip", "deflate"))
    if credentials is not None:
        request = request.signed(encode_basic(credentials))
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
def test_the_request(options: Options, lines: list[bytes]) -> None:
    assert sent(options) == lines


def test_no_coding_is_asked_for_where_none_is_wanted() -> None:
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
def test_what_a_caller_may_not_set(name: bytes, value: bytes) -> None:
    with pytest.raises(NotConfigured) as caught:
        sent(Options(headers=((name, value),)))
    assert value.decode() not in caught.value.message or not value.strip()


def test_a_user_agent_is_a_header_like_any_other() -> None:
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
def test_target_and_host(text: str, target: bytes, host: bytes) -> None:
    assert (target_of(url_of(text)), host_of(url_of(text))) == (target, host)


@pytest.mark.parametrize("octet", [octet for octet in range(256) if not 0x21 <= octet <= 0x7E])
def test_a_target_is_graphic_ascii(octet: int) -> None:
    with pytest.raises(Refused) as caught:
        prepare(b"GET", b"/a" + bytes((octet,)) + b"b", ())
    assert caught.value.rule == "S02"


@pytest.mark.parametrize("path", ["a b", "a\r\nb", "a\0b", "a\x7fb", "\xe9", "\ud800", "€"])
def test_a_path_that_no_parser_gave_is_refused(path: str) -> None:
    """The fence holds where the policy was never asked."""
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
def test_basic(user: bytes, password: bytes, value: bytes | None) -> None:
    encoded = encode_basic(Credentials(user, password))
    assert b"\n" not in encoded
    assert value is None or encoded == value


@pytest.mark.parametrize(
    ("user", "password"),
    [(b"a:b", b""), (b"a\0", b""), (b"a\r", b""), (b"a\n", b""), (b"", b"\0"), (b"", b"\r"), (b"", b"\n")],
)
def test_what_basic_cannot_carry(user: bytes, password: bytes) -> None:
    with pytest.raises(Refused) as caught:
        encode_basic(Credentials(user, password))
    assert caught.value.rule == "S02"


def test_secrets_are_not_shown() -> None:
    headers = ((b"Cookie", b"a"), (b"X-Api-Key", b"k"), (b"X-Plain", b"a"), (b"authorization", b"Bearer t"))
    request = compose(url_of("http://h.dom/a"), Options(headers=headers), ())
    line = Http1Exchange(request, Limits()).line
    shown = line.shown.split(b"\r\n")
    assert b"Cookie: a" in line.octets
    assert shown[0] == b"GET /a HTTP/1.1"
    assert shown[-6:-2] == [b"Cookie: ****", b"X-Api-Key: ****", b"X-Plain: a", b"authorization: ****"]
    assert request.pool_key == tuple(header for header in headers if header[0] != b"X-Plain")


def test_secret_parts_of_cookies_are_each_long_value() -> None:
    fields = [(b"Cookie", b'sid="0123456789"; lang=en; other=abcdefgh; bare-value')]
    assert secret_parts(fields) == (fields[0][1], b"0123456789", b"abcdefgh")


def test_credentials_of_the_caller_win_over_those_of_the_place() -> None:
    options = Options(headers=((b"Authorization", b"Bearer t"),))
    lines = sent(options, Credentials(b"u", b"p"))
    assert [line for line in lines if line.lower().startswith(b"auth")] == [b"Authorization: Bearer t"]
