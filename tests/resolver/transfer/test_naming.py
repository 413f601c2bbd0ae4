"""Name reservations, and the map that spills to disk, which has the same results in memory and on disk."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resolver.transfer import naming as aside
from resolver.transfer.naming import NameReservation, NameReservations, SpillMap


@pytest.fixture(autouse=True)
def _few_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aside, "MAX_IN_MEMORY", 3)


def test_spill_map_returns_stored_numbers() -> None:
    result = SpillMap()
    texts = [*"abcdefgh", "", "\udcff", "\ud800", "é"]
    assert [result.get(text) for text in texts] == [0] * len(texts)
    for number, text in enumerate(texts, 1):
        result.store(text, number)
    assert [result.get(text) for text in texts] == list(range(1, len(texts) + 1))
    for text in texts:
        result.store(text, 7)
    assert [result.get(text) for text in texts] == [7] * len(texts)


def test_spill_map_memory_is_bounded() -> None:
    result = SpillMap()
    for number in range(100):
        result.store(str(number), 1)
    assert len(vars(result)["_numbers"]) == 3


def test_reserved_names_are_numbered() -> None:
    names = NameReservations(lambda path, url: True)
    wanted = ["a", "b", "c", "d", "e", "a", "e", "e", "d/x", "d/x", "e.2"]
    result = [NameReservation(names, number).take(path, "x:") for number, path in enumerate(wanted)]
    assert result == ["a", "b", "c", "d", "e", "a.2", "e.2", "e.3", "d.2/x", "d.2/x.2", "e.2.2"]


def test_names_that_differ_in_case_or_form_only_are_numbered() -> None:
    names = NameReservations(lambda path, url: True)
    wanted = [
        "README",
        "readme",
        "Readme.2",
        "d/x",
        "D/X",
        "D",
        "caf\xe9",
        "cafe\u0301",
        "STRASSE",
        "stra\xdfe",
    ]
    result = [NameReservation(names, number).take(path, "x:") for number, path in enumerate(wanted)]
    assert result == [
        *("README", "readme.2", "Readme.2.2", "d/x", "D/X.2", "D.2"),
        *("caf\xe9", "cafe\u0301.2", "STRASSE", "stra\xdfe.2"),
    ]
    assert names.reserve_again(["ReadMe", "README.3", "D/y"]) == [False, True, True]


def test_names_hold_accepts_path_that_differs_in_case() -> None:
    """A path that the user gave is not changed: the user may want two names that differ only in case."""
    names = NameReservations(lambda path, url: True)
    assert [names.reserve_exact(path) for path in ("A", "a", "./A", "A/b", "c/d", "C/D")] == [
        *(True, True, False, False, True, True)
    ]
    assert NameReservation(names, 1).take("a", "x:") == "a.2"
    assert not names.reserve_exact("A.2")


@given(st.lists(st.sampled_from("abcdefghijkl"), max_size=54))
def test_spill_map_add_adds_only_new_keys(texts: list[str]) -> None:
    result, numbers = SpillMap(), dict[str, int]()
    for number, text in enumerate(texts, 1):
        assert result.add(text, number) == (text not in numbers)
        numbers.setdefault(text, number)
    assert [result.get(text) for text in "abcdefghijkl"] == [numbers.get(text, 0) for text in "abcdefghijkl"]


def test_reserve_again_accepts_earlier_names_once() -> None:
    names = NameReservations(lambda path, url: True)
    assert NameReservation(names, 1).take("a", "x:") == "a"
    assert NameReservation(names, 2).take("d/e", "x:") == "d/e"
    again = ["a", "a.2", "d", "d/e", "d/f", "a.2", "g/h", "a/b", "g", "i"]
    assert names.reserve_again(again) == [False, True, False, False, True, False, True, False, False, True]
    assert NameReservation(names, 3).take("a", "x:") == "a.4"
    assert NameReservation(names, 4).take("d/f", "x:") == "d/f.2"


def test_reserve_again_file_and_directory_of_one_name_accepts_first() -> None:
    paths = ["k", "k/l", "m/n", "m"]
    assert NameReservations().reserve_again(paths) == [True, False, True, False]
    names = NameReservations()
    assert [names.reserve(path, "x:") for path in paths] == ["k", "k.2/l", "m/n", "m.2"]
