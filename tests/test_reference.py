"""The reference has every public name once, and no other names; `make docs` checks links and parameters."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import resolver

PAGES = Path(__file__).parents[1] / "docs/reference"


def test_public_names_are_on_one_page_each() -> None:
    told = [
        name
        for page in PAGES.glob("*.md")
        for name in re.findall(r"^::: resolver\.(\w+)$", page.read_text("utf-8"), re.MULTILINE)
    ]
    assert Counter(told) == Counter(resolver.__all__)


def test_index_links_every_page() -> None:
    overview = (PAGES / "index.md").read_text("utf-8")
    contents = (PAGES.parent / "mkdocs.yml").read_text("utf-8")
    for page in PAGES.glob("*.md"):
        assert page.name == "index.md" or f"({page.name})" in overview
        assert f": {page.name}\n" in contents
