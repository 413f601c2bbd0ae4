"""Every scheme with a real server, through tinyproxy, Dante, and Squid (TLS, Digest); and proxy errors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
import trio

import resolver
from fixtures.http import ABOUT, serve
from resolver import Policy, Resolver, RetryPolicy
from tests.resolver.network.peers import closed_port
from tests.servers import ftp_tree, http_servers, namespace
from tests.servers.certificates import Certificates
from tests.servers.ftp_servers import FtpServer
from tests.servers.gopher_servers import GopherServer
from tests.servers.http_servers import HttpServer
from tests.servers.news_servers import NewsServer
from tests.servers.proxy_servers import PASSWORD, USER, ProxyServer, dante, tinyproxy
from tests.servers.service import LOOPBACK

LOGINS = {
    "tinyproxy_with_login": f"{USER}:{PASSWORD}@",
    "squid": f"{USER}:{PASSWORD}@",
    "dante_with_login": f"{namespace.USER}:{quote(namespace.PASSWORD)}@",
}


@pytest.fixture(
    params=["tinyproxy", "tinyproxy_with_login", "squid", "dante", "dante as socks5", "dante_with_login"]
)
def proxy(request: pytest.FixtureRequest) -> str:
    name, _, scheme = request.param.partition(" as ")
    server: ProxyServer = request.getfixturevalue(name)
    return server.url(LOGINS.get(name, ""), scheme or None)


def _session_through(proxy: str, port: int, authority: Path | None = None) -> Resolver:
    cafile = None if authority is None else str(authority)
    return Resolver(proxy=proxy, policy=Policy(allow_port={port}), cafile=cafile)


async def test_http_through_proxy(proxy: str, nginx: HttpServer) -> None:
    async with _session_through(proxy, nginx.port, nginx.authority) as session:
        for url in (nginx.url("/long.txt"), nginx.url("/long.txt", "https"), nginx.http2_url("/long.txt")):
            response = await session.fetch(url)
            assert (response.content, response.peer) == (http_servers.LONG, LOOPBACK)
        assert (await session.fetch(nginx.url("/data.bin"))).content == http_servers.DATA
        with pytest.raises(resolver.NotFound):
            await session.fetch(nginx.url("/none"))


@pytest.mark.parametrize("flavor", ["plain", "implicit"])
async def test_ftp_through_proxy(flavor: str, proxy: str, vsftpd: FtpServer) -> None:
    """Data connections of ftp, and TLS on both connections; vsftpd demands session resumption."""
    scheme, port = "ftp" if flavor == "plain" else "ftps", vsftpd.ports[flavor]
    async with _session_through(proxy, port, vsftpd.authority) as session:
        response = await session.fetch(f"{scheme}://{LOOPBACK}:{port}/pub/bin.dat")
        assert response.content == ftp_tree.OCTETS
        async with session.entries(f"{scheme}://{LOOPBACK}:{port}/pub/") as found:
            assert "bin.dat" in [entry.name async for entry in found]


async def test_gopher_through_proxy(
    proxy: str, gophernicus: GopherServer, certificates: Certificates
) -> None:
    async with _session_through(proxy, gophernicus.port, certificates.authority) as session:
        response = await session.fetch(gophernicus.url("0/about.txt"))
    assert response.content.startswith(b"A text of two lines.")


@pytest.mark.parametrize("scheme", ["nntp", "nntps"])
async def test_news_through_proxy(scheme: str, proxy: str, inn: NewsServer) -> None:
    port = inn.ports["plain" if scheme == "nntp" else "implicit"]
    async with _session_through(proxy, port, inn.authority) as session:
        async with session.entries(f"{scheme}://{LOOPBACK}:{port}/test.prose") as found:
            names = [entry.name async for entry in found]
        assert names[:3] == ["1", "2", "3"]
        for name in names[:3]:
            response = await session.fetch(f"{scheme}://{LOOPBACK}:{port}/test.prose/{name}")
            assert response.content


@pytest.fixture
def closed() -> Iterator[int]:
    with closed_port() as port:
        yield port


async def test_closed_port_error_names_the_proxy(proxy: str, closed: int, certificates: Certificates) -> None:
    """There is one attempt, and the error names the proxy."""
    async with Resolver(
        proxy=proxy,
        policy=Policy(allow_port={closed}),
        cafile=str(certificates.authority),
        patience=RetryPolicy(tries=5),
    ) as session:
        for url in (f"gopher://{LOOPBACK}:{closed}/0a", f"nntp://{LOOPBACK}:{closed}/a.b"):
            with pytest.raises(resolver.Unreachable, match="the proxy ") as caught:
                await session.fetch(url)
            assert (caught.value.attempts, caught.value.exit_code) == (1, 4)


@pytest.mark.parametrize("name", ["tinyproxy_with_login", "dante_with_login"])
async def test_proxy_login_missing_or_wrong_is_an_error(
    name: str, nginx: HttpServer, gophernicus: GopherServer, request: pytest.FixtureRequest
) -> None:
    """A wrong login is refused by tinyproxy with 401, as an origin server would.

    For a plain http request, the client cannot distinguish it from the server's reply.
    """
    server: ProxyServer = request.getfixturevalue(name)
    urls = [nginx.url("/about.txt", "https"), gophernicus.url("0/about.txt")]
    for user, error in (("", resolver.LoginRequired), ("bob:wrong@", resolver.AccessDenied)):
        async with _session_through(server.url(user), gophernicus.port) as session:
            for url in urls:
                with pytest.raises(error, match="the proxy ") as caught:
                    await session.fetch(url)
                assert "wrong" not in caught.value.message
            with pytest.raises((resolver.LoginRequired, error)):
                await session.fetch(nginx.url("/about.txt"))
    assert "wrong" not in server.log.read_text()


async def test_proxy_refuses_port(gophernicus: GopherServer, nginx: HttpServer, tmp_path: Path) -> None:
    port = gophernicus.port
    (tmp_path / "tinyproxy").mkdir()
    (tmp_path / "dante").mkdir()
    with (
        tinyproxy(tmp_path / "tinyproxy", ports=[443]) as http,
        dante(tmp_path / "dante", closed_to=port) as socks,
    ):
        for proxy, words in (
            (http, f"port {port}"),
            (socks, f"{LOOPBACK} port {port}"),
        ):
            async with _session_through(proxy.url(), port) as session:
                with pytest.raises(resolver.AccessDenied, match=words) as caught:
                    await session.fetch(gophernicus.url("0/about.txt"))
                assert caught.value.exit_code == 6
                assert (await session.fetch(nginx.url("/about.txt"))).content == http_servers.ABOUT


async def test_proxy_login_is_not_sent_to_origin(
    tinyproxy: ProxyServer, tinyproxy_with_login: ProxyServer, nursery: trio.Nursery
) -> None:
    """A tinyproxy without a login forwards the Proxy-Authorization that it receives."""
    server = await serve(nursery)
    for proxy in (tinyproxy, tinyproxy_with_login):
        async with _session_through(proxy.url(f"{USER}:{PASSWORD}@"), server.port) as session:
            assert (await session.fetch(server.url("/about.txt"))).content == ABOUT
    assert not any(request.values("proxy-authorization") for request in server.requests)
