"""What a person does with our pages."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.window.served import Opened


def enter(page: Page, window: Opened) -> None:
    """Our first page, for a browser that has entered."""
    let_in(page, window)
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
    page.get_by_role("button", name="Look", exact=True).click()
    page.wait_for_url(re.compile(r"/look\?"))
    expect(page.get_by_role("textbox", name="Address", exact=True)).to_have_value(url)


def open_(page: Page, url: str) -> None:
    look(page, url)
    page.get_by_role("button", name="Open", exact=True).click()
    page.wait_for_url("**/u/**")
