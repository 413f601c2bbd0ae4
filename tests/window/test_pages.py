"""Every kind of page in Chromium: narrow and wide, dark and light, forced colors, without script, printed.

Also here: the protocol exchange beside a page, the keyboard, a Gopher+ form and a login.
"""

from __future__ import annotations

import re
from itertools import product
from typing import Literal
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from resolver import Policy, Settings
from tests.resolver.cli.places import Places
from tests.sampled import FULL, sampled
from tests.window.browser import Look, Viewer, overflow, violations
from tests.window.conftest import PopulatedServer
from tests.window.keys import press, tab_faults
from tests.window.kinds import KINDS, family, visit
from tests.window.served import Opened, Site, served
from tests.window.steps import enter, look, open_, open_typed

#: Console messages of the browser itself: about an error status, and from its PDF viewer.
OTHERS = re.compile("status of|Failed to execute 'postMessage'|^Assertion failed$")


def check(page: Page) -> None:
    """Check accessibility and width at both widths, in each of the color modes that differ."""
    assert violations(page) == []
    assert overflow(page) <= 0
    page.emulate_media(color_scheme="dark")
    assert violations(page) == []
    page.set_viewport_size({"width": 320, "height": 900})
    page.emulate_media(color_scheme="light", forced_colors="active")
    assert overflow(page) <= 0
    assert violations(page) == []
    page.emulate_media(forced_colors="none")


def every_other_family(half: int) -> list[str]:
    """Choose one kind of every other family, beginning with the first or the second family."""
    families = list(dict.fromkeys(map(family, KINDS)))[half::2]
    kinds = [kind for kind in KINDS if FULL or family(kind) in families]
    return sampled(kinds, family)


#: One kind of each family, with script or without.
TRIED = every_other_family(0)
TRIED_PLAIN = every_other_family(1)


@pytest.mark.parametrize("kind", TRIED)
def test_page_is_accessible(kind: str, viewer: Viewer, populated: PopulatedServer) -> None:
    """A browser with script is used, by keyboard and by other input."""
    page = viewer.page(storage_state=populated.state)
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda said: complaints.append(said.text))
    visit(page, populated.window, populated.places, kind)
    expect(page.get_by_role("heading", level=1)).to_have_count(1)
    assert tab_faults(page) == []
    check(page)
    assert [said for said in complaints if not OTHERS.search(said)] == []


@pytest.mark.parametrize("kind", TRIED_PLAIN)
def test_page_without_script_is_usable(kind: str, viewer: Viewer, populated: PopulatedServer) -> None:
    """Without script axe cannot run."""
    page = viewer.page(Look(320, "dark", script=False), storage_state=populated.state)
    visit(page, populated.window, populated.places, kind)
    expect(page.get_by_role("heading", level=1)).to_have_count(1)
    assert tab_faults(page) == []
    assert overflow(page) <= 0
    page.set_viewport_size({"width": 1600, "height": 900})
    assert overflow(page) <= 0


def test_first_page_is_accessible(viewer: Viewer, window: Opened) -> None:
    page = viewer.page()
    enter(page, window)
    check(page)


@pytest.mark.parametrize("scheme", sampled(["light", "dark"], lambda scheme: None))
def test_question_page_with_long_url_is_accessible(
    scheme: Literal["light", "dark"], viewer: Viewer, populated: PopulatedServer, untrusted: Site
) -> None:
    """The address is longer than the viewport is wide."""
    there = f"{populated.window.origin}/u/gopher%3A%2F%2Fh.example%2F1{'W' * 500}"
    untrusted.pages["/"] = ("text/html", f'<!doctype html><title>x</title><a href="{there}">x</a>')
    page = viewer.page(Look(320, scheme), storage_state=populated.state)
    page.goto(f"{untrusted.origin}/")
    page.get_by_role("link", name="x").click()
    expect(page.get_by_role("main")).to_contain_text("asked to open this")
    assert overflow(page) <= 0
    assert tab_faults(page) == []
    assert violations(page) == []


def test_preview_of_refused_url_is_accessible(viewer: Viewer, window: Opened) -> None:
    page = viewer.page()
    enter(page, window)
    look(page, "gopher://h.example:25/1x%0D%0A")
    expect(page.get_by_role("main")).to_contain_text("S04")
    expect(page.get_by_role("button", name="Open", exact=True)).to_have_count(0)
    check(page)


