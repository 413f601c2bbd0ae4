"""What `Resolver.save_tree` does: a walk, whose files are saved and told of one by one.

What is found waits in the walk's own database, and an outcome that nobody has asked for yet keeps its place:
so of a tree of any size only a little is held.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Hashable
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

from protocols.contract import Origin, Url
from protocols.errors import ResolveError
from protocols.values import dataclass
from resolver.batch import Batch, BatchTask, TaskResult
from resolver.batch.running import RunningBatch
from resolver.gate import Network
from resolver.ledger import LedgerFault
from resolver.ledger import current as current_row
from resolver.loops import running
from resolver.retrieval.many import HandOver, hosts_for, judged, ledger_of, note
from resolver.retrieval.naming import local_file_name
from resolver.retrieval.outcome import Outcome, outcome_of, outcome_of_failure
from resolver.retrieval.response import Saved
from resolver.retrieval.saving import Exists
from resolver.retrieval.session import Resolver
from resolver.tree.loops import DEEPEST
from resolver.tree.robots import Robots
from resolver.tree.rows import with_rows
from resolver.tree.scope import path_of_top, tree_of, walked_as
from resolver.tree.selection import Selection
from resolver.tree.walk import TreeDirectory, TreeFile, TreeWalk, WalkRequest
from resolver.url import UrlLike, url_of

if TYPE_CHECKING:
    from resolver.ledger.book import Ledger, LedgerEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeRequest:
    """What the caller said, but for the URL; see `Resolver.save_tree`. `below` is how all paths begin."""

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
    session: Resolver,
    network: Network,
    url: UrlLike,
    *,
    directory: str,
    depth: int | None,
    accept: tuple[str, ...],
    reject: tuple[str, ...],
    accept_regex: str | None,
    ignore_robots: bool,
    ledger: str | None,
    concurrency: int,
    per_host: int | None,
    host_rate: float | None,
    exists: Exists,
    digest: bool,
    origin: Origin,
    referrer: tuple[str, str | None] | None,
) -> RunningBatch[Outcome]:
    """An iterator that is not begun. Raises `ValueError`."""
    if depth is not None and depth < 1:
        raise ValueError("depth is 1 or more")
    wish = TreeRequest(
        session=session,
        network=network,
        below=os.path.join(directory, ""),
        depth=DEEPEST if depth is None else depth,
        selection=Selection(accept, reject, accept_regex),
        ignore_robots=ignore_robots,
        ledger=ledger,
        concurrency=concurrency,
        per_host=per_host,
        host_rate=host_rate,
        exists=exists,
        digest=digest,
        origin=origin,
        referrer=referrer,
    )
    return RunningBatch(partial(_save_tree, url, wish))


async def _save_tree(url: UrlLike, wish: TreeRequest, hand_over: HandOver) -> None:
    async def take(result: TaskResult[Outcome | None]) -> None:
        if result.error is not None:  # no more can be noted, and so no more is asked for
            raise result.error
        if result.value is not None:
            await hand_over(result.value)

    try:
        parsed = walked_as(url_of(url, origin=wish.origin))
        top = _top(parsed, wish)
    except ResolveError as error:
        await hand_over(_failed(error, url.text if isinstance(url, Url) else str(url), 0.0, wish))
        return
    hosts = hosts_for(wish.per_host, wish.host_rate, lane_of)
    batch: Batch[Outcome | None] = Batch(hosts, concurrency=wish.concurrency)
    robots = None if wish.ignore_robots else Robots(wish.session, hosts.slow_down, wish.network.warn)
    async with ledger_of(wish.ledger) as book:
        with closing(TreeWalk(wish.session, robots=robots)) as walk:
            walk.plant(top)
            walk.no_more()
            await batch.run(_tasks(walk, book, wish, hand_over), take)


def _top(url: Url, wish: TreeRequest) -> WalkRequest:
    """Raises `Refused` (S14) for what gives no name."""
    name = local_file_name(url) if tree_of(url) is None else path_of_top(url, host=False, cut=None)
    return WalkRequest(
        url=url,
        below=wish.below,
        path=wish.below + name,
        origin=wish.origin,
        referrer=wish.referrer,
        depth=wish.depth,
        selection=wish.selection,
    )


async def _tasks(
    walk: TreeWalk, book: Ledger | None, wish: TreeRequest, hand_over: HandOver
) -> AsyncIterator[BatchTask[Outcome | None]]:
    async for item, row in with_rows(walk, book):
        if row is not None and row.is_done:
            await hand_over(_had(item, row))
            item.close()
        else:
            yield _TreeSaveTask(item, row, wish)


def _had(item: TreeFile | TreeDirectory, row: LedgerEntry) -> Outcome:
    shown = item.url.shown
    return Outcome(
        url=shown,
        final_url=shown,
        scheme=item.scheme,
        status="skipped",
        path=item.path,
        bytes=row.size,
        digest=row.digest,
    )


def lane_of(task: BatchTask[Outcome | None]) -> Hashable:
    """Which others it best comes behind."""
    assert isinstance(task, _TreeSaveTask)
    return task.lane


class _TreeSaveTask:
    """A file or a directory as a task of the batch. Of a directory only what goes wrong is an outcome, and
    what is left alone."""

    def __init__(self, item: TreeFile | TreeDirectory, row: LedgerEntry | None, wish: TreeRequest) -> None:
        self._item = item
        self._row = row
        self._wish = wish
        self.host, self.scheme, self.lane = item.host, item.scheme, item.lane

    async def run(self) -> Outcome | None:
        """Of errors it raises `LedgerFault` alone; and `GiveWay`."""
        current_row.set(self._row)
        item, began = self._item, running().current_time()
        try:
            saved = await self._list(item) if isinstance(item, TreeDirectory) else await self._save(item)
        except LedgerFault:
            raise
        except ResolveError as error:
            elapsed = running().current_time() - began
            outcome = _failed(error, item.url.text, elapsed, self._wish, item)
        else:
            if saved is None:
                await self._forget()
                return None
            outcome = outcome_of(saved, item.scheme, saved.path)
        if self._row is not None:
            await note(self._row, outcome)
        return outcome

    async def _forget(self) -> None:
        """What turned out to be a directory is no file that anybody waits for."""
        if self._row is not None:
            await self._row.forget()

    async def _list(self, directory: TreeDirectory) -> Saved | None:
        listed = await directory.run()
        if listed is None or isinstance(listed, Saved):
            return listed
        for finding in listed.findings:
            self._wish.network.warn(listed.url, finding)
        return None

    async def _save(self, file: TreeFile) -> Saved | None:
        wish = self._wish
        return await file.fetch(
            lambda: file.session.save(
                file.url,
                file.path,
                exists=wish.exists,
                make_directory=True,
                digest=wish.digest,
                listings=False,
                listed=file.listed,
                origin=file.origin,
                referrer=file.referrer,
            )
        )


def _failed(
    error: ResolveError,
    url: str,
    elapsed: float,
    wish: TreeRequest,
    item: TreeFile | TreeDirectory | None = None,
) -> Outcome:
    origin, referrer = (wish.origin, wish.referrer) if item is None else (item.origin, item.referrer)
    return outcome_of_failure(error, url, elapsed, judged(error, url, wish.network, origin, referrer))
