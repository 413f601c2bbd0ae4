"""Tests of Gopher menu lines: fields, child URLs, malformed and overlong lines."""

from __future__ import annotations

import pytest

from protocols.gopher.menu import (
    LINE_LIMIT,
    MenuItem,
    MenuLines,
    MenuReader,
    TextLine,
    display_text,
    parse_item,
)
from resolver import Entry, GopherUrl, Kind, parse
from resolver.testing import CUTTERS, Cutter, whole
from tests.protocols.typed_url import parse_as

MENU = parse("gopher://h.dom/1menu")
assert isinstance(MENU, GopherUrl)


def read(octets: bytes, cutter: Cutter = whole, menu: GopherUrl = MENU) -> list[Entry]:
    reader = MenuReader(menu)
    entries = [entry for piece in cutter(octets) for entry in reader.feed(piece)]
    return [*entries, *reader.finish()]


def read_entry(octets: bytes, menu: GopherUrl = MENU) -> Entry:
    (entry,) = read(octets, menu=menu)
    return entry


#: A line, and the kind and URL of its entry.
LINES: list[tuple[bytes, Kind, str | None]] = [
    (b"0A\ta\th.dom\t70", Kind.DOCUMENT, "gopher://h.dom/0a"),
    (b"0A\t\th.dom\t70", Kind.DOCUMENT, "gopher://h.dom/0"),
    (b"0A\ta\tH.Dom\t070", Kind.DOCUMENT, "gopher://h.dom/0a"),
    (b"0A\ta\th.dom\t7070", Kind.DOCUMENT, "gopher://h.dom:7070/0a"),
    (b"0A\ta\th.dom\t70\t+", Kind.DOCUMENT, "gopher://h.dom/0a%09%09+"),
    (b"0A\ta\th.dom\t70\t?", Kind.DOCUMENT, "gopher://h.dom/0a%09%09?"),
    (b"0A\ta\th.dom\t70\t+\tmore\tand more", Kind.DOCUMENT, "gopher://h.dom/0a%09%09+"),
    (b"0A\ta\th.dom\t70\tx", Kind.DOCUMENT, "gopher://h.dom/0a"),
    (b"1A\t1/a\th.dom\t70", Kind.DIRECTORY, "gopher://h.dom/11/a"),
    (b"7A\ta\th.dom\t70", Kind.SEARCH, "gopher://h.dom/7a"),
    (b"9A\t/a b\xe9~%;?#\th.dom\t70", Kind.DOCUMENT, "gopher://h.dom/9/a%20b%E9%7E%25%3B%3F%23"),
    (b"9A\tLetters09$-_.+!*'(),/:@&=\th.dom\t70", Kind.DOCUMENT, "gopher://h.dom/9Letters09$-_.+!*'(),/:@&="),
    (b'9A\t<>"{}|\\^[]`\th.dom\t70', Kind.DOCUMENT, "gopher://h.dom/9%3C%3E%22%7B%7D%7C%5C%5E%5B%5D%60"),
    (b"0A\ta\t192.0.2.1\t70", Kind.DOCUMENT, "gopher://192.0.2.1/0a"),
    (b"0A\ta\t2001:DB8::1\t70", Kind.DOCUMENT, "gopher://[2001:db8::1]/0a"),
    (b"8A\tguest\th.dom\t23", Kind.SERVICE, "telnet://guest@h.dom/"),
    (b"8A\t\th.dom\t2323", Kind.SERVICE, "telnet://h.dom:2323/"),
    (b"8A\ta b:c@d/\th.dom\t23", Kind.SERVICE, "telnet://a%20b%3Ac%40d%2F@h.dom/"),
    (b"TA\t\th.dom\t23", Kind.SERVICE, "tn3270://h.dom/"),
    (b"2A\tns\th.dom\t105", Kind.SERVICE, "gopher://h.dom:105/2ns"),
    (b"hA\t/page\th.dom\t70", Kind.DOCUMENT, "gopher://h.dom/h/page"),
    (b"hA\tURL:http://w.dom/%20?a=b#c\th.dom\t70", Kind.LINK, "http://w.dom/%20?a=b#c"),
    (b"hA\t/URL:HTTPS://w.dom/", Kind.LINK, "HTTPS://w.dom/"),
    (b"hA\tURL:news:comp.lang.c\th.dom\t70", Kind.LINK, "news:comp.lang.c"),
    (b"hA\tURL:mailto:a@b\th.dom\t70", Kind.LINK, None),
    (b"hA\tURL:file:///etc/passwd\th.dom\t70", Kind.LINK, None),
    (b"hA\tURL:http://a b/\th.dom\t70", Kind.LINK, None),
    (b"hA\tURL:http://a\xe9/\th.dom\t70", Kind.LINK, None),
    (b"hA\tURL:\th.dom\t70", Kind.LINK, None),
    (b"0A\tURL:http://w.dom/\th.dom\t70", Kind.DOCUMENT, "gopher://h.dom/0URL:http://w.dom/"),
    (b"iA\tTITLE\tnull.host\t1", Kind.INFO, None),
    (b"iA", Kind.INFO, None),
    (b"i", Kind.INFO, None),
    (b"3A\t\terror.host\t1", Kind.ERROR, None),
    (b"3A\ta\th.dom\t70", Kind.ERROR, None),
    (b"gA\ta\th.dom\t70", Kind.DOCUMENT, "gopher://h.dom/ga"),
    (b";A\ta\th.dom\t70", Kind.DOCUMENT, "gopher://h.dom/%3Ba"),
    (b"<A\ta\th.dom\t70", Kind.DOCUMENT, "gopher://h.dom/%3Ca"),
    (b"?A\ta\th.dom\t70", Kind.UNKNOWN, "gopher://h.dom/%3Fa"),
    (b"%A\t41\th.dom\t70", Kind.UNKNOWN, "gopher://h.dom/%2541"),
    (b"+A\ta\th.dom\t70", Kind.UNKNOWN, "gopher://h.dom/+a"),
    (b"\x1bA\ta\th.dom\t70", Kind.UNKNOWN, None),
    (b" A\ta\th.dom\t70", Kind.UNKNOWN, None),
    (b"\xe9A\ta\th.dom\t70", Kind.UNKNOWN, None),
    (b"\tA\ta\th.dom\t70", Kind.UNKNOWN, None),
    (b"0A", Kind.DOCUMENT, None),
    (b"0A\ta", Kind.DOCUMENT, None),
    (b"0A\ta\th.dom", Kind.DOCUMENT, None),
    (b"0A\ta\t\t70", Kind.DOCUMENT, None),
    (b"0A\ta\t(NULL)\t0", Kind.DOCUMENT, None),
    (b"0A\ta\th.dom\t0", Kind.DOCUMENT, None),
    (b"0A\ta\th.dom\t65535", Kind.DOCUMENT, "gopher://h.dom:65535/0a"),
    (b"0A\ta\th.dom\t65536", Kind.DOCUMENT, None),
    (b"0A\ta\th.dom\t100105", Kind.DOCUMENT, None),
    (b"0A\ta\th.dom\t-70", Kind.DOCUMENT, None),
    (b"0A\ta\th.dom\t 70", Kind.DOCUMENT, None),
    (b"0A\ta\th.dom\t7_0", Kind.DOCUMENT, None),
    (b"0A\ta\th.dom\t\xd9\xa7\xd9\xa0", Kind.DOCUMENT, None),
    (b"0A\ta\th.dom\t" + b"9" * 5000, Kind.DOCUMENT, None),
    (b"0A\tx\rQUIT\th.dom\t70", Kind.DOCUMENT, None),
    (b"0A\tx\0y\th.dom\t70", Kind.DOCUMENT, None),
    (b"0A\ta\tu@h.dom\t70", Kind.DOCUMENT, None),
    (b"0A\ta\th.dom/x\t70", Kind.DOCUMENT, None),
    (b"0A\ta\th.dom:25\t70", Kind.DOCUMENT, None),
    (b"0A\ta\t[h\t70", Kind.DOCUMENT, None),
    (b"0A\ta\t127.1\t70", Kind.DOCUMENT, None),
    (b"0A\ta\th%2edom\t70", Kind.DOCUMENT, None),
    (b"0A\ta\t\xe9.dom\t70", Kind.DOCUMENT, None),
]


