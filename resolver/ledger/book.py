"""The ledger of a run, an SQLite file: a row for each URL and its place, valid after a kill or a crash.

The key of a row is a digest of URL and place. The file holds no password, and no digest of one, which could
be guessed: the URL is stored as it is shown, and URLs that differ in nothing but a password are one object.

The order of the steps allows a run to be killed before each of them, and the machine to lose its power:

1. a row is `queued` before work on it begins;
2. NAME.part is complete and on the disk, then its row, as `whole`, with size, digest and inode;
3. the file gets its name (`resolver.files.part`);
4. its directory is synced to the disk, and the row is `done`, many of them in one transaction.

A file that was interrupted before 2 is resumed like any other. After 2 the next run does 3, or finds it done,
by inode and size; and it trusts no row without its file.

There is one writer, by a lock of the file. Readers need no lock.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from types import TracebackType
from typing import Any, Literal, NamedTuple, TypeAlias

from protocols.errors import LocalError, ResolveError
from resolver.files.atomic import HeldByAnother, LedgerFile
from resolver.files.partial_file import finish, has_size, is_that, sync_directories
from resolver.ledger import CompletedFile, LedgerFault, LedgerHeld
from resolver.loops import Loop, running

#: Marks the file as ours among SQLite's: "rslv".
_OURS = 0x72736C76
_VERSION = 1

#: Octets of a file that tell a ledger.
HEAD = 72

TABLES = f"""
BEGIN;
CREATE TABLE object (
    id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, url NOT NULL, origin TEXT NOT NULL, referrer, more,
    without_password INTEGER NOT NULL, status TEXT NOT NULL, path, size INTEGER, digest TEXT, inode INTEGER,
    etag, modified REAL, brought INTEGER NOT NULL DEFAULT 0, attempts INTEGER NOT NULL DEFAULT 0,
    exit INTEGER, error TEXT, message, asked REAL NOT NULL, ended REAL, how TEXT,
    final_url, media_type);
