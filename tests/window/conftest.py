"""Chromium, for the tests of this folder: where it is not there they are skipped, and say how to get it."""

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
    """These first of all. A worker that has nothing left to do takes from the end of what another one has,
    and would start a browser and the servers of this folder of its own for a few tests."""
    items.sort(key=lambda item: not item.nodeid.startswith(_HERE))


@pytest.fixture(scope="package")
def public() -> Iterator[Site]:
    """A stranger's, which the browser takes for one of the public network."""
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
    """Mock servers of every scheme, and a directory of this machine."""
    folder = tmp_path_factory.mktemp("places")
    local = folder / "local"
    local.mkdir()
    (local / "a.txt").write_text("of this machine\nsee gopher://h.example/1\n")
    (local / "<b>&.txt").write_text("")
    with all_places(folder) as found:
        yield {**found, "local": local.as_uri()}


@pytest.fixture
def stranger() -> Iterator[Site]:
    with Site({}).running() as site:
        yield site


@pytest.fixture
def target() -> Iterator[Site]:
    """What must not be asked for."""
    with Site({"/secret": ("text/plain", "found")}).running() as site:
        yield site


@pytest.fixture(scope="package")
def open_house(chromium: Browser) -> Iterator[Opened]:
    """Of a person who lets pages lead to this machine: there the policy refuses nothing, and what keeps
    strangers out is the window itself."""
    settings = Settings(policy=Policy(allow_address={"127.0.0.0/8"}))
    with served(settings=settings) as opened:
        yield opened


@pytest.fixture(scope="package")
def window(chromium: Browser) -> Iterator[Opened]:
    with served() as opened:
        yield opened


class House(NamedTuple):
    """A server whose person lets pages lead to the mock servers, where those are, and what a browser that has
    entered holds."""

    window: Opened
    places: Places
    state: StorageState


@pytest.fixture(scope="package")
def house(chromium: Browser, places: Places) -> Iterator[House]:
    ports = {int(places[name].rpartition(":")[2]) for name in ("ftp", "gopher", "nntp", "wais", "prospero")}
    settings = Settings(policy=Policy(allow_address={"127.0.0.0/8"}, allow_port=ports))
    with Site(SHELF).running() as shelf, served(settings=settings) as window:
        viewer = Viewer(chromium)
        page = viewer.page()
        enter(page, window)
        state = page.context.storage_state()
        page.goto(f"{window.origin}/u/{quote(places['gopher'] + '/', safe='')}")  # so that there is a history
        viewer.close()
        yield House(window, {**places, "shelf": shelf.origin}, state)
