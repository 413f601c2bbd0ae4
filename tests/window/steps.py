"""Steps that a user takes on pages of the web UI."""

from __future__ import annotations

import re
from urllib.parse import quote

from playwright.sync_api import Page, expect

from tests.window.served import Opened


def enter(page: Page, window: Opened) -> None:
    """Open the first page, in a browser with the session cookie."""
    give_cookie(page, window)
    if page.url != f"{window.origin}/":
        page.goto(f"{window.origin}/")


def give_cookie(page: Page, window: Opened) -> None:
    """Authenticate by the entry link, or add the cookie of the browser that was authenticated first."""
    if window.cookies:
        page.context.add_cookies(window.cookies)
    else:
        enter_by_link(page, window)


def enter_by_link(page: Page, window: Opened) -> None:
    page.goto(window.entry())
    page.wait_for_url(f"{window.origin}/")
    window.cookies = page.context.cookies()


def look(page: Page, url: str) -> None:
    """Type a URL into the address bar, and wait for its preview."""
    page.get_by_role("textbox", name="Address", exact=True).fill(url)
    page.get_by_role("button", name="Preview", exact=True).click()
    page.wait_for_url(re.compile(r"/look\?"))
    expect(page.get_by_role("textbox", name="Address", exact=True)).to_have_value(url)


def open_(page: Page, url: str) -> None:
    """Open a URL from a page of the web UI, through the address bar."""
    look(page, url)
    _open(page)


def open_typed(page: Page, window: Opened, url: str) -> None:
    """Open a URL as if typed: a page of the web UI requests the address that the address bar leads to."""
    enter(page, window)
    with page.expect_navigation(url=re.compile(r"/look\?")):
        page.evaluate("at => { location = at }", f"/look?url={quote(url, safe='')}")
    _open(page)


def _open(page: Page) -> None:
    page.get_by_role("button", name="Open", exact=True).click()
    page.wait_for_url("**/u/**")