def test_page_has_exchange_beside_it(viewer: Viewer, window: Opened, places: Places) -> None:
    page = viewer.page()
    enter(page, window)
    open_(page, f"{places['ftp']}/pub/")
    page.locator("aside summary").first.click()
    expect(page.locator("aside svg[role=img]")).to_have_count(2)
    expect(page.locator("aside svg").first).to_contain_text("USER anonymous")
    check(page)
    for name, begins in (("diagram (SVG)", "<?xml"), ("data (JSON)", "{")):
        with page.expect_download() as waiting:
            page.get_by_role("link", name=name).click()
        saved = waiting.value
        assert saved.suggested_filename.startswith("dialogue.")
        assert saved.path().read_text("utf-8").startswith(begins)


@pytest.mark.parametrize("script", sampled([True, False], lambda script: None))
def test_pages_work_with_keyboard_only(script: bool, viewer: Viewer, populated: PopulatedServer) -> None:
    """The keyboard leads from the address bar to a file three pages further."""
    page = viewer.page(Look(script=script), storage_state=populated.state)
    page.goto(f"{populated.window.origin}/")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.type(f"{populated.places['gopher']}/")
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="About", exact=True)).to_be_visible()
    press(page, "About")
    expect(page.get_by_role("main")).to_contain_text("A text of two lines.")
    press(page, "Protocol exchange the messages on the wire")
    expect(page.locator("aside svg").first).to_be_visible()
    press(page, "help")
    expect(page.get_by_role("heading", name="Help")).to_be_visible()


SHEETS = sampled(product(["menu", "article", "results"], ["light", "dark"]), lambda sheet: None)


@pytest.mark.parametrize(("kind", "scheme"), SHEETS)
def test_page_prints_dark_on_white(
    kind: str, scheme: Literal["light", "dark"], viewer: Viewer, populated: PopulatedServer
) -> None:
    """The print is dark on white and omits controls; the exchange is printed if it is open."""
    page = viewer.page(Look(700, scheme), storage_state=populated.state)
    visit(page, populated.window, populated.places, kind)
    page.emulate_media(media="print", color_scheme=scheme)
    expect(page.get_by_role("main")).to_contain_text(KINDS[kind].words)
    assert violations(page) == []
    assert overflow(page) <= 0
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    expect(page.get_by_role("button")).to_have_count(0)
    expect(page.locator("aside")).to_be_hidden()
    page.emulate_media(media="screen")
    page.locator("aside summary").first.click()
    page.emulate_media(media="print")
    expect(page.locator("aside svg").first).to_be_visible()


# Gopher+ forms


def test_form_answer_has_exchange_beside_it(viewer: Viewer, places: Places) -> None:
    port = urlsplit(places["gopher"]).port
    assert port is not None
    with served(settings=Settings(policy=Policy(allow_port=frozenset({port})))) as window:
        page = viewer.page()
        open_typed(page, window, f"{places['gopher']}/00/poll%09%09?")
        page.get_by_role("main").get_by_role("button", name="Fill in the form").click()
        expect(page.get_by_role("main")).to_contain_text("What is your name?")
        page.locator("input[type=password]").fill("speak friend")
        page.get_by_role("button", name="Preview the data").click()
        page.get_by_role("button", name="Send", exact=True).click()
        expect(page.get_by_role("main")).to_contain_text("Thank you.")
        page.locator("aside summary").first.click()
        dialogue = page.locator("aside svg[role=img]").first
        expect(dialogue).to_contain_text("0/poll")
        expect(dialogue).not_to_contain_text("friend")
        assert violations(page) == []
        assert overflow(page) <= 0


# A login form: a wrong password, the right password, and the login forgotten


def test_login_is_given_and_forgotten(viewer: Viewer, places: Places) -> None:
    url = places["ftp"].replace("ftp://", "ftp://bob@") + "/%2Fpub/a.txt"
    with served() as window:
        page = viewer.page(Look(320))
        open_typed(page, window, url)
        for password in ("wrong", "secret pw"):
            expect(page.get_by_role("heading", name="Log in")).to_be_visible()
            assert violations(page) == []
            assert overflow(page) <= 0
            expect(page.get_by_label("User name", exact=True)).to_have_value("bob")
            expect(page.get_by_label("Password", exact=True)).to_have_value("")
            page.get_by_label("Password", exact=True).fill(password)
            with page.expect_navigation():
                page.get_by_role("button", name="Log in and open").click()
            assert password not in page.content()
        expect(page.get_by_role("heading", name="Log in")).to_have_count(0)
        expect(page.get_by_role("main")).to_contain_text("sha256")
        assert "secret" not in page.url
        page.get_by_role("link", name="settings", exact=True).click()
        forget = page.get_by_role("button", name="forget ftp://")
        expect(forget).to_have_count(1)
        assert violations(page) == []
        forget.click()
        expect(forget).to_have_count(0)
        open_(page, url)
        expect(page.get_by_role("heading", name="Log in")).to_be_visible()
