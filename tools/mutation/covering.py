"""The tests that run a line, from the data of `make coverage`, which records the tests for each line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from coverage import CoverageData

#: The paths of slow tests, which run last.
_SLOW = ("tests/servers/", "tests/faults/", "tests/contract/", "tests/test_benchmarks.py")

#: The tests for modules that run only in child processes of tests. coverage does not record which tests run
#: such modules.
_PROCESS_TESTS = {
    "resolver/cli/": ("tests/resolver/cli", "tests/faults/test_interruption.py"),
    "resolver/network/": ("tests/faults/test_interruption.py",),
    "resolver/transfer/streaming.py": ("tests/faults/test_interruption.py",),
    "resolver/transfer/saving.py": ("tests/faults/test_interruption.py",),
    "resolver/transfer/retry.py": ("tests/faults/test_interruption.py",),
}


class CoverageIndex:
    """The tests by line, as pytest names without parameters; `data` is the data file of coverage."""

    def __init__(self, data: Path) -> None:
        self._data = CoverageData(str(data))
        self._data.read()
        self._files = {Path(name): name for name in self._data.measured_files()}

    def find_tests(self, module: Path, line: int) -> list[str]:
        """Return the tests that run a line of a module, with the tests of the same package first.

        For a line that runs at import, return all tests that run any line of the module.
        """
        name = next((name for path, name in self._files.items() if _ends_with(path, module)), None)
        if name is None:
            return []
        by_line = self._data.contexts_by_lineno(name)
        start = max(
            (number for number in by_line if number <= line), default=0
        )  # the start of a multi-line statement
        tests = set(by_line.get(start, ())) - {""} or set().union(*by_line.values()) - {""}
        nearest = sorted(tests, key=lambda test: (_is_slow(test), -_count_common_parts(test, module), test))
        return [*nearest, *_find_process_tests(module)]


def _ends_with(path: Path, module: Path) -> bool:
    return path.parts[-len(module.parts) :] == module.parts


def _find_process_tests(module: Path) -> Iterator[str]:
    for prefix, tests in _PROCESS_TESTS.items():
        if module.as_posix().startswith(prefix):
            yield from tests


def _is_slow(test: str) -> bool:
    return test.startswith(_SLOW)


def _count_common_parts(test: str, module: Path) -> int:
    """Return the number of folders and name parts that the path of the test shares with the module."""
    parts = set("/".join(module.with_suffix("").parts).replace("_", "/").split("/"))
    test_path = test.partition("::")[0].removesuffix(".py").replace("test_", "").replace("_", "/")
    return len(parts & set(test_path.split("/")))
