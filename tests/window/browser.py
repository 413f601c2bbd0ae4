"""Debian's Chromium, driven by playwright: one for the tests of this folder, a context for each of them.

Nothing that it does leaves this machine: no name is looked up but 127.0.0.1, and what browsers do for
themselves is switched off. It runs without its own sandbox, which neither root nor most containers can have;
it is shown nothing but pages of ours.
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
    "--renderer-process-limit=1",  # of a site: to begin a process takes longer than most of our pages
)
#: No name leads anywhere, but that of a stranger, who made it lead here.
NOWHERE = "MAP evil.example 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"

#: What axe takes for a barrier: none of these may be found.
GRAVE = ("serious", "critical")
_WCAG = ("wcag2a", "wcag2aa", "wcag21aa", "wcag22aa")
_FIND = """async ([tags, grave]) => {
  const found = await axe.run(document, {runOnly: tags, resultTypes: ["violations"]});
  return found.violations.filter(each => grave.includes(each.impact))
    .map(each => `${each.id} (${each.impact}): ${each.nodes.map(node => node.target)}`);
}"""
#: In milliseconds, as playwright counts. Whatever is waited for so long hangs.
_PATIENCE = HANG * 1000

Scheme: TypeAlias = Literal["light", "dark"]


class Look(NamedTuple):
    """How a person looks at a page."""

    width: int = 1600
    scheme: Scheme = "light"
    forced: bool = False
    script: bool = True

    def __str__(self) -> str:
        words = [str(self.width), self.scheme]
        return "-".join([*words, *(["forced"] if self.forced else []), *([] if self.script else ["plain"])])


#: Both widths, and each way of colouring at one of them.
LOOKS = (
    Look(320, "light"),
    Look(320, "dark", forced=True),
    Look(1600, "dark"),
    Look(1600, "light", script=False),
)


def program() -> str | None:
    """Where it is, None where it is not."""
    return shutil.which(PROGRAM)


@contextmanager
def running(path: str, *more: str) -> Iterator[Browser]:
    """`more` are arguments of its command line."""
    expect.set_options(timeout=_PATIENCE)
    with sync_playwright() as playwright, launched(playwright.chromium, path, *more) as browser:
        yield browser


@contextmanager
def launched(chromium: BrowserType, path: str, *more: str) -> Iterator[Browser]:
    """Yield one more browser of a Playwright that runs."""
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
    """Opens pages, each in a context of its own: no cookie, worker or cache of another test."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._contexts: list[BrowserContext] = []

    def page(self, look: Look | None = None, **more: Any) -> Page:
        """`more` is what playwright's `new_context` takes."""
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


def barriers(page: Page) -> list[str]:
    """What keeps people from using it, as axe finds it: rule, gravity, and where. Text is there
    before its style sheet may be."""
    page.wait_for_load_state()
    if page.evaluate("typeof axe") == "undefined":
        page.evaluate(files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8"))
    found: list[str] = page.evaluate(_FIND, [list(_WCAG), list(GRAVE)])
    return found


def overflow(page: Page) -> int:
    """CSS pixels that the page is wider than the window."""
    page.wait_for_load_state()
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))
