"""The driver of a bulk run. It plans the requests and submits slices (batches of requests) to Dask.

Only a few slices are submitted at a time. So the memory use of Dask's scheduler and the workers does not
depend on the number of requests. The plan chooses the next slice. A partition has at most one running slice.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import monotonic, sleep
from typing import TYPE_CHECKING, NamedTuple, Unpack
from uuid import uuid4

from protocols.errors import LocalError, NotConfigured, choose_status
from resolver.bulk.messages import BulkJob, Format, RequestSlice, SliceReport, check_cluster, translate_errors
from resolver.bulk.plan import BulkPlan, Requests, assign_path, iterate_requests
from resolver.bulk.queue import MAX_SECONDS, PARTITIONS, HostPace
from resolver.bulk.slice import close_all, fetch_packed, index_all, is_running, pack_task
from resolver.bulk.store import Store, open_store
from resolver.files.atomic import OutputFiles
from resolver.transfer.settings import Settings, check_settings

if TYPE_CHECKING:
    from distributed import Client, Future

#: The number of consecutive lost slices of a partition. After this number, the run fails. A slice (a batch of
#: requests) is lost together with its worker.
_MAX_LOST = 5

#: The number of consecutive slices that found their partition locked by another run. After this number, the
#: run fails. Each slice waits one minute for the lock. The other run may hold the lock for 20 minutes,
#: because it retries requests to a host that does not respond.
_MAX_LOCKED = 20

#: The timeout in seconds for the transfer of a slice's report (some hundred bytes) from a worker. During the
#: transfer, the planner does not process other slices.
_REPORT_TIMEOUT = 30.0

#: The polling interval in seconds for the number of worker threads. The run also polls while the cluster has
#: no workers.
_THREADS_INTERVAL = 5.0
_POLL_INTERVAL = 0.5

#: The polling interval in seconds, while workers finish the slices of an interrupted run.
_REST_INTERVAL = 0.5

_FILE_NAME = "bulk.json"


class BulkProgress(NamedTuple):
    """The progress of a run.

    Attributes:
        requests: The number of requests.
        hosts: The number of hosts.
        ended: The number of finished requests.
        counts: The number of finished requests by status.
        bytes: The number of received bytes.
        under_way: The number of running slices, each on one worker.
        threads: The number of threads of all workers. With 0 threads, the run waits for workers.
    """

    requests: int
    hosts: int
    ended: int
    counts: dict[str, int]
    bytes: int
    under_way: int
    threads: int


class BulkSummary(NamedTuple):
    """The result of a run; `exit` is the exit status of the command.

    Without failures, `exit` is 0. If all failures have the same exit status, `exit` is this exit status.
    Otherwise, `exit` is 1.
    """

    requests: int
    hosts: int
    slices: int
    done: int
    skipped: int
    failed: int
    refused: int
    bytes: int
    seconds: float
    exit: int


@contextmanager
def plan_requests(
    requests: Requests, client: Client | None, pace: HostPace, partitions: int = PARTITIONS
) -> Iterator[BulkPlan]:
    """Add all requests to a plan, and yield the plan."""
    with BulkPlan(pace, partitions=partitions) as plan:
        for request in iterate_requests(requests, client):
            plan.add(*assign_path(request))
        yield plan


def run(
    requests: Requests,
    *,
    client: Client,
    out: str,
    per_host: int | None = None,
    host_rate: float | None = None,
    ledger: str | None = None,
    format: Format = "parquet",
    warc: bool = False,
    on_progress: Callable[[BulkProgress], object] | None = None,
    **settings: Unpack[Settings],
) -> BulkSummary:
    """Fetch all requests on the cluster of `client`, and return a summary.

    Only one worker at a time sends requests to a host. Workers may join and leave. If no worker is left, the
    run waits. To resume an interrupted run, call the function again with the same `out`. Finished requests
    are then skipped.

    If `out` is a URL, workers may still run slices (batches of requests) of an interrupted run. The new run
    first waits for the workers of the interrupted run, at most one minute. If the interrupted run used
    another scheduler, the caller must wait for its workers, because the new run cannot query them.

    Args:
        requests: URLs or `SaveRequest`s in an iterable, a Dask bag or a column of a dataframe. All requests
            are read before the first request is sent.
        client: The client of the cluster.
        out: A directory that has the same path on all workers, or a URL that fsspec supports. The run writes
            the `bodies` or, with `warc`, the archives to `out`, and also the `outcomes` and a `ledger` for
            each partition.
        per_host: The maximum number of concurrent requests to a host, over the complete cluster.
        host_rate: The maximum number of requests per second to a host, over the complete cluster.
        ledger: A separate directory for the ledgers.
        format: The format of the outcomes, Parquet or JSON Lines.
        warc: Whether bodies are stored in archives.
        on_progress: A function that is called with the progress after each slice.
        **settings: The settings of `Resolver`, which are sent to the workers.

    Raises:
        LocalError: The store cannot be written, or the connection to the scheduler is lost.
        NotConfigured: An earlier run wrote `out` with another format, or the scheduler or a worker lacks this
            package or has another version of it.
    """
    check_settings(settings, Settings.__optional_keys__)
    check_cluster(client)
    store = open_store(out)
    partitions = _load_partitions(store, format)
    job = BulkJob(
        out=store.directory if isinstance(store, OutputFiles) else out,
        ledger=ledger,
        settings=settings,
        per_host=per_host,
        host_rate=host_rate,
        format=format,
        warc=warc,
        max_seconds=MAX_SECONDS,
    )
    with plan_requests(requests, client, HostPace(host_rate, per_host), partitions) as plan:
        if not isinstance(store, OutputFiles):
            _wait_for_others(client, out)
        with translate_errors():
            summary = _RunningSlices(client, job, plan, on_progress or (lambda progress: None)).run()
    if warc and isinstance(store, OutputFiles):
        # After a failed run, each worker closes its archives at the end of the worker process.
        client.run(close_all)
        client.submit(index_all, store.directory, pure=False).result()
    return summary


def _wait_for_others(client: Client, out: str) -> None:
    """Wait until workers have finished the slices of an interrupted run.

    A store at a URL does not support locks. Without the wait, this run and the old slices could concurrently
    send requests to the same host.
    """
    while any(answer is True for answer in client.run(is_running, out, on_error="return").values()):
        sleep(_REST_INTERVAL)


def _load_partitions(store: Store, format: Format) -> int:
    """Return the number of partitions that `store`'s first run stored. Raises `NotConfigured`."""
    octets = store.read(_FILE_NAME)
    if octets is None:
        content = {"version": 1, "partitions": PARTITIONS, "format": format}
        store.write(_FILE_NAME, json.dumps(content).encode() + b"\n")
        return PARTITIONS
    try:
        content = json.loads(octets)
        version, partitions, stored = content["version"], content["partitions"], content["format"]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise LocalError(f"{_FILE_NAME} was not written by resolve: choose another location") from error
    if version != 1 or not isinstance(partitions, int) or partitions < 1:
        raise LocalError(f"{_FILE_NAME} was written by another version of resolve: choose another location")
    if stored != format:
        raise NotConfigured(
            f"the existing outcomes have the format {stored}: choose that format, or another location"
        )
    return int(partitions)


