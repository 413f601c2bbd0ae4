"""The core without its optional packages (wings): its tests pass in a copy without them and the command."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import resolver
from tests.architecture.source import Module, is_within
from tests.fresh import environment
from tests.hang import HANG
from tools.requirements import read_pyproject

CHECKOUT = Path(__file__).parents[1]
CONTRACTS = read_pyproject()["tool"]["importlinter"]["contracts"]
(WINGS,) = [contract["forbidden_modules"] for contract in CONTRACTS if contract["id"] == "core"]
FOLDERS = ("tests/protocols", "tests/resolver")
#: Three tests of the core also run the command.
OPTIONS = ("-q", "-p", "no:second-attempts", "-p", "no:cacheprovider", "-k", "not test_command_")
COPIED = ("protocols", "resolver", "tests", "fixtures", "tools", "docs", "README.md", "pyproject.toml")


class FileImports:
    """The files of tests and fixtures, by module name, each read on demand."""

    def __init__(self) -> None:
        self._reached: dict[str, set[str]] = {}

    def independent(self, folder: str) -> list[str]:
        """Return the test files of the core below a folder that import no wing, even through others."""
        paths = [path for each in FOLDERS for path in sorted((CHECKOUT / each).rglob("test_*.py"))]
        names = [str(path.relative_to(CHECKOUT)) for path in paths]
        return [name for name in names if name.startswith(folder) and not self._needs_wing(name)]

    def _needs_wing(self, path: str) -> bool:
        name = path.removesuffix(".py").replace("/", ".")
        folders = name.split(".")[:-1]
        waiting = [name, *(".".join([*folders[: count + 1], "conftest"]) for count in range(len(folders)))]
        seen: set[str] = set()
        while waiting:
            if (each := waiting.pop()) not in seen:
                seen.add(each)
                waiting += self._imported(each)
        return any(_is_of_wing(each) for each in seen)

    def _imported(self, name: str) -> set[str]:
        """Return the imports of a module, and the packages imported with it."""
        if name not in self._reached:
            parts = name.split(".")
            found = {".".join(parts[:count]) for count in range(1, len(parts))}
            path = CHECKOUT.joinpath(*parts)
            file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
            if parts[0] in ("tests", "fixtures") and file.is_file():
                source = file.read_text(encoding="utf-8")
                found |= {each for each, _ in Module(name, source, path.is_dir()).imports}
            self._reached[name] = found
        return self._reached[name]


def _is_of_wing(name: str) -> bool:
    """Return whether a module, or a public name of the package, is of a wing."""
    package, _, public = name.rpartition(".")
    if package == "resolver" and public in resolver.__all__:
        name = getattr(getattr(resolver, public), "__module__", name)
    return any(is_within(name, wing) for wing in (*WINGS, "resolver.__main__"))


@pytest.mark.parametrize(
    ("folder", "least"),
    [
        ("tests/resolver/policy/test_judgment.py", 100),
        pytest.param("tests", 5_000, marks=pytest.mark.slow),
    ],
)
def test_core_passes_tests_without_optional_packages(folder: str, least: int, tmp_path: Path) -> None:
    """`least` is the minimum of passing tests, so that the choice of files is never empty."""
    for name in COPIED:
        source = CHECKOUT / name
        if source.is_dir():
            shutil.copytree(source, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, tmp_path / name)
    for wing in WINGS:
        shutil.rmtree(tmp_path / wing.replace(".", "/"))
    (tmp_path / "resolver/__main__.py").unlink()
    files = FileImports().independent(folder)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *OPTIONS, *files],
        cwd=tmp_path,
        env=environment() | {"PYTEST_ADDOPTS": ""},
        capture_output=True,
        encoding="utf-8",
        stdin=subprocess.DEVNULL,
        timeout=HANG,
    )
    assert done.returncode == 0, done.stdout[-40_000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) >= least
