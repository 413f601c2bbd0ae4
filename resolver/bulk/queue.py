"""The scheduler, which groups requests into slices without I/O, and the database of waiting requests.

This module represents a slice as a `HostShare`, which has the number of requests for each host. A host
belongs to one partition. A partition is in one of three states:

- Waiting: the partition has requests, and an entry in the heap. The key of the entry is the remaining time of
  the partition in seconds.
- Running: a worker has a slice of the partition.
- Ended: the partition has no requests and no running slice.

A partition has at most one running slice. So the rate limit of a host applies to the complete cluster without
communication between workers. Stale entries of the heap are ignored (lazy deletion). A heap entry is stale if
its partition is running, or if its key differs from `_remaining`.

`take` returns a slice of the waiting partition with the longest remaining time. This partition determines the
duration of the run. For each host, the slice contains as many requests as the host can process in
`max_seconds`. Hosts with the longest remaining time come first. The requests to all hosts run concurrently.

`end` queues the unstarted requests again and updates the estimated speed of the hosts. The rate of requests
to a host is the user's setting, or a low default. Before the first slice of a host has ended, the speed of
the host is an estimate. Afterwards:

- If some requests to a host did not start, the measured speed of the host is exact.
- If all requests to a host ended while the slice still waited for another host, the next slice assumes twice
  the speed.
- If half or more of the started requests were skipped, the queue ignores the measured speed. The next slice
  of the partition then covers 16 times the normal duration. A request is skipped if another run has finished
  the request, or if the policy refuses the URL.

If a slice has too many requests, the worker returns some requests unstarted. If a slice has too few requests,
a host is idle. The scheduler uses about 40 bytes of memory for each host, and no memory for a request.
"""

from __future__ import annotations

import heapq
import json
import sqlite3
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from protocols.errors import LocalError
from resolver.bulk.messages import CONCURRENCY, BulkRequest

#: The number of partitions (shards). Even with several thousand hosts, a partition has few hosts. Each
#: partition may have separate files.
PARTITIONS = 1_024

#: The maximum duration of a batch of requests (slice) in seconds.
MAX_SECONDS = 60.0

#: The maximum number of requests in a batch (slice). The limit bounds memory, because the planner stores the
#: submitted requests.
MAX_REQUESTS = 2_000

#: The tolerance for rounding errors: 120 requests at 2 requests per second must fit into exactly one minute.
_ROUNDING = 1e-9

#: The tolerance factor for durations. A duration of up to 1.1 times the estimate counts as equal to the
#: estimate.
_TOLERANCE = 1.1

#: The factor by which the next slice is longer, if at least half of the requests of the last slice were not
#: sent.
_IDLE_FACTOR = 16

#: The minimum estimate in seconds for the duration of a request. The minimum applies to a host that refuses
#: each request immediately.
_MIN_SECONDS = 1e-4


class HostPace(NamedTuple):
    """The rate limit and the concurrency limits for requests to a host.

    Attributes:
        rate: The maximum number of requests per second (rate limit), or None.
        per_host: The maximum number of concurrent requests, or None for the default of the scheme.
        request_seconds: The assumed duration of a request in seconds.
        at_once: The maximum number of concurrent requests in a slice.
    """

    rate: float | None = None
    per_host: int | None = None
    request_seconds: float = 1.0
    at_once: int = CONCURRENCY

    def compute_interval(self, cap: int | None) -> float:
        """Return the seconds per request for a host with at most `cap` concurrent requests.

        Without `cap` and without a rate limit, the only limit is the concurrency of the slice (`at_once`).
        """
        if cap is None:
            return self.request_seconds / self.at_once
        return max(self.request_seconds / min(cap, self.at_once), 0.0 if self.rate is None else 1 / self.rate)


class HostShare(NamedTuple):
    """A slice (batch of requests), stored as the number of requests for each host.

    Hosts with the longest remaining time come first.

    Attributes:
        is_last: Whether the partition has no waiting requests after this slice.
        seconds: The estimated duration in seconds.
    """

    partition: int
    number: int
    counts: tuple[tuple[int, int], ...]
    is_last: bool
    seconds: float


