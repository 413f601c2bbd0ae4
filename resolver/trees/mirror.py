"""Removal of surplus files from a local mirror (`--delete`): local files that the server no longer has.

Files are removed only from a directory with a listing that is proven to be complete (`Proven`) and is not
empty. An empty listing is not sufficient, because servers may list an unreadable directory as empty. These
local files are never removed:

- files with a name that begins with a dot, because servers omit them from listings;
- files that the user's patterns exclude;
- symlinks, and other entries that are not regular files or directories;
- partial files, and other temporary files that a transfer creates (only a sidecar is removed, together with
  its surplus file);
- ledgers.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import closing

from resolver.files.directory import DirectoryItem, Proven, SurplusFile, SurplusWalk
from resolver.ledger.book import HEAD, is_ledger
from resolver.policy.files import META_SUFFIX, is_companion_name
from resolver.trees.spool import faults

_SCHEMA = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
CREATE TABLE kept (path BLOB PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE listed (path BLOB PRIMARY KEY, certain INTEGER NOT NULL, url TEXT NOT NULL) WITHOUT ROWID;
"""

#: The suffixes of the files that SQLite creates next to a database.
_OF_SQLITE = ("-wal", "-shm", "-journal")


class Inventory:
    """The local paths of all entries in the listings of a run; the caller must close the inventory.

    The paths are stored in a temporary database, because their number is not limited. Methods raise
    `LocalError` if the disk is full.
    """

    def __init__(self) -> None:
        with faults():
            self._database = sqlite3.connect("", check_same_thread=False)
            self._database.executescript(_SCHEMA)

    def close(self) -> None:
        self._database.close()

    def keep(self, paths: Collection[str]) -> None:
        """Record local paths of entries that the server has."""
        values = [(os.fsencode(path),) for path in paths]
        with faults():
            self._database.executemany("INSERT OR IGNORE INTO kept VALUES (?)", values)

    def list_whole(self, path: str, listing: Proven) -> None:
        """Record the complete listing of the directory with the local path `path`."""
        values = (os.fsencode(path), listing.certain, listing.url)
        with faults():
            self._database.execute("INSERT OR REPLACE INTO listed VALUES (?, ?, ?)", values)

    def has(self, path: str) -> bool:
        return self._find("SELECT 1 FROM kept WHERE path = ?", path) is not None

    def find_listing(self, path: str) -> Proven | None:
        """Return the complete listing of a directory, or None if it was not recorded."""
        found = self._find("SELECT url, certain FROM listed WHERE path = ?", path)
        return None if found is None else Proven(str(found[0]), bool(found[1]))

    def _find(self, statement: str, path: str) -> tuple[object, ...] | None:
        with faults():
            found: tuple[object, ...] | None = self._database.execute(
                statement, (os.fsencode(path),)
            ).fetchone()
        return found


class Pruner:
    """The search for surplus files in one tree, and their removal.

    Args:
        path: The local directory of the tree.
        inventory: The entries that the server has.
        takes: A function that returns whether the selection includes the file with a given name and URL.
        spared: The device and inode numbers of files that this process has open, which are never removed.
    """

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
        """Yield the surplus files and directories; the entries of a directory precede the directory."""
        with closing(SurplusWalk(self._path)) as below:
            yield from self._list_surplus(below, ())

    def drop(self, each: SurplusFile) -> bool:
        """Remove a surplus file or directory, and return whether it was removed. Raises `LocalError`."""
        with closing(SurplusWalk(self._path)) as below:
            return below.drop(each)

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
                yield from self._remove_item(below, here, found, listed)

    def _remove_item(
        self, below: SurplusWalk, parts: tuple[str, ...], found: DirectoryItem, listed: Proven
    ) -> Generator[SurplusFile, None, bool]:
        """Yield a surplus entry and the entries in it; return whether all of them are surplus."""
        if self._inventory.has(self._join_path(*parts)) or self._stays(parts, found, listed.url):
            return False  # Another tree of the same run may use this directory.
        if found.is_file and self._is_account(below, parts):
            return False
        goes = True
        if found.is_directory:
            inside = below.names(parts)
            if inside is None:
                return False
            for each in inside:
                here = listed._replace(url=f"{listed.url}{found.name}/")
                within = self._remove_item(below, (*parts, each.name), each, here)
                goes &= yield from within
        if goes:
            yield SurplusFile(parts, found.is_directory, found.device, found.inode, listed)
        return goes

    def _is_account(self, below: SurplusWalk, parts: tuple[str, ...]) -> bool:
        """Return whether the file is a ledger, or a file that SQLite creates next to a ledger."""
        *above, name = parts
        stem = next((name.removesuffix(each) for each in _OF_SQLITE if name.endswith(each)), name)
        return is_ledger(below.head((*above, stem), HEAD))

    def _stays(self, parts: tuple[str, ...], found: DirectoryItem, url: str) -> bool:
        name = found.name
        if name.startswith(".") or (found.device, found.inode) in self._spared:
            return True
        if found.is_directory:
            return is_companion_name(name)
        stem = name.removesuffix(META_SUFFIX)
        if stem != name and not self._inventory.has(self._join_path(*parts[:-1], stem)):
            name = stem  # A sidecar is surplus if its file is surplus.
        elif is_companion_name(name):
            return True
        return not found.is_file or not self._takes(name, f"{url}{name}")
