"""A listing on pages: filtered, sorted, and cut where a page of it ends. The order is stable, and a filter is
a plain text without regard to case: a pattern could keep everybody waiting."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice

from protocols.contract import Entry
from protocols.values import NamedTuple
from resolver.policy.verdict import Verdict
from resolver.window.pages.page import PageAddressBar, PageQuery
from resolver.window.pages.words import text_of

#: Above so many rows a page is made of lists of that many, each laid out when it is looked at.
MANY = 1_000
GROUP = 100

_UNITS = "KMGTPE"
_ROUNDED = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?) ?([KMGTPE]?)", re.IGNORECASE)

Numbered = tuple[int, Entry]

#: What the policy says of following an entry from its page.
Judge = Callable[[Entry], Verdict]


class Paging(NamedTuple):
    """Where a page of a listing stands, and the ways to the others; None where there is none."""

    page: int
    pages: int
    first: str
    previous: str | None
    next: str | None
    last: str
    action: str
    fields: tuple[tuple[str, str], ...]


class ListingPage(NamedTuple):
    """What of a listing is on one page: entries with their numbers in the listing, from 1 on; how many there
    are in all, and how many the filter let through."""

    entries: tuple[Numbered, ...]
    total: int
    matched: int
    start: int
    paging: Paging


def arranged(entries: Sequence[Entry], query: PageQuery, place: PageAddressBar) -> ListingPage:
    """The page of a listing that a person asked for; the last one where there are not so many."""
    total = len(entries)
    chosen: Sequence[Numbered] | None = None
    if query.filter or query.sort in ORDERS:
        chosen = list(_filtered(enumerate(entries, 1), query.filter))
        if query.sort in ORDERS:
            chosen.sort(key=ORDERS[query.sort])
    matched = total if chosen is None else len(chosen)
    pages = max(1, -(-matched // query.size))
    page = min(query.page, pages)
    start = (page - 1) * query.size
    if chosen is None:
        here = tuple(enumerate(islice(entries, start, start + query.size), start + 1))
    else:
        here = tuple(chosen[start : start + query.size])
    return ListingPage(here, total, matched, start, paging_of(place, query, page, pages))


def paging_of(place: PageAddressBar, query: PageQuery, page: int, pages: int) -> Paging:
    return Paging(
        page,
        pages,
        place.again(query._replace(page=1)),
        place.again(query._replace(page=page - 1)) if page > 1 else None,
        place.again(query._replace(page=page + 1)) if page < pages else None,
        place.again(query._replace(page=pages)),
        place.path,
        fields_of(place, query),
    )


def fields_of(place: PageAddressBar, query: PageQuery, *, but: str = "page") -> tuple[tuple[str, str], ...]:
    """What a form has to say again, besides the one thing that it asks."""
    before = str(query.before or "")
    said = {
        "from": place.from_id,
        "view": query.view,
        "q": query.filter,
        "sort": query.sort,
        "before": before,
    }
    relevant = (("relevant", url) for url in query.relevant)
    return (*((name, text) for name, text in said.items() if text and name != but), *relevant)


class Groups:
    """Rows of a page in lists, each row made when the page gets there: the first ones are sent, and seen,
    before the last ones are looked at. `made` begins anew each time; `count` is of the entries."""

    def __init__(self, made: Callable[[], Iterator[object]], count: int) -> None:
        self._made = made
        self._count = count
        self.many = count > MANY

    def __bool__(self) -> bool:
        return self._count > 0

    def __iter__(self) -> Iterator[Iterable[object]]:
        rows = self._made()
        if self._count and not self.many:
            yield rows
        while group := tuple(islice(rows, GROUP)):
            yield group


def forbidden(entry: Entry, judge: Judge | None) -> str:
    """Why an entry may not be followed from its page, and by which rule; empty where nothing speaks against
    it, or nobody asks."""
    verdict = None if judge is None or entry.url is None else judge(entry)
    if verdict is None or verdict.action != "refuse":
        return ""
    first = verdict.decisions[0]
    return f"{first.detail} ({first.rule})"


def _filtered(numbered: Iterable[Numbered], wanted: str) -> Iterable[Numbered]:
    if not wanted:
        return numbered
    folded = wanted.casefold()
    return (
        each
        for each in numbered
        if folded in each[1].name.casefold() or folded in (each[1].title or "").casefold()
    )


def _by_name(numbered: Numbered) -> tuple[str, int]:
    return numbered[1].name, numbered[0]


def _by_size(numbered: Numbered) -> tuple[float, str, int]:
    """The largest first; what has none last. A rounded size counts as what it says."""
    number, entry = numbered
    size = _rounded(entry) if entry.size is None else float(entry.size)
    return -size, entry.name, number


def _rounded(entry: Entry) -> float:
    found = _ROUNDED.match(text_of(entry.extra, "size_text"))
    if found is None:
        return -1.0
    return float(found[1]) * 1024.0 ** (_UNITS.find(found[2].upper()) + 1 if found[2] else 0)


def _by_date(numbered: Numbered) -> tuple[int, int]:
    """The newest first; what has none last."""
    number, entry = numbered
    said = f"{entry.modified:%Y%m%d%H%M%S}" if entry.modified else text_of(entry.extra, "modified_local")
    digits = re.sub(r"[^0-9]", "", said)[:14].ljust(14, "0")
    return -int(digits), number


ORDERS: Mapping[str, Callable[[Numbered], tuple[object, ...]]] = {
    "name": _by_name,
    "size": _by_size,
    "date": _by_date,
}
