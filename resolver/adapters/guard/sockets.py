"""Blocking sockets: `create_connection` as in `socket`, to checked addresses only."""

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
    """Connect to a host and port at a checked address.

    Args:
        place: The host and port.
        timeout: Seconds for each address.
        source_address: The local address and port.
        scheme: The scheme whose rules apply.
        policy: The policy, by default `untrusted`.

    Raises:
        resolver.Refused: The policy forbids the connection. Nothing was sent.
        resolver.InvalidUrl: The host is not valid. Nothing was sent.
        OSError: The connection failed, as for `socket`.
    """
    host, port = place
    addresses = look_up(host, port, scheme=scheme, policy=policy)
    return connect_first(
        addresses, lambda address: socket.create_connection((address, port), timeout, source_address)
    )


def look_up(
    host: str, port: int, *, scheme: str = "http", policy: resolver.Policy | str | None = None
) -> tuple[str, ...]:
    """Return the allowed addresses of a host; a refused host is not looked up."""
    try:
        return resolver.guard(host, port=port, scheme=scheme, policy=policy)
    except resolver.Unreachable:  # only a DNS lookup is missing; the other checks have passed
        found = [str(each[4][0]) for each in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
        return resolver.guard(host, dict.fromkeys(found), port=port, scheme=scheme, policy=policy)


def connect_first(addresses: Iterable[str], connect: Callable[[str], socket.socket]) -> socket.socket:
    """Return the first successful connection.

    Raises:
        OSError: All addresses failed; the error is that of the last one.
    """
    failure: OSError | None = None
    for address in addresses:
        try:
            return connect(address)
        except OSError as error:
            failure = error
    assert failure is not None, "at least one address is given"
    raise failure
