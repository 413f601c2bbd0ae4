"""Pages of responses: the template for each kind, and the contents of documents, menus and forms."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

import pytest

from protocols.contract import JsonValue
from resolver import Entry, Kind, Response, Url, check, parse
from resolver.transfer.forms import AskForm, AskLine, AskQuestion
from resolver.web.pages.article import MAX_LISTED
from resolver.web.pages.document import choose_shape, document_page, make_page
from resolver.web.pages.gopher import answers_from, form_page, menu_page
from resolver.web.pages.page import PageQuery, WebPage, pieces
from resolver.web.pages.text import (
    PART,
    detect_media_type,
    find_base,
    media_type_of_picture,
    text_of_markup,
)
from tests.resolver.web.pages.facts import PNG, URL, item, response
from tests.resolver.web.pages.skeleton import frame, place, rendered, skeleton
from tests.sampled import sampled


def keep(octets: bytes, media_type: str, name: str, shown: bool) -> str:
    return f"/d/{media_type}/{name}/{shown}"


def reply(
    url: str, kind: Kind, entries: Iterable[Entry] | None = None, **extra: JsonValue
) -> tuple[Response, Url]:
    from dataclasses import replace

    empty = response(url, kind=kind, media_type="", extra=extra)
    return replace(empty, entries=None if entries is None else tuple(entries), title=None), parse(url)


@pytest.mark.parametrize(
    ("pair", "template"),
    [
        (reply("ftp://h.example/", Kind.DIRECTORY, []), "directory.html"),
        (reply("gopher://h.example/", Kind.DIRECTORY, []), "menu.html"),
        (reply("nntp://h.example/g", Kind.GROUP, []), "group.html"),
        (reply("news:comp.*", Kind.DIRECTORY, []), "directory.html"),
        (reply("wais://h.example/db?words", Kind.DIRECTORY, [], hits=0), "results.html"),
        (reply("wais://h.example/db", Kind.SEARCH, [], records=0), "results.html"),
        (reply("nntp://h.example/g/1", Kind.ARTICLE), "article.html"),
        (reply("telnet://h.example/", Kind.SERVICE), "service.html"),
        (reply("mailto:a@h.example", Kind.ADDRESS), "mail.html"),
        (reply("gopher://h.example/0x%09%09!", Kind.DIRECTORY, None, attributes={}), "attributes.html"),
        (reply("http://h.example/x", Kind.DOCUMENT), "document.html"),
    ],
)
def test_page_of_response_has_template_of_kind(pair: tuple[Response, Url], template: str) -> None:
    page = make_page(*pair, PageQuery(), place(), keep)
    assert page.template == template
    assert rendered(page)


@pytest.mark.parametrize(
    ("content", "media_type", "shape"),
    [
        (PNG, "text/html", "image"),
        (b"<script>", "image/png", "octets"),
        (b"%PDF-1.4", "text/plain", "pdf"),
        (b"<svg>", "image/svg+xml", "markup"),
        (b"<?xml?>", "text/xml; charset=x", "markup"),
        (b"  <!DOCTYPE html>", "", "markup"),
        (b"<html>", "text/plain", "text"),
        (b"words", "text/csv", "text"),
        (b"words", "application/octet-stream", "text"),
        (b"words", "application/x-unheard-of", "octets"),
        (b"\x00\x01", "", "octets"),
        (b"", "", "octets"),
        (b"OggS", "", "audio"),
        (b"\x00\x00\x00\x18ftypmp42", "", "video"),
    ],
)
def test_shape_of_document_depends_on_its_bytes(content: bytes, media_type: str, shape: str) -> None:
    assert choose_shape(response("x", content=content, media_type=media_type)) == shape


def test_page_of_document_never_repeats_declared_type() -> None:
    stored: list[tuple[bytes, str, bool]] = []

    def keeping(octets: bytes, media_type: str, name: str, shown: bool) -> str:
        stored.append((octets, media_type, shown))
        return "/d/x"

    for media_type in ("text/html; charset=utf-7", "image/svg+xml", "multipart/x-mixed-replace"):
        for content in (b"caf\xe9", PNG):
            document = response("x", content=content, media_type=media_type)
            make_page(document, parse("http://h.example/a.html"), PageQuery(view="page"), place(), keeping)
    assert {media_type for _, media_type, shown in stored if not shown} == {"application/octet-stream"}
    assert {(octets, media_type) for octets, media_type, shown in stored if shown} == {
        (PNG, "image/png"),
        ("<!doctype html>\ncafé".encode(), "text/html; charset=utf-8"),
    }


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("<title>T</title><h1>A &amp; B</h1><p>one  two\nthree</p>", "T\n\nA & B\n\none two three"),
        ("<ul><li>one<li>two</ul>", "• one\n• two"),
        ("<pre>kept\n   as it is</pre>", "kept\n   as it is"),
        ("<a href='http://h.example/ x'>a link</a>.", "a link <http://h.example/x>."),
        ("<a href='/here'>a link</a>", "a link"),
        ("<script>alert(1)</script><style>b{}</style>x", "x"),
        ("<img src=x alt='a cat'>", "[a cat]"),
        ("<![if x]>y", "y"),
        ("a < b & c &lt; d &#60; e &#99999999999; f", "a < b & c < d < e &#99999999999; f"),
        ("a <!-- not > here --> b", "a b"),
        ("never <!-- closed", "never"),
        ("never <b closed", "never <b closed"),
        ("<a\nhref = \"x:&amp;\" title='>'>y</a>", "'>y <x:&>"),
        ("<" * 50, "<" * 50),
    ],
)
def test_text_of_markup_returns_readable_text(markup: str, text: str) -> None:
    assert text_of_markup(markup) == text


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("<a href=b>x</a>", "x <http://h.example/d/b>"),
        ("<a href='/b c?d=é#e'>x</a>", "x <http://h.example/b%20c?d=%C3%A9#e>"),
        ("<a href='../b'>x</a>", "x <http://h.example/b>"),
        ("<a href='//k.example/'>x</a>", "x <http://k.example/>"),
        ("<a href='?q'>x</a>", "x <http://h.example/d/a?q>"),
        ("<a href=' /wiki/Talk:X '>x</a>", "x <http://h.example/wiki/Talk:X>"),
        ("<a href='gopher://k.example/1'>x</a>", "x <gopher://k.example/1>"),
        ("<a href='#top'>x</a><a href=''>y</a><a>z</a>", "xyz"),
        ("<a href='//[/'>x</a>", "x <http://[/>"),
        ("<base href='/e/#f'><base href='/g/'><a href=b>x</a>", "x <http://h.example/e/b>"),
        ("<base href='mailto:a@b.example'><a href=b>x</a>", "x <http://h.example/d/b>"),
        ("<base href='javascript:1'><a href=b>x</a>", "x <http://h.example/d/b>"),
        ("<a href='\nb&#10;&gt;c&quot;\td'>x</a>", "x <http://h.example/d/b%3Ec%22d>"),
        (f"<a href='{'b' * 3_000}'>x</a>", "x"),
    ],
)
def test_text_of_markup_resolves_relative_links(markup: str, text: str) -> None:
    assert text_of_markup(markup, find_base("http://me:secret@h.example/d/a?b#f")) == text


def test_text_of_markup_limits_relative_links() -> None:
    """The rest of a huge page is shown without relative links; the work and the text are bounded."""
    text = text_of_markup("<a href=b>x</a>" * 50_000, find_base(f"http://h.example/{'d' * 1_000}/"))
    assert text.count("<http:") == 10_000
    assert text.endswith("xx")


def test_relative_link_of_page_leads_through_own_address() -> None:
    document = response(
        "http://h.example/d/a#f",
        content=b"<a href=b>x</a> <a href=javascript:1>y</a>",
        media_type="text/html",
    )
    page = make_page(document, parse(document.url), PageQuery(), place(), keep)
    href = place().href("http://h.example/d/b")
    assert f'&lt;<a href="{href}">http://h.example/d/b</a>&gt;' in rendered(page)
    assert 'href="javascript' not in rendered(page)


PARTS = (
    b"--B\r\nContent-Type: text/plain; charset=iso-8859-1\r\n\r\ncaf\xe9 <http://h.example/>\r\n"
    b'--B\r\nContent-Type: text/html; name="../../../page.html"\r\n\r\n<script>alert(1)</script>\r\n'
    b"--B\r\nContent-Type: image/png; name=.bashrc\r\n\r\n" + PNG + b"\r\n--B--\r\n"
)


def multipart(content: bytes, media_type: str | None = "multipart/mixed; boundary=B") -> WebPage:
    """Return the page of a multipart document, with the header field of an http response or without."""
    from dataclasses import replace

    document = response("http://h.example/x", content=content, media_type="multipart/mixed")
    meta = () if media_type is None else (("Content-Type", media_type),)
    return make_page(
        replace(document, meta=meta, charset=None), parse(document.url), PageQuery(), place(), keep
    )


@pytest.mark.parametrize(
    ("content", "media_type"),
    [
        (PARTS, "multipart/mixed; boundary=B"),
        (PARTS, 'multipart/mixed; Boundary="B"'),
        (b"From a Sat Jan  1 00:00:00 2000\nContent-Type: multipart/mixed;\n boundary=B\n\n" + PARTS, None),
    ],
)
def test_multipart_document_lists_parts(content: bytes, media_type: str | None) -> None:
    page = multipart(content, media_type)
    markup = rendered(page)
    assert "café &lt;<a href=" in markup
    assert "<script>" not in markup
    table = markup[markup.index("<table") : markup.index("</table>")]
    rows = [re.sub("<[^>]*>", " ", row).split() for row in table.split("<tr>")[2:]]
    assert rows == [
        ["1", "text/plain", "show", "part", "1", "save", "part", "1", "24", "bytes"],
        ["2", "text/html", "save", "part", "2", "page.html", "25", "bytes"],
        ["3", "image/png", "show", "part", "3", "save", "part", "3", "_bashrc", f"{len(PNG)}", "bytes"],
    ]


@pytest.mark.parametrize(
    ("content", "media_type", "shape"),
    [
        (b"no boundary", "multipart/mixed", "text"),
        (b"Note: a text\n\nof words", None, "text"),
        (b"no part", "multipart/mixed; boundary=B", "multipart"),
        (b"--B\r\n\r\nx\r\n" * 5_000, "multipart/mixed; boundary=B", "multipart"),
        (PARTS, "multipart/mixed; boundary=" + "B" * 100_000, "multipart"),
        (
            b"Content-Type: multipart/mixed; boundary=C\r\n\r\n--C\r\n" * 50,
            "multipart/x; boundary=B",
            "multipart",
        ),
        (PARTS, "multipart/mixed; boundary=B\r\nSubject: x\r\n\r\n", "multipart"),
        (PARTS, "multipart/mixed; boundary=\u20ac\0", "multipart"),
        (b"", "multipart/mixed; boundary=", "multipart"),
    ],
)
def test_malformed_multipart_document_is_bounded(content: bytes, media_type: str | None, shape: str) -> None:
    page = multipart(content, media_type)
    assert page.values["shape"] == shape
    assert rendered(page).count("<tr>") <= MAX_LISTED + 1


PIECES = ("<", "<a ", "<!--", '<a href="', "&", "<![", "</", "<?", " ", "<pre> ", "<a href=x:>")


@pytest.mark.parametrize("piece", sampled(PIECES, lambda piece: None, 4))
def test_text_of_markup_without_end_takes_linear_time(piece: str) -> None:
    """Python's parser, or a regular expression with blanks, took minutes for each of these inputs."""
    assert len(text_of_markup(piece * 300_000)) <= 300_000 * len(piece)


