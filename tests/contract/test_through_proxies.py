"""Every scheme through every proxy yields the same result; protocols that a proxy cannot carry are refused.

If the proxy does the DNS lookup, the host is a name that only the proxy knows.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

import pytest
import trio

import resolver
from fixtures.proxy import HttpProxy, SocksProxy, serve_http_proxy, serve_socks_proxy
from resolver import Kind, Resolver
from resolver.testing.contract import CaseSetting

_NAME = "h.test"


@dataclass(frozen=True)
class Proxied:
    """A kind of proxy: its start function, its URL scheme, and the user."""

    name: str
    start: Callable[[trio.Nursery, ssl.SSLContext], Awaitable[HttpProxy | SocksProxy]]
    scheme: str
    user: str = ""

    def __str__(self) -> str:
        return self.name

    @property
    def resolves(self) -> bool:
        return self.scheme != "socks5"


LOGIN = "bob:se:cret"
_USER = "bob:se%3Acret@"

PROXIES = (
    Proxied("http", lambda nursery, _: serve_http_proxy(nursery), "http"),
    Proxied("http, dripping", lambda nursery, _: serve_http_proxy(nursery, HttpProxy(dripping=True)), "http"),
    Proxied(
        "http, login", lambda nursery, _: serve_http_proxy(nursery, HttpProxy(login=LOGIN)), "http", _USER
    ),
    Proxied(
        "http, login, closing",
        lambda nursery, _: serve_http_proxy(nursery, HttpProxy(login=LOGIN, closes=True)),
        "http",
        _USER,
    ),
    Proxied("https", lambda nursery, tls: serve_http_proxy(nursery, tls=tls), "https"),
    Proxied(
        "https, dripping, login",
        lambda nursery, tls: serve_http_proxy(nursery, HttpProxy(login=LOGIN, dripping=True), tls=tls),
        "https",
        _USER,
    ),
    Proxied("socks5h", lambda nursery, _: serve_socks_proxy(nursery), "socks5h"),
    Proxied("socks5", lambda nursery, _: serve_socks_proxy(nursery), "socks5"),
    Proxied(
        "socks5, dripping",
        lambda nursery, _: serve_socks_proxy(nursery, SocksProxy(dripping=True)),
        "socks5h",
    ),
    Proxied(
        "socks5, login",
        lambda nursery, _: serve_socks_proxy(nursery, SocksProxy(login=LOGIN)),
        "socks5h",
        _USER,
    ),
)

_UDP = ("prospero",)
#: Protocols whose data connections use other ports.
_WITH_DATA = ("ftp", "ftps")
_NO_PLACE = ("file", "mailto", "telnet", "telnets")


def _place(setting: CaseSetting, proxied: Proxied) -> str:
    host = _NAME if proxied.resolves and not setting.case.tls else "127.0.0.1"
    return f"{host}:{setting.port}"


@pytest.mark.parametrize("proxied", PROXIES, ids=str)
async def test_url_through_proxy_yields_same_result(
    setting: CaseSetting, proxied: Proxied, nursery: trio.Nursery, tls: ssl.SSLContext
) -> None:
    case = setting.case
    proxy = await proxied.start(nursery, tls)
    url = proxy.url(proxied.user, proxied.scheme)
    if case.name in _NO_PLACE:
        await _check_untouched(setting, proxy, url)
    elif case.name in _UDP:
        await _check_refused(setting, proxy, url)
    else:
        await _check_carried(setting, proxy, _place(setting, proxied), url)
    assert proxy.violations == []


async def _check_carried(setting: CaseSetting, proxy: HttpProxy | SocksProxy, place: str, url: str) -> None:
    case = setting.case
    news = place if case.document.startswith("news:") else None
    options = replace(case.options, login_in_clear=True)  # a host name always counts as remote
    async with Resolver(policy=setting.policy, news_server=news, proxy=url, options=options) as session:
        response = await session.fetch(case.document.format(at=place))
        assert response.content == case.content
        assert (response.peer, response.proxy) == (proxy.host, url.replace("bob:se%3Acret@", ""))
        if case.listing is not None:
            async with session.entries(case.listing.format(at=place)) as found:
                assert set(case.names) <= {entry.name async for entry in found}
        if case.missing is not None:
            with pytest.raises(case.error):
                await session.fetch(case.missing.format(at=place))
    places = _places(proxy)
    assert place in places
    assert {each.rpartition(":")[0] for each in places} == {place.rpartition(":")[0]}
    assert len(places) == 1 or case.scheme in _WITH_DATA


def _places(proxy: HttpProxy | SocksProxy) -> set[str]:
    if isinstance(proxy, SocksProxy):
        return {f"{host}:{port}" for _, host, port in proxy.commands}
    return {asked.fields["host"] for asked in proxy.requests}


async def _check_refused(setting: CaseSetting, proxy: HttpProxy | SocksProxy, url: str) -> None:
    async with Resolver(policy=setting.policy, proxy=url) as session:
        with pytest.raises(resolver.Refused, match="UDP") as caught:
            await session.fetch(setting.url(setting.case.document))
    assert (caught.value.rule, caught.value.exit_code) == ("S09", 9)
    assert (proxy.connections, setting.connections) == (0, 0)


async def _check_untouched(setting: CaseSetting, proxy: HttpProxy | SocksProxy, url: str) -> None:
    if setting.case.kind is Kind.SERVICE:
        return
    async with Resolver(policy=setting.policy, proxy=url) as session:
        response = await session.fetch(setting.url(setting.case.document))
    assert (response.content, response.proxy) == (setting.case.content, None)
    assert proxy.connections == 0
