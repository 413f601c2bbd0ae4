"""The robots.txt rules of a tree's servers (RFC 9309), requested once for each server.

A URL that the user typed is always requested. A URL that was found below it is requested only if the rules
allow that. A server without the file, or with a 4xx response, has no rules. If the rules are unknown (5xx,
timeout, no connection), a found URL is not requested, and its error is `TryLater`. The rules are read again
after a day.
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

#: The product token for which the rules are selected (RFC 9309 section 2.2.1). The token is a part of the
#: `User-Agent`.
TOKEN = "resolve"

#: The maximum of bytes read; at least 500 KiB are required (RFC 9309 section 2.5).
MOST = 512_000

#: Seconds until the rules are read again (RFC 9309 section 2.4).
_KEPT = 86_400.0

#: The path of the file itself.
_ITSELF = (b"robots.txt",)

#: The maximum of seconds between two requests to a server. A larger Crawl-delay is reduced to it.
LONGEST_DELAY = 60.0

#: The maximum of lines that are searched for the line that forbids a URL.
_MOST_SHOWN = 256

_BOM = b"\xef\xbb\xbf"


class RobotsRules:
    """The rules of one robots.txt. The parser accepts any content."""

    def __init__(self, octets: bytes) -> None:
        from protego import Protego  # Imported lazily: few runs walk through web pages.

        octets = octets.removeprefix(_BOM)  # With a byte order mark, the parser would ignore the first group.
        if len(octets) > MOST:
            octets = octets[: octets.rfind(b"\n", 0, MOST) + 1]
        self._text = octets.decode("utf-8", "replace")
        self._rules = Protego.parse(self._text)
        delay = self._rules.crawl_delay(TOKEN)
        self.wanted_delay = max(0.0, delay) if delay is not None and delay == delay else 0.0

    @property
    def delay(self) -> float:
        """Return the seconds between two requests; 0 if the rules have no delay."""
        return min(self.wanted_delay, LONGEST_DELAY)

    def allows(self, url: str) -> bool:
        """Return whether the URL, as it is sent, may be requested."""
        return self._rules.can_fetch(url, TOKEN)

    def line(self, url: str) -> str | None:
        """Return the longest line that forbids the URL; None if the first 256 do not."""
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
    """A server by scheme, host and port, with its rules.

    `failed` is the error because of which the rules are unknown.
    """

    lock: AbstractAsyncContextManager[object]
    asked: float | None = None
    rules: RobotsRules | None = None
    failed: ResolveError | None = None


class Robots:
    """The robots rules of all servers of a run.

    Args:
        session: The session that requests the rules.
        slow: Called with a host and the seconds between two requests that its rules demand.
        report: Called with the URL of the rules and a finding about them.
    """

    def __init__(
        self, session: Resolver, slow: Callable[[str, float], None], report: Callable[[str, Finding], None]
    ) -> None:
        self._session = session
        self._slow = slow
        self._report = report
        self._loop = running()
        self._servers: dict[str, _RobotsServer] = {}

    async def check(self, url: Url, origin: Origin, referrer: Referrer | None) -> Finding | None:
        """Return the finding for a URL that must not be requested; None if it may be.

        Args:
            url: The URL to check.
            origin: The origin of the tree's top, used for the request of the rules.
            referrer: The referrer of the tree's top, used likewise.

        Raises:
            TryLater: The rules are unknown.
        """
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
            words = f"cannot get /robots.txt of this server: {server.failed.message}"
            raise TryLater(words, url=url.shown) from server.failed
        if server.rules is None or server.rules.allows(url.text):
            return None
        line = server.rules.line(url.text)
        detail = "/robots.txt disallows this URL" + ("" if line is None else f": {line}")
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
            # Too many redirects count as no rules (RFC 9309 section 2.3.1.2). A refused address is refused
            # for each URL of the server.
            pass
        except ResolveError as error:
            server.failed = error
        server.asked = self._loop.current_time()
        if server.rules is not None and server.rules.delay:
            self._slow(host_key(url), server.rules.delay)
            if server.rules.wanted_delay > LONGEST_DELAY:
                words = f"Crawl-delay of {server.rules.wanted_delay:g} s: reduced to {LONGEST_DELAY:g} s"
                self._report(url.shown, Finding("http:crawl-delay", "warn", words))

    async def _read(self, url: Url, origin: Origin, referrer: Referrer | None) -> bytes:
        """Return the first `MOST` bytes and one more. Raises `ResolveError`."""
        memory = MemoryStore()

        async def fill(reply: StreamingResponse) -> None:
            octets = await reply.body.take(MOST + 1 - memory.position)
            await memory.fill(_iterate_once(octets))

        retrier = self._session.retrier(url, memory, fill, origin=origin, referrer=referrer)
        await retrier.retry(Clock(self._session.limits_of(url).total))
        return memory.content()


async def _iterate_once(octets: bytes) -> AsyncIterator[bytes]:
    yield octets
