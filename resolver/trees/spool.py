"""The spool of found entries, a temporary SQLite database, so that a large tree needs little memory.

The database file does not have a name, so other processes cannot open it. The file is deleted when the
connection is closed, so its only transaction is never committed. The entries of a small listing, and the next
entries to take, are in memory. An entry in the database has one of two states:

- `LISTED`: the entry is stored, but does not have a local name yet.
- `READY`: the entry has a local name, and waits to be taken from the spool.
"""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any, NamedTuple

from protocols.errors import LocalError
from protocols.location import Url
from resolver.policy.files import local_name, name_key, number_name
from resolver.url.parsing import parse

LISTED, READY = 0, 1

#: Maximum number of names or entries of one directory, and of ready entries of one role, in memory.
MAX_IN_MEMORY = 1_000

#: The roles of entries, in the order in which entries get local names:
#: - DIRECTORY: a directory to enter.
#: - LINKED: a link to a directory, to enter after all DIRECTORY entries.
#: - PERHAPS: an unknown kind, to enter after all LINKED entries if the server returns a listing.
#: - FILE: a file to save.
DIRECTORY, LINKED, UNDECIDED, FILE = 0, 1, 2, 3

_SCHEMA = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
CREATE TABLE entry (
    number INTEGER PRIMARY KEY, tree INTEGER NOT NULL, parent INTEGER, depth INTEGER NOT NULL,
    state INTEGER NOT NULL, role INTEGER NOT NULL, raw BLOB NOT NULL, kind TEXT NOT NULL, referrer TEXT,
    address TEXT, mark TEXT, size INTEGER, modified TEXT, path TEXT NOT NULL, above TEXT NOT NULL, url TEXT
);
CREATE INDEX listed ON entry (parent, role, raw, number) WHERE state = 0;
CREATE INDEX ready ON entry (role, number) WHERE state = 1;
CREATE TABLE visited (
    tree INTEGER, mark TEXT, number INTEGER NOT NULL, PRIMARY KEY (tree, mark)
) WITHOUT ROWID;
CREATE TABLE taken (
    parent INTEGER, key TEXT, last INTEGER NOT NULL, PRIMARY KEY (parent, key)
) WITHOUT ROWID;
"""

_COLUMNS = (
    "number, tree, parent, depth, role, raw, kind, referrer, address, mark, size, modified, path, above, url"
)

_INSERT = f"INSERT INTO entry ({_COLUMNS}, state) VALUES ({', '.join('?' * (_COLUMNS.count(',') + 2))})"


class SpooledEntry(NamedTuple):
    """An entry of a listing, as a database row.

    Attributes:
        number: The number of the entry in its spool.
        mark: The server's identifier of the entry, for loop detection.
        size: The size in bytes, if the listing contains the exact size.
        modified: The modification time, if the listing contains the exact time.
        path: The local path, after a local name was assigned.
        referrer: The URL of the listing.
        above: The digests of the listings between the top and the entry, for loop detection.
        address: The IP address of the server that sent the listing.
        url: The URL of the entry, or None for the top of a tree.
    """

    number: int
    tree: int
    parent: int | None
    depth: int
    role: int
    raw: bytes
    kind: str
    referrer: str | None = None
    address: str | None = None
    mark: str | None = None
    size: int | None = None
    modified: str | None = None
    path: str = ""
    above: str = ""
    url: Url | None = None


class TemporaryDatabase:
    """A temporary database, which the caller must close. Methods raise `LocalError` if the disk is full."""

    def __init__(self, schema: str) -> None:
        with _convert_errors():
            self._database = sqlite3.connect("", check_same_thread=False)
            self._database.executescript(schema)

    def close(self) -> None:
        self._database.close()

    def _execute(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Execute a statement, and return the rows of its result."""
        with _convert_errors():
            return self._database.execute(statement, values).fetchall()

    def _execute_each(self, statement: str, rows: Iterable[Sequence[object]]) -> None:
        with _convert_errors():
            self._database.executemany(statement, rows)


@contextmanager
def _convert_errors() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        # Without a journal, a full disk leaves the database malformed.
        words = f"cannot store the found entries in a temporary database: {error} (check the free space)"
        raise LocalError(words) from error


