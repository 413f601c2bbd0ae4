"""The ledger of a run: an SQLite file with a row for each pair of URL and path.

The key of a row is a digest of the URL and the path. The ledger contains neither passwords nor digests of
passwords, because a password could be guessed from its digest. The URL is stored in redacted form, so URLs
that differ only in the password have the same row.

The steps have a fixed order, so that the next run can recover after a kill or a loss of power:

1. The row is written with the status `queued`, before the request is sent.
2. The complete file NAME.part is synced to the disk. Then the row is synced with the status `whole`, the
   size, the digest and the inode number.
3. The file is renamed to its final name (`resolver.files.part`).
4. The directory is synced. Then the row gets the status `done`, in one transaction with many other rows.

After an interruption before step 2, the file is resumed like any other file. After an interruption after step
2, the next run performs step 3. The inode number and the size show whether step 3 was already performed. If
the file of a row is missing, the row is ignored.

The ledger has one writer at a time, which holds a lock. Readers do not need a lock.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache, partial
from itertools import groupby
from operator import itemgetter
from types import TracebackType
from typing import Any, NamedTuple, TypeAlias

from protocols.contract import Validators
from protocols.errors import LocalError, ResolveError
from protocols.text import Masked, own_text
from resolver.files.atomic import LedgerFile, LedgerFileLocked
from resolver.files.partial_file import finish, finish_killed_run, has_inode, has_size, sync_directories
from resolver.ledger import LedgerFault, LedgerHeld
from resolver.loops import Loop, running

#: The SQLite application ID of a ledger: "rslv".
_APPLICATION_ID = 0x72736C76
_VERSION = 1

#: The number of bytes at the start of a file that identify a ledger.
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
PRAGMA application_id = {_APPLICATION_ID};
PRAGMA user_version = {_VERSION};
COMMIT;
"""

#: The columns that are missing in ledgers of early versions.
_ADDED = (("how", "TEXT"), ("final_url", ""), ("media_type", ""))

#: The number of SQLite virtual machine steps between two checks of the work limit. The work limit of a ledger
#: is a base number of steps, plus a number of steps for each byte of the file. A query that counts all rows
#: takes two steps per byte. In a damaged or malicious file, pages may point to each other, so that 50 kB seem
#: to contain billions of rows.
_STEPS_PER_CHECK = 10_000
_BASE_STEPS, _STEPS_PER_BYTE = 1_000_000, 10

#: The timeout in seconds for a lock that another program holds on the database.
TIMEOUT = 5.0


def connect(path: str, *, query: str = "mode=rw") -> sqlite3.Connection:
    """Open a database connection with explicit transactions.

    The size of the file limits the work of a query, and functions in the schema are not trusted.

    Args:
        path: The ledger.
        query: The URI parameters for SQLite.
    """
    quoted = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    connection = sqlite3.connect(
        f"file:{quoted}?{query}", uri=True, isolation_level=None, check_same_thread=False, timeout=TIMEOUT
    )
    steps = 0

    def is_over_limit() -> bool:
        nonlocal steps
        steps += _STEPS_PER_CHECK
        size = 0
        for file in (path, f"{path}-wal"):
            with suppress(OSError):
                size += os.stat(file).st_size
        return steps > _BASE_STEPS + _STEPS_PER_BYTE * size

    connection.set_progress_handler(is_over_limit, _STEPS_PER_CHECK)
    connection.execute("PRAGMA trusted_schema=OFF")
    return connection


def has_ledger(connection: sqlite3.Connection, path: str) -> bool:
    """Return True for a ledger, and False for an empty database.

    Raises:
        LedgerFault: Another program, or a later version of this package, wrote the database.
    """
    application_id = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if application_id == _APPLICATION_ID and version == _VERSION:
        _check_schema(connection, path)
        return True
    if application_id == _APPLICATION_ID:
        raise LedgerFault(
            f"the ledger {path!r} is of a later version of resolve: use that version, or another file"
        )
    if application_id or version or connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        raise LedgerFault(f"{path!r} is a database of another program and stays unchanged: name another file")
    return False


