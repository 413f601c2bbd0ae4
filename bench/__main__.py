"""Benchmarks: `python -m bench [ROW…]` measures the rows of the benchmark table.

A row compares several contestants (clients). The contestants run in turn, round by round. Without a ROW, all
rows are measured except the long rows. Each row has a time limit, so the run takes ten minutes in total. A
missing contestant is reported and skipped.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from time import perf_counter

import pytest

from bench import figures
from bench.per_fetch import calls_per_fetch
from bench.per_fetch import shown as calls_shown
from bench.programs import versions
from bench.row import Contestant, Missing, Row
from bench.rows import ROWS
from bench.running import in_turn, run

ROUNDS = 5
#: The row that counts function calls instead of measuring time.
CALLS = "calls"


def measure(row: Row, rounds: int | None, folder: Path, *, tiny: bool = False) -> figures.Measured:
    """Measure a row in a new folder, which other users can enter.

    If `rounds` is not set, `ROUNDS` rounds are run. Fewer rounds are run if the time limit of the row is
    reached.
    """
    count = row.tiny if tiny else row.count
    try:
        with row.open(folder, count) as found:
            contestants = [each for each in found if isinstance(each, Contestant)]
            missing = {each.name: each.reason for each in found if isinstance(each, Missing)}
            once = partial(run, look=row.measure == "peak")
            end = perf_counter() + row.seconds
            enough = (lambda: perf_counter() > end) if rounds is None else (lambda: False)
            times = 1 if tiny else row.times
            samples, failed = in_turn(contestants, rounds or ROUNDS, once, times, enough)
            return figures.measured(row, count, contestants, samples, missing | failed)
    except pytest.skip.Exception as reason:
        return figures.measured(row, count, [], {}, {"all of it": str(reason)})


def main(words: Sequence[str]) -> None:
    parser = _parser()
    asked = parser.parse_args(words)
    if unknown := [name for name in asked.rows if name not in {*ROWS, CALLS}]:
        parser.error(f"unknown row {unknown[0]}: expected one of {', '.join([*ROWS, CALLS])}")
    names = asked.rows or [row.name for row in ROWS.values() if not row.long] + [CALLS]
    rounds = 1 if asked.tiny else asked.rounds
    used = versions()
    print("; ".join(f"{name} {version}" for name, version in used.items()))
    print("medians of the rounds, with minimum and maximum", flush=True)
    rows: list[figures.Measured] = []
    counted = {}
    with tempfile.TemporaryDirectory(prefix="resolve-bench-") as top:
        os.chmod(top, 0o755)  # access for servers that drop root privileges
        for name in names:
            if name == CALLS:
                counted = calls_per_fetch()
                print("\n".join(calls_shown(counted)), flush=True)
            else:
                folder = Path(top) / name
                folder.mkdir()
                rows.append(measure(ROWS[name], rounds, folder, tiny=asked.tiny))
                print("\n".join(figures.shown(rows[-1])), flush=True)
    if asked.json:
        told = {"versions": used, "rows": rows, "calls": counted}
        asked.json.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", allow_abbrev=False)
    long = [name for name, row in ROWS.items() if row.long]
    parser.add_argument(
        "rows",
        nargs="*",
        metavar="ROW",
        help=f"one of {', '.join([*ROWS, CALLS])}; by default all except {', '.join(long)}",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results to FILE as JSON")
    parser.add_argument(
        "--rounds", type=int, help=f"rounds of each row, without a time limit (default: at most {ROUNDS})"
    )
    parser.add_argument("--tiny", action="store_true", help="one small round of each row, as a test")
    return parser


if __name__ == "__main__":
    main(sys.argv[1:])
