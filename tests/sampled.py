"""The rows of long tables that are tried: in the gate one or a few of each kind, by a fixed rule; else all.

Most rows of a table of combinations are redundant. A row that is unlike all others is always tried; of rows
that are alike one or a few are. The gate has the same rows in every run, so the same commit gets the same
verdict. `RESOLVE_TESTS=full`, which `make test-full` sets, tries all rows, and the long form of each test
that has one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, TypeVar

import pytest

if TYPE_CHECKING:
    from resolver.testing import DialogueTranscript

FULL = os.environ.get("RESOLVE_TESTS") == "full"

#: The seed of all random choices of tests: 0 in the gate; `make test-full` sets another one each time, and
#: prints it.
SEED = int(os.environ.get("RESOLVE_SEED") or 0)

#: The gate tries one of so many Hypothesis examples.
_ONE_OF = 3

T = TypeVar("T")


def examples(most: int) -> int:
    """Return how many of `most` examples are tried."""
    return most if FULL else most // _ONE_OF


def sampled(rows: Iterable[T], kind: Callable[[T], Hashable], most: int = 1, *, full: bool = FULL) -> list[T]:
    """Choose `most` rows of each kind, in their order.

    The first kind begins at its first row, the second at its second: all values of a parameter that the rows
    are crossed with are tried, too.
    """
    kinds: dict[Hashable, list[T]] = {}
    for row in (rows := list(rows)):
        kinds.setdefault(kind(row), []).append(row)
    if full:
        return rows
    tried = {
        id(alike[(begin + at) % len(alike)])
        for begin, alike in enumerate(kinds.values())
        for at in range(most)
    }
    return [row for row in rows if id(row) in tried]


def kind_of(transcript: DialogueTranscript) -> Hashable:
    """Return the properties of a transcript that its sockets see.

    The properties select the rows of the tests over sockets. The tests in memory run every transcript, in a
    tenth of the time.
    """
    connections, outcome = transcript.connections, transcript.outcome
    scheme = transcript.url.partition(":")[0]
    return scheme, len(connections), connections[-1].end if connections else "", outcome.kind, outcome.error


#: Minimum of rows of a long table.
_LONG = 10


def crossed(items: Iterable[pytest.Item], name: str, *, full: bool = FULL) -> list[pytest.Function]:
    """Return the tests to leave out of long tables whose rows are crossed with the parameter `name`.

    Each row is tried with one value of it.
    """
    tables: dict[Hashable, dict[pytest.Function, Hashable]] = {}
    for item in items:
        if isinstance(item, pytest.Function) and hasattr(item, "callspec") and name in item.callspec.params:
            row = tuple((each, id(value)) for each, value in item.callspec.params.items() if each != name)
            tables.setdefault((item.path, item.originalname), {})[item] = row
    left = []
    for rows in tables.values():
        if len(set(rows.values())) >= _LONG:
            tried = set(sampled(rows, rows.__getitem__, full=full))
            left += [item for item in rows if item not in tried]
    return left
