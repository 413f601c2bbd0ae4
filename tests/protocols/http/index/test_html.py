"""Tests of index pages: expensive pages with bounded memory, any bytes, and recorded pages."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.contract import EntryReader
from protocols.http.index import html, index_reader
from protocols.http.index.entries import IndexDirectory
from protocols.http.index.html import MAX_UNDECIDED, MarkupReader, make_parser
from protocols.http.index.markup import LxmlParser
from protocols.http.index.standard import StandardParser
from protocols.http.response import ResponseHead
from resolver import Declined, Entry, Finding, HttpUrl, LimitExceeded, Limits, ProtocolError, parse
from tests.protocols.http.index.recorded import answer_of, expected, read, reader_of
from tests.sampled import sampled

PLACE = parse("http://h/d/")
assert isinstance(PLACE, HttpUrl)
URL = PLACE
BEGIN = b'<title>Index of /d/</title><h1>Index of /d/</h1><pre><a href="../">../</a>\n'
#: Inputs that took other parsers minutes (CVE-2025-6069), or seconds because of their depth.
HOSTILE = (
    b"<a ",
    b'<a href="',
    b"<!--",
    b"<div>",
    b"<table><tr><td>",
    b"<pre>",
    b"<ul><li>",
    b"</x>",
    b"<h1>",
    b"<br>",
    b"&#",
    b"<!",
    b"<script>",
)


@pytest.fixture(params=[LxmlParser, StandardParser], scope="module", autouse=True)
def parser(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run each test with both parsers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(html, "make_parser", request.param)
        yield


def reader() -> MarkupReader:
    return MarkupReader(URL, Limits(), [])


def take(machine: EntryReader, pieces: Iterable[bytes]) -> list[Entry]:
    entries = [entry for piece in pieces for entry in machine.feed(piece)]
    return [*entries, *machine.finish()]


def row(number: int) -> bytes:
    return b'<a href="f%d">f%d</a>   09-Sep-2001 01:46    12\n' % (number, number)


@pytest.mark.parametrize("unit", HOSTILE)
def test_markup_repeated_60000_bytes_is_read_in_linear_time(unit: bytes) -> None:
    """The timeout of the test run is the limit: a quadratic parser takes minutes for each input."""
    page = unit * (60_000 // len(unit))
    with pytest.raises((Declined, LimitExceeded)):
        take(reader(), (page[at : at + 4_096] for at in range(0, len(page), 4_096)))


@pytest.mark.parametrize("unit", [b"<a ", b'<a href="', b"<!x", b"<a href='"])
def test_markup_tag_beyond_limit_raises(unit: bytes) -> None:
    """The limit also holds byte by byte; a `>` inside a value does not end the tag."""
    with pytest.raises(LimitExceeded) as caught:
        take(reader(), (unit + b"y" for _ in range(70_000)))
    assert caught.value.limit == "line"


@pytest.mark.parametrize("tag", [b"<a %s>", b"<a b='%s'>", b"</a %s>", b"<!%s>", b"<script %s>"])
def test_markup_complete_tag_beyond_limit_raises(tag: bytes) -> None:
    with pytest.raises(LimitExceeded) as caught:
        take(reader(), [tag % (b"y" * Limits().line)])
    assert caught.value.limit == "line"


@pytest.mark.parametrize("unit", [b"<div>", b"<pre>", b"<table></table>", b"<t%d></t%d>", b"<b a%d=x></b>"])
def test_markup_parser_state_is_bounded(unit: bytes) -> None:
    with pytest.raises(LimitExceeded) as caught:
        take(reader(), (unit.replace(b"%d", b"%d" % number) for number in range(1_100)))
    assert caught.value.limit == "lines"


def test_markup_open_heading_is_read_in_linear_time() -> None:
    """Each text took time for all earlier texts of the heading: together 10 s."""
    began = time.process_time()
    with pytest.raises(Declined):
        take(reader(), [b"<h1>" + b"a<br>" * 200_000])
    assert time.process_time() - began < 4


def test_markup_page_without_listing_is_bounded() -> None:
    piece = b"<p>no list of anything</p>".ljust(65_536)
    with pytest.raises(LimitExceeded) as caught:
        take(reader(), (piece for _ in range(MAX_UNDECIDED // 65_536 + 1)))
    assert caught.value.limit == "body"


def test_markup_entries_are_given_before_page_ends() -> None:
    machine = reader()
    assert list(machine.feed(BEGIN)) == []
    early = [entry.name for number in range(5_000) for entry in machine.feed(row(number))]
    assert len(early) >= 4_999  # lxml holds the last line end
    late = [entry.name for entry in machine.finish()]
    assert early + late == [f"f{number}" for number in range(5_000)]


def test_markup_unclosed_comment_hides_no_entry() -> None:
    machine = reader()
    list(machine.feed(BEGIN + b'<a href="x">x--><!--y</a>   09-Sep-2001 01:46   1\n' + row(1) + row(2)))
    assert [entry.name for entry in machine.finish()] == ["x", "f2"]  # the following link is on the same line


def test_markup_half_of_comment_end_hides_no_entry() -> None:
    machine = reader()
    list(machine.feed(BEGIN + b"<!--y>" + row(1) + b"--"))
    assert [entry.name for entry in machine.finish()] == ["f1"]


@pytest.mark.parametrize(
    ("page", "names"),
    [
        (b"<ul><li><a href=a>a<li><b><a href=b>b<li><a href=c>c</ul>", ["a", "b", "c"]),
        (b"<table><tr><td><a href=a>a<td>1<tr><td><a href=b>b</table>", ["a", "b"]),
        (b"<ul><li><a href=a>a</a><ul><li><a href=b>b</ul><li><a href=c>c</a></ul>", ["a", "c"]),
        (b"<ul><li><A HREF='a&amp;b'>a</A><li><a href=c href=d>c</a><a href>x</a></ul>", ["a&b", "c"]),
        (b"<ul><li><a href=a>a</p></td></a></li><br/><li><a href='b' />b</li></ul>", ["a", "b"]),
        (b"<script>'<ul><li><a href=x>'</script><ul><li><a href=a>a</a></ul>", ["a"]),
        (
            b"<ul><li><a href=a>a</a><li><a href=b&#10;>b</a><li><a href=c\xe9>c</a></ul>",
            ["a", "b", "c\udce9"],
        ),
    ],
)
def test_markup_without_end_tags_gives_entries(page: bytes, names: list[str]) -> None:
    machine = reader()
    entries = [*machine.feed(b"<title>Index of /d/</title>" + page), *machine.finish()]
    assert [entry.name for entry in entries] == names


def test_markup_titled_with_a_dot_is_the_index_of_the_top() -> None:
    """The page of mini_httpd 1.30 and micro_httpd for the URL path `/`."""
    top = parse("http://h/")
    assert isinstance(top, HttpUrl)
    page = (
        b"<title>Index of ./</title>\n<h4>Index of ./</h4>\n    <pre>\n"
        b'<a href="a%3ab.txt">a:b.txt                         </a>    30Nov2026 16:18           2211\n'
        b'<a href="sub%20dir">sub dir                         </a>    30Nov2026 16:18           4096\n</pre>'
    )
    machine = MarkupReader(top, Limits(), [])
    entries = [*machine.feed(page), *machine.finish()]
    assert [(entry.url, entry.size) for entry in entries] == [
        ("http://h/a%3ab.txt", 2211),
        ("http://h/sub%20dir", 4096),
    ]


OUTER = (b"<table><td><ul>", b"<ul><li>", b"<table><td><table>")
INNER = (b"</td>", b"<td></td>", b"</b>", b"<li></li>", b"</table>")


NESTED = sampled(product(INNER, OUTER), lambda row: row[0])


@pytest.mark.parametrize(("unit", "outer"), NESTED)
def test_markup_tags_below_deep_nesting_are_read_in_linear_time(outer: bytes, unit: bytes) -> None:
    """The timeout of the test run is the limit, as for the hostile inputs above."""
    page = outer + b"<b>" * 900 + unit * 20_000
    with pytest.raises((Declined, LimitExceeded)):
        take(reader(), (page[at : at + 65_536] for at in range(0, len(page), 65_536)))


@pytest.mark.parametrize(
    "unit", [b"<a ", b"= ", b" x=", b"=\xa0'", b"\x0b", b" '", b"/", b"/ ", b"a\xa0=\xa0", b"\xa0"]
)
def test_markup_long_tag_is_read_in_linear_time(unit: bytes) -> None:
    page = b"<ul><li><a " + unit * (60_000 // len(unit)) + b">"
    with pytest.raises((Declined, LimitExceeded)):
        take(reader(), [page])


def test_markup_end_inside_tag_is_a_finding() -> None:
    findings: list[Finding] = []
    machine = MarkupReader(URL, Limits(), findings)
    list(machine.feed(BEGIN + row(1) + b"<a href='"))
    assert [entry.name for entry in machine.finish()] == ["f1"]
    assert [finding.rule for finding in findings] == ["http:index-hidden"]


def test_parser_of_without_lxml_is_the_standard_one(monkeypatch: pytest.MonkeyPatch) -> None:
    page = html.IndexPage(IndexDirectory(URL), 9)
    assert isinstance(make_parser(page), LxmlParser)
    monkeypatch.setitem(sys.modules, "lxml", None)
    assert isinstance(make_parser(page), StandardParser)


def test_markup_unclosed_long_comment_is_a_finding() -> None:
    findings: list[Finding] = []
    machine = MarkupReader(URL, Limits(), findings)
    list(machine.feed(BEGIN + row(1) + b"<!--"))
    for _ in range(40):
        list(machine.feed(bytes(32_768)))
    assert [entry.name for entry in machine.finish()] == ["f1"]
    assert [finding.rule for finding in findings] == ["http:index-hidden"]


TYPES = ("text/html", "application/json", "application/xml")
PIECES = st.one_of(
    st.binary(max_size=40),
    st.sampled_from(
        [
            *HOSTILE,
            BEGIN,
            row(1),
            b"-->",
            b">",
            b'"',
            b"</pre>",
            b'<a href="?C=N;O=D">',
            b"<list>",
            b'<file mtime="2001-09-09T01:46:40Z" size="7">x</file>',
            b"</list>",
            b"<!DOCTYPE x [<!ENTITY y 'z'>]>",
            b"[",
            b'{"name":"x","type":"file","mtime":"Sun, 09 Sep 2001 01:46:40 GMT","size":1}',
            b'{"name":"\\ud800","url":"./\\ud800","mod_time":"","is_dir":true}',
            b",",
            b"]",
        ]
    ),
)


@given(media_type=st.sampled_from(TYPES), pieces=st.lists(PIECES, max_size=12))
def test_index_reader_any_bytes_give_entries_or_error(media_type: str, pieces: list[bytes]) -> None:
    assert _outcome(media_type, pieces) == _outcome(media_type, [b"".join(pieces)])


@pytest.mark.parametrize("encoding", [b"x-none", b"big5"])
def test_index_xml_unknown_encoding_is_declined(encoding: bytes) -> None:
    """Such a document is treated like XML that is not well-formed: the page is not a listing."""
    pieces = [b'<?xml version="1.0" encoding="' + encoding + b'"?><list></list>']
    assert _outcome("application/xml", pieces) is Declined


LONE_SURROGATE = b'{"name":"x","url":"./\\ud800","mod_time":"","is_dir":false}'
FILE = b'{"name":"%b","type":"file","mtime":"Sun, 09 Sep 2001 01:46:40 GMT","size":1}'


def test_index_json_lone_surrogate_in_url_is_skipped() -> None:
    """No bytes exist for the name. The escape is valid in JSON."""
    assert _outcome("application/json", [b"[" + LONE_SURROGATE + b"]"]) == []


@pytest.mark.parametrize("step", [1 << 20, 4_096, 7])
def test_index_json_object_beyond_limit_raises_for_every_split(step: int) -> None:
    page = b"[" + FILE % (b"x" * Limits().line) + b"]"
    pieces = [page[start : start + step] for start in range(0, len(page), step)]
    assert _outcome("application/json", pieces) is LimitExceeded


def _outcome(media_type: str, pieces: list[bytes]) -> object:
    head = ResponseHead(200, "OK", (("content-type", media_type),))
    machine = index_reader(URL, head, Limits(), [])
    assert machine is not None
    try:
        return take(machine, pieces)
    except (Declined, ProtocolError) as error:
        return type(error)


# Index pages of nine servers and similar pages as recorded, complete and in pieces.

PAGES = sorted(expected())


READINGS = sampled(product(PAGES, (1 << 20, 4_096, 7)), lambda row: row[0])


@pytest.mark.parametrize(("name", "step"), READINGS)
def test_recorded_page_gives_expected_entries(name: str, step: int) -> None:
    listing, records = expected()[name]
    findings: list[Finding] = []
    reader = reader_of(name, findings)
    assert reader is not None
    entries = read(reader, answer_of(name)[2], step)
    if not listing:
        assert entries is None
        assert "http:no-index" in [finding.rule for finding in findings]
        return
    assert entries is not None
    assert list(map(_record, entries)) == [_expected(record) for record in records]


def _record(entry: Entry) -> dict[str, Any]:
    extra = entry.extra or {}
    moment = extra.get("modified_local") if entry.modified is None else f"{entry.modified:%Y-%m-%dT%H:%M:%S}Z"
    size, kind = entry.size, entry.kind.value
    return {"name": entry.name, "url": entry.url, "kind": kind, "size": size, "modified": moment}


def _expected(record: dict[str, Any]) -> dict[str, Any]:
    """Return the expected values without fractions of a second."""
    whole, fraction, _ = (record["modified"] or "").partition(".")
    return {
        "name": record["name"],
        "url": record["url"],
        "kind": record["kind"],
        "size": record["size"],
        "modified": (f"{whole}Z" if fraction else whole) or None,
    }


@pytest.mark.parametrize("name", PAGES)
def test_recorded_page_entry_urls_are_below_the_page(name: str) -> None:
    """A name such as `a%2Fb` or `..` would otherwise be requested from another directory."""
    reader = reader_of(name, [])
    assert reader is not None
    directory = parse(str(answer_of(name)[0].text))
    for entry in read(reader, answer_of(name)[2], 4_096) or []:
        assert entry.url is not None
        url = parse(entry.url)
        assert entry.url.startswith(directory.text)
        rest = entry.url.removeprefix(directory.text).removesuffix("/")
        assert rest
        assert "/" not in rest
        assert (url.scheme, url.fragment) == (directory.scheme, None)
        assert entry.extra is not None
        assert entry.extra["source"] in ("html", "json", "xml")


def test_recorded_page_rounded_size_and_local_time_are_extra() -> None:
    reader = reader_of("apache-debian-plain", [])
    assert reader is not None
    entries = read(reader, answer_of("apache-debian-plain")[2], 4_096)
    assert entries is not None
    archive = next(entry for entry in entries if entry.name == "a.tar.gz")
    assert (archive.size, archive.modified) == (None, None)
    assert archive.extra == {
        "source": "html",
        "size_text": "39K",
        "modified_text": "2001-09-08 21:46",
        "modified_local": "2001-09-08T21:46",
    }


def test_recorded_page_omitted_links_are_findings() -> None:
    for name, rule in (("written-links", "http:index-name"), ("apache-base-names", "http:index-base")):
        findings: list[Finding] = []
        reader = reader_of(name, findings)
        assert reader is not None
        read(reader, answer_of(name)[2], 4_096)
        assert rule in [finding.rule for finding in findings]


def test_recorded_page_broken_xml_is_not_a_listing() -> None:
    findings: list[Finding] = []
    reader = reader_of("nginx-xml-names", findings)
    assert reader is not None
    assert read(reader, answer_of("nginx-xml-names")[2], 64) is None
    assert "http:index-broken" in [finding.rule for finding in findings]
