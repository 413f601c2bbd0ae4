"""news, snews, nntp and nntps: RFC 1738 3.6 and 3.7, RFC 5538 (the URLs), RFC 3977, 4642, 4643, 8054 (NNTP).

- `url`: the URLs.
- `response`: commands, status lines and data blocks.
- `article`: the head of an article, the decoding of header fields, dates.
- `listing`: overviews and lists of groups, with their URLs and metadata.
- `attachments`: the files in an article (MIME), and the search for the articles with the other parts of a
  file.
- `yenc`: the decoding of yEnc.
- `request`: the commands for a URL.
- `negotiation`: reader mode, TLS and login, if the server requires them, and compression for long responses.
- `session`: a connection, its pipeline, and the session of one dialogue on the connection.
- `dialogue`: the complete protocol exchange for a URL.
"""

from __future__ import annotations

from protocols.news.url import (
    NewsUrl,
    NntpUrl,
    build_news,
    build_nntp,
    by_number,
    list_names,
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
    attachments="protocols.news.attachments:NewsPost",
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
    tree=Tree(list_names),
    listing_kept=_LISTING,
    replayed="protocols.news.dialogue:NewsReplayServer",
    attachments="protocols.news.attachments:NewsPost",
    parse=parse_nntp,
    build=build_nntp,
    converse="protocols.news.dialogue:converse",
)
NNTPS = NNTP._replace(name="nntps", default_port=563, tls="always")
