"""What is said of the links of a page before anybody follows one."""

from __future__ import annotations

import json
from pathlib import Path

from protocols.location import Referrer
from resolver import Entry, Policy, Resolver
from resolver.window.reading import Reading
from resolver.window.session import Way

PLANS = Path(__file__).parents[3] / "fixtures" / "plans.jsonl"
FOUND_IN = Referrer("gopher://h.example/1", "192.0.2.1")
#: In place of what a URL has behind its host.
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


async def test_a_link_is_judged_alike_whatever_was_judged_before() -> None:
    lines = PLANS.read_text("utf-8").splitlines()
    urls = sorted({str(json.loads(line)["url"]) for line in lines})
    starts = sorted({url[: url.find("/", url.find("://") + 3)] for url in urls if url.count("/") > 2})
    asked = [*urls, *(start + path for start in starts for path in PATHS)]
    for policy in (Policy(), Policy.untrusted()):
        async with Resolver(policy=policy) as resolver:
            reading = Reading(resolver, {"policy": policy})
            judge, way = reading.judging(FOUND_IN), Way("chosen", FOUND_IN)
            found = {url: judge(Entry(name="x", url=url)) for url in (*asked, *asked)}
            assert found == {url: reading.verdict(url, way) for url in asked}
    assert len(asked) > 500
    assert {verdict.action for verdict in found.values()} == {"allow", "refuse"}
