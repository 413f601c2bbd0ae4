"""Untrusted documents on the content port: they run no code, send no request, and cannot leave or read pages.

Each rule that ensures this is removed once; then the same document succeeds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NamedTuple

import pytest
from playwright.sync_api import Download, Error, Frame, Page, expect

from resolver.web import headers
from resolver.web.pages import document
from tests.sampled import sampled
from tests.window.browser import Viewer
from tests.window.served import Opened, Sent, Site, served
from tests.window.steps import enter, give_cookie, open_typed

#: All elements that can run code, send requests, or leave the page. Elements to click have an id.
_HTML = """<html xmlns="http://www.w3.org/1999/xhtml"><head><title>theirs</title>
<link rel="stylesheet" href="SITE/css"/><link rel="prefetch" href="SITE/prefetch"/>
<link rel="preload" as="script" href="SITE/preload"/><link rel="modulepreload" href="SITE/module"/>
<link rel="icon" href="SITE/icon"/>
<style>@import url("SITE/import"); p { background: url("SITE/background") }</style>
<meta http-equiv="refresh" content="0;url=SITE/refresh"/></head>
<body onload="document.title = 'ran'"><p>words of a stranger</p>
<img src="SITE/img" alt=""/><object data="SITE/object"></object><embed src="SITE/embed"/>
<audio src="SITE/audio" autoplay=""></audio><video src="SITE/video" poster="SITE/poster"></video>
<iframe src="SITE/frame"></iframe><iframe srcdoc="&lt;img src='SITE/srcdoc'&gt;"></iframe>
<svg xmlns="http://www.w3.org/2000/svg"><image href="SITE/drawn"/></svg>
<script>
fetch("SITE/script"); parent.pwned = 1; top.location = "SITE/top"; window.open("SITE/window");
navigator.sendBeacon("SITE/beacon"); navigator.serviceWorker.register("/d/worker.js");
fetch(document.referrer);
</script><script type="module">import "SITE/import.js";</script><script src="SITE/script.js"></script>
<form action="SITE/form" method="post" target="_top"><button id="send">Send</button></form>
<a id="plain" href="SITE/plain" ping="SITE/ping">plain</a>
<a id="top" href="SITE/top" target="_top">top</a>
<a id="blank" href="SITE/blank" target="_blank">blank</a>
<a id="saved" href="SITE/saved" download="x">save</a>
</body></html>"""

_SVG = """<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"
onload="top.pwned=1">
<script>fetch("SITE/script"); parent.pwned = 1</script><style>@import url("SITE/import");</style>
<image href="SITE/img"/><use href="SITE/use#x"/><foreignObject><iframe xmlns="http://www.w3.org/1999/xhtml"
src="SITE/frame"/></foreignObject><text y="20">words of a stranger</text>
<a id="plain" xlink:href="SITE/plain"><text y="60">plain</text></a></svg>"""

_XML = """<?xml version="1.0"?><?xml-stylesheet type="text/xsl" href="SITE/sheet.xsl"?>
<!DOCTYPE words [<!ENTITY theirs SYSTEM "SITE/entity">]><words>words of a stranger</words>"""

_PDF = """%PDF-1.4
1 0 obj<</Type/Catalog/Pages 2 0 R/OpenAction<</S/URI/URI(SITE/action)>>>>endobj
2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj
3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]
/AA<</O<</S/JavaScript/JS(app.launchURL("SITE/js"))>>>>>>endobj
trailer<</Root 1 0 R>>"""


class Kind(NamedTuple):
    """A document, and the ids of the elements to click in it."""

    media_type: str
    text: str
    clicked: tuple[str, ...] = ()


_CLICKED = ("saved", "blank", "plain", "top", "send")
KINDS: Mapping[str, Kind] = {
    "HTML": Kind("text/html", f"<!doctype html>{_HTML}", _CLICKED),
    "XHTML": Kind("application/xhtml+xml", _HTML, _CLICKED),
    "SVG": Kind("image/svg+xml", _SVG, ("plain",)),
    "XML": Kind("text/xml", _XML),
    "PDF": Kind("application/pdf", _PDF),
}


def show_framed(page: Page, window: Opened, site: Site, kind: Kind) -> Frame:
    """Show the document in its frame, on the page about it."""
    site.pages["/theirs"] = (kind.media_type, kind.text.replace("SITE", site.origin))
    open_typed(page, window, f"{site.origin}/theirs")
    if kind.media_type != "application/pdf":
        page.get_by_role("link", name="as page", exact=True).click()
    framed = page.locator("iframe")
    expect(framed).to_have_attribute("title", "Content of the document")
    # With a `sandbox` attribute the browser has no PDF viewer.
    assert framed.get_attribute("sandbox") is None
    page.wait_for_load_state()
    handle = framed.element_handle()
    assert handle is not None
    frame = handle.content_frame()
    assert frame is not None
    return frame


def attempts(page: Page, frame: Frame, site: Site, kind: Kind) -> set[str]:
    """Click the elements of the document, and return all its requests to the site."""
    for name in kind.clicked:
        if frame.is_detached() or not frame.locator(f"#{name}").count():
            break  # The frame left the document.
        frame.locator(f"#{name}").click(no_wait_after=True)
    site.pages["/end"] = ("text/plain", "the end")
    other = page.context.new_page()
    other.goto(f"{site.origin}/end")  # All earlier requests arrive before this one.
    return {*site.asked} - {"GET /theirs", "GET /end", "GET /favicon.ico"}


@pytest.mark.parametrize("name", sampled(KINDS, lambda name: None))
def test_framed_document_has_no_effect(name: str, viewer: Viewer, window: Opened, untrusted: Site) -> None:
    page = viewer.page()
    downloads: list[Download] = []
    page.on("download", lambda begun: downloads.append(begun))
    frame = show_framed(page, window, untrusted, KINDS[name])
    there = page.url
    if name not in ("PDF", "XML"):  # Without its stylesheet the document shows nothing.
        expect(frame.locator(":root")).to_contain_text("words of a stranger")
        assert frame.evaluate("document.title") != "ran"
    assert attempts(page, frame, untrusted, KINDS[name]) == set()
    assert page.evaluate("window.pwned") is None
    assert (page.url, len(page.context.pages), downloads) == (there, 2, [])


@pytest.mark.parametrize("name", sampled(["HTML", "XHTML", "SVG"], lambda name: None))
def test_document_outside_frame_has_no_effect(
    name: str, viewer: Viewer, window: Opened, untrusted: Site
) -> None:
    """The header applies outside a frame as well."""
    kind = KINDS[name]
    page = viewer.page()
    give_cookie(page, window)
    octets = kind.text.replace("SITE", untrusted.origin).encode()
    page.goto(window.keep(octets, f"{kind.media_type}; charset=utf-8"))
    expect(page.locator(":root")).to_contain_text("words of a stranger")
    assert page.evaluate("window.origin") == "null"
    assert untrusted.asked == []
    assert page.title() != "ran"


def headers_without(
    headers_of: Callable[[str], Mapping[str, str]], *directives: str
) -> Callable[[str], dict[str, str]]:
    """Return the function of the headers without these directives of their policy."""

    def make(place: str) -> dict[str, str]:
        said = dict(headers_of(place))
        policy = said["content-security-policy"].split("; ")
        kept = [each for each in policy if each.partition(" ")[0] not in directives]
        assert len(policy) - len(kept) == len(directives)
        said["content-security-policy"] = "; ".join(kept)
        return said

    return make


def unsanitized(markup: str, is_xml: bool) -> str:
    """Replace the sanitizer, so that only the other rules restrain a document."""
    return markup


def test_document_without_sandbox_opens_window(
    viewer: Viewer, untrusted: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        headers, "make_content_headers", headers_without(headers.make_content_headers, "sandbox")
    )
    monkeypatch.setattr(document, "allowed_markup", unsanitized)
    with served() as bare:
        page = viewer.page()
        untrusted.pages["/blank"] = ("text/plain", "theirs")
        link = Kind("text/html", '<a id="blank" href="SITE/blank" target="_blank">x</a>')
        frame = show_framed(page, bare, untrusted, link)
        with page.context.expect_page() as left:
            frame.locator("#blank").click(no_wait_after=True)
        left.value.wait_for_url(f"{untrusted.origin}/blank")


def test_document_without_frame_policy_follows_link(
    viewer: Viewer, untrusted: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The document's own header does not restrict links within the frame."""
    monkeypatch.setattr(
        headers, "make_page_headers", headers_without(headers.make_page_headers, "frame-src", "default-src")
    )
    monkeypatch.setattr(document, "allowed_markup", unsanitized)
    with served() as bare:
        page = viewer.page()
        frame = show_framed(page, bare, untrusted, KINDS["HTML"])
        with page.expect_request(f"{untrusted.origin}/plain"):
            frame.locator("#plain").click(no_wait_after=True)


