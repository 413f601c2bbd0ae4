"""Real servers as fixtures: a server starts with the first test that needs it and ends with the session."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.servers.apache_servers import ApacheServer, apache
from tests.servers.certificates import Certificates, write_certificates
from tests.servers.ftp_servers import FtpServer, FtpSite, proftpd, pure_ftpd, vsftpd
from tests.servers.ftp_tree import write_ftp_tree
from tests.servers.gopher_servers import GopherServer, gophernicus, pygopherd
from tests.servers.gopher_tree import write_gopher_tree
from tests.servers.http_servers import HttpServer, nginx, write_http_tree
from tests.servers.namespace import write_accounts
from tests.servers.news_servers import NewsServer, inn
from tests.servers.plugin_servers import dictd, fingerd, molly_brown
from tests.servers.proxy_servers import ProxyServer, dante, squid, tinyproxy
from tests.servers.telnet_servers import telnetd, telnetd_with_login, telnetd_with_screens


@contextmanager
def open_folder() -> Iterator[Path]:
    """Yield a world-accessible folder, for servers that drop root privileges.

    It is not below pytest's own folder, which only the owner may enter.
    """
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return write_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="session")
def gopher_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tree = tmp_path_factory.mktemp("gopher_tree")
    write_gopher_tree(tree)
    return tree


@pytest.fixture(scope="session", name="gophernicus")
def _gophernicus(gopher_tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GopherServer]:
    with gophernicus(gopher_tree, tmp_path_factory.mktemp("gophernicus")) as server:
        yield server


@pytest.fixture(scope="session", name="pygopherd")
def _pygopherd(
    gopher_tree: Path, certificates: Certificates, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GopherServer]:
    with pygopherd(gopher_tree, tmp_path_factory.mktemp("pygopherd"), certificates) as server:
        yield server


@pytest.fixture(scope="session")
def ftp_tree() -> Iterator[Path]:
    with open_folder() as folder:
        tree = folder / "tree"
        tree.mkdir()
        write_ftp_tree(os.fsencode(tree))
        yield tree


@pytest.fixture(scope="session")
def ftp_site(ftp_tree: Path, certificates: Certificates, tmp_path_factory: pytest.TempPathFactory) -> FtpSite:
    wrapper = write_accounts(tmp_path_factory.mktemp("accounts"), ftp_tree)
    return FtpSite(ftp_tree, certificates, wrapper)


@pytest.fixture(scope="session", name="vsftpd")
def _vsftpd(ftp_site: FtpSite, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FtpServer]:
    with vsftpd(ftp_site, tmp_path_factory.mktemp("vsftpd")) as server:
        yield server


@pytest.fixture(scope="session", name="proftpd")
def _proftpd(ftp_site: FtpSite, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FtpServer]:
    with proftpd(ftp_site, tmp_path_factory.mktemp("proftpd")) as server:
        yield server


@pytest.fixture(scope="session", name="pure_ftpd")
def _pure_ftpd(ftp_site: FtpSite, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FtpServer]:
    with pure_ftpd(ftp_site, tmp_path_factory.mktemp("pure_ftpd")) as server:
        yield server


@pytest.fixture(params=["vsftpd", "proftpd", "pure_ftpd"])
def ftp_server(request: pytest.FixtureRequest) -> FtpServer:
    server: FtpServer = request.getfixturevalue(request.param)
    return server


@pytest.fixture(scope="session")
def http_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tree = tmp_path_factory.mktemp("http_tree")
    write_http_tree(tree)
    return tree


@pytest.fixture(scope="session", name="nginx")
def _nginx(
    http_tree: Path, certificates: Certificates, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[HttpServer]:
    with nginx(http_tree, tmp_path_factory.mktemp("nginx"), certificates) as server:
        yield server


@pytest.fixture(scope="session", name="apache")
def _apache() -> Iterator[ApacheServer]:
    with open_folder() as folder, apache(folder) as server:
        yield server


@pytest.fixture(scope="session", name="inn")
def _inn(certificates: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NewsServer]:
    with inn(tmp_path_factory.mktemp("inn"), certificates) as server:
        yield server


@pytest.fixture(scope="session", name="tinyproxy")
def _tinyproxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxyServer]:
    with tinyproxy(tmp_path_factory.mktemp("tinyproxy")) as server:
        yield server


@pytest.fixture(scope="session", name="tinyproxy_with_login")
def _tinyproxy_with_login(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxyServer]:
    with tinyproxy(tmp_path_factory.mktemp("tinyproxy"), login=True) as server:
        yield server


@pytest.fixture(scope="session", name="squid")
def _squid(certificates: Certificates) -> Iterator[ProxyServer]:
    with open_folder() as folder, squid(folder, certificates) as server:
        yield server


@pytest.fixture(scope="session", name="dante")
def _dante(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxyServer]:
    with dante(tmp_path_factory.mktemp("dante")) as server:
        yield server


@pytest.fixture(scope="session", name="dante_with_login")
def _dante_with_login(ftp_site: FtpSite, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxyServer]:
    with dante(tmp_path_factory.mktemp("dante"), ftp_site.wrapper) as server:
        yield server


@pytest.fixture(scope="session", name="telnetd_with_screens")
def _telnetd_with_screens(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with telnetd_with_screens(tmp_path_factory.mktemp("screens")) as url:
        yield url


@pytest.fixture(scope="session", name="telnetd_with_login")
def _telnetd_with_login(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with telnetd_with_login(tmp_path_factory.mktemp("login")) as url:
        yield url


@pytest.fixture(scope="session", name="telnetd")
def _telnetd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with telnetd(tmp_path_factory.mktemp("telnetd")) as url:
        yield url


@pytest.fixture(scope="session", name="dictd")
def _dictd() -> Iterator[str]:
    with open_folder() as folder, dictd(folder) as url:
        yield url


@pytest.fixture(scope="session", name="fingerd")
def _fingerd() -> Iterator[str]:
    with open_folder() as folder, fingerd(folder) as url:
        yield url


@pytest.fixture(scope="session", name="molly_brown")
def _molly_brown(certificates: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with molly_brown(tmp_path_factory.mktemp("molly_brown"), certificates) as url:
        yield url
