"""A directory, whatever lists it: names with what is known of each, to be sorted, filtered and paged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

from protocols.contract import Entry, Finding
from protocols.location import JsonValue, Kind
from protocols.values import NamedTuple
from resolver.window.pages.listing import Groups, Judge, ListingPage, Numbered, arranged, fields_of, forbidden
from resolver.window.pages.page import PageAddressBar, PageQuery, WebPage
from resolver.window.pages.words import KINDS, FactRow, counted, date_of, size_of, text_of


class DirectoryRow(NamedTuple):
    """One entry. `saved` is the URL that its button saves, empty where there is nothing to save."""

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
    """A column that a person may sort by."""

    name: str
    column: str
    href: str
    current: bool


def directory_page(
    entries: Sequence[Entry],
    query: PageQuery,
    place: PageAddressBar,
    *,
    title: str | None = None,
    findings: Iterable[Finding] = (),
    known: Iterable[FactRow] = (),
    judge: Judge | None = None,
) -> WebPage:
    """The part of a listing that `query` asks for. `judge` says of an entry whether it may be followed from
    here."""
    shown = arranged(entries, query, place)
    values = {
        "heading": title or place.url,
        "count": count_of(shown, query),
        "found": tuple(findings),
        "known": tuple(known),
        "groups": Groups(partial(_rows, shown.entries, place, judge), len(shown.entries)),
        "bare": all(size_of(entry) == date_of(entry) == "–" for _, entry in shown.entries),
        "heads": _heads(place, query),
        "filter": query.filter,
        "filter_fields": fields_of(place, query, but="q"),
        "unfiltered": place.again(query._replace(filter="", page=1)) if query.filter else None,
        "empty": "No name has that." if query.filter else "Nothing is in it.",
        "paging": shown.paging,
    }
    return WebPage("directory.html", place.url, 200, values)


def count_of(shown: ListingPage, query: PageQuery) -> str:
    """Which of how many."""
    if not shown.matched:
        return f"None of {shown.total:,} match." if query.filter else "Empty."
    among = f" that match, of {shown.total:,}" if query.filter else ""
    if shown.paging.pages == 1:
        return counted(shown.matched, "entry", "entries") + among
    first, last = shown.start + 1, shown.start + len(shown.entries)
    return f"{first:,} to {last:,} of {shown.matched:,}{among}"


def _rows(entries: Iterable[Numbered], place: PageAddressBar, judge: Judge | None) -> Iterator[DirectoryRow]:
    return (row_of(number, entry, place, judge) for number, entry in entries)


def row_of(number: int, entry: Entry, place: PageAddressBar, judge: Judge | None = None) -> DirectoryRow:
    """An entry that leads nowhere says why, where that is known."""
    cannot = forbidden(entry, judge)
    url = None if cannot else entry.url
    is_file = entry.kind in (Kind.DOCUMENT, Kind.ARTICLE)
    return DirectoryRow(
        number=number,
        kind=KINDS[entry.kind],
        icon=entry.kind.value,
        name=entry.name,
        href=None if url is None else place.href(url),
        leads_to=text_of(entry.extra, "link") if entry.kind is Kind.LINK else "",
        title=entry.title or "",
        note=f"cannot be opened: {cannot}" if cannot else _note(entry.extra),
        size=size_of(entry),
        date=date_of(entry),
        saved=(url or "") if is_file else "",
    )


def _note(extra: Mapping[str, JsonValue] | None) -> str:
    unusable = text_of(extra, "unusable")
    return f"leads nowhere: {unusable}" if unusable else ""


def _heads(place: PageAddressBar, query: PageQuery) -> list[SortColumn]:
    return [
        SortColumn(name, name, place.again(query._replace(sort=name, page=1)), query.sort == name)
        for name in ("name", "size", "date")
    ]
