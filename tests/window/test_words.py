"""Untrusted text on pages of the web UI, in Chromium.

The text stays text, its links lead through the web UI, and misleading characters are shown escaped.
"""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from resolver.web.pages import page as render
from tests.resolver.web.pages.facts import PAGES
from tests.resolver.web.pages.skeleton import HOSTILE, rendered
from tests.sampled import sampled
from tests.window.browser import Viewer
from tests.window.said import FixedServer, gopher
from tests.window.served import Opened, Sent, Site
from tests.window.steps import enter, give_cookie, look, open_typed

#: Text for all fields: all hostile texts except the text that ends an attribute, and that text. A header with
#: both is not valid.
_TEXTS = tuple(
    text.encode("utf-8", "replace").decode()
    for text in (" ".join(each for each in HOSTILE if each != HOSTILE[1]), HOSTILE[1])
)
_RUNS = '"><script>window.pwned = 1</script>'

_PARTS = """() => {
  const all = [...document.querySelectorAll("*")];
  return [all.map(each => each.tagName).join(" "),
    all.flatMap(each => [...each.attributes]).filter(one => one.name.startsWith("on")).length,
    typeof window.pwned];
}"""


def parts(page: Page, name: str, text: str) -> list[object]:
    """Return the elements and handlers of a page of this text without a policy, and whether a script ran."""
    page.goto("about:blank")
    page.set_content(rendered(PAGES[name](text), text))
    found: list[object] = page.evaluate(_PARTS)
    return found


def test_page_in_chromium_has_no_markup_of_fields(viewer: Viewer) -> None:
    page = viewer.page()
    for name in sampled(PAGES, lambda name: None, 4):
        plain, *hostile = (parts(page, name, text) for text in ("x", *_TEXTS))
        assert (name, hostile) == (name, [plain, plain])
        assert plain[1:] == [0, "undefined"]


