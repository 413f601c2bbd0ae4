"""SSRF protection for requests: an adapter that checks each request and redirect, and each IP address.

    session = requests.Session()
    session.mount("http://", GuardedAdapter())
    session.mount("https://", GuardedAdapter())

A refusal raises `resolver.Refused` or `resolver.InvalidUrl`. Neither class is a subclass of
`RequestException`, so code that retries after network errors does not retry refusals.
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
    """An adapter for http and https with a policy; the default policy is `untrusted`.

    The policy `untrusted` refuses each proxy except its `trusted_proxy` (S09), because a proxy resolves host
    names. A pooled connection was checked by the same policy when it was opened.
    """

    __attrs__ = [*HTTPAdapter.__attrs__, "_policy"]  # noqa: RUF012 - attributes that pickling keeps

    def __init__(
        self, policy: resolver.Policy | str | None = None, *, connections: int = DEFAULT_POOLSIZE
    ) -> None:
        self._policy = resolver.Policy.of("untrusted" if policy is None else policy)
        super().__init__(connections, connections)

    # requests and subclasses replace the pool manager to set pool sizes and TLS contexts
    # (`init_poolmanager`). This property adds the address checks to each new pool manager.
    @property
    def poolmanager(self) -> PoolManager:
        return self._poolmanager

    @poolmanager.setter
    def poolmanager(self, manager: PoolManager) -> None:
        manager.clear()  # existing pools of the manager do not check addresses
        manager.pool_classes_by_scheme = _make_guarded_pools(self._policy)
        self._poolmanager = manager

    def proxy_manager_for(self, proxy: str, **proxy_kwargs: Any) -> Any:
        """Return the pool manager for a proxy that the policy allows (S09).

        The policy check is repeated here for subclasses that override `request_url`.

        Raises:
            resolver.Refused: The policy does not allow the proxy. No data was sent.
        """
        self._check("http://proxied.invalid/", proxy)
        return super().proxy_manager_for(proxy, **proxy_kwargs)

    def request_url(self, request: requests.PreparedRequest, proxies: dict[str, str] | None) -> str:
        """Check the URL and the proxy of each request before data is sent."""
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
    """Connect as urllib3 does, but only to a checked address; TLS verifies the host name."""
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
        raise ConnectTimeoutError(connection, f"connection to {host} timed out") from error
    except OSError as error:
        raise NewConnectionError(connection, f"cannot connect to {host}: {error}") from error
