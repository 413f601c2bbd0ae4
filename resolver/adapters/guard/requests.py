"""requests: an adapter to mount, whose every request and redirect is judged and goes to a checked address.

    session = requests.Session()
    session.mount("http://", GuardedAdapter())
    session.mount("https://", GuardedAdapter())

What the policy refuses is `resolver.Refused` or `resolver.InvalidUrl` and no `RequestException`: who tries
again after a fault of the network does not try that again.
"""

from __future__ import annotations

import socket

import requests
from requests.adapters import DEFAULT_POOLSIZE, HTTPAdapter
from requests.utils import select_proxy
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import ConnectTimeoutError, NameResolutionError, NewConnectionError
from urllib3.util.connection import create_connection

import resolver
from resolver.adapters.guard.sockets import first_of, look_up


class GuardedAdapter(HTTPAdapter):
    """For http and https. `policy` is `untrusted` where none is given.

    A proxy is refused under `untrusted` (S09) unless the policy trusts it: it looks names up by itself. A
    connection that is kept was checked when it was made, by the same policy.
    """

    __attrs__ = [*HTTPAdapter.__attrs__, "_policy"]  # noqa: RUF012 - what is kept of one that is pickled

    def __init__(self, policy: resolver.Policy | None = None, *, connections: int = DEFAULT_POOLSIZE) -> None:
        self._policy = resolver.Policy.untrusted() if policy is None else policy
        super().__init__(connections, connections)
        self._guard()

    def __setstate__(self, state: dict[str, object]) -> None:
        super().__setstate__(state)
        self._guard()

    def _guard(self) -> None:
        """Make every connection of the pools a guarded one."""
        self.poolmanager.pool_classes_by_scheme = _guarded_pools(self._policy)

    def request_url(self, request: requests.PreparedRequest, proxies: dict[str, str] | None) -> str:
        """Asked for each request, before anything is sent: the place to judge its URL and its proxy."""
        url = request.url or ""
        proxy = select_proxy(url, proxies)
        error = resolver.check(url, policy=self._policy, proxy=proxy or "none").error(resolver.parse(url))
        if error is not None:
            raise error
        return super().request_url(request, proxies)


def _guarded_pools(policy: resolver.Policy) -> dict[str, type[HTTPConnectionPool]]:
    class Connection(HTTPConnection):
        def _new_conn(self) -> socket.socket:
            return _connected(self, "http", policy)

    class TlsConnection(HTTPSConnection):
        def _new_conn(self) -> socket.socket:
            return _connected(self, "https", policy)

    class Pool(HTTPConnectionPool):
        ConnectionCls = Connection

    class TlsPool(HTTPSConnectionPool):
        ConnectionCls = TlsConnection

    return {"http": Pool, "https": TlsPool}


def _connected(connection: HTTPConnection, scheme: str, policy: resolver.Policy) -> socket.socket:
    """As the connections of urllib3 do it, by number. The name stays what TLS is asked for."""
    host = connection.host
    try:
        addresses = look_up(host, connection.port, scheme=scheme, policy=policy)
        return first_of(
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
