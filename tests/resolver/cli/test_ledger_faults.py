"""Damaged and unusable ledgers: the run reports each fault and loses no file."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from resolver.files import commit as group_commit
from resolver.ledger import book as database
from tests.faults.killed_with_ledger import Counted
from tests.hang import HANG
from tests.resolver.cli.command import resolve
from tests.resolver.cli.test_ledger import statuses
from tests.sampled import examples

WORDS = ["get", "-d", "out", "-i", "list", "--ledger", "run"]


def write(folder: Path, count: int) -> None:
    source = folder / "source"
    source.mkdir()
    for number in range(count):
        (source / str(number)).write_text(f"{number}\n")
    (folder / "list").write_text("".join(f"{(source / str(number)).as_uri()}\n" for number in range(count)))


def test_ledger_with_damaged_page_exits_with_status_3(folder: Path) -> None:
    """The files stay, and the next run records all of them in a new ledger."""
    write(folder, 90)
    assert resolve(*WORDS, "-q").status == 0
    octets = (folder / "run").read_bytes()
    assert len(octets) > 4 * 4_096
    (folder / "run").write_bytes(octets[:4_096] + bytes([7]) * (len(octets) - 4_096))
    for words in (WORDS, ["ledger", "run"], ["ledger", "run", "--failed"], ["ledger", "run", "--again", "0"]):
        done = resolve(*words)
        assert done.status == 3
        assert "run' is damaged" in done.messages
        assert "Traceback" not in done.messages
    (folder / "run").rename(folder / "away")
    again = resolve(*WORDS, "--exists", "skip", "--json")
    assert again.status == 0
    assert {status for status, _ in statuses(again)} == {"skipped"}


def test_ledger_with_damaged_schema_exits_with_status_3(folder: Path) -> None:
    """SQLite quotes the schema in its message, which is then not UTF-8."""
    write(folder, 1)
    assert resolve(*WORDS, "-q").status == 0
    octets = (folder / "run").read_bytes()
    (folder / "run").write_bytes(octets.replace(b"CREATE TABLE object", b"CRE\xe1TE TABLE object"))
    for words in (WORDS, ["ledger", "run"], ["ledger", "run", "--failed"], ["ledger", "run", "--again", "0"]):
        done = resolve(*words)
        assert (done.status, "run' is damaged" in done.messages) == (3, True)


def test_ledger_locked_by_other_program_exits_with_status_3(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "TIMEOUT", 0.0)
    write(folder, 3)
    resolve(*WORDS)
    with closing(sqlite3.connect(folder / "run", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        for words in (WORDS, ["ledger", "run", "--again", "0"]):
            done = resolve(*words)
            assert done.status == 3
            assert all(word in done.messages for word in ("locked", "another program"))
    assert resolve(*WORDS).status == 0


#: Run the command as a user who may write only to the user's files; root becomes user 65534.
_AS_NOBODY = """
import os, sys
import resolver.cli.retrieval_run, resolver.ledger.book, resolver.ledger.book, resolver.ledger.report
import resolver.transfer.saving, protocols.file.dialogue, resolver.transfer.naming
from resolver.cli import main
main(["get", "-q", "-i", "list", "-d", "before", "--ledger", "before.db"])
main(["ledger", "before.db"])
if os.geteuid() == 0:
    os.setegid(65534)
    os.seteuid(65534)
print("now", flush=True)
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(name="open_folder")
def _open_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield a directory that all users may enter; pytest's directories deny it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        monkeypatch.chdir(folder)
        yield folder
        folder.chmod(0o755)


@pytest.mark.parametrize("kind", ["file", "directory"])
def test_ledger_without_write_permission_exits_with_status_3(open_folder: Path, kind: str) -> None:
    write(open_folder, 3)
    resolve(*WORDS, "-q")
    (open_folder / "run").chmod(0o444 if kind == "file" else 0o644)
    words = [sys.executable, "-c", _AS_NOBODY, *WORDS]
    if kind == "directory":
        words[-1] = "new"
    if os.geteuid() != 0:
        words[2] = words[2].replace('main(["get"', 'os.chmod(".", 0o755)\nmain(["get"', 1)
        words[2] = words[2].replace('print("now"', 'os.chmod(".", 0o555)\nprint("now"', 1)
    ended = subprocess.run(words, capture_output=True, timeout=HANG, cwd=open_folder, text=True)
    assert ended.returncode == 3, ended.stderr
    assert "ermission denied" in ended.stderr
    assert "Traceback" not in ended.stderr


VALUES = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(st.characters(codec="utf-8"), max_size=9),
    st.binary(max_size=9),
    st.sampled_from(["done", "whole", "queued", "failed", "[", "[1]", "{}", "null", "/", "out/0"]),
)
COLUMNS = (
    *("url", "origin", "referrer", "more", "status", "path", "size", "digest", "inode", "etag", "modified"),
    *("brought", "attempts", "exit", "error", "message", "ended", "how"),
)


@pytest.mark.parametrize("column", ["more", "referrer"])
def test_ledger_with_deep_json_exits_with_status_3(folder: Path, column: str) -> None:
    (folder / "list").write_text((folder / "missing").as_uri())
    assert resolve(*WORDS, "-q").status == 8
    with closing(sqlite3.connect(folder / "run")) as spoilt:
        spoilt.execute(f"UPDATE object SET {column}=?", ("[" * 100_000,))
        spoilt.commit()
    done = resolve("ledger", "run", "--failed")
    assert (done.status, "has an invalid row" in done.messages) == (3, True)


@pytest.fixture
def no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace fsync in these hundreds of runs: no power loss is tested."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    monkeypatch.setattr(group_commit, "sync_files", lambda fds: {})
    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Counted))


@pytest.mark.usefixtures("no_disk")
@settings(max_examples=examples(120), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from(COLUMNS), st.integers(1, 4), VALUES), min_size=1, max_size=4))
def test_ledger_with_random_values_does_not_crash(
    folder: Path, changes: list[tuple[str, int, object]]
) -> None:
    if not (folder / "list").exists():
        write(folder, 4)
        resolve(*WORDS, "-q")
        (folder / "run").rename(folder / "good")
    (folder / "run").write_bytes((folder / "good").read_bytes())
    (folder / "run").chmod(0o600)
    with closing(sqlite3.connect(folder / "run")) as spoilt:
        for column, number, value in changes:
            try:
                spoilt.execute(f"UPDATE object SET {column}=? WHERE id=?", (value, number))
            except sqlite3.IntegrityError:
                continue
        spoilt.commit()
    for words in (
        ["ledger", "run"],
        ["ledger", "run", "--failed", "--json"],
        [*WORDS, "--json", "--exists", "replace"],
    ):
        assert resolve(*words).status in (0, 1, 2, 3)
    assert sorted(os.listdir(folder / "out")) == ["0", "1", "2", "3"]
