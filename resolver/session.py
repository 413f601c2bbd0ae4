"""What a program calls: fetch, stream, save, entries, info; one at a time or in a `Resolver`.

A `Resolver` shares its door (policy, limits, look-ups, TLS) among its retrievals. The module-level
functions of the package are a `Resolver` for one call.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from os import PathLike, fspath
from types import TracebackType

from protocols.contract import Entry, Finding, Limits, Options, Origin, Referrer, Url, Wanted
from protocols.errors import LimitExceeded
from resolver import http2
from resolver.checksum import Checksum
from resolver.clock import Clock
from resolver.codings import installed
from resolver.credentials import Given, Keeper
from resolver.events import OnEvent
from resolver.gate import Door, Family
from resolver.hops import Request
from resolver.keep import Keep, Memory
from resolver.live import EntryStream, LiveReply
from resolver.naming import listed_name, server_file_name
from resolver.policy import Policy
from resolver.response import Response, Saved
from resolver.retrieval import Retrieval
from resolver.saving import Exists, Order, Saver, leave
from resolver.tries import Carrier, Fill, Patience
from resolver.url import parse
from resolver.watching import named


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
        patience: Patience | None = None,
    ) -> None:
        self.policy = Policy.default() if policy is None else policy
        self.limits = Limits() if limits is None else limits
        self._patience = Patience() if patience is None else patience
        self._strict = strict
        self._options = replace(options or Options(keep=True), codings=installed(), http2=http2.installed())
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
        return Retrieval(self._door, self._request(url, origin, referrer), most=self._most)

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
        memory = Memory()
        entries: list[Entry] = []

        async def fill(reply: LiveReply) -> None:
            await memory.fill(reply.body)
            if reply.lists:  # while it is open: what a name in a directory is, the file system says
                entries[:] = self._entries_of(reply, memory.tail(memory.position))

        request = self._request(url, origin, referrer, prompt=True)
        with named(request.url.shown):
            carrier = self._carrier(request, memory, fill, self.limits.body)
            reply = await carrier.carry(Clock(self.limits.total))
        return self._finished(reply, memory.content(), tuple(entries), carrier.findings)

    def carrier(
        self,
        url: str | Url,
        keep: Keep,
        fill: Fill,
        *,
        origin: Origin = "user",
        referrer: tuple[str, str | None] | None = None,
    ) -> Carrier:
        """What brings the object into a keep of the caller's own, try after try; see `Carrier.carry`."""
        return self._carrier(self._request(url, origin, referrer), keep, fill, self._most)

    def _carrier(self, request: Request, keep: Keep, fill: Fill, most: int | None) -> Carrier:
        def open_(request: Request, clock: Clock, attempt: int) -> Retrieval:
            return Retrieval(self._door, request, most=most, clock=clock, attempt=attempt)

        return Carrier(open_, (request,), keep, fill, self._patience, self._door.on_event)

    @property
    def _most(self) -> int | None:
        """Octets that a stream or a file may have: unbounded unless the caller set it."""
        return self.limits.body if self.limits.body_everywhere else None

    def _finished(
        self, reply: LiveReply, content: bytes, entries: tuple[Entry, ...], findings: list[Finding]
    ) -> Response:
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
            entries=entries if reply.lists else None,
            findings=(*reply.findings, *findings),
            verified=reply.verified,
            elapsed=reply.elapsed,
            peer=reply.peer,
            chain=reply.chain,
            target=reply.target,
            extra=reply.extra,
            raw=reply.untouched(content),
        )

    def _entries_of(self, reply: LiveReply, content: bytes) -> list[Entry]:
        entries: list[Entry] = []
        for entry in reply.entries_in(content):
            if len(entries) >= self.limits.entries:
                raise LimitExceeded(
                    "entries", f"more than {self.limits.entries} entries; stream them instead", url=reply.url
                )
            entries.append(entry)
        return entries

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
        request = self._request(url, origin, referrer, "facts", prompt=True)
        async with Retrieval(self._door, request, most=None) as reply:
            return Entry(
                name=listed_name(request.url),
                url=reply.url,
                kind=reply.kind,
                size=reply.size,
                modified=reply.modified,
                title=reply.title,
                extra={**(reply.extra or {}), "media_type": reply.media_type, "target": reply.target},
                origin=origin,
                referrer=request.referrer,
            )

    async def server_name(
        self,
        url: str | Url,
        *,
        origin: Origin = "user",
        referrer: tuple[str, str | None] | None = None,
    ) -> str | None:
        """The file name that the server suggests (Content-Disposition), made harmless; None where it suggests
        none, or the policy does not let it. Raises `Refused` (S14) where nothing is left of it."""
        request = self._request(url, origin, referrer, "facts", prompt=True)
        if not self.policy.allow_server_name or request.url.scheme not in ("http", "https"):
            return None
        reply = await self._carrier(request, Memory(), leave, None).carry(Clock(self.limits.total))
        return server_file_name(reply.meta)

    async def save(
        self,
        url: str | Url,
        path: str | PathLike[str],
        *,
        exists: Exists = "fail",
        make_directory: bool = False,
        digest: bool = False,
        checksum: str | Checksum | None = None,
        mirrors: Sequence[str] = (),
        origin: Origin = "user",
        referrer: tuple[str, str | None] | None = None,
    ) -> Saved:
        """The object in the file `path`, complete or not there at all.

        It grows in `path` + `.part` and gets its name, and the peer's modification time, once it is
        whole; cut off, it is continued by the next call if the object is still the same. `exists` says what
        to do about a file that has the name already: `fail` (`LocalError`, before anything is sent),
        `resume` (it counts as begun), `skip`, `newer` (fetch only what is later), `replace`, `rename` (take
        the next free name). `make_directory` makes the directory it goes to. With `digest` the SHA-256 of
        the file is taken. `checksum` is `ALG:HEX` or `auto`; a file that does not match is fetched once
        more, then removed (`ChecksumMismatch`). `mirrors` are other places of the same object, which take
        over when one fails.
        """
        first = self._request(url, origin, referrer, "file", prompt=True)
        others = [self._request(mirror, origin, referrer, "file", prompt=True) for mirror in mirrors]
        order = Order(
            requests=(first, *others),
            path=fspath(path),
            exists=exists,
            make_directory=make_directory,
            digest=digest,
            checksum=Checksum.parse(checksum) if isinstance(checksum, str) else checksum,
        )
        with named(first.url.shown):
            return await Saver(self._door, order, self._patience, self._most).run()

    def _request(
        self,
        url: str | Url,
        origin: Origin,
        referrer: tuple[str, str | None] | None,
        want: Wanted = "content",
        *,
        prompt: bool = False,
    ) -> Request:
        parsed = parse(url, strict=self._strict) if isinstance(url, str) else url
        found_in = None if referrer is None else Referrer(*referrer)
        return Request(parsed, origin, found_in, replace(self._options, want=want, prompt=prompt))
