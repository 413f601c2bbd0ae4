"""The implementation of `Resolver.save_tree`: a walk whose files are saved by a batch.

Found files wait in a temporary database. The next task starts only after the caller has consumed an earlier
outcome (backpressure). So memory use is small for a tree of any size.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Hashable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from protocols.contract import Entry, Finding, Kind, Origin, Url
from protocols.errors import Declined, NotFound, ResolveError
from protocols.location import HostUrl
from resolver.files.mailbox import Mailbox
from resolver.ledger import LedgerFault
from resolver.ledger import current as current_row
from resolver.loops import running
from resolver.network.clock import Clock
from resolver.network.connecting import run_all
from resolver.network.task import Requeue
from resolver.transfer.batch import Batch, BatchTask, RunningBatch, TaskResult
from resolver.transfer.many import (
    HandOver,
    Outcome,
    hosts_for,
    make_earlier_outcome,
    make_failed_outcome,
    make_outcome,
    open_ledger,
    record_outcome,
)
from resolver.transfer.naming import last_part, local_file_name
from resolver.transfer.network import Network
from resolver.transfer.response import Response, Saved
from resolver.transfer.saving import Exists
from resolver.transfer.session import Resolver
from resolver.trees.robots import Robots
from resolver.trees.scope import MAX_DEPTH, Selection, find_tree, path_of_top, walked_as
from resolver.trees.spool import ArticleSpool, SpooledArticle
from resolver.trees.walk import TreeDirectory, TreeFile, TreeWalk, WalkRequest, with_rows
from resolver.url.parsing import UrlLike, make_url

if TYPE_CHECKING:
    from resolver.ledger.book import Ledger, LedgerEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeRequest:
    """The arguments of `Resolver.save_tree`, except the URL. `below` is the parent directory of all files."""

    session: Resolver
    network: Network
    below: str
    depth: int
    selection: Selection
    ignore_robots: bool
    ledger: str | None
    concurrency: int
    per_host: int | None
    host_rate: float | None
    exists: Exists
    digest: bool
    origin: Origin
    referrer: tuple[str, str | None] | None


def save_tree(
    url: UrlLike,
    *,
    directory: str,
    depth: int | None,
    accept: tuple[str, ...],
    reject: tuple[str, ...],
    accept_regex: str | None,
    **others: Any,
) -> RunningBatch[Outcome]:
    """Return the iterator of `Resolver.save_tree`, which starts the walk at its first iteration.

    `others` are further attributes of `TreeRequest`. Raises `ValueError` for an invalid argument.
    """
    if depth is not None and depth < 1:
        raise ValueError("depth must be at least 1")
    tree = TreeRequest(
        below=os.path.join(directory, ""),
        depth=MAX_DEPTH if depth is None else depth,
        selection=Selection(accept, reject, accept_regex),
        **others,
    )
    return RunningBatch(partial(_save_tree, url, tree))


async def _save_tree(url: UrlLike, tree: TreeRequest, hand_over: HandOver) -> None:
    async def take(result: TaskResult[Outcome | None]) -> None:
        if result.error is not None:  # stop, because the ledger failed
            raise result.error
        if result.value is not None:
            await hand_over(result.value)

    try:
        parsed = walked_as(make_url(url, origin=tree.origin))
        top = _top(parsed, tree)
    except ResolveError as error:
        text = url.text if isinstance(url, Url) else str(url)
        await hand_over(make_failed_outcome(error, text, 0.0, tree.network, tree.origin, tree.referrer))
        return
    hosts = hosts_for(tree.per_host, tree.host_rate, get_lane)
    batch: Batch[Outcome | None] = Batch(hosts, concurrency=tree.concurrency)
    robots = None if tree.ignore_robots else Robots(tree.session, hosts.slow_down, tree.network.warn)
    async with open_ledger(tree.ledger) as book:
        with closing(TreeWalk(tree.session, robots=robots)) as walk:
            walk.add_tree(top)
            walk.close_input()
            await batch.run(_tasks(walk, book, tree, hand_over), take)


def _top(url: Url, tree: TreeRequest) -> WalkRequest:
    """Return the walk request for the top URL. Raises `Refused` (S14) for a URL without a file name."""
    name = local_file_name(url) if find_tree(url) is None else path_of_top(url, host=False, cut=None)
    return WalkRequest(
        url=url,
        below=tree.below,
        path=tree.below + name,
        origin=tree.origin,
        referrer=tree.referrer,
        depth=tree.depth,
        selection=tree.selection,
    )


async def _tasks(
    walk: TreeWalk, book: Ledger | None, tree: TreeRequest, hand_over: HandOver
) -> AsyncIterator[BatchTask[Outcome | None]]:
    async for item, row in with_rows(walk, book):
        if row is not None and row.is_done:
            await hand_over(make_earlier_outcome(row, item.url.shown, item.scheme, item.path))
            item.close()
        else:
            yield _TreeSaveTask(item, row, tree)


def get_lane(task: BatchTask[Outcome | None]) -> Hashable:
    """Return the lane of a task: a group of tasks that run in sequence and can share a connection."""
    assert isinstance(task, _TreeSaveTask)
    return task.lane


class _TreeSaveTask:
    """A batch task for a file or a directory.

    A directory has an outcome only if it failed or was skipped.
    """

    def __init__(self, item: TreeFile | TreeDirectory, row: LedgerEntry | None, tree: TreeRequest) -> None:
        self._item = item
        self._row = row
        self._tree = tree
        self.host, self.scheme, self.lane = item.host, item.scheme, item.lane

    async def run(self) -> Outcome | None:
        """Save the file or list the directory.

        Raises `LedgerFault` and `Requeue`; other errors become outcomes.
        """
        current_row.set(self._row)
        item, start = self._item, running().current_time()
        try:
            saved = await self._list(item) if isinstance(item, TreeDirectory) else await self._save(item)
        except LedgerFault:
            raise
        except ResolveError as error:
            elapsed, network = running().current_time() - start, self._tree.network
            outcome = make_failed_outcome(error, item.url.text, elapsed, network, item.origin, item.referrer)
        else:
            if saved is None:
                await self._forget()
                return None
            outcome = make_outcome(saved, item.scheme)
        if self._row is not None:
            await record_outcome(self._row, outcome)
        return outcome

    async def _forget(self) -> None:
        """Remove the ledger row of a file that turned out to be a directory."""
        if self._row is not None:
            await self._row.forget()

    async def _list(self, directory: TreeDirectory) -> Saved | None:
        listed = await directory.run()
        if listed is None or isinstance(listed, Saved):
            return listed
        for finding in listed.findings:
            self._tree.network.warn(listed.url, finding)
        return None

    async def _save(self, file: TreeFile) -> Saved | None:
        tree = self._tree
        return await file.fetch(
            lambda: file.session.save(
                file.url,
                file.path,
                exists=tree.exists,
                make_directory=True,
                digest=tree.digest,
                listings=False,
                listed=file.listed,
                origin=file.origin,
                referrer=file.referrer,
            )
        )


# A mailbox (mbox) with the articles of a newsgroup. Articles that are missing in the mailbox are appended in
# the order of their numbers. Articles that the server removed after it sent the listing are skipped and
# counted.

_CONCURRENT_ARTICLES = 16


def format_source(url: Url) -> str:
    """Return newsgroup and server of a URL; article numbers are unique within this pair."""
    server = url.scheme
    if isinstance(url, HostUrl):
        server = url.host.lower() + ("" if url.port in (None, url.default_port) else f":{url.port}")
    return f"{last_part(url).decode('ascii', 'replace')}@{server}"


class GroupMailbox:
    """A copy of a newsgroup to a mailbox at `path`.

    The settings of `session` must not limit the number of entries of a listing.
    """

    def __init__(
        self,
        session: Resolver,
        url: Url,
        box: Mailbox,
        path: str,
        origin: Origin = "user",
        referrer: tuple[str, str | None] | None = None,
    ) -> None:
        self._session = session
        self._url = url
        self._box = box
        self._path = path
        self._origin = origin
        self._referrer = referrer
        self._missing = 0
        self._listed: Entry | None = None  # an entry of the listing; all have the same origin and referrer
        self._loop = running()

    async def run(self) -> Saved:
        """Append the missing articles to the mailbox.

        Raises `ResolveError`; the articles before the failed article are saved.
        """
        clock = Clock(None)
        await self._loop.in_thread(self._box.open)
        try:
            before, number = self._box.size, -1
            with closing(ArticleSpool()) as missing:
                await self._list_missing(missing)
                while articles := missing.read_after(number, _CONCURRENT_ARTICLES):
                    await self._append_articles(articles)
                    number = articles[-1].number
        finally:
            await self._loop.in_thread(self._box.close)
        detail = f"{self._missing} listed articles do not exist any more"
        return Saved(
            url=self._url.shown,
            requested_url=self._url.shown,
            path=self._path,
            bytes=self._box.size,
            resumed_from=before,
            kind=Kind.GROUP,
            findings=(Finding(f"{self._url.scheme}:article-gone", "warn", detail),) if self._missing else (),
            verified=("terminator",),
            attempts=1,
            elapsed=clock.elapsed,
            skipped=number < 0,
        )

    async def _list_missing(self, missing: ArticleSpool) -> None:
        """Store the articles of the newsgroup that are missing in the mailbox."""
        numbers = self._box.numbers
        listing = self._session.listing(self._url, origin=self._origin, referrer=self._referrer)
        async with listing as reply:
            if reply.kind is not Kind.GROUP:
                raise Declined(f"expected a group, got a {reply.kind.value}", url=reply.url)
            async for entry in reply.entries():
                if entry.url is not None and entry.name.isdigit() and int(entry.name) not in numbers:
                    missing.add(int(entry.name), entry.url)
                    self._listed = entry

    async def _append_articles(self, articles: Sequence[SpooledArticle]) -> None:
        """Fetch articles concurrently, and save the articles in order.

        Raises the error or the `Requeue` of the first failed article.
        """
        results: list[Response | ResolveError | Requeue | None] = [None] * len(articles)
        await run_all([partial(self._fetch, article, results, at) for at, article in enumerate(articles)])
        for article, result in zip(articles, results, strict=True):
            if isinstance(result, NotFound):
                self._missing += 1
            elif isinstance(result, ResolveError | Requeue):
                raise result
            elif result is not None:
                moment = result.modified or result.retrieved
                await self._loop.in_thread(self._box.add, article.number, moment, result.content)

    async def _fetch(
        self, article: SpooledArticle, results: list[Response | ResolveError | Requeue | None], at: int
    ) -> None:
        assert self._listed is not None
        origin, referrer = self._listed.origin, self._listed.referrer
        try:
            results[at] = await self._session.fetch(article.url, origin=origin, referrer=referrer)
        except (ResolveError, Requeue) as error:
            results[at] = error
