"""Run schedules in a simulated world: `python -m tests.world --runs N --seed S`."""

from __future__ import annotations

import argparse
import sys
import time

from resolver.testing.world import shrink
from tests.world.scenario import attempt, describe, draw, failure_of


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--runs", type=int, default=200, metavar="N", help="number of schedules (default: 200)"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="first seed (default: 0)")
    parser.add_argument(
        "--failures", type=int, default=3, metavar="N", help="stop after N failures (default: 3)"
    )
    given = parser.parse_args()
    began, transfers, failures, runs = time.monotonic(), 0, 0, 0
    for seed in range(given.seed, given.seed + given.runs):
        runs += 1
        schedule = draw(seed)
        words, count = attempt(schedule)
        transfers += count
        if words is not None:
            failures += 1
            shorter = shrink(schedule, lambda each: failure_of(each) is not None)
            print(describe(shorter, failure_of(shorter) or words), flush=True)
            if failures >= given.failures:
                break
    minutes = (time.monotonic() - began) / 60
    print(f"{runs} schedules, {failures} failures, {transfers} transfers, {transfers / minutes:.0f} a minute")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
