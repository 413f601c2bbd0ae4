"""What is tried of long tables by default: of each kind of row some, by a fixed rule; and what `full` means.

A table that crosses many things says the same of most of them over and over. So a row that nothing else is
like is always tried, and of those that are alike one or a few: which ones `RESOLVE_PART` chooses (0 without
it). The rounds of continuous integration have a part each, others every day, and so try the whole by and by.
`RESOLVE_FAULTS=full` tries all rows, and the long form of whatever has one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

import pytest

FULL = os.environ.get("RESOLVE_FAULTS") == "full"
PART = int(os.environ.get("RESOLVE_PART") or 0)

#: Of how many examples that Hypothesis could try it tries one by default.
_ONE_OF = 3

T = TypeVar("T")


def examples(most: int) -> int:
    """How many of so many examples are tried: a part of them, for every run tries others."""
    return most if FULL else most // _ONE_OF


def sampled(
    rows: Iterable[T], kind: Callable[[T], Hashable], most: int = 1, *, part: int = PART, full: bool = FULL
) -> list[T]:
    """Of each kind `most` rows, in their order, others in each part until all had their turn. Kinds begin at
    different rows, so that what they are crossed with is there too."""
    kinds: dict[Hashable, list[T]] = {}
    for row in (rows := list(rows)):
        kinds.setdefault(kind(row), []).append(row)
    if full:
        return rows
    tried = {
        id(alike[(begin + part * most + at) % len(alike)])
        for begin, alike in enumerate(kinds.values())
        for at in range(most)
    }
    return [row for row in rows if id(row) in tried]


#: Rows from which on a table is long.
_LONG = 10


def crossed(
    items: Iterable[pytest.Item], name: str, *, part: int = PART, full: bool = FULL
) -> list[pytest.Function]:
    """The tests to leave out where the rows of a long table are crossed with a parameter of that name: each
    row is tried with one value of it."""
    tables: dict[Hashable, dict[pytest.Function, Hashable]] = {}
    for item in items:
        if isinstance(item, pytest.Function) and hasattr(item, "callspec") and name in item.callspec.params:
            row = tuple((each, id(value)) for each, value in item.callspec.params.items() if each != name)
            tables.setdefault((item.path, item.originalname), {})[item] = row
    left = []
    for rows in tables.values():
        if len(set(rows.values())) >= _LONG:
            tried = set(sampled(rows, rows.__getitem__, part=part, full=full))
            left += [item for item in rows if item not in tried]
    return left
