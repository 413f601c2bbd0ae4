"""The report of breaking changes compares the public names with those of the latest release."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import resolver

pytest.importorskip("griffe", reason="griffe is in the dependency group release")

from tools.api_diff import CHECKOUT, main, public_api

GIT = ["git", "-c", "user.name=a", "-c", "user.email=a@h.example", "-c", "commit.gpgsign=false"]


def repository(folder: Path) -> Path:
    for package in ("protocols", "resolver"):
        (folder / package).mkdir()
        (folder / package / "__init__.py").touch()
    (folder / "protocols/errors.py").write_text("class Refused(Exception):\n    rule: str\n")
    (folder / "resolver/inner.py").write_text("def fetch(url: str, *, limit: int = 1) -> None: ...\n")
    names = (("resolver.inner", "fetch"), ("protocols.errors", "Refused"))
    stub = "".join(f"from {module} import {name} as {name}\n" for module, name in names)
    (folder / "resolver/__init__.pyi").write_text(stub)
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*GIT, *command], cwd=folder, check=True)
    return folder


def test_api_diff_without_tag_reports_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(repository(tmp_path), None)
    assert capsys.readouterr().out == "api-diff: no tag v*: no release to compare with\n"


def test_api_diff_reports_changes_of_public_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A private module may change; a public function keeps its parameters, in each module that defines it."""
    folder = repository(tmp_path)
    subprocess.run([*GIT, "tag", "v0.1.0"], cwd=folder, check=True)
    main(folder, None)
    assert capsys.readouterr().out == "api-diff: 0 breaking changes since v0.1.0\n"
    (folder / "resolver/inner.py").write_text("def fetch(url: str) -> None: ...\n")
    (folder / "protocols/errors.py").write_text("class Refused(Exception): ...\n")
    main(folder, None)
    *changes, count = capsys.readouterr().out.splitlines()
    assert count == "api-diff: 2 breaking changes since v0.1.0"
    assert ["limit" in changes[0], "rule" in changes[1]] == [True, True]


def test_api_diff_compares_every_public_name() -> None:
    assert set(public_api(CHECKOUT).members) == set(resolver.__all__)
