"""The walk of a tree: a source of tasks for a batch, each a directory to list or a file to save.

Who plants a tree gets its top as the first task; what a listing brings comes out behind it, the files of a
directory before the next one is entered. The source ends when nothing more is to be planted and all that it
gave out is over: each may still bring something.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from protocols.contract import Kind, Origin, Referrer, Url, Validators
from protocols.errors import Declined, Refused, TryLater
from resolver.files.names import is_directory
from resolver.loops import running
from resolver.network.task import Requeue
from resolver.policy.subject import host_key
from resolver.transfer.naming import is_index
from resolver.transfer.redirects import NoDocument
from resolver.transfer.response import Saved
from resolver.transfer.session import ConfinedSession, Resolver
from resolver.trees.listing import DirectoryListing, ListedDirectory, index_file, marks_of
from resolver.trees.mirror import Inventory
from resolver.trees.robots import Robots
from resolver.trees.scope import DEEPEST, Selection, TreeScope, mark_of, names_of, tree_of
from resolver.trees.spool import DIRECTORY, FILE, GIVEN, LINKED, READY, EntrySpool, SpooledEntry
from resolver.url import registry
from resolver.url.parsing import parse

T = TypeVar("T")

#: Files that are taken out of the spool at once.
_AT_ONCE = 100


def _ignore() -> None:
    """Nobody wants to know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkRequest:
    """A tree to be walked: the URL of its top, and the `path` where that goes, `below` a directory with which
    it begins. `depth` counts the directories on a way down, of which the top is the first. `owner` is
    whatever the caller wants to find again; `over` is called when nothing of the tree is left."""

    url: Url
    below: str
    path: str
    origin: Origin = "user"
    referrer: tuple[str, str | None] | None = None
    depth: int = DEEPEST
    selection: Selection = field(default_factory=Selection)
    owner: object = None
    over: Callable[[], object] = _ignore


class TreeTop:
    """A top, and what all below it have in common. `left` counts what is ready or under way."""

    def __init__(self, session: Resolver, top: WalkRequest) -> None:
        self.top = top
        self.scope = TreeScope.from_url(top.url)
        rules = tree_of(top.url)
        self.stays = rules is not None and rules.stays
        self.left = 0
        self.session = ConfinedSession(
            session, top.url, leads=self._judge_file, lists=self._judge, below=top.below
        )
        self.session_of_top = (
            ConfinedSession(session, top.url, leads=self._judge, lists=self._judge, below=top.below)
            if rules
            else session
        )

    def _judge(self, start: Url, target: Url) -> None:
        """Raises `Refused` (S10) for what leads out of the tree. A mirror that a person named was never in
        it."""
        if self.scope.covers(start) and not self.scope.covers(target):
            raise Refused("S10", f"the redirect leads out of the tree, to {target.shown}")

    def _judge_file(self, start: Url, target: Url) -> None:
        """The same; and `NoDocument` where a slash shows that what was taken for a file is a directory."""
        self._judge(start, target)
        if target.text.endswith("/") and not start.text.endswith("/") and names_of(start) == names_of(target):
            raise NoDocument("S10", "a redirect tells that this is a directory")


