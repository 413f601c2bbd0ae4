"""Cached listings of a session, their limits, and pages that come from web archives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import pytest
import trio

from resolver import Entry, Kind, Policy, Response, Settings
from resolver.network.connector import Connector
from resolver.warc.archive import Archive
from resolver.web.pages.directory import directory_page, results_page
from resolver.web.pages.gopher import menu_page
from resolver.web.pages.group import group_page
from resolver.web.pages.page import PageAddressBar, PageQuery, WebPage
from resolver.web.session import ListingCache
from tests.hang import HANG
from tests.resolver.warc.archives import WARC
from tests.resolver.web.client import running
from tests.resolver.web.pages.facts import articles, entry, item, response
from tests.resolver.web.pages.skeleton import place, rendered

Paged = Callable[[Response, PageQuery, PageAddressBar], WebPage]


def listing(entries: Sequence[Entry], content: bytes = b"content") -> Response:
    return response("x", content=content, kind=Kind.DIRECTORY, extra={"hits": 1}, entries=entries)


def cached(entries: Sequence[Entry]) -> Response:
    cache = ListingCache()
    cache.store("x", listing(entries))
    again = cache.find("x")
    assert again is not None
    return again


HIT = entry("hit", Kind.DOCUMENT, score=7, lines=4, types=["TEXT", "GIF"], other_types=["wais://h.example/x"])


@pytest.mark.parametrize(
    ("one", "page"),
    [
        ([item("a", kind, "1", tag=tag) for kind in Kind for tag in ("", "+", "?")], menu_page),
        ([entry("a", kind, name="x") for kind in Kind], directory_page),
        ([HIT], partial(results_page, title="x", words="x")),
        (articles("a"), group_page),
    ],
)
def test_listing_cache_of_long_listing_renders_same_pages(one: list[Entry], page: Paged) -> None:
    entries = [
        replace(item, raw=b"octets", size=number) for number, item in enumerate(one * (1_000 // len(one) + 1))
    ]
    slim = cached(entries)
    assert slim.content == b""
    for query in (PageQuery(page=2), PageQuery(sort="date"), PageQuery(filter="a")):
        assert rendered(page(slim, query, place())) == rendered(page(listing(entries), query, place()))


def test_listing_cache_of_short_listing_is_unchanged() -> None:
    assert cached([HIT]).entries == (HIT,)
    assert cached([HIT]).content == b"content"


def test_listing_cache_shares_equal_fields() -> None:
    entries = cached(_plain(2_000)).entries
    assert entries is not None
    assert len({id(item.extra) for item in entries}) == 1


def _plain(count: int) -> list[Entry]:
    return [
        Entry(name=f"n{n}", url=f"gopher://h.example/0{n}", extra={"type": "0", "selector": str(n)})
        for n in range(count)
    ]


def test_listing_cache_over_100000_entries_drops_oldest() -> None:
    cache = ListingCache()
    long = listing(_plain(100_000))
    for key in "ab":
        cache.store(key, long)
    assert cache.find("b") is not None
    assert cache.find("a") is None


def test_listing_cache_keeps_three_listings() -> None:
    cache = ListingCache()
    for key in "abcd":
        cache.store(key, listing([HIT]))
    assert [key for key in "abcd" if cache.find(key) is not None] == ["b", "c", "d"]
    cache.store("b", listing([HIT]))
    cache.store("e", listing([HIT]))
    assert [key for key in "abcde" if cache.find(key) is not None] == ["b", "d", "e"]


def test_listing_cache_skips_too_long_listing() -> None:
    cache = ListingCache()
    cache.store("x", listing([HIT], content=bytes(70_000_000)))
    assert cache.find("x") is None


# Pages from archives: each says so, and names the time of the capture.

PAGES = {
    "gopher://127.0.0.1/": ("A welcome text", "Test burrow (static map)"),
    "ftp://127.0.0.1/": ("copy.txt", "index.html"),
    "nntp://127.0.0.1/test.gaps": ("Gap article 1001",),
    "wais://127.0.0.1/demo?ferries": ("Harbour notes",),
    "prospero://127.0.0.1/%2Fpfs%2Fpfsdat%2Fsmall": ("hello.txt",),
    "http://127.0.0.1/redir": ("a.txt",),
}
LOOPBACK_POLICY = Policy(allow_address=frozenset({"127.0.0.0/8"}))


async def test_archive_pages_of_schemes_name_their_capture_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Connector, "addresses", None)
    with trio.fail_after(HANG), Archive(sorted(WARC.glob("*.warc.gz"))) as archive:
        async with running(settings=Settings(policy=LOOPBACK_POLICY, archive=archive)) as (browser, _):
            assert "Pages come from an archive, without network access." in (await browser.ask("/")).text
            for url, names in PAGES.items():
                page = await browser.typed(url)
                assert page.status == 200, page.text
                assert [name for name in names if name not in page.text] == []
                assert "Captured on 2026-11-22 at 10:00:" in page.text
            missing = await browser.typed("gopher://127.0.0.1/0nix")
            assert "not in the archive" in missing.text
            assert "Captured on" not in missing.text


async def test_archive_page_as_of_a_time_names_it() -> None:
    with trio.fail_after(HANG), Archive([WARC / "gopher.warc.gz"], at="2026-11-22T10:00") as archive:
        async with running(settings=Settings(policy=LOOPBACK_POLICY, archive=archive)) as (browser, _):
            page = await browser.typed("gopher://127.0.0.1/")
            assert (
                "Pages come from an archive, as of 2026-11-22 10:00:59 UTC, without network access."
                in page.text
            )


async def test_start_page_without_archive_does_not_mention_one() -> None:
    with trio.fail_after(HANG):
        async with running(settings=Settings(policy=LOOPBACK_POLICY)) as (browser, _):
            assert "rchive" not in (await browser.ask("/")).text