class EntrySpool(TemporaryDatabase):
    """The database of found entries, and the next ready entries in memory.

    `numbers` yields the numbers of new entries.
    """

    def __init__(self) -> None:
        super().__init__(_SCHEMA)
        self.numbers = count(1)
        self._ready_by_role = [deque[SpooledEntry]() for _ in range(FILE + 1)]
        self._stored_roles: set[int] = set()

    def add(self, rows: Sequence[SpooledEntry], state: int) -> None:
        """Store entries with a state in the database."""
        self._execute_each(_INSERT, [(*row[:-1], row.url and row.url.text, state) for row in rows])

    def add_ready(self, rows: Sequence[SpooledEntry]) -> None:
        """Add entries with local names. Entries beyond a limit go into the database."""
        stored = []
        for row in rows:
            ready = self._ready_by_role[row.role]
            if row.role not in self._stored_roles and len(ready) < MAX_IN_MEMORY:
                ready.append(row)
            else:
                self._stored_roles.add(row.role)
                stored.append(row)
        if stored:
            self.add(stored, READY)

    def drop_listed(self, parent: int) -> None:
        """Delete the `LISTED` entries of a directory before its listing is requested again."""
        self._execute("DELETE FROM entry WHERE parent = ? AND state = 0", parent)

    def take_listed(self, parent: int, max_count: int) -> Iterator[list[SpooledEntry]]:
        """Take the entries without local names, in the order in which names are assigned."""
        where = "state = 0 AND parent = ? ORDER BY role, raw, number LIMIT ?"
        while rows := self._take(where, parent, max_count):
            yield rows

    def drop_tree(self, tree: int) -> None:
        """Delete the identifiers of a finished tree. All its entries were taken before."""
        self._execute("DELETE FROM visited WHERE tree = ?", tree)

    def take_ready(self, role: int, max_count: int = 1) -> list[SpooledEntry]:
        """Take the next ready entries with this role from the spool."""
        ready = self._ready_by_role[role]
        if not ready and role in self._stored_roles:
            ready += self._take("state = 1 AND role = ? ORDER BY number LIMIT ?", role, MAX_IN_MEMORY)
            if not ready:
                self._stored_roles.discard(role)
        return [ready.popleft() for _ in range(min(max_count, len(ready)))]

    def take_directory(self, *, linked: bool) -> SpooledEntry | None:
        """Take the next ready directory, or with `linked` also a link or unknown entry, or return None."""
        for role in (DIRECTORY, LINKED, UNDECIDED)[: None if linked else 1]:
            for row in self.take_ready(role):
                return row
        return None

    # -- visited directories

    def visit(self, tree: int, number: int, *marks: str) -> bool:
        """Record the identifiers of an entry. Return whether all are new in the tree (loop detection)."""
        for mark in marks:
            self._execute("INSERT OR IGNORE INTO visited VALUES (?, ?, ?)", tree, mark, number)
        return all(self._visitor(tree, mark) == [(number,)] for mark in marks)

    def is_visited(self, tree: int, mark: str) -> bool:
        return bool(self._visitor(tree, mark))

    def _visitor(self, tree: int, mark: str) -> list[tuple[int]]:
        return self._execute("SELECT number FROM visited WHERE tree = ? AND mark = ?", tree, mark)

    # -- taken names

    def find_last_number(self, parent: int, key: str) -> int:
        rows = self._execute("SELECT last FROM taken WHERE parent = ? AND key = ?", parent, key)
        return int(rows[0][0]) if rows else 0

    def store_names(self, parent: int, numbers: Mapping[str, int]) -> None:
        """Store the last number that was assigned to each name key."""
        rows = [(parent, key, number) for key, number in numbers.items()]
        self._execute_each("INSERT OR REPLACE INTO taken VALUES (?, ?, ?)", rows)

    def forget_names(self, parent: int) -> None:
        self._execute("DELETE FROM taken WHERE parent = ?", parent)

    def _take(self, where: str, *values: object) -> list[SpooledEntry]:
        """Remove entries from the database, and return them."""
        rows = self._execute(f"SELECT {_COLUMNS} FROM entry WHERE {where}", *values)
        self._execute_each("DELETE FROM entry WHERE number = ?", [row[:1] for row in rows])
        return [SpooledEntry._make((*row[:-1], row[-1] and parse(row[-1]))) for row in rows]


# The local names of the entries of one directory (S14). Local names are sanitized. Two entries always get
# different local names, on every file system.
#
# Names are assigned in the byte order of the server's names, first to directories and then to files. The
# order of the listing does not matter. So another run assigns the same names if entries are neither added nor
# removed. A file system may treat several names as equal, for example names that differ only in case. Then
# the first entry gets the unchanged name, and the next entries get numbered names.


class DirectoryNames:
    """The names in use in one directory, each with its last assigned number.

    The names are in memory up to a limit, and otherwise in the database.
    """

    def __init__(self, spool: EntrySpool, parent: int) -> None:
        self._spool = spool
        self._parent = parent
        self._number_by_key: dict[str, int] = {}
        self._is_in_memory = True

    def assign(self, raw: bytes) -> str:
        """Return a local name for the server's name `raw`, and record the local name as taken.

        Raises:
            Refused: The sanitized name is empty (S14).
        """
        preferred = local_name(raw)
        key = name_key(preferred)
        number = self._find_last_number(key) + 1
        name, numbered_key = number_name(preferred, number), key
        while number > 1 and self._find_last_number(numbered_key := name_key(name)):
            number += 1
            name = number_name(preferred, number)
        if numbered_key != key:
            self._reserve(numbered_key, 1)
        self._reserve(key, number)
        return name

    def _find_last_number(self, key: str) -> int:
        number = self._number_by_key.get(key, 0)
        return number if number or self._is_in_memory else self._spool.find_last_number(self._parent, key)

    def _reserve(self, key: str, number: int) -> None:
        self._number_by_key[key] = number
        if len(self._number_by_key) == MAX_IN_MEMORY:
            self._spool.store_names(self._parent, self._number_by_key)
            self._is_in_memory = False
            self._number_by_key = {}

    def forget(self) -> None:
        """Delete the names in the database."""
        if not self._is_in_memory:
            self._spool.forget_names(self._parent)


class SpooledArticle(NamedTuple):
    """The number and the URL of an article."""

    number: int
    url: Url


class ArticleSpool(TemporaryDatabase):
    """The articles for a mailbox."""

    def __init__(self) -> None:
        super().__init__("CREATE TABLE article (number INTEGER PRIMARY KEY, url TEXT NOT NULL)")

    def add(self, number: int, url: str) -> None:
        """Store an article. An article with the same number is replaced."""
        self._execute("REPLACE INTO article VALUES (?, ?)", number, url)

    def read_after(self, number: int, max_count: int) -> list[SpooledArticle]:
        """Return the articles with the next numbers, at most `max_count`, in the order of their numbers."""
        query = "SELECT number, url FROM article WHERE number > ? ORDER BY number LIMIT ?"
        rows = self._execute(query, number, max_count)
        return [SpooledArticle(number, parse(url)) for number, url in rows]