def test_text_page_splits_text_at_line_ends() -> None:
    text = ("x" * 99 + "\n") * 25_000
    pages = [
        document_page(
            response("x", content=text.encode(), media_type="text/plain"), PageQuery(page=n), place(), str
        )
        for n in (1, 2, 3, 9)
    ]
    assert [page.values["part"] for page in pages] == [1, 2, 3, 3]
    shown = [text for page in pages[:3] for text in _runs(page.values["runs"])]
    assert "".join(shown) == text
    assert all(part.endswith("\n") and len(part) <= PART for part in shown)
    assert pages[0].values["previous"] is None
    assert pages[2].values["next"] is None


def _runs(runs: object) -> list[str]:
    assert isinstance(runs, list)
    return [run.text for run in runs]


def test_text_page_links_urls() -> None:
    document = response(
        "x", content=b"see <URL:ftp://h.example/a> and <javascript:x> and <x>", media_type="text/plain"
    )
    markup = rendered(document_page(document, PageQuery(), place(), str))
    assert '&lt;<a href="/u/17">URL:ftp://h.example/a</a>&gt; and &lt;javascript:x&gt;' in markup


def test_menu_page_of_million_items_is_bounded() -> None:
    """The length of the response is bounded by the page, not by the menu."""

    class Million(tuple[Entry, ...]):
        def __len__(self) -> int:
            return 1_000_000

    one = item("x" * 40, Kind.DOCUMENT, "0", "gopher://h.example/0/documents/of/some/length/0123456.txt")
    plain = Entry(name=one.name, url=one.url, kind=one.kind, extra={"type": "0"})
    menu = replace(response("x"), entries=Million([plain] * 500))
    page = menu_page(menu, PageQuery(), place())
    markup = rendered(page)
    assert "page 1 of 2000" in markup
    assert len(markup.encode()) <= 300_000
    chunks = list(pieces(page, frame("x")))
    assert "".join(chunks) == rendered(page)
    assert len(chunks) > 3


