"""A certificate authority for the TLS servers of the tests."""

from __future__ import annotations

import ssl
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


@pytest.fixture
def ours(authority: trustme.CA, tmp_path: Path) -> str:
    """Return the file of a client certificate and its key."""
    path = tmp_path / "ours.pem"
    authority.issue_cert("me@here.example").private_key_and_cert_chain_pem.write_to_path(str(path))
    return str(path)


@pytest.fixture
def tls(authority: trustme.CA, cafile: str) -> tuple[ssl.SSLContext, str]:
    """Return the TLS context of a server, and the file of the authority that issued its certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context, cafile
