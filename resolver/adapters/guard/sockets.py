"""SSRF protection for blocking sockets: `socket.create_connection` with checks of IP addresses."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable

import resolver


def create_connection(
    place: tuple[str, int],
    timeout: float | None = None,
    source_address: tuple[str, int] | None = None,
    *,
    scheme: str = "http",
    policy: resolver.Policy | str | None = None,
) -> socket.socket:
    """Connect to a host and port, only to a checked IP address.

    Args:
        place: The host and port.
        timeout: The timeout in seconds for each IP address.
        source_address: The local IP address and port.
        scheme: The scheme whose policy rules apply.
        policy: The policy; the default is `untrusted`.

    Raises:
        resolver.Refused: The policy forbids the connection. No data was sent.
        resolver.InvalidUrl: The host is not valid. No data was sent.
        OSError: The connection failed, as for `socket.create_connection`.
    """
    host, port = place
    addresses = look_up(host, port, scheme=scheme, policy=policy)
    return connect_first(
        addresses, lambda address: socket.create_connection((address, port), timeout, source_address)
    )


def look_up(
    host: str, port: int, *, scheme: str = "http", policy: resolver.Policy | str | None = None
) -> tuple[str, ...]:
    """Return the allowed IP addresses of a host; no DNS lookup is made for a refused host."""
    try:
        return resolver.guard(host, port=port, scheme=scheme, policy=policy)
    except resolver.Unreachable:  # all checks have passed except the check of the DNS lookup result
        found = [str(each[4][0]) for each in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
        return resolver.guard(host, dict.fromkeys(found), port=port, scheme=scheme, policy=policy)


def connect_first(addresses: Iterable[str], connect: Callable[[str], socket.socket]) -> socket.socket:
    """Return the first successful connection to one of the addresses.

    Raises:
        OSError: All addresses failed; the error of the last address is raised.
    """
    failure: OSError | None = None
    for address in addresses:
        try:
            return connect(address)
        except OSError as error:
            failure = error
    assert failure is not None, "at least one address is given"
    raise failure
