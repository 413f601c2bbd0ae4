"""Process a list with a ledger repeatedly, killed before each call that changes a file or the ledger.

A last run goes to the end. `python -m tests.faults.killed_with_ledger FOLDER EVERY FIRST` prints a JSON
object for each such moment, or for one of EVERY from FIRST on. The objects are files, so no server is needed.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import sqlite3
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from protocols.file.dialogue import guess_media_type
from resolver.cli import main as resolve
from tests.faults.killed import KILLED, CountedCalls, run_in_child

CONTENT = {name: bytes(range(256)) * size for name, size in (("a", 300), ("b", 1), ("c", 0))}

#: The `exists` setting and the content of the existing file; `tree` fetches a directory with these files.
HELD: tuple[tuple[str, bytes | None], ...] = (("fail", None), ("replace", bytes(76_800)), ("tree", None))


class Counted(sqlite3.Connection):
    """A connection that may end the process before each step of the ledger.

    It does not wait for the disk: see `run_in_child`.
    """

    def execute(self, sql: str, parameters: Sequence[object] = (), /) -> sqlite3.Cursor:  # type: ignore[override]
        _count()
        return super().execute(re.sub("^PRAGMA synchronous=.*", "PRAGMA synchronous=OFF", sql), parameters)

    def executescript(self, sql: str, /) -> sqlite3.Cursor:
        _count()
        return super().executescript(sql)


def _count() -> None:
    if CountedCalls.at_work is not None:
        CountedCalls.at_work.count()


def run(place: Path, list_: Path, exists: str) -> str:
    sqlite3.connect = partial(sqlite3.connect, factory=Counted)  # type: ignore[assignment]
    os.dup2(os.open(place / "out", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 1)
    words = ["get", "-q", "--json", "-j", "1", "--progress", "none", "--ledger", str(place / "ledger")]
    if exists == "tree":
        return str(resolve([*words, "-r", "-d", str(place), (list_.parent / "files").as_uri()]))
    return str(resolve([*words, "--exists", exists, "-i", str(list_), "-d", str(place / "files")]))


def main(folder: Path, every: int, first: int) -> None:
    for module in (
        "resolver.cli.mirror",
        "resolver.trees.robots",
        "protocols.file.dialogue",
        "resolver.cli.retrieval_run",
        "resolver.ledger.book",
        "idna",
        "hashlib",
    ):
        importlib.import_module(module)  # imported once here, and not in every child process
    guess_media_type(b"object")
    source = folder / "files"
    source.mkdir()
    for name, content in CONTENT.items():
        (source / name).write_bytes(content)
    list_ = folder / "list"
    list_.write_text("".join((source / name).as_uri() + "\n" for name in CONTENT))
    for row, (exists, held) in enumerate(HELD):
        number = 1 + (first + row) % every
        while run_moment(folder / f"{exists}-{number}", list_, exists, held, number):
            number += every


def run_moment(place: Path, list_: Path, exists: str, held: bytes | None, number: int) -> bool:
    """Kill a run before call `number`, then run to the end; return whether call `number` exists."""
    (place / ("" if exists == "tree" else "files")).mkdir(parents=True)
    if held is not None:
        (place / "files" / "a").write_bytes(held)
    action = partial(run, place, list_, exists)
    status, _ = run_in_child(action, number)
    if status != KILLED:
        return False
    whole = [name for name in CONTENT if is_whole(place / "files" / name, name)]
    again, said = run_in_child(action, None)
    records = map(json.loads, (place / "out").read_text().splitlines())
    outcomes = {record["path"]: record["status"] for record in records}
    report = {
        "exists": exists,
        "killed_before": number,
        "whole_then": whole,
        "fetched_twice": [n for n in whole if outcomes.get(str(place / "files" / n)) != "skipped"],
        "status": (again, said),
        "wrong": [name for name in CONTENT if not is_whole(place / "files" / name, name)],
        "left": sorted(set(os.listdir(place / "files")) - set(CONTENT)),
        "rows": rows(place / "ledger"),
    }
    print(json.dumps(report), flush=True)
    return True


def is_whole(path: Path, name: str) -> bool:
    return path.exists() and path.read_bytes() == CONTENT[name]


def rows(ledger: Path) -> list[list[object]]:
    connection = sqlite3.connect(ledger)
    try:
        return sorted(
            [os.path.basename(url), status]
            for url, status in connection.execute("SELECT url, status FROM object")
        )
    finally:
        connection.close()


if __name__ == "__main__":
    os.umask(0o022)
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
