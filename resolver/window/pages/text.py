"""Text in its charset, a part at a time, with the URLs in it as links (`extract`)."""

from __future__ import annotations

from collections.abc import Iterator

from protocols.values import NamedTuple
from resolver.extraction import extract
from resolver.retrieval.response import Response, decode_text
from resolver.window.pages.page import PageAddressBar, PageQuery, WebPage
from resolver.window.pages.words import facts_of

#: Characters of a part: what a browser lays out without pause.
PART = 1_048_576


class TextRun(NamedTuple):
    """A stretch of text; with `href` a link."""

    text: str
    href: str | None = None


def text_page(response: Response, query: PageQuery, place: PageAddressBar) -> WebPage:
    """One part of a document that is text."""
    text = response.text
    whole = decode_text(response.content, response.charset) if text is None else text
    values = {
        "heading": response.title or place.url,
        "known": tuple(facts_of(response)),
        "found": response.findings,
        **part_values(whole, query, place),
    }
    return WebPage("text.html", place.url, 200, values)


def part_values(text: str, query: PageQuery, place: PageAddressBar) -> dict[str, object]:
    """What `part.html` shows: the part of a text that `query.page` names."""
    cuts = [0]
    while len(text) - cuts[-1] > PART:
        end = text.rfind("\n", cuts[-1], cuts[-1] + PART) + 1
        cuts.append(end if end > cuts[-1] else cuts[-1] + PART)
    cuts.append(len(text))
    parts = len(cuts) - 1
    part = min(query.page, parts)
    return {
        "runs": list(runs_of(text[cuts[part - 1] : cuts[part]], place)),
        "part": part,
        "parts": parts,
        "previous": place.again(query._replace(page=part - 1)) if part > 1 else None,
        "next": place.again(query._replace(page=part + 1)) if part < parts else None,
    }


def runs_of(text: str, place: PageAddressBar) -> Iterator[TextRun]:
    """The text in stretches, those that are URLs as links: what is wrapped, from its `<` to its `>`."""
    at = 0
    for found in extract(text):
        end = text.index(">", found.position)
        yield TextRun(text[at : found.position + 1])
        yield TextRun(text[found.position + 1 : end], place.href(found.url))
        at = end
    if at < len(text):
        yield TextRun(text[at:])
