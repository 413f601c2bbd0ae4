"""Threads of a group: untrusted references place each article exactly once."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resolver import Entry, Kind
from resolver.web.pages.group import group_page, parse_author, threads
from resolver.web.pages.page import PageQuery
from tests.resolver.web.pages.facts import response
from tests.resolver.web.pages.skeleton import place, rendered


def article(number: int, message_id: str = "", *references: str) -> Entry:
    return Entry(
        name=str(number),
        url=f"nntp://h.example/g/{number}",
        kind=Kind.ARTICLE,
        title=f"subject {number}",
        extra={"message_id": message_id, "references": list(references), "from": "A <a@h.example>"},
    )


def outline_threads(*entries: Entry) -> list[str]:
    """Return each thread as article numbers.

    Each dot before a number is a level of depth. `!` marks an article whose parent is missing.
    """
    return [
        " ".join("." * node.depth + node.entry.name + "!" * node.orphan for node in thread)
        for thread in threads(entries)
    ]


@pytest.mark.parametrize(
    ("entries", "outlined"),
    [
        (
            (article(1, "a"), article(2, "b", "a"), article(3, "c", "a", "b"), article(4, "d", "a")),
            ["1 .2 ..3 .4"],
        ),
        ((article(1, "a"), article(2, "b")), ["2", "1"]),
        # The thread with the newest reply is first.
        ((article(1, "a"), article(2, "b"), article(3, "c", "a")), ["1 .3", "2"]),
        ((article(2, "b", "gone"), article(3, "c", "gone", "b")), ["2! .3"]),
        # Below the nearest ancestor in the listing.
        ((article(1, "a"), article(3, "c", "a", "gone")), ["1 .3!"]),
        ((article(1, "a", "b"), article(2, "b", "a")), ["1 .2"]),  # A cycle.
        ((article(1, "a", "a"),), ["1!"]),
        (
            (article(1, "a"), article(2, "b", "c"), article(3, "c", "d"), article(4, "d", "b")),
            ["2 .4 ..3", "1"],
        ),
        # Two articles with the same ID.
        ((article(1, "a"), article(2, "a"), article(3, "c", "a")), ["1 .3", "2"]),
        ((article(1), article(2), article(3, "", "")), ["3!", "2", "1"]),  # Articles without IDs.
        ((article(1, "a"), article(2, "b", "<a>")), ["1 .2"]),
        (
            (Entry(name="1", kind=Kind.ARTICLE), Entry(name="2", kind=Kind.ARTICLE, extra={"references": 5})),
            ["2", "1"],
        ),
    ],
)
def test_threads_place_articles_below_their_parent(entries: tuple[Entry, ...], outlined: list[str]) -> None:
    assert outline_threads(*entries) == outlined


@given(
    st.lists(
        st.tuples(st.sampled_from("abcdef "), st.lists(st.sampled_from("abcdefgh"), max_size=3)), max_size=12
    )
)
def test_threads_contain_articles_exactly_once(articles: list[tuple[str, list[str]]]) -> None:
    entries = [article(number, name.strip(), *names) for number, (name, names) in enumerate(articles)]
    nodes = [node for thread in threads(entries) for node in thread]
    assert sorted(int(node.entry.name) for node in nodes) == list(range(len(entries)))
    for thread in threads(entries):
        assert thread[0].depth == 0
        assert thread[0].replies == len(thread) - 1
        assert all(0 < after.depth <= before.depth + 1 for before, after in pairwise(thread))


def test_threads_of_20000_replies_have_full_depth() -> None:
    entries = [article(n, f"m{n}", f"m{n - 1}") for n in range(20_000)]
    (thread,) = threads(entries)
    assert thread[-1].depth == 19_999
    assert thread[0].replies == 19_999


def test_group_page_splits_long_thread() -> None:
    """A longer thread continues on the next page."""
    entries = [article(n, f"m{n}", f"m{n - 1}") for n in range(1, 1_201)]
    first, last = (
        rendered(
            group_page(
                response("x", entries=entries), PageQuery(page=page, size=500), place("nntp://h.example/g")
            )
        )
        for page in (1, 3)
    )
    assert first.count('<a href="/u/') - 1 == 500 + 1  # Breadcrumb and link to the next page.
    assert "1199 replies" in first
    assert "thread, continued" in last
    assert ">subject 1200<" in last.replace("<bdi>", "").replace("</bdi>", "<")


def test_group_page_lists_missing_numbers() -> None:
    page = group_page(response("x", entries=[article(n) for n in (3, 5, 9)]), PageQuery(), place())
    assert page.values["missing"] == "4 numbers have no article: 4, 6 to 8"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Ann Author <ann@h.example>", "Ann Author"),
        ('"Ann" <ann@h.example>', "Ann"),
        ("ann@h.example (Ann Author)", "Ann Author"),
        ("<ann@h.example>", "<ann@h.example>"),
        ("ann@h.example", "ann@h.example"),
        ("", "(unknown)"),
    ],
)
def test_author_of_returns_display_name(text: str, name: str) -> None:
    assert parse_author(text) == name
