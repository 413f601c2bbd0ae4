"""The walk of one or more trees: a source of batch tasks, each with a directory to list or a file to save.

`add_tree` adds a tree. The first task of a tree is its top directory, and the entries of a listing become
further tasks. The walk returns all files of a directory before the next directory. A running task may add
entries to the walk. So the walk ends only after `close_input` was called and all tasks are finished.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from protocols.contract import Kind, Origin, Referrer, Url, Validators
from protocols.errors import Declined, LocalError, Refused, TryLater
from resolver.files.names import is_directory
from resolver.loops import running
from resolver.network.task import Requeue
from resolver.policy.subject import host_key
from resolver.transfer.naming import is_index
from resolver.transfer.redirects import NoDocument
from resolver.transfer.response import Saved
from resolver.transfer.session import ConfinedSession, Resolver
from resolver.trees.listing import DirectoryListing, ListedDirectory, index_file, list_marks
from resolver.trees.robots import Robots
from resolver.trees.scope import MAX_DEPTH, Selection, TreeScope, find_tree, list_names, normalize_url
from resolver.trees.spool import DIRECTORY, FILE, LINKED, EntrySpool, SpooledEntry
from resolver.url import registry

if TYPE_CHECKING:
    from resolver.ledger.book import Ledger, LedgerEntry, RequestRow
    from resolver.trees.mirror import Inventory

T = TypeVar("T")

_ROWS_PER_QUERY = 100


def _ignore() -> None:
    """Ignore the end of a tree."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkRequest:
    """A tree to walk.

    Attributes:
        url: The top URL of the tree.
        below: The output directory, which is a prefix of `path`.
        path: The local path of the top.
        depth: The maximum number of directory levels, including the top.
        owner: A value from the caller, which every item of the tree has as an attribute.
        on_end: A function that is called when all tasks of the tree are finished.
        is_listing: Whether the top must be a listing whose entries are all files.
    """

    url: Url
    below: str
    path: str
    origin: Origin = "user"
    referrer: tuple[str, str | None] | None = None
    depth: int = MAX_DEPTH
    selection: Selection = field(default_factory=Selection)
    owner: object = None
    on_end: Callable[[], object] = _ignore
    is_listing: bool = False


class TreeTop:
    """A tree of a walk, with the data that all its items share.

    `pending` is the number of items (files and directories) that are ready or running.
    """

    def __init__(self, session: Resolver, top: WalkRequest) -> None:
        self.top = top
        self.scope = TreeScope.from_url(top.url)
        rules = find_tree(top.url)
        self.stays = rules is not None and rules.stays
        self.host, self.scheme = host_key(top.url), top.url.scheme
        self.is_web = registry.is_web(self.scheme)
        self.referrer = None if top.referrer is None else Referrer(*top.referrer)
        self.pending = 0
        self.session = ConfinedSession(
            session, top.url, leads=self._check_file, lists=self._check, below=top.below
        )
        self.session_of_top = (
            ConfinedSession(session, top.url, leads=self._check, lists=self._check, below=top.below)
            if rules
            else session
        )

    def _check(self, start: Url, target: Url) -> None:
        """Raise `Refused` (S10) if a redirect leads to a URL outside the tree.

        A redirect from a user-configured mirror is always allowed, because the mirror itself is outside the
        tree.
        """
        if self.scope.covers(start) and not self.scope.covers(target):
            raise Refused("S10", f"the redirect leads out of the tree, to {target.shown}")

    def _check_file(self, start: Url, target: Url) -> None:
        """Raise `Refused` (S10) if a redirect of a file leads to a URL outside the tree.

        If the redirect only adds a trailing slash, the file is a directory. After such a redirect,
        `NoDocument` is raised.
        """
        self._check(start, target)
        if (
            target.text.endswith("/")
            and not start.text.endswith("/")
            and list_names(start) == list_names(target)
        ):
            raise NoDocument("S10", "a redirect shows that this is a directory")


