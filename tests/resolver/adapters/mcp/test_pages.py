"""Pages: every one within its bounds, all of them together the whole, and no more held than may be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resolver.adapters.mcp.tools import (
    OCTETS,
    Content,
    NoSuchPage,
    Record,
    ResultPage,
    ResultStore,
    StoredResult,
)

ENTRIES = st.lists(st.text(max_size=9).map(lambda name: {"name": name}), max_size=30).map(tuple)
LINES = st.lists(st.sampled_from(["a", "bc\n", "\n", "long enough to be cut off\n"]), max_size=30).map(
    "".join
)


def all_pages(content: Content, length: int, width: int) -> list[ResultPage]:
    shelf = ResultStore()
    pages = [shelf.first(StoredResult(Record({}), content, 1), length, width)]
    while (cursor := pages[-1].cursor) is not None:
        pages.append(shelf.at(cursor, length, width))
    return pages


@given(content=LINES | st.binary(max_size=9), length=st.integers(1, 40))
def test_pages_of_text_are_the_text(content: str | bytes, length: int) -> None:
    pages = all_pages(content, length, 1)
    whole = content[:0]
    for page in pages:
        assert page.position == len(whole)
        assert isinstance(content, bytes) or 0 < len(page.content) <= length or not content
        whole += page.content  # type: ignore[operator]
    assert whole == content


@given(content=ENTRIES, length=st.integers(1, 200), width=st.integers(1, 5))
def test_pages_of_entries_are_the_entries(
    content: tuple[dict[str, object], ...], length: int, width: int
) -> None:
    pages = all_pages(content, length, width)
    found: list[object] = []
    for page in pages:
        assert isinstance(page.content, tuple)
        assert len(page.content) <= width
        assert len(page.content) <= 1 or len("".join(map(str, page.content))) <= length
        found += page.content
    assert found == list(content)


def test_octets_have_pages_of_their_own_size() -> None:
    sizes = [len(page.content) for page in all_pages(bytes(OCTETS * 2 + 1), 1, 1)]
    assert sizes == [OCTETS, OCTETS, 1]


def test_a_page_ends_at_a_line_where_one_is_near() -> None:
    assert [page.content for page in all_pages("one\ntwo\nthree", 6, 1)] == ["one\n", "two\n", "three"]
    assert [page.content for page in all_pages("1\nlonger", 6, 1)] == ["1\nlong", "er"]


@pytest.mark.parametrize("cursor", ["", "1", "1-0", "1-3", "2-1", "-1-1", "1-1 ", "١-١", "1-1-1", "9" * 40])
def test_what_is_no_cursor(cursor: str) -> None:
    shelf = ResultStore()
    shelf.first(StoredResult(Record({}), "abc", 1), 1, 1)
    assert shelf.at("1-1", 1, 1).content == "b"
    with pytest.raises(NoSuchPage):
        shelf.at(cursor, 1, 1)


def test_the_oldest_make_room_and_the_newest_stays() -> None:
    shelf = ResultStore(most=10)
    cursors = [shelf.first(StoredResult(Record({}), "abc", weight), 1, 1).cursor for weight in (4, 4, 4, 40)]
    assert cursors == ["1-1", "2-1", "3-1", "4-1"]
    for gone in ("1-1", "2-1", "3-1"):
        with pytest.raises(NoSuchPage):
            shelf.at(gone, 1, 1)
    assert shelf.at("4-1", 1, 1).content == "b"


def test_what_fits_one_page_is_not_held() -> None:
    shelf = ResultStore()
    assert shelf.first(StoredResult(Record({}), "ab", 2), 2, 1).cursor is None
    with pytest.raises(NoSuchPage):
        shelf.at("1-1", 1, 1)
