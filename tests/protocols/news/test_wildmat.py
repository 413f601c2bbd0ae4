"""Patterns for group names: the whole name, case and all."""

from __future__ import annotations

import fnmatch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.news.wildmat import matches

CASES = [
    (b"*", b"", True),
    (b"*", b"comp.misc", True),
    (b"comp.*", b"comp.misc", True),
    (b"comp.*", b"comp.", True),
    (b"comp.*", b"comp", False),
    (b"comp.*", b"x.comp.misc", False),
    (b"*.misc", b"comp.misc", True),
    (b"*.misc", b"comp.misc.x", False),
    (b"c?mp", b"comp", True),
    (b"c?mp", b"cmp", False),
    (b"?", b"", False),
    (b"", b"", True),
    (b"", b"a", False),
    (b"comp.misc", b"comp.misc", True),
    (b"comp.misc", b"comp_misc", False),
    (b"Comp.*", b"comp.misc", False),
    (b"a*b*c", b"aXbXbXc", True),
    (b"a*b*c", b"aXbXbXd", False),
    (b"**a**", b"bab", True),
    (b"a.[bc]", b"a.b", False),
    (b"a.[bc]", b"a.[bc]", True),
]


@pytest.mark.parametrize(("pattern", "name", "expected"), CASES)
def test_a_pattern(pattern: bytes, name: bytes, expected: bool) -> None:
    assert matches(pattern, name) is expected


@given(st.text("ab*?", max_size=8), st.text("ab", max_size=12))
def test_as_file_names_are_matched(pattern: str, name: str) -> None:
    assert matches(pattern.encode(), name.encode()) == fnmatch.fnmatchcase(name, pattern)


def test_hostile_patterns_take_no_time() -> None:
    """A search that goes back for every star would not end in the life of a universe."""
    assert not matches(b"*a" * 240 + b"b", b"a" * 5_000)