CREATE TABLE run (id INTEGER PRIMARY KEY, begun REAL NOT NULL, ended REAL NOT NULL);
PRAGMA application_id = {_OURS};
PRAGMA user_version = {_VERSION};
COMMIT;
"""

#: What the first ledgers had not.
_ADDED = (("how", "TEXT"), ("final_url", ""), ("media_type", ""))

#: Steps of SQLite's machine between two looks at how many there were; how many a ledger may take, and how
#: many more for each octet of it. To count all rows takes two steps an octet. Pages of a damaged file may
#: lead to one another, so that 50 kB of them have billions of rows.
_STEPS = 10_000
_SPARE_STEPS, _STEPS_OF_OCTET = 1_000_000, 10

#: Seconds to wait for another program that has it locked.
PATIENCE = 5.0


def connect(path: str, *, how: str = "mode=rw") -> sqlite3.Connection:
    """A connection that begins and ends its transactions where it is told to. What it does is bounded by the
    size of the file; what the schema says is not run."""
    quoted = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    connection = sqlite3.connect(
        f"file:{quoted}?{how}", uri=True, isolation_level=None, check_same_thread=False, timeout=PATIENCE
    )
    taken = 0

    def has_had_enough() -> bool:
        nonlocal taken
        taken += _STEPS
        size = 0
        for each in (path, f"{path}-wal"):
            with suppress(OSError):
                size += os.stat(each).st_size
        return taken > _SPARE_STEPS + _STEPS_OF_OCTET * size

    connection.set_progress_handler(has_had_enough, _STEPS)
    connection.execute("PRAGMA trusted_schema=OFF")
    return connection


def check_is_ours(connection: sqlite3.Connection, path: str) -> bool:
    """False where it is empty. Raises `LedgerFault` for what another program, or a later one, has made."""
    ours = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if ours == _OURS and version == _VERSION:
        _check_schema(connection, path)
        return True
    if ours == _OURS:
        raise LedgerFault(
            f"the ledger {path!r} is of a later version of this program: use that, or another file"
        )
    if ours or version or connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        raise LedgerFault(
            f"{path!r} is a database of another program, and is left as it is: name another file"
        )
    return False


def _check_schema(connection: sqlite3.Connection, path: str) -> None:
    """What else is in a schema (views, triggers, columns that are computed) runs what whoever made the file
    wrote. Indexes that SQLite makes by itself have no text."""
    found = connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL LIMIT 3").fetchall()
    tables = re.findall(r"CREATE TABLE .*?\);", TABLES, re.DOTALL)
    if sorted(_table(str(sql)) for (sql,) in found) != sorted(map(_table, tables)):
        raise LedgerFault(
            f"{path!r} has tables, views or triggers that no run has made, and is left as it is: name another"
            " file"
        )


def _table(sql: str) -> tuple[str, list[str]]:
    """How a statement begins that makes a table, and its columns, less those that some ledgers have not."""
    head, _, columns = " ".join(sql.split()).removesuffix(";").removesuffix(")").partition("(")
    added = [f"{name} {kind}".strip() for name, kind in _ADDED]
    return head.strip(), [each.strip() for each in columns.split(",") if each.strip() not in added]


def is_ledger(head: bytes) -> bool:
    """Is the file one that begins with these octets? (SQLite's file format, 1.3: the text, and the mark at
    octet 68.)"""
    return head.startswith(b"SQLite format 3\0") and head[68:HEAD] == _OURS.to_bytes(4, "big")


def add_columns(connection: sqlite3.Connection) -> None:
    """A ledger that is older than these gets them."""
    there = {name for _, name, *_ in connection.execute("PRAGMA table_info(object)")}
    for name, kind in _ADDED:
        if name not in there:
            connection.execute(f"ALTER TABLE object ADD COLUMN {name} {kind}")


@contextmanager
def faults_of(path: str) -> Iterator[None]:
    """What SQLite says of the ledger becomes a `LedgerFault` that says what to do."""
    try:
        yield
    except LedgerFault:
        raise
    except sqlite3.Error as error:
        raise LedgerFault(_words(path, error)) from error
    except (LocalError, OSError) as error:
        kind = LedgerHeld if isinstance(error, HeldByAnother) else LedgerFault
        raise kind(error.message if isinstance(error, LocalError) else str(error)) from error


#: How names of SQLite's errors begin, what they mean here, and what to do.
_WORDS = (
    ("SQLITE_NOTADB", "is no ledger, and is left as it is: name another file"),
    (
        "SQLITE_CORRUPT",
        "is damaged: move it away; the same command with a new one and --exists skip keeps what is whole",
    ),
    ("SQLITE_INTERRUPT", "takes more work than its size explains, so it is damaged: name another file"),
    ("SQLITE_BUSY", "is locked by another program: wait for that, or name another file"),
    ("SQLITE_READONLY", "cannot be written: choose a place that you may write to"),
    ("SQLITE_PERM", "cannot be written: choose a place that you may write to"),
    ("SQLITE_CANTOPEN", "cannot be opened: it and its directory have to be ones that you may write to"),
    ("SQLITE_FULL", "cannot be written: no space left; free some, and the same command goes on"),
    ("SQLITE_IOERR", "cannot be read or written; is there space left? The same command goes on then"),
)


def _words(path: str, error: sqlite3.Error) -> str:
    name = getattr(error, "sqlite_errorname", "")
    said = next((words for begin, words in _WORDS if name.startswith(begin)), "cannot be used")
    return f"the ledger {path!r} {said} ({error})"


def encode_text(text: str | None) -> str | bytes | None:
    """A text as a column has it; one that is no UTF-8 as its octets."""
    if text is None:
        return None
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
    return text


def decode_text(kept: object) -> str | None:
    """The text of a column; None also for what nobody here has written."""
    if isinstance(kept, bytes):
        return kept.decode("utf-8", "surrogatepass") if _is_text(kept) else None
    return kept if isinstance(kept, str) else None


def _is_text(octets: bytes) -> bool:
    try:
        octets.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True


def number_of(kept: object) -> int:
    """The number of a column; 0 as above."""
    return kept if isinstance(kept, int) and kept >= 0 else 0


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

    async def record_whole(self, facts: CompletedFile) -> None:
        """All of it is there; it is on the disk when this returns. Raises `LedgerFault`."""
        modified = None if facts.known.modified is None else facts.known.modified.timestamp()
        place = self._ledger.place_of(facts.path)
        values = (
            encode_text(place),
            facts.inode,
            facts.size,
            _digest(facts.digest),
            encode_text(facts.known.etag),
        )
        more = (modified, encode_text(facts.final_url), encode_text(facts.media_type))
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

    async def record_done(
        self, path: str | None, size: int, brought: int, attempts: int, *, skipped: bool
    ) -> None:
        """It has its name; or a file that was there stays. Raises `LedgerFault`."""
        change = (
            "status=?, path=?, size=?, brought=brought+?, attempts=attempts+?, ended=?, exit=0, error=NULL"
        )
        place = None if path is None else self._ledger.place_of(path)
        status = "skipped" if skipped else "done"
        values = (status, encode_text(place), size, brought, attempts, _now())
        await self._ledger.write_later(_Change(f"{change}, message=NULL", values, self.number, path))

    async def forget(self) -> None:
        """It is nothing that anybody waits for. Raises `LedgerFault`."""
        await self._ledger.forget(self.number)

    async def record_failed(self, error: ResolveError, kind: str, *, refused: bool) -> None:
        """Nothing came of it. Raises `LedgerFault`."""
        change = "status=?, attempts=attempts+?, ended=?, exit=?, error=?, message=?"
        status, message = "refused" if refused else "failed", error.message[:_MOST_MESSAGE]
        attempts = 0 if refused else error.attempts
        values = (status, attempts, _now(), error.exit_code, kind, encode_text(message))
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
            # A thread that reads the list may be left behind when the run is cancelled. SQLite crashes where
            # a connection is closed while another thread executes with it (sqlite.org/threadsafe.html);
            # behind the lock that thread gets a `ProgrammingError`.
            with self._mutex:
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
            return [self._admit_entry(each) for each in asked]

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
                each,
                key,
                decode_text(url) or "",
                status,
                how,
                decode_text(path) or "",
                number_of(size),
                decode_text(digest),
            )
            for each, key, url, status, how, path, size, digest in rows
        ]

    def _admit_entry(self, asked: RequestRow) -> LedgerEntry:
        columns = "id, status, path, size, digest, how, etag, inode, modified"
        select = f"SELECT {columns} FROM object WHERE key=?"
        row = self._connection.execute(select, (asked.key,)).fetchone()
        if row is None:
            return LedgerEntry(self, self._insert(asked))
        number, status, stored, size, digest, how, etag, inode, modified = row
        if how is None and asked.how is not None:
            self._connection.execute("UPDATE object SET how=? WHERE id=?", (asked.how, number))
        path = os.path.join(self._below or "", decode_text(stored) or "")
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
        tag = RowTag(decode_text(etag), inode or None, modified if isinstance(modified, float) else None)
        return LedgerEntry(self, number, path, size, decode_text(digest), tag, is_done=is_done)

    def _insert(self, asked: RequestRow) -> int:
        referrer = None if asked.referrer is None else json.dumps(asked.referrer)
        values = (
            asked.key,
            encode_text(asked.given),
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


# Recall of an earlier run by the lines of its list, which need not be parsed as URLs to be skipped.
#
# Rows are in the order of their requests, and that is the order of the list. So the next lines are most
# likely those of the next rows, which are read many at a time. A line that is not among them is looked up by
# its key; if that finds it done, reading continues from there.
#
# A row counts only where its file is where it would be put now: named in the same way, below the same
# directory, and under the very place of its key.

#: Rows that are held at once. More than lines are asked for together, for some may be gone from the list.
_RECALL_ROWS = 640


class CompletedRow(NamedTuple):
    """What is done, and still there; `where` is its path below the directory for files."""

    where: str
    path: str
    size: int
    digest: str | None


class LedgerRecall:
    """The rows of a ledger beside the lines of a list. `how` says how files are named, `directory` is the one
    for files."""

    def __init__(self, ledger: Ledger, how: str, directory: str) -> None:
        self._ledger = ledger
        self._how = how
        self._below = os.path.join(os.path.abspath(directory), "")
        self._behind = 0
        self._held: dict[str, list[tuple[int, CompletedRow]]] | None = None

    def find(self, lines: Sequence[str]) -> list[CompletedRow | None]:
        """Of each line what is done. Raises `LedgerFault`."""
        if self._held is None:
            self._held = self._read()
        found = [self._take(self._held, line) for line in lines]
        last = max((number for number, _ in filter(None, found)), default=None)
        if last is not None:
            self.go_on_behind(last)
        return [None if each is None else self._if_there(each[1]) for each in found]

    def go_on_behind(self, number: int) -> None:
        """What comes next in the list most likely comes behind this row."""
        self._behind, self._held = number, None

    def _read(self) -> dict[str, list[tuple[int, CompletedRow]]]:
        held: dict[str, list[tuple[int, CompletedRow]]] = {}
        for row in self._ledger.rows_behind(self._behind, _RECALL_ROWS):
            if row.status != "done" or row.how != self._how or not row.path.startswith(self._below):
                continue
            if RequestRow(row.url, row.path, row.url).key == row.key:
                known = CompletedRow(row.path[len(self._below) :], row.path, row.size, row.digest)
                held.setdefault(row.url, []).append((row.number, known))
        return held

    @staticmethod
    def _take(held: dict[str, list[tuple[int, CompletedRow]]], line: str) -> tuple[int, CompletedRow] | None:
        rows = held.get(line)
        return rows.pop(0) if rows else None

    @staticmethod
    def _if_there(known: CompletedRow) -> CompletedRow | None:
        return known if has_size(known.path, known.size) else None
