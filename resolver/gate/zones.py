"""The zone of a link-local address (RFC 4007, RFC 9844): which interface of this machine it is behind.

Only what connects knows of it, and only here it is joined to an address: as `fe80::1%eth0`, which tells one
connection from another and is what the system wants. It is never sent.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence

from protocols.errors import Unreachable
from protocols.location import Url
from resolver.policy.addresses import literal_addresses
from resolver.url import zone_of


def within_zone(url: Url, host: str, addresses: tuple[str, ...]) -> tuple[str, ...]:
    """The addresses of `host` as they are connected to for `url`. Raises `Unreachable` for a zone that this
    machine does not have, and for a link-local address without one."""
    zone = zone_of(url)
    if zone is not None:
        name = _interface(zone)
        return tuple(address if "%" in address else f"{address}%{name}" for address in addresses)
    if literal_addresses(host) == addresses and any(map(_wants_zone, addresses)):
        ways = ", ".join(f"%25{name}" for _, name in socket.if_nameindex())
        words = f"{host} is link-local: which interface? write one behind the address: {ways}"
        raise Unreachable(words, retryable=False)
    return addresses


def _wants_zone(address: str) -> bool:
    return address.lower().startswith("fe") and ipaddress.IPv6Address(address).is_link_local


def _interface(zone: str) -> str:
    """Its name, which the system gives back with an address."""
    try:
        return socket.if_indextoname(int(zone)) if zone.isdecimal() else _named(zone)
    except (OSError, OverflowError):
        names = ", ".join(name for _, name in socket.if_nameindex())
        raise Unreachable(f"no interface {zone!r} here, but {names}", retryable=False) from None


def _named(zone: str) -> str:
    socket.if_nametoindex(zone)
    return zone


def socket_address(address: str, port: int) -> tuple[str, int] | tuple[str, int, int, int]:
    """As a socket wants it: with the number of the interface, where there is one."""
    bare, sign, zone = address.partition("%")
    return (bare, port, 0, socket.if_nametoindex(zone)) if sign else (address, port)


def address_of(place: Sequence[str | int]) -> str:
    """The address in what a socket says of a peer, in its zone if it has one."""
    bare = str(place[0]).partition("%")[0]
    index = int(place[3]) if len(place) > 3 else 0
    return f"{bare}%{socket.if_indextoname(index)}" if index else bare
