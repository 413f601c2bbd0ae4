"""Policy checks and fetches of URLs for pages, with a limited number of concurrent fetches."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import trio

from protocols.contract import Entry
from protocols.errors import InvalidUrl, ResolveError
from protocols.location import JsonValue, Referrer, Url
from protocols.options import Options
from resolver.policy.environment import find_setting, read_proxies
from resolver.policy.judgment import check
from resolver.policy.subject import Verdict
from resolver.transfer.plan import Plan, explain
from resolver.transfer.response import Response
from resolver.transfer.session import Resolver
from resolver.transfer.settings import Settings
from resolver.url.parsing import parse
from resolver.web.dialogue.exchange import RecordedExchange
from resolver.web.dialogue.recording import record_exchange
from resolver.web.pages.directory import Judge
from resolver.web.session import UrlOrigin

#: Maximum number of concurrent fetches of target URLs. More than one, so that several pages can load at the
#: same time.
MAX_FETCHES = 6

_Result = TypeVar("_Result")

#: Matches a URL whose path has only letters, digits and `/._-`. For such a URL, the policy verdict depends
#: only on scheme, host, port and item type.
_PLAIN = re.compile(r"((?:gopher|ftp|https?)://[^/?#]+/[A-Za-z0-9]?)[A-Za-z0-9/._-]{0,200}")


class ReadRequest(NamedTuple):
    """Optional parameters of a fetch.

    Attributes:
        before: List only articles of a newsgroup with lower numbers; 0 lists the newest articles.
        relevant: The URLs of documents for relevance feedback. URLs in another database are ignored.
    """

    before: int = 0
    relevant: tuple[str, ...] = ()


DEFAULT = ReadRequest()


class ReadResult(NamedTuple):
    """The response or error of a fetch, and the recorded protocol exchange."""

    reply: Response | ResolveError
    exchange: RecordedExchange


class PageReader:
    """Checks and fetches URLs with a `Resolver` and its settings."""

    def __init__(self, resolver: Resolver, settings: Settings) -> None:
        self.resolver = resolver
        self._settings = settings
        self._limiter = trio.CapacityLimiter(MAX_FETCHES)

    def url(self, text: str, source: UrlOrigin) -> Url | None:
        """Return the parsed URL, or None if the text is not a URL."""
        try:
            return parse(text, strict=self._settings.get("strict", False), origin=source.origin)
        except InvalidUrl:
            return None

    def plan(self, text: str | Url, source: UrlOrigin) -> Plan:
        """Return the plan of a request, without sending it."""
        setting = find_setting(self._settings.get("news_server"))
        return explain(
            text,
            policy=self.resolver.policy,
            origin=source.origin,
            referrer=source.referrer,
            gateways=self._settings.get("gateways"),
            news_server=None if setting is None else setting.text,
            strict=self._settings.get("strict", False),
            options=self._settings.get("options"),
            environment=read_proxies(),
            proxy=self._settings.get("proxy"),
            hosts=self._settings.get("hosts"),
        )

    def verdict(self, text: str, source: UrlOrigin) -> Verdict:
        return check(
            text,
            policy=self.resolver.policy,
            origin=source.origin,
            referrer=source.referrer,
            gateways=self._settings.get("gateways"),
            environment=read_proxies(),
            proxy=self._settings.get("proxy"),
        )

    def make_judge(self, referrer: Referrer) -> Judge:
        """Return a function that returns the policy verdict for each entry of a page.

        The verdict assumes that the user confirms the URL of the entry. If a URL matches `_PLAIN`, its
        verdict is cached by scheme, host, port and item type.
        """
        source, verdicts = UrlOrigin("chosen", referrer), dict[str, Verdict]()

        def judge(entry: Entry) -> Verdict:
            text = entry.url or ""
            match = _PLAIN.fullmatch(text)
            if match is None:
                return self.verdict(text, source)
            if match[1] not in verdicts:
                verdicts[match[1]] = self.verdict(text, source)
            return verdicts[match[1]]

        return judge

    async def fetch(self, text: str | Url, source: UrlOrigin, request: ReadRequest = DEFAULT) -> ReadResult:
        """Fetch a URL, and record the protocol exchange.

        An error is returned and not raised. If `request` is not `DEFAULT`, the fetch uses another connection.
        """
        async with self._limiter:
            with record_exchange(trio.current_time) as recording:
                reply: Response | ResolveError
                try:
                    if request == DEFAULT:
                        reply = await self.resolver.fetch(
                            text, origin=source.origin, referrer=source.referrer
                        )
                    else:
                        reply = await self._fetch_separately(text, source, request)
                except ResolveError as error:
                    reply = error
        return ReadResult(reply, recording.exchange())

    async def _fetch_separately(self, text: str | Url, source: UrlOrigin, request: ReadRequest) -> Response:
        settings, options = self._settings.copy(), self._settings.get("options") or Options()
        database = _locate_database(parse(text) if isinstance(text, str) else text)
        urls = (self.url(url, source) for url in request.relevant)
        relevant = tuple(url for url in urls if url is not None and _locate_database(url) == database)
        settings["options"] = replace(options, before=request.before or None, relevant=relevant)
        async with Resolver(**settings) as resolver:
            return await resolver.fetch(text, origin=source.origin, referrer=source.referrer)


def _locate_database(url: Url) -> list[JsonValue]:
    """Return the server and the database of a URL; a document ID is valid only in its own database."""
    parts = url.components()
    return [url.scheme, *(parts.get(name) for name in ("host", "port", "database"))]


async def run_while_connected(
    receive: Callable[[], Awaitable[Any]], work: Callable[[], Awaitable[_Result]]
) -> _Result | None:
    """Run `work` and return its result, or cancel it if the browser disconnects.

    `work` must not raise an exception.

    Returns:
        The result of `work`, or None if the browser disconnected first.
    """
    result: _Result | None = None

    async def watch(nursery: trio.Nursery) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch, nursery)
        result = await work()
        nursery.cancel_scope.cancel()  # the ASGI server sends `http.disconnect` after a response, too
    return result
