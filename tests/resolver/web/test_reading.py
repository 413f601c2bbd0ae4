"""Links of a page: their policy verdicts, older articles of a group, and WAIS relevance feedback."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from urllib.parse import unquote_to_bytes, urlencode

import trio

from fixtures.nntp.server import serve
from fixtures.wais.request import Search
from fixtures.wais.server import serve as serve_wais
from resolver import Entry, Options, Policy, Referrer, Resolver, Settings
from resolver.web.reading import PageReader
from resolver.web.session import UrlOrigin
from tests.hang import HANG
from tests.resolver.web.client import Answer, running

PLANS = Path(__file__).parents[3] / "fixtures" / "plans.jsonl"
FOUND_IN = Referrer("gopher://h.example/1", "192.0.2.1")
#: Alternatives for the part of a URL after the host.
PATHS = (
    "",
    "/",
    "/0a",
    "/1a/b",
    "/0a%0D%0Ab",
    "/Ia",
    "/a/../b",
    "/a;type=i",
    "/" + "a" * 5_000,
    "/%",
    "/0%09",
)


async def test_link_verdict_does_not_depend_on_earlier_links() -> None:
    lines = PLANS.read_text("utf-8").splitlines()
    urls = sorted({str(json.loads(line)["url"]) for line in lines})
    starts = sorted({url[: url.find("/", url.find("://") + 3)] for url in urls if url.count("/") > 2})
    candidates = [*urls, *(start + path for start in starts for path in PATHS)]
    for policy in (Policy(), Policy.untrusted()):
        async with Resolver(policy=policy) as resolver:
            reading = PageReader(resolver, {"policy": policy})
            judge, way = reading.make_judge(FOUND_IN), UrlOrigin("chosen", FOUND_IN)
            verdicts = {url: judge(Entry(name="x", url=url)) for url in (*candidates, *candidates)}
            assert verdicts == {url: reading.verdict(url, way) for url in candidates}
    assert len(candidates) > 500
    assert {verdict.action for verdict in verdicts.values()} == {"allow", "refuse"}


async def test_group_page_links_older_articles(nursery: trio.Nursery) -> None:
    policy = Policy(allow_address=frozenset({"127.0.0.0/8"}))
    settings = Settings(policy=policy, options=Options(entries=2))
    with trio.fail_after(HANG):
        server = await serve(nursery)
        async with running(settings=settings) as (browser, _):
            page = await browser.open(await browser.look(server.url("comp.misc")))
            assert [name in page.text for name in ("Grüße", "Bare LF", "Test")] == [True, True, False]
            older = href_of(page, "older articles")
            assert "before=1235" in older
            page = await browser.ask(older)
            assert [name in page.text for name in ("Grüße", "Bare LF", "Test")] == [False, False, True]
            assert "1 article before number 1235" in page.text
            again = len(server.heard)
            filtered = await browser.ask(f"{older}&q=nothing")
            assert "No article matches the filter" in filtered.text
            assert len(server.heard) == again
            page = await browser.ask(href_of(page, "newest articles"))
            assert "Grüße" in page.text


async def test_wais_search_with_marked_hits_sends_relevance(nursery: trio.Nursery) -> None:
    with trio.fail_after(HANG):
        server = await serve_wais(nursery)
        loopback = frozenset({"127.0.0.0/8"})
        policy = Policy(allow_address=loopback, allow_port=frozenset({server.port}))
        async with running(settings=Settings(policy=policy)) as (browser, _):
            page = await browser.open(await browser.look(server.url("demo?ferry")))
            marked = [unescape(url) for url in re.findall(r'name="relevant" value="([^"]*)"', page.text)]
            assert len(marked) == 2
            foreign = "wais://h.example/demo/TEXT/other"
            fields = [("url", page.field("url")), ("from", page.field("from")), ("words", "ferry")]
            fields += (("relevant", url) for url in (marked[0], foreign, "no URL"))
            results = await browser.ask("/search?" + urlencode(fields))
            page = await browser.ask(results.header("location") or "")
            assert page.text.count(" checked>") == 1
            assert ", similar to" in page.text
            sent = [search for search in server.requests if isinstance(search, Search)]
            assert [len(search.relevant) for search in sent] == [0, 1]
            assert sent[1].relevant[0] in unquote_to_bytes(marked[0])
            assert server.violations == []


def href_of(page: Answer, words: str) -> str:
    match = re.search(f'<a href="([^"]*)">{words}</a>', page.text)
    assert match is not None
    return unescape(match[1])