class TreeItem:
    """Something that was given out. `host` and `scheme` are for a batch; `path` is where it goes."""

    def __init__(self, walk: TreeWalk, tree: TreeTop, row: SpooledEntry) -> None:
        assert row.path is not None
        self._walk = walk
        self.tree = tree
        self.row = row
        self.path = row.path
        self.url = tree.top.url if row.parent is None else parse(row.url)
        self.host = host_key(self.url)
        self.scheme = self.url.scheme

    @property
    def lane(self) -> Hashable:
        """The directory in which a connection has to be for it, where there is such a thing."""
        if not self.tree.stays:
            return None
        is_directory = isinstance(self, TreeDirectory)
        return self.row.tree, self.row.number if is_directory or self.is_top else self.row.parent

    @property
    def owner(self) -> object:
        return self.tree.top.owner

    @property
    def is_top(self) -> bool:
        return self.row.parent is None

    @property
    def origin(self) -> Origin:
        return self.tree.top.origin if self.is_top else "derived"

    def close(self) -> None:
        """Nothing is to be asked of it."""
        self._walk.end(self)

    @contextmanager
    def _until_over(self) -> Iterator[None]:
        """What gives way to others is not over: it is begun again."""
        try:
            yield
        except Requeue:
            raise
        except BaseException:
            self._walk.end(self)
            raise
        self._walk.end(self)

    @property
    def referrer(self) -> Referrer | None:
        if not self.is_top:
            return None if self.row.referrer is None else Referrer(self.row.referrer, self.row.address)
        found_in = self.tree.top.referrer
        return None if found_in is None else Referrer(*found_in)

    async def _left_alone(self) -> Saved | None:
        """What is to be said of it where its server wants it left alone (RFC 9309); None where it may be
        asked for, as what a person typed may. Raises `TryLater`."""
        robots, top = self._walk.robots, self.tree.top
        if robots is None or self.is_top or not registry.is_of_the_web(self.scheme):
            return None
        referrer = None if top.referrer is None else Referrer(*top.referrer)
        finding = await robots.check(self.url, top.origin, referrer)
        if finding is None:
            return None
        return Saved(
            url=self.url.shown,
            requested_url=self.url.shown,
            path=None,
            bytes=0,
            resumed_from=0,
            kind=Kind(self.row.kind),
            digest=None,
            findings=(finding,),
            verified=(),
            attempts=0,
            elapsed=0.0,
            skipped=True,
        )


class TreeFile(TreeItem):
    """A file to be saved at `path`, by the `session` of its tree."""

    @property
    def session(self) -> Resolver:
        return self.tree.session_of_top if self.is_top else self.tree.session

    @property
    def listed(self) -> Validators:
        """What the listing says of it for certain."""
        said = self.row.modified
        return Validators(self.row.size, None if said is None else datetime.fromisoformat(said))

    async def fetch(self, save: Callable[[], Awaitable[T]]) -> T | Saved | None:
        """Have it saved, or left alone. None where it turned out to be a directory: that is entered, and what
        is in it comes out later. Raises what `save` does."""
        with self._until_over():
            try:
                if (left := await self._left_alone()) is not None:
                    return left
                if self._was_directory:
                    self._walk.enter(self)
                    return None
                return await save()
            except NoDocument as error:
                if self.is_top or not (self._is_open or error.rule == "S10"):
                    raise
                self._walk.enter(self)
                return None

    @property
    def _is_open(self) -> bool:
        """Does the listing leave open what it is?"""
        return self.row.kind in (Kind.LINK, Kind.UNKNOWN)

    @property
    def _was_directory(self) -> bool:
        """Of what a listing left open an earlier run made a directory; or of what a redirect told then."""
        is_certain = not (self._is_open or registry.is_of_the_web(self.scheme))
        return not (self.is_top or is_certain) and is_directory(self.path)


class TreeDirectory(TreeItem):
    """A directory to be listed."""

    session = property(lambda self: self.tree.session)
    scope = property(lambda self: self.tree.scope)
    below = property(lambda self: self.tree.top.below)
    selection = property(lambda self: self.tree.top.selection)
    inventory = property(lambda self: self._walk.inventory)
    is_dry = property(lambda self: self._walk.dry_run)
    deepest = property(lambda self: min(self.tree.top.depth, DEEPEST))

    async def run(self) -> ListedDirectory | Saved | None:
        """List it, or leave it alone; what is in it comes out behind that. None where it is a file after all,
        which comes out as one. Raises `ResolveError`; what was listed till then comes out all the same."""
        listing = DirectoryListing(self, self._walk.spool)
        with self._until_over():
            try:
                if (left := await self._left_alone()) is not None:
                    return left
                return await listing.read()
            except Declined as error:
                said_to_be = self.row.role in (DIRECTORY, LINKED)
                if listing.is_none and said_to_be:
                    self._walk.take_as_file(self, listing.media_type)
                elif said_to_be or isinstance(error, TryLater):
                    raise
                return None

    def announce(self, count: int) -> None:
        self._walk.announce(self, count)


