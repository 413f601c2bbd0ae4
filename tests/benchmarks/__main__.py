"""`python -m tests.benchmarks [ROW…]`: rows side by side, one contestant after the other, round by round.

Without a ROW all that take no very long time. What is not there is told, and the rest is measured.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from tests.benchmarks import figures
from tests.benchmarks.per_fetch import calls_per_fetch
from tests.benchmarks.per_fetch import shown as calls_shown
from tests.benchmarks.programs import versions
from tests.benchmarks.row import Contestant, Missing, Row
from tests.benchmarks.rows import ROWS
from tests.benchmarks.running import in_turn, run

ROUNDS = 5
#: The row that is counted and not timed.
CALLS = "calls"


def measure(row: Row, rounds: int, *, tiny: bool = False) -> figures.Measured:
    count = row.tiny if tiny else row.count
    with tempfile.TemporaryDirectory(prefix="resolve-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # servers give up root
        try:
            with row.open(folder, count) as found:
                contestants = [each for each in found if isinstance(each, Contestant)]
                missing = {each.name: each.reason for each in found if isinstance(each, Missing)}
                once = partial(run, look=row.measure == "peak")
                samples, failed = in_turn(contestants, rounds, once, 1 if tiny else row.times)
                return figures.measured(row, count, contestants, samples, missing | failed)
        except pytest.skip.Exception as reason:
            return figures.measured(row, count, [], {}, {"all of it": str(reason)})


def main(words: Sequence[str]) -> None:
    parser = _parser()
    asked = parser.parse_args(words)
    if unknown := [name for name in asked.rows if name not in {*ROWS, CALLS}]:
        parser.error(f"there is no row {unknown[0]}; there are {', '.join([*ROWS, CALLS])}")
    names = asked.rows or [row.name for row in ROWS.values() if not row.long] + [CALLS]
    rounds = 1 if asked.tiny else asked.rounds
    used = versions()
    print("; ".join(f"{name} {version}" for name, version in used.items()))
    print(f"medians of {rounds} rounds in turn, and the lowest and the highest", flush=True)
    rows: list[figures.Measured] = []
    counted = {}
    for name in names:
        if name == CALLS:
            counted = calls_per_fetch()
            print("\n".join(calls_shown(counted)), flush=True)
        else:
            rows.append(measure(ROWS[name], rounds, tiny=asked.tiny))
            print("\n".join(figures.shown(rows[-1])), flush=True)
    if asked.json:
        told = {"versions": used, "rounds": rounds, "rows": rows, "calls": counted}
        asked.json.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", allow_abbrev=False)
    long = [name for name, row in ROWS.items() if row.long]
    parser.add_argument(
        "rows",
        nargs="*",
        metavar="ROW",
        help=f"of {', '.join([*ROWS, CALLS])}; unless named not {', '.join(long)}",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="the same as JSON")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"runs of each contestant ({ROUNDS})")
    parser.add_argument("--tiny", action="store_true", help="one round of very little, to see that all works")
    return parser


if __name__ == "__main__":
    main(sys.argv[1:])
