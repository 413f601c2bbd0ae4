"""Who reads a ledger gets what is in it, whatever its writer is doing or was killed over, and leaves nothing
beside it."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import pytest

from resolver import ResolveError
from resolver.ledger import LedgerFault
from resolver.ledger.book import Asked, Ledger
from resolver.ledger.database import TABLES, connect
from resolver.ledger.report import became

URLS = [f"http://h.example/{number:03}" for number in range(300)]
INSERT = (
    "INSERT INTO object (key, url, origin, without_password, status, asked) VALUES (?, ?, 'user', 0, ?, 0)"
)


async def run(path: Path, urls: list[str]) -> Ledger:
    """One that is under way, and has ended with these."""
    ledger = await Ledger(str(path)).__aenter__()
    for entry in ledger.admit(Asked(url, "f", url) for url in urls):
        await entry.failed(ResolveError("no"), "ResolveError", refused=False)
    await ledger.settle()
    return ledger


def read(path: Path) -> list[str]:
    return [row.url for row in became(str(path))]


def beside(path: Path) -> list[str]:
    return sorted(each.name.removeprefix(path.name) for each in path.parent.iterdir())


async def test_nothing_is_left_beside_one_that_was_read(tmp_path: Path) -> None:
    path = tmp_path / "run"
    ledger = await run(path, URLS[:3])
    await ledger.__aexit__(None, None, None)
    assert (read(path), beside(path)) == (URLS[:3], [""])


async def test_what_is_beside_it_stays_as_long_as_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "run"
    ledger = await run(path, URLS)
    assert read(path) == URLS
    assert beside(path) == ["", "-shm", "-wal"]
    await ledger.__aexit__(None, None, None)
    assert (read(path), beside(path)) == (URLS, [""])


async def test_one_that_was_killed_is_put_right_by_who_reads_it(tmp_path: Path) -> None:
    """As it lies there, with what was written and not taken over."""
    (tmp_path / "killed").mkdir()
    path, killed = tmp_path / "run", tmp_path / "killed" / "run"
    ledger = await run(path, URLS)
    for end in ("", "-wal"):
        shutil.copy(f"{path}{end}", f"{killed}{end}")
    await ledger.__aexit__(None, None, None)
    assert (read(killed), beside(killed)) == (URLS, [""])


def test_one_that_was_killed_before_it_had_a_log_is_put_right(tmp_path: Path) -> None:
    """SQLite has written some of it, and beside it what was there before: whoever reads has to put that back,
    and says of one who may not that he may not write."""
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
        closing(connect(str(killed), how="mode=ro")) as connection,
        pytest.raises(sqlite3.OperationalError, match="attempt to write a readonly database"),
    ):
        connection.execute("SELECT * FROM object")
    assert (read(killed), beside(killed)) == (URLS, [""])


def test_one_that_is_begun_meanwhile_is_empty_or_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not, by halves, another program's."""
    path = tmp_path / "run"
    path.touch()

    def begin(statement: str) -> None:
        if statement == "PRAGMA user_version":
            with closing(sqlite3.connect(path, timeout=0)) as other, suppress(sqlite3.OperationalError):
                other.executescript(TABLES)

    def traced(path: str, *, how: str) -> sqlite3.Connection:
        connection = connect(path, how=how)
        connection.set_trace_callback(begin)
        return connection

    monkeypatch.setattr("resolver.ledger.report.connect", traced)
    with pytest.raises(LedgerFault, match="empty"):
        read(path)
