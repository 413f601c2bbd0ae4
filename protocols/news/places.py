"""The URLs of what a listing holds. Names come from a server: they become URLs only through the
builder, field by field (S20), and what it refuses has none.

Children keep the parent's way: what was found in a place is found there again (`nntp://S/G/n`), what
was found by a `news:` URL without a server is named without one (`news:ID`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias, TypeVar

from protocols.errors import InvalidUrl
from protocols.location import BuiltUrl, Url
from protocols.news.url import NewsUrl, NntpUrl, build_news, build_nntp, is_article

U = TypeVar("U", bound=Url)

#: Group, number and message-id of an article: its URL, or None.
ArticleUrl: TypeAlias = "Callable[[bytes, int, bytes | None], str | None]"
#: The name of a group: its URL, or None.
GroupUrl: TypeAlias = "Callable[[bytes], str | None]"


def article_urls(parent: NewsUrl | NntpUrl) -> ArticleUrl:
    """How the articles of a group are named that was found as `parent`."""
    if isinstance(parent, NntpUrl) or (parent.host is not None and parent.scheme == "news"):
        place = _place(parent)
        return lambda group, number, message_id: place(group, number)

    def by_message_id(group: bytes, number: int, message_id: bytes | None) -> str | None:
        if message_id is None:
            return None
        return _build(build_news, _news(parent, message_id=message_id))

    return by_message_id


def group_urls(parent: NewsUrl | NntpUrl) -> GroupUrl:
    """How groups are named that were found as `parent`."""
    if isinstance(parent, NntpUrl) or (parent.host is not None and parent.scheme == "news"):
        place = _place(parent)
        return lambda group: place(group, None)
    return lambda group: None if b"*" in group else _build(build_news, _news(parent, group=group))


def _place(parent: NewsUrl | NntpUrl) -> Callable[[bytes, int | None], BuiltUrl | None]:
    scheme = "nntps" if parent.scheme == "nntps" else "nntp"
    host = parent.host or ""

    @lru_cache(maxsize=1)  # all articles of a listing are of one group
    def build_group(group: bytes) -> str | None:
        url = NntpUrl(
            scheme=scheme, host=host, port=parent.port, default_port=parent.default_port, group=group
        )
        return _build(build_nntp, url)

    def build(group: bytes, number: int | None) -> BuiltUrl | None:
        url = build_group(group)
        if url is None or number is None:
            return None if url is None else BuiltUrl(url)
        return BuiltUrl(f"{url}/{number}") if is_article(number) else None

    return build


def _news(parent: NewsUrl, *, group: bytes | None = None, message_id: bytes | None = None) -> NewsUrl:
    return NewsUrl(
        scheme=parent.scheme,
        host=parent.host,
        port=parent.port,
        default_port=parent.default_port,
        group=group,
        message_id=message_id,
    )


def _build(build: Callable[[U], str], url: U) -> BuiltUrl | None:
    try:
        return BuiltUrl(build(url))
    except InvalidUrl:
        return None
