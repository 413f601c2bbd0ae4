"""The database that a ledger is: its tables, and SQLite's words for what is wrong with it."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from protocols.errors import LocalError
from resolver.disk.ledger_file import HeldByAnother
from resolver.ledger import LedgerFault, LedgerHeld

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


def kept(text: str | None) -> str | bytes | None:
    """A text as a column has it; one that is no UTF-8 as its octets."""
    if text is None:
        return None
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
    return text


def shown(kept: object) -> str | None:
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
