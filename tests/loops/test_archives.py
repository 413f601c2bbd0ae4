"""Archives return the same replies under asyncio, under trio, and from the blocking session."""

from __future__ import annotations

import asyncio

import trio

from resolver import Policy, Resolver, blocking
from resolver.warc.archive import Archive
from tests.hang import HANG
from tests.resolver.warc.archives import WARC

URLS = (
    *("gopher://127.0.0.1/", "ftp://127.0.0.1/", "nntp://127.0.0.1/test.gaps", "http://127.0.0.1/redir"),
    *(
        "wais://127.0.0.1/demo?ferries",
        "prospero://127.0.0.1/%2Fpfs%2Fpfsdat%2Fsmall",
        "file:///srv/example/",
    ),
)


async def answers(archive: Archive) -> list[tuple[bytes, int]]:
    async with Resolver(archive=archive, policy=Policy()) as session:
        found = [await session.fetch(url) for url in URLS]
    return [(each.content, len(each.entries or ())) for each in found]


def test_archive_replies_are_equal_under_each_loop() -> None:
    with Archive(sorted(WARC.glob("*.warc.gz"))) as archive:
        under_asyncio = asyncio.run(asyncio.wait_for(answers(archive), HANG))
        with blocking.Resolver(archive=archive, policy=Policy()) as session:
            waited = [session.fetch(url) for url in URLS]
        assert under_asyncio == trio.run(answers, archive)
        assert under_asyncio == [(each.content, len(each.entries or ())) for each in waited]
        assert [count for _, count in under_asyncio] == [24, 5, 15, 0, 3, 3, 3]
