"""The tests that cover a line, the nearest first."""

from __future__ import annotations

from pathlib import Path

import pytest
from coverage import CoverageData

from tools.mutation.covering import CoverageIndex

MODULE = Path("resolver/transfer/retry.py")
RUN = {
    "": [1, 2, 5],
    "tests/faults/test_matrix.py::test_cell": [6, 9],
    "tests/resolver/test_saving.py::test_a": [6],
    "tests/resolver/test_retry.py::test_b": [6],
}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Write coverage data for a checkout at another path."""
    told = CoverageData(str(tmp_path / "data"))
    for test, lines in RUN.items():
        told.set_context(test)
        told.add_lines({f"/elsewhere/{MODULE}": lines})
    told.write()
    return tmp_path / "data"


@pytest.mark.parametrize(
    ("line", "tests"),
    [
        (6, ["test_retry.py::test_b", "test_saving.py::test_a", "test_matrix.py::test_cell"]),
        (9, ["test_matrix.py::test_cell"]),
        (8, ["test_retry.py::test_b", "test_saving.py::test_a", "test_matrix.py::test_cell"]),  # of line 6
        (5, ["test_retry.py::test_b", "test_saving.py::test_a", "test_matrix.py::test_cell"]),  # at import
    ],
)
def test_tests_of_line_are_nearest_first(data: Path, line: int, tests: list[str]) -> None:
    found = CoverageIndex(data).find_tests(MODULE, line)
    assert [test.rpartition("/")[2] for test in found] == [*tests, "test_interruption.py"]


def test_tests_of_unmeasured_module_are_none(data: Path) -> None:
    assert CoverageIndex(data).find_tests(Path("resolver/other.py"), 6) == []
