"""The plan of a run: it divides the requests into slices, and forecasts the duration of the run.

A slice is a batch of requests for one worker. At any time, at most one slice contains requests to a host.
The caller first adds all requests and then takes slices. `BulkScheduler` only counts the requests to a host.
A temporary database stores the requests (`PendingRequests`). If several slices wait for a worker, the slice
with the greatest `urgency` starts first. The reason is that the slowest hosts determine the duration of the
run.

    with BulkPlan(HostPace(rate=2.0)) as plan:
        plan.add(item, host, scheme)
        while (slice := plan.take()) is not None: ...  # None: all other requests are in running partitions
        plan.end(slice, unstarted, seconds)
"""

from __future__ import annotations

import hashlib
import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import count
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeVar

from protocols.errors import ResolveError
from protocols.location import JsonValue, Url
from protocols.text import Masked
from resolver.bulk.messages import BulkRequest, RequestSlice
from resolver.bulk.queue import MAX_SECONDS, PARTITIONS, BulkScheduler, HostPace, HostShare, PendingRequests
from resolver.policy.schemes import MANY, max_connections
from resolver.policy.subject import host_key
from resolver.transfer.many import SaveRequest
from resolver.transfer.naming import local_file_name
from resolver.transfer.verification import Checksum
from resolver.url.parsing import UrlLike, make_url, redact

if TYPE_CHECKING:
    from distributed import Client


#: The label for local files, which do not have a host.
_NO_HOST = "files"


