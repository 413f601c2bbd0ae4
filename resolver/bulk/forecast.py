"""How long a run will take: the plan itself, played through in a time that nobody waits for.

What is played is what decides in a real run (`Turns`), on a copy of its numbers; only who would fetch is not
there, and every slice takes as long as is thought. So a forecast knows what hosts may be asked, and what a
cluster can do, and guesses how soon hosts answer.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any, Protocol, TypeVar

from protocols.values import NamedTuple
from resolver.bulk.plan import BulkPlan

#: For so many workers it is said how long it will take.
WORKERS = (1, 4, 16)

#: Slices that are handed out for each slot. With none at hand a slot is idle for as long as a message takes,
#: once a minute. With more, those of the slowest host wait behind those of others: with two it takes a fifth
#: longer where a cluster is as large as it can be of use (`python -m bench.bulk_plan`).
AHEAD = 1.0

#: Seconds that a slice takes besides its requests: to be handed out, to connect, to be accounted for.
BESIDES = 0.2

#: Hosts that are told one by one.
_MOST = 10


class ForecastTask(Protocol):
    """A slice, or a share: how long it will take."""

    @property
    def seconds(self) -> float: ...


T = TypeVar("T", bound=ForecastTask)


class Planner(Protocol[T]):
    """What decides: a `BulkPlan`, or its `Turns`."""

    def take(self) -> T | None: ...

    def end(self, task: T, left: Sequence[Any], seconds: float, /) -> None: ...

    def urgency(self, task: T, /) -> float: ...


class SimulatedRun(NamedTuple):
    """What came of it: seconds until the last slice was over, how many there were, how many of them at most
    had been handed out at once, and for how many seconds slots were busy, all together."""

    makespan: float
    slices: int
    most_in_flight: int
    work: float


class Forecast(NamedTuple):
    """`bound` are the seconds that it takes at least, for the host `bound_by`; `expected` those for so many
    workers. `largest` are the hosts that need longest, with their requests and seconds; `histogram` says how
    many hosts have 1 to 9 requests, 10 to 99 and so on: the least, and the hosts. `each` is how many seconds
    a request is thought to take."""

    requests: int
    hosts: int
    slices: int
    bound: float
    bound_by: str | None
    expected: Mapping[int, float]
    largest: tuple[tuple[str, int, float], ...]
    histogram: tuple[tuple[int, int], ...]
    each: float = 1.0


def forecast(plan: BulkPlan, *, threads: int = 1) -> Forecast:
    """What is before a plan, which stays as it is. `threads` are those of each worker."""
    played = {workers: simulate(plan.turns(), workers * threads) for workers in WORKERS}
    largest = plan.largest(_MOST)
    return Forecast(
        requests=plan.requests,
        hosts=plan.hosts,
        slices=played[WORKERS[0]].slices,
        bound=plan.bound,
        bound_by=largest[0][0] if largest else None,
        expected={workers: each.makespan for workers, each in played.items()},
        largest=tuple(largest),
        histogram=tuple(plan.histogram()),
        each=plan.pace.each,
    )


def as_thought(task: ForecastTask) -> tuple[Sequence[Any], float]:
    """All of it was done, in the time that was thought of."""
    return (), task.seconds + BESIDES


def simulate(
    planner: Planner[T],
    slots: int,
    *,
    perform: Callable[[T], tuple[Sequence[Any], float]] = as_thought,
    ahead: float = AHEAD,
) -> SimulatedRun:
    """Play it to its end, with so many slots. `perform` says of a slice what would be left of it, and
    how long it would take. `ahead` slices are handed out for each slot; a slot that is free begins the
    most urgent of them, and only then does anybody hear that its last one is over."""
    now, work, number, most = 0.0, 0.0, count(), 0
    at_hand: list[tuple[float, int, T]] = []
    running: list[tuple[float, int, T, Sequence[Any], float]] = []
    room = max(slots, int(slots * ahead))

    def begin() -> None:
        nonlocal work
        while at_hand and len(running) < slots:
            _, each, task = heapq.heappop(at_hand)
            left, seconds = perform(task)
            work += seconds
            heapq.heappush(running, (now + seconds, each, task, left, seconds))

    while True:
        begin()
        while len(running) + len(at_hand) < room and (task := planner.take()) is not None:
            heapq.heappush(at_hand, (-planner.urgency(task), next(number), task))
        most = max(most, len(running) + len(at_hand))
        begin()
        if not running:
            return SimulatedRun(now, next(number), most, work)
        now, _, ended, left, seconds = heapq.heappop(running)
        begin()
        planner.end(ended, left, seconds)