class _RunningSlices:
    """The slices (batches of requests) that are running on the cluster.

    A slice is running after the call of `_watch`, until its future has one of these results:

    - A report: the plan queues the unstarted requests again (`_count_report`).
    - A report with `is_locked`: another run has locked the partition. The plan queues all requests again. At
      the 20th consecutive report with `is_locked`, the run fails.
    - `KilledWorker`: the worker was lost. The plan queues all requests again. At the 5th consecutive loss,
      the run fails.
    - `CancelledError`, or a lost connection: the scheduler is lost, and the run fails.
    - An `OSError` of the slice: the run fails.

    If the future is pending again, or if its report does not arrive in time, the slice counts as running.
    Dask runs the slice again, and the requests that the ledger lists as finished are skipped.
    """

    def __init__(
        self, client: Client, job: BulkJob, plan: BulkPlan, on_progress: Callable[[BulkProgress], object]
    ) -> None:
        from distributed import as_completed

        self._client = client
        self._job = job
        self._plan = plan
        self._on_progress = on_progress
        self._completed = as_completed(loop=client.loop)
        self._under_way: dict[Future, RequestSlice] = {}
        self._loss_counts: Counter[int] = Counter()
        self._lock_counts: Counter[int] = Counter()
        self._counts: Counter[str] = Counter()
        self._exits: Counter[int] = Counter()
        self._bytes = self._slices = 0
        self._run = uuid4().hex[:8]
        self._threads, self._last_query = -1, float("-inf")
        self._pause_ends: dict[int, dict[str, float]] = {}
        self._names: dict[int, str] = {}

    def run(self) -> BulkSummary:
        started = monotonic()
        try:
            self._submit_slices()
            while self._under_way:
                if self._wait_for_result():
                    future = next(self._completed)
                    self._process_result(future, self._under_way.pop(future))
                    if self._threads == 0:  # A worker has joined.
                        self._last_query = float("-inf")
                    self._submit_slices()
                    self._report_progress()
                else:
                    self._submit_slices()
        finally:
            if self._under_way and self._client.status == "running":
                self._client.cancel(list(self._under_way))
        if self._plan.scheduler.waiting:
            raise LocalError(_SCHEDULER_LOST)
        return self._summary(monotonic() - started)

    def _wait_for_result(self) -> bool:
        """Return whether a slice ended within 0.5 s."""
        changed = self._completed.thread_condition
        with changed:
            return bool(changed.wait_for(self._completed.has_ready, _POLL_INTERVAL))

    def _query_threads(self) -> None:
        """Query the number of worker threads, which limits the running slices (see `plan.SLICES_PER_SLOT`).

        Without worker threads, one slice is submitted, so that an adaptive cluster starts a worker.
        """
        if monotonic() - self._last_query < (_THREADS_INTERVAL if self._threads > 0 else _POLL_INTERVAL):
            return
        before = self._threads
        # A lost scheduler cancels all futures, and `_process_result` reports the loss.
        with suppress(OSError):
            self._threads = sum(self._client.nthreads().values())
        self._last_query = monotonic()
        if self._threads > before >= 0:
            check_cluster(self._client)
        if 0 in (before, self._threads) and before != self._threads:
            self._report_progress()

    def _submit_slices(self) -> None:
        self._query_threads()
        while len(self._under_way) < max(1, self._threads) and (slice := self._plan.take()) is not None:
            slice = slice._replace(pauses=self._list_pauses(slice.partition))
            key = (self._name_task(slice), slice.partition, slice.number, self._run)
            urgency = round(self._plan.urgency(slice))  # submitted slices wait only if workers have left
            task = pack_task(self._job, slice)
            future = self._client.submit(fetch_packed, task, key=key, pure=False, priority=urgency)
            self._watch(future, slice)

    def _name_task(self, slice: RequestSlice) -> str:
        """Return the name of the task in Dask, which is the same for all slices of a partition.

        Dask stores statistics for each task name until the scheduler ends, so the number of names must be
        small. Dask treats a hyphen as the end of the name, so hyphens are replaced.
        """
        return self._names.setdefault(slice.partition, slice.label.replace("-", "\N{NON-BREAKING HYPHEN}"))

    def _process_result(self, future: Future, slice: RequestSlice) -> None:
        """Process the result of a Dask task. Its report may be lost together with the worker."""
        from distributed import CancelledError, KilledWorker

        if future.status in ("pending", "lost"):
            self._watch(future, slice)
            return
        try:
            report: SliceReport = future.result(timeout=_REPORT_TIMEOUT)
        except KilledWorker:
            reason = f"its worker was lost {_MAX_LOST} times in a row"
            self._requeue(slice, self._loss_counts, _MAX_LOST, reason)
        except CancelledError as error:
            raise LocalError(_SCHEDULER_LOST) from error
        except OSError as error:
            if future.status == "error":  # The slice raised this error.
                raise
            if not isinstance(error, TimeoutError):
                raise LocalError(_SCHEDULER_LOST) from error
            self._watch(future, slice)
        else:
            # without the release, Dask would run the slice again if its worker is lost
            future.release()
            self._count_report(slice, report)

    def _watch(self, future: Future, slice: RequestSlice) -> None:
        """Record a submitted slice as running."""
        self._under_way[future] = slice
        self._completed.add(future)

    def _requeue(self, slice: RequestSlice, counts: Counter[int], maximum: int, reason: str) -> None:
        """Queue a slice again, and raise an error after `maximum` consecutive failures of its partition."""
        counts[slice.partition] += 1
        if counts[slice.partition] >= maximum:
            raise LocalError(f"{slice.label}: {reason}")
        self._plan.end(slice, slice.items, 0.0)

    def _count_report(self, slice: RequestSlice, report: SliceReport) -> None:
        self._loss_counts.pop(slice.partition, None)
        if report.is_locked:
            reason = f"another run has held the partition for {_MAX_LOCKED} minutes"
            self._requeue(slice, self._lock_counts, _MAX_LOCKED, reason)
            return
        self._lock_counts.pop(slice.partition, None)
        self._counts.update(report.counts)
        self._exits.update(report.exits)
        self._bytes += report.bytes
        self._slices += 1
        now = monotonic()
        self._pause_ends[slice.partition] = {host: now + pause for host, pause in report.pauses.items()}
        idle = report.counts.get("skipped", 0) + report.counts.get("refused", 0)
        self._plan.end(slice, report.unstarted, report.seconds, idle=idle)

    def _list_pauses(self, partition: int) -> dict[str, float]:
        """Return the remaining seconds of the pause, for each host that requested a pause."""
        now = monotonic()
        ends = self._pause_ends.get(partition, {})  # A lost slice is repeated with the same pauses.
        return {host: end - now for host, end in ends.items() if end > now}

    def _report_progress(self) -> None:
        plan = self._plan
        ended, under_way = sum(self._counts.values()), len(self._under_way)
        self._on_progress(
            BulkProgress(
                plan.requests, plan.hosts, ended, dict(self._counts), self._bytes, under_way, self._threads
            )
        )

    def _summary(self, seconds: float) -> BulkSummary:
        counts = self._counts
        return BulkSummary(
            requests=self._plan.requests,
            hosts=self._plan.hosts,
            slices=self._slices,
            done=counts["done"],
            skipped=counts["skipped"],
            failed=counts["failed"],
            refused=counts["refused"],
            bytes=self._bytes,
            seconds=seconds,
            exit=choose_status(self._exits),
        )


_SCHEDULER_LOST = "the scheduler was lost during the run (run again with another scheduler to resume)"
