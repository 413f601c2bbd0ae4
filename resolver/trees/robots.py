"""The robots.txt rules (RFC 9309) for recursive retrieval, requested once for each server.

A URL from the user is always requested. A URL from a listing is requested only if the rules allow the URL. A
4xx response means that the server does not have rules. If the rules are unknown (5xx, timeout, no
connection), URLs from listings are not requested, and their error is `TryLater`. The rules are requested
again after a day.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from protocols.contract import Finding, Origin, Referrer, Url
from protocols.errors import Declined, Refused, ResolveError, TryLater
from protocols.text import Masked
from resolver.loops import running
from resolver.network.clock import Clock
from resolver.policy.subject import host_key
from resolver.transfer.session import Resolver
from resolver.transfer.streaming import MemoryStore, StreamingResponse
from resolver.trees.scope import format_server, list_names
from resolver.url.parsing import parse

if TYPE_CHECKING:
    from protego import Protego

#: The product token that selects the rules for this client (RFC 9309 section 2.2.1). The `User-Agent`
#: contains this token.
TOKEN = "resolve"

#: Maximum number of bytes of robots.txt that are parsed. RFC 9309 section 2.5 requires at least 500 KiB.
MAX_SIZE = 512_000

#: Cache lifetime of the rules in seconds (RFC 9309 section 2.4).
_LIFETIME = 86_400.0

#: The path of robots.txt, which is always allowed.
_ROBOTS_PATH = (b"robots.txt",)

#: Maximum Crawl-delay in seconds. A larger Crawl-delay is reduced to this value.
MAX_DELAY = 60.0

#: Maximum number of robots.txt lines that are searched for the rule that forbids a URL.
_MAX_SEARCHED = 256

_BOM = b"\xef\xbb\xbf"

#: A line with a user agent, in each spelling that Protego accepts.
_USER_AGENT = re.compile(r"\s*user[-\s]*agent[\s:]+(.*)", re.IGNORECASE)


class RobotsRules:
    """The rules of one robots.txt file; the parser ignores invalid lines and never fails."""

    def __init__(self, octets: bytes) -> None:
        from protego import Protego  # Imported lazily: few runs retrieve web pages recursively.

        octets = octets.removeprefix(_BOM)  # After a byte order mark, Protego would ignore the first group.
        if len(octets) > MAX_SIZE:
            octets = octets[: octets.rfind(b"\n", 0, MAX_SIZE) + 1]
        self._text = octets.decode("utf-8", "replace")
        self._rules = Protego.parse("\n".join(map(_merge_agent, self._text.splitlines())))
        delay = self._rules.crawl_delay(TOKEN)
        self.requested_delay = max(0.0, delay) if delay is not None and delay == delay else 0.0

    @property
    def delay(self) -> float:
        """Return the Crawl-delay in seconds; 0 if the rules do not contain a Crawl-delay."""
        return min(self.requested_delay, MAX_DELAY)

    def allows(self, url: str) -> bool:
        """Return whether the rules allow a request for `url`, in the form that is sent."""
        return self._rules.can_fetch(url, TOKEN)

    def find_rule(self, url: str) -> str | None:
        """Return the longest rule among the first 256 lines that forbids the URL, or None."""
        paths = [
            path
            for path in islice(self._paths(), _MAX_SEARCHED)
            if not _disallow_path(path).can_fetch(url, TOKEN)
        ]
        return f"Disallow: {max(paths, key=len)}" if paths else None

    def _paths(self) -> list[str]:
        pairs = (line.partition("#")[0].partition(":") for line in self._text.splitlines())
        return [value.strip() for name, _, value in pairs if name.strip().lower() == "disallow"]


def _merge_agent(line: str) -> str:
    """Return the line, with the same name for all user agents whose rules do not apply to this client.

    Protego copies each rule to every user agent of its group. A group of 15,000 names with 15,000 rules would
    take minutes (quadratic time).
    """
    agent = _USER_AGENT.match(line)
    if agent is None:
        return line
    name = agent[1].partition("#")[0].strip().lower()
    name = name if name == "*" else name.replace("*", "")
    # Protego applies the rules of a prefix of the token, too.
    return f"User-agent: {name if name == '*' or TOKEN.startswith(name) else 'other'}"


def _disallow_path(path: str) -> Protego:
    from protego import Protego

    return Protego.parse(f"User-agent: *\nDisallow: {path}\n")


@dataclass(slots=True)
class _RobotsServer:
    """A server (scheme, host and port) with its rules, or the `error` of the request for them."""

    lock: AbstractAsyncContextManager[object]
    requested_at: float | None = None
    rules: RobotsRules | None = None
    error: ResolveError | None = None


class Robots:
    """The robots rules of all servers of a run.

    Args:
        session: The session for requests of robots.txt.
        slow: A function that is called with a host and the Crawl-delay of the host in seconds.
        report: A function that is called with the URL of robots.txt and a finding about the rules.
    """

    def __init__(
        self, session: Resolver, slow: Callable[[str, float], None], report: Callable[[Masked, Finding], None]
    ) -> None:
        self._session = session
        self._slow = slow
        self._report = report
        self._loop = running().bind()
        self._servers: dict[str, _RobotsServer] = {}

    async def check(self, url: Url, origin: Origin, referrer: Referrer | None) -> Finding | None:
        """Return a finding if the robots.txt rules forbid the URL.

        The result is `None` if the rules allow the URL.

        Args:
            url: The URL to check.
            origin: The origin for the request of robots.txt: the origin of the top URL of the tree.
            referrer: The referrer for the request of robots.txt: the referrer of the top URL.

        Raises:
            TryLater: The rules are unknown.
        """
        place = format_server(url)
        server = self._servers.get(place)
        if server is None:
            server = self._servers[place] = _RobotsServer(self._loop.lock())
        if self._is_due(server):
            async with server.lock:
                if self._is_due(server):
                    await self._load(server, parse(f"{place}/robots.txt", origin=origin), origin, referrer)
        is_allowed = server.error is None and (server.rules is None or server.rules.allows(url.text))
        if is_allowed or list_names(url) == _ROBOTS_PATH:
            return None
        if server.error is not None:
            words = f"cannot get /robots.txt of this server: {server.error.message}"
            raise TryLater(words, url=url.shown) from server.error
        rule = None if server.rules is None else server.rules.find_rule(url.text)
        detail = "/robots.txt disallows this URL" + ("" if rule is None else f": {rule}")
        return Finding("http:robots", "warn", detail)

    def _is_due(self, server: _RobotsServer) -> bool:
        return server.requested_at is None or self._loop.current_time() - server.requested_at > _LIFETIME

    async def _load(self, server: _RobotsServer, url: Url, origin: Origin, referrer: Referrer | None) -> None:
        server.rules = server.error = None
        try:
            server.rules = RobotsRules(await self._read(url, origin, referrer))
        except Declined as error:
            if not (error.code or "").startswith("4"):
                server.error = error
        except Refused:
            # If robots.txt causes too many redirects, the server counts as a server without rules (RFC 9309
            # section 2.3.1.2). If the policy refuses the address of the server, the policy refuses all URLs
            # of the server anyway.
            pass
        except ResolveError as error:
            server.error = error
        server.requested_at = self._loop.current_time()
        if server.rules is not None and server.rules.delay:
            self._slow(host_key(url), server.rules.delay)
            if server.rules.requested_delay > MAX_DELAY:
                words = f"Crawl-delay of {server.rules.requested_delay:g} s: reduced to {MAX_DELAY:g} s"
                self._report(url.shown, Finding("http:crawl-delay", "warn", words))

    async def _read(self, url: Url, origin: Origin, referrer: Referrer | None) -> bytes:
        """Fetch robots.txt, and return at most `MAX_SIZE` + 1 bytes. Raises `ResolveError`."""
        memory = MemoryStore()

        async def fill(reply: StreamingResponse) -> None:
            memory.append(await reply.body.take(MAX_SIZE + 1 - memory.position))

        retrier = self._session.retrier(url, memory, fill, origin=origin, referrer=referrer)
        await retrier.retry(Clock(self._session.limits_of(url).total))
        return memory.content()