class BulkScheduler:
    """A scheduler that groups requests into batches (slices).

    If a worker does not start a request, the scheduler assigns the request again, to a later slice.

    Args:
        pace: The rate limit and the concurrency limits for requests to a host.
        partitions: The number of partitions (shards).
        max_seconds: The maximum duration of a slice in seconds.
    """

    def __init__(
        self, pace: HostPace, *, partitions: int = PARTITIONS, max_seconds: float = MAX_SECONDS
    ) -> None:
        self._pace = pace
        self._max_seconds = max_seconds
        # The arrays `_partition` to `_intervals` have an element for each host. The arrays `_hosts` to
        # `_remaining` have an element for each partition.
        self._partition = array("l")
        self._cap = array("l")  # The maximum number of concurrent requests; 0 means no limit.
        self._totals = array("q")  # The number of all requests to the host.
        self._waiting = array("q")  # The number of waiting requests to the host.
        self._intervals = array("d")  # The estimated seconds per request.
        self._hosts = [array("l") for _ in range(partitions)]  # The hosts with waiting requests.
        # The estimated duration of a request in seconds, while many requests run concurrently.
        self._request_seconds = array("d", [pace.request_seconds] * partitions)
        self._share_counts = array("l", [0] * partitions)  # The number of slices taken from the partition.
        # The remaining time of the partition in seconds. This time is the key of the heap entry.
        self._remaining = array("d", [0.0] * partitions)
        self._heap: list[tuple[float, int]] = []
        self._changed: set[int] = set()
        self._running: dict[int, HostShare] = {}
        self._idle_partitions: set[int] = set()  # Partitions whose last slice sent few requests.
        self.waiting = 0

    def copy(self) -> BulkScheduler:
        """Return an independent copy of the scheduler, with waiting requests but without running slices."""
        copied = BulkScheduler(self._pace, partitions=len(self._hosts), max_seconds=self._max_seconds)
        copied._partition, copied._cap = self._partition[:], self._cap[:]
        copied._totals, copied._waiting = self._waiting[:], self._waiting[:]
        copied._intervals, copied._request_seconds = self._intervals[:], self._request_seconds[:]
        copied._hosts = [hosts[:] for hosts in self._hosts]
        copied._changed = {partition for partition, hosts in enumerate(copied._hosts) if hosts}
        copied.waiting = self.waiting
        return copied

    # -- requests

    def add_host(self, partition: int, cap: int | None) -> int:
        """Add a host, and return its number. At most `cap` requests (None: any) to it run concurrently."""
        self._partition.append(partition)
        self._cap.append(cap or 0)
        self._totals.append(0)
        self._waiting.append(0)
        self._intervals.append(self._pace.compute_interval(cap))
        return len(self._partition) - 1

    def lower_cap(self, host: int, cap: int | None) -> None:
        """Lower the concurrency limit of a host to `cap`, the limit of another URL scheme."""
        if cap is not None and not 0 < self._cap[host] <= cap:
            self._cap[host] = cap
            self._intervals[host] = self._pace.compute_interval(cap)

    def add(self, host: int) -> None:
        self._totals[host] += 1
        self._add_waiting(host, 1)
        self._changed.add(self._partition[host])

    def _add_waiting(self, host: int, count: int) -> None:
        if count and not self._waiting[host]:
            self._hosts[self._partition[host]].append(host)
        self._waiting[host] += count
        self.waiting += count

    # -- slices

    def estimate_remaining(self, partition: int) -> float:
        """Return the estimated seconds that the waiting requests of the partition take."""
        slowest, count = 0.0, 0
        for host in self._hosts[partition]:
            waiting = self._waiting[host]
            count += waiting
            slowest = max(slowest, waiting * self._intervals[host])
        return max(slowest, count * self._request_seconds[partition] / self._pace.at_once)

    def get_interval(self, host: int) -> float:
        """Return the estimated seconds per request of the host."""
        return self._intervals[host]

    def take(self) -> HostShare | None:
        """Return the next slice (batch of requests), or None if all partitions with requests are running."""
        for partition in self._changed - self._running.keys():
            self._enqueue(partition)
        self._changed.clear()  # For each running partition, `end` later calls `_enqueue`.
        while self._heap:
            remaining, partition = heapq.heappop(self._heap)
            if partition not in self._running and -remaining == self._remaining[partition]:
                return self._make_share(partition)
        return None

    def urgency(self, share: HostShare) -> float:
        """Return the estimated seconds for a slice and for all waiting requests of its partition.

        Among the slices that wait for a worker, the slice with the highest estimate starts first (longest
        processing time first).
        """
        return share.seconds + self.estimate_remaining(share.partition)

    def _enqueue(self, partition: int) -> None:
        """Add the partition to the heap if it has waiting requests."""
        self._remaining[partition] = self.estimate_remaining(partition)
        if self._hosts[partition]:
            heapq.heappush(self._heap, (-self._remaining[partition], partition))

    def _make_share(self, partition: int) -> HostShare:
        counts = self._count_requests(partition)
        for host, count in counts:
            self._waiting[host] -= count
            self.waiting -= count
        self._hosts[partition] = array("l", (host for host in self._hosts[partition] if self._waiting[host]))
        share = HostShare(
            partition,
            self._share_counts[partition],
            tuple(counts),
            is_last=not self._hosts[partition],
            seconds=self._estimate_seconds(partition, counts),
        )
        self._share_counts[partition] += 1
        self._running[partition] = share
        return share

    def _count_requests(self, partition: int) -> list[tuple[int, int]]:
        """Return the hosts of the next slice, each with its number of requests."""
        waiting, intervals = self._waiting, self._intervals
        slowest = sorted(self._hosts[partition], key=lambda host: (-waiting[host] * intervals[host], host))
        seconds = self._max_seconds * (_IDLE_FACTOR if partition in self._idle_partitions else 1)
        total = sum(self._count_within(seconds, host) for host in slowest)
        max_rate = self._pace.at_once / self._request_seconds[partition]  # Requests per second.
        # A slice should have about `MAX_REQUESTS`. If more requests fit, the duration is shortened for all
        # hosts. The shortest duration is the time of `MAX_REQUESTS` at the maximum concurrency.
        if total > MAX_REQUESTS:
            seconds = max(seconds * MAX_REQUESTS / total, min(seconds, MAX_REQUESTS / max_rate))
        room = max(1, min(MAX_REQUESTS, int(seconds * max_rate + _ROUNDING)))
        counts = []
        for host in slowest:
            count = min(self._count_within(seconds, host), room)
            counts.append((host, count))
            room -= count
            if not room:
                break
        return counts

    def _count_within(self, seconds: float, host: int) -> int:
        """Return how many waiting requests to a host can start within `seconds`, at least 1."""
        return min(self._waiting[host], max(1, int(seconds / self._intervals[host] + _ROUNDING)))

    def _estimate_seconds(self, partition: int, counts: Sequence[tuple[int, int]]) -> float:
        together = sum(count for _, count in counts) * self._request_seconds[partition] / self._pace.at_once
        alone = max(count * self._intervals[host] for host, count in counts)
        duration = max(self._pace.request_seconds, together, alone)
        return min(duration, self._max_seconds) if partition in self._idle_partitions else duration

    def end(
        self, share: HostShare, unstarted: Iterable[tuple[int, int]], seconds: float, *, idle: int = 0
    ) -> None:
        """Record the end of a slice (batch of requests).

        The estimated speed of its hosts is updated.

        Args:
            share: The slice.
            unstarted: The number of unstarted requests by host.
            seconds: The duration in seconds; 0 means that the duration is unknown.
            idle: The number of started requests that were not sent, because another run had finished them or
                the policy refused them.

        Raises:
            ValueError: The slice is not running.
        """
        if self._running.get(share.partition) is not share:
            raise ValueError(f"share {share.number} of partition {share.partition} is not under way")
        del self._running[share.partition]
        counts = dict(unstarted)
        started = sum(count for _, count in share.counts) - sum(counts.values())
        if started and 2 * idle >= started:
            self._idle_partitions.add(share.partition)
        elif started and seconds > 0:
            self._idle_partitions.discard(share.partition)
            self._set_speeds(share, counts, started, seconds)
        for host, count in counts.items():
            self._add_waiting(host, count)
        self._enqueue(share.partition)

    # -- speeds

    def _set_speeds(self, share: HostShare, unstarted: dict[int, int], started: int, seconds: float) -> None:
        end = min(seconds, self._max_seconds)  # The time in seconds after which no request was started.
        for host, count in share.counts:
            rest = unstarted.get(host, 0)
            if rest == count:
                continue
            duration = end / (count - rest) if rest else self._estimate_interval(host, count, seconds)
            self._intervals[host] = max(duration, self._compute_interval(host), _MIN_SECONDS)
        # Whether the slice has a host to which no request was started.
        is_crowded = any(unstarted.get(host) == count for host, count in share.counts)
        duration = (end if is_crowded else seconds) * self._pace.at_once / started
        request_seconds = duration if is_crowded else min(duration, self._request_seconds[share.partition])
        self._request_seconds[share.partition] = max(request_seconds, _MIN_SECONDS)

    def _estimate_interval(self, host: int, count: int, seconds: float) -> float:
        """Return the new estimate in seconds per request, after all requests to the host have ended.

        The new estimate is never slower than the old estimate. The measured time may be too long: perhaps the
        host was idle while the slice waited for another host.
        """
        estimate = self._intervals[host]
        return estimate / 2 if seconds > estimate * count * _TOLERANCE else min(estimate, seconds / count)

    def _compute_interval(self, host: int) -> float:
        """Return the minimum interval in seconds between two requests to a host under the rate limit."""
        return 1 / self._pace.rate if self._pace.rate is not None and self._cap[host] else 0.0

    # -- figures

    def find_slowest(self, count: int) -> list[tuple[int, int, float]]:
        """Return the slowest limited hosts by the initial estimate, with requests and duration."""
        numbers = (host for host, cap in enumerate(self._cap) if cap and self._totals[host])
        hosts = heapq.nsmallest(count, numbers, key=lambda host: (-self._seconds_of_all(host), host))
        return [(host, self._totals[host], self._seconds_of_all(host)) for host in hosts]

    def _seconds_of_all(self, host: int) -> float:
        return self._totals[host] * self._pace.compute_interval(self._cap[host] or None)

    def histogram(self) -> list[tuple[int, int]]:
        """Return a histogram of the hosts: (10, 3) means that 3 hosts have 10 to 99 requests each."""
        lengths = Counter(
            len(str(total)) for host, total in enumerate(self._totals) if total and self._cap[host]
        )
        return [(10 ** (length - 1), lengths[length]) for length in range(1, max(lengths, default=0) + 1)]


