"""Fixtures that run each test under asyncio and under uvloop, with servers in another thread."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import uvloop

from resolver.testing.contract import CaseSetting
from resolver.testing.contract.case import settle, start
from tests.contract.cases import CASES
from tests.contract.conftest import folder, tls
from tests.elsewhere import Elsewhere, settle_anywhere
from tests.sampled import sampled

__all__ = ["folder", "tls"]  # fixtures imported from elsewhere

Run: TypeAlias = "Callable[[Coroutine[Any, Any, Any]], Any]"


#: The two loops, and the loops for long tables: by default one, a different one in each part.
RUNS: dict[str, Run] = {"asyncio": asyncio.run, "uvloop": uvloop.run}
SAMPLED = sampled(RUNS, lambda name: None)


@pytest.fixture(params=SAMPLED)
def either(request: pytest.FixtureRequest) -> Run:
    """Return the runner of one of the two loops, like `run`."""
    return RUNS[request.param]


@pytest.fixture(params=RUNS)
def run(request: pytest.FixtureRequest) -> Run:
    """Return a function that runs a coroutine in a new loop."""
    return RUNS[request.param]


@pytest.fixture(autouse=True)
def _settled_anywhere() -> Iterator[None]:
    token = settle.set(settle_anywhere)
    yield
    settle.reset(token)


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[Elsewhere]:
    with Elsewhere() as there:
        yield there


@pytest.fixture(params=CASES, ids=str, scope="module")
def setting(
    request: pytest.FixtureRequest, elsewhere: Elsewhere, tls: ssl.SSLContext, folder: Path
) -> CaseSetting:
    """Start the server of a contract case in another thread."""
    return elsewhere.run(start, request.param, elsewhere.nursery, tls, folder)
