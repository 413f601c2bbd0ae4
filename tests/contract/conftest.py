"""Every row of the contract with its server running."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from tests.contract.cases import CASES, furnish
from tests.contract.setting import Setting, start, trusted


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ssl.SSLContext]:
    with trusted(tmp_path_factory.mktemp("tls")) as context:
        yield context


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files") / "tree"
    furnish(folder)
    return folder


@pytest.fixture(params=CASES, ids=str)
async def setting(
    request: pytest.FixtureRequest, nursery: trio.Nursery, tls: ssl.SSLContext, folder: Path
) -> Setting:
    return await start(request.param, nursery, tls, folder)
