"""Fixtures: the servers that the command contacts, started once for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.resolver.cli.places import Places, all_places


@pytest.fixture(scope="session")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    with all_places(tmp_path_factory.mktemp("places")) as result:
        yield result


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to an empty directory and return its path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NNTPSERVER", raising=False)
    return tmp_path


@pytest.fixture(name="at")
def _at(places: Places, folder: Path) -> dict[str, str]:
    """Return the values for the braces in the URLs of the tables; `{file}` is a local directory."""
    local = folder.parent / f"{folder.name}-served"
    local.mkdir()
    for name, content in (("about.txt", b"of this machine\n"), ("l\r\nies", b""), ("\x1b[31m", b"")):
        (local / name).write_bytes(content)
    ports = {f"{name}_port": url.rpartition(":")[2] for name, url in places.items()}
    return {**places, **ports, "file": local.as_uri()}
