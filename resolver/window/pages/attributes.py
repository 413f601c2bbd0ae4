"""What a server says of one item: its attributes, block by block, and the forms that it comes in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

from protocols.errors import InvalidUrl, UnsupportedScheme
from protocols.location import JsonValue
from resolver.retrieval.response import Response
from resolver.window.pages.page import PageAddressBar, WebPage
from resolver.window.pages.refining import refined
from resolver.window.pages.words import FactRow

_MOST_VIEWS = 100


def attributes_page(response: Response, place: PageAddressBar) -> WebPage:
    extra = response.extra or {}
    values = {
        "heading": response.title or "What the server says of this item",
        "url": place.url,
        "views": list(views_of(extra, response.url, place)),
        "blocks": list(_blocks(extra)),
        "form": response.url if extra.get("form") else None,
        "missing": [str(name) for name in _list(extra.get("missing"))],
        "found": response.findings,
    }
    return WebPage("attributes.html", place.url, 200, values)


def views_of(
    extra: Mapping[str, JsonValue], url: str, place: PageAddressBar, most: int = _MOST_VIEWS
) -> Iterator[tuple[str, str]]:
    """What an item comes as, in words, and where; nothing of what no URL can ask for."""
    for view in _list(extra.get("views"))[:most]:
        if isinstance(view, dict):
            with suppress(InvalidUrl, UnsupportedScheme):
                yield _view_words(view), place.href(refined(url, "view", str(view.get("view"))))


def _view_words(view: Mapping[str, JsonValue]) -> str:
    words = [str(word) for name in ("media_type", "language") if (word := view.get(name))]
    about = view.get("about")
    return " ".join(words) + (f" (about {about:,} octets)" if isinstance(about, int) else "")


def _blocks(extra: Mapping[str, JsonValue]) -> Iterator[FactRow]:
    attributes = extra.get("attributes")
    for name, lines in attributes.items() if isinstance(attributes, dict) else ():
        yield FactRow(name, "\n".join(str(line) for line in _list(lines)))


def _list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []
