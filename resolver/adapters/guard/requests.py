"""requests: an adapter to mount, whose every request and redirect is judged and goes to a checked address.

    session = requests.Session()
    session.mount("http://", GuardedAdapter())
    session.mount("https://", GuardedAdapter())

What the policy refuses is `resolver.Refused` or `resolver.InvalidUrl` and no `RequestException`: who tries
again after a fault of the network does not try that again.
"""

from __future__ import annotations

import socket
from typing import Any

import requests
from requests.adapters import DEFAULT_POOLSIZE, HTTPAdapter
from requests.utils import select_proxy
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import ConnectTimeoutError, NameResolutionError, NewConnectionError
from urllib3.poolmanager import PoolManager
from urllib3.util.connection import create_connection

import resolver
from resolver.adapters.guard.sockets import connect_first, look_up


class GuardedAdapter(HTTPAdapter):
    """For http and https. `policy` is `untrusted` where none is given.

    A proxy is refused under `untrusted` (S09) unless the policy trusts it: it looks names up by itself. A
    connection that is kept was checked when it was made, by the same policy.
    """

    __attrs__ = [*HTTPAdapter.__attrs__, "_policy"]  # noqa: RUF012 - what is kept of one that is pickled

    def __init__(
        self, policy: resolver.Policy | str | None = None, *, connections: int = DEFAULT_POOLSIZE
    ) -> None:
        self._policy = resolver.Policy.of("untrusted" if policy is None else policy)
        super().__init__(connections, connections)

    # requests and subclasses replace the manager for other pool sizes and TLS contexts (`init_poolmanager`).
    # A property guards each one, whoever assigns it.
    @property
    def poolmanager(self) -> PoolManager:
        return self._poolmanager

    @poolmanager.setter
    def poolmanager(self, manager: PoolManager) -> None:
        manager.clear()  # pools that the manager made before have other connections
        manager.pool_classes_by_scheme = _make_guarded_pools(self._policy)
        self._poolmanager = manager

    def proxy_manager_for(self, proxy: str, **proxy_kwargs: Any) -> Any:
        """Return the manager of a proxy that the policy takes (S09).

        A subclass that overrides `request_url` is judged here.

        Raises:
            resolver.Refused: If the policy does not take the proxy. Nothing was sent.
        """
        self._check("http://proxied.invalid/", proxy)
        return super().proxy_manager_for(proxy, **proxy_kwargs)

    def request_url(self, request: requests.PreparedRequest, proxies: dict[str, str] | None) -> str:
        """Asked for each request, before anything is sent: the place to judge its URL and its proxy."""
        url = request.url or ""
        self._check(url, select_proxy(url, proxies) or "none")
        return super().request_url(request, proxies)

    def _check(self, url: str, proxy: str) -> None:
        error = resolver.check(url, policy=self._policy, proxy=proxy).error(resolver.parse(url))
        if error is not None:
            raise error


def _make_guarded_pools(policy: resolver.Policy) -> dict[str, type[HTTPConnectionPool]]:
    class GuardedConnection(HTTPConnection):
        def _new_conn(self) -> socket.socket:
            return _connect_socket(self, "http", policy)

    class TlsConnection(HTTPSConnection):
        def _new_conn(self) -> socket.socket:
            return _connect_socket(self, "https", policy)

    class Pool(HTTPConnectionPool):
        ConnectionCls = GuardedConnection

    class TlsPool(HTTPSConnectionPool):
        ConnectionCls = TlsConnection

    return {"http": Pool, "https": TlsPool}


def _connect_socket(connection: HTTPConnection, scheme: str, policy: resolver.Policy) -> socket.socket:
    """As the connections of urllib3 do it, by number. The name stays what TLS is asked for."""
    host = connection.host
    try:
        addresses = look_up(host, connection.port, scheme=scheme, policy=policy)
        return connect_first(
            addresses,
            lambda address: create_connection(
                (address, connection.port),
                connection.timeout,
                source_address=connection.source_address,
                socket_options=connection.socket_options,
            ),
        )
    except socket.gaierror as error:
        raise NameResolutionError(host, connection, error) from error
    except TimeoutError as error:
        raise ConnectTimeoutError(connection, f"no connection to {host} in time") from error
    except OSError as error:
        raise NewConnectionError(connection, f"no connection to {host}: {error}") from error
