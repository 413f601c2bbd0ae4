"""The pages of directories and search results, with metadata, sorting, a filter and pagination."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from protocols.contract import Entry
from protocols.location import JsonValue, Kind
from protocols.text import format_count
from resolver.policy.subject import Verdict
from resolver.transfer.response import Response, decode_as
from resolver.trees.order import ORDERS, Numbered
from resolver.web.pages.page import (
    KINDS,
    PageAddressBar,
    PageQuery,
    WebPage,
    format_date,
    format_size,
    get_text,
    list_facts,
)

# A listing is filtered, sorted, and divided into pages (pagination). The sort is stable. The filter is a
# case-insensitive substring and not a regular expression, which could take exponential time (ReDoS).

#: The rows of a page with more than `MANY` rows are divided into groups of `GROUP` rows. The browser lays out
#: a group only when it becomes visible.
MANY = 1_000
GROUP = 100

#: A function that returns the policy verdict on the link of an entry.
Judge = Callable[[Entry], Verdict]


class Paging(NamedTuple):
    """The pagination of a listing: the page number, and the links to other pages, None for a missing page."""

    page: int
    pages: int
    first: str
    previous: str | None
    next: str | None
    last: str
    action: str
    fields: tuple[tuple[str, str], ...]


class ListingPage(NamedTuple):
    """The entries on one page of a listing.

    - `entries` are pairs of number and entry. The number is the position in the listing, beginning with 1.
    - `total` is the number of all entries.
    - `matched` is the number of entries that match the filter.
    """

    entries: tuple[Numbered, ...]
    total: int
    matched: int
    start: int
    paging: Paging


def arrange_entries(entries: Sequence[Entry], query: PageQuery, bar: PageAddressBar) -> ListingPage:
    """Return the requested page of a listing, or the last page if the number is too high."""
    total = len(entries)
    chosen: Sequence[Numbered] | None = None
    if query.filter or query.sort in ORDERS:
        chosen = list(_filter_entries(enumerate(entries, 1), query.filter))
        if query.sort in ORDERS:
            chosen.sort(key=ORDERS[query.sort])
    matched = total if chosen is None else len(chosen)
    pages = max(1, -(-matched // query.size))
    page = min(query.page, pages)
    start = (page - 1) * query.size
    if chosen is None:
        shown = tuple(enumerate(islice(entries, start, start + query.size), start + 1))
    else:
        shown = tuple(chosen[start : start + query.size])
    return ListingPage(shown, total, matched, start, make_paging(bar, query, page, pages))


def make_paging(bar: PageAddressBar, query: PageQuery, page: int, pages: int) -> Paging:
    return Paging(
        page,
        pages,
        bar.make_address(query._replace(page=1)),
        bar.make_address(query._replace(page=page - 1)) if page > 1 else None,
        bar.make_address(query._replace(page=page + 1)) if page < pages else None,
        bar.make_address(query._replace(page=pages)),
        bar.path,
        list_hidden_fields(bar, query),
    )


def list_hidden_fields(
    bar: PageAddressBar, query: PageQuery, *, omitted: str = "page"
) -> tuple[tuple[str, str], ...]:
    """Return the hidden fields of a form that keeps all query fields except `omitted`."""
    before = str(query.before or "")
    values = {
        "from": bar.from_id,
        "view": query.view,
        "q": query.filter,
        "sort": query.sort,
        "before": before,
    }
    relevant = (("relevant", url) for url in query.relevant)
    return (*((name, text) for name, text in values.items() if text and name != omitted), *relevant)


def make_filter(response: Response, query: PageQuery, bar: PageAddressBar) -> dict[str, object]:
    """Return the values for the findings and the filter field of a listing."""
    return {
        "warnings": response.findings,
        "filter": query.filter,
        "filter_fields": list_hidden_fields(bar, query, omitted="q"),
        "unfiltered": bar.make_address(query._replace(filter="", page=1)) if query.filter else None,
    }


class Groups:
    """The rows of a page in groups, generated lazily.

    Rows are generated while the page is sent, so the browser shows the first rows early. Each call of
    `make_rows` returns a new iterator over the rows. `count` is the number of rows.
    """

    def __init__(self, make_rows: Callable[[], Iterator[object]], count: int) -> None:
        self._make_rows = make_rows
        self._count = count
        self.many = count > MANY

    def __bool__(self) -> bool:
        return self._count > 0

    def __iter__(self) -> Iterator[Iterable[object]]:
        rows = self._make_rows()
        if self._count and not self.many:
            yield rows
        while group := tuple(islice(rows, GROUP)):
            yield group


def explain_forbidden(entry: Entry, judge: Judge | None) -> str:
    """Return the rule and the reason if the policy forbids the link of an entry, or an empty text."""
    verdict = None if judge is None or entry.url is None else judge(entry)
    if verdict is None or verdict.action != "refuse":
        return ""
    first = verdict.decisions[0]
    return f"{first.detail} ({first.rule})"


def _filter_entries(numbered: Iterable[Numbered], text: str) -> Iterable[Numbered]:
    if not text:
        return numbered
    folded = text.casefold()
    return (
        pair
        for pair in numbered
        if folded in pair[1].name.casefold() or folded in (pair[1].title or "").casefold()
    )


class DirectoryRow(NamedTuple):
    """A row for an entry; `saved` is the URL for the save button, or an empty text without a button."""

    number: int
    kind: str
    icon: str
    name: str
    href: str | None
    leads_to: str
    title: str
    note: str
    size: str
    date: str
    saved: str


class SortColumn(NamedTuple):
    name: str
    href: str
    current: bool


def directory_page(
    response: Response,
    query: PageQuery,
    bar: PageAddressBar,
    *,
    title: str | None = None,
    judge: Judge | None = None,
) -> WebPage:
    """Return the page of a directory.

    Args:
        response: The response with the listing.
        query: The query fields of the page.
        bar: The page's address bar.
        title: The heading; by default the URL.
        judge: Returns the policy verdict on the link of an entry.
    """
    shown = arrange_entries(response.entries or (), query, bar)
    values = {
        **make_filter(response, query, bar),
        "heading": title or bar.url,
        "count": describe_count(shown, query),
        # Size and media type are omitted, because users do not need them.
        "metadata": [fact for fact in list_facts(response) if fact.name == "modified"],
        "groups": Groups(
            lambda: (make_row(number, entry, bar, judge) for number, entry in shown.entries),
            len(shown.entries),
        ),
        "bare": all(format_size(entry) == format_date(entry) == "–" for _, entry in shown.entries),
        "heads": _make_columns(bar, query),
        "empty": "No name matches the filter." if query.filter else "The listing is empty.",
        "paging": shown.paging,
    }
    return WebPage("directory.html", bar.url, 200, values)


def describe_count(shown: ListingPage, query: PageQuery) -> str:
    """Return a text with the range of entries on the page and the total number of entries."""
    if not shown.matched:
        return f"0 of {shown.total:,} entries match." if query.filter else "Empty."
    among = f" that match, of {shown.total:,}" if query.filter else ""
    if shown.paging.pages == 1:
        return format_count(shown.matched, "entry", "entries") + among
    first, last = shown.start + 1, shown.start + len(shown.entries)
    return f"{first:,} to {last:,} of {shown.matched:,}{among}"


def make_row(number: int, entry: Entry, bar: PageAddressBar, judge: Judge | None = None) -> DirectoryRow:
    """Return the row of an entry; without a usable link, it has the reason, if known."""
    cannot = explain_forbidden(entry, judge)
    url = None if cannot else entry.url
    is_file = entry.kind in (Kind.DOCUMENT, Kind.ARTICLE)
    return DirectoryRow(
        number=number,
        kind=KINDS[entry.kind],
        icon=entry.kind.value,
        name=entry.name,
        href=None if url is None else bar.href(url),
        leads_to=get_text(entry.extra, "link") if entry.kind is Kind.LINK else "",
        title=entry.title or "",
        note=f"cannot be opened: {cannot}" if cannot else _describe_unusable(entry.extra),
        size=format_size(entry),
        date=format_date(entry),
        saved=(url or "") if is_file else "",
    )


def _describe_unusable(extra: Mapping[str, JsonValue] | None) -> str:
    unusable = get_text(extra, "unusable")
    return f"has no link: {unusable}" if unusable else ""


def _make_columns(bar: PageAddressBar, query: PageQuery) -> list[SortColumn]:
    return [
        SortColumn(name, bar.make_address(query._replace(sort=name, page=1)), query.sort == name)
        for name in ("name", "size", "date")
    ]


# Search results, in the order of the server, with scores as bars and numbers.

#: The maximum score of a search result. WAIS servers scale scores to this maximum.
BEST = 1000


class ResultRow(NamedTuple):
    """A row for a search result.

    Attributes:
        types: The additional media types, each with its URL.
        cannot: The reason for a missing link.
        markable: The URL of the document for relevance feedback (a search for similar documents).
    """

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
    """The scheme of a search, and the search results that the user has marked for relevance feedback."""

    scheme: str
    relevant: frozenset[str]


def results_page(
    response: Response,
    query: PageQuery,
    bar: PageAddressBar,
    *,
    title: str,
    words: str = "",
    search: str = "",
    judge: Judge | None = None,
) -> WebPage:
    """Return the page of search results.

    Args:
        response: The response with the search results, or with the description of a database.
        query: The query fields of the page.
        bar: The page's address bar.
        title: The heading.
        words: The search terms.
        search: The URL for a search with other search terms.
        judge: Returns the policy verdict on the link of a search result.
    """
    shown = arrange_entries(response.entries or (), query._replace(sort=""), bar)
    is_description = "hits" not in (response.extra or {})
    marks = _SearchMarks(search.partition(":")[0], frozenset(query.relevant))
    values = {
        "heading": title,
        "words": words,
        "search": search,
        "count": format_count(shown.total, "hit") if words else "",
        "warnings": response.findings,
        "hits": [_make_hit(number, entry, bar, judge, marks) for number, entry in shown.entries],
        "best": BEST,
        "marks": bool(words and search),
        "like": format_count(len(query.relevant), "marked hit") if query.relevant else "",
        "description": decode_as(response.content, response.charset) if is_description else "",
        "paging": shown.paging,
    }
    return WebPage("results.html", bar.url, 200, values)


def _make_hit(
    number: int, entry: Entry, bar: PageAddressBar, judge: Judge | None, marks: _SearchMarks
) -> ResultRow:
    extra = entry.extra or {}
    score = extra.get("score")
    types = extra.get("types")
    names = [str(name) for name in types] if isinstance(types, list) else []
    lines = extra.get("lines")
    size = "" if entry.size is None else f"{entry.size:,} bytes"
    if isinstance(lines, int) and lines and not size:
        size = f"{lines:,} lines"
    cannot = explain_forbidden(entry, judge)
    can_mark = not cannot and entry.kind is Kind.DOCUMENT and (entry.url or "").startswith(f"{marks.scheme}:")
    markable = entry.url if can_mark and entry.url else ""
    return ResultRow(
        number,
        entry.name,
        None if cannot or entry.url is None else bar.href(entry.url),
        max(0, min(score, BEST)) if isinstance(score, int) and not isinstance(score, bool) else None,
        size,
        "" if entry.modified is None else format_date(entry)[:10],
        names[0] if names else get_text(extra, "media_type"),
        () if cannot else tuple(_link_other_types(names, entry, bar)),
        cannot,
        markable,
        markable in marks.relevant,
    )


def _link_other_types(names: Sequence[str], entry: Entry, bar: PageAddressBar) -> Iterator[tuple[str, str]]:
    others = (entry.extra or {}).get("other_types")
    for name, url in zip(names[1:], others if isinstance(others, list) else [], strict=False):
        if isinstance(url, str):
            yield name, bar.href(url)