def choose_partition(host: str, partitions: int = PARTITIONS) -> int:
    """Return the number of the partition (shard) with all requests to a host.

    A host has the same partition in each run, because file names contain the partition number.
    """
    digest = hashlib.blake2b(host.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") % partitions


class BulkPlan:
    """The work queue of a bulk run: a database of waiting requests, and a scheduler.

    The class is a context manager. Only one thread at a time may use an instance (not thread-safe). Methods
    raise `LocalError` for an error of the database.

    Args:
        pace: The rate limit and the concurrency limits for requests to a host.
        partitions: The number of partitions (shards).
        max_seconds: The maximum duration of a batch of requests (slice) in seconds.

    Attributes:
        scheduler: The scheduler, which counts the waiting requests.
        requests: The number of all requests.
        hosts: The number of hosts.
    """

    def __init__(
        self, pace: HostPace, *, partitions: int = PARTITIONS, max_seconds: float = MAX_SECONDS
    ) -> None:
        self.pace = pace
        self._partitions = partitions
        self.scheduler = BulkScheduler(pace, partitions=partitions, max_seconds=max_seconds)
        self._requests = PendingRequests()
        self._running: dict[int, tuple[HostShare, list[tuple[int, int, BulkRequest]]]] = {}
        self._cap = cache(partial(max_connections, waiting=MANY, setting=pace.per_host))
        self.requests = 0
        self.hosts = 0

    def __enter__(self) -> BulkPlan:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._requests.close()

    def add(self, item: BulkRequest, host: str, scheme: str) -> None:
        """Add a request.

        Args:
            item: The request.
            host: The key of the URL's host, from `policy.host_key`. If the key is empty, no limits apply, and
                the URL determines the partition.
            scheme: The scheme of the URL. It determines the maximum number of concurrent requests to the
                host.
        """
        partition = choose_partition(host or item.url, self._partitions)
        number = self._requests.host(host, partition)
        if number is None:
            number = self.scheduler.add_host(partition, self._cap(scheme) if host else None)
            self._requests.add_host(number, host, partition)
            self.hosts += bool(host)
        elif host:
            self.scheduler.lower_cap(number, self._cap(scheme))
        self.scheduler.add(number)
        self._requests.add(number, item)
        self.requests += 1

    # -- slices

    def take(self) -> RequestSlice | None:
        """Return the next slice (batch of requests), or None if no slice can start now.

        A partition has at most one running slice. The next slice comes from the waiting partition with the
        longest remaining time.
        """
        share = self.scheduler.take()
        if share is None:
            return None
        requests = self._list_requests(share)
        self._running[share.partition] = share, requests
        others = len(share.counts) - 1
        name = self._requests.name(share.counts[0][0]) or _NO_HOST
        return RequestSlice(
            partition=share.partition,
            number=share.number,
            label=f"{name} +{others}" if others else name,
            items=tuple(item for _, _, item in requests),
            is_last=share.is_last,
            seconds=share.seconds,
        )

    def _list_requests(self, share: HostShare) -> list[tuple[int, int, BulkRequest]]:
        """Return a slice's requests with number and host, in the order in which a worker starts them."""
        requests = []
        for host, number_of in share.counts:
            interval = self.scheduler.get_interval(host)
            for position, (number, item) in enumerate(self._requests.find_first(host, number_of)):
                requests.append((position * interval, number, host, item))
        requests.sort(key=lambda request: request[:2])
        return [(number, host, item) for _, number, host, item in requests]

    def end(
        self,
        slice: RequestSlice,
        unstarted: Sequence[BulkRequest] = (),
        seconds: float = 0.0,
        *,
        idle: int = 0,
    ) -> None:
        """Record the end of a slice (batch of requests), and queue its unstarted requests again.

        In the work queue, the unstarted requests come before all other requests to their hosts. The method
        also updates the estimated speed of the hosts. The estimates do not change if `seconds` is 0, or if at
        least half of the started requests were `idle`.

        Args:
            slice: The slice.
            unstarted: The requests that did not start. For a lost slice, all of its requests.
            seconds: The duration of the slice in seconds.
            idle: The number of started requests that were not sent, because another run had finished them or
                the policy refused them.

        Raises:
            ValueError: The slice is not running, or does not contain a request of `unstarted`.
        """
        running = self._running.get(slice.partition)
        if running is None or running[0].number != slice.number:
            raise ValueError(f"slice {slice.number} of partition {slice.partition} is not under way")
        share, requests = running
        missing = Counter((item.url, item.path) for item in unstarted)
        started, counts = list[int](), Counter[int]()
        # Of several equal requests, the worker started the first requests.
        for number, host, item in reversed(requests):
            if missing[item.url, item.path]:
                missing[item.url, item.path] -= 1
                counts[host] += 1
            else:
                started.append(number)
        if missing.total():
            raise ValueError(f"{missing.total()} requests in 'unstarted' were not in slice {slice.number}")
        self._requests.forget(started)
        del self._running[slice.partition]
        self.scheduler.end(share, counts.items(), seconds, idle=idle)

    # -- figures

    def urgency(self, slice: RequestSlice) -> float:
        """Return the estimated seconds for a slice and for all waiting requests of its partition.

        Among the slices that wait for a worker, the slice with the highest estimate starts first (longest
        processing time first).
        """
        return self.scheduler.urgency(self._running[slice.partition][0])

    @property
    def bound(self) -> float:
        """Return the minimum duration of the run in seconds for any number of workers.

        The slowest host determines the minimum, by its rate limit or its maximum number of concurrent
        requests.
        """
        return max((seconds for _, _, seconds in self.scheduler.find_slowest(1)), default=0.0)

    def find_largest(self, count: int) -> list[tuple[str, int, float]]:
        """Return the slowest hosts, at most `count`, with their number of requests and seconds."""
        hosts = self.scheduler.find_slowest(count)
        return [(self._requests.name(host), requests, seconds) for host, requests, seconds in hosts]


#: The maximum length in bytes of the slug. The slug is the readable text after the digest in a file name.
#: Even with the suffix of a temporary file, the file name is short enough for all file systems.
_MAX_SLUG = 120

#: The directory for the bodies of local files.
_LOCAL_DIRECTORY = "local"

#: The type of a run's requests: an iterable of URLs and `SaveRequest`s, or a Dask bag or column with these
#: values.
Requests: TypeAlias = "Iterable[UrlLike | SaveRequest] | Any"


class PlannedRequest(NamedTuple):
    """A request with its host; the host is empty for a local file and for an invalid URL."""

    item: BulkRequest
    host: str
    scheme: str


def assign_path(request: UrlLike | SaveRequest) -> PlannedRequest:
    """Return the request with the path of the saved file, also for an invalid URL, which is reported."""
    if not isinstance(request, SaveRequest):
        request = SaveRequest(request)
    text, host, scheme = _text(request.url), "", ""
    try:
        url = make_url(request.url, origin=request.origin)
    except ResolveError:
        path = _make_digest_path(_LOCAL_DIRECTORY, redact(text))
    else:
        host, scheme = host_key(url), url.scheme
        path = _make_path(url, host, text)
    return PlannedRequest(BulkRequest(text, request.path or path, _encode_options(request)), host, scheme)


def make_request(item: BulkRequest) -> SaveRequest:
    """Return the `SaveRequest` that the worker performs."""
    options: dict[str, Any] = dict(item.options or {})
    for name in ("mirrors", "referrer"):
        if name in options:
            options[name] = tuple(options[name])
    return SaveRequest(item.url, item.path, **options)


def _encode_options(request: SaveRequest) -> dict[str, JsonValue] | None:
    options: dict[str, JsonValue] = {}
    if request.mirrors:
        options["mirrors"] = [_text(url) for url in request.mirrors]
    if request.checksum is not None:
        checksum = request.checksum
        options["checksum"] = checksum.text if isinstance(checksum, Checksum) else checksum
    if request.size is not None:
        options["size"] = request.size
    if request.origin != "user":
        options["origin"] = request.origin
    if request.referrer is not None:
        options["referrer"] = list(request.referrer)
    return options or None


def _text(url: UrlLike) -> str:
    return url.text if isinstance(url, Url) else str(url)


def _make_path(url: Url, host: str, text: str) -> str:
    """Return the path of the file for a URL: a digest of the URL and a readable name (slug)."""
    masked = url.shown if url.text == text else redact(text)
    path = _make_digest_path(host.removesuffix(":") or _LOCAL_DIRECTORY, masked)
    try:
        name = local_file_name(url)
        return f"{path}-{name}" if len(name.encode()) <= _MAX_SLUG else path
    except (ResolveError, UnicodeEncodeError):
        return path


def _make_digest_path(directory: str, url: Masked) -> str:
    """Return the path with a digest of the redacted URL, so that the path does not reveal a password."""
    digest = hashlib.blake2b(url.encode("utf-8", "surrogatepass"), digest_size=10).hexdigest()
    return f"{directory}/{digest[:2]}/{digest}"


def iterate_requests(requests: Requests, client: Client | None) -> Iterator[UrlLike | SaveRequest]:
    """Yield the requests lazily; a Dask collection is loaded one partition at a time."""
    if not hasattr(requests, "__dask_graph__"):
        yield from requests
        return
    collection: Any = requests
    for part in collection.to_delayed():
        yield from part.compute() if client is None else client.compute(part).result()


# The forecast of a run: a simulation of the plan in virtual time.
#
# The simulation uses a copy of the real scheduler (`BulkScheduler`) and simulated workers. A simulated worker
# processes a slice in exactly the estimated time. So a forecast uses the real limits of the hosts and the
# real capacity of the cluster. Only the speed of the hosts is an estimate.

#: The numbers of workers that a forecast covers.
WORKERS = (1, 4, 16)

#: The number of slices (batches of requests) that Dask has at a time for each slot (worker thread). With 1, a
#: slot is idle once a minute while Dask sends the next slice. With a larger number, slices of the slowest
#: host wait behind other slices. With 2, a run takes 20 % longer on a cluster of the largest useful size
#: (`python -m bench.bulk_plan`).
SLICES_PER_SLOT = 1.0

#: The time overhead of each batch of requests (slice) in seconds: submission, connection setup and report.
OVERHEAD = 0.2

_MAX_HOSTS = 10


class ForecastTask(Protocol):
    """A task with an estimated duration: a `RequestSlice` or a `HostShare`."""

    @property
    def seconds(self) -> float: ...


T = TypeVar("T", bound=ForecastTask)


class Planner(Protocol[T]):
    """The interface of a planner: `BulkPlan` or `BulkScheduler`."""

    def take(self) -> T | None: ...

    def end(self, task: T, left: Sequence[Any], seconds: float, /) -> None: ...

    def urgency(self, task: T, /) -> float: ...


class SimulatedRun(NamedTuple):
    """The result of a simulation.

    Attributes:
        makespan: The time in seconds until the end of the last slice.
        slices: The number of slices.
        max_in_flight: The maximum number of slices that were submitted at the same time.
        work: The total time in seconds in which slots were busy.
    """

    makespan: float
    slices: int
    max_in_flight: int
    work: float


class Forecast(NamedTuple):
    """The forecast of a run.

    Attributes:
        requests: The number of requests.
        hosts: The number of hosts.
        slices: The number of slices.
        bound: The minimum duration in seconds, for any number of workers.
        bound_by: The host that determines `bound`.
        expected: The estimated duration in seconds, by the number of workers.
        largest: The slowest hosts, each with the number of requests and the duration in seconds.
        histogram: The result of `BulkScheduler.histogram`: a histogram of the number of requests per host.
        request_seconds: The assumed duration of a request in seconds.
    """

    requests: int
    hosts: int
    slices: int
    bound: float
    bound_by: str | None
    expected: Mapping[int, float]
    largest: tuple[tuple[str, int, float], ...]
    histogram: tuple[tuple[int, int], ...]
    request_seconds: float = 1.0


def forecast(plan: BulkPlan, *, threads: int = 1) -> Forecast:
    """Return the forecast of a plan for workers with `threads` threads each."""
    runs = {workers: simulate(plan.scheduler.copy(), workers * threads) for workers in WORKERS}
    largest = plan.find_largest(_MAX_HOSTS)
    return Forecast(
        requests=plan.requests,
        hosts=plan.hosts,
        slices=runs[WORKERS[0]].slices,
        bound=plan.bound,
        bound_by=largest[0][0] if largest else None,
        expected={workers: run.makespan for workers, run in runs.items()},
        largest=tuple(largest),
        histogram=tuple(plan.scheduler.histogram()),
        request_seconds=plan.pace.request_seconds,
    )


def estimate_task(task: ForecastTask) -> tuple[Sequence[Any], float]:
    """Return the assumed outcome of a task: all requests start, and take the estimated time."""
    return (), task.seconds + OVERHEAD


def simulate(
    planner: Planner[T],
    slots: int,
    *,
    perform: Callable[[T], tuple[Sequence[Any], float]] = estimate_task,
    slices_per_slot: float = SLICES_PER_SLOT,
) -> SimulatedRun:
    """Simulate a run to its end.

    Args:
        planner: The plan or scheduler. The simulation removes all requests from it.
        slots: The number of slots (worker threads).
        perform: A function that returns the unstarted requests and the duration of a task.
        slices_per_slot: The number of tasks that are submitted at a time for each slot. A free slot
            immediately starts the submitted task with the greatest urgency.
    """
    now, work, numbers, maximum = 0.0, 0.0, count(), 0
    submitted: list[tuple[float, int, T]] = []
    running: list[tuple[float, int, T, Sequence[Any], float]] = []
    capacity = max(slots, int(slots * slices_per_slot))

    def start_tasks() -> None:
        nonlocal work
        while submitted and len(running) < slots:
            _, number, task = heapq.heappop(submitted)
            unstarted, seconds = perform(task)
            work += seconds
            heapq.heappush(running, (now + seconds, number, task, unstarted, seconds))

    while True:
        start_tasks()
        while len(running) + len(submitted) < capacity and (task := planner.take()) is not None:
            heapq.heappush(submitted, (-planner.urgency(task), next(numbers), task))
        maximum = max(maximum, len(running) + len(submitted))
        start_tasks()
        if not running:
            return SimulatedRun(now, next(numbers), maximum, work)
        now, _, task, unstarted, seconds = heapq.heappop(running)
        start_tasks()
        planner.end(task, unstarted, seconds)
