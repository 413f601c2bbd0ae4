"""A window on archives: pages of what was kept, each with a line that says so and of what time it is."""

from __future__ import annotations

import pytest
import trio

from resolver import Policy, Settings
from resolver.network.connector import Connector
from resolver.warc.archive import Archive
from tests.hang import HANG
from tests.resolver.warc.archives import WARC
from tests.resolver.window.client import running

PAGES = {
    "gopher://127.0.0.1/": ("A welcome text", "Test burrow (static map)"),
    "ftp://127.0.0.1/": ("copy.txt", "index.html"),
    "nntp://127.0.0.1/test.gaps": ("Gap article 1001",),
    "wais://127.0.0.1/demo?ferries": ("Harbour notes",),
    "prospero://127.0.0.1/%2Fpfs%2Fpfsdat%2Fsmall": ("hello.txt",),
    "http://127.0.0.1/redir": ("a.txt",),
}
OWN = Policy(allow_address=frozenset({"127.0.0.0/8"}))


async def test_each_scheme_has_its_pages_and_they_say_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Connector, "addresses", None)
    with trio.fail_after(HANG), Archive(sorted(WARC.glob("*.warc.gz"))) as archive:
        async with running(settings=Settings(policy=OWN, archive=archive)) as (browser, _):
            assert "An archive is shown: nothing comes from the network." in (await browser.ask("/")).text
            for url, names in PAGES.items():
                page = await browser.typed(url)
                assert page.status == 200, page.text
                assert [name for name in names if name not in page.text] == []
                assert "This was kept on 2026-11-22 at 10:00:" in page.text
            missing = await browser.typed("gopher://127.0.0.1/0nix")
            assert "not in the archive" in missing.text
            assert "This was kept" not in missing.text


async def test_as_of_a_time_it_says_which() -> None:
    with trio.fail_after(HANG), Archive([WARC / "gopher.warc.gz"], at="2026-11-22T10:00") as archive:
        async with running(settings=Settings(policy=OWN, archive=archive)) as (browser, _):
            page = await browser.typed("gopher://127.0.0.1/")
            assert "An archive is shown, as of 2026-11-22 10:00:59 UTC:" in page.text


async def test_without_an_archive_nothing_is_said_of_one() -> None:
    with trio.fail_after(HANG):
        async with running(settings=Settings(policy=OWN)) as (browser, _):
            assert "rchive" not in (await browser.ask("/")).text
