"""The fragments of the changelog are well-formed, and towncrier moves them into CHANGELOG.md."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools.requirements import read_pyproject

CHECKOUT = Path(__file__).parents[1]
TYPES = [each["directory"] for each in read_pyproject()["tool"]["towncrier"]["type"]]
NAME = re.compile(rf"\+[a-z0-9-]+\.(?:{'|'.join(TYPES)})\.md")
#: The area, a colon, a sentence; on one line.
LINE = re.compile(r"[\w ,-]+: \S[^\n]*\.\n")


def is_well_formed(name: str, text: str) -> bool:
    return bool(NAME.fullmatch(name) and LINE.fullmatch(text)) and len(text.split()) <= 25


def test_fragments_are_well_formed() -> None:
    fragments = [path for path in (CHECKOUT / "changes").iterdir() if path.name != ".gitkeep"]
    assert [path.name for path in fragments if not is_well_formed(path.name, path.read_text("utf-8"))] == []


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("+sizes.feature.md", "get: resume files of any size.\n", True),
        ("sizes.feature.md", "get: resume files of any size.\n", False),
        ("+sizes.other.md", "get: resume files of any size.\n", False),
        ("+sizes.fix.md", "Resume files of any size.\n", False),
        ("+sizes.fix.md", "get: resume files of any size\n", False),
        ("+sizes.fix.md", "get: resume files.\nls: print names.\n", False),
        ("+sizes.fix.md", f"get: {'word ' * 24}end.\n", False),
    ],
)
def test_is_well_formed_checks_name_and_line(name: str, text: str, expected: bool) -> None:
    assert is_well_formed(name, text) is expected


def test_section_of_first_release_is_short() -> None:
    _, _, section = (CHECKOUT / "CHANGELOG.md").read_text("utf-8").partition("\n## 0.1.0")
    assert section.partition("\n## ")[0].count("\n- ") <= 25


@pytest.mark.skipif(importlib.util.find_spec("towncrier") is None, reason="towncrier is in the group release")
def test_towncrier_moves_fragments_into_changelog(tmp_path: Path) -> None:
    for name in ("pyproject.toml", "CHANGELOG.md"):
        shutil.copy(CHECKOUT / name, tmp_path)
    (tmp_path / "changes").mkdir()
    (tmp_path / "changes/+sizes.feature.md").write_text("get: resume files of any size.\n")
    command = [sys.executable, "-m", "towncrier", "build", "--yes", "--date", "2030-01-01"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    version = read_pyproject()["project"]["version"]
    section = f"## {version} (2030-01-01)\n\n### Features\n\n- get: resume files of any size.\n"
    before, _, after = (tmp_path / "CHANGELOG.md").read_text("utf-8").partition(section)
    assert before.endswith("<!-- the next release -->\n\n")
    assert after.lstrip().startswith("## ")
    assert list((tmp_path / "changes").iterdir()) == []
