"""The servers and the names of these tests."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.resolver.adapters.guard.network import MEANINGS, REDIRECTS, Names, Server, install, servers


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the environment's proxies: they are for other clients."""
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)


@pytest.fixture
def server() -> Iterator[Server]:
    with servers(REDIRECTS) as running:
        yield running


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    return install(monkeypatch, MEANINGS)
