"""Fetch a list into an archive, killed at some moment; then run to the end, and check the result.

`python -m tests.faults.killed_with_archive FOLDER EVERY FIRST URL...` kills before each call that changes a
file or the ledger, or before one of EVERY from FIRST on, and within write calls, of which five times as many
are tried. `FOLDER random TIMES URL...` kills (SIGKILL) TIMES times at random moments. Each run prints a JSON
object. The server is another process; processes are forked here, where no threads run yet.
"""

from __future__ import annotations

import importlib
import io
import json
import os
import random
import signal
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from types import SimpleNamespace

from warcio.checker import Checker

from resolver.cli import main as resolve
from resolver.warc.records import DamagedSpan, WarcRecord, read_records
from tests.faults.killed import CALLS, KILLED, CountedCalls, run_in_child
from tests.faults.killed_with_ledger import Counted
from tests.resolver.warc.archives import Kept, Octets
from tests.scheduled import has_ended

_NEEDED = (
    "idna",
    "protocols.ftp.dialogue",
    "protocols.gopher.dialogue",
    "protocols.http.dialogue",
    "resolver.cli.retrieval_run",
    "resolver.ledger.book",
    "resolver.transfer.saving",
    "resolver.warc.recorder",
)
#: Duration in seconds of the start of a run on an idle machine.
_BEGINNING = 0.06
_NAMES = ("a.warc.gz", "a.warc")


def run(place: Path, name: str, urls: list[str], within: bool = False) -> str:
    """Run the command.

    With `within`, only writes are counted, and the write that is killed stores half of its data.
    """
    if within and CountedCalls.at_work is not None:
        _die_within(CountedCalls.at_work)
    sqlite3.connect = partial(sqlite3.connect, factory=Counted)  # type: ignore[assignment]
    os.chdir(place)
    os.dup2(os.open("said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 2)
    words = ["get", "-q", "--progress", "none", "--ledger", "run.db", "-d", "out", "-j", "1"]
    return str(resolve([*words, "--host-directories", "--warc", name, *urls]))


def _die_within(calls: CountedCalls) -> None:
    left, posix = calls.left, importlib.import_module("posix")
    for call in CALLS:
        if hasattr(posix, call):
            setattr(os, call, getattr(posix, call))
    os.fsync, real = lambda fd: None, posix.write
    CountedCalls.at_work = None

    def write(fd: int, octets: bytes) -> int:
        nonlocal left
        left -= 1
        if left == 0:
            real(fd, bytes(octets)[: len(octets) // 2])
            os._exit(KILLED)
        return int(real(fd, octets))

    os.write = write  # type: ignore[assignment]


def whole(path: Path) -> tuple[int, list[str], bool]:
    """Return the end of the last complete record, the URLs, and whether damage precedes a record."""
    end, urls, damaged = 0, [], False
    for found in read_records(Octets(path.read_bytes() if path.exists() else b""), Kept):
        if isinstance(found, DamagedSpan):
            damaged = damaged or found.resumes is not None
            continue
        assert isinstance(found, WarcRecord)
        damaged = damaged or found.offset < end
        end = found.end
        if found.head.type in ("response", "resource", "revisit") and found.head.target is not None:
            urls.append(found.head.target)
    return end, urls, damaged


def is_accepted_by_warcio(path: Path, size: int) -> bool:
    """Return whether `warcio check` accepts the first `size` bytes of the file."""
    part = path.with_name(f"checked-{path.name}")
    part.write_bytes(path.read_bytes()[:size])
    with redirect_stdout(io.StringIO()):
        return int(Checker(SimpleNamespace(inputs=[str(part)], verbose=False)).process_all()) == 0


def report(place: Path, name: str, urls: list[str], moment: str) -> None:
    """Print the state after the kill, and the result of the next run."""
    path = place / name
    left = path.stat().st_size if path.exists() else 0
    end, _, damaged = whole(path)
    then = is_accepted_by_warcio(path, end) if end else True
    begun = path.read_bytes()[:end] if path.exists() else b""
    if left and not end:  # not even the first record: the file does not show its owner
        path.unlink()
    again, said = run_in_child(partial(run, place, name, urls), None)
    last, found, damaged_now = whole(path)
    told = {
        "moment": moment,
        "left": left,
        "whole": end,
        "right": then and not damaged,
        "status": (again, said),
        "kept": path.read_bytes().startswith(begun),
        "right_now": not damaged_now and last == path.stat().st_size and is_accepted_by_warcio(path, last),
        "missing": sorted(set(urls) - set(found)),
        "temporary": sorted(each.name for each in place.glob(f"{name}.*")),
        "twice": sorted(url for url, count in Counter(found).items() if count > 1),
    }
    print(json.dumps(told), flush=True)


def run_moment(place: Path, name: str, urls: list[str], number: int, *, within: bool) -> bool:
    """Kill a run at this moment; return whether the moment exists."""
    place.mkdir()
    status, _ = run_in_child(partial(run, place, name, urls, within), number)
    if status == KILLED:
        report(place, name, urls, f"{'within write' if within else 'before call'} {number}")
    return status == KILLED


def main(folder: Path, every: int, first: int, urls: list[str]) -> None:
    for row, (name, within) in enumerate((name, within) for name in _NAMES for within in (False, True)):
        step = max(1, every // 5) if within else every
        number = 1 + (first + row) % step
        while run_moment(folder / f"{row}-{number}", name, urls, number, within=within):
            number += step


def at_random(folder: Path, times: int, urls: list[str]) -> None:
    """Kill runs at random moments; an unkilled run shows the final length of the file."""
    chance = random.Random(times)
    for name in _NAMES:
        (folder / f"whole-{name}").mkdir()
        assert run_in_child(partial(run, folder / f"whole-{name}", name, urls), None) == (0, "0")
    for time_ in range(times):
        name = _NAMES[time_ % len(_NAMES)]
        place = folder / str(time_)
        place.mkdir()
        moment = _choose(chance, place / name, (folder / f"whole-{name}" / name).stat().st_size)
        child = os.fork()
        if child == 0:
            run(place, name, urls)
            os._exit(0)
        while not (moment() or has_ended(child)):
            time.sleep(0.0005)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        report(place, name, urls, f"random {time_}")


def _choose(chance: random.Random, path: Path, size: int) -> Callable[[], bool]:
    """Return a random moment: soon, or after a share of the file is written."""
    share = chance.uniform(-0.2, 1)
    if share < 0:
        until = time.monotonic() + chance.uniform(0, _BEGINNING)
        return lambda: time.monotonic() >= until
    return lambda: path.exists() and path.stat().st_size >= share * size


if __name__ == "__main__":
    for needed in _NEEDED:
        importlib.import_module(needed)  # imported once here, and not in every child process
    if sys.argv[2] == "random":
        at_random(Path(sys.argv[1]), int(sys.argv[3]), sys.argv[4:])
    else:
        main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
