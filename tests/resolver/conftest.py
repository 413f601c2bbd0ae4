"""A certificate authority for servers that the tests speak to in TLS."""

from __future__ import annotations

from pathlib import Path

import pytest
import trustme


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="session")
def cafile(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> str:
    path: Path = tmp_path_factory.mktemp("authority") / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return str(path)
