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
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple, TypeAlias, cast

import pytest

from bench.clients import Work, measure_client, parse_work
from bench.row import environment
from bench.rows import ftp, news, small

FEW, MANY = 200, 600
_CHECKOUT = Path(__file__).parents[1]

CallsByPackage: TypeAlias = dict[str, float]
CallCounts: TypeAlias = dict[str, dict[str, CallsByPackage] | str]


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


def find_package(path: str) -> str:
    """Return the package of a file, such as `resolver/network`, a library, or the standard library."""
    if path.startswith("~"):
        return "Python"
    file = Path(path)
    if file.is_relative_to(_CHECKOUT) and "site-packages" not in path:
        parts = file.relative_to(_CHECKOUT).parts
        if parts[0] in ("bench", "tests"):
            return "who asks"
        return "/".join(parts[:2]).removesuffix(".py")
    _, separator, relative_path = path.partition("site-packages/")
    return relative_path.partition("/")[0].removesuffix(".py") if separator else "Python"


def count_by_package(stats: _Stats) -> Counter[str]:
    """Return the calls by package; a C function is counted for the package of its caller."""
    calls: Counter[str] = Counter()
    for (path, _, _), (_, number, _, _, callers) in stats.items():
        if path == "~" and callers:
            for (caller, _, _), each in callers.items():
                calls[find_package(caller)] += each[0]
        else:
            calls[find_package(path)] += number
    return calls


def count_calls(kind: str, work: Work) -> Counter[str]:
    if work.more:  # remove the files of an earlier run, which have the same names
        shutil.rmtree(work.more)
        os.mkdir(work.more)
    profile = cProfile.Profile()
    profile.runcall(measure_client, kind, work)
    return count_by_package(cast(_Stats, pstats.Stats(profile).stats))  # type: ignore[attr-defined]


def measure_fetch(kind: str, work: Work) -> CallsByPackage:
    few_work = work._replace(total=FEW)
    count_calls(kind, few_work)  # warm-up: imports and compiles on first use
    difference = count_calls(kind, work._replace(total=MANY))
    difference.subtract(count_calls(kind, few_work))
    return {name: round(calls / (MANY - FEW), 2) for name, calls in sorted(difference.items()) if calls > 0}


def calls_per_fetch() -> CallCounts:
    """Return the calls by package for each resource and client, or the reason for a missing result."""
    counts: CallCounts = {}
    for fetch in FETCHES:
        with tempfile.TemporaryDirectory(prefix="resolve-bench-") as name:
            folder = Path(name)
            folder.chmod(0o755)
            try:
                with fetch.open(folder, MANY) as url:
                    counts[fetch.name] = {kind: _count(kind, url, fetch, folder) for kind in fetch.kinds}
            except (pytest.skip.Exception, subprocess.CalledProcessError) as reason:
                counts[fetch.name] = str(reason)
    return counts


def _count(kind: str, url: str, fetch: Fetch, folder: Path) -> CallsByPackage:
    target = folder / "target"
    target.mkdir(exist_ok=True)
    argv = [sys.executable, "-m", "bench.per_fetch", kind, url]
    argv += map(str, (fetch.first, FEW, fetch.at_once, target))
    done = subprocess.run(argv, env=environment(), check=True, stdout=subprocess.PIPE)
    return cast(CallsByPackage, json.loads(done.stdout.splitlines()[-1]))


FETCHES = (
    Fetch("http", ("ours", "transport", "aiohttp", "h11", "httpx"), small.serve_small_files),
    Fetch("gopher", ("ours", "gopher"), small.serve_gopher),
    Fetch("saved http", ("saving-group", "saving-never", "get"), small.serve_small_files),
    Fetch("ftp", ("ours",), ftp.serve_small_files, at_once=1),
    Fetch("nntp", ("ours",), news.serve_articles, at_once=128, first=news.FIRST),
)


def format_calls(counts: CallCounts) -> Iterator[str]:
    yield "calls: cProfile's count for one more warm fetch"
    for name, calls_by_client in counts.items():
        if isinstance(calls_by_client, str):
            yield f"  {name}: not counted: {calls_by_client}"
            continue
        for kind, calls in calls_by_client.items():
            top = sorted(calls.items(), key=lambda pair: -pair[1])[:6]
            details = ", ".join(f"{package} {number:.0f}" for package, number in top)
            yield f"  {name}, {kind}: {sum(calls.values()):,.0f} ({details})"


if __name__ == "__main__":
    print(json.dumps(measure_fetch(sys.argv[1], parse_work(sys.argv[2:]))))
