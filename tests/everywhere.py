"""Print the supported Pythons of this machine, oldest first: `python -m tests.everywhere`.

`… newest` prints only the newest. `make test-all` runs the gate with each of them.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

#: Folders with Pythons in addition to PATH, if they are readable.
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

#: Prints the version; fails if the Python cannot make a virtual environment or is part of one.
_ASK = """
import ensurepip, json, sys, venv
ensurepip.version()
assert sys.prefix == sys.base_prefix
print(json.dumps(sys.version_info[:3]))
"""


class Interpreter(NamedTuple):
    version: tuple[int, ...]
    path: str


def interpreters() -> list[Interpreter]:
    """Return a Python of each supported version, oldest first."""
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


def main(wanted: str = "all") -> None:
    pythons = interpreters()
    if not pythons:
        sys.exit("no Python from 3.11 on that can make a virtual environment (Debian: python3-venv)")
    for python in pythons[-1:] if wanted == "newest" else pythons:
        print(python.path)


if __name__ == "__main__":
    main(*sys.argv[1:2])
