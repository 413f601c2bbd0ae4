"""news, snews, nntp and nntps: RFC 1738 3.6 and 3.7, RFC 5538 (the URLs), RFC 3977, 4642, 4643 (NNTP).

Octets: `commands`, `reply`, `block`, `lines`. What they mean: `article` and `header_text`, `overview`,
`groups` and `wildmat`, `dates`, `refusals`; `places` makes URLs of it. What is said: `wishes` for a URL,
`login` for what a server wants first, `dialogue` round both; `link` is the connection they share.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from protocols.news.url import NewsUrl, NntpUrl, build_news, build_nntp, parse_news, parse_nntp
from protocols.scheme import Dialogue, Scheme

if TYPE_CHECKING:
    from protocols.contract import Gate, Options, Reply

__all__ = ["NEWS", "NNTP", "NNTPS", "SNEWS", "NewsUrl", "NntpUrl"]


def _open(url: NewsUrl | NntpUrl, gate: Gate) -> AbstractAsyncContextManager[Reply]:
    from protocols.news.handler import open_news  # parsing a URL needs none of it

    return open_news(url, gate)


def _dialogue(url: NewsUrl | NntpUrl, options: Options) -> Dialogue:
    from protocols.news.dialogue import converse  # as above
    from protocols.options import Limits

    return converse(url, options, Limits())


NEWS = Scheme(
    name="news",
    names="article, group or all groups, on any server",
    default_port=119,
    parse=parse_news,
    build=build_news,
    open=_open,
    dialogue=_dialogue,
)
SNEWS = NEWS._replace(name="snews", default_port=563, tls=True)
NNTP = Scheme(
    name="nntp",
    names="group, or one article by its number",
    default_port=119,
    parse=parse_nntp,
    build=build_nntp,
    open=_open,
    dialogue=_dialogue,
)
NNTPS = NNTP._replace(name="nntps", default_port=563, tls=True)
