"""Requests that wait, by their hosts: in a temporary database, so that memory does not grow with them.

The file has no name, is nobody else's, and is gone with the connection. A request stands in it until it was
begun: what a worker has in hand is still there, and is given back by nothing being done.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from protocols.errors import LocalError
from protocols.values import NamedTuple
from resolver.bulk.item import BulkRequest

#: Requests that are put down together, and hosts whose numbers are held in memory.
_TOGETHER = 1_000
_MOST_HELD = 20_000

_SCHEMA = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA cache_size = -16384;
CREATE TABLE item (number INTEGER PRIMARY KEY, host INTEGER NOT NULL, url TEXT, path TEXT, more TEXT);
CREATE TABLE host (number INTEGER PRIMARY KEY, name TEXT NOT NULL, partition INTEGER NOT NULL);
CREATE UNIQUE INDEX named ON host (name, partition);
BEGIN;
"""


class NumberedRequest(NamedTuple):
    """A request and its place among all."""

    number: int
    item: BulkRequest


class PendingRequests:
    """Raises `LocalError` where the database does not work: a full disk. It is for one thread at a time."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, int], int] = {}
        self._new: list[tuple[int, str, str, str | None]] = []
        self._is_in_order = False
        with _faults():
            self._database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
            self._database.executescript(_SCHEMA)

    def close(self) -> None:
        self._database.close()

    # -- hosts

    def host(self, name: str, partition: int) -> int | None:
        """Its number; None for one that is new."""
        found = self._held.get((name, partition))
        if found is None:
            query = "SELECT number FROM host WHERE name = ? AND partition = ?"
            with _faults():
                row = self._database.execute(query, (name, partition)).fetchone()
            if row is None:
                return None
            found = self._hold(name, partition, int(row[0]))
        return found

    def add_host(self, number: int, name: str, partition: int) -> None:
        with _faults():
            self._database.execute("INSERT INTO host VALUES (?, ?, ?)", (number, name, partition))
        self._hold(name, partition, number)

    def name(self, host: int) -> str:
        with _faults():
            [name] = self._database.execute("SELECT name FROM host WHERE number = ?", (host,)).fetchone()
        return str(name)

    def _hold(self, name: str, partition: int, number: int) -> int:
        if len(self._held) >= _MOST_HELD:
            self._held.clear()
        self._held[name, partition] = number
        return number

    # -- requests

    def add(self, host: int, item: BulkRequest) -> None:
        more = None if item.more is None else json.dumps(dict(item.more))
        self._new.append((host, item.url, item.path, more))
        if len(self._new) >= _TOGETHER:
            self._put_down()

    def _put_down(self) -> None:
        insert = "INSERT INTO item (host, url, path, more) VALUES (?, ?, ?, ?)"
        with _faults():
            self._database.executemany(insert, self._new)
        self._new.clear()

    def first(self, host: int, count: int) -> list[NumberedRequest]:
        """The first that wait of it, in the order in which they came."""
        self._put_in_order()
        query = "SELECT number, url, path, more FROM item WHERE host = ? ORDER BY number LIMIT ?"
        with _faults():
            rows = self._database.execute(query, (host, count)).fetchall()
        return [
            NumberedRequest(number, BulkRequest(url, path, None if more is None else json.loads(more)))
            for number, url, path, more in rows
        ]

    def _put_in_order(self) -> None:
        """All that came, by hosts: made once, where it costs a tenth of what it costs with each request."""
        if self._new:
            self._put_down()
        if not self._is_in_order:
            with _faults():
                self._database.execute("CREATE INDEX turn ON item (host, number)")
            self._is_in_order = True

    def forget(self, numbers: Iterable[int]) -> None:
        """They were begun."""
        with _faults():
            self._database.executemany("DELETE FROM item WHERE number = ?", ((each,) for each in numbers))


@contextmanager
def _faults() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise LocalError(f"what is to be fetched cannot be kept in a temporary database: {error}") from error
