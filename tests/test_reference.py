"""The reference has every public name once; the site has every page, and builds without a warning."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

import resolver
import resolver.bulk
import resolver.testing

CHECKOUT = Path(__file__).parents[1]
PAGES = CHECKOUT / "docs/reference"
#: The functions, classes and values on the pages of the reference.
DESCRIBED = [
    name
    for page in PAGES.glob("*.md")
    for name in re.findall(
        r"^\.\. (?:auto|py:)(?!module|current)\w+:: (\S+)$", page.read_text("utf-8"), re.MULTILINE
    )
]


@pytest.mark.parametrize("module", [resolver, resolver.blocking, resolver.bulk, resolver.testing])
def test_reference_describes_each_public_name_once(module: ModuleType) -> None:
    shown = getattr(module, "__all__", set(vars(module)) - {"annotations"})
    public = [n for n in shown if n[0] != "_" and not isinstance(getattr(module, n), ModuleType)]
    described = [name.rpartition(".")[::2] for name in DESCRIBED]
    assert Counter(name for owner, name in described if owner == module.__name__) == Counter(public)


def test_reference_index_links_every_page() -> None:
    overview = (PAGES / "index.md").read_text("utf-8")
    assert {page.name for page in PAGES.glob("*.md")} - set(re.findall(r"\(([\w-]+\.md)\)", overview)) == {
        "index.md"
    }


@pytest.mark.slow
def test_site_builds_without_warning_and_loads_from_no_host(tmp_path: Path) -> None:
    for package in ("sphinx", "furo", "myst_parser"):
        pytest.importorskip(package, reason="the group docs is not installed")
    options = ("-q", "-W", "--keep-going", "-n", "-d", str(tmp_path / "trees"))
    command = [sys.executable, "-m", "sphinx", *options, "docs", str(tmp_path / "site")]
    built = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True)
    assert (built.returncode, built.stderr) == (0, "")
    pages = {
        path.relative_to(tmp_path / "site"): path.read_text("utf-8")
        for path in (tmp_path / "site").rglob("*.html")
    }
    sources = {path.relative_to(CHECKOUT / "docs") for path in (CHECKOUT / "docs").rglob("*.md")}
    assert {path.with_suffix(".html") for path in sources} <= pages.keys()
    text = "".join(pages.values())
    assert not re.findall(r"<(?:script|link|img)\b[^>]*(?:src|href)=\"(?:https?:)?//[^>]*", text)
    assert not re.findall(r"TypeAliasForwardRef|&lt;factory", text)
    shown = set(re.findall(r' id="(resolver\.[\w.]+)"', text))
    assert set(DESCRIBED) <= shown
    settings = {
        each.rpartition(".")[2] for each in shown if re.match(r"resolver\.(Network)?Settings\.", each)
    }
    assert settings == resolver.Settings.__annotations__.keys()
