"""The ledger: writes that fail for a while and are repeated later, columns, paths and locks."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from protocols.text import Masked
from resolver import NotFound, Resolver, Validators
from resolver.files.directory import DirectoryHandle
from resolver.ledger import LedgerFault, LedgerHeld
from resolver.ledger import book as database
from resolver.ledger.book import Ledger, LedgerEntry, RequestRow
from resolver.ledger.report import list_finished, read

#: More rows than are written together.
MANY = 300


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "TIMEOUT", 0.0)


def make_request(number: int) -> RequestRow:
    url = f"http://h.example/{number}"
    return RequestRow(Masked(url), f"/nowhere/{number}", Masked(url))


async def end(entry: LedgerEntry, number: int) -> None:
    """Record a failure for every third entry, and success for the others."""
    if number % 3:
        entry.record_done(f"/nowhere/{'long ' * 40}{number}", 7, 7, 1, skipped=False)
    else:
        entry.record_failed(NotFound("not there"), "NotFound", refused=False)
    if entry.ledger.is_due:
        await entry.ledger.settle()


def connection_of(ledger: Ledger) -> sqlite3.Connection:
    connection = vars(ledger)["_connection"]
    assert isinstance(connection, sqlite3.Connection)
    return connection


@contextmanager
def full_disk(ledger: Ledger, path: Path) -> Iterator[None]:
    """Simulate a full disk: SQLite may not let the file grow."""
    connection = connection_of(ledger)
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count={pages}")
    yield
    connection.execute(f"PRAGMA max_page_count={pages + 1_000}")


@contextmanager
def locked(ledger: Ledger, path: Path) -> Iterator[None]:
    """Lock the file by a program that ignores the lock of the ledger."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


@pytest.mark.parametrize(("harm", "words"), [(full_disk, "space"), (locked, "locked")])
async def test_ledger_failed_writes_are_repeated(harm: object, words: str, tmp_path: Path) -> None:
    path, refused = tmp_path / "ledger", list[str]()
    async with Ledger(str(path)) as ledger:
        entries = ledger.admit(map(make_request, range(MANY)))
        with harm(ledger, path):  # type: ignore[operator]
            for number, entry in enumerate(entries):
                try:
                    await end(entry, number)
                except LedgerFault as error:
                    refused.append(error.message)
            assert read(str(path)).left == MANY  # all rows are written in one transaction, or none
    assert refused
    assert all(words in message for message in refused)
    report = read(str(path))
    assert (report.done, report.failed, report.left) == (MANY - MANY // 3, MANY // 3, 0)


async def test_ledger_admit_while_locked_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    async with Ledger(str(path)) as ledger:
        with locked(ledger, path), pytest.raises(LedgerFault, match="locked"):
            ledger.admit([make_request(1)])
        (entry,) = ledger.admit([make_request(1)])
        await end(entry, 1)
    assert read(str(path)).objects == 1


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_ledger_moved_with_its_files_is_valid(elsewhere: bool, tmp_path: Path) -> None:
    """With `elsewhere`, the files are stored elsewhere and need not exist."""
    before, after = tmp_path / "here", tmp_path / "there"
    before.mkdir()
    (before / "a.txt").write_bytes(b"seven..")
    request = RequestRow(Masked("http://h.example/a"), "a.txt", Masked("http://h.example/a"))
    async with Ledger(str(before / "ledger"), below=str(before), elsewhere=elsewhere) as ledger:
        (entry,) = ledger.admit([request])
        path = str(before / "a.txt")
        saved = {"path": path, "bytes": 7, "digest": "sha256:d", "url": "http://h.example/b"}
        entry.record_whole({**saved, "media_type": "text/plain"}, Validators(), 1)()
        entry.record_done(path, 7, 7, 1, skipped=False)
    before.rename(after)
    (row,) = list_finished(str(after / "ledger"))
    assert (row.path, row.final_url, row.media_type) == ("a.txt", "http://h.example/b", "text/plain")
    if elsewhere:
        (after / "a.txt").unlink()
    async with Ledger(str(after / "ledger"), below=str(after), elsewhere=elsewhere) as ledger:
        (entry,) = ledger.admit([request])
        assert entry.is_done
        assert entry.path == str(after / "a.txt")


async def test_ledger_of_older_version_gets_new_columns(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    async with Ledger(str(path)) as ledger:
        ledger.admit([make_request(0)])
    with closing(sqlite3.connect(path, isolation_level=None)) as older:
        for name in ("final_url", "media_type", "how"):
            older.execute(f"ALTER TABLE object DROP COLUMN {name}")
    async with Ledger(str(path)) as ledger:
        (entry,) = ledger.admit([make_request(0)])
        await end(entry, 0)
    (row,) = list_finished(str(path))
    assert (row.status, row.final_url) == ("failed", None)


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("SQLITE_IOERR_SHMMAP", "on another disk"),
        ("SQLITE_IOERR_WRITE", "check the free space and ulimit -f"),
        ("SQLITE_IOERR_SHMSIZE", "ulimit -f"),
        ("SQLITE_IOERR_FSYNC", "synced to the disk: name a file on another disk"),
    ],
)
def test_disk_error_of_ledger_suggests_a_fix(name: str, advice: str) -> None:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorname = name
    with pytest.raises(LedgerFault, match=advice), database.convert_errors("run"):
        raise error


async def test_ledger_in_use_raises_ledger_held(tmp_path: Path) -> None:
    path = str(tmp_path / "ledger")
    async with Ledger(path):
        with pytest.raises(LedgerHeld):
            await Ledger(path).__aenter__()


class _WatchedConnection:
    """A connection that reports whether its ledger's lock was held when it was closed."""

    def __init__(self, ledger: Ledger, connection: sqlite3.Connection) -> None:
        self._ledger = ledger
        self._connection = connection
        self.closed_under_lock: list[bool] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self._connection, name)

    def close(self) -> None:
        self.closed_under_lock.append(vars(self._ledger)["_mutex"].locked())
        self._connection.close()


async def test_ledger_is_closed_under_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread left by a cancellation may execute a statement at any time: SQLite crashed the process."""
    path = tmp_path / "ledger"
    path.touch(0o600)
    ledger = Ledger(str(path))
    watched = _WatchedConnection(ledger, database.connect(str(path)))
    monkeypatch.setattr(database, "connect", lambda path: watched)
    async with ledger:
        pass
    assert watched.closed_under_lock == [True]
    with pytest.raises(LedgerFault):
        ledger.admit([make_request(1)])


async def test_ledger_state_file_of_done_file_is_removed_by_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, out = tmp_path / "source.bin", tmp_path / "out"
    source.write_bytes(bytes(100_000))
    forget = DirectoryHandle.forget

    def keep_state(self: DirectoryHandle, name: str) -> None:
        if not name.endswith(".part-state"):
            forget(self, name)

    async def status() -> list[str]:
        async with Resolver() as session:
            saved = session.save_all([source.as_uri()], directory=out, ledger=tmp_path / "ledger")
            return [outcome.status async for outcome in saved]

    with monkeypatch.context() as patch:
        patch.setattr(DirectoryHandle, "forget", keep_state)
        assert await status() == ["done"]
    assert sorted(os.listdir(out)) == ["source.bin", "source.bin.part-state"]
    assert await status() == ["skipped"]
    assert os.listdir(out) == ["source.bin"]
