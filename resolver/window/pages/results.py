"""What a search found: hits with their scores as bars and as numbers, in the server's order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from protocols.contract import Entry, Finding
from protocols.location import Kind
from protocols.values import NamedTuple
from resolver.window.pages.listing import Judge, arranged, forbidden
from resolver.window.pages.page import PageAddressBar, PageQuery, WebPage
from resolver.window.pages.words import counted, date_of, text_of

#: The best score of a hit: what the WAIS servers scale theirs to.
BEST = 1000


class ResultRow(NamedTuple):
    """One hit; `types` are the forms it comes in besides the first, each with its address; `cannot` says why
    it leads nowhere. `markable` is the URL by which others like it may be asked for."""

    number: int
    headline: str
    href: str | None
    score: int | None
    size: str
    date: str
    first_type: str
    types: tuple[tuple[str, str], ...]
    cannot: str = ""
    markable: str = ""
    marked: bool = False


class _SearchMarks(NamedTuple):
    """The scheme of the search, and the hits that were marked for it."""

    scheme: str
    relevant: frozenset[str]


def results_page(
    entries: Sequence[Entry],
    query: PageQuery,
    place: PageAddressBar,
    *,
    title: str,
    words: str = "",
    search: str = "",
    findings: Iterable[Finding] = (),
    description: str = "",
    judge: Judge | None = None,
) -> WebPage:
    """The hits of a search for `words`; `search` is the URL that other words are asked of, `description` what
    a database says of itself."""
    shown = arranged(entries, query._replace(sort=""), place)
    asked = _SearchMarks(search.partition(":")[0], frozenset(query.relevant))
    values = {
        "heading": title,
        "words": words,
        "search": search,
        "count": counted(shown.total, "hit", "hits") if words else "",
        "found": tuple(findings),
        "hits": [_hit(number, entry, place, judge, asked) for number, entry in shown.entries],
        "best": BEST,
        "marks": bool(words and search),
        "like": counted(len(query.relevant), "marked hit", "marked hits") if query.relevant else "",
        "description": description,
        "paging": shown.paging,
    }
    return WebPage("results.html", place.url, 200, values)


def _hit(
    number: int, entry: Entry, place: PageAddressBar, judge: Judge | None, asked: _SearchMarks
) -> ResultRow:
    extra = entry.extra or {}
    score = extra.get("score")
    types = extra.get("types")
    names = [str(each) for each in types] if isinstance(types, list) else []
    lines = extra.get("lines")
    size = "" if entry.size is None else f"{entry.size:,} octets"
    if isinstance(lines, int) and lines and not size:
        size = f"{lines:,} lines"
    cannot = forbidden(entry, judge)
    can_be = not cannot and entry.kind is Kind.DOCUMENT and (entry.url or "").startswith(f"{asked.scheme}:")
    markable = entry.url if can_be and entry.url else ""
    return ResultRow(
        number,
        entry.name,
        None if cannot or entry.url is None else place.href(entry.url),
        max(0, min(score, BEST)) if isinstance(score, int) and not isinstance(score, bool) else None,
        size,
        "" if entry.modified is None else date_of(entry)[:10],
        names[0] if names else text_of(extra, "media_type"),
        () if cannot else tuple(_others(names, entry, place)),
        cannot,
        markable,
        markable in asked.relevant,
    )


def _others(names: Sequence[str], entry: Entry, place: PageAddressBar) -> Iterator[tuple[str, str]]:
    others = (entry.extra or {}).get("other_types")
    for name, url in zip(names[1:], others if isinstance(others, list) else [], strict=False):
        if isinstance(url, str):
            yield name, place.href(url)
