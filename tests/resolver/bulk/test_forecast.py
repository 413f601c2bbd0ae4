"""The forecast of a run's duration, simulated with the plan itself, and its distance from the lower bound."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.bulk_plan import compute_delay, compute_sizes, generate_requests, make_plan, simulate_worker
from resolver.bulk.messages import BulkRequest, RequestSlice
from resolver.bulk.plan import OVERHEAD, WORKERS, BulkPlan, forecast, simulate
from resolver.bulk.queue import BulkScheduler, HostPace, HostShare
from tests.sampled import FULL, sampled

POLITE = HostPace(rate=2.0)

#: The complete suite uses 100,000 URLs over 1,000 hosts, a tenth of those in `python -m bench.bulk_plan`;
#: other runs use 30,000 over 300. The largest host needs minutes, of which a slice is a small part.
MANY = compute_sizes(100_000, 1_000, 5_000) if FULL else compute_sizes(30_000, 300, 2_400)
SLOWEST = MANY[0] / 2.0


@pytest.mark.parametrize("slots", sampled([2, 8, 10, 20, 64, 300], lambda slots: slots in (2, 8, 10)))
def test_simulated_run_is_near_the_lower_bound(slots: int) -> None:
    """The lower bound is the larger of the two; each is the larger one for some of these slots."""
    with make_plan(MANY, POLITE) as plan:
        done = simulate(plan, slots, perform=simulate_worker(POLITE, lambda host: 0.3))
        assert plan.bound == SLOWEST
        assert max(plan.bound, done.work / slots) <= done.makespan + 1e-6
        assert done.makespan <= 1.1 * max(plan.bound, done.work / slots)
        assert (done.work / slots > plan.bound) == (slots <= 10)
        assert done.max_in_flight <= slots
        assert plan.scheduler.waiting == 0


def test_plan_with_wrong_estimates_learns_host_speed() -> None:
    """Hosts take from 0.05 s to 5 s a request, and the plan assumes 1 s each."""
    counts = compute_sizes(20_000, 200, 2_000)
    slowest = max(count * compute_delay(f"h{host}.example.org") / 6 for host, count in enumerate(counts))
    with make_plan(counts, HostPace()) as plan:
        done = simulate(plan, 64, perform=simulate_worker(HostPace(), compute_delay))
    assert done.makespan < 1.2 * slowest
    assert done.slices < 2 * len(counts)


@given(
    st.lists(st.integers(1, 2_000), min_size=1, max_size=60),
    st.integers(1, 30),
    st.integers(1, 16),
    st.floats(0.5, 20),
)
def test_scheduler_leaves_no_slot_idle_with_a_free_partition(
    counts: list[int], slots: int, partitions: int, rate: float
) -> None:
    """The run takes at most the longest partition plus all others' work divided by the slots."""
    turns = BulkScheduler(HostPace(rate=rate), partitions=partitions)
    for number, requests_of_it in enumerate(counts):
        host = turns.add_host(number % partitions, 6)
        for _ in range(requests_of_it):
            turns.add(host)
    tasks = list[tuple[int, float]]()

    def perform(share: HostShare) -> tuple[tuple[()], float]:
        tasks.append((share.partition, share.seconds))
        return (), share.seconds

    done = simulate(turns, slots, perform=perform)
    alone = [sum(seconds for each, seconds in tasks if each == number) for number in range(partitions)]
    assert max(max(alone), sum(alone) / slots) - 1e-6 <= done.makespan
    assert done.makespan <= max(alone) + sum(alone) / slots + 60.0
    assert (done.slices, round(done.work, 3)) == (len(tasks), round(sum(alone), 3))


def test_slices_assigned_in_advance_delay_the_slowest_host() -> None:
    """This is why slices are not assigned in advance."""
    counts = [2_400] + [1_200] * 40
    with make_plan(counts, POLITE) as plan:
        waits = simulate(plan.scheduler.copy(), 21, slices_per_slot=2)
        done = simulate(plan.scheduler.copy(), 21)
    assert done.max_in_flight == 21
    assert waits.max_in_flight > 21
    assert waits.makespan > 1.1 * done.makespan


def test_slices_assigned_in_advance_begin_with_the_most_urgent() -> None:
    with make_plan([600, 120, 100], POLITE) as plan:
        begun = list[str]()

        def perform(slice: RequestSlice) -> tuple[tuple[()], float]:
            begun.append(slice.label.partition(".")[0])
            return (), slice.seconds

        simulate(plan, 1, slices_per_slot=3, perform=perform)
    assert begun == ["h0", "h1", "h0", "h2", "h0", "h0", "h0"]


def test_forecast_reports_bound_and_effect_of_workers() -> None:
    with make_plan(MANY, POLITE) as plan:
        result = forecast(plan, threads=2)
        assert plan.scheduler.waiting == sum(MANY)
        done = simulate(plan, 2)
    assert (result.requests, result.hosts, result.bound) == (sum(MANY), len(MANY), SLOWEST)
    assert result.bound_by == "h0.example.org"
    assert (result.slices, result.expected[1]) == (done.slices, done.makespan)
    assert tuple(result.expected) == WORKERS
    assert result.expected[1] > 3.9 * result.expected[4] > 3.9 * result.expected[16] > 3.9 * SLOWEST
    assert result.largest[0] == ("h0.example.org", MANY[0], SLOWEST)
    assert len(result.largest) == 10
    assert sum(hosts for _, hosts in result.histogram) == len(MANY)


def test_forecast_of_started_plan_covers_the_rest() -> None:
    with make_plan([240], POLITE) as plan:
        slice = plan.take()
        assert slice is not None
        assert forecast(plan).expected[1] == 60 + OVERHEAD
        plan.end(slice, (), 60.0)
        assert forecast(plan).expected[1] == 60 + OVERHEAD


def test_forecast_of_empty_plan_is_zero() -> None:
    with BulkPlan(POLITE) as plan:
        result = forecast(plan)
    assert (result.requests, result.slices, result.bound, result.bound_by) == (
        0,
        0,
        0.0,
        None,
    )
    assert set(result.expected.values()) == {0.0}


def test_plan_memory_does_not_grow_with_requests() -> None:
    """Python's memory; SQLite's has a configured bound (`cache_size`)."""

    def most_held(counts: list[int]) -> int:
        tracemalloc.start()
        try:
            with BulkPlan(POLITE) as plan:
                for request in generate_requests(counts):
                    plan.add(*request)
                simulate(plan, 4)
                return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    few = most_held([40] * 100)
    assert most_held([160] * 100) < 1.5 * few


def test_simulated_slice_follows_host_rate() -> None:
    """The figures above depend on this."""
    items = tuple(BulkRequest(f"http://a.example/{number}", f"a.example/{number}") for number in range(130))
    slice = RequestSlice(0, 0, "a.example", items, True, 60.0)
    rest, seconds = simulate_worker(POLITE, lambda host: 2.0)(slice)
    assert rest == list(items[120:])
    assert seconds == pytest.approx(59.5 + 2.0 + OVERHEAD)
    rest, seconds = simulate_worker(HostPace(), lambda host: 2.0)(slice)
    assert rest == []
    assert seconds == pytest.approx(44.0 + OVERHEAD)