def _check_schema(connection: sqlite3.Connection, path: str) -> None:
    """Raise `LedgerFault` if the schema contains anything except the tables of a ledger.

    Views, triggers and computed columns could run the SQL of an attacker. Automatic indexes of SQLite are
    allowed, because they do not contain SQL text.
    """
    statements = connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL LIMIT 3").fetchall()
    tables = re.findall(r"CREATE TABLE .*?\);", TABLES, re.DOTALL)
    if sorted(_parse_table(str(sql)) for (sql,) in statements) != sorted(map(_parse_table, tables)):
        raise LedgerFault(
            f"{path!r} has tables, views or triggers that no run has made, and stays unchanged: name another"
            " file"
        )


def _parse_table(sql: str) -> tuple[str, list[str]]:
    """Return the start of a CREATE TABLE statement, and its columns except those in `_ADDED`."""
    head, _, columns = " ".join(sql.split()).removesuffix(";").removesuffix(")").partition("(")
    added = [f"{name} {kind}".strip() for name, kind in _ADDED]
    return head.strip(), [column.strip() for column in columns.split(",") if column.strip() not in added]


def is_ledger(head: bytes) -> bool:
    """Return whether a file has the signature (magic number) of a ledger.

    An SQLite file has the magic string at byte 0, and the application ID at byte 68 (SQLite file format,
    section 1.3).
    """
    return head.startswith(b"SQLite format 3\0") and head[68:HEAD] == _APPLICATION_ID.to_bytes(4, "big")


def add_columns(connection: sqlite3.Connection) -> None:
    """Add the columns that are missing in a ledger of an early version."""
    existing = {name for _, name, *_ in connection.execute("PRAGMA table_info(object)")}
    for name, kind in _ADDED:
        if name not in existing:
            connection.execute(f"ALTER TABLE object ADD COLUMN {name} {kind}")


@contextmanager
def convert_errors(path: str) -> Iterator[None]:
    """Convert SQLite errors and file errors to a `LedgerFault` whose message contains the fix."""
    try:
        yield
    except LedgerFault:
        raise
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise LedgerFault(_make_message(path, error)) from error
    except (LocalError, OSError) as error:
        kind = LedgerHeld if isinstance(error, LedgerFileLocked) else LedgerFault
        raise kind(error.message if isinstance(error, LocalError) else str(error)) from error


#: The prefixes of SQLite's error names, with the error message and the fix.
_MESSAGES = (
    ("SQLITE_NOTADB", "is not a ledger and stays unchanged: name another file"),
    ("SQLITE_CORRUPT", "is damaged: move it away and run again; exists=skip keeps the complete files"),
    ("SQLITE_INTERRUPT", "takes more work than its size explains, so it is damaged: name another file"),
    ("SQLITE_BUSY", "is locked by another program: wait for it, or name another file"),
    ("SQLITE_READONLY", "cannot be written: choose a file that you may write to"),
    ("SQLITE_PERM", "cannot be written: choose a file that you may write to"),
    # SQLite reports a lack of descriptors by the same code as a lack of permissions.
    ("SQLITE_CANTOPEN", "cannot be opened: make it and its directory writable, or raise ulimit -n"),
    ("SQLITE_FULL", "cannot be written: no space left (free some, then run again)"),
    # SQLite cannot enlarge the file -shm.
    ("SQLITE_IOERR_SHMSIZE", "cannot be written: check the free space and ulimit -f, then run again"),
    # The write-ahead log needs mmap(2), which some FUSE and network file systems lack.
    ("SQLITE_IOERR_SHM", "is on a file system without shared memory: name a file on another disk"),
    ("SQLITE_IOERR_FSYNC", "cannot be synced to the disk: name a file on another disk"),
    ("SQLITE_IOERR", "cannot be read or written: check the free space and ulimit -f, then run again"),
)


def _make_message(path: str, error: sqlite3.Error | UnicodeDecodeError) -> str:
    # SQLite quotes a damaged schema in its message. CPython 3.11 cannot decode a message that is not UTF-8.
    name = getattr(error, "sqlite_errorname", "SQLITE_CORRUPT" if isinstance(error, ValueError) else "")
    message = next((words for begin, words in _MESSAGES if name.startswith(begin)), "cannot be used")
    return f"the ledger {path!r} {message} ({error})"


