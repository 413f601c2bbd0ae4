"""news, snews, nntp and nntps: RFC 1738 3.6 and 3.7, RFC 5538 (the URLs), RFC 3977."""

from __future__ import annotations

from protocols.news.url import NewsUrl, NntpUrl, build_news, build_nntp, parse_news, parse_nntp
from protocols.scheme import Scheme

__all__ = ["NEWS", "NNTP", "NNTPS", "SNEWS", "NewsUrl", "NntpUrl"]

_NEWS = "article, group or all groups, on any server"
_NNTP = "group, or one article by its number"

NEWS = Scheme(name="news", names=_NEWS, default_port=119, parse=parse_news, build=build_news)
SNEWS = Scheme(name="snews", names=_NEWS, default_port=563, parse=parse_news, build=build_news, tls=True)
NNTP = Scheme(name="nntp", names=_NNTP, default_port=119, parse=parse_nntp, build=build_nntp)
NNTPS = Scheme(name="nntps", names=_NNTP, default_port=563, parse=parse_nntp, build=build_nntp, tls=True)
