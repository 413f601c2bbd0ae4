"""Chromium, for the tests of this folder: where it is not there they are skipped, and say how to get it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.servers.packages import unavailable
from tests.window.browser import Viewer, program, running


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
