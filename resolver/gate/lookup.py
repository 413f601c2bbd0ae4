"""Names become addresses, once a minute at most (S09).

A name that needs no look-up (a literal address, `localhost` and what ends in it) never causes one. The
look-up itself is a function that can be replaced, so that tests ask no name server.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import trio

from protocols.errors import Unreachable
from resolver.policy.addresses import literal_addresses

Lookup: TypeAlias = Callable[[str, int], Awaitable[list[str]]]

#: Seconds that an answer may serve within one run (S09).
LIFETIME = 60.0

#: Names kept at most: a crawl of very many hosts must not grow without end.
CAPACITY = 4096


async def look_up(host: str, port: int) -> list[str]:
    """Ask the system. The name goes as octets, so that no other library's idea of IDNA touches it."""
    try:
        found = await trio.socket.getaddrinfo(host.encode("ascii"), port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as error:
        words = error.strerror if isinstance(error, socket.gaierror) else str(error)
        raise Unreachable(f"no address for {host}: {words}") from error
    return [str(sockaddr[0]) for _, _, _, _, sockaddr in found]


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


class LookupCache:
    """The answers of one run, each for a minute. A failure is not kept."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._answers: dict[str, tuple[float, tuple[str, ...]]] = {}

    async def addresses_of(self, host: str, port: int) -> tuple[str, ...]:
        """Numeric addresses in the order of the answer, each once. Raises `Unreachable`."""
        known = literal_addresses(host)
        if known is not None:
            return known
        expiry, addresses = self._answers.get(host, (0.0, ()))
        if trio.current_time() < expiry:
            return addresses
        addresses = self._checked(host, await self._lookup(host, port))
        self._keep(host, addresses)
        return addresses

    def _checked(self, host: str, found: list[str]) -> tuple[str, ...]:
        unzoned = (address.partition("%")[0] for address in found)
        addresses = tuple(dict.fromkeys(address for address in unzoned if _is_address(address)))
        if not addresses:
            raise Unreachable(f"no address for {host}")
        return addresses

    def _keep(self, host: str, addresses: tuple[str, ...]) -> None:
        self._answers.pop(host, None)
        if len(self._answers) >= CAPACITY:
            del self._answers[next(iter(self._answers))]
        self._answers[host] = (trio.current_time() + LIFETIME, addresses)
