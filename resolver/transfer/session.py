"""The session class `Resolver` with fetch, stream, save, entries and info; and `ConfinedSession`.

The retrievals of a `Resolver` share one network (policy, limits, DNS cache, connection pool, TLS). Each
module-level function of the package creates a `Resolver` for one call.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache, partial
from os import PathLike, fspath
from types import TracebackType
from typing import TYPE_CHECKING, SupportsIndex, Unpack

from protocols.contract import Credentials, Entry, Limits, Options, Origin, Referrer, Url, Validators, Wanted
from protocols.errors import Declined, LimitExceeded, ProtocolError, ResolveError
from resolver.policy.files import local_name
from resolver.transfer import extras
from resolver.transfer.batch import Batch, RunningBatch, check_limits
from resolver.transfer.extras import find_codings
from resolver.transfer.limits import SizeLimit, ignore_limits, locate_error, max_collected, max_streamed
from resolver.transfer.naming import (
    NameReservations,
    index_suffix,
    is_index,
    listed_name,
)
from resolver.transfer.network import Network
from resolver.transfer.redirects import Leads, MirrorPrefixes, RetrievalRequest, count_changes, list_mirrors
from resolver.transfer.response import Response, Saved
from resolver.transfer.retrieval import Retrieval
from resolver.transfer.retry import Fill, Retrier, requeue_if_scarce
from resolver.transfer.segments import HostConnectionCounter
from resolver.transfer.settings import (
    FIVE_TRIES,
    ONE_TRY,
    RetryPolicy,
    Settings,
    as_tuple,
    check_names,
    check_settings,
    merge_options,
)
from resolver.transfer.streaming import EntryStream, MemoryStore, Store, StreamingResponse, skip
from resolver.url import registry
from resolver.url.parsing import UrlLike, make_url
from resolver.url.tracebacks import trim_traceback

if TYPE_CHECKING:
    from resolver.files.commit import GroupCommit
    from resolver.transfer.attachments import AttachmentSaver
    from resolver.transfer.cookies import CookieFile
    from resolver.transfer.many import Outcome, Requests
    from resolver.transfer.saving import Exists, Saver, SaveSettings
    from resolver.transfer.terminal import TerminalSession, TerminalWindow


def describe_entry(
    url: Url, reply: StreamingResponse, origin: Origin, referrer: tuple[str, str | None] | None
) -> Entry:
    """Return the metadata of a response as an `Entry` for `url`."""
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
    """A session of retrievals that share a policy, limits, a DNS cache and a connection pool.

    A `Resolver` is an async context manager. Exiting the context closes the connections. Outside the context,
    each call opens its own connections and closes them, and `save_all` and `save_tree` raise `RuntimeError`.

    Several tasks may use one `Resolver` concurrently. `Settings` describes the keywords. Methods with a `url`
    also have the keywords `origin` and `referrer` (see `Provenance`).

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
        check_settings(settings, Settings.__optional_keys__)
        self._below: str | None = None
        self._leads: Leads | None = None
        self._lists: Leads | None = None
        self._retry_policy = ONE_TRY if settings.get("archive") else settings.get("patience")
        self._segments = 1 if settings.get("archive") else settings.get("segments") or 1
        self._connection_counter = HostConnectionCounter(settings.get("segments_per_host"))
        self._sync = settings.get("sync") or "group"
        self._commits: GroupCommit | None = None
        if self._sync != "group":  # the value of `sync` is checked before files are saved
            self._group_commit()
        self._strict = settings.get("strict", False)
        self._options = replace(
            merge_options(settings),
            codings=find_codings,
            has_credentials=settings.get("credentials") is not None,
            suffix_of=extras.find_suffix_lookup(),
            http2=None if settings.get("recorder") else extras.find_frames(),  # an archive has HTTP/1 bytes
            clock=partial(datetime.now, UTC),
            memory={},
        )
        self._presets: dict[tuple[Wanted, SizeLimit, bool], Options] = {}
        self._prefixes = MirrorPrefixes(settings.get("mirrored") or {})
        self._has_mirrors = bool(settings.get("mirrored") or settings.get("hosts"))
        self._network = Network(**settings)
        cookies = settings.get("cookies")
        self._cookies = None if cookies is None else self._cookies_in(fspath(cookies))
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
            await self._network.__aexit__()
        finally:
            if self._cookies is not None:
                self._cookies.save(failed=error is not None)

    def _cookies_in(self, path: str) -> CookieFile:
        # imported lazily: few sessions store cookies, and only for http
        from resolver.transfer.cookies import CookieFile

        return CookieFile(path, self._options.suffix_of, self._network.on_event)

    def stream(
        self,
        url: UrlLike,
        *,
        origin: Origin = "user",
        referrer: tuple[str, str | None] | None = None,
    ) -> AbstractAsyncContextManager[StreamingResponse]:
        """Open a streaming response. Iterate over `reply.body` inside the context, or drain it.

        By default, the size of the body is not limited. `Limits.body_everywhere` sets a limit.
        """
        return Retrieval(self._network, self._request(url, origin, referrer))

    def resume(
        self,
        url: UrlLike,
        start: int = 0,
        known: Validators | None = None,
        *,
        origin: Origin = "user",
        referrer: tuple[str, str | None] | None = None,
    ) -> AbstractAsyncContextManager[StreamingResponse]:
        """Open a streaming response that starts at an offset.

        The response resumes an earlier transfer.

        The body is the object as the server stores it (http: without a content coding). The body starts at
        `start` if the server supports range requests and the object has not changed. Otherwise, the body
        starts at 0. `reply.start` is the actual offset.

        Args:
            url: as for `fetch`.
            start: the offset in bytes.
            known: the `validators` of the earlier response. They identify the version of the object.
            origin: how the URL was chosen (`Provenance`).
            referrer: the URL and IP address of the document that contained the URL (`Provenance`).

        Raises:
            ValueError: `start` is not an integer of at least 0.
        """
        if not isinstance(start, SupportsIndex) or start < 0:  # NumPy has integers of its own
            raise ValueError(f"'start' must be an integer of at least 0, got {start!r}")
        request = self._request(url, origin, referrer, want="file")
        if start or known is not None:
            options = replace(request.options, start=start, known=known or Validators())
            request = request._replace(options=options)
        return Retrieval(self._network, request)

    def listing(
        self,
        url: UrlLike,
        *,
        origin: Origin = "user",
        referrer: tuple[str, str | None] | None = None,
    ) -> AbstractAsyncContextManager[StreamingResponse]:
        """Open the response of a listing, or of a document with links (http index page)."""
        return Retrieval(self._network, self._request(url, origin, referrer, "listing"))

    async def fetch(
        self,
        url: UrlLike,
        *,
        origin: Origin = "user",
        referrer: tuple[str, str | None] | None = None,
    ) -> Response:
        """Fetch the complete object into memory; an object larger than `limits.body` is an error.

        Raises `ResolveError` if the object cannot be retrieved or is incomplete.
        """
        request = self._request(url, origin, referrer, limit=max_collected, prompt=True)
        return await self._collect(request)

    async def _collect(self, request: RetrievalRequest, retry_policy: RetryPolicy | None = None) -> Response:
        assert request.limit is max_collected  # S16: the memory must have a limit
        memory = MemoryStore()
        entries: tuple[Entry, ...] | None = None

        async def fill(reply: StreamingResponse) -> None:
            nonlocal entries
            entries = None
            await memory.fill(reply.body)
            # Entries must be read before the response is closed. For `file:` URLs, the file system is asked
            # for the kind of each entry.
            if reply.has_entries:
                entries = await self._parse_entries(reply, memory.tail(memory.position))

        retrier = self._retrier(request, memory, fill, retry_policy)
        try:
            reply = await retrier.retry(self._network.start_clock(request.url))
        except ResolveError as error:
            raise trim_traceback(locate_error(error, request.url.shown)) from error.__cause__
        content, finished = memory.content(), reply.finished(*retrier.findings)
        return Response.of(finished, content=content, entries=entries, raw=reply.raw(content))

    def retrier(
        self,
        url: UrlLike,
        keep: Store,
        fill: Fill,
        *,
        origin: Origin = "user",
        referrer: tuple[str, str | None] | None = None,
    ) -> Retrier:
        """Return a `Retrier`, which retrieves the URL into a store of the caller."""
        return self._retrier(self._request(url, origin, referrer), keep, fill)

    def _retrier(
        self,
        request: RetrievalRequest,
        keep: Store,
        fill: Fill,
        retry_policy: RetryPolicy | None = None,
    ) -> Retrier:
        policy = retry_policy or self._retry_policy or ONE_TRY
        return Retrier(self._network, (request,), keep, fill, policy)

    def limits_of(self, url: Url) -> Limits:
        """Return the limits for the URL: those for its host, or the `limits` of the session."""
        return self._network.limits_of(url)

    async def _parse_entries(self, reply: StreamingResponse, content: bytes) -> tuple[Entry, ...]:
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
        """Open a listing, and iterate over its entries; the number of entries is not limited.

        A listing is a directory, a menu, a newsgroup or a result list. Raises `Declined` if the URL does not
        name a listing.
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
        """Return the metadata of the URL without its body: kind, size, date and media type."""
        async with self.facts(url, origin=origin, referrer=referrer) as reply:
            parsed = make_url(url, strict=self._strict, origin=origin)
            return describe_entry(parsed, reply, origin, referrer)

    def facts(
        self,
        url: UrlLike,
        *,
        origin: Origin = "user",
        referrer: tuple[str, str | None] | None = None,
    ) -> AbstractAsyncContextManager[StreamingResponse]:
        """Open a response without a body (http HEAD). The header fields of the server are in `meta`."""
        request = self._request(url, origin, referrer, "facts", ignore_limits, prompt=True)
        return Retrieval(self._network, request)

    async def server_name(
        self,
        url: UrlLike,
        *,
        origin: Origin = "user",
        referrer: tuple[str, str | None] | None = None,
    ) -> str | None:
        """Return the sanitized file name that the server suggests (Content-Disposition).

        Returns None if the server does not suggest a name, or if the policy forbids its use. Raises `Refused`
        (S14) if the sanitized name is empty.
        """
        if not self.policy.allow_server_name:
            return None
        parsed = make_url(url, strict=self._strict, origin=origin)
        if (row := registry.find(parsed.scheme)) is None or not row.suggests:
            return None
        request = self._request(parsed, origin, referrer, "facts", ignore_limits, prompt=True)
        reply = await self._stream_facts(request)
        return local_name(reply.suggested) if reply.suggested else None

    async def _stream_facts(self, request: RetrievalRequest) -> StreamingResponse:
        clock = self._network.start_clock(request.url)
        try:
            return await self._retrier(request, MemoryStore(), skip).retry(clock)
        except ResolveError as error:
            requeue_if_scarce(error, request.url, self._network)
            raise trim_traceback(error) from error.__cause__

    async def index_suffix(
        self,
        url: UrlLike,
        *,
        origin: Origin = "user",
        referrer: tuple[str, str | None] | None = None,
    ) -> str:
        """Return the suffix of the file name `index`, for example `.html`.

        The name `index` is used for a URL with a trailing slash.

        The suffix depends on the media type. The suffix is empty if the URL does not end in a slash, or if
        the server does not report the media type before the body.
        """
        parsed = make_url(url, strict=self._strict, origin=origin)
        if (row := registry.find(parsed.scheme)) is None or not row.suggests or not is_index(parsed):
            return ""
        request = self._request(parsed, origin, referrer, "facts", ignore_limits, prompt=True)
        try:
            reply = await self._stream_facts(request)
        except (Declined, ProtocolError):  # the retrieval of the object raises the same error, or it succeeds
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
        """Save the complete object in the file `path` (atomically).

        During the transfer, the file name is `path` + `.part`. The complete file is renamed to `path`, and
        gets the modification time from the server. If a transfer is interrupted and the object does not
        change, the next call resumes the transfer. `SaveSettings` describes the keywords.
        """
        saver = _load_saver()
        check_names(wanted, saver.settings)
        origin, referrer = wanted.get("origin", "user"), wanted.get("referrer")
        first = self._request(url, origin, referrer, want="file", prompt=True)
        mirrors = as_tuple("mirrors", wanted.get("mirrors", ()))
        request = partial(self._request, want="file", prompt=True, transfer=first.transfer)
        others = [request(mirror, origin, referrer) for mirror in mirrors]
        if self._has_mirrors:
            others += [request(*mirror) for mirror in self._find_mirrors(first.url, origin, referrer)]
        listed = wanted.get("listed")
        if listed is not None and not registry.is_web(first.url.scheme):  # http responses have them
            first = first._replace(options=replace(first.options, listed=listed))
        saving = saver(
            self._network,
            (first, *others),
            fspath(path),
            wanted,
            retry_policy=self._retry_policy or FIVE_TRIES,
            segments=self._segments,
            counter=self._connection_counter,
            commits=self._group_commit(),
            below=self._below,
        )
        try:
            saved = await saving.run()
            return await saving.verify_skipped(saved) if saved.skipped else saved
        except ResolveError as error:
            requeue_if_scarce(error, first.url, self._network)
            raise trim_traceback(locate_error(error, first.url.shown)) from error.__cause__

    async def save_attachments(
        self,
        url: UrlLike,
        directory: str | PathLike[str],
        *,
        parts: bool = False,
        exists: Exists = "fail",
        digest: bool = False,
        origin: Origin = "user",
        referrer: tuple[str, str | None] | None = None,
    ) -> tuple[Saved, ...]:
        """Save the files in an article (MIME attachments and yEnc) below a directory.

        The file names come from the article and are sanitized (S14, names of saved files). If an attachment
        fails, the other attachments are saved before the error is raised.

        Args:
            url: an article, for example `nntp://host/group/number` or `news:message-id`.
            directory: the directory of the files, which is created if necessary.
            parts: whether to fetch the other articles of a file that was posted in several parts, and to join
                the parts. The overview of the group shows which articles are parts: they have the same
                author, and the same subject except for the counter `(3/7)`. For a `news` URL, the server must
                send the Xref header.
            exists: as for `save`, except `resume` and `newer`.
            digest: as for `save`.
            origin: how the URL was chosen (`Provenance`).
            referrer: the URL and IP address of the document that contained the URL (`Provenance`).

        Raises:
            NotFound: if the article has no attachments.
            Truncated: if an attachment is incomplete, or parts of a file are missing.
            ChecksumMismatch: if an attachment differs from its size or its CRC-32.
            NotConfigured: if documents of the URL's scheme cannot have attachments.

        Examples:
            >>> async with resolver.Resolver() as session:
            ...     for saved in await session.save_attachments("nntp://127.0.0.1:8930/alt.files/1", "files"):
            ...         print(saved.path, saved.bytes, saved.verified)
            files/picture.bin 1280 ('terminator', 'length', 'digest')
        """
        saver = self.attachment_saver(
            url, directory, parts=parts, exists=exists, digest=digest, origin=origin, referrer=referrer
        )
        saved = []
        errors: list[ResolveError] = []
        for result in await saver.run():
            if isinstance(result, ResolveError):
                errors.append(result)
            else:
                saved.append(result)
        if errors:
            raise trim_traceback(errors[0]) from errors[0].__cause__
        return tuple(saved)

    def attachment_saver(
        self,
        url: UrlLike,
        directory: str | PathLike[str],
        *,
        parts: bool = False,
        exists: Exists = "fail",
        digest: bool = False,
        origin: Origin = "user",
        referrer: tuple[str, str | None] | None = None,
        reserve: Callable[[str, str], str] | None = None,
    ) -> AttachmentSaver:
        """Return an `AttachmentSaver`.

        Its `run` returns an error for each attachment that failed.

        `reserve` is a function that gets a name and a URL, and returns a unique file name.
        """
        # imported lazily, with all of `resolver.files`: many sessions save no files
        from resolver.transfer.attachments import AttachmentOrder, AttachmentSaver

        request = partial(self._request, origin=origin, referrer=referrer, limit=max_collected, prompt=True)
        first = request(url)
        order = AttachmentOrder(
            directory=fspath(directory),
            parts=parts,
            exists=exists,
            digest=digest,
            commits=self._group_commit(),
            limits=self.limits_of(first.url),
            reserve=reserve or NameReservations().reserve,
        )
        collect = partial(self._collect, retry_policy=self._retry_policy or FIVE_TRIES)
        return AttachmentSaver(first, order, request, collect)

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
        """Save each object in a separate file, and yield the outcomes in the order in which transfers end.

        A failure is an outcome and does not stop other requests. `aclose` and the exit of the `Resolver`
        cancel the running transfers. Partial files stay on the disk, and another call resumes them.

        Args:
            requests: an iterable or async iterable of URLs or `SaveRequest` (settings for one URL). About
                1,000 requests are read ahead. At most `concurrency` outcomes wait for the caller. New
                requests start only after the caller has taken an outcome (backpressure).
            directory: the parent directory of the files. The files get the same unique names as with the
                command `get`.
            ledger: the path of a ledger, which records the outcomes (see `--ledger`). If a recorded file
                still exists, a later call yields a `skipped` outcome for the file. This is also the case
                after an interrupted call. An error of the ledger (`LocalError`) ends the iteration.
            concurrency: the maximum number of concurrent requests.
            per_host: the maximum number of concurrent requests to one host. The default is 6 for http, 4 for
                ftp if many requests wait, and otherwise 2. If a host rejects requests, the number is lowered
                for this host.
            host_rate: the maximum number of requests per second to one host.
            exists: as for `save`.
            digest: as for `save`.

        Raises:
            RuntimeError: if the `Resolver` was not entered.
            TypeError: if `requests` is a single URL.
            ValueError: if a number or `exists` is invalid.

        Examples:
            >>> urls = ["ftp://127.0.0.1:8900/pub/a.txt", "http://127.0.0.1:8920/about.txt"]
            >>> async with resolver.Resolver() as session:
            ...     async for outcome in session.save_all(urls, directory="many", concurrency=1):
            ...         print(outcome.status, outcome.path, outcome.bytes)
            done many/a.txt 29
            done many/about.txt 37
        """
        check_limits(concurrency, per_host, host_rate)
        _load_saver().check_exists(exists)
        if isinstance(requests, str):
            raise TypeError("save_all expects an iterable of URLs, got a single URL")
        from resolver.transfer import many  # lazy import: most programs do not save many objects

        shared = many.BatchSettings(
            session=self,
            network=self._network,
            directory="" if directory is None else fspath(directory),
            exists=exists,
            digest=digest,
        )
        batch: Batch[Outcome] = Batch(many.hosts_for(per_host, host_rate), concurrency=concurrency)
        return self._network.track(RunningBatch(partial(many.save_requests, shared, requests, ledger, batch)))

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
        """Save all files below the URL recursively, as `get -r` does, and yield their outcomes.

        Outcomes are yielded in the order in which transfers end. A directory that cannot be listed is also an
        outcome. A failure does not stop other requests. URLs that are not below `url` are not requested.

        Args:
            url: the top directory of the tree.
            directory: the local directory in which the tree is saved. The name of the tree is the name of its
                top directory.
            depth: the maximum number of directory levels. The directory of `url` is level 1.
            accept: glob patterns of the file names to save.
            reject: glob patterns of the file names to skip.
            accept_regex: a regular expression that the URL of each saved file must contain.
            ignore_robots: whether to request URLs that `robots.txt` forbids.
            ledger: as for `save_all`. A later call lists the directories again, but does not request
                completed files again.
            concurrency: as for `save_all`.
            per_host: as for `save_all`.
            host_rate: as for `save_all`.
            exists: as for `save`.
            digest: as for `save`.
            origin: how the URL was chosen (`Provenance`).
            referrer: the URL and IP address of the document that contained the URL (`Provenance`).

        Raises:
            TypeError: if `accept` or `reject` is a string.
            ValueError: if a pattern, a number or `exists` is invalid.
            RuntimeError: if the `Resolver` was not entered.

        Examples:
            >>> url = "ftp://127.0.0.1:8900/pub/names"
            >>> async with resolver.Resolver() as session:
            ...     async for outcome in session.save_tree(url, directory="here", accept=["R*"]):
            ...         print(outcome.status, outcome.path)
            done here/names/README
        """
        check_limits(concurrency, per_host, host_rate)
        _load_saver().check_exists(exists)
        begin: Callable[..., RunningBatch[Outcome]] = registry.load("resolver.trees.saving:save_tree")
        tree = begin(
            url,
            session=self,
            network=self._network,
            directory="" if directory is None else fspath(directory),
            depth=depth,
            accept=as_tuple("accept", accept),
            reject=as_tuple("reject", reject),
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
        return self._network.track(tree)

    def _group_commit(self) -> GroupCommit:
        if self._commits is None:
            from resolver.files.commit import GroupCommit  # imported lazily, as in `_load_saver`

            self._commits = GroupCommit(self._sync)
        return self._commits

    def _find_mirrors(
        self, url: Url, origin: Origin, referrer: tuple[str, str | None] | None
    ) -> list[tuple[str, Origin, tuple[str, str | None] | None]]:
        """Return the configured mirrors of a URL, each with its origin and its referrer.

        The mirrors of the longest matching URL prefix are used, with the origin `user`. Without a matching
        prefix, the mirrors of the host are used.
        """
        if (match := self._prefixes.find(url)) is not None:
            return [(mirror, "user", None) for mirror in match[1]]
        urls = list_mirrors(url, self._network.find_host_settings(url).mirrors)
        return [(mirror, origin, referrer) for mirror in urls]

    def _request(
        self,
        url: UrlLike,
        origin: Origin,
        referrer: tuple[str, str | None] | None,
        want: Wanted = "content",
        limit: SizeLimit = max_streamed,
        *,
        prompt: bool = False,
        transfer: int = 0,
    ) -> RetrievalRequest:
        try:
            parsed = make_url(url, strict=self._strict, origin=origin)
        except ResolveError as error:
            raise trim_traceback(error) from error.__cause__
        found_in = None if referrer is None else Referrer(*referrer)
        # Most requests differ only in `want`, `limit` and `prompt`. Therefore requests with equal values
        # share a cached `Options` object.
        if (options := self._presets.get((want, limit, prompt))) is None:
            early = prompt and self._network.recorder is None  # an archive has one exchange after another
            options = replace(self._options, want=want, prompt=early, most=limit(self.limits))
            self._presets[want, limit, prompt] = options
        transfer = transfer or self._network.next_transfer()
        changes = count_changes(options) if options.memory else 0
        leads = self._lists if want == "listing" else self._leads
        return RetrievalRequest(
            parsed,
            options,
            origin,
            found_in,
            transfer=transfer,
            cookie_changes=changes,
            leads=leads,
            limit=limit,
        )


@cache
def _load_saver() -> type[Saver]:
    """Import the class lazily, with all of `resolver.files`, because many sessions save no files."""
    from resolver.transfer.saving import Saver

    return Saver


class ConfinedSession(Resolver):
    """A view of another session that is confined to one tree of URLs.

    The view shares the connections, limits and host state of the other session. The view is not used as a
    context manager. The view differs from the other session:
    - `leads` restricts the redirects of files, and `lists` restricts the redirects of listings.
    - Files are written only below the directory `below`, and never through a symbolic link.
    - Listings are requested with all entries and with metadata.
    - The credentials of the URL `top` also apply to all URLs below it.
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
        self._retry_policy = self._retry_policy or FIVE_TRIES
        user: bytes | None = getattr(top, "user", None)
        password: bytes | None = getattr(top, "password", None)
        if password is not None:
            self._options = replace(self._options, login=Credentials(user or b"", password))
        self._presets = {}

    async def read_listing(
        self, url: Url, keep: Store, fill: Fill, origin: Origin, referrer: tuple[str, str | None] | None
    ) -> StreamingResponse:
        """Retrieve a listing into a store, with retries. Raises `ResolveError`."""
        request = self._request(url, origin, referrer, "listing")
        retrier = self._retrier(request, keep, fill)
        try:
            return await retrier.retry(self._network.start_clock(url))
        except ResolveError as error:
            requeue_if_scarce(error, url, self._network)
            raise trim_traceback(locate_error(error, url.shown)) from error.__cause__
