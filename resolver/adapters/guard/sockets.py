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
    """A connection to a host and port. `timeout` is in seconds for each address.

    Raises `resolver.Refused` and `resolver.InvalidUrl` with nothing sent, and `OSError` as `socket` does.
    """
    host, port = place
    addresses = look_up(host, port, scheme=scheme, policy=policy)
    return connect_first(
        addresses, lambda address: socket.create_connection((address, port), timeout, source_address)
    )


def look_up(
    host: str, port: int, *, scheme: str = "http", policy: resolver.Policy | str | None = None
) -> tuple[str, ...]:
    """The addresses of a host that may be connected to. A host that may not is not looked up."""
    try:
        return resolver.guard(host, port=port, scheme=scheme, policy=policy)
    except resolver.Unreachable:  # it needs a look-up, and nothing else was to be said of it
        found = [str(each[4][0]) for each in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
        return resolver.guard(host, dict.fromkeys(found), port=port, scheme=scheme, policy=policy)


def connect_first(addresses: Iterable[str], connect: Callable[[str], socket.socket]) -> socket.socket:
    """The first connection that comes about. Raises the `OSError` of the last address."""
    failure: OSError | None = None
    for address in addresses:
        try:
            return connect(address)
        except OSError as error:
            failure = error
    assert failure is not None, "there is an address"
    raise failure
