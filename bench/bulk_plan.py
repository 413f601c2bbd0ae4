"""A simulation of the planner of bulk runs with many URLs, in virtual time.

`python -m bench.bulk_plan [URLS [HOSTS [LARGEST]]]`. The defaults are 1,000,000 URLs on 10,000 hosts. The
largest host has 50,000 URLs. The rate limit is two requests per second and host.

For several numbers of slots, the benchmark reports the duration of the plan, and the ratio of this duration
to the theoretical minimum. It also reports the CPU time and memory of the planning. The benchmark then
measures a plan with a wrong estimate of the response times. Finally, it measures the cost of planning more
slices ahead.
"""

from __future__ import annotations

import heapq
import resource
import subprocess
import sys
import time
from bisect import bisect
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from hashlib import sha256
from itertools import accumulate, count
from math import gcd

from resolver.bulk.messages import BulkRequest, RequestSlice
from resolver.bulk.plan import OVERHEAD, BulkPlan, simulate
from resolver.bulk.queue import MAX_SECONDS, HostPace

URLS, HOSTS, LARGEST = 1_000_000, 10_000, 50_000
RATE = 2.0
SLOTS = (1, 4, 16, 64, 256)


def compute_sizes(urls: int, hosts: int, largest: int) -> list[int]:
    """Return the number of URLs of each host by Zipf's law, the largest number first.

    The exponent of the distribution is chosen so that the sum of the numbers is `urls`.
    """
    low, high = 0.0, 4.0
    for _ in range(50):
        middle = (low + high) / 2
        is_large = sum(largest / rank**middle for rank in range(1, hosts + 1)) > urls
        low, high = (middle, high) if is_large else (low, middle)
    return [max(1, round(largest / rank**high)) for rank in range(1, hosts + 1)]


def generate_requests(counts: Sequence[int]) -> Iterator[tuple[BulkRequest, str, str]]:
    """Yield all requests in pseudorandom order, without storing all requests in memory."""
    until = list(accumulate(counts))
    step = next(step for step in count(int(until[-1] * 0.618)) if gcd(step, until[-1]) == 1)
    for number in range(until[-1]):
        name = f"h{bisect(until, number * step % until[-1])}.example.org"
        yield (
            BulkRequest(f"http://{name}/{number}.html", f"{name}/{number % 256:02x}/{number}.html"),
            name,
            "http",
        )


def make_plan(counts: Sequence[int], pace: HostPace) -> BulkPlan:
    plan = BulkPlan(pace)
    for request in generate_requests(counts):
        plan.add(*request)
    return plan


def simulate_worker(
    pace: HostPace, delay: Callable[[str], float]
) -> Callable[[RequestSlice], tuple[list[BulkRequest], float]]:
    """Return a simulated worker that starts the requests of a slice as early as the rate limit permits.

    `delay` is a function that returns the response time of a host.
    """

    def perform(slice: RequestSlice) -> tuple[list[BulkRequest], float]:
        deferred, end = list[BulkRequest](), 0.0
        ready = defaultdict[str, float](float)
        host_free = defaultdict[str, list[float]](lambda: [0.0] * (pace.per_host or 6))
        free = [0.0] * pace.at_once
        for item in slice.items:
            host = item.path.partition("/")[0]
            start = max(ready[host], host_free[host][0], free[0])
            if start >= MAX_SECONDS:
                deferred.append(item)
                continue
            ready[host] = start + (0.0 if pace.rate is None else 1 / pace.rate)
            end = max(end, start + delay(host))
            heapq.heapreplace(host_free[host], start + delay(host))
            heapq.heapreplace(free, start + delay(host))
        return deferred, end + OVERHEAD

    return perform


@cache
def compute_delay(host: str) -> float:
    """Return the response time of a host, from 0.05 to 5 s."""
    return 0.05 * float(100 ** (sha256(host.encode()).digest()[0] / 255))


def report_plan(counts: Sequence[int], slots: int) -> None:
    """Run the real plan with its database, and print the results."""
    start = time.process_time()
    with make_plan(counts, HostPace(rate=RATE)) as plan:
        planning = time.process_time() - start
        run = simulate(plan, slots, perform=simulate_worker(HostPace(rate=RATE), lambda host: 0.3))
        bound = max(plan.bound, run.work / slots)
    taking = time.process_time() - start - planning
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{sum(counts):>9,} URLs {len(counts):>6,} hosts {slots:>4} slots: {run.makespan:>9,.0f} s, "
        f"{run.makespan / bound:.3f} of {bound:,.0f} (by the largest host {plan.bound:,.0f}); "
        f"{run.slices:,} slices; planned in {planning:.1f} s, handed out in {taking:.1f} s; {memory:.0f} MiB",
        flush=True,
    )


def main(urls: int = URLS, hosts: int = HOSTS, largest: int = LARGEST, slots: int = 0) -> None:
    if slots:
        report_plan(compute_sizes(urls, hosts, largest), slots)
        return
    for size in (urls // 100, urls // 10):  # shows how memory use grows with the number of URLs
        run_separately(size, min(hosts, size // 2), largest * size // urls, 16)
    for slots in SLOTS:
        run_separately(urls, hosts, largest, slots)
    counts = compute_sizes(urls // 10, hosts // 10, largest // 10)
    with make_plan(counts, HostPace()) as plan:
        run = simulate(plan, 64, perform=simulate_worker(HostPace(), compute_delay))
    slowest = max(size * compute_delay(f"h{host}.example.org") / 6 for host, size in enumerate(counts))
    print(f"hosts that respond in 0.05 to 5 s, estimated as 1 s: {run.makespan / slowest:.3f} of the slowest")
    with make_plan(compute_sizes(urls, hosts, largest), HostPace(rate=RATE)) as plan:
        for depth in (1.0, 1.25, 2.0):
            run = simulate(plan.scheduler.copy(), 16, slices_per_slot=depth)
            print(f"16 slots, {depth} slices for each: {run.makespan / max(plan.bound, run.work / 16):.3f}")


def run_separately(*arguments: int) -> None:
    """Run the benchmark in a separate process, to measure its memory use separately."""
    subprocess.run([sys.executable, "-m", __spec__.name, *map(str, arguments)], check=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
