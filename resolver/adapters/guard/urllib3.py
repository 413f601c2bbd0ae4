"""SSRF protection for urllib3: a pool manager that checks each request and redirect, and each IP address.

    manager = GuardedPoolManager()
    response = manager.request("GET", url)

A refusal raises `resolver.Refused` or `resolver.InvalidUrl`. Neither class is a subclass of `HTTPError`, so
urllib3 does not retry a refusal. `AdapterGuard` has the checks for the adapters of requests and niquests.
These libraries use pool managers of urllib3.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from copy import copy
from typing import Any, ClassVar

from urllib3.exceptions import ConnectTimeoutError, NameResolutionError, NewConnectionError
from urllib3.poolmanager import PoolManager
from urllib3.util.connection import create_connection
from urllib3.util.url import parse_url

import resolver
from resolver.adapters.guard.sockets import check_url, connect_first, look_up


class GuardedPoolManager(PoolManager):
    """A urllib3 pool manager with a policy; the default policy is `untrusted`.

    `options` are the keywords of `urllib3.PoolManager`. If a caller uses a connection pool of the manager
    directly, only the IP addresses are checked. `urllib3.ProxyManager` is another class, and is not guarded.
    """

    def __init__(self, policy: resolver.Policy | str | None = None, **options: Any) -> None:
        self._policy = resolver.Policy.of("untrusted" if policy is None else policy)
        super().__init__(**options)
        guard_manager(self, self._policy)

    def urlopen(self, method: str, url: str, redirect: bool = True, **options: Any) -> Any:  # type: ignore[override]
        """Check the URL of each request and redirect before data is sent.

        urllib3 percent-encodes characters such as a space before it sends the URL.
        """
        encoded = url
        with suppress(ValueError):  # not a URL: the check raises `InvalidUrl`
            encoded = parse_url(url).url
        check_url(encoded, self._policy)
        return super().urlopen(method, url, redirect, **options)


def guard_manager(manager: Any, policy: resolver.Policy) -> None:
    """Replace the connection pools of a pool manager by pools that check each IP address.

    `manager` is a pool manager of urllib3 or of its fork urllib3.future.
    """
    manager.clear()  # existing pools of the manager do not check addresses
    manager.pool_classes_by_scheme = {
        scheme: _guard_pool(pool, scheme, policy) for scheme, pool in manager.pool_classes_by_scheme.items()
    }


def _guard_pool(pool: Any, scheme: str, policy: resolver.Policy) -> Any:
    class GuardedConnection(pool.ConnectionCls):  # type: ignore[misc]
        def _new_conn(self) -> Any:
            if hasattr(self, "_resolver"):
                return _connect_fork(self, super()._new_conn, scheme, policy)
            return _connect_socket(self, scheme, policy)

    class GuardedPool(pool):  # type: ignore[misc]
        ConnectionCls: ClassVar[type] = GuardedConnection

    return GuardedPool


def _connect_socket(connection: Any, scheme: str, policy: resolver.Policy) -> socket.socket:
    """Connect as urllib3 does, but only to an allowed IP address; TLS still verifies the host name."""
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


def _connect_fork(connection: Any, connect: Callable[[], Any], scheme: str, policy: resolver.Policy) -> Any:
    """Connect as urllib3.future does, with a DNS resolver that returns only allowed addresses.

    niquests uses urllib3.future, a fork of urllib3, which replaces urllib3 by default when it is installed.
    Each connection of urllib3.future, including HTTP/3, passes its host to the DNS resolver `_resolver`. This
    also applies to a host that is an IP address.
    """
    lookups = connection._resolver

    def find_allowed(host: str, port: int, *options: Any, **named: Any) -> list[Any]:
        name = host if isinstance(host, str) else host.decode("ascii")
        with suppress(resolver.Unreachable):  # all checks passed except that of the IP addresses
            resolver.guard(name, port=port, scheme=scheme, policy=policy)
        infos = lookups.getaddrinfo(host, port, *options, **named)
        addresses = [info[4][0] for info in infos]
        allowed = resolver.guard(name, addresses, port=port, scheme=scheme, policy=policy)
        return [info for info in infos if info[4][0] in allowed]

    connection._resolver = copy(lookups)
    connection._resolver.getaddrinfo = find_allowed
    try:
        return connect()
    finally:
        connection._resolver = lookups


class AdapterGuard:
    """The policy checks for an http adapter of requests or niquests."""

    _policy: resolver.Policy
    _poolmanager: Any
    #: The function of the library that selects a proxy for a URL.
    _select_proxy: Callable[[str, Any], str | None]

    # requests, niquests and subclasses replace the pool manager to set pool sizes and TLS contexts
    # (`init_poolmanager`). This property adds the checks of IP addresses to each new pool manager.
    @property
    def poolmanager(self) -> Any:
        return self._poolmanager

    @poolmanager.setter
    def poolmanager(self, manager: Any) -> None:
        guard_manager(manager, self._policy)
        self._poolmanager = manager

    def proxy_manager_for(self, proxy: str, **options: Any) -> Any:
        """Return the pool manager for a proxy that the policy allows (S09).

        `request_url` checks the proxy too. This method repeats the check for subclasses that override
        `request_url`.

        Raises:
            resolver.Refused: The policy does not allow the proxy. No data was sent.
        """
        check_url("http://proxied.invalid/", self._policy, proxy)
        return super().proxy_manager_for(proxy, **options)  # type: ignore[misc]

    def request_url(self, request: Any, proxies: Any) -> str:
        """Check the URL and the proxy of each request before data is sent."""
        url = request.url or ""
        check_url(url, self._policy, self._select_proxy(url, proxies) or "none")
        return str(super().request_url(request, proxies))  # type: ignore[misc]
