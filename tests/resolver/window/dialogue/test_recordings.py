"""Of several retrievals at once each has its own recording."""

from __future__ import annotations

import json
import re

import trio
from lxml import etree

import resolver
from fixtures.http import Page, moved, serve
from resolver.web.dialogue.recording import HALF, Recordings, hear_here, recorded
from tests.resolver.window.client import running
from tests.resolver.window.dialogue.spoken import ticking, told

SITE = {"/a": Page(b"aaa"), "/b": Page(b"bbbb"), "/to-a": moved("/a"), "/to-b": moved("/b")}


async def test_what_goes_on_at_once_is_told_apart(nursery: trio.Nursery) -> None:
    """Also a redirect to what somebody else asks for just then."""
    server = await serve(nursery, SITE)
    recordings = Recordings(ticking())
    async with resolver.Resolver(on_event=recordings.hear) as session, trio.open_nursery() as inner:
        for path in ("/to-a", "/a", "/to-b", "/b", "/to-a"):
            inner.start_soon(session.fetch, server.url(path))
    found = [recording.exchange() for recording in recordings.all()]
    assert sorted(each.url for each in found) == sorted(
        server.url(path) for path in ("/to-a", "/a", "/to-b", "/b", "/to-a")
    )
    for exchange in found:
        lines = told(exchange)
        assert lines.count("note > done") == 1
        asked = [line for line in lines if line.startswith("say")]
        assert len(asked) == (2 if "/to-" in exchange.url else 1)
        assert ("note > goes on to " + exchange.url.replace("to-", "") in lines) == ("/to-" in exchange.url)
        body = "aaa" if exchange.url.endswith("a") else "bbbb"
        assert [line for line in lines if line.startswith("body")][-1].endswith(body)


async def test_a_block_hears_what_is_asked_for_in_it(nursery: trio.Nursery) -> None:
    server = await serve(nursery, SITE)
    async with resolver.Resolver(on_event=hear_here) as session:
        await session.fetch(server.url("/b"))  # which nobody hears
        with recorded(ticking()) as recording:
            await session.fetch(server.url("/to-a"))
    exchange = recording.exchange()
    assert exchange.url == server.url("/to-a")
    assert exchange.outcome == "done"
    assert "open client>server takes a connection that was kept" in told(exchange)


async def test_of_very_many_the_first_and_the_last_are_kept(nursery: trio.Nursery) -> None:
    server = await serve(nursery, SITE)
    recordings = Recordings(ticking())
    async with resolver.Resolver(on_event=recordings.hear) as session:
        for number in range(2 * HALF + 7):
            await session.fetch(server.url("/a") + f"?{number}")
    assert recordings.left_out == 7
    urls = [recording.exchange().url.rpartition("?")[2] for recording in recordings.all()]
    assert urls == [str(number) for number in (*range(HALF), *range(HALF + 7, 2 * HALF + 7))]


async def test_a_page_has_its_dialogue_and_gives_it_away(nursery: trio.Nursery) -> None:
    server = await serve(nursery, SITE)
    async with running() as (browser, _):
        page = await browser.typed(server.url("/a"))
        assert page.text.count('role="img"') == 2
        assert "GET /a HTTP/1.1" in page.text
        away = re.findall(r'href="(/dialogue/[^"]+)"', page.text)
        assert [each.rpartition(".")[2] for each in away] == ["svg", "json"]
        drawn, data = [await browser.ask(each) for each in away]
        assert drawn.header("content-type") == "image/svg+xml; charset=utf-8"
        assert (drawn.header("content-disposition") or "").startswith("attachment; ")
        assert etree.fromstring(drawn.body).tag == "{http://www.w3.org/2000/svg}svg"
        assert json.loads(data.body)["url"] == server.url("/a")
        for name in ("", "x.svg", away[0][len("/dialogue/") : -3] + "html"):
            assert (await browser.ask(f"/dialogue/{name}")).status == 404


async def test_a_page_of_a_failure_shows_what_was_said(nursery: trio.Nursery) -> None:
    server = await serve(nursery, {})
    async with running() as (browser, _):
        page = await browser.typed(server.url("/missing"))
        assert 'role="img"' in page.text
        assert "<details open>" in page.text
