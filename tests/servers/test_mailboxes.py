"""A group of INN as a mailbox: every article, as Python's `mailbox` reads it, and each asked for once."""

from __future__ import annotations

from pathlib import Path

import pytest

from resolver import Options, Sent, parse
from resolver.files.mailbox import Maildir, Mbox
from resolver.trees.saving import GroupMailbox, source_of
from tests.resolver.tree.test_group import in_maildir, in_mbox
from tests.servers.news_servers import NewsServer
from tests.servers.test_news import LEFT, Site


@pytest.mark.parametrize("form", [Mbox, Maildir])
async def test_every_article_of_a_group(
    form: type[Mbox] | type[Maildir], inn: NewsServer, tmp_path: Path
) -> None:
    path, asked = tmp_path / "box", []
    for _ in range(2):
        site = Site(inn, options=Options(entries=0))
        url = parse(site.nntp("test.prose"))
        async with site.resolver as session:
            await GroupMailbox(session, url, form(str(path), source_of(url)), str(path)).run()
            sent = b"".join(event.octets for event in site.events if isinstance(event, Sent))
            asked.append(sent.count(b"ARTICLE "))
    found = in_mbox(path) if form is Mbox else in_maildir(path)
    bodies = sorted(article.body.replace(b"\r\n", b"\n") for article in LEFT.values())
    assert sorted(each.partition(b"\n\n")[2] for each in found) == bodies
    assert (asked[0] >= len(LEFT), asked[1]) == (True, 0)
