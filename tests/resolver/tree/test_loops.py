"""What tells that two listings are alike."""

from __future__ import annotations

from resolver import Entry
from resolver.trees.scope import DirectoryDigest


def _likeness(*names: str) -> str:
    likeness = DirectoryDigest()
    for name in names:
        likeness.add(name.encode(), Entry(name=name))
    return likeness.text


def test_likeness_other_names_of_equal_count_differs() -> None:
    assert _likeness("a", "b") != _likeness("a", "c")


def test_likeness_other_order_is_equal() -> None:
    assert _likeness("a", "b") == _likeness("b", "a")
