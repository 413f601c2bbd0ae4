"""Lines of a cookie file: what is a cookie, what is not, and that nothing else in the file is touched."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.http.cookies import TITLE, BadLine, Cookie, Jar, line_of, merged, parse_line, read_lines
from resolver.transfer.extras import public_suffix_installed as installed

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
def test_a_cookie(line: str, differs: dict[str, object]) -> None:
    found = parse_line(line.encode("latin-1") + b"\n", 0, installed())
    assert found == type(ONE)(**{**{name: getattr(ONE, name) for name in ONE._fields}, **differs})
    assert found is not None
    assert parse_line(line_of(found), 0, installed()) == found, "what is written is read as the same"


@pytest.mark.parametrize(
    "line", ["", "  ", "# Netscape HTTP Cookie File", "#h\tFALSE\t/\tFALSE\t0\tn\tv", "\t"]
)
def test_no_cookie(line: str) -> None:
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
    "h.example\tFALSE\t/\tFALSE\t2000\t\tv",
    "h.example\tFALSE\t/\tFALSE\t2000\tn;m\tv",
    "h.example\tFALSE\t/\tFALSE\t2000\tn\tv; admin=1",
    "h.example\tFALSE\t/\tFALSE\t2000\tn\tv\rX-Injected: 1",
    "h.example\tFALSE\t/\tFALSE\t2000\tn\tv\0",
    "h.example\tFALSE\t/\tFALSE\t2000\tn\t" + 4096 * "v",
    "co.uk\tTRUE\t/\tFALSE\t2000\tn\tv",  # for all of a public suffix
    "co.uk.\tTRUE\t/\tFALSE\t2000\tn\tv",
    "127.0.0.1\tTRUE\t/\tFALSE\t2000\tn\tv",
    "h.example\tFALSE\t/\tFALSE\t2000\t__Secure-n\tv",
    "h.example\tTRUE\t/\tTRUE\t2000\t__Host-n\tv",
    "#HttpOnly_",
]


@pytest.mark.parametrize("line", BAD)
def test_what_no_server_could_have_set_is_passed_over_and_not_shown(line: str) -> None:
    with pytest.raises(BadLine) as caught:
        parse_line(line.encode() + b"\n", 0, installed())
    assert "admin" not in str(caught.value)


@given(st.binary(max_size=80))
def test_any_line_is_a_cookie_a_comment_or_bad(octets: bytes) -> None:
    for number, line in read_lines(octets):
        try:
            cookie = parse_line(line, number, None)
        except BadLine:
            continue
        assert cookie is None or parse_line(line_of(cookie), number, None) == cookie
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
        (b"", jar(cookie("a")), jar(cookie("a"), cookie("b")), TITLE + line("b")),  # who removed it meant it
        (line("a") + line("a", "x"), jar(cookie("a")), jar(cookie("a", "w")), line("a", "w")),
        (line("old", expires=900) + line("a"), jar(), jar(cookie("b")), line("a") + line("b")),
        (line("a")[:-1], jar(), jar(cookie("b")), line("a") + line("b")),
        (b"", jar(), jar(cookie("s", expires=None)), TITLE + line("s", expires=0)),
    ],
)
def test_what_changed_is_put_into_the_file_as_it_is_now(
    octets: bytes,
    before: dict[tuple[object, ...], Cookie],
    after: dict[tuple[object, ...], Cookie],
    expected: bytes,
) -> None:
    assert merged(octets, before, after, NOW, installed()) == expected


def test_a_jar_without_a_clock_has_no_ends() -> None:
    assert Jar().now == 0
    assert not ONE.is_over(Jar().now)
    assert ONE.is_over(2_000)
