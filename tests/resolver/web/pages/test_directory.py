"""Pages of listings: their entries, the sort order, and links to the other pages."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from resolver import Entry, Kind
from resolver.web.pages.directory import arrange_entries, directory_page
from resolver.web.pages.page import PageQuery, read_query, shorten
from tests.resolver.web.pages.facts import response
from tests.resolver.web.pages.skeleton import place, rendered, skeleton

ENTRIES = [
    Entry(name="b.txt", url="ftp://h.example/b.txt", kind=Kind.DOCUMENT, size=5),
    Entry(name="a", url="ftp://h.example/a/", kind=Kind.DIRECTORY, extra={"size_text": "2K"}),
    Entry(
        name="C.txt",
        url="ftp://h.example/C.txt",
        kind=Kind.DOCUMENT,
        modified=datetime(2026, 11, 1, 12, tzinfo=UTC),
    ),
]


@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        (PageQuery(), [1, 2, 3]),
        (PageQuery(sort="name"), [3, 2, 1]),
        (PageQuery(sort="size"), [2, 1, 3]),
        (PageQuery(sort="date"), [3, 1, 2]),
        (PageQuery(sort="nonsense"), [1, 2, 3]),
        (PageQuery(filter="c.TX"), [3]),
        (PageQuery(filter="txt", sort="name"), [3, 1]),
        (PageQuery(size=2, page=2), [3]),
        (PageQuery(size=2, page=9), [3]),
        (PageQuery(filter="(a+)+$"), []),
    ],
)
def test_arrange_entries_sorts_filters_and_pages(query: PageQuery, numbers: list[int]) -> None:
    assert [number for number, _ in arrange_entries(ENTRIES, query, place()).entries] == numbers


def test_paging_links_keep_sort_and_filter() -> None:
    paging = arrange_entries(ENTRIES, PageQuery(page=2, size=1, sort="name", filter="t&t"), place()).paging
    assert paging.pages == 1
    paging = arrange_entries(ENTRIES, PageQuery(page=2, size=1, sort="name"), place()).paging
    assert paging.previous == paging.first == "/u/here?from=FROM&sort=name"
    assert paging.next == paging.last == "/u/here?from=FROM&sort=name&page=3"
    assert place().make_address(PageQuery(filter="t&t")) == "/u/here?from=FROM&q=t%26t"


@pytest.mark.parametrize(
    ("pairs", "page"),
    [
        ([("page", "3")], 3),
        ([("page", "-1")], 1),
        ([("page", "0")], 1),
        ([("page", "9" * 5000)], 1),
        ([("page", "٣")], 1),
        ([], 1),
    ],
)
def test_read_query_with_invalid_page_returns_first(pairs: list[tuple[str, str]], page: int) -> None:
    assert read_query(pairs).page == page


def test_directory_page_of_many_rows_is_grouped() -> None:
    """Groups are required: one group per row is slower than no groups."""
    entries = [
        Entry(name=f"{n}.txt", url=f"ftp://h.example/{n}.txt", kind=Kind.DOCUMENT) for n in range(1_050)
    ]
    listing = replace(response("x", entries=entries), findings=())
    few, many = (rendered(directory_page(listing, PageQuery(size=size), place())) for size in (1_000, 1_050))
    assert few.count('<ul class="rows">') == 1
    assert many.count('<ul class="rows many">') == 11
    assert skeleton(many).elements.count(("li", ("class",))) == 1_050


def test_shorten_keeps_both_ends() -> None:
    title = shorten("ftp://h.example/" + "x" * 500 + "/name.txt")
    assert len(title) == 80
    assert title.startswith("ftp://h.example/")
    assert title.endswith("/name.txt")
