"""Fixtures that run the server of each contract case."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from fixtures.__main__ import server_tls
from resolver.testing.contract import CaseSetting
from resolver.testing.contract.case import start
from tests.contract.cases import CASES, furnish


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ssl.SSLContext]:
    folder = tmp_path_factory.mktemp("tls")
    context, cafile = server_tls(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(cafile))
        patch.setenv("SSL_CERT_DIR", str(folder))
        yield context


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files") / "tree"
    furnish(folder)
    return folder


@pytest.fixture(params=CASES, ids=str)
async def setting(
    request: pytest.FixtureRequest, nursery: trio.Nursery, tls: ssl.SSLContext, folder: Path
) -> CaseSetting:
    return await start(request.param, nursery, tls, folder)
