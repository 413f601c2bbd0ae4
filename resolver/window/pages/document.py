"""A document by what it is: text on the page itself; pictures, sound, PDF and HTML from the other port, where
nothing of theirs runs or leaves; of everything else its facts, and the way to save it."""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import sha256

from resolver.retrieval.response import Response, decode_text, is_textual, looks_like_text
from resolver.window import headers
from resolver.window.pages.allowed import allowed_markup
from resolver.window.pages.markup import text_of_markup
from resolver.window.pages.page import PageAddressBar, PageQuery, WebPage, shortened
from resolver.window.pages.signatures import media_type_of
from resolver.window.pages.text import part_values
from resolver.window.pages.words import FactRow, facts_of, octets

#: Types that are markup: shown as text, as a page from the other port, or as they came.
_MARKUP = frozenset({"text/html", "application/xhtml+xml", "image/svg+xml", "text/xml", "application/xml"})
_LOOKS_LIKE_MARKUP = (b"<!doctype html", b"<html", b"<svg", b"<?xml")
#: Names that a system may run when it is asked to open them, or that a browser runs from disk.
_RUN = re.compile(r"desktop|lnk|url|scf|hta|jar|exe|msi|bat|cmd|ps1|sh|app|html?|svg|xhtml|mht")
#: Octets that are looked at to tell what something of no known type is.
_FIRST = 4096
#: Shapes that the other port shows.
_FRAMED = ("image", "audio", "video", "pdf")
#: What to call each way of looking at markup.
_VIEWS = {"": "as text", "page": "as page", "source": "source"}


def shape_of(response: Response) -> str:
    """How it is shown: `image`, `audio`, `video`, `pdf`, `markup`, `text` or `octets`. Only its own first
    octets make it anything that a browser takes apart."""
    found = media_type_of(response.content[:64])
    if found is not None:
        return found.partition("/")[0] if found != "application/pdf" else "pdf"
    essence = (response.media_type or "").partition(";")[0].strip().lower()
    first = response.content[:_FIRST]
    if essence in _MARKUP or (not essence and first.lstrip().lower().startswith(_LOOKS_LIKE_MARKUP)):
        return "markup"
    if is_textual(response.media_type):
        return "text"
    unknown = essence in ("", "application/octet-stream")
    return "text" if unknown and first and looks_like_text(first) else "octets"


def content_of(response: Response) -> tuple[bytes, str]:
    """The octets as the content port shows them, and the media type that it says: one of ours. Markup is
    written anew, of what names nothing elsewhere, and in UTF-8, for a browser would guess."""
    found = media_type_of(response.content[:64])
    if found is not None:
        return response.content, found
    essence = (response.media_type or "").partition(";")[0].strip().lower()
    text = decode_text(response.content, response.charset)
    is_xml = essence != "text/html" if essence else text.lstrip().startswith(("<?xml", "<svg"))
    return allowed_markup(text, is_xml=is_xml).encode("utf-8", "replace"), headers.HTML


def document_page(
    response: Response,
    query: PageQuery,
    place: PageAddressBar,
    content: Callable[[bool], str],
    name: str = "",
) -> WebPage:
    """`content` gives the address of the octets on the other port, to be looked at (True) or saved; `name` is
    the one that a file of it would get."""
    shape = shape_of(response)
    view = query.view if shape == "markup" and query.view in _VIEWS else ""
    values: dict[str, object] = {
        "heading": response.title or name or shortened(place.url),
        "shape": shape,
        "view": view,
        "views": _views(query, place) if shape == "markup" else [],
        "known": [*facts_of(response), *_proofs(response)],
        "found": response.findings,
        "address": content(True) if shape in _FRAMED or view == "page" else None,
        "download": content(False),
        "saved": response.url,
        "name": name,
        "risky": _RUN.fullmatch(name.lower().rpartition(".")[2]) is not None,
        "media_type": media_type_of(response.content[:64]),
        "target": response.target,
        "parts": 0,
    }
    if shape == "text" or (shape == "markup" and view != "page"):
        text = decode_text(response.content, response.charset)
        if shape == "markup" and not view:
            text = text_of_markup(text)
        values |= part_values(text, query, place)
    return WebPage("document.html", place.url, 200, values)


def _views(query: PageQuery, place: PageAddressBar) -> list[tuple[str, str, bool]]:
    chosen = query.view if query.view in _VIEWS else ""
    return [
        (words, place.again(query._replace(view=view, page=1)), view == chosen)
        for view, words in _VIEWS.items()
    ]


def _proofs(response: Response) -> list[FactRow]:
    """What is known of the octets themselves."""
    found = [] if response.size is not None else [FactRow("size", octets(len(response.content)))]
    found.append(FactRow("sha256", sha256(response.content).hexdigest()))
    if response.verified:
        found.append(FactRow("verified by", ", ".join(response.verified)))
    if response.peer is not None:
        found.append(FactRow("from", response.peer))
    return found
