"""The plug-in for pytest: `pytest_plugins = ["resolver.testing.plugin"]` in a test module, or `-p`."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from resolver.testing.certificates import server_tls
from resolver.testing.contract.running import Contract, names


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize a contract class with its checks and cases."""
    if metafunc.cls is not None and issubclass(metafunc.cls, Contract):
        metafunc.parametrize("contract_row", metafunc.cls.rows(), ids=names)


@pytest.fixture(scope="session")
def contract_authority(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, Path]:
    """Return the servers' TLS context, and the file of the certificate authority of the servers."""
    return server_tls(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def contract_tls(
    contract_authority: tuple[ssl.SSLContext, Path], monkeypatch: pytest.MonkeyPatch
) -> ssl.SSLContext:
    """Return the servers' TLS context.

    In these tests, clients trust only the certificate authority of this context, and use only certificate
    pins that the tests set.
    """
    context, cafile = contract_authority
    monkeypatch.setenv("SSL_CERT_FILE", str(cafile))
    monkeypatch.setenv("SSL_CERT_DIR", str(cafile.parent))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(cafile.parent))
    return context
