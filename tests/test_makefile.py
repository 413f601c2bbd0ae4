"""A step of `make check` or `make test` that fails makes the target fail."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.hang import HANG

CHECKOUT = Path(__file__).parents[1]
STEPS = ("ruff format", "ruff check", "mypy", "pytest")

#: A stand-in for Python: counts two workers, writes its arguments to `told`, fails in the step in `broken`.
PYTHON = """#!/bin/sh
[ "$1" != -c ] || { echo 2; exit 0; }
echo "$*" >>told
case "$*" in "-m $(cat broken)"*) exit 1;; esac
"""


def make(
    folder: Path, target: str, broken: str, *said: str, installed: bool = True
) -> tuple[int, Sequence[str]]:
    """Run a target with a stand-in for Python. Return the exit status, and the steps that began."""
    (folder / "tools").mkdir()
    (folder / "tools/requirements.py").touch()
    (folder / "pyproject.toml").touch()
    shutil.copy(CHECKOUT / "Makefile", folder)
    python = folder / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(PYTHON)
    python.chmod(0o755)
    if installed:
        (folder / ".venv/.installed").touch()
    (folder / "broken").write_text(broken)
    done = subprocess.run(
        ["make", "-C", str(folder), target, *said],
        env={"PATH": os.environ["PATH"]},  # a surrounding make passes its variables on
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=HANG,
    )
    told = (folder / "told").read_text()
    return done.returncode, [step for step in STEPS if f"-m {step}" in told]


@pytest.mark.parametrize("target", ["check", "test"])
@pytest.mark.parametrize("broken", STEPS)
def test_make_with_a_step_that_fails_fails(target: str, broken: str, tmp_path: Path) -> None:
    status, _ = make(tmp_path, target, broken)
    assert status != 0


@pytest.mark.parametrize("target", ["check", "test"])
def test_make_with_steps_that_pass_runs_each(target: str, tmp_path: Path) -> None:
    assert make(tmp_path, target, "nothing") == (0, list(STEPS))


@pytest.mark.parametrize("is_environment", [False, True])
def test_make_installed_makes_environment_unless_there(is_environment: bool, tmp_path: Path) -> None:
    """A Python in a folder without `pyvenv.cfg` would install into the Python that it is a link to."""
    (tmp_path / ".venv").mkdir()
    if is_environment:
        (tmp_path / ".venv/pyvenv.cfg").touch()
    status, _ = make(tmp_path, "installed", "nothing", "PYTHON=.venv/bin/python", installed=False)
    assert status == 0
    assert ("-m venv --clear .venv" in (tmp_path / "told").read_text()) != is_environment
