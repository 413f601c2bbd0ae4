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
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import closing

from resolver.files.directory import DirectoryItem, Proven, SurplusFile, SurplusWalk
from resolver.ledger.book import HEAD, is_ledger
from resolver.policy.files import META_SUFFIX, is_companion_name, name_key
from resolver.trees.spool import TemporaryDatabase

_SCHEMA = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
CREATE TABLE kept (path BLOB PRIMARY KEY, key BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE listed (path BLOB PRIMARY KEY, certain INTEGER NOT NULL, url TEXT NOT NULL) WITHOUT ROWID;
"""

#: The suffixes of the files that SQLite creates next to a database.
_SQLITE_SUFFIXES = ("-wal", "-shm", "-journal")


class Inventory(TemporaryDatabase):
    """The local paths of all entries in the listings of a run; their number is not limited."""

    def __init__(self) -> None:
        super().__init__(_SCHEMA)

    def record(self, paths: Collection[str]) -> None:
        """Record local paths of entries that the server has."""
        rows = [(_encode(path), _encode(name_key(path))) for path in paths]
        self._execute_each("INSERT OR IGNORE INTO kept VALUES (?, ?)", rows)

    def record_listing(self, path: str, listing: Proven) -> None:
        """Record the complete listing of the directory with the local path `path`."""
        insert = "INSERT OR REPLACE INTO listed VALUES (?, ?, ?)"
        self._execute(insert, _encode(path), listing.certain, listing.url)

    def find(self, path: str) -> str | None:
        """Return the recorded path of a local file, or None.

        A file system may ignore case and Unicode normalization. The name in a local directory may then differ
        from the name that the server has, and the recorded path leads to the same file.
        """
        if self._execute("SELECT 1 FROM kept WHERE path = ?", _encode(path)):
            return path
        self._execute("CREATE INDEX IF NOT EXISTS by_key ON kept (key)")
        rows = self._execute("SELECT path FROM kept WHERE key = ?", _encode(name_key(path)))
        found = (str(other, errors="surrogateescape") for (other,) in rows)
        return next((other for other in found if _is_same_file(path, other)), None)

    def find_listing(self, path: str) -> Proven | None:
        """Return the complete listing of a directory, or None if it was not recorded."""
        rows = self._execute("SELECT url, certain FROM listed WHERE path = ?", _encode(path))
        return Proven(rows[0][0], bool(rows[0][1])) if rows else None


def _is_same_file(path: str, other: str) -> bool:
    try:
        return os.path.samestat(os.lstat(path), os.lstat(other))
    except OSError:
        return False


def _encode(path: str) -> bytes:
    """Return the path in UTF-8, because a server's name may not be in the character set of the locale."""
    return path.encode(errors="surrogateescape")


class Pruner:
    """The search for surplus files in one tree, and their removal.

    Args:
        path: The local directory of the tree.
        inventory: The entries that the server has.
        takes: A function that returns whether the selection includes the file with a given name and URL.
        protected: The device and inode numbers of files that this process has open, which are never removed.
    """

    def __init__(
        self,
        path: str,
        inventory: Inventory,
        takes: Callable[[str, str], bool],
        protected: Collection[tuple[int, int]] = (),
    ) -> None:
        self._path = path
        self._inventory = inventory
        self._takes = takes
        self._protected = frozenset(protected)

    def list_surplus(self) -> Iterator[SurplusFile]:
        """Yield the surplus files and directories; the entries of a directory precede the directory."""
        with closing(SurplusWalk(self._path)) as walk:
            yield from self._list_surplus(walk, ())

    def drop(self, surplus: SurplusFile) -> bool:
        """Remove a surplus file or directory, and return whether it was removed. Raises `LocalError`."""
        with closing(SurplusWalk(self._path)) as walk:
            return walk.drop(surplus)

    def _join_path(self, *parts: str) -> str:
        return "/".join((self._path, *parts))

    def _list_surplus(self, walk: SurplusWalk, parts: tuple[str, ...]) -> Iterator[SurplusFile]:
        listed = self._inventory.find_listing(self._join_path(*parts))
        for item in walk.names(parts) or ():
            path = (*parts, item.name)
            if (recorded := self._inventory.find(self._join_path(*path))) is not None:
                if item.is_directory:
                    yield from self._list_surplus(walk, (*parts, os.path.basename(recorded)))
            elif listed is not None:
                yield from self._remove_item(walk, path, item, listed)

    def _remove_item(
        self, walk: SurplusWalk, parts: tuple[str, ...], item: DirectoryItem, listed: Proven
    ) -> Generator[SurplusFile, None, bool]:
        """Yield a surplus entry and the entries in it; return whether all of them are surplus."""
        is_recorded = self._inventory.find(self._join_path(*parts)) is not None
        if is_recorded or self._is_protected(parts, item, listed.url):
            return False  # Another tree of the same run may use this directory.
        if item.is_file and self._is_ledger_file(walk, parts):
            return False
        is_surplus = True
        if item.is_directory:
            inner_items = walk.names(parts)
            if inner_items is None:
                return False
            for inner in inner_items:
                inner_listing = listed._replace(url=f"{listed.url}{item.name}/")
                removal = self._remove_item(walk, (*parts, inner.name), inner, inner_listing)
                is_surplus &= yield from removal
        if is_surplus:
            yield SurplusFile(parts, item.is_directory, item.device, item.inode, listed)
        return is_surplus

    def _is_ledger_file(self, walk: SurplusWalk, parts: tuple[str, ...]) -> bool:
        """Return whether the file is a ledger, or a file that SQLite creates next to a ledger."""
        *directory, name = parts
        stem = next((name.removesuffix(suffix) for suffix in _SQLITE_SUFFIXES if name.endswith(suffix)), name)
        return is_ledger(walk.head((*directory, stem), HEAD))

    def _is_protected(self, parts: tuple[str, ...], item: DirectoryItem, url: str) -> bool:
        name = item.name
        if name.startswith(".") or (item.device, item.inode) in self._protected:
            return True
        if item.is_directory:
            return is_companion_name(name)
        stem = name.removesuffix(META_SUFFIX)
        if stem != name and self._inventory.find(self._join_path(*parts[:-1], stem)) is None:
            name = stem  # A sidecar is surplus if its file is surplus.
        elif is_companion_name(name):
            return True
        return not item.is_file or not self._takes(name, f"{url}{name}")
