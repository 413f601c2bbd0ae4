"""news, snews, nntp and nntps: RFC 1738 3.6 and 3.7, RFC 5538 (the URLs), RFC 3977, 4642, 4643, 8054 (NNTP).

Octets: `commands`, `response` and `block`. What they mean: `article` with `header_text` and `dates`,
`overview`, `groups`; `places` makes URLs of it, `facts` what a body begins with. What is sent: `request`
for a URL, `negotiation` for what a server wants first, `compression` with `deflate` for what will be long,
`dialogue` round all. `session` is the connection and the part that one dialogue has in it: there stands how
requests are pipelined.
"""

from __future__ import annotations

from protocols.news.url import (
    NewsUrl,
    NntpUrl,
    as_group,
    build_news,
    build_nntp,
    by_number,
    names_of,
    parse_news,
    parse_nntp,
)
from protocols.scheme import KeptListing, Scheme, Tree

__all__ = ["NEWS", "NNTP", "NNTPS", "SNEWS", "NewsUrl", "NntpUrl"]


_LISTING = KeptListing(
    "answers",
    "application/x-nntp-answers",
    commands=("GROUP", "LISTGROUP", "OVER", "XOVER", "HEAD", "LIST"),
)

NEWS = Scheme(
    name="news",
    names="article, group or all groups, on any server",
    default_port=119,
    tls="on request",
    userinfo=True,
    server=True,
    named_by=("message_id", "group"),
    listed=True,
    walked_as=by_number,
    listing_kept=_LISTING,
    replayed="protocols.news.dialogue:NewsReplayServer",
    parse=parse_news,
    build=build_news,
    converse="protocols.news.dialogue:converse",
)
SNEWS = NEWS._replace(name="snews", default_port=563, tls="always")
NNTP = Scheme(
    name="nntp",
    names="group, or one article by its number",
    default_port=119,
    tls="on request",
    named_by=("article", "group"),
    listed=True,
    tree=Tree(names_of, as_group),
    listing_kept=_LISTING,
    replayed="protocols.news.dialogue:NewsReplayServer",
    parse=parse_nntp,
    build=build_nntp,
    converse="protocols.news.dialogue:converse",
)
NNTPS = NNTP._replace(name="nntps", default_port=563, tls="always")