def test_page_without_escaping_runs_script(viewer: Viewer, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = render.environment().overlay(autoescape=False)
    monkeypatch.setattr(render, "environment", lambda: bare)
    page = viewer.page()
    names = ("directory", "menu", "article", "results", "look", "not found", "history")
    for name in sampled(names, lambda name: None, 3):
        assert parts(page, name, _RUNS)[2] == "number", name


_FILE = "file:///etc/passwd"
#: Untrusted link targets that no page may have.
_HARMFUL = (
    "javascript:window.pwned=1",
    "JaVaScRiPt:window.pwned=1",
    " javascript:window.pwned=1",
    "vbscript:window.pwned=1",
    "data:text/html,<script>window.pwned=1</script>",
    "blob:http://127.0.0.1/x",
    "view-source:http://127.0.0.1/",
    _FILE,
)
_MENU = "".join(f"hlink {number}\tURL:{url}\tx\t70\r\n" for number, url in enumerate(_HARMFUL))
_TEXT = "\r\n".join(f"see {url} or <URL:{url}> there" for url in _HARMFUL)
_HTML = "".join(f'<p><a href="{url}">link</a> <img src="{url}" alt="x"></p>' for url in _HARMFUL)
_LETTER = f"Subject: x\r\nFrom: {_HARMFUL[0]}\r\nContent-Type: text/plain\r\n\r\n{_TEXT}\r\n"


@pytest.fixture
def menu() -> Iterator[FixedServer]:
    with gopher(f"{_MENU}.\r\n".encode()) as found:
        yield found


def hrefs(page: Page) -> list[str]:
    found: list[str] = page.eval_on_selector_all(
        "[href], [src], [action], [formaction], [data]",
        """all => all.flatMap(each => ["href", "src", "action", "formaction", "data"]
          .map(name => each.getAttribute(name)).filter(each => each !== null))""",
    )
    return found


@pytest.mark.parametrize(
    "kind", sampled(["menu", "text", "HTML", "HTML source", "letter"], lambda kind: None)
)
def test_links_of_untrusted_pages_lead_to_the_web_ui(
    kind: str, viewer: Viewer, permissive: Opened, menu: FixedServer, untrusted: Site
) -> None:
    """The links lead to the web UI or the content port; local files and browser schemes are refused."""
    untrusted.pages |= {
        "/text": ("text/plain", _TEXT),
        "/HTML": ("text/html", _HTML),
        "/letter": ("message/rfc822", _LETTER),
    }
    page = viewer.page()
    open_typed(
        page, permissive, menu.url if kind == "menu" else f"{untrusted.origin}/{kind.partition(' ')[0]}"
    )
    if kind == "HTML source":
        page.get_by_role("link", name="source", exact=True).click()
        expect(page.get_by_role("main")).to_contain_text("<img src")
    found = hrefs(page)
    assert len(found) > 10
    own = [each for each in found if not each.startswith(("/", "#", f"{permissive.content}/d/"))]
    assert (own, [each for each in found if each.startswith("//")]) == ([], [])
    for each in dict.fromkeys(found):
        if each.startswith("/u/") and "http" not in each:
            answer = page.request.get(f"{permissive.origin}{each}").text()
            assert ('action="/open"' in answer, "root:" in answer) == (False, False), each
    assert page.evaluate("window.pwned") is None


def test_harmful_url_opened_directly_is_refused(viewer: Viewer, permissive: Opened) -> None:
    page = viewer.page()
    give_cookie(page, permissive)
    for url in sampled(_HARMFUL[:-1], lambda url: None, 3):
        page.goto(f"{permissive.origin}/u/{quote(url, safe='')}")
        expect(page.get_by_role("main")).to_be_visible()
        assert page.get_by_role("button", name="Open", exact=True).count() == 0
        assert page.evaluate("window.pwned") is None
        assert page.url.startswith(permissive.origin)


def test_link_followed_sends_no_browser_headers(
    viewer: Viewer, permissive: Opened, untrusted: Site, target: Site
) -> None:
    """The web UI sends the request: without a Referer, and without other headers of the browser."""
    untrusted.pages["/"] = ("text/plain", f"see <URL:{target.origin}/secret> there")
    page = viewer.page()
    open_typed(page, permissive, f"{untrusted.origin}/")
    page.get_by_role("link", name="/secret").click()
    expect(page.get_by_role("main")).to_contain_text("found")
    (said,) = target.said
    assert (said["Referer"], said["Cookie"], said["Origin"], said["Sec-Fetch-Site"]) == (None,) * 4
    assert "Mozilla" not in (said["User-Agent"] or "")


_MISLEADING = "\u202egpj.exe a\u200bb \u2066x\u2069 \x1b[31mred \x07 \ufeff\x9b2J"


def test_misleading_characters_are_shown_escaped(viewer: Viewer, window: Opened, untrusted: Site) -> None:
    item = f"0{_MISLEADING}\tsecret\tx\t70\r\ni{_MISLEADING}\tx\tx\t70\r\n3{_MISLEADING}\tx\tx\t70\r\n.\r\n"
    untrusted.pages["/text"] = Sent("text/plain; charset=utf-8", _MISLEADING)
    page = viewer.page()
    with gopher(item.encode()) as peer:
        for url in (peer.url, f"{untrusted.origin}/text"):
            open_typed(page, window, url)
            expect(page.get_by_role("main")).to_contain_text("\\u202egpj.exe a\\u200bb \\u2066x\\u2069")
            shown = page.evaluate("document.title + document.documentElement.outerHTML")
            assert not [each for each in "\u202e\u200b\u2066\u2069\x1b\x07\ufeff\x9b" if each in shown]
            loose = page.evaluate(
                """() => {
                  const main = document.querySelector("main");
                  const found = document.createTreeWalker(main, NodeFilter.SHOW_TEXT);
                  const texts = [];
                  while (found.nextNode()) texts.push(found.currentNode);
                  return texts.filter(each => each.data.includes("u202e") && !each.parentNode.closest("bdi"))
                    .map(each => each.data);
                }"""
            )
            assert loose == []


@pytest.mark.parametrize("way", sampled(["a menu", "a redirect", "a handler"], lambda way: None))
def test_local_file_linked_by_untrusted_page_is_refused(
    way: str, viewer: Viewer, window: Opened, untrusted: Site, menu: FixedServer
) -> None:
    page = viewer.page()
    give_cookie(page, window)
    where = f"{window.origin}/u/{quote(_FILE, safe='')}"
    if way == "a menu":
        open_typed(page, window, menu.url)
        expect(page.get_by_role("main")).to_contain_text("link of scheme 'file' is not allowed")
    elif way == "a redirect":
        untrusted.pages["/"] = Sent("text/plain", "", 302, {"Location": _FILE})
        open_typed(page, window, f"{untrusted.origin}/")
        expect(page.get_by_role("main")).to_contain_text("S10")
    else:  # The browser calls the address of the scheme handler, and any page can link to it.
        untrusted.pages["/"] = ("text/html", f'<!doctype html><title>x</title><a href="{where}">x</a>')
        page.goto(f"{untrusted.origin}/")
        page.get_by_role("link", name="x").click()
        expect(page.get_by_role("main")).to_contain_text("asked to open this")
        page.get_by_role("link", name="Preview").click()
        expect(page.get_by_role("main")).to_contain_text("S12")
    assert page.get_by_role("button", name="Open", exact=True).count() == 0
    assert "root:" not in page.content()


INNER = ("http://169.254.169.254/latest/", "http://[fe80::1]/", "gopher://10.0.0.1/1")


@pytest.mark.parametrize("inner", sampled(INNER, lambda inner: None))
def test_redirect_to_private_address_is_refused(
    inner: str, viewer: Viewer, window: Opened, untrusted: Site
) -> None:
    untrusted.pages["/"] = Sent("text/plain", "", 302, {"Location": inner})
    page = viewer.page()
    open_typed(page, window, f"{untrusted.origin}/")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Refused by the policy S")
    assert page.get_by_role("button", name="Open", exact=True).count() == 0


@pytest.mark.parametrize("octets", sampled(["%0D%0A", "%00", "%0AQUIT"], lambda octets: None))
def test_preview_marks_line_end_in_url(octets: str, viewer: Viewer, window: Opened, target: Site) -> None:
    page = viewer.page()
    enter(page, window)
    url = f"gopher://127.0.0.1:{target.port}/1x{octets}"
    look(page, url)
    expect(page.get_by_role("main")).to_contain_text("S02")
    carets = page.locator("pre", has_text="^").first.inner_text().splitlines()
    at = carets[-1].index("^")
    assert carets[0][at : at + 3] == octets[:3]
    assert page.get_by_role("button", name="Open", exact=True).count() == 0
    page.goto(f"{window.origin}/u/{quote(url, safe='')}")
    expect(page.get_by_role("main")).to_contain_text("S02")
    assert target.connections == 0


def test_path_with_other_host_stays_on_the_web_ui(viewer: Viewer, window: Opened, target: Site) -> None:
    page = viewer.page()
    give_cookie(page, window)
    elsewhere = f"evil.example:{target.port}"
    for path in (
        f"//{elsewhere}/secret",
        f"//{elsewhere}/%2e%2e",
        f"/\\{elsewhere}/",
        f"/help//{elsewhere}/",
    ):
        answer = page.goto(f"{window.origin}{path}")
        assert answer is not None
        assert (answer.status, answer.url.startswith(f"{window.origin}/")) == (404, True)
    for path in (f"/look?url=//{elsewhere}/", f"/enter?t=x&url=//{elsewhere}/", f"/u//{elsewhere}/secret"):
        page.goto(f"{window.origin}{path}")
        assert page.url.startswith(f"{window.origin}/")
    assert target.connections == 0
