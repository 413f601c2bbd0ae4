"""`python -m tools.mutation [--changes N] [--seed N] [MODULE…]`: the detection rate, and undetected changes.

The program draws a random sample of the locations that can be changed, and one change per location. So a
location with many possible changes has the same weight as other locations. The same seed draws the same
sample.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue
from typing import TypeAlias

from tests.attempts import NAME
from tests.sets import is_left_out, is_test_left_out
from tools.mutation.changes import Change, find_changes
from tools.mutation.covering import CoverageIndex
from tools.mutation.trial import CHECKOUT, Copy, Outcome, copy_checkout

#: The pytest options that run only the tests of the gate, without retries of failed tests.
GATE = ("--gate", "-p", f"no:{NAME}")

Sample: TypeAlias = "list[tuple[Path, Change]]"


def main(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    data = CHECKOUT / ".coverage"
    if not data.exists():
        print("no coverage data: run make coverage first", file=sys.stderr)
        return 2
    modules = [Path(name) for name in options.modules] or sorted(_modules())
    for name in _find_newer(data, modules):
        print(
            f"{name} is newer than the coverage data: line numbers may differ (run make coverage)",
            file=sys.stderr,
        )
    chosen = sample(modules, options.changes, random.Random(options.seed))
    index = CoverageIndex(data)
    tests = [index.find_tests(module, change.line) for module, change in chosen]
    if options.gate:
        tests = list(map(in_gate, tests))
    results = list(_try_all(chosen, tests, options.jobs, GATE if options.gate else ()))
    if options.json is not None:
        records = [_record(*each, *result) for each, result in zip(chosen, results, strict=True)]
        options.json.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")
    print(_summary(Counter(outcome for outcome, _ in results), options.seed))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.mutation")
    parser.add_argument("--changes", type=int, default=300)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--gate", action="store_true", help="run only the tests of make test")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write a record of each change")
    parser.add_argument(
        "modules", nargs="*", help="modules to change, such as resolver/transfer/retry.py (default: all)"
    )
    return parser


def in_gate(tests: Iterable[str]) -> list[str]:
    """Return the tests that are part of the gate."""
    return [test for test in tests if not is_left_out(test.partition("::")[0]) and not is_test_left_out(test)]


def _modules() -> Iterator[Path]:
    for package in ("protocols", "resolver"):
        yield from (path.relative_to(CHECKOUT) for path in (CHECKOUT / package).rglob("*.py"))


def _find_newer(data: Path, modules: Iterable[Path]) -> Iterator[Path]:
    measured = data.stat().st_mtime
    return (module for module in modules if (CHECKOUT / module).stat().st_mtime > measured)


def sample(modules: Iterable[Path], count: int, generator: random.Random) -> Sample:
    """Return a sample of locations, with one random change for each location."""
    changes_by_place: dict[tuple[Path, int, int], list[Change]] = {}
    for module in modules:
        for change in find_changes((CHECKOUT / module).read_text(encoding="utf-8")):
            changes_by_place.setdefault((module, change.start, change.end), []).append(change)
    selected = generator.sample(sorted(changes_by_place), min(count, len(changes_by_place)))
    return [(place[0], generator.choice(changes_by_place[place])) for place in selected]


def _try_all(
    chosen: Sample, tests: Sequence[list[str]], jobs: int, options: Sequence[str]
) -> Iterator[tuple[Outcome, str]]:
    """Try all changes; yield the outcome of each change, and print each undetected change immediately."""
    with ExitStack() as stack, ThreadPoolExecutor(jobs) as pool:
        free: SimpleQueue[Copy] = SimpleQueue()
        for _ in range(jobs):
            free.put(stack.enter_context(copy_checkout(options)))

        def try_one(number: int) -> tuple[Outcome, str]:
            copy = free.get()
            try:
                return copy.try_out(*chosen[number], tests[number])
            finally:
                free.put(copy)

        for number, result in enumerate(pool.map(try_one, range(len(chosen)))):
            if result[0] is not Outcome.NOTICED:
                print(_describe(*chosen[number], result[0], len(tests[number])), flush=True)
            yield result


def _record(module: Path, change: Change, outcome: Outcome, killer: str) -> dict[str, str | int]:
    """Return the JSON record of a change; `killer` is the failed test, or empty if it is unknown."""
    return {
        "module": module.as_posix(),
        "line": change.line,
        "was": change.was,
        "becomes": change.becomes,
        "outcome": outcome.value,
        "killer": killer,
    }


def _describe(module: Path, change: Change, outcome: Outcome, tests: int) -> str:
    was, becomes = (" ".join(text.split()) for text in (change.was, change.becomes))
    return f"{module}:{change.line}: {outcome.value} ({tests} tests)\n    {was}\n    {becomes}"


def _summary(outcomes: Counter[Outcome], seed: int) -> str:
    tried = outcomes.total() - outcomes[Outcome.TOO_SLOW]
    rate = 100 * outcomes[Outcome.NOTICED] / max(1, tried)
    counts = ", ".join(f"{count} {outcome.value}" for outcome, count in outcomes.most_common())
    return f"{rate:.1f} % of {tried} changes detected (seed {seed}): {counts}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
