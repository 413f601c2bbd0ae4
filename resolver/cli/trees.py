"""`get -r`: the URLs of the command line and its lists as tops of trees, and what is found below them."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import NamedTuple, Protocol

from protocols.contract import Finding, Url
from protocols.errors import NotConfigured, ResolveError
from protocols.location import HostUrl
from resolver.batch import Task
from resolver.cli import streams
from resolver.cli.arguments import Command
from resolver.cli.options import Found
from resolver.cli.summary import Tally
from resolver.cli.targets import Target
from resolver.cli.verbs import enter, get
from resolver.policy import local_path
from resolver.registry import is_of_the_web
from resolver.retrieval.response import Saved
from resolver.retrieval.session import Resolver
from resolver.tree.loops import DEEPEST
from resolver.tree.mirror import Inventory
from resolver.tree.robots import Robots
from resolver.tree.scope import names_of, tree_of
from resolver.tree.selection import Selection
from resolver.tree.walk import Directory, File, Top, Walk

#: Trees that are walked at once.
_MOST = 64


class Run(Protocol):
    """Who tells and counts what becomes of things."""

    async def conclude(
        self, number: int, target: Target, perform: Callable[[], Awaitable[Saved | None]]
    ) -> None: ...

    def report(self, error: ResolveError) -> None: ...


class Planted(NamedTuple):
    """The target that a tree is of, and its number."""

    target: Target
    number: int


class Trees:
    """The trees of a run, and what comes out of them. Raises `NotConfigured` where something is wanted that
    nobody can be asked about. `slow` is told of a host how many seconds it wants between two starts."""

    def __init__(
        self, run: Run, session: Resolver, command: Command, tally: Tally, slow: Callable[[str, float], None]
    ) -> None:
        self._run = run
        self._session = session
        self._command = command
        self._tally = tally
        found = command.found
        if found.delete and not (found.yes or found.dry_run or streams.has_terminal()):
            raise NotConfigured("--delete asks at a terminal, and there is none: --yes removes unasked")
        robots = None if found.ignore_robots else Robots(session, slow, self._warn)
        self._inventory = Inventory() if found.delete else None
        self._tops: list[Top] = []
        self._walk = Walk(session, robots=robots, inventory=self._inventory, dry_run=found.dry_run)
        self._is_told = command.quiet or not found.ignore_robots

    async def plant(self, target: Target) -> None:
        """Take one more, as soon as there is room. What is wrong with it is told."""
        await self._walk.room(_MOST)
        number = self._tally.plant(target)
        try:
            top = self._top(target, target.parsed(self._command), Planted(target, number))
        except ResolveError as error:
            self._tally.uproot(number)
            number = self._tally.begin(target, below=True)
            await self._run.conclude(number, target, partial(_fail, error))
            return
        if self._inventory is not None:
            self._tops.append(top)
            self._inventory.keep([top.path])
        if not self._is_told and is_of_the_web(top.url.scheme):
            self._is_told = True
            streams.complain("robots.txt is not asked for (--ignore-robots)")
        self._walk.plant(top)

    def no_more(self) -> None:
        self._walk.no_more()

    def close(self) -> None:
        self._walk.close()
        if self._inventory is not None:
            self._inventory.close()

    async def remove_surplus(self) -> None:
        """Once all is over."""
        if self._inventory is not None:
            from resolver.cli.surplus import remove_surplus  # few want that

            await remove_surplus(self._tops, self._inventory, self._command, self._run.report)

    def _warn(self, url: str, finding: Finding) -> None:
        if not self._command.quiet:
            streams.complain(f"{url}: {finding.rule}: {finding.detail}")

    def _top(self, target: Target, url: Url, planted: Planted) -> Top:
        """Raises `ResolveError` for what gives no name."""
        command, found = self._command, self._command.found
        assert target.claim is not None
        path = (
            target.claim.take(_path(url, found), url.shown) if tree_of(url) else target.reserve(url, command)
        )
        below = os.path.join(command.directory or "", "")
        return Top(
            url=url,
            below=below,
            path=below + path,
            origin=target.origin,
            referrer=target.referrer,
            depth=found.depth or DEEPEST,
            selection=Selection(tuple(found.accept), tuple(found.reject), found.accept_regex),
            owner=planted,
            over=partial(self._tally.uproot, planted.number),
        )

    async def tasks(self) -> AsyncIterator[Task[None]]:
        async for item in self._walk:
            yield _Item(self, item)

    def begin(self, item: File | Directory) -> int:
        """Its number."""
        assert isinstance(item.owner, Planted)
        return self._tally.begin(item.owner.target, below=True)

    async def perform(self, number: int, item: File | Directory) -> None:
        """Save it, or list it."""
        planted = item.owner
        assert isinstance(planted, Planted)
        target = Target(item.url.text, item.origin, item.referrer)
        perform: Callable[[], Awaitable[Saved | None]]
        if isinstance(item, File):
            target = (planted.target if item.is_top else target)._replace(file=item)
            perform = partial(get, self._session, target, self._command)
        else:
            perform = partial(enter, item, target, self._command, self._session.policy)
        await self._run.conclude(number, target, perform)


async def _fail(error: ResolveError) -> Saved | None:
    raise error


def _path(url: Url, found: Found) -> str:
    """Where the top of a tree goes below the directory for files: it is called by its last name, or by its
    host if it has none."""
    names = names_of(url)
    host = [url.host.encode()] if isinstance(url, HostUrl) and url.host else []
    if not names:
        return local_path(host or [b"root"])
    above = names[:-1][found.cut_dirs or 0 :] if found.host_directories or found.cut_dirs is not None else ()
    return local_path([*(host if found.host_directories else ()), *above, names[-1]])


class _Item:
    """A file or a directory as a task of the batch."""

    def __init__(self, trees: Trees, item: File | Directory) -> None:
        self._trees = trees
        self._item = item
        self._number = trees.begin(item)
        self.host, self.scheme = item.host, item.scheme

    async def run(self) -> None:
        await self._trees.perform(self._number, self._item)