# The waiting requests are in a temporary database, so that memory does not grow with the number of requests.
#
# The database is private and is removed when the connection is closed. A request stays in the database until
# a worker has started the request. So unstarted requests are never lost.

#: The number of requests in one database insert. The same number of hosts is cached in memory.
_BATCH_SIZE = 1_000
_MAX_CACHED = 20_000

_SCHEMA = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA cache_size = -16384;
CREATE TABLE item (number INTEGER PRIMARY KEY, host INTEGER NOT NULL, url TEXT, path TEXT, more TEXT);
CREATE TABLE host (number INTEGER PRIMARY KEY, name TEXT NOT NULL, partition INTEGER NOT NULL);
CREATE UNIQUE INDEX named ON host (name, partition);
BEGIN;
"""


class PendingRequests:
    """The database of waiting requests, for one thread at a time.

    Methods raise `LocalError` for an error of the database, for example a full disk.
    """

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, int], int] = {}
        self._new: list[tuple[int, str, str, str | None]] = []
        self._is_indexed = False
        with _faults():
            self._database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
            self._database.executescript(_SCHEMA)

    def close(self) -> None:
        self._database.close()

    # -- hosts

    def host(self, name: str, partition: int) -> int | None:
        """Return the number of a host, or None for an unknown host."""
        number = self._numbers.get((name, partition))
        if number is None:
            query = "SELECT number FROM host WHERE name = ? AND partition = ?"
            with _faults():
                row = self._database.execute(query, (name, partition)).fetchone()
            if row is None:
                return None
            number = self._cache(name, partition, int(row[0]))
        return number

    def add_host(self, number: int, name: str, partition: int) -> None:
        with _faults():
            self._database.execute("INSERT INTO host VALUES (?, ?, ?)", (number, name, partition))
        self._cache(name, partition, number)

    def name(self, host: int) -> str:
        with _faults():
            [name] = self._database.execute("SELECT name FROM host WHERE number = ?", (host,)).fetchone()
        return str(name)

    def _cache(self, name: str, partition: int, number: int) -> int:
        if len(self._numbers) >= _MAX_CACHED:
            self._numbers.clear()
        self._numbers[name, partition] = number
        return number

    # -- requests

    def add(self, host: int, item: BulkRequest) -> None:
        options = None if item.options is None else json.dumps(dict(item.options))
        self._new.append((host, item.url, item.path, options))
        if len(self._new) >= _BATCH_SIZE:
            self._flush()

    def _flush(self) -> None:
        insert = "INSERT INTO item (host, url, path, more) VALUES (?, ?, ?, ?)"
        with _faults():
            self._database.executemany(insert, self._new)
        self._new.clear()

    def find_first(self, host: int, count: int) -> list[tuple[int, BulkRequest]]:
        """Return the first `count` waiting requests to a host, with their numbers, in their order."""
        self._create_index()
        query = "SELECT number, url, path, more FROM item WHERE host = ? ORDER BY number LIMIT ?"
        with _faults():
            rows = self._database.execute(query, (host, count)).fetchall()
        return [
            (number, BulkRequest(url, path, None if options is None else json.loads(options)))
            for number, url, path, options in rows
        ]

    def _create_index(self) -> None:
        """Create the database index by host, after the last insert.

        An index that is created at the end takes a tenth of the time of an index that is updated for each
        request.
        """
        if self._new:
            self._flush()
        if not self._is_indexed:
            with _faults():
                self._database.execute("CREATE INDEX turn ON item (host, number)")
            self._is_indexed = True

    def forget(self, numbers: Iterable[int]) -> None:
        """Delete the requests that were started."""
        with _faults():
            self._database.executemany("DELETE FROM item WHERE number = ?", ((number,) for number in numbers))


@contextmanager
def _faults() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise LocalError(f"cannot store the requests in a temporary database: {error}") from error