class TreeWalk:
    """An async iterator of items, for one reader; to be closed. What `robots` forbid is left alone; what
    was listed goes to the `inventory`; of a `dry_run` no directory is made. `plant` may be called until
    `no_more`. Whoever gets an item runs or fetches it, to its end."""

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
        self._planted = 0
        self._entering = 0
        self._files: deque[SpooledEntry] = deque()
        self._ended = False
        self._changed = running().event()
        self._room = running().event()

    async def room(self, most: int) -> None:
        """Wait until there are fewer trees of which something is left."""
        while len(self._trees) >= most:
            self._room = running().event()
            await self._room.wait()

    def plant(self, top: WalkRequest) -> None:
        """A tree more. What is of a scheme without any comes out as a file. Raises `LocalError`."""
        self._planted += 1
        tree = self._trees[self._planted] = TreeTop(self._session, top)
        role = DIRECTORY if tree_of(top.url) else FILE
        kind = Kind.DOCUMENT.value
        row = SpooledEntry(
            None, self._planted, None, depth=1, role=role, raw=b"", url="", kind=kind, path=top.path
        )
        number = self.spool.add([row], READY)
        if role == DIRECTORY:
            self.spool.visit(self._planted, number, mark_of(top.url))
        tree.left = 1
        self._changed.set()

    def no_more(self) -> None:
        """All trees are planted."""
        self._ended = True
        self._changed.set()

    def close(self) -> None:
        self.spool.close()

    def __aiter__(self) -> TreeWalk:
        return self

    async def __anext__(self) -> TreeFile | TreeDirectory:
        while (found := self._take_next()) is None:
            if self._ended and not self._trees:
                raise StopAsyncIteration
            await self._changed.wait()
            self._changed = running().event()
        return found

    def at_hand(self) -> list[TreeFile]:
        """Files that would come next, without anything to wait for."""
        files = [TreeFile(self, self._trees[row.tree], row) for row in self._files]
        self._files.clear()
        return files

    def _take_next(self) -> TreeFile | TreeDirectory | None:
        if not self._files:
            self._files.extend(self.spool.take_files(_AT_ONCE))
        if self._files:
            row = self._files.popleft()
            return TreeFile(self, self._trees[row.tree], row)
        while (found := self.spool.take_directory(linked=not self._entering)) is not None:
            self._entering += found.role == DIRECTORY
            if found.role == DIRECTORY or self._is_new(found):
                return TreeDirectory(self, self._trees[found.tree], found)
            self._lower(self._trees[found.tree], found)
        return None

    def _is_new(self, row: SpooledEntry) -> bool:
        """A link leads where nobody has been? It is asked last: what is a directory has its own name."""
        assert row.number is not None
        return self.spool.visit(row.tree, row.number, *marks_of(row))

    def announce(self, item: TreeItem, count: int) -> None:
        """So many more are ready, found in this one."""
        item.tree.left += count
        self._changed.set()

    def end(self, item: TreeItem) -> None:
        """It is over."""
        self._entering -= item.row.role == DIRECTORY
        self._lower(item.tree, item.row)
        self._changed.set()

    def _lower(self, tree: TreeTop, row: SpooledEntry) -> None:
        tree.left -= 1
        if not tree.left:
            del self._trees[row.tree]
            self.spool.drop_tree(row.tree)
            self._room.set()
            tree.top.over()

    def enter(self, file: TreeFile) -> None:
        """What was taken for a file is a directory: it is entered, unless it was already, or is too deep."""
        row = file.row
        if row.depth > min(file.tree.top.depth, DEEPEST):
            return
        if row.kind == Kind.LINK:
            self.spool.add([row._replace(number=None, role=LINKED)], READY)
            self.announce(file, 1)
            return
        number = self.spool.add([row._replace(number=None, role=DIRECTORY)], GIVEN)
        if self.spool.visit(row.tree, number, *marks_of(row)):
            self.spool.set_state(number, READY)
            self.announce(file, 1)

    def take_as_file(self, directory: TreeDirectory, media_type: str | None) -> None:
        """What was taken for a directory is a document."""
        if directory.is_top and not is_index(directory.url):
            found: SpooledEntry | None = directory.row._replace(number=None, role=FILE)
        else:
            found = index_file(directory, media_type)
        if found is not None:
            self.spool.add([found], READY)
            self.announce(directory, 1)
