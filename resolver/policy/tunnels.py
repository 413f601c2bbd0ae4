"""Proxy protocols (HTTP CONNECT and SOCKS): how a client opens a tunnel or sends HTTP requests.

The module `proxies` chooses and checks the proxy. The protocol exchanges are in the package `protocols`. A
request to an HTTP proxy starts with an HTTP request head, regardless of the scheme that the tunnel carries.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from protocols.errors import UnsupportedScheme, missing_libraries
from protocols.location import Url
from protocols.options import ForwardProxy
from protocols.step import Dialogue
from resolver.policy.proxies import proxy_for
from resolver.policy.subject import Endpoint
from resolver.url import registry

if TYPE_CHECKING:  # not imported at run time, because few runs use a proxy
    from protocols.http.auth import HttpProxyAuth
    from resolver.policy.proxy import Proxy


class ProxyLogins:
    """The credentials of one run for HTTP proxies.

    After the first challenge of a proxy, each request to the proxy contains the credentials.
    """

    def __init__(self) -> None:
        self._logins: dict[Proxy, HttpProxyAuth] = {}

    def find_login(self, proxy: Proxy) -> HttpProxyAuth:
        if proxy not in self._logins:
            from protocols.http.auth import HttpProxyAuth  # lazy import: few runs use a proxy

            self._logins[proxy] = HttpProxyAuth(proxy.shown, proxy.credentials)
        return self._logins[proxy]


class ProxyRoute(NamedTuple):
    """The route of one URL through a proxy.

    `via` is the form of HTTP requests to the proxy. It is `None` if the proxy opens a tunnel to the host of
    the URL.
    """

    proxy: Proxy
    via: ForwardProxy | None
    logins: ProxyLogins

    def open_tunnel(self, host: str, port: int) -> Dialogue[bool]:
        """Open the tunnel, and return whether the proxy opened it.

        If the proxy requires a login, the result is False, and the client sends the login on the next
        connection to the proxy.
        """
        if not self.proxy.socks:
            from protocols.http import tunnel

            return (yield from tunnel.open_tunnel(host, port, self.logins.find_login(self.proxy)))
        from protocols import socks

        yield from socks.open_tunnel(host, port, self.proxy.credentials, self.proxy.shown)
        return True


def find_route(
    url: Url, endpoint: Endpoint | None, variables: Mapping[str, str], logins: ProxyLogins
) -> ProxyRoute | None:
    """Return the route of a URL through its proxy.

    The result is `None` for a direct connection.

    Raises:
        NotConfigured: the setting is not the URL of a proxy.
        UnsupportedScheme: the proxy's protocol needs an extra that is not installed.
    """
    proxy = proxy_for(url.scheme, endpoint, variables)
    if proxy is None or endpoint is None:
        return None
    _check_extra(proxy)
    row = registry.find(url.scheme)
    relays = row is not None and row.relayed and not proxy.socks
    return ProxyRoute(proxy, _make_proxy(url, endpoint, logins.find_login(proxy)) if relays else None, logins)


def _make_proxy(url: Url, endpoint: Endpoint, login: HttpProxyAuth) -> ForwardProxy:
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    port = "" if endpoint.port == endpoint.default_port else f":{endpoint.port}"
    return ForwardProxy(f"{url.scheme}://{host}{port}".encode("ascii"), login)


def _check_extra(proxy: Proxy) -> None:
    """Check that the extra (optional dependency) for the proxy's protocol is installed.

    Without the extra, the URL is refused, because a direct connection would bypass the proxy.

    Raises:
        UnsupportedScheme: the extra is not installed.
    """
    if proxy.socks and not _has_socksio():
        words = f"{proxy.source} names a SOCKS5 proxy, which needs {missing_libraries('socks')}"
        raise UnsupportedScheme(proxy.scheme, words)


@cache
def _has_socksio() -> bool:
    return registry.is_installed("socksio")
