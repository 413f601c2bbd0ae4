"""Tests of the cookie jar (RFC 6265bis and deviations of real servers) and of cookie files."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from protocols.http.cookies import (
    TITLE,
    BadLine,
    Cookie,
    Jar,
    format_line,
    merge_cookies,
    parse_cookie_date,
    parse_line,
    read_lines,
)
from protocols.http.response import ResponseHead
from resolver import HttpUrl
from resolver.transfer.extras import find_suffix_lookup as installed
from tests.protocols.typed_url import parse_as

DATE = ("date", "Sun, 22 Nov 2026 12:34:18 GMT")
SET_AT = "http://a.example.co.uk/s/x"
ASKED = "http://a.example.co.uk/s/e/x"


def url_of(text: str) -> HttpUrl:
    return parse_as(HttpUrl, text)


def sent(*fields: str, at: str = SET_AT, to: str = ASKED) -> str:
    """Return the Cookie field for a URL after another URL set these cookies, each in a separate response."""
    jar = Jar()
    for field in fields:
        jar.update(ResponseHead(200, "OK", (DATE, ("set-cookie", field))), url_of(at), installed())
    return jar.header(url_of(to)).decode("latin-1")


ROWS: list[tuple[tuple[str, ...], str]] = [
    (("a=1",), "a=1"),
    (("a=1; Domain=co.uk",), ""),
    (("a=1; Domain=example.co.uk",), "a=1"),
    (("a=1; Domain=.example.co.uk",), "a=1"),
    (("a=1; Domain=b.example.co.uk",), ""),
    (("a=1; Domain=x.a.example.co.uk",), ""),
    (("a=1; Secure",), ""),
    (("__Host-a=1",), ""),
    (("__Secure-a=1",), ""),
    (("a=1; Path=/s/e",), "a=1"),
    (("a=1; Path=/s/",), "a=1"),
    (("a=1; Path=/other",), ""),
    (("a=1; Path=/s/e/x/y",), ""),
    (("a=1; Path=/s/e/",), "a=1"),
    (("a=1; Domain=",), "a=1"),
    (("a=1; Path=x",), "a=1"),
    (("a=1", "a=2; Max-Age=0"), ""),
    (("a=1", "a=2; Max-Age=-1"), ""),
    (("a=1", "a=2"), "a=2"),
    (("a=1; Max-Age=100; Expires=Thu, 01 Jan 1970 00:00:00 GMT",), "a=1"),
    (("a=1; Max-Age=abc",), "a=1"),
    (("a=1; Expires=Sun, 06-Nov-94 08:49:37 GMT",), ""),
    (("a=1; Expires=Wed Jun  9 10:18:14 2038",), "a=1"),
    (('a="x y"',), 'a="x y"'),
    (("a=b=c",), "a=b=c"),
    (("a=1, b=2",), "a=1, b=2"),
    (("a=\xe9",), "a=\xe9"),
    (('a="x;y"',), 'a="x'),
    (("justname",), ""),
    (("=v",), ""),
    (("a=x\x01y",), ""),
    (("a=x\ty",), "a=x\ty"),
    (("A=1", "a=2"), "A=1; a=2"),
    ((f"a={'x' * 4_096}",), ""),
    ((f"a={'x' * 4_095}",), f"a={'x' * 4_095}"),
    ((f"a=1; Path=/{'x' * 1_024}",), "a=1"),
    (("a=1; Path=/", "b=2; Path=/s/e", "c=3; Path=/"), "b=2; a=1; c=3"),
]


@pytest.mark.parametrize(("fields", "value"), ROWS)
def test_jar_header_by_cookie_attributes(fields: tuple[str, ...], value: str) -> None:
    assert sent(*fields) == value


@pytest.mark.parametrize(
    ("field", "at", "to", "value"),
    [
        ("a=1", "http://h.example/", "http://h.example/", "a=1"),
        ("a=1", "http://h.example/", "http://x.h.example/", ""),
        ("a=1; Domain=h.example", "http://h.example/", "http://x.h.example/", "a=1"),
        ("a=1; Domain=h.example", "http://h.example/", "http://xh.example/", ""),
        ("a=1", "http://h.example/", "https://h.example/", "a=1"),
        ("a=1; Secure", "https://h.example/", "http://h.example/", ""),
        ("a=1; Secure", "https://h.example/", "https://h.example/", "a=1"),
        ("a=1;\tSecure", "https://h.example/", "http://h.example/", ""),
        ("__Host-a=1; Secure; Path=/", "https://h.example/", "https://h.example/x", "__Host-a=1"),
        ("__Host-a=1; Secure; Path=/; Domain=h.example", "https://h.example/", "https://h.example/", ""),
        ("a=1", "http://h.example:8080/", "http://h.example/", ""),
        ("a=1", "http://h.example/", "http://h.example:8080/", ""),
        ("a=1", "http://h.example:8080/", "http://h.example:8080/", "a=1"),
        ("a=1; Domain=127.0.0.1", "http://127.0.0.1/", "http://127.0.0.1/", "a=1"),
        ("a=1; Domain=0.0.1", "http://127.0.0.1/", "http://127.0.0.1/", ""),
        ("a=1; Domain=host", "http://host/", "http://x.host/", ""),
        ("a=1; Domain=github.io", "http://x.github.io/", "http://y.github.io/", ""),
        ("a=1; Domain=co.uk", "http://co.uk/", "http://x.co.uk/", ""),
        ("a=1; Domain=co.uk", "http://co.uk/", "http://co.uk/", "a=1"),
        ("a=1", "http://H.Example/", "http://h.example/", "a=1"),
        ("a=1; Domain=co.uk.", "http://www.shop.co.uk./", "http://other.co.uk./", ""),
        ("a=1; Domain=co.uk.", "http://www.shop.co.uk/", "http://other.co.uk/", ""),
        ("a=1; Domain=.co.uk.", "http://www.shop.co.uk./", "http://other.co.uk/", ""),
        ("a=1; Domain=co.uk", "http://www.shop.co.uk./", "http://other.co.uk./", ""),
        ("a=1; Domain=co.uk.", "http://co.uk./", "http://x.co.uk./", ""),
        ("a=1; Domain=0.0.1.", "http://127.0.0.1/", "http://127.0.0.1/", ""),
        ("a=1; Domain=co.UK", "http://www.shop.CO.UK/", "http://other.co.uk/", ""),
        ("a=1; Domain=CO.UK.", "http://www.shop.co.uk/", "http://other.co.uk/", ""),
        ("a=1; Domain=shop.co.uk.", "http://www.shop.co.uk./", "http://a.shop.co.uk/", "a=1"),
        ("a=1", "http://h.example./", "http://h.example/", "a=1"),
        ("a=1", "http://h.example/", "http://h.example./", "a=1"),
    ],
)
def test_jar_header_by_host_and_scheme(field: str, at: str, to: str, value: str) -> None:
    assert sent(field, at=at, to=to) == value


def test_jar_http_response_does_not_replace_secure_cookie() -> None:
    jar = Jar()
    jar.update(ResponseHead(200, "OK", (("set-cookie", "a=1; Secure"),)), url_of("https://h.example/"), None)
    jar.update(ResponseHead(200, "OK", (("set-cookie", "a=2"),)), url_of("http://h.example/"), None)
    assert jar.header(url_of("https://h.example/")) == b"a=1"


def test_jar_without_suffix_list_ignores_parent_domains() -> None:
    jar = Jar()
    for field in ("a=1; Domain=example.org", "b=2; Domain=x.example.org"):
        jar.update(ResponseHead(200, "OK", (("set-cookie", field),)), url_of("http://x.example.org/"), None)
    assert jar.header(url_of("http://x.example.org/")) == b"b=2"
    assert jar.header(url_of("http://y.x.example.org/")) == b""


def test_jar_size_is_limited() -> None:
    jar, url = Jar(), url_of("http://h.example/")
    jar.update(ResponseHead(200, "OK", tuple(("set-cookie", f"c{n}=1") for n in range(100))), url, None)
    assert len(jar.cookies) == 50
    assert b"c63=1" in jar.header(url)
    assert b"c64=1" not in jar.header(url)
    for number in range(4_000):
        jar.update(
            ResponseHead(200, "OK", (("set-cookie", "a=1"),)), url_of(f"http://h{number}.example/"), None
        )
    assert len(jar.cookies) == 3_000
    for number in range(10):
        jar.update(ResponseHead(200, "OK", (("set-cookie", f"b{number}={'x' * 4000}"),)), url, None)
    assert len(jar.header(url)) <= 16_384


def test_jar_revision_counts_only_changes() -> None:
    jar, url = Jar(), url_of("http://h.example/")
    seen = []
    for field in ("a=1", "a=1", "a=2", "b=1; Max-Age=0", "a=2; Max-Age=0"):
        jar.update(ResponseHead(200, "OK", (("set-cookie", field),)), url, None)
        seen.append(jar.revision)
    assert seen == [1, 1, 2, 2, 3]


@given(st.text(st.characters(max_codepoint=255), max_size=60))
def test_jar_accepts_any_field(field: str) -> None:
    value = sent(field)
    assert not set(value) & set("\r\n\0")


@given(st.text(st.sampled_from("0123456789:- ,JanSunGMT"), max_size=40))
def test_parse_cookie_date_accepts_any_text(text: str) -> None:
    date = parse_cookie_date(text)
    assert date is None or 1601 <= date.year <= 9999


# Lines of a cookie file: cookies, other lines, and a merge that leaves the other lines unchanged.

NOW = 1_000
ONE = Cookie("n", "v", "h.example", None, "/", False, False, 0, expires=2_000)

GOOD: list[tuple[str, dict[str, object]]] = [
    ("h.example\tFALSE\t/\tFALSE\t2000\tn\tv", {}),
    ("H.Example\tfalse\t/\tFALSE\t2000\tn\tv", {}),
    ("h.example\tFALSE\t/\tFALSE\t2000\tn\tv\r", {}),
    (".h.example\tTRUE\t/\tFALSE\t2000\tn\tv", {"subdomains": True}),
    ("h.example\tTRUE\t/\tFALSE\t2000\tn\tv", {"subdomains": True}),
    (".h.example\tFALSE\t/\tFALSE\t2000\tn\tv", {}),
    ("h.example\tFALSE\t/a/\tTRUE\t0\tn\tv", {"path": "/a/", "secure": True, "expires": None}),
    ("#HttpOnly_h.example\tFALSE\t/\tFALSE\t2000\tn\tv", {"http_only": True}),
    ("h.example.\tFALSE\t/\tFALSE\t2000\tn\tv", {}),
    (".h.example.\tTRUE\t/\tFALSE\t2000\tn\tv", {"subdomains": True}),
    ("h.example:8080\tFALSE\t/\tFALSE\t2000\tn\tv", {"port": 8080}),  # wget
    ("127.0.0.1\tFALSE\t/\tFALSE\t2000\tn\tv", {"host": "127.0.0.1"}),
    ("::1\tFALSE\t/\tFALSE\t2000\tn\tv", {"host": "::1"}),  # curl
    ("[::1]:8080\tFALSE\t/\tFALSE\t2000\tn\tv", {"host": "::1", "port": 8080}),
    ("h.example\tFALSE\t/\tFALSE\t2000\tn\t", {"value": ""}),
    ("h.example\tFALSE\t/\tFALSE\t2000\tn", {"value": ""}),
    ('h.example\tFALSE\t/\tFALSE\t2000\tn\t"x y"=z', {"value": '"x y"=z'}),
    ("h.example\tFALSE\t/\tFALSE\t2000\tn\t\xe9", {"value": "\xe9"}),
    ("h.example\tFALSE\t/\tTRUE\t2000\t__Host-n\tv", {"name": "__Host-n", "secure": True}),
]


@pytest.mark.parametrize(("line", "differs"), GOOD)
def test_parse_line_of_cookie_roundtrips(line: str, differs: dict[str, object]) -> None:
    found = parse_line(line.encode("latin-1") + b"\n", 0, installed())
    assert found == type(ONE)(**{**{name: getattr(ONE, name) for name in ONE._fields}, **differs})
    assert found is not None
    assert parse_line(format_line(found), 0, installed()) == found, "what is written is read as the same"


@pytest.mark.parametrize(
    "line", ["", "  ", "# Netscape HTTP Cookie File", "#h\tFALSE\t/\tFALSE\t0\tn\tv", "\t"]
)
def test_parse_line_of_comment_gives_none(line: str) -> None:
    assert parse_line(line.encode() + b"\n", 0, None) is None


BAD = [
    "nonsense",
    "h.example FALSE / FALSE 2000 n v",
    "h.example\tFALSE\t/\tFALSE\t2000",
    "h.example\tFALSE\t/\tFALSE\t2000\tn\tv\tx",
    "h.example\tyes\t/\tFALSE\t2000\tn\tv",
    "h.example\tFALSE\t/\t1\t2000\tn\tv",
    "h.example\tFALSE\t/\tFALSE\ttomorrow\tn\tv",
    "h.example\tFALSE\t/\tFALSE\t2e9\tn\tv",
    "h.example\tFALSE\t/\tFALSE\t9999999999999999999\tn\tv",
    "h.example\tFALSE\ta\tFALSE\t2000\tn\tv",
    "\tFALSE\t/\tFALSE\t2000\tn\tv",
    "h example\tFALSE\t/\tFALSE\t2000\tn\tv",
    "h.example:0\tFALSE\t/\tFALSE\t2000\tn\tv",
    "h.example:99999\tFALSE\t/\tFALSE\t2000\tn\tv",
    "h/x\tFALSE\t/\tFALSE\t2000\tn\tv",
    "..h.example\tTRUE\t/\tFALSE\t2000\tn\tv",  # an empty label
    "h..example\tFALSE\t/\tFALSE\t2000\tn\tv",
    "h.example..\tFALSE\t/\tFALSE\t2000\tn\tv",
    "h.example\tFALSE\t/\tFALSE\t2000\t\tv",
    "h.example\tFALSE\t/\tFALSE\t2000\tn;m\tv",
    "h.example\tFALSE\t/\tFALSE\t2000\tn\tv; admin=1",
    "h.example\tFALSE\t/\tFALSE\t2000\tn\tv\rX-Injected: 1",
    "h.example\tFALSE\t/\tFALSE\t2000\tn\tv\0",
    "h.example\tFALSE\t/\tFALSE\t2000\tn\t" + 4096 * "v",
    "co.uk\tTRUE\t/\tFALSE\t2000\tn\tv",  # for an entire public suffix
    "co.uk.\tTRUE\t/\tFALSE\t2000\tn\tv",
    "127.0.0.1\tTRUE\t/\tFALSE\t2000\tn\tv",
    "h.example\tFALSE\t/\tFALSE\t2000\t__Secure-n\tv",
    "h.example\tTRUE\t/\tTRUE\t2000\t__Host-n\tv",
    "#HttpOnly_",
]


@pytest.mark.parametrize("line", BAD)
def test_parse_line_invalid_raises_without_showing_it(line: str) -> None:
    with pytest.raises(BadLine) as caught:
        parse_line(line.encode() + b"\n", 0, installed())
    assert "admin" not in str(caught.value)


@given(st.binary(max_size=80))
def test_read_lines_of_any_bytes_keep_every_byte(octets: bytes) -> None:
    for number, line in read_lines(octets):
        try:
            cookie = parse_line(line, number, None)
        except BadLine:
            continue
        assert cookie is None or parse_line(format_line(cookie), number, None) == cookie
    assert b"".join(line for _, line in read_lines(octets)) == octets


def jar(*cookies: Cookie) -> dict[tuple[object, ...], Cookie]:
    return {cookie.key: cookie for cookie in cookies}


def cookie(name: str, value: str = "v", expires: int | None = 2_000) -> Cookie:
    return Cookie(name, value, "h.example", None, "/", False, False, 0, expires=expires)


def line(name: str, value: str = "v", expires: int = 2_000) -> bytes:
    return f"h.example\tFALSE\t/\tFALSE\t{expires}\t{name}\t{value}\n".encode()


FOREIGN = b"# a word of mine\n\nneither a cookie nor a comment\n# another\r\n"


@pytest.mark.parametrize(
    ("octets", "before", "after", "expected"),
    [
        (b"", jar(), jar(cookie("a")), TITLE + line("a")),
        (FOREIGN, jar(), jar(cookie("a")), FOREIGN + line("a")),
        (FOREIGN + line("a"), jar(cookie("a")), jar(), FOREIGN),
        (line("a") + FOREIGN, jar(cookie("a")), jar(cookie("a", "w")), line("a", "w") + FOREIGN),
        (line("a") + line("b"), jar(cookie("a")), jar(cookie("a", "w")), line("a", "w") + line("b")),
        (line("a", "theirs"), jar(cookie("a")), jar(cookie("a")), line("a", "theirs")),
        (line("a", "theirs"), jar(cookie("a")), jar(cookie("a", "ours")), line("a", "ours")),
        # a removed line stays removed: the user removed it on purpose
        (b"", jar(cookie("a")), jar(cookie("a"), cookie("b")), TITLE + line("b")),
        (line("a") + line("a", "x"), jar(cookie("a")), jar(cookie("a", "w")), line("a", "w")),
        (line("old", expires=900) + line("a"), jar(), jar(cookie("b")), line("a") + line("b")),
        (line("a")[:-1], jar(), jar(cookie("b")), line("a") + line("b")),
        (b"", jar(), jar(cookie("s", expires=None)), TITLE + line("s", expires=0)),
    ],
)
def test_merge_cookies_writes_only_changes(
    octets: bytes,
    before: dict[tuple[object, ...], Cookie],
    after: dict[tuple[object, ...], Cookie],
    expected: bytes,
) -> None:
    assert merge_cookies(octets, before, after, NOW, installed()) == expected


@given(st.text(st.sampled_from("ab=;/\t \x80\xe9_-") | st.characters(max_codepoint=255), max_size=20))
@example("a\tb=1")
@example("a=1; Path=/x\ty")
@example("a=x\ty")
def test_cookie_of_any_field_can_be_read_from_its_line(field: str) -> None:
    jar = Jar(clock=lambda: datetime.fromtimestamp(NOW, UTC))
    jar.update(ResponseHead(200, "OK", (DATE, ("set-cookie", field))), url_of(SET_AT), installed())
    for cookie in jar.cookies.values():
        assert parse_line(format_line(cookie), 0, installed()) == cookie


def test_jar_without_clock_has_no_expired_cookies() -> None:
    assert Jar().now == 0
    assert not ONE.is_expired(Jar().now)
    assert ONE.is_expired(2_000)
