"""The session: `Resolver` with fetch, stream, save, entries, info; and a session confined to one tree.

A `Resolver` shares its network (policy, limits, lookups, TLS) among its retrievals. The module-level
functions of the package are a `Resolver` for one call.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from os import PathLike, fspath
from types import TracebackType
from typing import TYPE_CHECKING, Any, Unpack, cast

from protocols.contract import Credentials, Entry, Limits, Options, Origin, Referrer, Url, Validators, Wanted
from protocols.errors import Declined, LimitExceeded, ProtocolError, ResolveError
from resolver.network.clock import Clock
from resolver.transfer import extras
from resolver.transfer.batch import Batch, RunningBatch
from resolver.transfer.extras import find_codings
from resolver.transfer.limits import Most, ignore_limits, locate_error, max_collected, max_streamed
from resolver.transfer.many import BatchSettings, Requests, check_pace, hosts_for, save_requests
from resolver.transfer.naming import index_suffix, is_index, listed_name, server_file_name
from resolver.transfer.network import Network
from resolver.transfer.redirects import Leads, MirrorPrefixes, RetrievalRequest, count_learnt, list_mirrors
from resolver.transfer.response import Outcome, Response, Saved
from resolver.transfer.retrieval import Retrieval
from resolver.transfer.retry import Fill, Retrier, give_way_for_room
from resolver.transfer.segments import HostConnectionCounter
from resolver.transfer.settings import FIVE_TRIES, ONE_TRY, Settings, check_names, options_of
from resolver.transfer.streaming import NOTHING, EntryStream, MemoryStore, Store, StreamingResponse, leave
from resolver.url import registry
from resolver.url.parsing import UrlLike, url_of
from resolver.url.tracebacks import trim_traceback

if TYPE_CHECKING:
    from resolver.files.commit import GroupCommit
    from resolver.transfer.cookies import CookieFile
    from resolver.transfer.saving import Exists, SaveSettings
    from resolver.transfer.terminal import TerminalSession, TerminalWindow


def describe_entry(
    url: Url, reply: StreamingResponse, origin: Origin, referrer: tuple[str, str | None] | None
) -> Entry:
    """What `url` names, as one entry, by the facts that came of it."""
    return Entry(
        name=listed_name(url),
        url=reply.url,
        kind=reply.kind,
        size=reply.size,
        modified=reply.modified,
        title=reply.title,
        extra={**(reply.extra or {}), "media_type": reply.media_type, "target": reply.target},
        origin=origin,
        referrer=None if referrer is None else Referrer(*referrer),
    )


class Resolver:
    """Retrievals that share a policy, limits and what was learnt about hosts.

    An async context manager; leaving it closes what is kept open. Safe to use from several tasks. What it may
    be told is said at `Settings`.

    Examples:
        >>> async with resolver.Resolver(timeout=60) as session:
        ...     for name in ("a.txt", "none.txt"):
        ...         try:
        ...             print(len((await session.fetch(f"ftp://127.0.0.1:8900/pub/{name}")).content))
        ...         except resolver.NotFound as error:
        ...             print(error.code)
        29
        550
    """

    def __init__(self, **settings: Unpack[Settings]) -> None:
        check_names(settings, Settings.__optional_keys__)
        self._below: str | None = None
        self._patience = ONE_TRY if settings.get("archive") else settings.get("patience")
        self._segments = 1 if settings.get("archive") else settings.get("segments") or 1
        self._crowd = HostConnectionCounter(settings.get("segments_per_host"))
        self._sync = settings.get("sync") or "group"
        self._commits: GroupCommit | None = None
        if self._sync != "group":  # what is no such word is no such word before anything is saved
            self._group_commit()
        self._strict = settings.get("strict", False)
        self._options = replace(
            options_of(settings),
            codings=find_codings(),
            suffix_of=extras.find_suffix_lookup(),
            http2=extras.find_frames(),
            clock=partial(datetime.now, UTC),
            memory={},
        )
        self._wishes: dict[tuple[Wanted, bool], Options] = {}
        self._prefixes = MirrorPrefixes(settings.get("mirrored") or {})
        self._network = Network(**settings)
        kept = settings.get("cookies")
        self._cookies = None if kept is None else self._cookies_in(fspath(kept))
        self.policy, self.archive = self._network.policy, self._network.archive
        self.limits = self._network.limits

    async def __aenter__(self) -> Resolver:
        if self._cookies is not None:
            self._cookies.load(self._options.memory)
        await self._network.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._network.__aexit__(kind, error, trace)
        finally:
            if self._cookies is not None:
                self._cookies.save(failed=error is not None)

    def _cookies_in(self, path: str) -> CookieFile:
        from resolver.transfer.cookies import CookieFile  # few keep any, and what is not http has none

        return CookieFile(path, self._options.suffix_of, self._network.on_event)

    def stream(
        self,
        url: UrlLike,
        *,
        origin: Origin = "user",
        referrer: tuple[str, str | None] | None = None,
    ) -> AbstractAsyncContextManager[StreamingResponse]:
        """A reply while its connection lives: iterate `reply.body`, or drain it.

        Unbounded in size unless the limits say `body_everywhere`.
        """
        return Retrieval(self._network, self._request(url, origin, referrer), most=max_streamed)

    def resume(
        self,
        url: UrlLike,
        start: int = 0,
        known: Validators | None = None,
        *,
        origin: Origin = "user",
        referrer: tuple[str, str | None] | None = None,
    ) -> AbstractAsyncContextManager[StreamingResponse]:
        """A reply as of `stream`, of the object as the peer holds it (http without a content coding), whose
        body begins at octet `start` where the peer can do that, and the object is still the one of which
        `known` were the `validators`; else at 0. `reply.start` says which.
        """
        request = self._request(url, origin, referrer, want="file")
        options = replace(request.options, start=start, known=known or Validators())
        return Retrieval(self._network, replace(request, options=options), most=max_streamed)

    def listing(
        self,
        url: UrlLike,
        *,
        origin: Origin = "user",
        referrer: tuple[str, str | None] | None = None,
    ) -> AbstractAsyncContextManager[StreamingResponse]:
        """The same of what is to be read as entries: also a document that lists some (http's index page)."""
        return Retrieval(self._network, self._request(url, origin, referrer, "listing"), most=max_streamed)

    async def fetch(
        self,
        url: UrlLike,
        *,
        origin: Origin = "user",
        referrer: tuple[str, str | None] | None = None,
    ) -> Response:
        """The complete object in memory, at most `limits.body` octets of it.

        Raises only `ResolveError`: what is not complete is an error, never a shorter body.
        """
        memory = MemoryStore()
        entries: tuple[Entry, ...] | None = None

        async def fill(reply: StreamingResponse) -> None:
            nonlocal entries
            entries = None
            await memory.fill(reply.body)
            if reply.has_entries:  # while it is open: what a name in a directory is, the file system says
                entries = await self._entries_of(reply, memory.tail(memory.position))

        request = self._request(url, origin, referrer, prompt=True)
        retrier = self._retrier(request, memory, fill, max_collected)
        try:
            reply = await retrier.retry(Clock(self._network.limits_of(request.url).total))
        except ResolveError as error:
            raise trim_traceback(locate_error(error, request.url.shown)) from error.__cause__
        content = memory.content()
        finished = reply.finished(*retrier.findings)
        return Response(**finished, content=content, entries=entries, raw=reply.raw(content))

    def retrier(
        self,
        url: UrlLike,
        keep: Store,
        fill: Fill,
        *,
        origin: Origin = "user",
        referrer: tuple[str, str | None] | None = None,
    ) -> Retrier:
        """What brings the object into a keep of the caller's own, try after try; see `Retrier.retry`."""
        return self._retrier(self._request(url, origin, referrer), keep, fill, max_streamed)

    def _retrier(self, request: RetrievalRequest, keep: Store, fill: Fill, most: Most) -> Retrier:
        open_ = partial(Retrieval, self._network, most=most)
        return Retrier(open_, (request,), keep, fill, self._patience or ONE_TRY, self._network.on_event)

    def limits_of(self, url: Url) -> Limits:
        """Those that hold where it leads to: the host's own, or the `limits` of all."""
        return self._network.limits_of(url)

    async def _entries_of(self, reply: StreamingResponse, content: bytes) -> tuple[Entry, ...]:
        entries: list[Entry] = []
        async for entry in reply.entries_in(content):
            if len(entries) >= reply.limits.entries:
                words = f"more than {reply.limits.entries} entries; stream them instead"
                raise LimitExceeded("entries", words, url=reply.url)
            entries.append(entry)
        return tuple(entries)

    @asynccontextmanager
    async def entries(
        self,
        url: UrlLike,
        *,
        origin: Origin = "user",
        referrer: tuple[str, str | None] | None = None,
    ) -> AsyncIterator[EntryStream]:
        """The records of a directory, menu, group or result list, one by one, without a bound.

        Raises `Declined` when the URL names no listing.
        """
        async with self.listing(url, origin=origin, referrer=referrer) as reply:
            yield reply.entries()

    async def info(
        self,
        url: UrlLike,
        *,
        origin: Origin = "user",
        referrer: tuple[str, str | None] | None = None,
    ) -> Entry:
        """What the URL names, as one entry: kind, size, date, media type; the body is not read."""
        async with self.facts(url, origin=origin, referrer=referrer) as reply:
            parsed = url_of(url, strict=self._strict, origin=origin)
            return describe_entry(parsed, reply, origin, referrer)

    def facts(
        self,
        url: UrlLike,
        *,
        origin: Origin = "user",
        referrer: tuple[str, str | None] | None = None,
    ) -> AbstractAsyncContextManager[StreamingResponse]:
        """A reply that is no more than its facts, with the peer's own words about them in `meta`."""
        request = self._request(url, origin, referrer, "facts", prompt=True)
        return Retrieval(self._network, request, most=ignore_limits)

    async def server_name(
        self,
        url: UrlLike,
        *,
        origin: Origin = "user",
        referrer: tuple[str, str | None] | None = None,
    ) -> str | None:
        """The file name that the server suggests (Content-Disposition), made harmless; None where it suggests
        none, or the policy does not let it. Raises `Refused` (S14) where nothing is left of it."""
        if not self.policy.allow_server_name:
            return None
        parsed = url_of(url, strict=self._strict, origin=origin)
        if (row := registry.find(parsed.scheme)) is None or not row.suggests:
            return None
        request = self._request(parsed, origin, referrer, "facts", prompt=True)
        reply = await self._facts_of(request)
        return server_file_name(reply.suggested)

    async def _facts_of(self, request: RetrievalRequest) -> StreamingResponse:
        clock = Clock(self.limits_of(request.url).total)
        try:
            return await self._retrier(request, MemoryStore(), leave, ignore_limits).retry(clock)
        except ResolveError as error:
            give_way_for_room(error, request.url, self._network)
            raise trim_traceback(error) from error.__cause__

    async def index_suffix(
        self,
        url: UrlLike,
        *,
        origin: Origin = "user",
        referrer: tuple[str, str | None] | None = None,
    ) -> str:
        """How the name `index` goes on for what the URL names by its directory alone: `.html`, as the server
        tells its media type. Empty for any other URL, and where the server does not say it beforehand."""
        parsed = url_of(url, strict=self._strict, origin=origin)
        if (row := registry.find(parsed.scheme)) is None or not row.suggests or not is_index(parsed):
            return ""
        request = self._request(parsed, origin, referrer, "facts", prompt=True)
        try:
            reply = await self._facts_of(request)
        except (Declined, ProtocolError):  # which the whole of it meets, too, or does not
            return ""
        return index_suffix(reply.media_type)

    def open_terminal(
        self, url: UrlLike, **wanted: Unpack[TerminalWindow]
    ) -> AbstractAsyncContextManager[TerminalSession]:
        """A telnet session to be talked to. Raises `UnsupportedScheme` for a URL that names no such
        service."""
        from resolver.transfer.terminal import open_session  # few programs hold one

        origin, referrer = wanted.get("origin", "user"), wanted.get("referrer")
        return open_session(self._network, self._request(url, origin, referrer, prompt=True), **wanted)

    async def save(self, url: UrlLike, path: str | PathLike[str], **wanted: Unpack[SaveSettings]) -> Saved:
        """The object in the file `path`, complete or not there at all.

        It grows in `path` + `.part` and gets its name, and the peer's modification time, once it is whole;
        cut off, it is continued by the next call if the object is still the same. `SaveSettings` says what
        each keyword does."""
        from resolver.transfer.saving import (
            SaveOrder,
            Saver,
            SaveSettings,
            checksum_of,  # and all of files: many save none
        )

        check_names(wanted, SaveSettings.__optional_keys__)
        origin, referrer = wanted.pop("origin", "user"), wanted.pop("referrer", None)
        mirrors, checksum = wanted.pop("mirrors", ()), wanted.pop("checksum", None)
        listed = wanted.pop("listed", None) or NOTHING
        first = self._request(url, origin, referrer, want="file", prompt=True)
        others = [self._request(each, origin, referrer, want="file", prompt=True) for each in mirrors]
        others += self._elsewhere(first.url, origin, referrer)
        if listed != NOTHING:
            first = replace(first, options=replace(first.options, listed=listed))
        order = SaveOrder(
            requests=(first, *(replace(other, transfer=first.transfer) for other in others)),
            path=fspath(path),
            checksum=checksum_of(checksum),
            segments=self._segments,
            crowd=self._crowd,
            listed=listed,
            below=self._below,
            commits=self._group_commit(),
            **cast("dict[str, Any]", wanted),
        )
        try:
            return await Saver(self._network, order, self._patience or FIVE_TRIES).run()
        except ResolveError as error:
            give_way_for_room(error, first.url, self._network)
            raise trim_traceback(locate_error(error, first.url.shown)) from error.__cause__

    def save_all(
        self,
        requests: Requests,
        *,
        directory: str | PathLike[str] | None = None,
        ledger: str | PathLike[str] | None = None,
        concurrency: int = 4,
        per_host: int | None = None,
        host_rate: float | None = None,
        exists: Exists = "fail",
        digest: bool = False,
    ) -> RunningBatch[Outcome]:
        """Each object in a file of its own: an async iterator of what became of each, as they end. One that
        fails is an outcome, too, and stops no other.

        `requests` are URLs, or `SaveRequest` for what is to be said of one; any iterable, or an async one. It
        is read only as far as there is room: some 1,000 ahead, and nothing begins while `concurrency`
        outcomes wait to be asked for. Files go below `directory`, under the names that the command gives, of
        which no two are the same. `per_host` is how many one host has under way (2, http 6, ftp 4 where
        many wait), `host_rate` how many begin there a second; a host that pushes back gets fewer. `exists`
        and `digest` are as for `save`.

        `ledger` is a file in which account is kept, as with `--ledger`: what it says is done, and is still
        there, is `skipped` by another call, whatever ended this one. Its faults (`LocalError`) end the
        iteration.

        What is under way when `aclose` is called, or the `Resolver` is left, is cancelled; what has come of
        it stays, and another call goes on with that. Only for one that was entered: else `RuntimeError`.

        Examples:
            >>> urls = ["ftp://127.0.0.1:8900/pub/a.txt", "http://127.0.0.1:8920/about.txt"]
            >>> async with resolver.Resolver() as session:
            ...     async for outcome in session.save_all(urls, directory="many", concurrency=1):
            ...         print(outcome.status, outcome.path, outcome.bytes)
            done many/a.txt 29
            done many/about.txt 37
        """
        check_pace(concurrency, per_host, host_rate)
        how = BatchSettings(
            session=self,
            network=self._network,
            directory="" if directory is None else fspath(directory),
            exists=exists,
            digest=digest,
        )
        batch: Batch[Outcome] = Batch(hosts_for(per_host, host_rate), concurrency=concurrency)
        return self._network.hold(RunningBatch(partial(save_requests, how, requests, ledger, batch)))

    def save_tree(
        self,
        url: UrlLike,
        *,
        directory: str | PathLike[str] | None = None,
        depth: int | None = None,
        accept: Sequence[str] = (),
        reject: Sequence[str] = (),
        accept_regex: str | None = None,
        ignore_robots: bool = False,
        ledger: str | PathLike[str] | None = None,
        concurrency: int = 4,
        per_host: int | None = None,
        host_rate: float | None = None,
        exists: Exists = "fail",
        digest: bool = False,
        origin: Origin = "user",
        referrer: tuple[str, str | None] | None = None,
    ) -> RunningBatch[Outcome]:
        """All that is below the URL, as `get -r` saves it: an async iterator of what became of each file, as
        they end, and of the directories that could not be listed. What fails stops nothing else.

        The tree goes below `directory`, in a directory that is called like its top. `depth` is how many
        directories down there are, of which the URL's is the first. `accept` and `reject` are patterns of the
        shell for names of files, `accept_regex` is to be found in their URLs. Nothing above the URL or
        elsewhere is asked for; what `robots.txt` forbids is left alone, unless `ignore_robots`. With a
        `ledger` directories are listed again by another call, and files that are done are not asked for. All
        else is as of `save_all`. Raises `ValueError` for what is no pattern or no number, and `RuntimeError`
        where this was not entered.

        Examples:
            >>> url = "ftp://127.0.0.1:8900/pub/names"
            >>> async with resolver.Resolver() as session:
            ...     async for outcome in session.save_tree(url, directory="here", accept=["R*"]):
            ...         print(outcome.status, outcome.path)
            done here/names/README
        """
        check_pace(concurrency, per_host, host_rate)
        begin: Callable[..., RunningBatch[Outcome]] = registry.load("resolver.trees.saving:save_tree")
        tree = begin(
            self,
            self._network,
            url,
            directory="" if directory is None else fspath(directory),
            depth=depth,
            accept=tuple(accept),
            reject=tuple(reject),
            accept_regex=accept_regex,
            ignore_robots=ignore_robots,
            ledger=None if ledger is None else fspath(ledger),
            concurrency=concurrency,
            per_host=per_host,
            host_rate=host_rate,
            exists=exists,
            digest=digest,
            origin=origin,
            referrer=referrer,
        )
        return self._network.hold(tree)

    def _group_commit(self) -> GroupCommit:
        from resolver.files.commit import GroupCommit  # as above

        self._commits = self._commits or GroupCommit(self._sync)
        return self._commits

    def _elsewhere(
        self, url: Url, origin: Origin, referrer: tuple[str, str | None] | None
    ) -> Iterator[RetrievalRequest]:
        """By the settings: of the longest prefix, whose mirrors are the caller's own word, or of its host."""
        if (found := self._prefixes.find(url)) is not None:
            return (self._request(each, "user", None, want="file", prompt=True) for each in found[1])
        there = list_mirrors(url, self._network.host_of(url).mirrors)
        return (self._request(each, origin, referrer, want="file", prompt=True) for each in there)

    def _request(
        self,
        url: UrlLike,
        origin: Origin,
        referrer: tuple[str, str | None] | None,
        want: Wanted = "content",
        *,
        prompt: bool = False,
    ) -> RetrievalRequest:
        try:
            parsed = url_of(url, strict=self._strict, origin=origin)
        except ResolveError as error:
            raise trim_traceback(error) from error.__cause__
        found_in = None if referrer is None else Referrer(*referrer)
        # The bound is that of most retrievals of the kind, which then need no other options.
        if (options := self._wishes.get((want, prompt))) is None:
            most = self.limits.body if want == "content" else max_streamed(self.limits)
            options = self._wishes[want, prompt] = replace(self._options, want=want, prompt=prompt, most=most)
        transfer = self._network.next_transfer()
        knows = count_learnt(options) if options.memory else 0
        return RetrievalRequest(parsed, origin, found_in, options, transfer=transfer, learnt=knows)


class ConfinedSession(Resolver):
    """What another session is, and has: connections, limits, what was learnt. It is neither entered nor left.
    Redirects lead only where `leads` lets them, or `lists` where a listing is wanted; files are written
    `below` a directory, through no link; listings have details, and are of all that there is. What the URL
    `top` says of a login counts for all below it, where it is not repeated."""

    def __init__(self, session: Resolver, top: Url, *, leads: Leads, lists: Leads, below: str) -> None:
        vars(self).update(vars(session))
        self._leads = leads
        self._lists = lists
        self._below = below
        entries = self._options.entries
        self._options = replace(
            self._options, detailed=True, placed=True, keep=True, entries=0 if entries is None else entries
        )
        self._patience = self._patience or FIVE_TRIES
        user: bytes | None = getattr(top, "user", None)
        password: bytes | None = getattr(top, "password", None)
        if password is not None:
            self._options = replace(self._options, login=Credentials(user or b"", password))

    async def read_listing(
        self, url: Url, keep: Store, fill: Fill, origin: Origin, referrer: tuple[str, str | None] | None
    ) -> StreamingResponse:
        """Bring a listing into a keep, try after try. Raises `ResolveError`."""
        request = self._request(url, origin, referrer, "listing")
        retrier = self._retrier(request, keep, fill, max_streamed)
        try:
            return await retrier.retry(Clock(self.limits_of(url).total))
        except ResolveError as error:
            give_way_for_room(error, url, self._network)
            raise trim_traceback(locate_error(error, url.shown)) from error.__cause__

    def _request(
        self,
        url: UrlLike,
        origin: Origin,
        referrer: tuple[str, str | None] | None,
        want: Wanted = "content",
        *,
        prompt: bool = False,
    ) -> RetrievalRequest:
        leads = self._lists if want == "listing" else self._leads
        return replace(super()._request(url, origin, referrer, want, prompt=prompt), leads=leads)
