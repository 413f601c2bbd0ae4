"""SSRF protection for asyncio: `getaddrinfo` and `open_connection` with checks of IP addresses."""

from __future__ import annotations

import asyncio
import socket
from ssl import SSLContext
from typing import TypeAlias

import resolver

#: A result of `socket.getaddrinfo`: family, type, protocol, canonical name, and address.
AddressInfo: TypeAlias = tuple[
    socket.AddressFamily,
    socket.SocketKind,
    int,
    str,
    "tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]",
]


async def getaddrinfo(
    host: str, port: int, *, scheme: str = "http", policy: resolver.Policy | str | None = None
) -> list[AddressInfo]:
    """Return the allowed addresses from a DNS lookup of the system.

    The results have the format of `loop.getaddrinfo`, for `loop.sock_connect` and
    `aiohappyeyeballs.start_connection`. If the policy refuses the host itself, no DNS lookup is made.

    Raises:
        resolver.Refused: The policy forbids the host or all its addresses.
        resolver.InvalidUrl: The host is not valid.
    """
    try:
        wanted = resolver.guard(host, port=port, scheme=scheme, policy=policy)
    except resolver.Unreachable:
        return await _filter_addresses(host, port, scheme, policy)
    return [info for address in wanted for info in await _infos(address, port)]


async def _filter_addresses(
    host: str, port: int, scheme: str, policy: resolver.Policy | str | None
) -> list[AddressInfo]:
    found = await _infos(host, port)
    left = resolver.guard(host, [str(info[4][0]) for info in found], port=port, scheme=scheme, policy=policy)
    return [info for info in found if info[4][0] in left]


async def _infos(host: str, port: int) -> list[AddressInfo]:
    loop = asyncio.get_running_loop()
    return list(await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM))


async def open_connection(
    host: str,
    port: int,
    *,
    tls: SSLContext | None = None,
    policy: resolver.Policy | str | None = None,
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect as `asyncio.open_connection` does, to the first checked address that accepts.

    TLS verifies the name `host`.

    Raises:
        resolver.Refused: The policy forbids the host or all its addresses.
        resolver.InvalidUrl: The host is not valid.
        OSError: All addresses failed; the error of the last address is raised.
    """
    failure: OSError | None = None
    for info in await getaddrinfo(host, port, scheme="http" if tls is None else "https", policy=policy):
        try:
            return await asyncio.open_connection(
                str(info[4][0]), port, ssl=tls, server_hostname=None if tls is None else host.strip("[]")
            )
        except OSError as error:
            failure = error
    assert failure is not None, "at least one address is given"
    raise failure
