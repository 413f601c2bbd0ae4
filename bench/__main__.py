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
from bench.per_fetch import calls_per_fetch, format_calls
from bench.programs import versions
from bench.row import Contestant, Missing, Row
from bench.rows import ROWS
from bench.running import run, run_in_turn

ROUNDS = 5
#: The row that counts function calls instead of measuring time.
CALLS = "calls"


def measure(row: Row, rounds: int | None, folder: Path, *, tiny: bool = False) -> figures.RowResult:
    """Measure a row in a new folder, which other users can enter.

    If `rounds` is not set, `ROUNDS` rounds are run. Fewer rounds are run if the time limit of the row is
    reached.
    """
    count = row.tiny if tiny else row.count
    try:
        with row.open(folder, count) as candidates:
            contestants = [each for each in candidates if isinstance(each, Contestant)]
            missing = {each.name: each.reason for each in candidates if isinstance(each, Missing)}
            run_once = partial(run, watch_memory=row.measure == "peak")
            end = perf_counter() + row.max_seconds
            is_over = (lambda: perf_counter() > end) if rounds is None else (lambda: False)
            runs = 1 if tiny else row.runs_per_round
            samples, failed = run_in_turn(contestants, rounds or ROUNDS, run_once, runs, is_over)
            return figures.evaluate_row(row, count, contestants, samples, missing | failed)
    except pytest.skip.Exception as reason:
        return figures.evaluate_row(row, count, [], {}, {"all of it": str(reason)})


def main(arguments: Sequence[str]) -> None:
    parser = _parser()
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.rows if name not in {*ROWS, CALLS}]:
        parser.error(f"unknown row {unknown[0]}: expected one of {', '.join([*ROWS, CALLS])}")
    names = options.rows or [row.name for row in ROWS.values() if not row.is_long] + [CALLS]
    rounds = 1 if options.tiny else options.rounds
    version_by_name = versions()
    print("; ".join(f"{name} {version}" for name, version in version_by_name.items()))
    print("medians of the rounds, with minimum and maximum", flush=True)
    rows: list[figures.RowResult] = []
    calls = {}
    with tempfile.TemporaryDirectory(prefix="resolve-bench-") as top:
        os.chmod(top, 0o755)  # access for servers that drop root privileges
        for name in names:
            if name == CALLS:
                calls = calls_per_fetch()
                print("\n".join(format_calls(calls)), flush=True)
            else:
                folder = Path(top) / name
                folder.mkdir()
                rows.append(measure(ROWS[name], rounds, folder, tiny=options.tiny))
                print("\n".join(figures.format_row(rows[-1])), flush=True)
    if options.json:
        results = {"versions": version_by_name, "rows": rows, "calls": calls}
        options.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", allow_abbrev=False)
    long = [name for name, row in ROWS.items() if row.is_long]
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