def encode_text(text: str | None) -> str | bytes | None:
    """Return the column value for a text; the value is bytes if the text is not valid UTF-8."""
    if text is None or text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
    return text


def decode_string(value: object) -> str | None:
    """Return the value of a column as text, or None for a value of another type."""
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            return None
    return value if isinstance(value, str) else None


def decode_number(value: object) -> int:
    """Return the value of a column as an integer, or 0 for a value of another type."""
    return value if isinstance(value, int) and value >= 0 else 0


#: The maximum number of row updates that wait to be written.
_MAX_QUEUED = 256

#: The maximum number of characters of a stored error message.
_MAX_MESSAGE = 1_000


class RequestRow(NamedTuple):
    """A request that is recorded in the ledger.

    Attributes:
        url: The redacted URL.
        place: The path of the file, or of the directory if the server may choose the file name.
        typed_url: The URL as the user typed it, with its password redacted.
        more: Other data of the request from the list, as JSON.
        naming: The naming scheme of the files.
        below: A prefix of the path. A directory after the prefix must not be a symbolic link.
    """

    url: Masked
    place: str
    typed_url: Masked
    origin: str = "user"
    referrer: tuple[str, str | None] | None = None
    without_password: bool = False
    more: str | None = None
    naming: str | None = None
    below: str | None = None

    @property
    def key(self) -> bytes:
        text = f"{self.url}\0{self.place}".encode("utf-8", "surrogatepass")
        return hashlib.blake2b(text, digest_size=16).digest()


class StoredRow(NamedTuple):
    number: int
    key: bytes
    url: Masked
    status: str
    naming: str | None
    path: str
    size: int
    digest: str | None


@dataclass(slots=True, eq=False, repr=False)
class LedgerEntry:
    """The row of an object during its request; `is_done` if an earlier run saved it and the file exists."""

    ledger: Ledger
    number: int
    path: str = ""
    size: int = 0
    digest: str | None = None
    is_done: bool = False
    _etag: str | None = None
    _inode: int | None = None
    _modified: float | None = None
    _recorded: tuple[str | None, str | bytes | None] = None, None

    def record_whole(self, saved: Mapping[str, Any], known: Validators, inode: int) -> Callable[[], None]:
        """Queue the record of a file that is synced to the disk; see `LedgerRow`."""
        stored_path = encode_text(self.ledger.make_stored_path(saved["path"]))
        self._recorded = saved["path"], stored_path
        values = (
            stored_path,
            inode,
            saved["bytes"],
            saved["digest"],
            encode_text(known.etag),
            None if known.modified is None else known.modified.timestamp(),
            encode_text(saved["url"]),
            encode_text(saved["media_type"]),
            self.number,
        )
        return self.ledger.queue(_WHOLE, values)

    def find_etag(self, path: str, modified: datetime | None) -> str | None:
        """Return the entity tag of the file; see `LedgerRow`."""
        if self._inode is None or os.path.abspath(path) != self.path:
            return None
        seconds = None if modified is None else int(modified.timestamp())
        is_same_date = self._modified is None or int(self._modified) == seconds
        return self._etag if is_same_date and has_inode(path, self._inode, self.size) else None

    def record_done(self, path: str | None, size: int, brought: int, attempts: int, *, skipped: bool) -> None:
        """Queue the record that the file has its final name, or that an existing file stays unchanged."""
        recorded, stored_path = self._recorded
        if path != recorded:
            stored_path = None if path is None else encode_text(self.ledger.make_stored_path(path))
        status = "skipped" if skipped else "done"
        values = (status, stored_path, size, brought, attempts, _now(), self.number)
        self.ledger.queue(_DONE, values, path)

    async def forget(self) -> None:
        """Delete the row of an object that is not a file. Raises `LedgerFault`."""
        await self.ledger.forget(self.number)

    def record_failed(self, error: ResolveError, kind: str, *, refused: bool) -> None:
        """Queue the record that the request failed."""
        status, message = "refused" if refused else "failed", error.message[:_MAX_MESSAGE]
        attempts = 0 if refused else error.attempts
        values = (status, attempts, _now(), error.exit_code, kind, encode_text(message), self.number)
        self.ledger.queue(_FAILED, values)


