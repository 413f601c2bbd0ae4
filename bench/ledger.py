"""The time to the first outcome and the memory use for a very long list, with and without a ledger.

`python -m bench.ledger [LINES [DONE [FETCHED]]]`, or `make bench`, measures:

- A list of DONE lines (default 100,000). The ledger records all lines except the last as done.
- A list of FETCHED lines (default 5,000) that name local files. The files are saved twice.
- A list of LINES lines (default 20,000). One line in a hundred names a local file, and the others name a
  missing file. So only the command is measured, not a server. Then the list is run again with the same
  ledger, and killed twenty times.
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from bench.clients import read_memory
from protocols.text import Masked
from resolver.ledger.book import RequestRow

LINES = 20_000
DONE = 100_000
FETCHED = 5_000
ONE_IN = 100
KILLS = 20


class Run(NamedTuple):
    """The results of a run.

    The results are the seconds to the first outcome and to the end, and the memory use at both times in KiB.
    The other results are the number of outcomes by status, and the CPU seconds.
    """

    first: float
    all: float
    rss_begin: int
    rss_end: int
    statuses: dict[str, int]
    processor: float


def run(folder: Path, lines: int, *options: str) -> Run:
    """Run the command to the end; the final memory use is measured after the last outcome."""
    begin = time.perf_counter()
    process = start(folder, *options)
    assert process.stdout is not None
    first, rss_begin, rss_end, statuses = 0.0, 0, 0, dict[str, int]()
    for number, line in enumerate(process.stdout, 1):
        if number == 1:
            first, rss_begin = time.perf_counter() - begin, read_memory(process.pid, "VmRSS")
        if number == lines:
            rss_end = read_memory(process.pid, "VmRSS")
        status = json.loads(line)["status"]
        statuses[status] = statuses.get(status, 0) + 1
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Run(first, time.perf_counter() - begin, rss_begin, rss_end, statuses, used)


def start(folder: Path, *options: str) -> subprocess.Popen[bytes]:
    resolve = [sys.executable, "-m", "resolver", "get", "--json", "-qq", "-j", "8", "-i", "list", *options]
    environment = {**os.environ, "PYTHONPATH": os.getcwd(), "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(resolve, cwd=folder, env=environment, stdout=subprocess.PIPE)


def write_list(folder: Path, lines: int, one_in: int = ONE_IN) -> None:
    source = folder / "source"
    source.mkdir()
    with open(folder / "list", "w", encoding="ascii") as file:
        for number in range(lines):
            if number % one_in == 0:
                (source / f"{number}").write_bytes(b"x" * 1_000)
            file.write(f"{source.as_uri()}/{number}\n")


def write_done(folder: Path, lines: int) -> None:
    """Write a list with the ledger and the files of a complete run; the files are empty to save space."""
    (folder / "done").mkdir()
    for number in range(lines - 1):
        os.mknod(folder / "done" / f"object-{number}.bin")
    with open(folder / "list", "w", encoding="ascii") as file:
        for number in range(lines):
            file.write(f"http://127.0.0.1:9/pub/directory/object-{number}.bin\n")
    (folder / "list.of.none").write_text("")
    subprocess.run(
        [sys.executable, "-m", "resolver", "get", "-qq", "-i", "list.of.none", "--ledger", "done.db"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
        check=True,
    )
    with closing(sqlite3.connect(folder / "done.db")) as database:
        columns = "key, url, origin, without_password, status, how, path, size, asked"
        database.executemany(
            f"INSERT INTO object({columns}) VALUES (?, ?, 'user', 0, 'done', '', ?, 0, 0)",
            (row(folder, number) for number in range(lines - 1)),
        )
        database.commit()


def row(folder: Path, number: int) -> tuple[bytes, str, str]:
    url = f"http://127.0.0.1:9/pub/directory/object-{number}.bin"
    path = str(folder / "done" / f"object-{number}.bin")
    return RequestRow(Masked(url), path, Masked(url)).key, url, path


def kill_often(folder: Path, seconds: float) -> int:
    """Start and kill runs repeatedly; return the number of complete files that a later run fetched again."""
    generator, complete, repeated = random.Random(0), set[str](), 0
    for _ in range(KILLS):
        process = start(folder, "-d", "killed", "--ledger", "killed.db")
        assert process.stdout is not None
        kill_time = time.perf_counter() + generator.uniform(0.5, 0.5 + seconds / KILLS)
        for line in process.stdout:
            record = json.loads(line)
            repeated += record["status"] == "done" and record["path"] in complete
            if time.perf_counter() > kill_time:
                break
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        path = folder / "killed"
        complete = (
            {f"killed/{name}" for name in os.listdir(path) if name.isdecimal()} if path.exists() else set()
        )
    return repeated


def show(name: str, result: Run) -> None:
    rate = sum(result.statuses.values()) / result.all
    statuses = ", ".join(f"{count:,} {status}" for status, count in sorted(result.statuses.items()))
    print(
        f"{name:<22} first {result.first:5.2f} s, all {result.all:7.1f} s ({rate:,.0f}/s), "
        f"processor {result.processor:.1f} s, "
        f"{result.rss_begin / 1024:.1f} MiB at first, {result.rss_end / 1024:.1f} MiB at last; {statuses}",
        flush=True,
    )


def main(lines: int = LINES, done: int = DONE, fetched: int = FETCHED) -> None:
    with tempfile.TemporaryDirectory() as name:
        write_done(Path(name), done)
        size = (Path(name) / "done.db").stat().st_size >> 20
        print(f"a list of {done:,} lines, all except one done; a ledger of {size} MiB")
        options = (
            "-d",
            "done",
            "--ledger",
            "done.db",
            "-t",
            "1",
            "--allow-port",
            "9",
            "--allow-address",
            "127.0.0.0/8",
        )
        show("passed over", run(Path(name), done, *options))
    with tempfile.TemporaryDirectory() as name:
        write_list(Path(name), fetched, 1)
        print(f"a list of {fetched:,} lines, all existing files")
        show("saved", run(Path(name), fetched, "-d", "saved", "--ledger", "run.db"))
        show("the same once more", run(Path(name), fetched, "-d", "saved", "--ledger", "run.db"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_list(folder, lines)
        print(f"a list of {lines:,} lines, one in {ONE_IN} of an existing file")
        show("without a ledger", run(folder, lines, "-d", "without"))
        show("with one", run(folder, lines, "-d", "with", "--ledger", "run.db"))
        print(f"{'the ledger has':<22} {(folder / 'run.db').stat().st_size / 1024 / 1024:.1f} MiB")
        repeated_run = run(folder, lines, "-d", "with", "--ledger", "run.db")
        show("the same once more", repeated_run)
        repeated = kill_often(folder, repeated_run.all)
        print(f"{f'killed {KILLS} times':<22} {repeated} files fetched twice")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
