"""Tests of the message about a missing extra: its libraries come from the distribution's metadata."""

from __future__ import annotations

import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from protocols.errors import missing_libraries

CHECKOUT = Path(__file__).parents[2]
EXTRAS = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
#: An instruction to install a distribution whose name is not registered.
INSTALLS = re.compile(r"pip install[^\n]*url-resolver|url-resolver\[")


@pytest.fixture
def no_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)


@pytest.mark.parametrize("extra", [name for name, libraries in EXTRAS.items() if libraries])
@pytest.mark.usefixtures("no_libraries")
def test_missing_libraries_match_pyproject(extra: str) -> None:
    said = missing_libraries(extra)
    _, _, names = said.partition(f" (the extra {extra}): pip install ")
    assert sorted(names.split()) == sorted(re.split(r"[\[>]", each)[0] for each in EXTRAS[extra])
    assert "url-resolver" not in said


@pytest.mark.usefixtures("no_libraries")
def test_missing_libraries_of_html_name_lxml_and_its_version() -> None:
    assert missing_libraries("html") == "lxml 6 or later (the extra html): pip install lxml"


def test_missing_libraries_omit_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hypercorn", None)
    assert missing_libraries("web") == "hypercorn 0.18 or later (the extra web): pip install hypercorn"


def test_missing_libraries_without_metadata_name_the_extra() -> None:
    assert missing_libraries("more", "no-such-scheme") == (
        "the extra more of no-such-scheme, which is not installed"
    )


def test_missing_libraries_of_plugin_come_from_its_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    told = ["trio>=0.30", "no-such-library[tls]>=2.0,<3; extra == 'a'", 'other-missing ; extra == "b"']
    monkeypatch.setattr(metadata, "requires", {"more-schemes": told}.get)
    assert missing_libraries("a,b", "more-schemes") == (
        "no-such-library 2 or later, other-missing (the extra a,b): pip install no-such-library other-missing"
    )


def test_texts_do_not_suggest_installing_unregistered_name() -> None:
    files = [path for name in ("resolver", "protocols") for path in (CHECKOUT / name).rglob("*.py")]
    files += [CHECKOUT / "README.md", *(CHECKOUT / "docs").rglob("*.md")]
    assert [str(path) for path in files if INSTALLS.search(path.read_text(encoding="utf-8"))] == []