def test_menu_page_describes_items() -> None:
    entries = [
        Entry(name="Hello", kind=Kind.INFO, extra={"type": "i"}),
        Entry(name="World", kind=Kind.INFO, extra={"type": "i"}),
        item("Form", Kind.DIRECTORY, "1", tag="?"),
        item("Find", Kind.SEARCH, "7", "gopher://h.example/7find"),
        item("Sit", Kind.SERVICE, "8", "telnet://g@h.example/"),
        item("Mail", Kind.DOCUMENT, "0", "gopher://h.example:25/0x"),
        item("Odd", Kind.UNKNOWN, "z", "gopher://h.example/zx"),
    ]
    page = menu_page(
        response("x", entries=entries),
        PageQuery(),
        place(),
        judge=lambda entry: check(entry.url or "", origin="derived"),
    )
    markup = rendered(page)
    text = "".join(skeleton(markup).text)
    assert "Hello\nWorld" in text
    assert "sends your answers" in text
    assert "run resolve open telnet://g@h.example/" in text
    assert "cannot be opened: port 25" in text
    assert "(S04)" in text
    assert "type z" in text
    assert 'name="words"' in markup
    assert 'value="gopher://h.example/7find"' in markup


FORM = AskForm(
    (
        AskLine(AskQuestion.NOTE, "Note", "a note"),
        AskLine(AskQuestion.ASK, "Ask", "name", (), "nobody"),
        AskLine(AskQuestion.ASK_LINES, "AskL", "lines"),
        AskLine(AskQuestion.CHOOSE, "Choose", "one", (b"a", b"b\xff")),
        AskLine(AskQuestion.SELECT, "Select", "yes", (), "1"),
        AskLine(AskQuestion.CHOOSE_FILE, "ChooseF", "file"),
    )
)