@pytest.mark.parametrize(("line", "kind", "url"), LINES)
def test_menu_line_gives_entry(line: bytes, kind: Kind, url: str | None) -> None:
    for end in (b"\r\n", b"\n", b""):
        entry = read_entry(line + end)
        assert (entry.kind, entry.url, entry.raw) == (kind, url, line)
    if url is None:
        assert entry.extra is not None
        assert ("unusable" in entry.extra) == (kind not in (Kind.INFO, Kind.ERROR))
    else:
        assert parse(url).scheme in ("gopher", "telnet", "tn3270", "http", "https", "news")


@pytest.mark.parametrize("url", sorted({row[2] for row in LINES if row[2] and row[2].startswith("gopher")}))
def test_child_url_parses(url: str) -> None:
    parsed = parse_as(GopherUrl, url)
    assert set(parsed.findings) <= {"ipv6-literal"}


#: A display string as sent and as shown.
DISPLAYED: list[tuple[bytes, str]] = [
    (b"  layout  ", "  layout  "),
    ("Grüße ☃".encode(), "Grüße ☃"),
    ("Grüße".encode("latin-1"), "Grüße"),
    (b"a\x1b]0;title\x07b\x7f", "a]0;titleb"),
    ("a\x9bb\u202ec".encode(), "ab\u202ec"),
    (b"\x9b31m", "31m"),
    (b"", ""),
    (b"a\rb", "ab"),
]


@pytest.mark.parametrize(("display", "shown"), DISPLAYED)
def test_display_text_drops_control_characters(display: bytes, shown: str) -> None:
    assert display_text(display) == shown
    assert read_entry(b"0" + display + b"\ta\th.dom\t70\r\n").name == shown


