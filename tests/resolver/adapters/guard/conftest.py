"""Fixtures for the tests of the guard: the servers, and a table of names instead of DNS lookups."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.resolver.adapters.guard.network import MEANINGS, REDIRECTS, Names, Server, install, servers


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the proxy settings from the environment variables."""
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)


@pytest.fixture
def server() -> Iterator[Server]:
    with servers(REDIRECTS) as running:
        yield running


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    return install(monkeypatch, MEANINGS)
