"""A sample has every kind, and is the same in every run."""

from __future__ import annotations

from pathlib import Path

import pytest

from resolver.testing import CUTTERS
from tests.sampled import crossed, sampled

CHECKOUT = Path(__file__).parents[1]

ROWS = ["a1", "b1", "a2", "c1", "a3", "b2", "a4", "a5"]


@pytest.mark.parametrize("most", [1, 2, 9])
def test_sampled_has_rows_of_every_kind_in_order(most: int) -> None:
    found = sampled(ROWS, lambda row: row[0], most, full=False)
    assert found == sorted(found, key=ROWS.index)
    for kind in "abc":
        count = sum(row[0] == kind for row in ROWS)
        assert sum(row[0] == kind for row in found) == min(most, count)


def test_sampled_kinds_begin_at_different_rows() -> None:
    rows = [(kind, crossed) for kind in "abc" for crossed in range(3)]
    found = sampled(rows, lambda row: row[0], full=False)
    assert {crossed for _, crossed in found} == {0, 1, 2}


def collected(session: pytest.Session, path: str) -> list[pytest.Function]:
    module = pytest.Module.from_parent(session, path=CHECKOUT / path)
    return [item for item in session.genitems(module) if isinstance(item, pytest.Function)]


def is_cut(item: pytest.Function) -> bool:
    return hasattr(item, "callspec") and "cutter" in item.callspec.params


def test_crossed_long_table_has_one_value_per_row(request: pytest.FixtureRequest) -> None:
    """The module's transcripts are split in three ways; its other tests are not left out."""
    items = collected(request.session, "tests/protocols/gopher/test_transcripts.py")
    long = {item.nodeid for item in items if is_cut(item)}
    left = {item.nodeid for item in crossed(items, "cutter", full=False)}
    assert left < long
    values = [item.callspec.params for item in items if item.nodeid in long - left]
    assert len(values) == len({id(each["transcript"]) for each in values}) == len(long) // 3
    assert {each["cutter"] for each in values} == set(CUTTERS)


def test_crossed_short_table_has_every_value(request: pytest.FixtureRequest) -> None:
    items = collected(request.session, "tests/protocols/gopher/test_menu.py")
    assert any(map(is_cut, items))
    assert crossed(items, "cutter", full=False) == []


def test_sampled_full_returns_every_row() -> None:
    assert sampled(ROWS, len, full=True) == ROWS