WHOLE = (
    b"iProse\r\n\r\n1Sub\ta\th.dom\t70\n.\r\niProse in between\t\tfake\t0\r\n3No\t\tx\t1\r\n"
    b"+Twin\tb\tother.dom\t70\t+\r\n+Triplet\tc\tother.dom\t70\r\n0Doc\td\th.dom\t70\r\n+Twin\te\th.dom\t70\r\n.\r\n"
)


@pytest.mark.parametrize("cutter", CUTTERS, ids=lambda cutter: cutter.__name__)
def test_menu_reader_gives_same_entries_for_every_split(cutter: Cutter) -> None:
    assert [(entry.kind.value, entry.url, entry.name) for entry in read(WHOLE, cutter)] == [
        ("info", None, "Prose"),
        ("directory", "gopher://h.dom/1a", "Sub"),
        ("info", None, "Prose in between"),
        ("error", None, "No"),
        ("directory", "gopher://other.dom/1b%09%09+", "Twin"),
        ("directory", "gopher://other.dom/1c", "Triplet"),
        ("document", "gopher://h.dom/0d", "Doc"),
        ("document", "gopher://h.dom/0e", "Twin"),
    ]


def test_entry_extra_keeps_fields() -> None:
    entry = read_entry(b"+T\xe9\ts\xff\tfake\tword\t+\tx\r\n")
    assert entry.extra == {
        "type": "+",
        "selector": "s\xff",
        "host": "fake",
        "port": "word",
        "gopherplus": "+",
        "unusable": entry.extra["unusable"] if entry.extra else None,
    }
    assert parse_item(b"") == MenuItem("", b"", None, None, None, "", b"")


@pytest.mark.parametrize(
    ("menu", "line", "url"),
    [
        ("gophers://h.dom/1", b"0A\ta\tH.DOM\t70", "gophers://h.dom/0a"),
        ("gophers://H.dom/1", b"0A\ta\th.dom\t70\t+", "gophers://h.dom/0a%09%09+"),
        ("gophers://h.dom/1", b"0A\ta\th.dom\t71", "gopher://h.dom:71/0a"),
        ("gophers://h.dom/1", b"0A\ta\tother.dom\t70", "gopher://other.dom/0a"),
        ("gophers://h.dom:7443/1", b"0A\ta\th.dom\t7443", "gophers://h.dom:7443/0a"),
        ("gophers://h.dom:7443/1", b"0A\ta\th.dom\t70", "gopher://h.dom/0a"),
        ("gophers://h.dom/1", b"8A\ta\th.dom\t70", "telnet://a@h.dom:70/"),
        ("gopher://h.dom:7443/1", b"0A\ta\th.dom\t7443", "gopher://h.dom:7443/0a"),
    ],
)
def test_child_url_keeps_tls_only_on_same_host_and_port(menu: str, line: bytes, url: str) -> None:
    parsed = parse_as(GopherUrl, menu)
    assert read_entry(line, parsed).url == url


def test_menu_line_too_long_is_unusable_entry() -> None:
    long = b"0Long\t" + b"x" * LINE_LIMIT + b"\th.dom\t70\r\n"
    first, second = read(long + b"0A\ta\th.dom\t70\r\n")
    assert (first.name, first.url, first.kind, first.raw) == ("Long", None, Kind.UNKNOWN, long[:LINE_LIMIT])
    assert first.extra is not None
    assert first.extra["type"] == "0"
    assert {*first.extra} == {"type", "selector", "host", "port", "gopherplus", "unusable"}
    assert second.url == "gopher://h.dom/0a"


# Lines, and truncation of overlong lines.

OCTETS = b"one\r\ntwo\n\r\n\n\rthree\r\r\nfour\r"
EXPECTED_LINES = [b"one", b"two", b"", b"", b"\rthree\r", b"four"]


@pytest.mark.parametrize("cutter", CUTTERS, ids=lambda cutter: cutter.__name__)
def test_menu_lines_end_at_lf_and_drop_one_cr(cutter: Cutter) -> None:
    lines = MenuLines()
    read = [line for piece in cutter(OCTETS) for line in lines.feed(piece)]
    assert [*read, *lines.finish()] == [TextLine(line) for line in EXPECTED_LINES]
    assert lines.finish() == []


@pytest.mark.parametrize("cutter", CUTTERS, ids=lambda cutter: cutter.__name__)
def test_menu_lines_truncate_only_overlong_lines(cutter: Cutter) -> None:
    octets = b"x" * 10 + b"\r\n" + b"y" * 11 + b"\r\n" + b"z" * 11 + b"\n" + b"w" * 500 + b"\nshort\n"
    lines = MenuLines(limit=10)
    assert [line for piece in cutter(octets) for line in lines.feed(piece)] == [
        TextLine(b"x" * 10),
        TextLine(b"y" * 10, is_complete=False),
        TextLine(b"z" * 10, is_complete=False),
        TextLine(b"w" * 10, is_complete=False),
        TextLine(b"short"),
    ]


def test_menu_lines_buffer_of_endless_line_is_bounded() -> None:
    lines = MenuLines()
    for _ in range(100):
        assert lines.feed(b"x" * LINE_LIMIT) == []
    assert lines.finish() == [TextLine(b"x" * LINE_LIMIT, is_complete=False)]
