"""The session in a simulated world with injected faults.

The gate runs fixed schedules. `make test-full` runs thousands of random seeds.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import get_args

import pytest

from resolver.testing.world import Fault, LoopName, Schedule, shrink
from tests.sampled import FULL, SEED, sampled
from tests.world.runs import Scenario, attempt, describe, draw, failure_of, new_directory
from tests.world.scenario import Life, Run, Transport

LOOPS: tuple[LoopName, ...] = get_args(LoopName)
TRANSPORTS: tuple[Scenario, ...] = ("tls", "udp")


def _found(
    seed: int, *faults: Fault, loop: LoopName = "trio", scenario: Scenario = "save"
) -> tuple[Schedule, LoopName, Scenario]:
    return Schedule(seed, faults), loop, scenario


#: Schedules of injected faults that revealed a defect in the past, after shrinking.
FOUND = {
    "the state of a partial file is lost": _found(134, Fault("power", 37)),
    "the state is lost before its rename": _found(428, Fault("power", 20)),
    "a descriptor is closed twice after an error": _found(
        20_738, Fault("power", 105), Fault("unnamed", 2), Fault("lag", 1, 390), Fault("EIO", 8, 0, 1)
    ),
    "an MLSD listing that ends in the middle of a line is complete": _found(309, Fault("cut", 7, 37)),
    "the state of an existing file that is resumed is lost": _found(
        30_189, Fault("power", 12, 0, 1), Fault("power", 48, 0, 2)
    ),
    "the state is lost between link and unlink": _found(16, Fault("power", 85)),
    "a sync keeps a newer token, but not the earlier renames": _found(77_000_967, Fault("power", 109, 0, 2)),
    "a sync keeps a larger size, but not the earlier rename of the state": _found(
        81_000_837, Fault("EIO", 8), Fault("power", 65), Fault("power", 3, 0, 1), Fault("power", 77, 0, 2)
    ),
    "the token of an existing file is missing on a full disk": _found(
        77_002_160, Fault("ENOSPC", 3, 0, 2), Fault("power", 94, 0, 2)
    ),
    "a temporary state file stays if the next run has no ledger": _found(
        310_003_057, Fault("kill", 95), Fault("SQLITE_FULL", 1, 0, 1)
    ),
    "files are missing after a listing by LIST ended in the middle of a line": _found(
        1_795_926_475_000_440,
        Fault("power", 97),
        Fault("EMFILE", 59, 0, 1),
        Fault("cut", 3, 234, 2),
        Fault("lag", 1, 156, 2),
    ),
    "an empty existing file is removed after a kill": _found(
        200_001_366, Fault("power", 96, 0, 1), Fault("power", 20, 0, 2)
    ),
    "a complete file of a killed run is refused after EMFILE": _found(
        200_001_708, Fault("ENOSPC", 1), Fault("kill", 88, 0, 1), Fault("EMFILE", 2, 0, 2), loop="asyncio"
    ),
    "a capture is skipped because of a truncated capture with all bytes": _found(
        71, Fault("ENOSPC", 11), Fault("power", 65), loop="asyncio", scenario="tls"
    ),
    "an unsynced archive is lost and created again": _found(
        300_000_825, Fault("kill", 11), Fault("power", 11, 0, 1), scenario="warc"
    ),
    "an unsynced second file of an archive is lost and created again": _found(
        300_000_132, Fault("power", 10, 0, 2), scenario="warc"
    ),
    "an archive of three killed runs is lost and created again": _found(
        300_002_540,
        Fault("kill", 44),
        Fault("kill", 3, 0, 1),
        Fault("power", 4, 0, 2),
        loop="asyncio",
        scenario="warc",
    ),
    "an archive with an incomplete first record is damaged": _found(
        215, Fault("short", 2), Fault("power", 10), scenario="udp"
    ),
    "a file of an archive has no warcinfo record after a disk error": _found(
        300_002_070,
        Fault("EIO", 8),
        Fault("EIO", 109, 0, 1),
        Fault("ENOSPC", 79, 0, 1),
        loop="asyncio",
        scenario="warc",
    ),
    "the first record of an archive is incomplete after a short write": _found(
        300_006_281, Fault("power", 39), Fault("short", 2), scenario="warc"
    ),
    "a truncated record replaces the record of the complete object": _found(
        300_002_375, Fault("kill", 92), Fault("cut", 2, 186), loop="asyncio", scenario="warc"
    ),
    "the clock of asyncio advances while a peer works": _found(
        310_000_068, Fault("timeout", 6, 1194, 1), loop="asyncio", scenario="cancel"
    ),
    "a file has both names because the old name cannot be removed": _found(
        5_001_030, Fault("EIO", 28), scenario="warc"
    ),
}


@pytest.mark.parametrize(("schedule", "loop", "scenario"), FOUND.values(), ids=FOUND)
def test_world_repeats_schedule_that_failed_before(
    schedule: Schedule, loop: LoopName, scenario: Scenario
) -> None:
    assert failure_of(schedule, loop, scenario) is None


@pytest.mark.parametrize(
    ("loop", "seeds"), [("trio", range(12 if FULL else 6)), ("asyncio", range(20, 26 if FULL else 23))]
)
def test_world_holds_invariants_for_fixed_seeds(loop: LoopName, seeds: Iterable[int]) -> None:
    check_seeds(loop, "save", seeds)


@pytest.mark.parametrize("loop", LOOPS)
def test_world_holds_invariants_after_cancellations(loop: LoopName) -> None:
    """With the seeds 3 and 65, a reused connection of a cancelled transfer gives bytes of another object."""
    check_seeds(loop, "cancel", (3, 65, 72))


@pytest.mark.parametrize("loop", LOOPS)
def test_world_holds_invariants_of_archive(loop: LoopName) -> None:
    """With seed 16, a power loss truncated the index of an archive."""
    check_seeds(loop, "warc", (1, 16))


TRANSPORT_ROWS = sampled(product(TRANSPORTS, LOOPS), lambda row: row[0])


@pytest.mark.parametrize(("scenario", "loop"), TRANSPORT_ROWS)
def test_world_holds_invariants_of_transport(loop: LoopName, scenario: Scenario) -> None:
    """The seeds select two runs of `save`, one run of `cancel`, and one run of `warc`."""
    check_seeds(loop, scenario, range(4))


def check_seeds(loop: LoopName, scenario: Scenario, seeds: Iterable[int]) -> None:
    for seed in seeds:
        schedule = draw(seed, scenario)
        words, _ = attempt(schedule, loop, scenario)
        if words is not None:
            shorter = shrink(schedule, lambda each: failure_of(each, loop, scenario) is not None)
            words = failure_of(shorter, loop, scenario) or words
            pytest.fail(describe(shorter, words, loop, scenario))


@pytest.mark.parametrize("part", range(20))
@pytest.mark.parametrize(
    ("scenario", "count"), [("save", 200), ("cancel", 50), ("warc", 50), ("tls", 50), ("udp", 50)]
)
@pytest.mark.parametrize("loop", LOOPS)
def test_world_holds_invariants_for_many_seeds(
    loop: LoopName, scenario: Scenario, count: int, part: int
) -> None:
    first = SEED * 1_000_000 + part * 200
    check_seeds(loop, scenario, range(first, first + (count if FULL else count // 10)))


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("transport", get_args(Transport))
def test_world_repeats_run_of_seed_exactly(loop: LoopName, transport: Transport) -> None:
    schedule = Schedule(5, (Fault("reset", 2, 300), Fault("late", 9, 900), Fault("power", 60)))
    first, second = (_events_of(schedule, loop, transport) for _ in range(2))
    assert first == second
    assert len(first) > 10


def _events_of(schedule: Schedule, loop: LoopName, transport: Transport) -> list[str]:
    with new_directory() as directory:
        run = Run(schedule, directory, loop, transport)
        life, other = Life(), Life()
        run.world.live(lambda: run.fetch(life, other))
        return [f"{type(event).__name__} {run.world.steps}" for event in life.events]


def test_shrink_keeps_only_faults_that_failure_needs() -> None:
    faults = tuple(Fault("cut", number) for number in range(1, 8))
    tried: list[Schedule] = []

    def fails(schedule: Schedule) -> bool:
        tried.append(schedule)
        return {Fault("cut", 2), Fault("cut", 6)} <= set(schedule.faults)

    assert shrink(Schedule(7, faults), fails) == Schedule(7, (Fault("cut", 2), Fault("cut", 6)))
    assert len(tried) == len(faults)
