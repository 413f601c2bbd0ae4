"""Long use of one session: many fetches with faults and cancellations leave nothing behind.

The gate counts descriptors, threads and tasks after a few hundred fetches. `make test-full` runs 50,000
fetches for each loop in a separate process, and also measures its memory.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fresh import environment
from tests.sampled import SEED
from tests.soak.leaks import LEAKS
from tests.soak.measure import Bounds, Sample, growth
from tests.soak.peers import Target, started
from tests.soak.soak import RUNS, Soak

#: The highest growth over the last 40,000 of 50,000 fetches. Measured with Python 3.11: 1,548 KiB and 3,790
#: blocks under trio, 1,500 KiB and 1,038 blocks under asyncio, 2,464 KiB and 703 blocks in threads. Python
#: leaks most of these bytes: a TLS session of 7 KB for each ftps login. Single samples differ by 500 KiB and
#: 4,500 blocks. The pool has other connections at each sample, so the counts of objects differ by up to 60.
BOUNDS = Bounds(resident=3_072, blocks=8_000, objects=100)
_FETCHES, _ROUNDS = 50_000, 5

_FEW = 99


@pytest.fixture(scope="module")
def targets() -> Iterator[list[Target]]:
    with started() as (cafile, found), pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", cafile)
        yield found


def few(targets: list[Target], folder: Path) -> Soak:
    return Soak(targets, str(folder), _FEW, rounds=3, seed=SEED, silent=False, memory=False)


@pytest.mark.parametrize("loop", RUNS)
def test_soak_leaves_no_descriptor_thread_or_task(loop: str, targets: list[Target], tmp_path: Path) -> None:
    soak = few(targets, tmp_path)
    RUNS[loop](soak)
    assert growth(soak.samples) == []
    assert soak.outcomes.total() >= _FEW
    assert len(soak.outcomes) > 5


def test_soak_finds_connection_that_is_not_closed(targets: list[Target], tmp_path: Path) -> None:
    soak = few(targets, tmp_path)
    with LEAKS["connection"]():
        RUNS["trio"](soak)
    assert [each.partition(":")[0] for each in growth(soak.samples)] == ["descriptors"]


def run_long(loop: str, leak: str, fetches: int) -> list[Sample]:
    """Run the soak in a new process, in which warnings are errors.

    The process has one arena of malloc. Otherwise glibc creates arenas for the short-lived threads of
    look-ups and file operations, which adds 1.7 MiB to the growth of the blocking calls.
    """
    command = [sys.executable, "-W", "error", "-m", "tests.soak", loop, "--leak", leak, "--seed", str(SEED)]
    done = subprocess.run(
        [*command, "--fetches", str(fetches), "--rounds", str(_ROUNDS)],
        cwd=Path(__file__).parents[2],
        env={**environment(), "MALLOC_ARENA_MAX": "1"},
        stdout=subprocess.PIPE,
        check=True,
    )
    told = json.loads(done.stdout)
    assert told["unraisable"] == []
    return [Sample(**each) for each in told["samples"]]


@pytest.mark.parametrize("loop", RUNS)
def test_soak_of_50000_fetches_keeps_memory_descriptors_threads_and_tasks(loop: str) -> None:
    assert growth(run_long(loop, "none", _FETCHES), BOUNDS) == []


@pytest.mark.parametrize(
    ("leak", "found"), [("dictionary", "blocks"), ("state", "protocols.ftp.control.Control")]
)
def test_soak_finds_planted_leak_of_memory(leak: str, found: str) -> None:
    grown = growth(run_long("trio", leak, _FETCHES // 5), BOUNDS)
    assert found in [each.partition(":")[0] for each in grown]


def test_growth_reports_descriptors_threads_tasks_and_memory() -> None:
    first = Sample(1, 10, 1, 4, 40_000, 100_000, {"resolver.Url": 5})
    other = Sample(2, 11, 2, 5, 40_011, 100_011, {"resolver.Url": 16, "resolver.Entry": 11})
    bounds = Bounds(resident=10, blocks=10, objects=10)
    names = ["descriptors", "threads", "tasks", "resident", "blocks", "resolver.Entry", "resolver.Url"]
    assert [each.partition(":")[0] for each in growth([first, other], bounds)] == names
    assert growth([first, first], bounds) == growth([first, first]) == []
