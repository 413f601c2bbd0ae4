"""Surplus of a local tree, which its source no longer has: files that `--delete` removes or leaves.

Nothing follows from what was not listed. Only of directories whose listing is `Proven`, and not empty,
anything goes, for an empty one is also what servers give of a directory that they may not read. And what no
listing can be believed about stays: names that begin with a dot, which servers leave out; what the person's
patterns leave out; links, and all that is no regular file; what is kept beside files that are not complete;
ledgers.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import closing
from typing import NamedTuple

from resolver.files.directory import DirectoryItem, SurplusWalk
from resolver.ledger.book import HEAD, is_ledger
from resolver.policy.files import META_SUFFIX, is_kept_beside
from resolver.trees.spool import faults

_SCHEMA = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
CREATE TABLE kept (path BLOB PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE listed (path BLOB PRIMARY KEY, certain INTEGER NOT NULL, url TEXT NOT NULL) WITHOUT ROWID;
"""

#: What the names of files end in that SQLite has beside a database.
_OF_SQLITE = ("-wal", "-shm", "-journal")


class SurplusFile(NamedTuple):
    """Something that goes: the names that lead to it, and the numbers by which it is known again. Not
    `certain`: listings of its source leave things out."""

    parts: tuple[str, ...]
    is_directory: bool
    certain: bool
    device: int
    inode: int

    @property
    def path(self) -> str:
        return "/".join(self.parts) + "/" * self.is_directory


class Proven:
    """A listing that was read to an end that its protocol shows: a terminator, a length, a final reply, or
    close_notify. The end of a connection alone shows nothing, for anybody on the way can bring that about."""

    __slots__ = ("proofs",)

    def __init__(self, proofs: tuple[str, ...]) -> None:
        if not proofs:
            raise ValueError("a listing is proven by at least one of the words of `verified`")
        self.proofs = proofs


class Inventory:
    """What the listings of trees had, by the paths here; in a temporary database, for there may be many. To
    be closed. Raises `LocalError` where that does not work: a full disk."""

    def __init__(self) -> None:
        with faults():
            self._database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
            self._database.executescript(_SCHEMA)

    def close(self) -> None:
        self._database.close()

    def keep(self, paths: Collection[str]) -> None:
        """The source has these."""
        values = [(os.fsencode(path),) for path in paths]
        with faults():
            self._database.execute("BEGIN")
            self._database.executemany("INSERT OR IGNORE INTO kept VALUES (?)", values)
            self._database.execute("COMMIT")

    def list_whole(self, path: str, url: str, proven: Proven, *, certain: bool) -> None:
        """All that is in this directory is known, by a listing that is `proven`; `certain` where a listing
        there has all that there is."""
        values = (os.fsencode(path), certain, url)
        with faults():
            self._database.execute("INSERT OR REPLACE INTO listed VALUES (?, ?, ?)", values)

    def has(self, path: str) -> bool:
        return self._find("SELECT 1 FROM kept WHERE path = ?", path) is not None

    def find_listing(self, path: str) -> tuple[bool, str] | None:
        """Is it certain what is in this directory, and its URL; None where nothing is known."""
        found = self._find("SELECT certain, url FROM listed WHERE path = ?", path)
        return None if found is None else (bool(found[0]), str(found[1]))

    def _find(self, statement: str, path: str) -> tuple[object, ...] | None:
        with faults():
            found: tuple[object, ...] | None = self._database.execute(
                statement, (os.fsencode(path),)
            ).fetchone()
        return found


class Pruner:
    """One tree. `takes` says whether a file of that name, below that URL, is one of those that are wanted;
    `spared` are the numbers of files that are nobody's to remove: our own that are open."""

    def __init__(
        self,
        path: str,
        inventory: Inventory,
        takes: Callable[[str, str], bool],
        spared: Collection[tuple[int, int]] = (),
    ) -> None:
        self._path = path
        self._inventory = inventory
        self._takes = takes
        self._spared = frozenset(spared)

    def list_surplus(self) -> Iterator[SurplusFile]:
        """What goes, the things in a directory before it."""
        with closing(SurplusWalk(self._path)) as below:
            yield from self._list_surplus(below, ())

    def drop(self, each: SurplusFile) -> bool:
        """Is it gone? Raises `LocalError` where it cannot be removed."""
        with closing(SurplusWalk(self._path)) as below:
            return below.drop(each.parts, each.device, each.inode)

    def _join_path(self, *parts: str) -> str:
        return "/".join((self._path, *parts))

    def _list_surplus(self, below: SurplusWalk, parts: tuple[str, ...]) -> Iterator[SurplusFile]:
        listed = self._inventory.find_listing(self._join_path(*parts))
        for found in below.names(parts) or ():
            here = (*parts, found.name)
            if self._inventory.has(self._join_path(*here)):
                if found.is_directory:
                    yield from self._list_surplus(below, here)
            elif listed is not None:
                certain, url = listed
                yield from self._remove_item(below, here, found, certain, url)

    def _remove_item(
        self, below: SurplusWalk, parts: tuple[str, ...], found: DirectoryItem, certain: bool, url: str
    ) -> Generator[SurplusFile, None, bool]:
        """A thing that the source has not, and all in it. Does all of it go?"""
        if self._inventory.has(self._join_path(*parts)) or self._stays(parts, found, url):
            return False  # another tree of the run may be in this one
        if found.is_file and self._is_account(below, parts):
            return False
        goes = True
        if found.is_directory:
            inside = below.names(parts)
            if inside is None:
                return False
            for each in inside:
                within = self._remove_item(below, (*parts, each.name), each, certain, f"{url}{found.name}/")
                goes &= yield from within
        if goes:
            yield SurplusFile(parts, found.is_directory, certain, found.device, found.inode)
        return goes

    def _is_account(self, below: SurplusWalk, parts: tuple[str, ...]) -> bool:
        """Is it a ledger, or what SQLite keeps beside one?"""
        *above, name = parts
        stem = next((name.removesuffix(each) for each in _OF_SQLITE if name.endswith(each)), name)
        return is_ledger(below.head((*above, stem), HEAD))

    def _stays(self, parts: tuple[str, ...], found: DirectoryItem, url: str) -> bool:
        name = found.name
        if name.startswith(".") or (found.device, found.inode) in self._spared:
            return True
        if found.is_directory:
            return is_kept_beside(name)
        stem = name.removesuffix(META_SUFFIX)
        if stem != name and not self._inventory.has(self._join_path(*parts[:-1], stem)):
            name = stem  # it goes with what it tells of
        elif is_kept_beside(name):
            return True
        return not found.is_file or not self._takes(name, f"{url}{name}")
