"""Chromium for the tests of this folder.

Without Chromium, the tests are skipped with a hint that names the installation command.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, StorageState

from resolver import Policy, Settings
from tests.resolver.cli.places import Places, all_places
from tests.servers.packages import unavailable
from tests.window.browser import Viewer, program, running
from tests.window.kinds import SHELF
from tests.window.served import Opened, Site, served
from tests.window.steps import enter

_HERE = "tests/window/"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests of this folder first.

    An idle worker takes tests from the end of another worker's queue. For a few tests it would then start its
    own browser and servers.
    """
    items.sort(key=lambda item: not item.nodeid.startswith(_HERE))


@pytest.fixture(scope="package")
def public() -> Iterator[Site]:
    """Run an untrusted site that the browser treats as part of the public network."""
    with Site({}).running() as site:
        yield site


@pytest.fixture(scope="package")
def chromium(public: Site) -> Iterator[Browser]:
    path = program()
    if path is None:
        unavailable("chromium is not there; `apt-get install chromium` installs Debian's")
    with running(path, f"--ip-address-space-overrides=127.0.0.1:{public.port}=public") as browser:
        yield browser


@pytest.fixture
def viewer(chromium: Browser) -> Iterator[Viewer]:
    found = Viewer(chromium)
    yield found
    found.close()


@pytest.fixture(scope="package")
def places(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    """Run mock servers of every scheme; return their URLs and a local directory."""
    folder = tmp_path_factory.mktemp("places")
    local = folder / "local"
    local.mkdir()
    (local / "a.txt").write_text("of this machine\nsee gopher://h.example/1\n")
    (local / "<b>&.txt").write_text("")
    with all_places(folder) as found:
        yield {**found, "local": local.as_uri()}


@pytest.fixture
def untrusted() -> Iterator[Site]:
    with Site({}).running() as site:
        yield site


@pytest.fixture
def target() -> Iterator[Site]:
    """Run a site that must not be requested."""
    with Site({"/secret": ("text/plain", "found")}).running() as site:
        yield site


@pytest.fixture(scope="package")
def permissive(chromium: Browser) -> Iterator[Opened]:
    """Run a server whose policy lets pages link to this machine; only the access rules protect it."""
    settings = Settings(policy=Policy(allow_address={"127.0.0.0/8"}))
    with served(settings=settings) as opened:
        yield opened


@pytest.fixture(scope="package")
def window(chromium: Browser) -> Iterator[Opened]:
    with served() as opened:
        yield opened


class PopulatedServer(NamedTuple):
    """A server whose policy allows the mock servers, their URLs, and the state of an entered browser."""

    window: Opened
    places: Places
    state: StorageState


@pytest.fixture(scope="package")
def populated(chromium: Browser, places: Places) -> Iterator[PopulatedServer]:
    ports = {int(places[name].rpartition(":")[2]) for name in ("ftp", "gopher", "nntp", "wais", "prospero")}
    settings = Settings(policy=Policy(allow_address={"127.0.0.0/8"}, allow_port=ports))
    with Site(SHELF).running() as shelf, served(settings=settings) as window:
        viewer = Viewer(chromium)
        page = viewer.page()
        enter(page, window)
        state = page.context.storage_state()
        page.goto(f"{window.origin}/u/{quote(places['gopher'] + '/', safe='')}")  # Fills the history.
        viewer.close()
        yield PopulatedServer(window, {**places, "shelf": shelf.origin}, state)
