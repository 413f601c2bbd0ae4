"""The ledger of one run, which writes it: an SQLite file.

A row is of one URL at one place; its key is a digest of both. No password is in the file, and no digest of
one, at which anybody could guess: the URL is kept as it is shown, and URLs that differ in nothing but a
password are one object.

The steps have an order, so that a run may be killed before each of them, and the machine lose its power:

1. a row is `queued` before anybody works on it;
2. NAME.part is whole and on the disk, then its row, as `whole`, with size, digest and inode;
3. the file gets its name (`resolver.disk.part`);
4. its directory is brought to the disk, and the row is `done`, many of them at once.

What was killed before 2 is gone on with as any other. Behind it the next run does 3, or finds it done, by
inode and size; and it believes no row without its file.

There is one writer, by a lock of the file. Who reads needs none.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from types import TracebackType
from typing import Any, Literal, TypeAlias

from protocols.errors import ResolveError
from protocols.values import NamedTuple
from resolver.disk.ledger_file import LedgerFile
from resolver.disk.whole import finish, has_size, is_that, sync_directories
from resolver.ledger import CompletedFile, LedgerFault
from resolver.ledger.database import (
    TABLES,
    add_columns,
    check_is_ours,
    connect,
    faults_of,
    kept,
    number_of,
    shown,
)
from resolver.loops import Loop, running

#: Rows that wait at most until they are written.
_AT_ONCE = 256

#: Octets of a message that are kept.
_MOST_MESSAGE = 1_000

Status: TypeAlias = Literal["queued", "whole", "done", "skipped", "failed", "refused"]


class RequestRow(NamedTuple):
    """What is asked for: `url` as it is shown, `given` as it was given, less its password; `place` is where
    it is to go, or the directory where the server may choose the name; `more` in JSON is what else a
    list said of it."""

    url: str
    place: str
    given: str
    origin: str = "user"
    referrer: tuple[str, str | None] | None = None
    without_password: bool = False
    more: str | None = None
    how: str | None = None
    below: str | None = None

    @property
    def key(self) -> bytes:
        text = f"{self.url}\0{self.place}".encode("utf-8", "surrogatepass")
        return hashlib.blake2b(text, digest_size=16).digest()


class StoredRow(NamedTuple):
    """A row as it is in the file."""

    number: int
    key: bytes
    url: str
    status: str
    how: str | None
    path: str
    size: int
    digest: str | None


class RowTag(NamedTuple):
    """By what a file that was saved is known again."""

    etag: str | None = None
    inode: int | None = None
    modified: float | None = None


NO_TAG = RowTag()


class LedgerEntry:
    """A `Row`, as long as somebody works on it. `is_done`: an earlier run had it, and its file is there."""

    def __init__(
        self,
        ledger: Ledger,
        number: int,
        path: str = "",
        size: int = 0,
        digest: str | None = None,
        tag: RowTag = NO_TAG,
        *,
        is_done: bool = False,
    ):
        self._ledger = ledger
        self._tag = tag
        self.number = number
        self.path = path
        self.size = size
        self.digest = digest
        self.is_done = is_done

    async def whole(self, facts: CompletedFile) -> None:
        """All of it is there; it is on the disk when this returns. Raises `LedgerFault`."""
        modified = None if facts.known.modified is None else facts.known.modified.timestamp()
        place = self._ledger.place_of(facts.path)
        values = (kept(place), facts.inode, facts.size, _digest(facts.digest), kept(facts.known.etag))
        more = (modified, kept(facts.final_url), kept(facts.media_type))
        change = (
            "status='whole', path=?, inode=?, size=?, digest=?, etag=?, modified=?, final_url=?, media_type=?"
        )
        await self._ledger.write(
            _Change(f"{change}, exit=NULL, error=NULL, message=NULL", (*values, *more), self.number)
        )

    def etag_of(self, path: str, modified: datetime | None) -> str | None:
        """See `Row`."""
        tag, saved = self._tag, self._tag.modified
        at = None if modified is None else int(modified.timestamp())
        same = (
            tag.inode is not None
            and os.path.abspath(path) == self.path
            and (saved is None or int(saved) == at)
        )
        return tag.etag if same and is_that(path, tag.inode or 0, self.size) else None

    async def done(self, path: str | None, size: int, brought: int, attempts: int, *, skipped: bool) -> None:
        """It has its name; or a file that was there stays. Raises `LedgerFault`."""
        change = (
            "status=?, path=?, size=?, brought=brought+?, attempts=attempts+?, ended=?, exit=0, error=NULL"
        )
        place = None if path is None else self._ledger.place_of(path)
        status = "skipped" if skipped else "done"
        values = (status, kept(place), size, brought, attempts, _now())
        await self._ledger.write_later(_Change(f"{change}, message=NULL", values, self.number, path))

    async def forget(self) -> None:
        """It is nothing that anybody waits for. Raises `LedgerFault`."""
        await self._ledger.forget(self.number)

    async def failed(self, error: ResolveError, kind: str, *, refused: bool) -> None:
        """Nothing came of it. Raises `LedgerFault`."""
        change = "status=?, attempts=attempts+?, ended=?, exit=?, error=?, message=?"
        status, message = "refused" if refused else "failed", error.message[:_MOST_MESSAGE]
        attempts = 0 if refused else error.attempts
        values = (status, attempts, _now(), error.exit_code, kind, kept(message))
        await self._ledger.write_later(_Change(change, values, self.number))


class _Change(NamedTuple):
    """`path` is of a file that has got its name."""

    assignments: str
    values: tuple[Any, ...]
    number: int
    path: str | None = None


class Ledger:
    """The ledger of a run: an async context manager, which nobody else writes meanwhile. Entering raises
    `LedgerFault` for a file that is none, or another run's, or cannot be written. With `sidecars` files get
    one each. With `below` its rows have the paths of files as they are from there, and mean the same wherever
    both have been moved; `elsewhere` says that what was done is kept in another place, and counts without its
    file."""

    def __init__(
        self, path: str, *, sidecars: bool = False, below: str | None = None, elsewhere: bool = False
    ) -> None:
        self._file = LedgerFile(path)
        self._sidecars = sidecars
        self._below = below
        self._elsewhere = elsewhere
        self._mutex = threading.Lock()
        self._later: list[_Change] = []
        self._asked = 0
        self._written = 0

    async def __aenter__(self) -> Ledger:
        self._loop: Loop = running()
        self._turn = self._loop.lock()
        await self._loop.in_thread(self._open)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._write_all(durable=True)  # here, where no cancel gets in its way
        except LedgerFault:
            if kind is None:
                raise
        finally:
            self._connection.close()
            self._file.close()

    def _open(self) -> None:
        with faults_of(self._file.path):
            self._file.take()
            try:
                self._connection = connect(self._file.path)
                self._prepare()
            except BaseException:
                self._file.close()
                raise

    def _prepare(self) -> None:
        try:
            if not check_is_ours(self._connection, self._file.path):
                self._connection.executescript(TABLES)
            add_columns(self._connection)
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=NORMAL")
            begin = "INSERT INTO run(begun, ended) VALUES (?, ?)"
            self._run = self._connection.execute(begin, (_now(), _now())).lastrowid
            self._connection.set_progress_handler(None, 0)  # rows are found by their keys, as long as it runs
        except BaseException:
            self._connection.close()
            raise

    def admit(self, asked: Iterable[RequestRow]) -> list[LedgerEntry]:
        """A row for each, in one step; what is known of it. For the thread that reads the list. Raises
        `LedgerFault`."""
        with self._transaction():
            return [self._admitted(each) for each in asked]

    def place_of(self, path: str) -> str:
        """The path as a row has it: one that means the same wherever another run is."""
        absolute = os.path.abspath(path)
        return absolute if self._below is None else os.path.relpath(absolute, os.path.abspath(self._below))

    def has(self, url: str, place: str) -> bool:
        """Did this URL, as it is shown, have this place before? Raises `LedgerFault`."""
        with self._mutex, faults_of(self._file.path):
            key = (RequestRow(url, place, url).key,)
            return self._connection.execute("SELECT 1 FROM object WHERE key=?", key).fetchone() is not None

    def rows_behind(self, number: int, most: int) -> list[StoredRow]:
        """So many rows, in the order in which they were asked for. Raises `LedgerFault`."""
        select = (
            "SELECT id, key, url, status, how, path, size, digest FROM object WHERE id>? ORDER BY id LIMIT ?"
        )
        with self._mutex, faults_of(self._file.path):
            rows = self._connection.execute(select, (number, most)).fetchall()
        return [
            StoredRow(
                each, key, shown(url) or "", status, how, shown(path) or "", number_of(size), shown(digest)
            )
            for each, key, url, status, how, path, size, digest in rows
        ]

    def _admitted(self, asked: RequestRow) -> LedgerEntry:
        columns = "id, status, path, size, digest, how, etag, inode, modified"
        select = f"SELECT {columns} FROM object WHERE key=?"
        row = self._connection.execute(select, (asked.key,)).fetchone()
        if row is None:
            return LedgerEntry(self, self._insert(asked))
        number, status, stored, size, digest, how, etag, inode, modified = row
        if how is None and asked.how is not None:
            self._connection.execute("UPDATE object SET how=? WHERE id=?", (asked.how, number))
        path = os.path.join(self._below or "", shown(stored) or "")
        size, inode = number_of(size), number_of(inode)
        is_done = status == "done" and (self._elsewhere or has_size(path, size))
        if status == "whole" and finish(
            path, asked.url, inode=inode, size=size, sidecar=self._sidecars, below=asked.below
        ):
            change = (
                "UPDATE object SET status='done', attempts=attempts+1, brought=brought+size, ended=?, exit=0"
            )
            sync_directories([path])
            self._connection.execute(f"{change} WHERE id=?", (_now(), number))
            is_done = True
        tag = RowTag(shown(etag), inode or None, modified if isinstance(modified, float) else None)
        return LedgerEntry(self, number, path, size, shown(digest), tag, is_done=is_done)

    def _insert(self, asked: RequestRow) -> int:
        referrer = None if asked.referrer is None else json.dumps(asked.referrer)
        values = (
            asked.key,
            kept(asked.given),
            asked.origin,
            referrer,
            asked.without_password,
            _now(),
            asked.more,
            asked.how,
        )
        columns = "key, url, origin, referrer, without_password, asked, more, how, status"
        insert = f"INSERT INTO object({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'queued')"
        number = self._connection.execute(insert, values).lastrowid
        assert number is not None
        return number

    async def forget(self, number: int) -> None:
        """There is no such row."""
        await self._loop.in_thread(self._forget, number)

    def _forget(self, number: int) -> None:
        with self._transaction():
            self._connection.execute("DELETE FROM object WHERE id=?", (number,))

    async def write(self, change: _Change) -> None:
        """Together with all that waits; it is on the disk when this returns."""
        self._later.append(change)
        self._asked += 1
        place = self._asked
        async with self._turn:
            if self._written < place:  # whoever had the turn before has written all that there was
                await self._loop.in_thread(partial(self._write_all, durable=True))

    async def write_later(self, change: _Change) -> None:
        """Soon, together with others."""
        self._later.append(change)
        if len(self._later) >= _AT_ONCE:
            async with self._turn:
                await self._loop.in_thread(partial(self._write_all, durable=False))

    async def settle(self) -> None:
        """Nothing waits any longer. Raises `LedgerFault`."""
        async with self._turn:
            await self._loop.in_thread(partial(self._write_all, durable=False))

    def _write_all(self, *, durable: bool) -> None:
        asked, changes = self._asked, self._later
        self._later = []
        try:
            sync_directories({change.path for change in changes if change.path is not None})
            with self._transaction(durable=durable):
                for change in changes:
                    update = f"UPDATE object SET {change.assignments} WHERE id=?"
                    self._connection.execute(update, (*change.values, change.number))
                self._connection.execute("UPDATE run SET ended=? WHERE id=?", (_now(), self._run))
        except BaseException:
            self._later = [*changes, *self._later]
            raise
        self._written = asked

    @contextmanager
    def _transaction(self, *, durable: bool = False) -> Iterator[None]:
        """All or nothing. What is `durable` outlives a loss of power, all else the end of the process."""
        with self._mutex, faults_of(self._file.path):
            self._file.check_there()
            self._connection.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
            self._connection.execute("BEGIN")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
                raise


def _digest(text: str | None) -> str | None:
    return None if text is None else f"sha256:{text}"


def _now() -> float:
    return datetime.now(UTC).timestamp()
