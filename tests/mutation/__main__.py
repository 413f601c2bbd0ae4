"""`python -m tests.mutation [--changes N] [--seed N] [MODULE…]`: the rate, and what got through.

The sample is drawn from the places that can be changed, each once, so that a line with many ways to change
it does not count more. A seed draws the same ones again.
"""

from __future__ import annotations

import argparse
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

from tests.mutation.changes import Change, changes_in
from tests.mutation.covering import Covering
from tests.mutation.trial import CHECKOUT, Copy, Outcome, copied

Sample: TypeAlias = "list[tuple[Path, Change]]"


def main(words: Sequence[str]) -> int:
    wanted = _parser().parse_args(words)
    data = CHECKOUT / ".coverage"
    if not data.exists():
        print("make coverage first: it tells which tests run a line", file=sys.stderr)
        return 2
    modules = [Path(name) for name in wanted.modules] or sorted(_modules())
    for name in _younger(data, modules):
        print(f"{name} is newer than what make coverage told: its lines may have moved", file=sys.stderr)
    chosen = sample(modules, wanted.changes, random.Random(wanted.seed))
    outcomes = Counter(_try_all(chosen, Covering(data), wanted.jobs))
    print(_summary(outcomes, wanted.seed))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation")
    parser.add_argument("--changes", type=int, default=300)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("modules", nargs="*", help="resolver/retrieval/retry.py …; all without")
    return parser


def _modules() -> Iterator[Path]:
    for package in ("protocols", "resolver"):
        yield from (path.relative_to(CHECKOUT) for path in (CHECKOUT / package).rglob("*.py"))


def _younger(data: Path, modules: Iterable[Path]) -> Iterator[Path]:
    told = data.stat().st_mtime
    return (module for module in modules if (CHECKOUT / module).stat().st_mtime > told)


def sample(modules: Iterable[Path], count: int, chance: random.Random) -> Sample:
    """So many places, and for each one of the ways to change it."""
    places: dict[tuple[Path, int, int], list[Change]] = {}
    for module in modules:
        for change in changes_in((CHECKOUT / module).read_text(encoding="utf-8")):
            places.setdefault((module, change.start, change.end), []).append(change)
    drawn = chance.sample(sorted(places), min(count, len(places)))
    return [(place[0], chance.choice(places[place])) for place in drawn]


def _try_all(chosen: Sample, covering: Covering, jobs: int) -> Iterator[Outcome]:
    """Each told as soon as it is known, unless it was noticed."""
    tests = [covering.tests_of(module, change.line) for module, change in chosen]
    with ExitStack() as stack, ThreadPoolExecutor(jobs) as pool:
        free: SimpleQueue[Copy] = SimpleQueue()
        for _ in range(jobs):
            free.put(stack.enter_context(copied()))

        def try_one(number: int) -> Outcome:
            copy = free.get()
            try:
                return copy.try_out(*chosen[number], tests[number])
            finally:
                free.put(copy)

        for number, outcome in enumerate(pool.map(try_one, range(len(chosen)))):
            if outcome is not Outcome.NOTICED:
                print(_told(*chosen[number], outcome, len(tests[number])), flush=True)
            yield outcome


def _told(module: Path, change: Change, outcome: Outcome, tests: int) -> str:
    was, becomes = (" ".join(text.split()) for text in (change.was, change.becomes))
    return f"{module}:{change.line}: {outcome.value} ({tests} tests)\n    {was}\n    {becomes}"


def _summary(outcomes: Counter[Outcome], seed: int) -> str:
    told = outcomes.total() - outcomes[Outcome.TOO_SLOW]
    rate = 100 * outcomes[Outcome.NOTICED] / max(1, told)
    counts = ", ".join(f"{count} {outcome.value}" for outcome, count in outcomes.most_common())
    return f"{rate:.1f} % noticed of {told} changes (seed {seed}): {counts}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
