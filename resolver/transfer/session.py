"""The session: `Resolver` with fetch, stream, save, entries, info; and a session confined to one tree.

A `Resolver` shares its network (policy, limits, DNS lookups, TLS) among its retrievals. The module-level
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
    """Return the metadata of a response as one entry for `url`."""
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
    """A session: retrievals that share a policy, limits and knowledge of hosts.

    An async context manager; leaving it closes its connections. It may be used by several tasks. Its keywords
    are those of `Settings`. Methods that take a URL also take `origin` and `referrer`, which `Provenance`
    describes.

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
        if self._sync != "group":  # an invalid value raises here, before anything is saved
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
        # imported lazily: few sessions keep cookies, and only http has them
        from resolver.transfer.cookies import CookieFile

        return CookieFile(path, self._options.suffix_of, self._network.on_event)

    def stream(
        self,
        url: UrlLike,
        *,
        origin: Origin = "user",
        referrer: tuple[str, str | None] | None = None,
    ) -> AbstractAsyncContextManager[StreamingResponse]:
        """Open a reply, and keep its connection open in the context: iterate over `reply.body`, or drain it.

        The body has no size limit unless the limits set `body_everywhere`.
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
        """Open a reply as `stream` does; its body starts at an offset if possible.

        The body is the object as the server stores it (http: without a content coding). It starts at `start`
        if the server supports offsets and the object is unchanged; otherwise at 0. `reply.start` has the
        actual offset.

        Args:
            url: as for `fetch`.
            start: the offset in bytes.
            known: the `validators` of the earlier reply, which identify the state of the object.
            origin: how the URL was chosen (`Provenance`).
            referrer: the URL and address where the URL was found (`Provenance`).
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
        """Open a response to read its entries; a document with links (http's index page) is allowed too."""
        return Retrieval(self._network, self._request(url, origin, referrer, "listing"), most=max_streamed)

    async def fetch(
        self,
        url: UrlLike,
        *,
        origin: Origin = "user",
        referrer: tuple[str, str | None] | None = None,
    ) -> Response:
        """Fetch the complete object into memory, at most `limits.body` bytes of it.

        Raises only `ResolveError`: an incomplete object is an error, never a shorter body.
        """
        memory = MemoryStore()
        entries: tuple[Entry, ...] | None = None

        async def fill(reply: StreamingResponse) -> None:
            nonlocal entries
            entries = None
            await memory.fill(reply.body)
            # entries are read while the connection is open, because only the file system tells the kind of a
            # name
            if reply.has_entries:
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
        """Return a `Retrier` that retrieves the URL into the caller's own store."""
        return self._retrier(self._request(url, origin, referrer), keep, fill, max_streamed)

    def _retrier(self, request: RetrievalRequest, keep: Store, fill: Fill, most: Most) -> Retrier:
        open_ = partial(Retrieval, self._network, most=most)
        return Retrier(open_, (request,), keep, fill, self._patience or ONE_TRY, self._network.on_event)

    def limits_of(self, url: Url) -> Limits:
        """Return the limits for the URL: those of its host, or the session's `limits`."""
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
        """Open the records of a directory, menu, group or result list, one by one, without a limit.

        Raises `Declined` if the URL does not name a listing.
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
        """Return the metadata of the URL as one entry: kind, size, date, media type. The body is not read."""
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
        """Open a response with only metadata, with the server's own fields in `meta`."""
        request = self._request(url, origin, referrer, "facts", prompt=True)
        return Retrieval(self._network, request, most=ignore_limits)

    async def server_name(
        self,
        url: UrlLike,
        *,
        origin: Origin = "user",
        referrer: tuple[str, str | None] | None = None,
    ) -> str | None:
        """Return the file name that the server suggests (Content-Disposition), made safe.

        Returns None if the server suggests no name, or the policy does not allow it. Raises `Refused` (S14)
        if nothing of the name is left.
        """
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
        """Return the suffix for the name `index` of a URL with a trailing slash: `.html`, for example.

        The suffix follows the media type. It is empty for any other URL, and if the server does not report
        the type in advance.
        """
        parsed = url_of(url, strict=self._strict, origin=origin)
        if (row := registry.find(parsed.scheme)) is None or not row.suggests or not is_index(parsed):
            return ""
        request = self._request(parsed, origin, referrer, "facts", prompt=True)
        try:
            reply = await self._facts_of(request)
        except (Declined, ProtocolError):  # retrieving the object raises the same error, or succeeds
            return ""
        return index_suffix(reply.media_type)

    def open_terminal(
        self, url: UrlLike, **wanted: Unpack[TerminalWindow]
    ) -> AbstractAsyncContextManager[TerminalSession]:
        """Open an interactive telnet session.

        Raises `UnsupportedScheme` if the URL does not name a telnet service.
        """
        from resolver.transfer.terminal import open_session  # imported lazily: few programs open a session

        origin, referrer = wanted.get("origin", "user"), wanted.get("referrer")
        return open_session(self._network, self._request(url, origin, referrer, prompt=True), **wanted)

    async def save(self, url: UrlLike, path: str | PathLike[str], **wanted: Unpack[SaveSettings]) -> Saved:
        """Save the object in the file `path`: complete, or not at all.

        The file is `path` + `.part` until it is complete; then it gets its name, and the server's
        modification time. An interrupted transfer is resumed by the next call if the object is unchanged.
        `SaveSettings` describes the keywords.
        """
        from resolver.transfer.saving import (
            SaveOrder,
            Saver,
            SaveSettings,
            checksum_of,  # imported lazily, with all of `resolver.files`: many sessions save no files
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
        """Save each object in a separate file: an async iterator of their outcomes, as they end.

        A failure is an outcome too, and stops no other request. `aclose`, and leaving the `Resolver`, cancel
        the running transfers; partial files stay, and another call resumes them.

        Args:
            requests: URLs, or `SaveRequest` with settings for one URL; an iterable or async iterable. It is
                read about 1,000 requests ahead. Nothing starts while `concurrency` outcomes wait to be
                consumed.
            directory: the parent directory of the files. Their unique names are the ones that the command
                gives.
            ledger: a file that records the outcomes, as `--ledger` does. A later call returns recorded files
                that still exist as `skipped`, however this call ended. An error of the ledger (`LocalError`)
                ends the iteration.
            concurrency: the maximum number of concurrent requests.
            per_host: the maximum number for one host: 2 by default; 6 for http; 4 for ftp if many wait. A
                host that rejects requests gets fewer.
            host_rate: the maximum number of requests started per second at one host.
            exists: as for `save`.
            digest: as for `save`.

        Raises:
            RuntimeError: if the `Resolver` was not entered.

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
        """Save all files below the URL, as `get -r` does: an async iterator of their outcomes, as they end.

        The outcomes include the directories that could not be listed. A failure stops nothing else. URLs
        above or outside the given URL are not requested.

        Args:
            url: the top of the tree.
            directory: the parent directory of the tree, which gets the name of its top.
            depth: the maximum number of directory levels; the URL's directory is the first.
            accept: shell patterns of the file names to save.
            reject: shell patterns of the file names to skip.
            accept_regex: a regular expression that is searched in the URLs of files.
            ignore_robots: request also URLs that `robots.txt` forbids.
            ledger: as for `save_all`. A later call lists directories again, but does not request completed
                files.
            concurrency: as for `save_all`.
            per_host: as for `save_all`.
            host_rate: as for `save_all`.
            exists: as for `save`.
            digest: as for `save`.
            origin: how the URL was chosen (`Provenance`).
            referrer: the URL and address where the URL was found (`Provenance`).

        Raises:
            ValueError: if a pattern or a number is invalid.
            RuntimeError: if the `Resolver` was not entered.

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
        from resolver.files.commit import GroupCommit  # imported lazily, as in `save`

        self._commits = self._commits or GroupCommit(self._sync)
        return self._commits

    def _elsewhere(
        self, url: Url, origin: Origin, referrer: tuple[str, str | None] | None
    ) -> Iterator[RetrievalRequest]:
        """Return the requests of the configured mirrors.

        The mirrors of the longest matching prefix have the origin `user`; otherwise the mirrors of the URL's
        host are used.
        """
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
        # The size limit for the kind of request. Most requests need no other option, so they share one
        # options object.
        if (options := self._wishes.get((want, prompt))) is None:
            most = self.limits.body if want == "content" else max_streamed(self.limits)
            options = self._wishes[want, prompt] = replace(self._options, want=want, prompt=prompt, most=most)
        transfer = self._network.next_transfer()
        knows = count_learnt(options) if options.memory else 0
        return RetrievalRequest(parsed, origin, found_in, options, transfer=transfer, learnt=knows)


class ConfinedSession(Resolver):
    """A view of another session, confined to one tree.

    The view shares the connections, limits and host state of the other session. It is neither entered nor
    exited. Differences:
    - Redirects are restricted by `leads`, or by `lists` for a listing.
    - Files are written `below` a directory, never through a symbolic link.
    - Listings have details and are complete.
    - The login of the URL `top` applies to all URLs below it, even if they do not repeat the login.
    """

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
        """Retrieve a listing into a store, with retries. Raises `ResolveError`."""
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
