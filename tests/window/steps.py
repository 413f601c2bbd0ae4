"""What a person does with our pages."""

from __future__ import annotations

import re
from urllib.parse import quote

from playwright.sync_api import Page, expect

from tests.window.served import Opened


def enter(page: Page, window: Opened) -> None:
    """Our first page, for a browser that has entered; who has just come in is there."""
    let_in(page, window)
    if page.url != f"{window.origin}/":
        page.goto(f"{window.origin}/")


def let_in(page: Page, window: Opened) -> None:
    """The first browser comes by the way in, another one with what that was given."""
    if window.cookies:
        page.context.add_cookies(window.cookies)
    else:
        come_in(page, window)


def come_in(page: Page, window: Opened) -> None:
    page.goto(window.entry())
    page.wait_for_url(f"{window.origin}/")
    window.cookies = page.context.cookies()


def look(page: Page, url: str) -> None:
    """Typed into the address bar."""
    page.get_by_role("textbox", name="Address", exact=True).fill(url)
    page.get_by_role("button", name="Preview", exact=True).click()
    page.wait_for_url(re.compile(r"/look\?"))
    expect(page.get_by_role("textbox", name="Address", exact=True)).to_have_value(url)


def open_(page: Page, url: str) -> None:
    """From a page of ours on."""
    look(page, url)
    _open(page)


def open_at_once(page: Page, window: Opened, url: str) -> None:
    """The same for a browser that has entered, without the keys: the address that the bar leads to, asked for
    by a page of ours, is what a person typed."""
    enter(page, window)
    with page.expect_navigation(url=re.compile(r"/look\?")):
        page.evaluate("at => { location = at }", f"/look?url={quote(url, safe='')}")
    _open(page)


def _open(page: Page) -> None:
    page.get_by_role("button", name="Open", exact=True).click()
    page.wait_for_url("**/u/**")
