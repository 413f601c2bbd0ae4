"""The tests that run a line, from the data of `make coverage`, which records the tests for each line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from coverage import CoverageData

#: The paths of slow tests, which run last.
_LATE = ("tests/servers/", "tests/faults/", "tests/contract/", "tests/test_benchmarks.py")

#: The tests for modules that run only in child processes of tests. coverage does not record which tests run
#: such modules.
_IN_PROCESSES = {
    "resolver/cli/": ("tests/resolver/cli", "tests/faults/test_interruption.py"),
    "resolver/network/": ("tests/faults/test_interruption.py",),
    "resolver/transfer/streaming.py": ("tests/faults/test_interruption.py",),
    "resolver/transfer/saving.py": ("tests/faults/test_interruption.py",),
    "resolver/transfer/retry.py": ("tests/faults/test_interruption.py",),
}


class Covering:
    """The tests by line, as pytest names without parameters; `data` is the data file of coverage."""

    def __init__(self, data: Path) -> None:
        self._data = CoverageData(str(data))
        self._data.read()
        self._files = {Path(name): name for name in self._data.measured_files()}

    def tests_of(self, module: Path, line: int) -> list[str]:
        """Return the tests that run a line of a module, with the tests of the same package first.

        For a line that runs at import, return all tests that run any line of the module.
        """
        name = next((name for path, name in self._files.items() if _ends_with(path, module)), None)
        if name is None:
            return []
        by_line = self._data.contexts_by_lineno(name)
        told = max(
            (each for each in by_line if each <= line), default=0
        )  # the start of a multi-line statement
        found = set(by_line.get(told, ())) - {""} or set().union(*by_line.values()) - {""}
        nearest = sorted(found, key=lambda test: (_is_late(test), -_nearness(test, module), test))
        return [*nearest, *_in_processes(module)]


def _ends_with(path: Path, module: Path) -> bool:
    return path.parts[-len(module.parts) :] == module.parts


def _in_processes(module: Path) -> Iterator[str]:
    for place, tests in _IN_PROCESSES.items():
        if module.as_posix().startswith(place):
            yield from tests


def _is_late(test: str) -> bool:
    return test.startswith(_LATE)


def _nearness(test: str, module: Path) -> int:
    """Return the number of folders and name parts that the path of the test shares with the module."""
    words = set("/".join(module.with_suffix("").parts).replace("_", "/").split("/"))
    place = test.partition("::")[0].removesuffix(".py").replace("test_", "").replace("_", "/")
    return len(words & set(place.split("/")))