class TreeItem:
    """A file or directory of the walk, as a batch task. `path` is the local path."""

    def __init__(self, walk: TreeWalk, tree: TreeTop, row: SpooledEntry) -> None:
        self._walk = walk
        self.tree = tree
        self.row = row
        self.path = row.path
        self.url = row.url or tree.top.url
        self.is_top = row.parent is None
        self.owner = tree.top.owner
        self.origin: Origin = tree.top.origin if self.is_top else "derived"
        self.host, self.scheme = tree.host, tree.scheme

    @property
    def lane(self) -> Hashable:
        """Return the lane of the task: in ftp, the working directory that it needs on the connection.

        Tasks of one lane run in sequence on one connection. Return None if the current directory does not
        matter.
        """
        if not self.tree.stays:
            return None
        is_directory = isinstance(self, TreeDirectory)
        return self.row.tree, self.row.number if is_directory or self.is_top else self.row.parent

    def close(self) -> None:
        """Finish the item (file or directory) without a request."""
        self._walk.end(self)

    def __enter__(self) -> None:
        """Begin the item (file or directory), which is finished at the end of the block."""

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Finish the item, except after `Requeue`."""
        if kind is not Requeue:
            self._walk.end(self)

    @property
    def referrer(self) -> Referrer | None:
        if self.is_top:
            return self.tree.referrer
        return None if self.row.referrer is None else Referrer(self.row.referrer, self.row.address)

    async def _check_robots(self) -> Saved | None:
        """Return the outcome of an item that robots.txt forbids (RFC 9309), or None for an allowed item.

        A URL from the user is always allowed. Raises `TryLater` if the rules are unknown.
        """
        robots = self._walk.robots
        if robots is None or self.is_top or not self.tree.is_web:
            return None
        finding = await robots.check(self.url, self.tree.top.origin, self.tree.referrer)
        if finding is None:
            return None
        url, kind = self.url.shown, Kind(self.row.kind)
        return Saved(
            url=url, requested_url=url, path=None, bytes=0, kind=kind, findings=(finding,), skipped=True
        )


class TreeFile(TreeItem):
    """A file to save at `path`, with the `session` of its tree."""

    @property
    def session(self) -> Resolver:
        return self.tree.session_of_top if self.is_top else self.tree.session

    @property
    def listed(self) -> Validators:
        """Return the size and modification time of the file in the listing, if they are exact."""
        modified = self.row.modified
        return Validators(self.row.size, None if modified is None else datetime.fromisoformat(modified))

    async def fetch(self, save: Callable[[], Awaitable[T]]) -> T | Saved | None:
        """Save the file with `save`, except if robots.txt forbids the file.

        Returns:
            The result of `save`, or the outcome of a forbidden file. If the file turned out to be a
            directory, the result is absent (None), and the walk enters the directory.

        Raises:
            ResolveError: `save` failed, or the robots.txt rules are unknown.
        """
        with self:
            try:
                if (outcome := await self._check_robots()) is not None:
                    return outcome
                return await save()
            except NoDocument as error:
                is_bound = self.is_top or self.tree.top.is_listing
                if is_bound or not (self._is_ambiguous or error.rule == "S10"):
                    raise
            except LocalError:
                if self.tree.top.is_listing or not self._was_directory:
                    raise
            self._walk.enter(self)
            return None

    @property
    def _is_ambiguous(self) -> bool:
        """Return whether the listing leaves open if the entry is a file or a directory."""
        return self.row.kind in (Kind.LINK, Kind.UNKNOWN)

    @property
    def _was_directory(self) -> bool:
        """Return whether the local path is a directory, because an earlier run found a directory.

        The local path is checked only for an entry of unknown kind and for web pages, because a web server
        may redirect the URL of a file to a directory.
        """
        is_certain = not (self._is_ambiguous or self.tree.is_web)
        return not (self.is_top or is_certain) and is_directory(self.path)


class TreeDirectory(TreeItem):
    """A directory to list."""

    session = property(lambda self: self.tree.session)
    scope = property(lambda self: self.tree.scope)
    below = property(lambda self: self.tree.top.below)
    selection = property(lambda self: self.tree.top.selection)
    inventory = property(lambda self: self._walk.inventory)
    is_dry = property(lambda self: self._walk.dry_run)
    max_depth = property(lambda self: min(self.tree.top.depth, MAX_DEPTH))

    async def run(self) -> ListedDirectory | Saved | None:
        """List the directory, except if robots.txt forbids it. The walk then returns its entries.

        Returns:
            The listed directory, or a `Saved` if robots.txt forbids the directory. If the URL is the URL of a
            file, the result is None, and the walk returns the file.

        Raises:
            ResolveError: The listing failed. The walk still returns the entries before the failure.
        """
        listing = DirectoryListing(self, self._walk.spool)
        with self:
            try:
                if (outcome := await self._check_robots()) is not None:
                    return outcome
                return await listing.read()
            except Declined as error:
                is_listed_directory = self.row.role in (DIRECTORY, LINKED)
                is_bound = self.is_top and self.tree.top.is_listing
                if listing.is_document and is_listed_directory and not is_bound:
                    self._walk.add_as_file(self, listing.media_type)
                elif is_listed_directory or isinstance(error, TryLater):
                    raise
                return None

    def announce(self, count: int) -> None:
        self._walk.announce(self, count)


class TreeWalk:
    """An async iterator over the items of trees, for one consumer. The walk must be closed.

    The consumer must call `run`, `fetch` or `close` of each item. `add_tree` may be called until
    `close_input` is called.

    Args:
        session: The session for all requests.
        robots: The robots.txt rules; None means that robots.txt is ignored.
        inventory: The inventory that records all listed entries.
        dry_run: Whether to omit the creation of local directories.
    """

    def __init__(
        self,
        session: Resolver,
        *,
        robots: Robots | None = None,
        inventory: Inventory | None = None,
        dry_run: bool = False,
    ) -> None:
        self._session = session
        self.robots = robots
        self.inventory = inventory
        self.dry_run = dry_run
        self.spool = EntrySpool()
        self._trees: dict[int, TreeTop] = {}
        self._count = 0
        self._open_directories = 0
        self._is_input_closed = False
        self._changed = running().event()
        self._room = running().event()

    async def wait_for_room(self, limit: int) -> None:
        """Wait until fewer than `limit` trees are unfinished."""
        while len(self._trees) >= limit:
            self._room = running().event()
            await self._room.wait()

    def add_tree(self, top: WalkRequest) -> None:
        """Add a tree. If the scheme does not have trees, the URL becomes a file. Raises `LocalError`."""
        self._count += 1
        tree = self._trees[self._count] = TreeTop(self._session, top)
        role = DIRECTORY if find_tree(top.url) else FILE
        kind = Kind.DOCUMENT.value
        number = next(self.spool.numbers)
        row = SpooledEntry(number, self._count, None, depth=1, role=role, raw=b"", kind=kind, path=top.path)
        self.spool.add_ready([row])
        if role == DIRECTORY:
            self.spool.visit(self._count, number, normalize_url(top.url))
        tree.pending = 1
        self._changed.set()

    def close_input(self) -> None:
        """Declare that `add_tree` will not be called again."""
        self._is_input_closed = True
        self._changed.set()

    def close(self) -> None:
        self.spool.close()

    def __aiter__(self) -> TreeWalk:
        return self

    async def __anext__(self) -> TreeFile | TreeDirectory:
        while (item := self._take_next()) is None:
            if self._is_input_closed and not self._trees:
                raise StopAsyncIteration
            await self._changed.wait()
            self._changed = running().event()
        return item

    def take_files(self, limit: int = _ROWS_PER_QUERY) -> list[TreeFile]:
        """Return the next files that are available without a wait for a listing."""
        return [TreeFile(self, self._trees[row.tree], row) for row in self.spool.take_ready(FILE, limit)]

    def _take_next(self) -> TreeFile | TreeDirectory | None:
        for file in self.take_files(1):
            return file
        while (row := self.spool.take_directory(linked=not self._open_directories)) is not None:
            self._open_directories += row.role == DIRECTORY
            if row.role == DIRECTORY or self._is_new(row):
                return TreeDirectory(self, self._trees[row.tree], row)
            self._count_finished(self._trees[row.tree], row)
        return None

    def _is_new(self, row: SpooledEntry) -> bool:
        """Return whether a link leads to a directory that was not visited yet.

        Links are visited last, so that a directory is visited by its own name and not by the name of a link.
        """
        return self.spool.visit(row.tree, row.number, *list_marks(row))

    def announce(self, item: TreeItem, count: int) -> None:
        """Add `count` to the number of ready or running items of the item's tree."""
        item.tree.pending += count
        self._changed.set()

    def end(self, item: TreeItem) -> None:
        """Count the item as finished."""
        self._count_finished(item.tree, item.row)
        if item.row.role == DIRECTORY:
            self._open_directories -= 1
            self._changed.set()

    def _count_finished(self, tree: TreeTop, row: SpooledEntry) -> None:
        tree.pending -= 1
        if not tree.pending:
            del self._trees[row.tree]
            self.spool.drop_tree(row.tree)
            self._room.set()
            self._changed.set()
            tree.top.on_end()

    def enter(self, file: TreeFile) -> None:
        """Add a file that turned out to be a directory to the directories of the walk.

        A directory that was already visited or is too deep is skipped.
        """
        row = file.row
        if row.depth > min(file.tree.top.depth, MAX_DEPTH):
            return
        if row.kind == Kind.LINK:
            self.spool.add_ready([row._replace(role=LINKED)])
            self.announce(file, 1)
        elif self.spool.visit(row.tree, row.number, *list_marks(row)):
            self.spool.add_ready([row._replace(role=DIRECTORY)])
            self.announce(file, 1)

    def add_as_file(self, directory: TreeDirectory, media_type: str | None) -> None:
        """Add a directory that turned out to be a document to the files of the walk."""
        if directory.is_top and not is_index(directory.url):
            row: SpooledEntry | None = directory.row._replace(role=FILE)
        else:
            row = index_file(directory, media_type)
        if row is not None:
            self.spool.add_ready([row._replace(number=next(self.spool.numbers))])
            self.announce(directory, 1)


