"""Reading a ledger during a run and after a kill, without leftover files, and hostile schemas."""

from __future__ import annotations

import os
import shutil
import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest

from protocols.text import Masked
from resolver import ResolveError
from resolver.ledger import LedgerFault
from resolver.ledger.book import TABLES, Ledger, RequestRow, connect
from resolver.ledger.report import list_finished, requeue_errors
from resolver.ledger.report import read as report

URLS = [f"http://h.example/{number:03}" for number in range(300)]
INSERT = (
    "INSERT INTO object (key, url, origin, without_password, status, asked) VALUES (?, ?, 'user', 0, ?, 0)"
)


async def run(path: Path, urls: list[str]) -> Ledger:
    """Return an open ledger in which the given URLs have failed."""
    ledger = await Ledger(str(path)).__aenter__()
    for entry in ledger.admit(RequestRow(Masked(url), "f", Masked(url)) for url in urls):
        entry.record_failed(ResolveError("no"), "ResolveError", refused=False)
    await ledger.settle()
    return ledger


def read(path: Path) -> list[str]:
    return [row.url for row in list_finished(str(path))]


def beside(path: Path) -> list[str]:
    return sorted(file.name.removeprefix(path.name) for file in path.parent.iterdir())


async def test_report_of_closed_ledger_leaves_no_files(tmp_path: Path) -> None:
    path = tmp_path / "run"
    ledger = await run(path, URLS[:3])
    await ledger.__aexit__(None, None, None)
    assert (read(path), beside(path)) == (URLS[:3], [""])


async def test_report_of_open_ledger_keeps_log_files(tmp_path: Path) -> None:
    path = tmp_path / "run"
    ledger = await run(path, URLS)
    assert read(path) == URLS
    assert beside(path) == ["", "-shm", "-wal"]
    await ledger.__aexit__(None, None, None)
    assert (read(path), beside(path)) == (URLS, [""])


async def test_report_duration_ignores_jump_of_wall_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, wall_clock = tmp_path / "run", iter(range(0, 10**9, 10**6))
    monkeypatch.setattr("resolver.ledger.book._now", lambda: float(next(wall_clock)))
    ledger = await run(path, URLS[:3])
    await ledger.__aexit__(None, None, None)
    assert 0 <= report(str(path)).elapsed < 10**6


async def test_report_recovers_log_of_killed_run(tmp_path: Path) -> None:
    """The ledger has a write-ahead log that was not checkpointed."""
    (tmp_path / "killed").mkdir()
    path, killed = tmp_path / "run", tmp_path / "killed" / "run"
    ledger = await run(path, URLS)
    for end in ("", "-wal"):
        shutil.copy(f"{path}{end}", f"{killed}{end}")
    await ledger.__aexit__(None, None, None)
    assert (read(killed), beside(killed)) == (URLS, [""])


def test_report_rolls_back_journal_of_killed_run(tmp_path: Path) -> None:
    """SQLite wrote some pages, and the old ones to the journal: the reader must roll back.

    For a read-only connection, SQLite reports an attempt to write.
    """
    (tmp_path / "killed").mkdir()
    path, killed = tmp_path / "run", tmp_path / "killed" / "run"
    path.touch()
    with closing(connect(str(path))) as connection:
        connection.executescript(TABLES)
        connection.executemany(INSERT, [(url, url, "failed") for url in URLS])
        connection.execute("PRAGMA cache_size=1")
        connection.execute("BEGIN")
        connection.execute("UPDATE object SET status='done', url=url||'not so'||hex(randomblob(200))")
        for end in ("", "-journal"):
            shutil.copy(f"{path}{end}", f"{killed}{end}")
    with (
        closing(connect(str(killed), query="mode=ro")) as connection,
        pytest.raises(sqlite3.OperationalError, match="attempt to write a readonly database"),
    ):
        connection.execute("SELECT * FROM object")
    assert (read(killed), beside(killed)) == (URLS, [""])


