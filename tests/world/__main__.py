"""Run random schedules of faults: `python -m tests.world --runs N --seed S --loop asyncio`."""

from __future__ import annotations

import argparse
import sys
import time
from typing import get_args

from resolver.testing.world import LoopName, shrink
from tests.world.runs import Scenario, attempt, describe, draw, failure_of


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.world", description="Run schedules of faults.")
    parser.add_argument(
        "--runs", type=int, default=200, metavar="N", help="number of schedules (default: 200)"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="first seed (default: 0)")
    parser.add_argument(
        "--failures", type=int, default=3, metavar="N", help="stop after N failures (default: 3)"
    )
    parser.add_argument(
        "--loop", choices=get_args(LoopName), default="trio", help="event loop of the client (default: trio)"
    )
    parser.add_argument(
        "--scenario", choices=get_args(Scenario), default="save", help="kind of the runs (default: save)"
    )
    given = parser.parse_args()
    where = given.loop, given.scenario
    began, worked = time.monotonic(), time.process_time()
    transfers = failures = runs = 0
    while runs < given.runs and failures < given.failures:
        schedule = draw(given.seed + runs, given.scenario)
        words, count = attempt(schedule, *where)
        runs += 1
        transfers += count
        if words is not None:
            failures += 1
            shorter = shrink(schedule, lambda each: failure_of(each, *where) is not None)
            print(describe(shorter, failure_of(shorter, *where) or words, *where), flush=True)
    minutes, of_work = (time.monotonic() - began) / 60, (time.process_time() - worked) / 60
    print(f"{runs} schedules, {failures} failures, {transfers} transfers")
    print(f"{transfers / minutes:.0f} transfers a minute, {transfers / of_work:.0f} a minute of CPU time")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
