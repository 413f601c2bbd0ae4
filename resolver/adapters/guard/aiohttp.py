"""SSRF protection for aiohttp: a connector that checks each request and redirect, and each IP address.

    async with aiohttp.ClientSession(connector=GuardedConnector()) as session: ...

aiohttp does not call its resolver for a host that is an IP address, so a check in the resolver is not
sufficient. The connector checks the URL. The resolver of the connector checks the addresses of a host name.
The socket factory checks each address again before it creates a socket. A refusal raises `resolver.Refused`
or `resolver.InvalidUrl`.
"""

from __future__ import annotations

import socket
from collections.abc import Callable

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_reqrep import ClientRequest
from aiohttp.connector import Connection
from aiohttp.tracing import Trace

import resolver

AddressInfo = aiohttp.AddrInfoType


class GuardedResolver(AbstractResolver):
    """A resolver that returns only allowed addresses.

    `lookups` is the resolver for the DNS lookups; the default is the system's resolver.
    """

    def __init__(
        self, policy: resolver.Policy | str | None = None, lookups: AbstractResolver | None = None
    ) -> None:
        self._policy = resolver.Policy.of("untrusted" if policy is None else policy)
        self._lookups = aiohttp.ThreadedResolver() if lookups is None else lookups

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._lookups.resolve(host, port, family)
        addresses = [each["host"] for each in found]
        left = resolver.guard(host, addresses, policy=self._policy)
        return [each for each in found if each["host"] in left]

    async def close(self) -> None:
        await self._lookups.close()


class GuardedConnector(aiohttp.TCPConnector):
    """A connector with a policy; the default policy is `untrusted`.

    `lookups` is the resolver for the DNS lookups. The policy `untrusted` refuses each proxy except its
    `trusted_proxy` (S09). The IP address of a proxy is checked too.
    """

    def __init__(
        self, policy: resolver.Policy | str | None = None, *, lookups: AbstractResolver | None = None
    ) -> None:
        self._policy = resolver.Policy.of("untrusted" if policy is None else policy)
        super().__init__(
            resolver=GuardedResolver(self._policy, lookups), socket_factory=_factory(self._policy)
        )

    async def connect(
        self,
        req: ClientRequest,
        traces: list[Trace],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109
    ) -> Connection:
        """Check each request and redirect, including requests over a pooled connection."""
        url = str(req.url)
        proxy = "none" if req.proxy is None else str(req.proxy)
        error = resolver.check(url, policy=self._policy, proxy=proxy).error(resolver.parse(url))
        if error is not None:
            raise error
        return await super().connect(req, traces, timeout)


def _factory(policy: resolver.Policy) -> Callable[[AddressInfo], socket.socket]:
    def guarded_socket(info: AddressInfo) -> socket.socket:
        family, kind, protocol, _, place = info
        resolver.guard(str(place[0]), policy=policy)
        return socket.socket(family, kind, protocol)

    return guarded_socket
