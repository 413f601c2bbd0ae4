"""The command `get -r`: recursive retrieval of directory trees.

The URLs of the command line and of the lists are the roots of the trees.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Hashable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

import trio

from protocols.contract import Finding, Url
from protocols.errors import LocalError, NotConfigured, ResolveError
from protocols.text import Masked, own_text
from resolver.cli import streams, summary
from resolver.cli.arguments import Command
from resolver.cli.ledger import make_saved
from resolver.cli.output import print_bytes
from resolver.cli.own_files import list_own_inodes
from resolver.cli.summary import RunSummary
from resolver.cli.targets import CommandTarget
from resolver.cli.verbs import get, list_directory
from resolver.files.directory import SurplusFile
from resolver.files.names import is_directory
from resolver.transfer.batch import BatchTask
from resolver.transfer.naming import local_directory
from resolver.transfer.response import Saved
from resolver.transfer.session import Resolver
from resolver.trees.robots import Robots
from resolver.trees.scope import MAX_DEPTH, Selection, find_tree, path_of_top, split_pattern, walked_as
from resolver.trees.walk import TreeDirectory, TreeFile, TreeWalk, WalkRequest, with_rows
from resolver.url.registry import is_web

if TYPE_CHECKING:
    from resolver.ledger.book import Ledger, LedgerEntry
    from resolver.trees.mirror import Inventory, Pruner


_MAX_TREES = 64


class TreeRun(Protocol):
    """The methods that `Trees` calls to report and count outcomes."""

    def run_retrieval(
        self,
        number: int,
        target: CommandTarget,
        perform: Callable[[], Awaitable[Saved | None]],
        entry: LedgerEntry | None = None,
    ) -> Coroutine[object, object, None]: ...

    def report_skipped(self, number: int, saved: Saved, scheme: str) -> None: ...

    def report(self, error: ResolveError) -> None: ...


class PlannedTree(NamedTuple):
    """The root target of a tree, and the number of the tree in the summary."""

    target: CommandTarget
    number: int


class Trees:
    """The trees of a run, with their files and directories.

    Raises `NotConfigured` if `--delete` needs the user's consent but a terminal is missing.

    Args:
        run: the run, which reports and counts outcomes.
        session: the session that retrieves the files.
        command: the options.
        tally: the summary of the run.
        slow: a function that sets the minimum number of seconds between two requests to a host.
        ledger: the ledger, which has a row for each file, or None.
    """

    def __init__(
        self,
        run: TreeRun,
        session: Resolver,
        command: Command,
        tally: RunSummary,
        slow: Callable[[str, float], None],
        ledger: Ledger | None,
    ) -> None:
        self._run = run
        self._session = session
        self._command = command
        self._tally = tally
        self._ledger = ledger
        self._inventory: Inventory | None = None
        if command.delete:
            from resolver.trees.mirror import Inventory  # lazy import: few runs delete local files

            if not (command.yes or command.dry_run or streams.has_terminal()):
                raise NotConfigured("--delete cannot ask for consent: no terminal (use --yes)")
            self._inventory = Inventory()
        robots = None if command.ignore_robots else Robots(session, slow, self._warn)
        self._roots: list[WalkRequest] = []
        self._walk = TreeWalk(session, robots=robots, inventory=self._inventory, dry_run=command.dry_run)
        self._is_notice_sent = command.is_quiet or not command.ignore_robots

    async def start_tree(self, target: CommandTarget) -> None:
        """Start a tree when fewer than the maximum run. An error of the root URL is reported, not raised."""
        await self._walk.wait_for_room(_MAX_TREES)
        number = self._tally.add_tree(target)
        try:
            root = self._root(target, walked_as(target.parse(self._command)), PlannedTree(target, number))
        except ResolveError as error:
            self._tally.remove_tree(number)
            number = self._tally.add_target(target, below=True)
            await self._run.run_retrieval(number, target, partial(_raise_error, error))
            return
        if self._inventory is not None:
            self._roots.append(root)
            self._inventory.record([root.path])
        if not self._is_notice_sent and is_web(root.url.scheme):
            self._is_notice_sent = True
            streams.complain(Masked("robots.txt is ignored (--ignore-robots)"))
        self._walk.add_tree(root)

    def end_roots(self) -> None:
        self._walk.close_input()

    def close(self) -> None:
        self._walk.close()
        if self._inventory is not None:
            self._inventory.close()

    async def remove_surplus(self) -> None:
        """Remove local files that are not at the source anymore.

        Call this method after all trees have ended.
        """
        if self._inventory is not None:
            await remove_surplus(self._roots, self._inventory, self._command, self._run.report)

    def _warn(self, url: Masked, finding: Finding) -> None:
        if not self._command.is_quiet:
            streams.complain(Masked(f"{url}: {finding.words}"))

    def _root(self, target: CommandTarget, url: Url, tree: PlannedTree) -> WalkRequest:
        """Return the request for the root of a tree. Raises `ResolveError` if the URL has no file name."""
        command = self._command
        assert target.reservation is not None
        below, depth = os.path.join(command.directory or "", ""), command.depth or MAX_DEPTH
        selection = Selection(tuple(command.accept), tuple(command.reject), command.accept_regex)
        if command.glob:
            path = local_directory(url, host=command.host_directories, cut=command.cut_dirs)
            url, pattern = split_pattern(url)
            depth, selection = 1, Selection((pattern,))
        elif find_tree(url) is None:
            path = target.reserve(url, command)
        else:
            path = path_of_top(url, host=command.host_directories, cut=command.cut_dirs)
            path = target.reservation.take(path, url.shown)
        return WalkRequest(
            url=url,
            below=below,
            path=os.path.normpath(below + path) if command.glob else below + path,
            origin=target.origin,
            referrer=target.referrer,
            depth=depth,
            selection=selection,
            is_listing=command.glob,
            owner=tree,
            on_end=partial(self._tally.remove_tree, tree.number),
        )

    async def tasks(self) -> AsyncIterator[BatchTask[None]]:
        async for item, entry in with_rows(self._walk, self._ledger):
            number = self.count_item(item)
            if entry is not None and entry.is_done:
                saved = make_saved(item.url.shown, item.path, entry.size, entry.digest)
                self._run.report_skipped(number, saved, item.scheme)
                item.close()
            else:
                run = partial(self.perform, number, item, entry)
                yield _TreeTask(item.host, item.scheme, item.lane, run)

    def count_item(self, item: TreeFile | TreeDirectory) -> int:
        """Count a file or directory in the summary, and return its number."""
        assert isinstance(item.owner, PlannedTree)
        return self._tally.add_target(item.owner.target, below=True)

    def perform(
        self, number: int, item: TreeFile | TreeDirectory, entry: LedgerEntry | None
    ) -> Coroutine[object, object, None]:
        """Save a file or list a directory, and report the outcome."""
        perform: Callable[[], Awaitable[Saved | None]]
        if isinstance(item, TreeDirectory):
            target = CommandTarget(item.url.text, item.origin, item.referrer)
            perform = partial(list_directory, item, target, self._command, self._session.policy)
        else:
            target = CommandTarget(item.url.text, item.origin, item.referrer, file=item)
            if item.is_top:
                assert isinstance(item.owner, PlannedTree)
                target = item.owner.target._replace(file=item)
            perform = partial(get, self._session, target, self._command)
        return self._run.run_retrieval(number, target, perform, entry)


async def _raise_error(error: ResolveError) -> Saved | None:
    raise error


def get_lane(task: BatchTask[None]) -> Hashable:
    """Return the lane of a task.

    The queue prefers to run tasks of the same lane one after the other.
    """
    assert isinstance(task, _TreeTask)
    return task.lane


class _TreeTask(NamedTuple):
    """A file or a directory of a tree as a task of the batch."""

    host: str
    scheme: str
    lane: Hashable
    run: Callable[[], Coroutine[object, object, None]]


# The option `--delete` of `get -r`. Local files that are not at the source anymore are listed, and removed if
# the user agrees.

Removal: TypeAlias = "tuple[Pruner, SurplusFile, str]"


async def remove_surplus(
    roots: Sequence[WalkRequest], inventory: Inventory, command: Command, report: Callable[[LocalError], None]
) -> None:
    """Remove local files that are not at the source anymore, from all trees of a finished run.

    `report` is called with the error of each file that cannot be removed.
    """
    asks = not (command.yes or command.dry_run)
    removals = await trio.to_thread.run_sync(_list_removals, roots, inventory, command)
    uncertain = [removal for removal in removals if not removal[1].listing.certain]
    if uncertain and asks:
        removals = [removal for removal in removals if removal[1].listing.certain]
        streams.complain(
            Masked(
                f"{len(uncertain)} local entries are kept: http pages no longer list them, "
                "but servers hide some names (delete them with --yes)"
            )
        )
    for _, surplus, path in removals:
        if asks or not (command.is_quiet or command.json):
            streams.complain(Masked(f"delete {own_text(path)}{'/' * surplus.is_directory}"))
    if command.dry_run:
        await _print_records(removals, command, is_done=False)
        return
    if not removals or not (command.yes or await streams.ask(f"delete these {len(removals)}?")):
        return
    removals = await trio.to_thread.run_sync(_remove, removals, report)
    await _print_records(removals, command, is_done=True)
    if not command.is_quiet:
        detail = Masked(", including those that http pages no longer list (--yes)" if uncertain else "")
        streams.complain(Masked(f"{len(removals)} deleted{detail}"))


def _list_removals(roots: Sequence[WalkRequest], inventory: Inventory, command: Command) -> list[Removal]:
    from resolver.trees.mirror import Pruner  # lazy import: few runs delete local files

    excluded = list_own_inodes(command)
    removals: list[Removal] = []
    for root in roots:
        if is_directory(root.path):
            pruner = Pruner(root.path, inventory, root.selection.takes_local, excluded)
            files = pruner.list_surplus()
            removals += [(pruner, surplus, f"{root.path}/{'/'.join(surplus.parts)}") for surplus in files]
    return removals


def _remove(removals: Sequence[Removal], report: Callable[[LocalError], None]) -> list[Removal]:
    finished = []
    for removal in removals:
        pruner, surplus, _ = removal
        try:
            if pruner.drop(surplus):
                finished.append(removal)
        except LocalError as error:
            report(error)
    return finished


async def _print_records(removals: Sequence[Removal], command: Command, *, is_done: bool) -> None:
    if command.json:
        records = (summary.make_removed_record(path, is_done=is_done) for _, _, path in removals)
        await print_bytes(b"".join(map(streams.record_octets, records)))
