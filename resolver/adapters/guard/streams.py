"""SSRF protection for asyncio: `getaddrinfo` and `open_connection` with checks of IP addresses."""

from __future__ import annotations

import asyncio
import socket
from ssl import SSLContext
from typing import Any, TypeAlias

import resolver
from resolver.adapters.guard.sockets import choose_failure

#: A result of `socket.getaddrinfo`: family, type, protocol, canonical name, and address.
AddressInfo: TypeAlias = tuple[
    socket.AddressFamily,
    socket.SocketKind,
    int,
    str,
    "tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]",
]


async def getaddrinfo(
    host: str,
    port: int,
    *,
    family: int = 0,
    type: int = socket.SOCK_STREAM,
    proto: int = 0,
    flags: int = 0,
    scheme: str = "http",
    policy: resolver.Policy | str | None = None,
) -> list[AddressInfo]:
    """Return the allowed addresses from a DNS lookup of the system.

    The results have the format of `loop.getaddrinfo`, for `loop.sock_connect` and
    `aiohappyeyeballs.start_connection`. If the policy refuses the host itself, no DNS lookup is made.

    Raises:
        resolver.Refused: The policy forbids the host or all its addresses.
        resolver.InvalidUrl: The host is not valid.
    """

    async def find(name: str) -> list[AddressInfo]:
        loop = asyncio.get_running_loop()
        return list(await loop.getaddrinfo(name, port, family=family, type=type, proto=proto, flags=flags))

    try:
        usable = resolver.guard(host, port=port, scheme=scheme, policy=policy)
    except resolver.Unreachable:  # all checks have passed except the check of the DNS lookup result
        infos = await find(host)
        permitted = resolver.guard(
            host, [str(info[4][0]) for info in infos], port=port, scheme=scheme, policy=policy
        )
        return [info for info in infos if info[4][0] in permitted]
    of_family = [ip for ip in usable if family in (0, socket.AF_INET6 if ":" in ip else socket.AF_INET)]
    return [info for address in of_family or usable for info in await find(address)]


async def open_connection(
    host: str,
    port: int,
    *,
    tls: SSLContext | None = None,
    policy: resolver.Policy | str | None = None,
    family: int = 0,
    proto: int = 0,
    flags: int = 0,
    all_errors: bool = False,
    **options: Any,
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect as `asyncio.open_connection` does, to the first allowed IP address that accepts.

    The addresses are tried one after another, so `happy_eyeballs_delay` and `interleave` have no effect.

    Args:
        host: The host. TLS verifies this host name, unless `server_hostname` is passed.
        port: The port.
        tls: The TLS context; the keyword `ssl` has the same effect.
        policy: The policy; the default is `untrusted`.
        family: The address family, as for `loop.getaddrinfo`.
        proto: The protocol number, as for `loop.getaddrinfo`.
        flags: The flags of the DNS lookup, as for `loop.getaddrinfo`.
        all_errors: Whether the errors of all addresses are raised, as an `ExceptionGroup`.
        options: Other keywords of `asyncio.open_connection`, such as `limit` and `local_addr`.

    Raises:
        resolver.Refused: The policy forbids the host or all its addresses.
        resolver.InvalidUrl: The host is not valid.
        OSError: All addresses failed; the error of the last address is raised.
        ValueError: The keyword `sock` is passed, which would bypass the checks.
    """
    if options.pop("sock", None) is not None:
        raise ValueError("open_connection: sock is already connected, so no address is checked (pass a host)")
    context = options.pop("ssl", None) if tls is None else tls
    if context:
        options.setdefault("server_hostname", host.strip("[]"))
    failures: list[OSError] = []
    scheme = "https" if context else "http"
    for info in await getaddrinfo(
        host, port, family=family, proto=proto, flags=flags, scheme=scheme, policy=policy
    ):
        try:
            return await asyncio.open_connection(str(info[4][0]), port, ssl=context, **options)
        except OSError as error:
            failures.append(error)
    raise choose_failure(failures, all_errors)
