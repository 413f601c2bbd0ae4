"""`--warc` killed at any moment: complete records stay, and the next run appends to them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.hang import HANG
from tests.sampled import FULL

CHECKOUT = Path(__file__).parents[3]


def moments(folder: Path, *words: str) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "tests.faults.killed_with_archive", str(folder), *words]
    done = subprocess.run(
        command, cwd=CHECKOUT, capture_output=True, timeout=5 * HANG, check=False, text=True
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def urls(at: dict[str, str], folder: Path) -> list[str]:
    served = folder / "served"
    served.mkdir()
    (served / "large").write_bytes(bytes(range(256)) * 2_000)
    (served / "again").write_bytes(bytes(range(256)) * 2_000)
    return [
        f"{at['http']}/about.txt",
        (served / "large").as_uri(),
        f"{at['gopher']}/00/about",
        (served / "again").as_uri(),
        f"{at['ftp']}/pub/a.txt",
    ]


def check(moment: dict[str, Any]) -> None:
    assert moment["right"], moment
    assert moment["kept"], moment
    assert moment["status"] == [0, "0"], moment
    assert moment["right_now"], moment
    assert not moment["missing"], moment
    assert not moment["twice"], moment
    assert not moment["temporary"], moment


def test_warc_killed_around_calls_keeps_complete_records(at: dict[str, str], folder: Path) -> None:
    """Kill at a sample of the calls.

    Each part of the run has another offset. After a run that ended, each URL has a complete object.
    """
    results = moments(folder, *(["1", "0"] if FULL else ["40", "0"]), *urls(at, folder))
    for moment in results:
        check(moment)
    assert {moment["moment"].split()[0] for moment in results} == {"before", "within"}
    assert any(moment["whole"] for moment in results)
    if FULL:
        assert any(moment["left"] > moment["whole"] > 0 for moment in results)


@pytest.mark.slow
def test_warc_killed_at_random_moments_keeps_complete_records(at: dict[str, str], folder: Path) -> None:
    results = moments(folder, "random", "100" if FULL else "4", *urls(at, folder))
    assert len(results) == (100 if FULL else 4)
    for moment in results:
        check(moment)