# A walk with a ledger. Each file of a tree gets a ledger row before the file is requested. A directory has no
# ledger row, because each run requests all listings again to find the files.


async def with_rows(
    walk: TreeWalk, ledger: Ledger | None
) -> AsyncIterator[tuple[TreeFile | TreeDirectory, LedgerEntry | None]]:
    """Yield the files and directories of the walk, and for each file its ledger row.

    If the ledger row says that a file is complete, the caller must not request the file. It must call the
    `close` method of the file.

    Raises:
        LedgerFault: The ledger cannot be read or written.
    """
    async for item in walk:
        if ledger is None or isinstance(item, TreeDirectory):
            yield item, None
            continue
        files = [item, *walk.take_files()]
        rows = await running().in_thread(ledger.admit, [_make_row(file) for file in files])
        for file, row in zip(files, rows, strict=True):
            yield file, row


def _make_row(file: TreeFile) -> RequestRow:
    from resolver.ledger.book import RequestRow  # Imported lazily: it loads sqlite3.

    return RequestRow(
        url=file.url.shown,
        place=os.path.abspath(file.path),
        typed_url=file.url.shown,
        origin=file.origin,
        referrer=file.referrer,
        without_password=file.url.shown != file.url.text,
        below=None if file.is_top else os.path.join(os.path.abspath(file.tree.top.below), ""),
    )
