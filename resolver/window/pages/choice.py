"""Which page a reply gets: by what it turned out to be, whatever it calls itself."""

from __future__ import annotations

from collections.abc import Callable

from protocols.location import Kind, Url
from resolver.retrieval.response import Response, decode_text
from resolver.window.pages.article import article_page
from resolver.window.pages.attributes import attributes_page
from resolver.window.pages.crumbs import crumbs_of, parent_of
from resolver.window.pages.directory import directory_page
from resolver.window.pages.document import content_of, document_page
from resolver.window.pages.group import group_page
from resolver.window.pages.listing import Judge
from resolver.window.pages.mail import mail_page
from resolver.window.pages.menu import menu_page
from resolver.window.pages.mime import MimePart
from resolver.window.pages.page import PageAddressBar, PageQuery, WebPage
from resolver.window.pages.results import results_page
from resolver.window.pages.service import service_page
from resolver.window.pages.signatures import media_type_of
from resolver.window.pages.words import FactRow, facts_of

#: Keeps octets for the content port: the octets, a media type of ours, a name, and whether they may be looked
#: at there (True) or saved only; gives the address.
Keep = Callable[[bytes, str, str, bool], str]

#: The type of an item that is asked for words (RFC 1436 3.8).
_SEARCHED = "7"
_OCTETS = "application/octet-stream"


def page_of(
    response: Response,
    url: Url,
    query: PageQuery,
    place: PageAddressBar,
    keep: Keep,
    judge: Judge | None = None,
) -> WebPage:
    """The page of a reply. `keep` is asked for what the page has from the content port; `judge` says of an
    entry of a menu whether it may be followed from here."""
    if response.kind is Kind.SERVICE:
        return service_page(response, place)
    if response.kind is Kind.ADDRESS:
        return mail_page(response, place)
    if "attributes" in (response.extra or {}):
        return attributes_page(response, place)
    if response.entries is not None or response.kind is Kind.SEARCH:
        return _listing(response, url, query, place, judge)
    if response.kind is Kind.ARTICLE or (response.media_type or "").startswith("message/rfc822"):
        return article_page(response, query, place, _parts(keep), thread=_thread(url, place))
    name = _name(url)
    return document_page(response, query, place, lambda shown: _kept(response, name, shown, keep), name)


def _listing(
    response: Response, url: Url, query: PageQuery, place: PageAddressBar, judge: Judge | None
) -> WebPage:
    entries, extra = response.entries or (), response.extra or {}
    title = response.title or _heading(url)
    if response.kind is Kind.GROUP:
        return group_page(entries, query, place, extra=extra, findings=response.findings)
    parts = url.components()
    words = str(parts.get("search") or "").encode("latin-1", "replace").decode("utf-8", "replace")
    if "gophertype" in parts:
        search = url.text if parts["gophertype"] == _SEARCHED else ""
        return menu_page(
            entries,
            query,
            place,
            findings=response.findings,
            title=title,
            judge=judge,
            search=search,
            words=words,
        )
    if response.kind is Kind.SEARCH or "hits" in extra:
        return results_page(
            entries,
            query,
            place,
            title=response.title or str(parts.get("database") or title),
            words=words,
            search=url.text,
            findings=response.findings,
            description="" if "hits" in extra else decode_text(response.content, response.charset),
            judge=judge,
        )
    return directory_page(
        entries,
        query,
        place,
        title=title,
        findings=response.findings,
        known=_of_listing(response),
        judge=judge,
    )


def _kept(response: Response, name: str, shown: bool, keep: Keep) -> str:
    octets, media_type = content_of(response) if shown else (response.content, _OCTETS)
    return keep(octets, media_type, name, shown)


def _parts(keep: Keep) -> Callable[[MimePart, bool], str]:
    def address(part: MimePart, shown: bool) -> str:
        media_type = media_type_of(part.octets[:64]) if shown else None
        name = part.name or f"part-{part.number}"
        return keep(part.octets, media_type or _OCTETS, name, shown and media_type is not None)

    return address


def _thread(url: Url, place: PageAddressBar) -> str | None:
    """The group of an article that was asked for in one."""
    group = None if url.components().get("group") is None else parent_of(url)
    return None if group is None else place.href(group)


def _of_listing(response: Response) -> list[FactRow]:
    """Nobody asks how a listing is written."""
    return [fact for fact in facts_of(response) if fact.name in ("modified",)]


def _heading(url: Url) -> str | None:
    """The name of the thing, or the host that it is the top of."""
    crumbs = crumbs_of(url, str)
    return crumbs[-1].text.rpartition("://")[2] if crumbs else None


def _name(url: Url) -> str:
    """The last segment of what is asked for, as words."""
    names = [crumb.text for crumb in crumbs_of(url, str)]
    return names[-1] if len(names) > 1 else ""
