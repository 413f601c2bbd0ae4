"""Which tests run a line: what `make coverage` has written, for it tells each line by test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from coverage import CoverageData

#: Tests that take long for what they are the only ones to notice: asked last.
_LATE = ("tests/servers/", "tests/faults/", "tests/contract/", "tests/test_benchmarks.py")

#: What is run by processes that tests start, of which coverage does not know the test; and those tests.
_IN_PROCESSES = {
    "resolver/cli/": ("tests/resolver/cli", "tests/faults/test_interruption.py"),
    "resolver/network/": ("tests/faults/test_interruption.py",),
    "resolver/transfer/streaming.py": ("tests/faults/test_interruption.py",),
    "resolver/transfer/saving.py": ("tests/faults/test_interruption.py",),
    "resolver/transfer/retry.py": ("tests/faults/test_interruption.py",),
}


class Covering:
    """`data` is the file of coverage. Tests are names for pytest, their cases taken together."""

    def __init__(self, data: Path) -> None:
        self._data = CoverageData(str(data))
        self._data.read()
        self._files = {Path(name): name for name in self._data.measured_files()}

    def tests_of(self, module: Path, line: int) -> list[str]:
        """Those that run the line of a module, nearest first. Of a line that runs when the module is
        imported, those that run anything of it."""
        name = next((name for path, name in self._files.items() if _ends_with(path, module)), None)
        if name is None:
            return []
        by_line = self._data.contexts_by_lineno(name)
        told = max((each for each in by_line if each <= line), default=0)  # a statement may have many lines
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
    """How many folders and words the names of both have in common."""
    words = set("/".join(module.with_suffix("").parts).replace("_", "/").split("/"))
    place = test.partition("::")[0].removesuffix(".py").replace("test_", "").replace("_", "/")
    return len(words & set(place.split("/")))
