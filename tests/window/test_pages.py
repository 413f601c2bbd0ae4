"""Every kind of page, as people see it: narrow and wide, dark and light, forced colours, without script."""

from __future__ import annotations

from typing import Literal

import pytest
from playwright.sync_api import Page, expect

from tests.cli.places import Places
from tests.window.browser import Look, Viewer, barriers, overflow
from tests.window.served import Opened
from tests.window.steps import enter, look, open_

#: By what it shows: a URL, and words that stand on its page.
KINDS = {
    "directory of ftp": ("{ftp}/pub/", "a.txt"),
    "directory of this machine": ("{local}/", "a.txt"),
    "menu": ("{gopher}/", "About"),
    "text": ("{gopher}/00/about", "A text of two lines."),
    "document": ("{http}/about.txt", "A text of two lines."),
    "group": ("{nntp}/comp.misc", "Grüße"),
    "article": ("{nntp}/comp.misc/1235", "A Poster"),
    "results": ("{wais}/demo?ferry", "Quay notes"),
    "prospero": ("{prospero}//example", "hello.txt"),
    "service": ("telnet://guest@bbs.example/", "resolve open"),
    "mail": ("mailto:joe@h.example?subject=hi", "joe@h.example"),
    "error": ("{ftp}/nothing", "550"),
}


def check(page: Page) -> None:
    """At both widths, in each colouring."""
    assert barriers(page) == []
    page.emulate_media(color_scheme="dark")
    assert barriers(page) == []
    page.emulate_media(color_scheme="light", forced_colors="active")
    assert barriers(page) == []
    page.emulate_media(forced_colors="none")
    assert overflow(page) <= 0
    page.set_viewport_size({"width": 320, "height": 900})
    assert overflow(page) <= 0
    assert barriers(page) == []


@pytest.mark.parametrize("kind", KINDS)
def test_everybody_can_read_it(kind: str, viewer: Viewer, window: Opened, places: Places) -> None:
    url, words = KINDS[kind]
    page = viewer.page()
    complaints: list[str] = []
    enter(page, window)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda said: complaints.append(said.text) if "status of" not in said.text else None)
    open_(page, url.format_map(places))
    expect(page.get_by_role("main")).to_contain_text(words)
    expect(page.get_by_role("heading", level=1)).to_have_count(1)
    check(page)
    assert complaints == []


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_the_same_without_script(kind: str, viewer: Viewer, window: Opened, places: Places) -> None:
    url, words = KINDS[kind]
    page = viewer.page(Look(320, "dark", script=False))
    enter(page, window)
    open_(page, url.format_map(places))
    expect(page.get_by_role("main")).to_contain_text(words)
    assert overflow(page) <= 0


def test_the_first_page_can_be_read_by_everybody(viewer: Viewer, window: Opened) -> None:
    page = viewer.page()
    enter(page, window)
    check(page)


def test_what_is_known_before_anything_is_sent(viewer: Viewer, window: Opened) -> None:
    page = viewer.page()
    enter(page, window)
    look(page, "gopher://h.example:25/1x%0D%0A")
    expect(page.get_by_role("main")).to_contain_text("S04")
    expect(page.get_by_role("button", name="Open", exact=True)).to_have_count(0)
    check(page)


def test_the_dialogue_stands_beside_the_page(viewer: Viewer, window: Opened, places: Places) -> None:
    page = viewer.page()
    enter(page, window)
    open_(page, f"{places['ftp']}/pub/")
    page.locator("aside summary").first.click()
    expect(page.locator("aside svg[role=img]")).to_have_count(2)
    expect(page.locator("aside svg").first).to_contain_text("USER anonymous")
    check(page)
    for name, begins in (("the diagram (SVG)", "<?xml"), ("its data (JSON)", "{")):
        with page.expect_download() as waiting:
            page.get_by_role("link", name=name).click()
        saved = waiting.value
        assert saved.suggested_filename.startswith("dialogue.")
        assert saved.path().read_text("utf-8").startswith(begins)


def test_it_is_used_with_the_keyboard_alone(viewer: Viewer, window: Opened, places: Places) -> None:
    """First past what repeats; then everything that can be used, each with an outline; Enter goes there."""
    page = viewer.page()
    enter(page, window)
    open_(page, f"{places['gopher']}/")
    wanted = page.evaluate(
        """() => [...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, summary")]
          .filter(each => each.checkVisibility()).length"""
    )
    reached = []
    page.evaluate("document.activeElement.blur()")
    for _ in range(wanted):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate(
                """() => {
                  const each = document.activeElement;
                  each.dataset.reached = "yes";
                  return [each.textContent.trim(), getComputedStyle(each).outlineStyle];
                }"""
            )
        )
    assert reached[0][0] == "To the content"
    assert all(outline != "none" for _, outline in reached)
    missed = page.evaluate(
        """() => [...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, summary")]
          .filter(each => each.checkVisibility() && !each.dataset.reached).map(each => each.outerHTML)"""
    )
    assert missed == []
    here = page.url
    page.get_by_role("link", name="About", exact=True).focus()
    page.keyboard.press("Enter")
    expect(page).not_to_have_url(here)
    expect(page.get_by_role("main")).to_contain_text("about")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", ["menu", "article", "results"])
def test_it_can_be_printed(
    kind: str, scheme: Literal["light", "dark"], viewer: Viewer, window: Opened, places: Places
) -> None:
    """Dark on white, whatever the screen has; without what only a screen can use; with the dialogue if it was
    opened."""
    url, words = KINDS[kind]
    page = viewer.page(Look(700, scheme))
    enter(page, window)
    open_(page, url.format_map(places))
    page.emulate_media(media="print", color_scheme=scheme)
    expect(page.get_by_role("main")).to_contain_text(words)
    assert barriers(page) == []
    assert overflow(page) <= 0
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    expect(page.get_by_role("button")).to_have_count(0)
    expect(page.locator("aside")).to_be_hidden()
    page.emulate_media(media="screen")
    page.locator("aside summary").first.click()
    page.emulate_media(media="print")
    expect(page.locator("aside svg").first).to_be_visible()