ENDLESS = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM c) SELECT"
#: Schemas that a file with the mark of a ledger may have in addition to its tables, or instead of them.
SCHEMAS = [
    f"DROP TABLE object; CREATE VIEW object AS {ENDLESS} n AS id, 'done' AS status, 0 AS size FROM c",
    f"ALTER TABLE object RENAME TO o; CREATE VIEW object AS {ENDLESS} o.* FROM c, o",
    "CREATE TRIGGER t AFTER INSERT ON run BEGIN DELETE FROM object; END",
    "CREATE VIEW v AS SELECT 1",
    "CREATE TABLE mine (x)",
    "CREATE INDEX i ON object (hex(zeroblob(1000000)))",
    "ALTER TABLE object ADD COLUMN more_of_it AS (hex(zeroblob(1000000)))",
    "ALTER TABLE object ADD COLUMN x CHECK (length(hex(zeroblob(1000000))) > 1)",
    "DROP TABLE run",
    "DROP TABLE run; CREATE VIRTUAL TABLE run USING fts5(begun, ended)",
]


@pytest.mark.parametrize("schema", SCHEMAS)
async def test_ledger_with_unknown_schema_is_refused_and_unchanged(schema: str, tmp_path: Path) -> None:
    path = tmp_path / "run"
    path.touch(0o600)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(f"{TABLES}; {schema}")
    before = path.read_bytes()
    for use in (lambda: read(path), lambda: requeue_errors(str(path), "all")):
        with pytest.raises(LedgerFault, match="that no run has made"):
            use()
    with pytest.raises(LedgerFault, match="that no run has made"):
        await Ledger(str(path)).__aenter__()
    assert path.read_bytes() == before


def test_report_of_recursive_pages_is_bounded(tmp_path: Path) -> None:
    """Three levels of inner pages name the same child 400 times: 400 ** 3 pages of rows, in 30 kB.

    SQLite's file format, section 1.6, describes the pages.
    """
    path = tmp_path / "run"
    path.touch(0o600)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(f"PRAGMA page_size=4096; {TABLES}")
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name='object'").fetchone()
        connection.executemany(INSERT, [(url, url, "failed") for url in URLS[:9]])
        connection.commit()
    octets = bytearray(path.read_bytes())
    page = slice((root - 1) * 4_096, root * 4_096)
    octets += octets[page]
    for last in (False, False, True):
        below = struct.pack(">I", len(octets) // 4_096)
        cells = b"".join(struct.pack(">H", 4_096 - 5 * cell) for cell in range(1, 401))
        inner = b"\x05\0\0" + struct.pack(">HH", 400, 4_096 - 5 * 400) + b"\0" + below + cells
        inner = inner.ljust(4_096 - 5 * 400, b"\0") + (below + b"\x09") * 400
        if last:
            octets[page] = inner
        else:
            octets += inner
    octets[28:32] = struct.pack(">I", len(octets) // 4_096)
    path.write_bytes(octets)
    for use in (lambda: report(str(path)), lambda: read(path)):
        with pytest.raises(LedgerFault, match="more work than its size explains"):
            use()


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_report_of_special_file_names_its_type(make: Callable[[str], None], tmp_path: Path) -> None:
    make(path := str(tmp_path / "run.db"))
    with pytest.raises(LedgerFault, match="is not a regular file"):
        report(path)


def test_report_of_ledger_in_creation_is_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ledger is not mistaken for a database of another program."""
    path = tmp_path / "run"
    path.touch()

    def begin(statement: str) -> None:
        if statement == "PRAGMA user_version":
            with closing(sqlite3.connect(path, timeout=0)) as other, suppress(sqlite3.OperationalError):
                other.executescript(TABLES)

    def traced(path: str, *, query: str) -> sqlite3.Connection:
        connection = connect(path, query=query)
        connection.set_trace_callback(begin)
        return connection

    monkeypatch.setattr("resolver.ledger.report.connect", traced)
    with pytest.raises(LedgerFault, match="empty"):
        read(path)
