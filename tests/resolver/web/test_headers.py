"""Response headers of pages and documents: the same for every request, method and media type."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from html import unescape
from typing import NamedTuple
from urllib.parse import quote

import pytest
import trio

from fixtures.http.server import serve
from fixtures.http.site import Page
from resolver.web import headers
from resolver.web.pages.text import detect_media_type
from resolver.web.session import ContentDocument
from tests.resolver.web.client import Answer, Browser, exchange, running

ON_PAGES = (
    "content-security-policy",
    "x-content-type-options",
    "cache-control",
    "x-frame-options",
    "cross-origin-opener-policy",
    "cross-origin-resource-policy",
)


def assert_guarded(answer: Answer) -> None:
    for name in ON_PAGES:
        assert answer.header(name) is not None, name
    policy = (answer.header("content-security-policy") or "").split("; ")
    assert {"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"} < {
        *policy
    }
    assert "unsafe" not in " ".join(policy)
    assert answer.header("x-content-type-options") == "nosniff"
    assert answer.header("access-control-allow-origin") is None
    assert answer.header("server") is None


async def ask_all(browser: Browser) -> list[Answer]:
    """Return pages, refusals, errors, and the responses of the HTTP server itself."""
    elsewhere = {"Sec-Fetch-Site": "cross-site"}
    return [
        await browser.ask("/"),
        await browser.ask("/nothing"),
        await browser.ask("/static/window.css"),
        await browser.ask("/look?url=x"),
        await browser.ask("/u/x", elsewhere),
        await browser.ask("/", {**elsewhere, "Sec-Fetch-Mode": "cors"}),
        await browser.ask("/", {"Host": "evil.example"}),
        await browser.ask("/", {"Cookie": ""}),
        await browser.post("/open", {}),
        await browser.ask("/", method="PUT"),
        await browser.ask("/enter?t=x"),
        await browser.ask("/", {"Host": ""}),
        # The head is incomplete and just too long, so the server reads all of it before it closes.
        await exchange(browser.server.site.port, b"GET /" + b"x" * 262_144),
    ]


async def test_page_responses_have_security_headers() -> None:
    async with running() as (browser, _):
        answers = await ask_all(browser)
    assert [reply.status for reply in answers[-2:]] == [400, 431]
    for answer in answers:
        assert_guarded(answer)
    referrers = {reply.header("referrer-policy") for reply in answers[:-2]}
    assert referrers == {"same-origin", "no-referrer"}
    closed = {reply.status for reply in answers if reply.header("connection") == "close"}
    assert {403, 421} <= closed


@pytest.mark.parametrize("name", ["x-content-type-options", "content-security-policy"])
async def test_assert_guarded_without_a_header_fails(name: str) -> None:
    async with running(without=frozenset({name})) as (browser, _):
        with pytest.raises(AssertionError):
            assert_guarded(await browser.ask("/"))


async def test_content_response_is_sandboxed_attachment() -> None:
    async with running() as (browser, _):
        document = ContentDocument(b"<script>x</script>", headers.OCTETS, 'a".html', inline=False)
        place = int(browser.server.content.rpartition(":")[2])
        document_id = browser.server.session.store_document(document)
        answer = await browser.ask(f"/d/{document_id}/a.html", port=place)
        assert (answer.status, answer.body) == (200, document.content)
        policy = (answer.header("content-security-policy") or "").split("; ")
        assert {"sandbox", "default-src 'none'", f"frame-ancestors {browser.server.site.origin}"} < {*policy}
        assert (
            answer.header("content-disposition")
            == "attachment; filename=\"a_.html\"; filename*=UTF-8''a_.html"
        )
        assert (answer.header("x-content-type-options"), answer.header("referrer-policy")) == (
            "nosniff",
            "no-referrer",
        )
        for target in ("/", "/d/", "/d/x/a.html", f"/e/{document_id}", f"/D/{document_id}"):
            none = await browser.ask(target, port=place)
            assert (none.status, none.body) == (404, b"")
        assert (await browser.ask(f"/d/{document_id}", method="POST", port=place)).status == 404
        for name in ("evil.example", f"localhost:{place}", browser.server.site.authority):
            assert (await browser.ask(f"/d/{document_id}", {"Host": name}, port=place)).status == 404


@pytest.mark.parametrize(
    ("name", "plain", "whole"),
    [
        ("a.txt", "a.txt", "a.txt"),
        ("é☃.txt", "__.txt", "%C3%A9%E2%98%83.txt"),
        ("../../etc/passwd", "passwd", "passwd"),
        ('x"; evil="1', "x__ evil=_1", "x_%3B%20evil%3D_1"),
        ("a\r\nSet-Cookie: x=1", "a__Set-Cookie_ x=1", "a__Set-Cookie_%20x%3D1"),
        ("50%41.txt", "50_41.txt", "50%2541.txt"),
        (".bashrc", "_bashrc", "_bashrc"),
        ("\u202egpj.exe", "_gpj.exe", "_gpj.exe"),
        ("..", "document", "document"),
    ],
)
def test_disposition_escapes_both_forms_of_name(name: str, plain: str, whole: str) -> None:
    value = headers.make_disposition(name, inline=True)
    assert value == f"inline; filename=\"{plain}\"; filename*=UTF-8''{whole}".replace("x__ evil", "x_; evil")


def test_disposition_truncates_long_name() -> None:
    value = headers.make_disposition("☃" * 300, inline=False)
    assert len(value) < 900


@pytest.mark.parametrize("text", ["a\r\nb", "a\nb", "\x00", "☃", "\ud800", "\x7f", "é"])
def test_field_value_is_printable_ascii(text: str) -> None:
    _, value = headers.make_field("x", text)
    assert all(0x20 <= octet <= 0x7E for octet in value)
    assert value


# The media type that a server declares, and the type sent to the browser. The declared type selects a row of
# our table and is never repeated. An unknown type is sent as bytes to be saved. Only the first bytes make a
# document a picture or a PDF.

RUNS = b"<!doctype html><title>x</title><script>x</script><p>theirs</p>"
LETTER = b"Subject: x\r\nContent-Type: text/html\r\n\r\n" + RUNS
PARTS = b"--B\r\n" + LETTER + b"\r\n--B--\r\n"
PNG = b"\x89PNG\r\n\x1a\n" + RUNS

SAVED = headers.OCTETS
HTML = "text/html; charset=utf-8"


class Row(NamedTuple):
    """A response of a server, and the expected presentation.

    `as_text`: the page shows it as text. `shown`: the media type for display on the content port.
    """

    said: str | None
    octets: bytes
    as_text: bool
    shown: str | None = None


ROWS: Mapping[str, Row] = {
    "nothing": Row(None, RUNS, True, HTML),
    "no slash": Row("html", RUNS, True, HTML),  # A value without a slash is not a media type.
    "unknown": Row("unknown/unknown", RUNS, False),
    "text": Row("text/plain", RUNS, True),
    "text with controls": Row("text/plain", b"\x00\x01\x08" + RUNS, True),
    "text in a charset that hides": Row("text/plain; charset=utf-7", RUNS, True),
    "octets that are text": Row("application/octet-stream", RUNS, True),
    "octets": Row("application/octet-stream", b"\x00\x01\x08" + RUNS, False),
    "of nobody": Row("application/x-foo", RUNS, False),
    "table": Row("text/csv", RUNS, True),
    "text of nobody": Row("text/foo", RUNS, True),
    "script": Row("application/javascript", RUNS, False),
    "letter": Row("message/rfc822", LETTER, False),
    "parts that take turns": Row("multipart/x-mixed-replace; boundary=B", PARTS, False),
    "no picture": Row("image/png", RUNS, False),
    "picture": Row("image/png", PNG, False, "image/png"),
    "picture called a page": Row("text/html", PNG, False, "image/png"),
    "no PDF": Row("application/pdf", RUNS, False),
    "PDF called text": Row("text/plain", b"%PDF-1.4" + RUNS, False, "application/pdf"),
    "page": Row("text/html", RUNS, True, HTML),
    "page in a charset that hides": Row("text/html; charset=utf-7", RUNS, True, HTML),
    "XHTML": Row("application/xhtml+xml", RUNS, True, HTML),
    "drawing": Row("image/svg+xml", RUNS, True, HTML),
    "XML": Row("text/xml", RUNS, True, HTML),
    "a line of its own": Row("text/html;\tx=\xe9☃", RUNS, True, HTML),
}


async def documents(browser: Browser, page: Answer) -> list[Answer]:
    """Return every document on the content port that the page links, also from its author's view."""
    texts = [page.text]
    if (view := re.search(r'href="(/u/[^"]*[?;]view=page[^"]*)"', page.text)) is not None:
        texts.append((await browser.ask(unescape(view[1]))).text)
    place = browser.server.content
    paths = dict.fromkeys(re.findall(f'{place}(/d/[^"]+)"', "".join(texts)))
    return [await browser.ask(path, port=int(place.rpartition(":")[2])) for path in paths]


