"""SSRF protection for aiohttp: a connector that checks each request and redirect, and each IP address.

    async with aiohttp.ClientSession(connector=GuardedConnector()) as session: ...

aiohttp does not call its DNS resolver for a host that is an IP address, so a check in the DNS resolver is not
sufficient. The connector checks the URL of each request. The connector's DNS resolver checks the IP addresses
of a host name. The socket factory checks each IP address again before it creates a socket. A refusal raises
`resolver.Refused` or `resolver.InvalidUrl`.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_reqrep import ClientRequest
from aiohttp.connector import Connection
from aiohttp.tracing import Trace

import resolver
from resolver.adapters.guard.sockets import check_url

AddressInfo = aiohttp.AddrInfoType
_WEBSOCKET = re.compile(r"\Aws(s?)(?=:)")


class GuardedResolver(AbstractResolver):
    """A DNS resolver for aiohttp that returns only allowed IP addresses.

    `lookups` is the aiohttp resolver for the DNS lookups; the default is the system's resolver.
    """

    def __init__(
        self, policy: resolver.Policy | str | None = None, lookups: AbstractResolver | None = None
    ) -> None:
        self._policy = resolver.Policy.of("untrusted" if policy is None else policy)
        self._lookups = aiohttp.ThreadedResolver() if lookups is None else lookups

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        results = await self._lookups.resolve(host, port, family)
        addresses = [result["host"] for result in results]
        allowed = resolver.guard(host, addresses, policy=self._policy)
        return [result for result in results if result["host"] in allowed]

    async def close(self) -> None:
        await self._lookups.close()


class GuardedConnector(aiohttp.TCPConnector):
    """An aiohttp connector with a policy; the default policy is `untrusted`.

    `lookups` is the aiohttp resolver for the DNS lookups. `options` are the other keywords of
    `aiohttp.TCPConnector`. The policy `untrusted` refuses each proxy except its `trusted_proxy` (S09). The IP
    address of a proxy is checked too.

    Raises:
        TypeError: The keyword `resolver` is passed, which would bypass the checks: use `lookups` instead.
    """

    def __init__(
        self,
        policy: resolver.Policy | str | None = None,
        *,
        lookups: AbstractResolver | None = None,
        socket_factory: Callable[[AddressInfo], socket.socket] | None = None,
        **options: Any,
    ) -> None:
        if "resolver" in options:
            raise TypeError(
                "GuardedConnector: resolver would replace the address checks (pass it as lookups)"
            )
        self._policy = resolver.Policy.of("untrusted" if policy is None else policy)
        super().__init__(
            resolver=GuardedResolver(self._policy, lookups),
            socket_factory=_guard_factory(self._policy, socket_factory),
            **options,
        )

    async def connect(
        self,
        req: ClientRequest,
        traces: list[Trace],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109
    ) -> Connection:
        """Check the URL of each request and redirect, even if a pooled connection can be used.

        The URL of a WebSocket is checked as the URL of its http request (RFC 6455 4.1).
        """
        url = _WEBSOCKET.sub(r"http\1", str(req.url))
        check_url(url, self._policy, "none" if req.proxy is None else str(req.proxy))
        return await super().connect(req, traces, timeout)


def _guard_factory(
    policy: resolver.Policy, factory: Callable[[AddressInfo], socket.socket] | None
) -> Callable[[AddressInfo], socket.socket]:
    def make_guarded_socket(info: AddressInfo) -> socket.socket:
        resolver.guard(str(info[4][0]), policy=policy)
        return socket.socket(*info[:3]) if factory is None else factory(info)

    return make_guarded_socket
