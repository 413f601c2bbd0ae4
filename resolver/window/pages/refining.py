"""The URL of the same thing, asked for in another way: searched for words, or as another view."""

from __future__ import annotations

from protocols.errors import UnsupportedScheme
from resolver import registry
from resolver.url import build, parse


def refined(text: str, what: str, value: str) -> str:
    """The URL with the `search` or `view` that is `value`. Raises `InvalidUrl` for what is no URL or makes
    none, and `UnsupportedScheme` where the scheme has no such thing."""
    url = parse(text)
    scheme = registry.find(url.scheme)
    refine = None if scheme is None else scheme.refine.get(what)
    if refine is None:
        raise UnsupportedScheme(url.scheme, f"a {url.scheme} URL has no {what}", url=url.shown)
    return build(refine(url, value))