@pytest.mark.parametrize(
    ("fields", "answers"),
    [
        ([], [b"", (), b"a", False, None]),
        (
            [
                ("answer1", "me"),
                ("answer2", "x\r\ny"),
                ("answer3", "1"),
                ("answer4", "1"),
                ("answer5", "/etc/passwd"),
            ],
            [b"me", (b"x", b"y"), b"b\xff", True, None],
        ),
        ([("answer3", "7"), ("answer4", "0")], [b"", (), b"", False, None]),
        ([("answer3", "-1")], [b"", (), b"a", False, None]),
        ([("answer3", "٣")], [b"", (), b"a", False, None]),
    ],
)
def test_answers_from_fields_match_questions(fields: list[tuple[str, str]], answers: list[object]) -> None:
    assert answers_from(FORM, fields) == answers


def test_form_page_has_a_field_per_question() -> None:
    parsed = skeleton(rendered(form_page(FORM, URL, "KEPT")))
    assert [value for value in parsed.values if value.startswith("answer") and value in parsed.ids] == [
        *["answer1"] * 3,
        *["answer2"] * 3,
        *["answer3-0"] * 2,
        *["answer3-1"] * 2,
        *["answer4"] * 3,
    ]


# Media types that the web UI sends to a browser, by the first bytes of a document.

SIGNATURES = {
    "image/png": [b"\x89PNG\r\n\x1a\n"],
    "image/jpeg": [b"\xff\xd8\xff\xe0"],
    "image/gif": [b"GIF87a", b"GIF89a"],
    "image/webp": [b"RIFF\n\0\0\0WEBP"],
    "image/avif": [b"\0\0\0\x1cftypavif", b"\0\0\n\x1cftypavis"],
    "image/bmp": [b"BM\n\0\0\0\0\0\0\0"],
    "application/pdf": [b"%PDF-1.7"],
    "audio/ogg": [b"OggS"],
    "audio/flac": [b"fLaC"],
    "audio/mpeg": [b"ID3\x04", b"\xff\xfb\x90", b"\xff\xf3\x90", b"\xff\xf2\x90"],
    "audio/wav": [b"RIFF\n\0\0\0WAVE"],
    "video/mp4": [b"\0\0\0\x20ftypisom", b"\0\0\n\x20ftypmp42"],
    "video/webm": [b"\x1a\x45\xdf\xa3"],
}


@pytest.mark.parametrize(
    ("media_type", "octets"), [(each, octets) for each, found in SIGNATURES.items() for octets in found]
)
def test_media_type_of_signature_names_the_type(media_type: str, octets: bytes) -> None:
    assert detect_media_type(octets + b"...") == media_type
    is_picture = media_type.startswith("image/")
    assert media_type_of_picture(octets + b"...") == (media_type if is_picture else None)


@pytest.mark.parametrize(
    "octets", [b"", b"<!DOCTYPE html>", b" %PDF-", b"RIFF\0\0\0\0AVI ", b"GIF88a", b"\xff\xf1"]
)
def test_media_type_of_unknown_signature_is_none(octets: bytes) -> None:
    assert detect_media_type(octets) is None
