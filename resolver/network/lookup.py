"""DNS lookups with a cache (S09), and the zones of link-local addresses.

A cached answer is valid for one minute. Tests replace the lookup function, so that no test contacts a name
server.
"""

from __future__ import annotations

import ipaddress
import math
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from protocols.errors import TimedOut, Unreachable
from protocols.location import Url
from resolver.loops import Loop, running
from resolver.policy.addresses import literal_addresses
from resolver.url.parsing import find_zone

Lookup: TypeAlias = Callable[[str, int], Awaitable[list[str]]]

#: A function that returns the deadline of a lookup on the clock of the event loop.
Deadline: TypeAlias = Callable[[], float]

#: The `getaddrinfo` error codes for a missing name (NXDOMAIN), and for a name without an address (NODATA).
#: EAI_AGAIN is not included, because a name server that is unavailable now may respond later.
_NO_NAME = (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME))

#: Lifetime of a cached DNS answer in seconds, within one run (S09).
LIFETIME = 60.0

#: Maximum number of cached names. The limit bounds the memory of the cache in a crawl of very many hosts.
CAPACITY = 4096


async def look_up(host: str, port: int) -> list[str]:
    """Query the system resolver with bytes, so that `getaddrinfo` does not apply its own IDNA rules."""
    try:
        entries = await running().getaddrinfo(host.encode("ascii"), port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as error:
        words = error.strerror if isinstance(error, socket.gaierror) else str(error)
        is_lasting = isinstance(error, UnicodeError) or error.errno in _NO_NAME
        raise Unreachable(f"no address for {host}: {words}", lasting=is_lasting) from error
    return [str(address[0]) for _, _, _, _, address in entries]


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


class LookupCache:
    """A cache for the DNS answers of one run; failures are not cached."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._answers: dict[str, tuple[float, tuple[str, ...]]] = {}
        self._run: object = None

    async def find_addresses(self, host: str, port: int, until: Deadline | None = None) -> tuple[str, ...]:
        """Return the distinct IP addresses in the order of the DNS answer.

        `until` returns the deadline of a lookup. A cached answer does not need a deadline.

        Raises:
            Unreachable: the name has no address, or the lookup failed.
            TimedOut: the deadline passed during the lookup.
        """
        loop = self._current_loop()
        expiry, addresses = self._answers.get(host, (-math.inf, ()))
        if loop.current_time() < expiry:
            return addresses
        with loop.move_on_at(math.inf if until is None else until()):
            addresses = self._check_addresses(host, await self._lookup(host, port))
            self._store(host, addresses, loop.current_time() + LIFETIME)
            return addresses
        raise TimedOut(f"timed out: no address for {host}")

    def _current_loop(self) -> Loop:
        """Return the running event loop, and clear the cache if the loop is new.

        Each event loop has a separate clock, so cached times of an earlier loop are not valid.
        """
        loop = running()
        run = loop.run()
        if run is not self._run:
            self._run = run
            self._answers.clear()
        return loop

    def _check_addresses(self, host: str, answers: list[str]) -> tuple[str, ...]:
        unzoned = (address.partition("%")[0] for address in answers)
        addresses = tuple(dict.fromkeys(address for address in unzoned if _is_address(address)))
        if not addresses:
            raise Unreachable(f"no address for {host}")
        return addresses

    def _store(self, host: str, addresses: tuple[str, ...], expiry: float) -> None:
        self._answers.pop(host, None)
        if len(self._answers) >= CAPACITY:
            del self._answers[next(iter(self._answers))]
        self._answers[host] = (expiry, addresses)


# The zone of a link-local address (RFC 4007, RFC 9844): the local network interface for the address.
#
# The zone is appended to the address, as in `fe80::1%eth0`. The system accepts this form. In the connection
# pool, addresses with different zones are different. The client never sends the zone to a server.


def add_zone(url: Url, host: str, addresses: tuple[str, ...]) -> tuple[str, ...]:
    """Return the addresses of `host` with the zone of the URL.

    Raises:
        Unreachable: this machine has no interface for the zone, or a link-local address has no zone.
    """
    zone = find_zone(url)
    if zone is not None:
        name = _interface_name(zone)
        return tuple(address if "%" in address else f"{address}%{name}" for address in addresses)
    if literal_addresses(host) == addresses and any(map(_needs_zone, addresses)):
        zones = ", ".join(f"%25{name}" for _, name in socket.if_nameindex())
        words = f"{host} is link-local: append an interface to the address ({zones})"
        raise Unreachable(words, retryable=False)
    return addresses


def _needs_zone(address: str) -> bool:
    return address.lower().startswith("fe") and ipaddress.IPv6Address(address).is_link_local


def _interface_name(zone: str) -> str:
    """Return the interface name for a zone, as the system reports it in addresses."""
    try:
        if zone.isdecimal():
            return socket.if_indextoname(int(zone))
        socket.if_nametoindex(zone)
    except (OSError, OverflowError):
        names = ", ".join(name for _, name in socket.if_nameindex())
        raise Unreachable(
            f"no interface {zone!r} on this machine (available: {names})", retryable=False
        ) from None
    return zone


def socket_address(address: str, port: int) -> tuple[str, int] | tuple[str, int, int, int]:
    """Return the socket address, with the number of the network interface for a zone."""
    bare, sign, zone = address.partition("%")
    return (bare, port, 0, socket.if_nametoindex(zone)) if sign else (address, port)


def format_peer(peer: Sequence[str | int]) -> str:
    """Return the IP address in a socket's peer tuple, with the zone of a link-local address."""
    bare = str(peer[0]).partition("%")[0]
    index = int(peer[3]) if len(peer) > 3 else 0
    return f"{bare}%{socket.if_indextoname(index)}" if index else bare
