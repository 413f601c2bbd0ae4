"""The number of function calls per warm fetch, counted by cProfile; the number is the same on every machine.

`python -m bench.per_fetch KIND URL FIRST COUNT AT_ONCE [MORE]` runs in a separate process. The calls of FEW
fetches are subtracted from the calls of MANY fetches, by package. The call of a built-in function is counted
for the package of the caller.
"""

from __future__ import annotations

import cProfile
import json
import os
import pstats
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple, TypeAlias, cast

import pytest

from bench.clients import Work, told_by, work_of
from bench.row import environment
from bench.rows import ftp, news, small
from bench.served import served

FEW, MANY = 200, 600
_CHECKOUT = Path(__file__).parents[1]

Rooms: TypeAlias = dict[str, float]
Counted: TypeAlias = dict[str, dict[str, Rooms] | str]


class Fetch(NamedTuple):
    """A resource, the `clients` that fetch the resource, and the number of concurrent fetches."""

    name: str
    kinds: tuple[str, ...]
    open: Callable[[Path, int], AbstractContextManager[str]]
    at_once: int = small.AT_ONCE
    first: int = 0


_Key: TypeAlias = tuple[str, int, str]
_Callers: TypeAlias = dict[_Key, tuple[int, int, float, float]]
_Stats: TypeAlias = dict[_Key, tuple[int, int, float, float, _Callers]]


def room(path: str) -> str:
    """Return the package of a file, such as `resolver/network`, a library, or the standard library."""
    if path.startswith("~"):
        return "Python"
    place = Path(path)
    if place.is_relative_to(_CHECKOUT) and "site-packages" not in path:
        parts = place.relative_to(_CHECKOUT).parts
        if parts[0] in ("bench", "tests"):
            return "who asks"
        return "/".join(parts[:2]).removesuffix(".py")
    _, found, below = path.partition("site-packages/")
    return below.partition("/")[0].removesuffix(".py") if found else "Python"


def rooms_of(stats: _Stats) -> Counter[str]:
    """Return the calls by package; a C function is counted for the package of its caller."""
    calls: Counter[str] = Counter()
    for (path, _, _), (_, count, _, _, callers) in stats.items():
        if path == "~" and callers:
            for (caller, _, _), each in callers.items():
                calls[room(caller)] += each[0]
        else:
            calls[room(path)] += count
    return calls


def count(kind: str, work: Work) -> Counter[str]:
    if work.more:  # remove the files of an earlier run, which have the same names
        shutil.rmtree(work.more)
        os.mkdir(work.more)
    profile = cProfile.Profile()
    profile.runcall(told_by, kind, work)
    return rooms_of(cast(_Stats, pstats.Stats(profile).stats))  # type: ignore[attr-defined]


def one_more(kind: str, work: Work) -> Rooms:
    few = work._replace(many=FEW)
    count(kind, few)  # warm-up: imports and compiles on first use
    difference = count(kind, work._replace(many=MANY))
    difference.subtract(count(kind, few))
    return {name: round(calls / (MANY - FEW), 2) for name, calls in sorted(difference.items()) if calls > 0}


def calls_per_fetch() -> Counted:
    """Return the calls by package for each resource and client, or the reason for a missing result."""
    counted: Counted = {}
    for fetch in FETCHES:
        with tempfile.TemporaryDirectory(prefix="resolve-bench-") as name:
            folder = Path(name)
            folder.chmod(0o755)
            try:
                with fetch.open(folder, MANY) as url:
                    counted[fetch.name] = {kind: _asked(kind, url, fetch, folder) for kind in fetch.kinds}
            except (pytest.skip.Exception, subprocess.CalledProcessError) as reason:
                counted[fetch.name] = str(reason)
    return counted


def _asked(kind: str, url: str, fetch: Fetch, folder: Path) -> Rooms:
    target = folder / "target"
    target.mkdir(exist_ok=True)
    words = [sys.executable, "-m", "bench.per_fetch", kind, url]
    words += map(str, (fetch.first, FEW, fetch.at_once, target))
    done = subprocess.run(words, env=environment(), check=True, stdout=subprocess.PIPE)
    return cast(Rooms, json.loads(done.stdout.splitlines()[-1]))


@contextmanager
def _gopher(folder: Path, count: int) -> Iterator[str]:
    with served("gopher", small.SIZE, 1) as port:
        yield f"gopher://127.0.0.1:{port}/9{{}}"


FETCHES = (
    Fetch("http", ("ours", "transport", "aiohttp", "h11", "httpx"), small.small_files),
    Fetch("gopher", ("ours", "gopher"), _gopher),
    Fetch("saved http", ("saving-group", "saving-never", "get"), small.small_files),
    Fetch("ftp", ("ours",), ftp.small_files, at_once=1),
    Fetch("nntp", ("ours",), news.articles, at_once=128, first=news.FIRST),
)


def shown(counted: Counted) -> Iterator[str]:
    yield "calls: cProfile's count for one more warm fetch"
    for name, found in counted.items():
        if isinstance(found, str):
            yield f"  {name}: not counted: {found}"
            continue
        for kind, rooms in found.items():
            most = sorted(rooms.items(), key=lambda pair: -pair[1])[:6]
            where = ", ".join(f"{place} {calls:.0f}" for place, calls in most)
            yield f"  {name}, {kind}: {sum(rooms.values()):,.0f} ({where})"


if __name__ == "__main__":
    print(json.dumps(one_more(sys.argv[1], work_of(sys.argv[2:]))))