_INSERT = (
    "INSERT INTO object(key, url, origin, referrer, without_password, asked, more, how, status) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'queued') ON CONFLICT(key) DO NOTHING"
)

# The updates of a row.
_WHOLE = (
    "UPDATE object SET status='whole', path=?, inode=?, size=?, digest=?, etag=?, modified=?, final_url=?, "
    "media_type=?, exit=NULL, error=NULL, message=NULL WHERE id=?"
)
_DONE = (
    "UPDATE object SET status=?, path=?, size=?, brought=brought+?, attempts=attempts+?, ended=?, exit=0, "
    "error=NULL, message=NULL WHERE id=?"
)
_FAILED = "UPDATE object SET status=?, attempts=attempts+?, ended=?, exit=?, error=?, message=? WHERE id=?"

#: An update of a row, its values, and after the rename of a file the final name.
_Change: TypeAlias = tuple[str, tuple[Any, ...], str | None]


class Ledger:
    """The ledger of a run, an async context manager with a lock against other writers.

    Args:
        path: The ledger.
        sidecars: Whether each file gets a sidecar.
        below: A directory to which the paths in rows are relative, so that the ledger and the files can be
            moved together.
        elsewhere: Whether finished files are moved to another location, so that a row is valid without a
            local file.

    Raises:
        LedgerFault: On entry, the file is not a ledger, is locked by another run, or cannot be written.
    """

    def __init__(
        self, path: str, *, sidecars: bool = False, below: str | None = None, elsewhere: bool = False
    ) -> None:
        self._file = LedgerFile(path)
        self._sidecars = sidecars
        # A call of abspath for each file of a list takes 1% of the instructions of a small file.
        self._make_absolute_directory = lru_cache(lambda path: os.path.join(os.path.abspath(path), ""))
        self._below = "" if below is None else self._make_absolute_directory(below)
        self._elsewhere = elsewhere
        self._mutex = threading.Lock()
        self._queued: deque[_Change] = deque()
        self._opened = ExitStack()

    async def __aenter__(self) -> Ledger:
        self._loop: Loop = running().bind()
        self._write_lock = self._loop.lock()
        try:
            await self._loop.in_thread(self._open)
        except self._loop.cancelled:  # With asyncio, the thread has opened the ledger nevertheless.
            self._opened.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            # The write runs in the thread of the event loop, so a cancellation cannot interrupt the write.
            self._write_all()
        except LedgerFault:
            if kind is None:
                raise
        finally:
            # After a cancellation, the thread that reads the list may still run. If a connection is closed
            # while another thread uses it, SQLite crashes (sqlite.org/threadsafe.html). With the mutex, the
            # other thread instead gets a `ProgrammingError` after the close.
            with self._mutex:
                self._opened.close()

    def _open(self) -> None:
        with convert_errors(self._file.path), ExitStack() as opened:
            self._file.acquire()
            opened.callback(self._file.close)
            self._connection = connect(self._file.path)
            opened.callback(self._connection.close)
            self._prepare()
            self._opened = opened.pop_all()

    def _prepare(self) -> None:
        if not has_ledger(self._connection, self._file.path):
            self._connection.executescript(TABLES)
        add_columns(self._connection)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=NORMAL")
        begin = "INSERT INTO run(begun, ended) VALUES (?, ?)"
        self._run = self._connection.execute(begin, (_now(), _now())).lastrowid
        self._begun = self._loop.current_time()
        # During a run, rows are found by key, so the work of a query needs no limit.
        self._connection.set_progress_handler(None, 0)

    def admit(self, requests: Iterable[RequestRow]) -> list[LedgerEntry]:
        """Add a row for each request in one transaction, and return the entries with the stored data.

        The thread that reads the list calls this method. Raises `LedgerFault`.
        """
        with self._transaction():
            now = _now()
            return [self._admit_entry(request, now) for request in requests]

    def make_stored_path(self, path: str) -> str:
        """Return the absolute path for a row, or with `below`, the path relative to this directory."""
        name = path.rpartition("/")[2]
        return (self._make_absolute_directory(path.removesuffix(name)) + name).removeprefix(self._below)

    def has(self, url: str, place: str) -> bool:
        """Return whether a row with the redacted URL and the path exists. Raises `LedgerFault`."""
        with self._mutex, convert_errors(self._file.path):
            key = (RequestRow(own_text(url), place, own_text(url)).key,)
            return self._connection.execute("SELECT 1 FROM object WHERE key=?", key).fetchone() is not None

    def list_rows_after(self, number: int, max_rows: int) -> list[StoredRow]:
        """Return at most `max_rows` rows after row `number`, in request order. Raises `LedgerFault`."""
        select = (
            "SELECT id, key, url, status, how, path, size, digest FROM object WHERE id>? ORDER BY id LIMIT ?"
        )
        with self._mutex, convert_errors(self._file.path):
            rows = self._connection.execute(select, (number, max_rows)).fetchall()
        return [
            StoredRow(
                row_number,
                key,
                own_text(decode_string(url) or ""),
                status,
                naming,
                decode_string(path) or "",
                decode_number(size),
                decode_string(digest),
            )
            for row_number, key, url, status, naming, path, size, digest in rows
        ]

    def _admit_entry(self, request: RequestRow, now: float) -> LedgerEntry:
        key = request.key
        if (added := self._insert(key, request, now)) is not None:
            return LedgerEntry(self, added)
        columns = "id, status, path, size, digest, how, etag, inode, modified"
        row = self._connection.execute(f"SELECT {columns} FROM object WHERE key=?", (key,)).fetchone()
        number, status, stored, size, digest, naming, etag, inode, modified = row
        if naming is None and request.naming is not None:
            self._connection.execute("UPDATE object SET how=? WHERE id=?", (request.naming, number))
        path = os.path.join(self._below, decode_string(stored) or "")
        size, inode = decode_number(size), decode_number(inode)
        is_done = status == "done" and (self._elsewhere or has_size(path, size))
        if is_done and not self._elsewhere:
            finish_killed_run(path, request.url, request.below)
        if status == "whole" and finish(
            path, request.url, inode=inode, size=size, sidecar=self._sidecars, below=request.below
        ):
            change = (
                "UPDATE object SET status='done', attempts=attempts+1, brought=brought+size, ended=?, exit=0"
            )
            sync_directories([path])
            self._connection.execute(f"{change} WHERE id=?", (now, number))
            is_done = True
        modified = modified if isinstance(modified, float) else None
        digest, etag = decode_string(digest), decode_string(etag)
        return LedgerEntry(self, number, path, size, digest, is_done, etag, inode or None, modified)

    def _insert(self, key: bytes, request: RequestRow, now: float) -> int | None:
        """Add a row and return its number, or None if the ledger has a row with the key."""
        referrer = None if request.referrer is None else json.dumps(request.referrer)
        url, without_password = encode_text(request.typed_url), request.without_password
        values = (key, url, request.origin, referrer, without_password, now, request.more, request.naming)
        added = self._connection.execute(_INSERT, values)
        return added.lastrowid if added.rowcount else None

    async def forget(self, number: int) -> None:
        """Delete a row."""
        await self._loop.in_thread(self._forget, number)

    def _forget(self, number: int) -> None:
        with self._transaction():
            self._connection.execute("DELETE FROM object WHERE id=?", (number,))

    def queue(self, update: str, values: tuple[Any, ...], path: str | None = None) -> Callable[[], None]:
        """Queue a row update, and return the function that writes and syncs all queued row updates."""
        self._queued.append((update, values, path))
        return self._write_all

    @property
    def is_due(self) -> bool:
        """Return whether so many row updates are queued that the caller must call `settle`."""
        return len(self._queued) >= _MAX_QUEUED

    async def settle(self) -> None:
        """Write all queued row updates to the database in one transaction. Raises `LedgerFault`."""
        async with self._write_lock:
            if self._queued:  # Another thread may have written the updates.
                await self._loop.in_thread(partial(self._write_all, durable=False))

    def _write_all(self, *, durable: bool = True) -> None:
        changes: list[_Change] = []
        try:
            with self._transaction(durable=durable):
                # Updates that another thread has taken are written before this thread has the mutex.
                while self._queued:
                    changes.append(self._queued.popleft())
                sync_directories(path for _, _, path in changes if path is not None)
                for update, alike in groupby(changes, itemgetter(0)):
                    self._connection.executemany(update, (values for _, values, _ in alike))
                # The wall clock may jump during a run, for example when a computer without a battery starts.
                duration = self._loop.current_time() - self._begun
                self._connection.execute("UPDATE run SET ended=begun+? WHERE id=?", (duration, self._run))
        except BaseException:
            self._queued.extendleft(reversed(changes))
            raise

    @contextmanager
    def _transaction(self, *, durable: bool = False) -> Iterator[None]:
        """Run a transaction.

        A `durable` transaction survives a loss of power. Any other transaction survives only a crash of the
        process.
        """
        with self._mutex, convert_errors(self._file.path):
            self._file.check_path()
            self._connection.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
            self._connection.execute("BEGIN")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
                raise


