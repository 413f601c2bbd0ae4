"""An article, or any message: its head, its text with what it quotes, and its parts."""

from __future__ import annotations

from collections.abc import Callable

from protocols.values import NamedTuple
from resolver.retrieval.response import Response
from resolver.window.pages.mime import MOST, MimePart, parts_of
from resolver.window.pages.page import PageAddressBar, PageQuery, WebPage
from resolver.window.pages.quotes import QuotedText, split
from resolver.window.pages.signatures import media_type_of_picture
from resolver.window.pages.text import PART, TextRun, runs_of
from resolver.window.pages.words import FactRow, octets, text_of

#: What a reader looks at first; everything else is among all headers.
_FIRST = ("from", "to", "cc", "date", "newsgroups", "followup-to")
#: Fields that are told: what has more was written to be read by nobody.
_MOST_FIELDS = 1_000
#: Parts of text that are shown one below the other, and characters of all of them.
_MOST_TEXTS = 20


class ArticleSummary(NamedTuple):
    """A part as it is listed. `show` is where it may be looked at, if it is a picture; `save` where it is."""

    number: int
    media_type: str
    name: str
    size: str
    show: str | None
    save: str


class ReadablePart(NamedTuple):
    """A part that is read on the page itself."""

    number: int
    split: QuotedText


def article_page(
    response: Response,
    query: PageQuery,
    place: PageAddressBar,
    contents: Callable[[MimePart, bool], str],
    *,
    thread: str | None = None,
) -> WebPage:
    """The article, or with the view `source` its octets as text. `contents` gives the address at which the
    octets of a part are had, to be looked at (True) or saved; `thread` the address of its group."""
    values: dict[str, object] = {
        "heading": response.title or "(no subject)",
        "source": query.view == "source",
        "source_href": place.again(query._replace(view="source", page=1)),
        "article_href": place.again(query._replace(view="", page=1)),
        "thread": thread,
        "saved": response.url,
        "found": response.findings,
        "first": _head(response),
        "all_fields": [FactRow(name, value) for name, value in response.meta[:_MOST_FIELDS]],
        "id": text_of(response.extra, "message_id"),
    }
    if query.view == "source":
        values |= {"runs": _source(response, place), "bodies": [], "parts": [], "more": False, "cut": False}
    else:
        values |= _parts(response, place, contents)
    return WebPage("article.html", response.title or place.url, 200, values)


def _head(response: Response) -> list[FactRow]:
    said: dict[str, str] = {}
    for name, value in response.meta:
        said.setdefault(name.lower(), value)
    return [FactRow(name.title(), said[name]) for name in _FIRST if said.get(name)]


def _source(response: Response, place: PageAddressBar) -> list[TextRun]:
    return list(runs_of(response.content[:PART].decode("latin-1"), place))


def _parts(
    response: Response, place: PageAddressBar, contents: Callable[[MimePart, bool], str]
) -> dict[str, object]:
    parts = parts_of(response.content, response.charset)
    bodies: list[ReadablePart] = []
    room = PART
    for part in parts:
        if part.is_body and room > 0 and len(bodies) < _MOST_TEXTS:
            text = part.text[:room]
            room -= len(text)
            bodies.append(ReadablePart(part.number, split(text, place)))
    alone = len(parts) == 1 and bool(bodies)
    return {
        "runs": [],
        "bodies": bodies,
        "parts": [] if alone else [_told(part, contents) for part in parts],
        "more": len(parts) >= MOST,
        "cut": room <= 0,
    }


def _told(part: MimePart, contents: Callable[[MimePart, bool], str]) -> ArticleSummary:
    is_picture = media_type_of_picture(part.octets) is not None
    show = contents(part, True) if is_picture else None
    return ArticleSummary(
        part.number, part.media_type, part.name, octets(len(part.octets)), show, contents(part, False)
    )
