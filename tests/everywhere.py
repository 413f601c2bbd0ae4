"""The suite with every Python of this machine, then with the lowest dependencies that we promise.

`python -m tests.everywhere` (`make test-all`) makes a virtual environment for each run below `.venvs` and
says at the end which ones passed. `python -m tests.everywhere lowest` makes the last run alone, `… newest`
tells where the newest Python is.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, cast

CHECKOUT = Path(__file__).parents[1]

#: Where Pythons are beside those on PATH, as far as one may look there.
_PLACES = (
    "/usr/bin",
    "/usr/local/bin",
    "/opt/python/*/bin",
    "/opt/hostedtoolcache/Python/*/*/bin",
    "{pyenv}/versions/*/bin",
    "{home}/.local/share/uv/python/*/bin",
)
_NAME = re.compile(r"python3\.[0-9]+")
_OLDEST = (3, 11)

#: Tells its version, and fails where it cannot make a virtual environment or is of one itself.
_ASK = """
import ensurepip, json, sys, venv
ensurepip.version()
assert sys.prefix == sys.base_prefix
print(json.dumps(sys.version_info[:3]))
"""


class Interpreter(NamedTuple):
    version: tuple[int, ...]
    path: str

    @property
    def number(self) -> str:
        return ".".join(map(str, self.version))


def interpreters() -> list[Interpreter]:
    """One of each version that can run us, oldest first."""
    found: dict[tuple[int, ...], Interpreter] = {}
    for path in _candidates():
        done = subprocess.run([path, "-Ic", _ASK], capture_output=True)
        if done.returncode == 0 and (version := tuple(json.loads(done.stdout))) >= _OLDEST:
            found.setdefault(version, Interpreter(version, path))
    return sorted(found.values())


def _candidates() -> Iterator[str]:
    home = os.environ.get("HOME", "/")
    pyenv = os.environ.get("PYENV_ROOT", f"{home}/.pyenv")
    places = [place.format(pyenv=pyenv, home=home).removeprefix("/") for place in _PLACES]
    folders = [Path(folder) for folder in os.environ.get("PATH", "").split(":") if folder]
    folders += [folder for place in places for folder in sorted(Path("/").glob(place))]
    for folder in dict.fromkeys(folders):
        if os.access(folder, os.R_OK | os.X_OK):
            yield from (str(path) for path in sorted(folder.iterdir()) if _NAME.fullmatch(path.name))


def project() -> dict[str, Any]:
    """What pyproject.toml says of the distribution."""
    found: dict[str, Any] = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))
    return cast("dict[str, Any]", found["project"])


def lowest_bounds() -> list[str]:
    """`name==version` for each dependency with a lower bound, the optional ones too."""
    table = project()
    wanted = [*table["dependencies"], *chain.from_iterable(table["optional-dependencies"].values())]
    return sorted({requirement.replace(">=", "==") for requirement in wanted if ">=" in requirement})


def run(python: Interpreter, name: str, bounds: list[str]) -> bool:
    """Make the environment `name`, and run the suite in it. Did all of it pass?"""
    print(f"== {name}: {python.path}", flush=True)
    folder = CHECKOUT / ".venvs" / name
    inside = str(folder / "bin" / "python")
    workers = str((os.cpu_count() or 1) + 1)
    steps = [
        [python.path, "-m", "venv", "--clear", str(folder)],
        [inside, "-m", "pip", "install", "-q", "--disable-pip-version-check", "-e", ".[dev]", *bounds],
        [inside, "-m", "pytest", "-q", "-n", workers, "--dist", "worksteal"],
    ]
    return all(subprocess.run(step, cwd=CHECKOUT).returncode == 0 for step in steps)


def main(wanted: str = "all") -> int:
    pythons = interpreters()
    if not pythons:
        sys.exit("no Python from 3.11 on that can make a virtual environment (Debian: python3-venv)")
    if wanted == "newest":
        print(pythons[-1].path)
        return 0
    passed = {python.number: run(python, python.number, []) for python in pythons if wanted == "all"}
    passed["lowest"] = run(pythons[0], "lowest", lowest_bounds())
    for name, well in passed.items():
        print(f"{name:<8} {'passed' if well else 'FAILED'}")
    return 0 if all(passed.values()) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
