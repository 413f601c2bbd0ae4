"""The contract that every scheme keeps, under asyncio and uvloop: by the tests of `tests/contract`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pytest

from tests.contract import test_endings, test_values
from tests.contract.cases import CASES, Case
from tests.contract.setting import Setting
from tests.loops.conftest import Run
from tests.sampled import sampled

Test: TypeAlias = "Callable[..., Coroutine[Any, Any, None]]"


class Row(NamedTuple):
    """A test of the contract, and what it is given beside its setting."""

    test: Test
    given: tuple[tuple[str, object], ...]

    def __str__(self) -> str:
        return "-".join([self.test.__name__.removeprefix("test_"), *(str(value) for _, value in self.given)])


#: It cancels as trio does; `test_cancels` has what asyncio does.
OTHERWISE = {test_endings.test_a_cancel_at_every_checkpoint}


def rows() -> Iterator[tuple[Case, Row]]:
    """Each test of one setting, for the cases that it is for."""
    for module in (test_values, test_endings):
        for name, test in vars(module).items():
            if not name.startswith("test_") or not inspect.iscoroutinefunction(test) or test in OTHERWISE:
                continue
            if "setting" in inspect.signature(test).parameters:
                for case in _cases(test):
                    for given in _given(test):
                        yield case, Row(test, given)


def _marks(test: Test) -> dict[str, list[Any]]:
    """The values that a test is for, by the name of its parameter."""
    return {mark.args[0]: list(mark.args[1]) for mark in getattr(test, "pytestmark", [])}


def _cases(test: Test) -> list[Case]:
    return _marks(test).get("setting", list(CASES))


def _given(test: Test) -> list[tuple[tuple[str, object], ...]]:
    names = _marks(test).get("name")
    return [()] if names is None else [(("name", name),) for name in names]


#: Each test with some of the cases by default.
TRIED = sampled(rows(), lambda each: each[1], 5)


@pytest.mark.parametrize(("setting", "row"), TRIED, indirect=["setting"], ids=str)
def test_as_under_trio(setting: Setting, row: Row, either: Run, tmp_path: Path) -> None:
    given = dict(row.given)
    if "tmp_path" in inspect.signature(row.test).parameters:
        given["tmp_path"] = tmp_path
    either(row.test(setting, **given))


def test_there_are_many_rows() -> None:
    assert len(list(rows())) > 10 * len(CASES)
