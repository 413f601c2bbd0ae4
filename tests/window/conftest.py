"""Chromium, for the tests of this folder: where it is not there they are skipped, and say how to get it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.cli.places import Places, all_places
from tests.servers.packages import unavailable
from tests.window.browser import Viewer, program, running
from tests.window.served import Opened, served


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    path = program()
    if path is None:
        unavailable("chromium is not there; `apt-get install chromium` installs Debian's")
    with running(path) as browser:
        yield browser


@pytest.fixture
def viewer(chromium: Browser) -> Iterator[Viewer]:
    found = Viewer(chromium)
    yield found
    found.close()


@pytest.fixture(scope="package")
def places(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    """Mock servers of every scheme, and a directory of this machine."""
    folder = tmp_path_factory.mktemp("places")
    local = folder / "local"
    local.mkdir()
    (local / "a.txt").write_text("of this machine\nsee gopher://h.example/1\n")
    (local / "<b>&.txt").write_text("")
    with all_places(folder) as found:
        yield {**found, "local": local.as_uri()}


@pytest.fixture(scope="package")
def window(chromium: Browser) -> Iterator[Opened]:
    with served() as opened:
        yield opened
