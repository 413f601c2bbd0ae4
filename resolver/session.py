"""What a program calls: fetch, stream, save, entries, info; one at a time or in a `Resolver`.

A `Resolver` shares its door (policy, limits, look-ups, TLS) among its retrievals. The module-level
functions of the package are a `Resolver` for one call.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from types import TracebackType

import trio

from protocols.contract import Entry, Kind, Limits, Options, Origin, Referrer, Url, Wanted
from protocols.errors import LimitExceeded, Refused
from resolver.codings import installed
from resolver.credentials import Given, Keeper
from resolver.events import OnEvent
from resolver.gate import Door, Family
from resolver.gate.sink import Existing as Existing
from resolver.gate.sink import Sink
from resolver.listing import listing_octets
from resolver.policy import Policy
from resolver.response import Response, Saved
from resolver.retrieval import EntryStream, LiveReply, Request, Retrieval, collect
from resolver.url import parse


class Resolver:
    """Retrievals that share a policy, limits and what was learnt about hosts.

    An async context manager; leaving it closes what is kept open. Safe to use from several tasks.
    """

    def __init__(
        self,
        *,
        policy: Policy | None = None,
        limits: Limits | None = None,
        gateways: Mapping[str, str] | None = None,
        on_event: OnEvent | None = None,
        cafile: str | None = None,
        family: Family | None = None,
        strict: bool = False,
        options: Options | None = None,
        credentials: Given | None = None,
        news_server: str | None = None,
    ) -> None:
        self.policy = Policy.default() if policy is None else policy
        self.limits = Limits() if limits is None else limits
        self._strict = strict
        self._options = replace(options or Options(), codings=installed())
        self._door = Door(
            policy=self.policy,
            limits=self.limits,
            gateways=gateways,
            on_event=on_event,
            cafile=cafile,
            family=family,
            credentials=Keeper(credentials).ask,
            news_server=news_server,
        )

    async def __aenter__(self) -> Resolver:
        await self._door.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._door.__aexit__(kind, error, trace)

    def stream(
        self,
        url: str | Url,
        *,
        origin: Origin = "user",
        referrer: tuple[str, str | None] | None = None,
    ) -> AbstractAsyncContextManager[LiveReply]:
        """A reply while its connection lives: iterate `reply.body`, or drain it.

        Unbounded in size unless the limits say `body_everywhere`.
        """
        most = self.limits.body if self.limits.body_everywhere else None
        return Retrieval(self._door, self._request(url, origin, referrer), most=most)

    async def fetch(
        self,
        url: str | Url,
        *,
        origin: Origin = "user",
        referrer: tuple[str, str | None] | None = None,
    ) -> Response:
        """The complete object in memory, at most `limits.body` octets of it.

        Raises only `ResolveError`: what is not complete is an error, never a shorter body.
        """
        request = self._request(url, origin, referrer)
        async with Retrieval(self._door, request, most=self.limits.body) as reply:
            content = await collect(reply.body)
            return self._finished(reply, content)

    def _finished(self, reply: LiveReply, content: bytes) -> Response:
        return Response(
            url=reply.url,
            requested_url=reply.requested_url,
            kind=reply.kind,
            content=content,
            media_type=reply.media_type,
            charset=reply.charset,
            size=reply.size,
            modified=reply.modified,
            meta=reply.meta,
            entries=self._entries_of(reply, content),
            findings=reply.findings,
            verified=reply.verified,
            elapsed=reply.elapsed,
            peer=reply.peer,
            chain=reply.chain,
            target=reply.target,
            extra=reply.extra,
            raw=reply.untouched(content),
        )

    def _entries_of(self, reply: LiveReply, content: bytes) -> tuple[Entry, ...] | None:
        if not reply.lists:
            return None
        entries: list[Entry] = []
        for entry in reply.entries_in(content):
            if len(entries) >= self.limits.entries:
                raise LimitExceeded(
                    "entries", f"more than {self.limits.entries} entries; stream them instead", url=reply.url
                )
            entries.append(entry)
        return tuple(entries)

    @asynccontextmanager
    async def entries(
        self,
        url: str | Url,
        *,
        origin: Origin = "user",
        referrer: tuple[str, str | None] | None = None,
    ) -> AsyncIterator[EntryStream]:
        """The records of a directory, menu, group or result list, one by one, without a bound.

        Raises `Declined` when the URL names no listing.
        """
        async with self.stream(url, origin=origin, referrer=referrer) as reply:
            yield reply.entries()

    async def info(
        self,
        url: str | Url,
        *,
        origin: Origin = "user",
        referrer: tuple[str, str | None] | None = None,
    ) -> Entry:
        """What the URL names, as one entry: kind, size, date, media type; the body is not read."""
        request = self._request(url, origin, referrer, "facts")
        async with Retrieval(self._door, request, most=None) as reply:
            return Entry(
                name=request.url.shown,
                url=reply.url,
                kind=reply.kind,
                size=reply.size,
                modified=reply.modified,
                extra={**(reply.extra or {}), "media_type": reply.media_type, "target": reply.target},
                origin=origin,
                referrer=request.referrer,
            )

    async def save(
        self,
        url: str | Url,
        path: str,
        *,
        exists: Existing = "fail",
        make_directory: bool = False,
        digest: bool = False,
        origin: Origin = "user",
        referrer: tuple[str, str | None] | None = None,
    ) -> Saved:
        """The object in the file `path`, complete or not there at all.

        It grows in `path` + `.part` and gets its name, and the peer's modification time, once it is
        whole. `exists` says what to do about a file that is there: `fail` (`LocalError`, before
        anything is sent) or `replace`. `make_directory` makes the directory it goes to. With `digest`
        the SHA-256 of the file is taken.
        """
        request = self._request(url, origin, referrer, "file")
        most = self.limits.body if self.limits.body_everywhere else None
        async with (
            Sink(path, exists=exists, make_directory=make_directory) as sink,
            Retrieval(self._door, request, most=most) as reply,
        ):
            count = await _fill(sink, reply)
            sha256 = await trio.to_thread.run_sync(sink.digest, "sha256") if digest else None
            await sink.commit(reply.modified)
            return Saved(
                url=reply.url,
                requested_url=reply.requested_url,
                path=path,
                bytes=count,
                resumed_from=0,
                kind=reply.kind,
                media_type=reply.media_type,
                modified=reply.modified,
                digest=None if sha256 is None else f"sha256:{sha256}",
                findings=reply.findings,
                verified=reply.verified,
                attempts=1,
                elapsed=reply.elapsed,
                peer=reply.peer,
                chain=reply.chain,
            )

    def _request(
        self,
        url: str | Url,
        origin: Origin,
        referrer: tuple[str, str | None] | None,
        want: Wanted = "content",
    ) -> Request:
        parsed = parse(url, strict=self._strict) if isinstance(url, str) else url
        found_in = None if referrer is None else Referrer(*referrer)
        return Request(parsed, origin, found_in, replace(self._options, want=want))


def octets_to_keep(reply: LiveReply) -> AsyncIterator[bytes]:
    """What a file or standard output gets: the lines of a listing, else the body as it is."""
    return listing_octets(reply.entries()) if reply.lists else reply.body


async def _fill(sink: Sink, reply: LiveReply) -> int:
    """Everything into the file, in bulk where the octets are taken as they are; how many."""
    if reply.kind in (Kind.LINK, Kind.SERVICE):
        raise Refused(
            "S10", f"this is a {reply.kind.value}: it leads to {reply.target}, which is not followed"
        )
    if not reply.lists:
        return await reply.body.drain(sink)
    count = 0
    async for octets in octets_to_keep(reply):
        sink.write(octets)
        count += len(octets)
    return count
