"""Debian's Chromium, driven by Playwright: one browser for this folder, one context per test.

The browser sends nothing off this machine. No host name is resolved except evil.example, and background
requests of the browser are switched off. Chromium's own sandbox is off, because neither root nor most
containers can use it. The browser opens only pages of the tests.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import Any, Literal, NamedTuple, TypeAlias

from playwright.sync_api import Browser, BrowserContext, BrowserType, Page, expect, sync_playwright

from tests.hang import HANG

PROGRAM = "chromium"
ARGUMENTS = (
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-extensions",
    "--disable-sync",
    "--metrics-recording-only",
    "--no-first-run",
    "--no-pings",
    # One renderer process per site: a process takes longer to start than most of our pages.
    "--renderer-process-limit=1",
)
#: No host name resolves, except the attacker's, which the attacker points to this machine.
NOWHERE = "MAP evil.example 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"

#: Impact levels of axe: a page must have no violation of these levels.
GRAVE = ("serious", "critical")
_WCAG = ("wcag2a", "wcag2aa", "wcag21aa", "wcag22aa")
_FIND = """async ([tags, grave]) => {
  const found = await axe.run(document, {runOnly: tags, resultTypes: ["violations"]});
  return found.violations.filter(each => grave.includes(each.impact))
    .map(each => `${each.id} (${each.impact}): ${each.nodes.map(node => node.target)}`);
}"""
#: Milliseconds, the unit of Playwright. A longer wait is a hang.
_PATIENCE = HANG * 1000

Scheme: TypeAlias = Literal["light", "dark"]


class Look(NamedTuple):
    """The display settings of a browser."""

    width: int = 1600
    scheme: Scheme = "light"
    forced: bool = False
    script: bool = True

    def __str__(self) -> str:
        words = [str(self.width), self.scheme]
        return "-".join([*words, *(["forced"] if self.forced else []), *([] if self.script else ["plain"])])


#: Both widths, and each color mode at one of them.
LOOKS = (
    Look(320, "light"),
    Look(320, "dark", forced=True),
    Look(1600, "dark"),
    Look(1600, "light", script=False),
)


def program() -> str | None:
    """Return the path of Chromium, or None if it is not installed."""
    return shutil.which(PROGRAM)


@contextmanager
def running(path: str, *more: str) -> Iterator[Browser]:
    """Run a browser; `more` are command-line arguments."""
    expect.set_options(timeout=_PATIENCE)
    with sync_playwright() as playwright, launched(playwright.chromium, path, *more) as browser:
        yield browser


@contextmanager
def launched(chromium: BrowserType, path: str, *more: str) -> Iterator[Browser]:
    """Yield another browser of a running Playwright."""
    browser = chromium.launch(
        executable_path=path,
        args=[*ARGUMENTS, f"--host-resolver-rules={NOWHERE}", *more],
        timeout=_PATIENCE,
    )
    try:
        yield browser
    finally:
        browser.close()


class Viewer:
    """Opens each page in a separate context: no cookie, worker or cache of another test."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._contexts: list[BrowserContext] = []

    def page(self, look: Look | None = None, **more: Any) -> Page:
        """Open a page; `more` are arguments of Playwright's `new_context`."""
        look = look or Look()
        context = self._browser.new_context(
            viewport={"width": look.width, "height": 900},
            color_scheme=look.scheme,
            forced_colors="active" if look.forced else "none",
            java_script_enabled=look.script,
            **more,
        )
        context.set_default_timeout(_PATIENCE)
        self._contexts.append(context)
        return context.new_page()

    def close(self) -> None:
        while self._contexts:
            self._contexts.pop().close()


def violations(page: Page) -> list[str]:
    """Return the accessibility violations that axe finds: rule, impact and elements.

    The text of a page may arrive before its stylesheet, so this waits for the load event.
    """
    page.wait_for_load_state()
    if page.evaluate("typeof axe") == "undefined":
        page.evaluate(files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8"))
    found: list[str] = page.evaluate(_FIND, [list(_WCAG), list(GRAVE)])
    return found


def overflow(page: Page) -> int:
    """Return how many CSS pixels the page is wider than the viewport."""
    page.wait_for_load_state()
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))