def is_guarded(answer: Answer) -> bool:
    policy = answer.header("content-security-policy") or ""
    return policy.startswith("sandbox; default-src 'none';") and (
        answer.header("x-content-type-options"),
        answer.header("cache-control"),
        answer.header("referrer-policy"),
    ) == ("nosniff", "no-store", "no-referrer")


async def test_content_response_has_media_type_of_own_table(nursery: trio.Nursery) -> None:
    pages = {
        f"/{quote(name)}": Page(row.octets, None if row.said is None else row.said.encode().decode("latin-1"))
        for name, row in ROWS.items()
    }
    server = await serve(nursery, pages)
    async with running() as (browser, log):
        for name, row in ROWS.items():
            page = await browser.typed(f"http://127.0.0.1:{server.port}/{quote(name)}")
            assert (name, page.status, page.header("content-type")) == (name, 200, headers.HTML)
            assert (name, '<pre class="text">' in page.text) == (name, row.as_text)
            answers = await documents(browser, page)
            media_types = {
                (
                    answer.header("content-type"),
                    (answer.header("content-disposition") or "").partition(";")[0],
                )
                for answer in answers
            }
            shown = set() if row.shown is None else {(row.shown, "inline")}
            assert (name, media_types) == (name, {(SAVED, "attachment"), *shown})
            assert all(map(is_guarded, answers)), name
            shown_octets = [answer.body for answer in answers if answer.header("content-type") == HTML]
            assert b"<script" not in b"".join(shown_octets), name
            assert b"<script" not in page.body.replace(b'<script src="/static/window.js"', b""), name
        assert log == []


