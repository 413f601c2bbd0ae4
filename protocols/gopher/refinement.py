"""The same item, asked for in another way: what a caller adds to a URL."""

from __future__ import annotations

from dataclasses import replace

from protocols.gopher.url import GopherUrl


def with_search(url: GopherUrl, words: str) -> GopherUrl:
    """Searched for `words`, which go as UTF-8."""
    return replace(url, search=words.encode(), text="", places=(), findings=())


def with_view(url: GopherUrl, view: str) -> GopherUrl:
    """In a view as +VIEWS lists it: a media type, or that, a blank and a language. Empty: the default."""
    return with_gopherplus(url, b"+" + view.encode())


def with_gopherplus(url: GopherUrl, gopherplus: bytes) -> GopherUrl:
    """With that Gopher+ string in place of the URL's own."""
    return replace(url, search=url.search or b"", gopherplus=gopherplus, text="", places=(), findings=())
