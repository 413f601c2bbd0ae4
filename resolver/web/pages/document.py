"""The page of a document by its media type, and the choice of the page function for a response.

Text is shown on the page itself. Pictures, sound, PDF and HTML are served by the content port, which blocks
their scripts and network requests. For a document of another type, the page shows metadata and a link to save
the document.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import sha256

from protocols.location import Kind, Url
from protocols.text import format_count
from resolver.transfer.response import Response, decode_as, is_textual, looks_like_text
from resolver.web import headers
from resolver.web.pages.article import MimePart, article_page, describe_parts, parts_of_document
from resolver.web.pages.directory import Judge, directory_page, results_page
from resolver.web.pages.gopher import attributes_page, menu_page
from resolver.web.pages.group import group_page
from resolver.web.pages.own import mail_page, service_page
from resolver.web.pages.page import (
    FactRow,
    PageAddressBar,
    PageQuery,
    WebPage,
    find_parent,
    list_facts,
    make_breadcrumbs,
    shorten,
)
from resolver.web.pages.sanitizer import allowed_markup
from resolver.web.pages.text import detect_media_type, find_base, part_values, text_of_markup

#: The media types of markup. Markup has three views: text, page (from the content port), and source.
_MARKUP = frozenset({"text/html", "application/xhtml+xml", "image/svg+xml", "text/xml", "application/xml"})
_LOOKS_LIKE_MARKUP = (b"<!doctype html", b"<html", b"<svg", b"<?xml")
#: File name extensions of executable content. If the user opens such a file, the operating system or a
#: browser runs its content.
_RUN = re.compile(r"desktop|lnk|url|scf|hta|jar|exe|msi|bat|cmd|ps1|sh|app|html?|svg|xhtml|mht")
#: Number of bytes for content sniffing, if the media type of a document is unknown.
_SNIFFED = 4096
#: The display forms that are shown in a frame from the content port.
_FRAMED = ("image", "audio", "video", "pdf")
#: The views of markup and their link texts.
_VIEWS = {"": "as text", "page": "as page", "source": "source"}


def choose_shape(response: Response) -> str:
    """Return the display form of a response: `image`, `audio`, `video`, `pdf`, `markup`, `text` or `octets`.

    If a browser parses the type, the first bytes of the document must match the signature of the type (magic
    bytes).
    """
    media_type = detect_media_type(response.content[:64])
    if media_type is not None:
        return media_type.partition("/")[0] if media_type != "application/pdf" else "pdf"
    essence = (response.media_type or "").partition(";")[0].strip().lower()
    first = response.content[:_SNIFFED]
    if essence in _MARKUP or (not essence and first.lstrip().lower().startswith(_LOOKS_LIKE_MARKUP)):
        return "markup"
    if is_textual(response.media_type):
        return "text"
    is_unknown = essence in ("", "application/octet-stream")
    return "text" if is_unknown and first and looks_like_text(first) else "octets"


def make_content(response: Response) -> tuple[bytes, str]:
    """Return a response's content for the content port, and a media type from the web UI's table.

    Markup is rewritten without references to other hosts, and encoded as UTF-8, so that a browser does not
    guess the charset.
    """
    media_type = detect_media_type(response.content[:64])
    if media_type is not None:
        return response.content, media_type
    essence = (response.media_type or "").partition(";")[0].strip().lower()
    text = decode_as(response.content, response.charset)
    is_xml = essence != "text/html" if essence else text.lstrip().startswith(("<?xml", "<svg"))
    return allowed_markup(text, is_xml=is_xml).encode("utf-8", "replace"), headers.HTML


def document_page(
    response: Response,
    query: PageQuery,
    bar: PageAddressBar,
    content: Callable[[bool], str],
    name: str = "",
    parts: Callable[[MimePart, bool], str] | None = None,
) -> WebPage:
    """Return the page of a document.

    Args:
        response: The response with the document.
        query: The query fields of the page.
        bar: The page's address bar.
        content: A function that returns the URL of the document on the content port. The argument True views
            the document, and False saves it.
        name: The file name of the document.
        parts: A function that returns the URL of a MIME part's content. The argument True views the content,
            and False saves it.
    """
    mime_parts: dict[str, object] = {}
    if parts is not None and (response.media_type or "").startswith("multipart/"):
        found = parts_of_document(response)
        mime_parts = {} if found is None else describe_parts(found, bar, parts)
    shape = "multipart" if mime_parts else choose_shape(response)
    view = query.view if shape == "markup" and query.view in _VIEWS else ""
    values: dict[str, object] = {
        "heading": response.title or name or shorten(bar.url),
        "shape": shape,
        "view": view,
        "views": _make_views(query, bar) if shape == "markup" else [],
        "metadata": [*list_facts(response), *_list_proofs(response)],
        "warnings": response.findings,
        "address": content(True) if shape in _FRAMED or view == "page" else None,
        "download": content(False),
        "saved": response.url,
        "name": name,
        "risky": _RUN.fullmatch(name.lower().rpartition(".")[2]) is not None,
        "media_type": detect_media_type(response.content[:64]),
        "parts": 0,
    }
    if mime_parts:
        values |= {**mime_parts, "mime_parts": mime_parts["parts"], "parts": 0}
    if shape == "text" or (shape == "markup" and view != "page"):
        text = decode_as(response.content, response.charset)
        if shape == "markup" and not view:
            text = text_of_markup(text, find_base(response.url))
        values |= part_values(text, query, bar)
    return WebPage("document.html", bar.url, 200, values)


def _make_views(query: PageQuery, bar: PageAddressBar) -> list[tuple[str, str, bool]]:
    chosen = query.view if query.view in _VIEWS else ""
    return [
        (words, bar.make_address(query._replace(view=view, page=1)), view == chosen)
        for view, words in _VIEWS.items()
    ]


def _list_proofs(response: Response) -> list[FactRow]:
    """Return metadata of the received bytes, such as a digest."""
    rows = [] if response.size is not None else [FactRow("size", format_count(len(response.content), "byte"))]
    rows.append(FactRow("sha256", sha256(response.content).hexdigest()))
    if response.verified:
        rows.append(FactRow("verified by", ", ".join(response.verified)))
    if response.peer is not None:
        rows.append(FactRow("from", response.peer))
    return rows


# The page for a response depends on the detected type of the content (MIME sniffing), not on the declared
# media type.

#: A function that stores a document for the content port. The function returns the URL of the document. The
#: arguments are the content, a media type from the web UI's table, a file name, and whether the document may
#: be viewed (True) or only saved (False).
StoreDocument = Callable[[bytes, str, str, bool], str]

#: The gopher item type of a search (RFC 1436 3.8).
_SEARCH_TYPE = "7"


def make_page(
    response: Response,
    url: Url,
    query: PageQuery,
    bar: PageAddressBar,
    store: StoreDocument,
    judge: Judge | None = None,
) -> WebPage:
    """Return the page for a response.

    Args:
        response: The response.
        url: The URL of the response.
        query: The query fields of the page.
        bar: The page's address bar.
        store: Stores a document for the content port.
        judge: Returns the policy verdict on the link of an entry.
    """
    if response.kind is Kind.SERVICE:
        return service_page(response, bar)
    if response.kind is Kind.ADDRESS:
        return mail_page(response, bar)
    if "attributes" in (response.extra or {}):
        return attributes_page(response, bar)
    if response.entries is not None or response.kind is Kind.SEARCH:
        return _make_listing_page(response, url, query, bar, judge)
    if response.kind is Kind.ARTICLE or (response.media_type or "").startswith("message/rfc822"):
        return article_page(response, query, bar, _make_part_url(store), thread=_find_group(url, bar))
    name = _find_name(url)
    return document_page(
        response,
        query,
        bar,
        lambda shown: _store_response(response, name, shown, store),
        name,
        _make_part_url(store),
    )


def _make_listing_page(
    response: Response, url: Url, query: PageQuery, bar: PageAddressBar, judge: Judge | None
) -> WebPage:
    if response.kind is Kind.GROUP:
        return group_page(response, query, bar)
    title, parts = response.title or _find_heading(url), url.components()
    words = str(parts.get("search") or "").encode("latin-1", "replace").decode("utf-8", "replace")
    if "gophertype" in parts:
        search = url.text if parts["gophertype"] == _SEARCH_TYPE else ""
        return menu_page(response, query, bar, title=title, judge=judge, search=search, words=words)
    if response.kind is Kind.SEARCH or "hits" in (response.extra or {}):
        title = response.title or str(parts.get("database") or title)
        return results_page(response, query, bar, title=title, words=words, search=url.text, judge=judge)
    return directory_page(response, query, bar, title=title, judge=judge)


def _store_response(response: Response, name: str, shown: bool, store: StoreDocument) -> str:
    octets, media_type = make_content(response) if shown else (response.content, headers.OCTETS)
    return store(octets, media_type, name, shown)


def _make_part_url(store: StoreDocument) -> Callable[[MimePart, bool], str]:
    def address(part: MimePart, shown: bool) -> str:
        media_type = detect_media_type(part.octets[:64]) if shown else None
        name = part.name or f"part-{part.number}"
        return store(part.octets, media_type or headers.OCTETS, name, shown and media_type is not None)

    return address


def _find_group(url: Url, bar: PageAddressBar) -> str | None:
    """Return the URL of the newsgroup page of an article, or None without a newsgroup."""
    group = None if url.components().get("group") is None else find_parent(url)
    return None if group is None else bar.href(group)


def _find_heading(url: Url) -> str | None:
    """Return the last segment of the path, or the host if the path is empty."""
    crumbs = make_breadcrumbs(url, str)
    return crumbs[-1].text.rpartition("://")[2] if crumbs else None


def _find_name(url: Url) -> str:
    """Return the last segment of the path, or an empty text."""
    names = [crumb.text for crumb in make_breadcrumbs(url, str)]
    return names[-1] if len(names) > 1 else ""
