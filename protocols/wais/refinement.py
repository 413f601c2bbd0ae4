"""The same database, asked in another way: what a caller adds to a URL."""

from __future__ import annotations

from protocols.values import replace
from protocols.wais.url import WaisUrl


def with_search(url: WaisUrl, words: str) -> WaisUrl:
    """The database of the URL, searched for `words`, which go as UTF-8."""
    return replace(url, search=words.encode(), wtype=None, wpath=None, text="", places=(), findings=())
