"""The robots rules of a tree's servers (RFC 9309): `/robots.txt`, requested once for each server.

What a person typed is asked for in any case; what is found below it only where the rules let it. A server
that has none, or says no to the question (4xx), has no rules. Where nobody knows them (5xx, silence, no
connection) nothing is asked for, until another time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from protocols.contract import Finding, Origin, Referrer, Url
from protocols.errors import Declined, Refused, ResolveError, TryLater
from resolver.loops import running
from resolver.network.clock import Clock
from resolver.policy.subject import host_key
from resolver.transfer.session import Resolver
from resolver.transfer.streaming import MemoryStore, StreamingResponse
from resolver.trees.scope import names_of, place_of
from resolver.url.parsing import parse

if TYPE_CHECKING:
    from protego import Protego

#: Who we are to these rules (2.2.1): a part of our `User-Agent`.
TOKEN = "resolve"

#: Octets that are read of one: at least 500 KiB have to be (2.5).
MOST = 512_000

#: Seconds for which what was read holds (2.4).
_KEPT = 86_400.0

#: The names that lead to it.
_ITSELF = (b"robots.txt",)

#: Seconds between two starts at a server, at most, however many it wants.
LONGEST_DELAY = 60.0

#: Lines that are looked at for the one to be shown.
_MOST_SHOWN = 256

_BOM = b"\xef\xbb\xbf"


class RobotsRules:
    """What the octets of one say. Whatever is in them is no error."""

    def __init__(self, octets: bytes) -> None:
        from protego import Protego  # few runs walk through pages

        octets = octets.removeprefix(_BOM)  # behind which the first group would not be seen
        if len(octets) > MOST:
            octets = octets[: octets.rfind(b"\n", 0, MOST) + 1]
        self._text = octets.decode("utf-8", "replace")
        self._rules = Protego.parse(self._text)
        delay = self._rules.crawl_delay(TOKEN)
        self.wanted_delay = max(0.0, delay) if delay is not None and delay == delay else 0.0

    @property
    def delay(self) -> float:
        """Seconds between two starts; 0 where it says nothing of that."""
        return min(self.wanted_delay, LONGEST_DELAY)

    def allows(self, url: str) -> bool:
        """May this be asked for, as it is sent?"""
        return self._rules.can_fetch(url, TOKEN)

    def line(self, url: str) -> str | None:
        """The longest of the lines that forbid it, where one of the first does."""
        found = [
            path
            for path in islice(self._paths(), _MOST_SHOWN)
            if not _disallow_path(path).can_fetch(url, TOKEN)
        ]
        return f"Disallow: {max(found, key=len)}" if found else None

    def _paths(self) -> list[str]:
        pairs = (line.partition("#")[0].partition(":") for line in self._text.splitlines())
        return [value.strip() for name, _, value in pairs if name.strip().lower() == "disallow"]


def _disallow_path(path: str) -> Protego:
    from protego import Protego

    return Protego.parse(f"User-agent: *\nDisallow: {path}\n")


@dataclass(slots=True)
class _RobotsServer:
    """One scheme, host and port. `failed` is why nobody knows its rules."""

    lock: AbstractAsyncContextManager[object]
    asked: float | None = None
    rules: RobotsRules | None = None
    failed: ResolveError | None = None


class Robots:
    """The rules of all servers of a run. `slow` is told of a host how many seconds it wants between two
    starts, `report` what is odd about its rules."""

    def __init__(
        self, session: Resolver, slow: Callable[[str, float], None], report: Callable[[str, Finding], None]
    ) -> None:
        self._session = session
        self._slow = slow
        self._report = report
        self._loop = running()
        self._servers: dict[str, _RobotsServer] = {}

    async def check(self, url: Url, origin: Origin, referrer: Referrer | None) -> Finding | None:
        """What is to be said of a URL that is not to be asked for; None where it may be. Raises `TryLater`
        where nobody knows. Whoever has that `origin` and `referrer` is the one who asks."""
        if names_of(url) == _ITSELF:
            return None
        place = place_of(url)
        server = self._servers.get(place)
        if server is None:
            server = self._servers[place] = _RobotsServer(self._loop.lock())
        if self._is_due(server):
            async with server.lock:
                if self._is_due(server):
                    await self._ask(server, parse(f"{place}/robots.txt", origin=origin), origin, referrer)
        if server.failed is not None:
            words = f"/robots.txt of this server cannot be had: {server.failed.message}"
            raise TryLater(words, url=url.shown) from server.failed
        if server.rules is None or server.rules.allows(url.text):
            return None
        line = server.rules.line(url.text)
        detail = "/robots.txt asks not to fetch this" + ("" if line is None else f": {line}")
        return Finding("http:robots", "warn", detail)

    def _is_due(self, server: _RobotsServer) -> bool:
        return server.asked is None or self._loop.current_time() - server.asked > _KEPT

    async def _ask(self, server: _RobotsServer, url: Url, origin: Origin, referrer: Referrer | None) -> None:
        server.rules = server.failed = None
        try:
            server.rules = RobotsRules(await self._read(url, origin, referrer))
        except Declined as error:
            if not (error.code or "").startswith("4"):
                server.failed = error
        except Refused:
            pass  # too many redirects count as none (2.3.1.2), and a place that is refused is so for all
        except ResolveError as error:
            server.failed = error
        server.asked = self._loop.current_time()
        if server.rules is not None and server.rules.delay:
            self._slow(host_key(url), server.rules.delay)
            if server.rules.wanted_delay > LONGEST_DELAY:
                words = f"Crawl-delay of {server.rules.wanted_delay:g} s: {LONGEST_DELAY:g} s are kept to"
                self._report(url.shown, Finding("http:crawl-delay", "warn", words))

    async def _read(self, url: Url, origin: Origin, referrer: Referrer | None) -> bytes:
        """The first `MOST` octets, and one more. Raises `ResolveError`."""
        memory = MemoryStore()

        async def fill(reply: StreamingResponse) -> None:
            octets = await reply.body.take(MOST + 1 - memory.position)
            await memory.fill(_iterate_once(octets))

        retrier = self._session.retrier(url, memory, fill, origin=origin, referrer=referrer)
        await retrier.retry(Clock(self._session.limits_of(url).total))
        return memory.content()


async def _iterate_once(octets: bytes) -> AsyncIterator[bytes]:
    yield octets