def _now() -> float:
    return datetime.now(UTC).timestamp()


# The fast comparison of a URL list with the finished rows of an earlier run. If a line of the list matches a
# finished row, the line is skipped, and its URL is not parsed.
#
# The rows are in the order of the requests, which is the order of the list. The next lines of the list
# therefore probably match the next rows of the ledger, and rows are read in blocks. For a line without a
# match, the row is searched by key. If the row is done, the comparison continues after the row.
#
# A row matches only if this run would save the file to the same path. So the naming scheme, the directory and
# the path must be the same.

#: The number of ledger rows that are read together. The number is larger than the number of list lines per
#: call of `find`, because some lines of the earlier list may be missing in the new list.
_RECALL_ROWS = 640


class CompletedRow(NamedTuple):
    """A finished object with an existing file; `where` is the path relative to the output directory."""

    where: str
    path: str
    size: int
    digest: str | None


class LedgerRecall:
    """A comparison of the finished rows of a ledger with the lines of a list.

    Args:
        ledger: The ledger.
        naming: The naming scheme of the files.
        directory: The output directory.
    """

    def __init__(self, ledger: Ledger, naming: str, directory: str) -> None:
        self._ledger = ledger
        self._naming = naming
        self._below = os.path.join(os.path.abspath(directory), "")
        self._last_number = 0
        self._rows_by_url: dict[str, list[tuple[int, CompletedRow]]] | None = None

    def find(self, lines: Sequence[str]) -> list[CompletedRow | None]:
        """Return for each line its finished row, or None without a finished row. Raises `LedgerFault`."""
        if self._rows_by_url is None:
            self._rows_by_url = self._read()
        rows_by_url = self._rows_by_url
        numbered = [rows.pop(0) if (rows := rows_by_url.get(line)) else None for line in lines]
        last = max((number for number, _ in filter(None, numbered)), default=None)
        if last is not None:
            self.continue_after(last)
        return [pair[1] if pair and has_size(pair[1].path, pair[1].size) else None for pair in numbered]

    def continue_after(self, number: int) -> None:
        """Continue the comparison after the row `number`."""
        self._last_number, self._rows_by_url = number, None

    def _read(self) -> dict[str, list[tuple[int, CompletedRow]]]:
        rows_by_url: dict[str, list[tuple[int, CompletedRow]]] = {}
        for row in self._ledger.list_rows_after(self._last_number, _RECALL_ROWS):
            if row.status != "done" or row.naming != self._naming or not row.path.startswith(self._below):
                continue
            if RequestRow(row.url, row.path, row.url).key == row.key:
                completed = CompletedRow(row.path[len(self._below) :], row.path, row.size, row.digest)
                rows_by_url.setdefault(row.url, []).append((row.number, completed))
        return rows_by_url
