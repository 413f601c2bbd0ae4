"""The source distribution, and its declared dependencies and Python versions."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from itertools import chain
from pathlib import Path

import pytest

from tests.everywhere import interpreters
from tools.requirements import in_group, read_pyproject, requirements

CHECKOUT = Path(__file__).parents[1]


def test_sdist_has_every_file_of_repository(tmp_path: Path) -> None:
    if not (CHECKOUT / ".git").exists():
        pytest.skip("this is no repository")
    trusting = ["git", "-c", f"safe.directory={CHECKOUT}"]
    listed = subprocess.run([*trusting, "ls-files", "-z"], cwd=CHECKOUT, capture_output=True, check=True)
    command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(tmp_path)]
    subprocess.run(command, cwd=CHECKOUT, capture_output=True, check=True)
    with tarfile.open(next(tmp_path.iterdir())) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    assert set(listed.stdout.decode().split("\0")) - {""} <= held
    assert not {name for name in held if re.search(r"(^|/)(\.git|\.venvs?|\.servers|__pycache__)/", name)}


def test_paths_stay_inside_repository() -> None:
    """No file refers to a path above the top of the checkout."""
    for path in (path for folder in ("tests", "fixtures") for path in (CHECKOUT / folder).rglob("*.py")):
        depth = len(path.relative_to(CHECKOUT).parts)
        upwards = re.findall(r"\bparents\[(\d+)\]", path.read_text(encoding="utf-8"))
        assert all(int(steps) < depth for steps in upwards), path


#: A valid requirement: one lower bound, or a compatible release.
BOUND = re.compile(r"[\w-]+(\[\w+\])?(>=|~=)[0-9.]+")
PROJECT = read_pyproject()["project"]
EXTRAS = set(chain.from_iterable(PROJECT["optional-dependencies"].values()))
GROUPS = sorted(read_pyproject()["dependency-groups"])


def test_dependencies_have_lower_bounds() -> None:
    wanted = {*PROJECT["dependencies"], *EXTRAS, *chain.from_iterable(map(in_group, GROUPS))}
    assert {text for text in wanted if not BOUND.fullmatch(text)} == {"httpx[http2]"}


def test_group_full_includes_extras_with_equal_bounds() -> None:
    assert EXTRAS - {"httpx[http2]"} <= set(in_group("full"))


def test_requirements_lowest_pins_the_package_and_the_groups() -> None:
    plain = requirements(["lint", "test"])
    assert set(in_group("test")) < set(plain)
    pinned = requirements(["lint", "test"], lowest=True)
    assert set(pinned) == {text.replace(">=", "==") for text in (*PROJECT["dependencies"], *plain)}
    assert not [text for text in pinned if ">=" in text]


def test_no_group_is_published_as_an_extra() -> None:
    assert PROJECT["optional-dependencies"].keys().isdisjoint(GROUPS)


def test_interpreters_finds_pythons_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found on PATH and in the user's usual folders; virtual environments and other programs are not."""
    real = os.path.join(sys.base_prefix, "bin", f"python3.{sys.version_info.minor}")
    (tmp_path / "python3.99").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "python3.99").chmod(0o755)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("PYENV_ROOT", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path}:{Path(sys.executable).parent}:{Path(real).parent}")
    assert sys.version_info[:3] in [found.version for found in interpreters()]
    assert str(tmp_path / "python3.99") not in [found.path for found in interpreters()]


def test_metadata_names_supported_pythons() -> None:
    metadata = PROJECT
    pattern = re.compile(r"Programming Language :: Python :: (3\.\d+)")
    named = [found[1] for each in metadata["classifiers"] if (found := pattern.fullmatch(each))]
    assert named == [f"3.{minor}" for minor in range(11, 14)]  # the versions that tests have run with
    assert metadata["requires-python"] == f">={named[0]}"
    owner = re.search(r"^Copyright \(c\) \d+ (.*)$", (CHECKOUT / "LICENSE").read_text("utf-8"), re.MULTILINE)
    assert owner is not None
    assert metadata["authors"][0]["name"].lower() == owner[1].lower()
