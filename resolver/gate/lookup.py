"""Names become addresses, once a minute at most (S09).

A name that needs no look-up (a literal address, `localhost` and what ends in it) never causes one. The
look-up itself is a function that can be replaced, so that tests ask no name server.
"""

from __future__ import annotations

import ipaddress
import math
import socket
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from protocols.errors import Unreachable
from resolver.loops import Loop, running
from resolver.policy.addresses import literal_addresses

Lookup: TypeAlias = Callable[[str, int], Awaitable[list[str]]]

#: Nobody has the name, or an address for it. A name server that cannot be asked now is EAI_AGAIN.
_NO_NAME = (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME))

#: Seconds that an answer may serve within one run (S09).
LIFETIME = 60.0

#: Names kept at most: a crawl of very many hosts must not grow without end.
CAPACITY = 4096


async def look_up(host: str, port: int) -> list[str]:
    """Ask the system. The name goes as octets, so that no other library's idea of IDNA touches it."""
    try:
        found = await running().getaddrinfo(host.encode("ascii"), port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as error:
        words = error.strerror if isinstance(error, socket.gaierror) else str(error)
        lasts = isinstance(error, UnicodeError) or error.errno in _NO_NAME
        raise Unreachable(f"no address for {host}: {words}", lasting=lasts) from error
    return [str(place[0]) for _, _, _, _, place in found]


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
        self._run: object = None

    async def addresses_of(self, host: str, port: int) -> tuple[str, ...]:
        """Numeric addresses in the order of the answer, each once. Raises `Unreachable`."""
        known = literal_addresses(host)
        if known is not None:
            return known
        loop = self._loop()
        expiry, addresses = self._answers.get(host, (-math.inf, ()))
        if loop.current_time() < expiry:
            return addresses
        addresses = self._checked(host, await self._lookup(host, port))
        self._keep(host, addresses, loop.current_time() + LIFETIME)
        return addresses

    def _loop(self) -> Loop:
        """The one that runs. Another run has another clock, and what was kept by the last one's is gone."""
        loop = running()
        run = loop.run()
        if run is not self._run:
            self._run = run
            self._answers.clear()
        return loop

    def _checked(self, host: str, found: list[str]) -> tuple[str, ...]:
        unzoned = (address.partition("%")[0] for address in found)
        addresses = tuple(dict.fromkeys(address for address in unzoned if _is_address(address)))
        if not addresses:
            raise Unreachable(f"no address for {host}")
        return addresses

    def _keep(self, host: str, addresses: tuple[str, ...], expiry: float) -> None:
        self._answers.pop(host, None)
        if len(self._answers) >= CAPACITY:
            del self._answers[next(iter(self._answers))]
        self._answers[host] = (expiry, addresses)
