"""The way to a URL, segment by segment: each step is the URL up to there, asked for as a directory. Of a
gopher selector that is a guess, which most servers make true."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from protocols.errors import InvalidUrl
from protocols.location import HostUrl, Url
from protocols.scheme import Tree
from protocols.syntax import decode
from protocols.values import replace
from resolver import registry
from resolver.url import build, parse
from resolver.window.pages.page import Breadcrumb, shortened
from resolver.window.pages.words import line_of

#: Segments that are shown; what lies between the first and the last of more is left out.
_MOST = 12
#: Characters of a URL that is one step.
_LONGEST = 60


def crumbs_of(url: Url, href: Callable[[str], str]) -> tuple[Breadcrumb, ...]:
    """From the server to the thing itself, without a password; nothing for what lies on no server."""
    row = registry.find(url.scheme)
    if not isinstance(url, HostUrl) or row is None:
        return ()
    if row.tree is None:
        return (Breadcrumb(shortened(url.shown, _LONGEST)),)
    try:
        bare: Any = replace(url, password=None, fragment=None, text="", places=(), findings=())
        found = list(_steps(build(bare), row.tree, href))
    except InvalidUrl:  # built, and of components that no text has
        return (Breadcrumb(shortened(url.shown, _LONGEST)),)
    if found and found[-1].text:
        found[-1] = found[-1]._replace(href=None)
    if len(found) > _MOST:
        found = [*found[: _MOST // 2], Breadcrumb("…"), *found[-_MOST // 2 :]]
    return tuple(found)


def parent_of(url: Url) -> str | None:
    """The URL of what it is in, None for the top of a server."""
    steps = [crumb.href for crumb in crumbs_of(url, str) if crumb.href is not None]
    return steps[-1] if steps else None


def _steps(text: str, tree: Tree, href: Callable[[str], str]) -> Iterator[Breadcrumb]:
    start = text.index("/", text.index("://") + 3) if text.count("/") > 2 else len(text)
    end = min((at for mark in "?;" if (at := text.find(mark, start)) >= 0), default=len(text))
    yield Breadcrumb(text[:start], _step(text[: start + 1], tree, href))
    at = start + 1
    if "gophertype" in parse(text).components():
        at += 1  # the type is none of the names, nor is what is asked of the item
        end = next((found for found in [text.find("%09", at, end)] if found >= 0), end)
    while at < end:
        slash = text.find("/", at, end)
        stop = end if slash < 0 else slash
        if stop > at:
            name = line_of(decode(text[at:stop]).decode("utf-8", "replace"))
            yield Breadcrumb(name, _step(text[:stop], tree, href))
        at = stop + 1


def _step(text: str, tree: Tree, href: Callable[[str], str]) -> str | None:
    try:
        url: Any = parse(text)
        if "gophertype" in url.components():
            url = replace(url, gophertype="1")
        return href(build(tree.directory(url)))
    except InvalidUrl:
        return None