def test_document_without_policy_sends_requests(
    viewer: Viewer, untrusted: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(headers, "make_content_headers", lambda pages: {})
    with served() as bare:
        page = viewer.page()
        give_cookie(page, bare)
        with (
            page.expect_request(f"{untrusted.origin}/script"),
            page.expect_request(f"{untrusted.origin}/img"),
        ):
            page.goto(bare.keep(KINDS["SVG"].text.replace("SITE", untrusted.origin).encode(), headers.SVG))


#: Data that a script of a document could read. The script of the test driver runs where scripts of documents
#: do not.
_READING = """async other => {
  const tried = async what => { try { return await what(); } catch (error) { return error.name; } };
  return [
    await tried(() => fetch(other).then(answer => answer.text())),
    await tried(() => localStorage.length),
    await tried(() => document.cookie),
    await tried(() => indexedDB.open("x") && "opened"),
    await tried(() => navigator.serviceWorker.register("/d/worker.js")),
    await tried(() => parent.document.title),
    await tried(() => window.origin),
  ];
}"""


def test_document_reads_no_other_document_or_storage(viewer: Viewer, window: Opened) -> None:
    page = viewer.page()
    give_cookie(page, window)
    one, other = (window.keep(each, headers.HTML) for each in (b"<p>one</p>", b"<p>other</p>"))
    page.goto(one)
    read = page.evaluate(_READING, other)
    assert read[:4] == ["TypeError", "SecurityError", "SecurityError", "SecurityError"]
    assert read[4] in ("SecurityError", "TypeError")  # The document has no service worker container.
    assert read[6] == "null"


def test_document_without_sandbox_reads_another(viewer: Viewer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        headers,
        "make_content_headers",
        headers_without(headers.make_content_headers, "sandbox", "default-src"),
    )
    with served() as bare:
        page = viewer.page()
        give_cookie(page, bare)
        one, other = (bare.keep(each, headers.HTML) for each in (b"<p>one</p>", b"<p>other</p>"))
        page.goto(one)
        assert page.evaluate(_READING, other)[:3] == ["<p>other</p>", 0, ""]


def test_page_cannot_register_worker(viewer: Viewer, window: Opened) -> None:
    page = viewer.page()
    enter(page, window)
    why = page.evaluate("navigator.serviceWorker.register('/static/window.js').catch(error => error.name)")
    assert why == "SecurityError"


#: Media types that a server may declare for a page with a script, and the page.
_RUNS = b"<!doctype html><title>x</title><script>document.title = 'ran'</script><p>theirs</p>"
SNIFFED: Mapping[str, tuple[str, bytes]] = {
    "no type": ("", _RUNS),
    "no slash": ("html", _RUNS),
    "unknown": ("unknown/unknown", _RUNS),
    "text": ("text/plain", _RUNS),
    "text with controls": ("text/plain", b"\x00\x01" + _RUNS),
    "octets": ("application/octet-stream", _RUNS),
    "of nobody": ("application/x-foo", _RUNS),
    "text of nobody": ("text/foo", _RUNS),
    "table": ("text/csv", _RUNS),
    "letter": ("message/rfc822", b"Subject: x\r\nContent-Type: text/html\r\n\r\n" + _RUNS),
    "parts that take turns": (
        "multipart/x-mixed-replace; boundary=B",
        b"--B\r\nContent-Type: text/html\r\n\r\n" + _RUNS + b"\r\n--B--\r\n",
    ),
    "picture": ("image/png", _RUNS),
    "UTF-7": ("text/html; charset=utf-7", b"+ADw-script+AD4-document.title='ran'+ADw-/script+AD4-"),
    "page": ("text/html", _RUNS),
}


@pytest.mark.parametrize("name", sampled(SNIFFED, lambda name: None))
def test_document_of_any_media_type_runs_no_script(
    name: str, viewer: Viewer, window: Opened, untrusted: Site
) -> None:
    """No page, frame or document runs the script."""
    media_type, octets = SNIFFED[name]
    untrusted.pages["/theirs"] = Sent(media_type, octets.decode("latin-1").encode("latin-1"))
    page = viewer.page()
    open_typed(page, window, f"{untrusted.origin}/theirs")
    page.wait_for_load_state()
    assert page.title() != "ran"
    places = page.eval_on_selector_all(
        "[href], [src]",
        "(all, origin) => all.map(each => each.href || each.src).filter(at => at.startsWith(origin))",
        window.content,
    )
    for view in page.get_by_role("link", name="as page", exact=True).all():
        view.click()
        page.wait_for_load_state()
        places += [each.get_attribute("src") for each in page.locator("iframe").all()]
        assert "ran" not in [frame.title() for frame in page.frames]
    other = page.context.new_page()
    for place in places:
        with suppress(Error):  # A download shows no page.
            other.goto(place)
        assert (place, other.title()) != (place, "ran")
