"""When a process of the browser dies, that is told from a page that fails."""

from __future__ import annotations

import pytest
from playwright.sync_api import Error, Page

from tests.window.browser import Viewer


def crashed(viewer: Viewer) -> Page:
    page = viewer.page()
    with page.expect_event("crash"), pytest.raises(Error):
        page.goto("chrome://crash")
    return page


def test_a_crash_is_said_in_the_words_that_are_looked_for(viewer: Viewer) -> None:
    page = crashed(viewer)
    with pytest.raises(Error, match=r"(Page|Target) crashed"):
        page.goto("about:blank")


def test_after_a_crash_the_browser_goes_on(viewer: Viewer) -> None:
    crashed(viewer)
    page = viewer.page()
    page.set_content("<title>still here</title>")
    assert page.title() == "still here"