async def test_content_response_without_nosniff_is_not_guarded() -> None:
    async with running(without=frozenset({"x-content-type-options"})) as (browser, _):
        document = browser.server.session.store_document(
            ContentDocument(RUNS, headers.TEXT, "x", inline=True)
        )
        place = int(browser.server.content.rpartition(":")[2])
        assert not is_guarded(await browser.ask(f"/d/{document}/x", port=place))


def names_of_types() -> Iterator[str]:
    yield from (getattr(headers, name) for name in ("TEXT", "HTML", "SHEET", "SCRIPT", "SVG"))
    yield from (row.shown for row in ROWS.values() if row.shown is not None)


@pytest.mark.parametrize("name", sorted(set(names_of_types())))
def test_media_type_of_text_has_charset(name: str) -> None:
    """Without a charset, browsers decode UTF-8 as windows-1252, or guess."""
    is_text = name.startswith("text/") or "xml" in name
    assert ("; charset=utf-8" in name) == is_text


@pytest.mark.parametrize(
    ("octets", "media_type"),
    [
        (b"GIF89a", "image/gif"),
        (b"GIF88a", None),
        (b" \x89PNG\r\n\x1a\n", None),
        (b"<svg xmlns", None),
        (b"<!doctype html>GIF89a", None),
        (b"\x00GIF89a", None),
        (b"", None),
    ],
)
def test_media_type_of_picture_depends_on_first_bytes(octets: bytes, media_type: str | None) -> None:
    assert detect_media_type(octets) == media_type


#: File name sent by a server -> name in Content-Disposition. Chromium changes all these names when it saves.
NAMES: Mapping[str, str] = {
    "con.txt": "_con.txt",
    "nul": "_nul",
    "COM1": "_COM1",
    "-rf": "_rf",
    "a.html.zip": "a.html.zip",
    "x" * 300: "x" * 200,
    "a ": "a_",
    "a.": "a_",
    "a:b*c?": "a_b_c_",
    "..\\a": "a",
    "a/": "document",
    ".": "document",
    "a\u202egpj.exe": "a_gpj.exe",
}


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_disposition_name_is_valid_on_all_systems(name: str) -> None:
    saved = NAMES[name]
    assert headers.make_disposition(name, inline=False) == (
        f"attachment; filename=\"{saved}\"; filename*=UTF-8''{quote(saved, safe='')}"
    )


RISKY = tuple("desktop lnk url scf hta jar exe msi bat cmd ps1 sh app html htm svg xhtml mht".split())  # noqa: SIM905


async def test_page_of_executable_name_has_warning(nursery: trio.Nursery) -> None:
    names = [*(f"a.{extension}" for extension in RISKY), "A.LNK", "a.txt", "a.html.zip"]
    server = await serve(nursery, {f"/{name}": Page(b"words\n") for name in names})
    async with running() as (browser, _):
        for name in names:
            page = await browser.typed(f"http://127.0.0.1:{server.port}/{name}")
            assert (name, "A program that opens a file with this name may run it" in page.text) == (
                name,
                name not in ("a.txt", "a.html.zip"),
            )
