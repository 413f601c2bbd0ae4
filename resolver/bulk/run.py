"""A run: requests are planned, and their slices given to Dask, a few at a time.

What is under way is all that the scheduler ever knows of: it and the workers hold as much of a million
requests as of a thousand. Which slice is the next one, and that no partition has two, is the plan's.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from time import monotonic, sleep
from typing import TYPE_CHECKING, NamedTuple, Unpack
from uuid import uuid4

from protocols.errors import LocalError, NotConfigured
from resolver.bulk.messages import BulkJob, Format, RequestSlice, SliceReport, check_cluster, translate_errors
from resolver.bulk.plan import BulkPlan, Given, iterate_requests, place_request
from resolver.bulk.queue import BOX, PARTITIONS, HostPace
from resolver.bulk.slice import close_all, fetch_packed, index_all, is_under_way, pack_task
from resolver.bulk.store import Store, store_of
from resolver.files.atomic import OutputFiles
from resolver.transfer.settings import Settings, check_names

if TYPE_CHECKING:
    from distributed import Client, Future

#: How often in a row a slice may be lost with its worker.
_MOST_LOST = 5

#: How often in a row, a minute each, a partition may be found at work for another run: what that one has
#: begun with a silent host takes as long as all its tries.
_MOST_HELD = 20

#: Seconds that a report may take to come from its worker, a value of some hundred octets. No other slice is
#: looked at meanwhile.
_REPORT = 30.0

#: Seconds after which it is asked again how many threads there are; and where there were none.
_LOOK = 5.0
_WAIT = 0.5

#: Seconds between two looks whether workers have done with a run that was ended.
_REST = 0.5

_ABOUT = "bulk.json"


class BulkProgress(NamedTuple):
    """How far a run is. `counts` are of those that have ended, by their status. `threads` are those of all
    workers: with none the run waits for some to come."""

    requests: int
    hosts: int
    ended: int
    counts: dict[str, int]
    bytes: int
    under_way: int
    threads: int


class BulkSummary(NamedTuple):
    """What a run came to. `exit` is what the command says of all together: 0, the status of all failures if
    they have one, else 1."""

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
    requests: Given, client: Client | None, pace: HostPace, partitions: int = PARTITIONS
) -> Iterator[BulkPlan]:
    """All of them, ready to be asked for."""
    with BulkPlan(pace, partitions=partitions) as plan:
        for request in iterate_requests(requests, client):
            plan.add(*place_request(request))
        yield plan


def run(
    requests: Given,
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
    """Fetch all of them over the cluster of `client`, and say what it came to.

    `requests` are URLs or `SaveRequest`s, any iterable of them, a bag of Dask or a column of a dataframe.
    They are read once, before anything is fetched. `out` is a directory that all workers reach under this
    name, or a URL that fsspec knows: it gets `bodies`, or with `warc` archives; `outcomes`, in Parquet or as
    JSON Lines; and a `ledger` for each partition, unless that is another directory. Another run with the same
    `out` asks for nothing that is done, and goes on where one was ended, whatever ended it. Where `out` is
    a URL it waits until workers have done what they still do for that one, a minute at most; with another
    scheduler nobody knows of those, so wait for that yourself.

    `per_host` is how many one host has under way, `host_rate` how many begin there a second, wherever in the
    cluster: no two workers ask one host at once. All else is as of `Resolver`, and is sent to the workers.
    Workers may come and go; while there is none, it waits.

    Raises `LocalError` where nothing can be kept, and where the scheduler is lost; `NotConfigured` for an
    `out` that another run has begun in another way, and for a scheduler or a worker that has another version
    of this package, or none.
    """
    check_names(settings, Settings.__annotations__)
    check_cluster(client)
    store = store_of(out)
    partitions = _agree(store, format)
    job = BulkJob(
        out=store.directory if isinstance(store, OutputFiles) else out,
        ledger=ledger,
        settings=settings,
        per_host=per_host,
        host_rate=host_rate,
        format=format,
        warc=warc,
        box=BOX,
    )
    with plan_requests(requests, client, HostPace(host_rate, per_host), partitions) as plan:
        if not isinstance(store, OutputFiles):
            _wait_for_others(client, out)
        with translate_errors():
            summary = _WorkerSpread(client, job, plan, on_progress or (lambda progress: None)).run()
    if warc and isinstance(
        store, OutputFiles
    ):  # of a run that fails the workers close what they have at their end
        client.run(close_all)
        client.submit(index_all, store.directory, pure=False).result()
    return summary


def _wait_for_others(client: Client, out: str) -> None:
    """For slices of a run that was ended: no lock keeps them and ours from asking one host at once."""
    while any(each is True for each in client.run(is_under_way, out, on_error="return").values()):
        sleep(_REST)


def _agree(store: Store, format: Format) -> int:
    """How many partitions there are: as many as the first run had. Raises `NotConfigured`."""
    told = store.read(_ABOUT)
    if told is None:
        about = {"version": 1, "partitions": PARTITIONS, "format": format}
        store.write(_ABOUT, json.dumps(about).encode() + b"\n")
        return PARTITIONS
    try:
        found = json.loads(told)
        version, partitions, kept = found["version"], found["partitions"], found["format"]
    except (ValueError, LookupError, TypeError) as error:
        raise LocalError(f"{_ABOUT} there is none of ours: choose another place") from error
    if version != 1 or not isinstance(partitions, int) or partitions < 1:
        raise LocalError(f"{_ABOUT} there is of another version of this program: choose another place")
    if kept != format:
        raise NotConfigured(f"what is there has outcomes in {kept}: choose that, or another place")
    return int(partitions)


class _WorkerSpread:
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
        self._lost: Counter[int] = Counter()
        self._held: Counter[int] = Counter()
        self._counts: Counter[str] = Counter()
        self._exits: Counter[int] = Counter()
        self._bytes = self._slices = 0
        self._run = uuid4().hex[:8]
        self._threads, self._looked = -1, float("-inf")
        self._alone: dict[int, dict[str, float]] = {}
        self._names: dict[int, str] = {}

    def run(self) -> BulkSummary:
        began = monotonic()
        try:
            self._fill()
            while self._under_way:
                if self._has_one_ended():
                    future = next(self._completed)
                    self._settle(future, self._under_way.pop(future))
                    if self._threads == 0:  # somebody has done it
                        self._looked = float("-inf")
                    self._fill()
                    self._tell()
                else:
                    self._fill()
        finally:
            if self._under_way and self._client.status == "running":
                self._client.cancel(list(self._under_way))
        if self._plan.left:
            raise LocalError(_GONE)
        return self._summary(monotonic() - began)

    def _has_one_ended(self) -> bool:
        """Soon, or not: then there may be more workers by now."""
        changed = self._completed.thread_condition
        with changed:
            return bool(changed.wait_for(self._completed.has_ready, _WAIT))

    def _look(self) -> None:
        """How many slices are given at once: as many as there are threads, see `forecast.AHEAD`; one where
        there is none, by which a cluster that starts workers as they are wanted starts one."""
        if monotonic() - self._looked < (_LOOK if self._threads > 0 else _WAIT):
            return
        before = self._threads
        with suppress(OSError):  # a scheduler that is lost has let go of all, and that is told
            self._threads = sum(self._client.nthreads().values())
        self._looked = monotonic()
        if self._threads > before >= 0:
            check_cluster(self._client)
        if 0 in (before, self._threads) and before != self._threads:
            self._tell()

    def _fill(self) -> None:
        self._look()
        while len(self._under_way) < max(1, self._threads) and (slice := self._plan.take()) is not None:
            slice = slice._replace(pauses=self._pauses_of(slice.partition))
            key = (self._name_of(slice), slice.partition, slice.number, self._run)
            urgency = round(self._plan.urgency(slice))  # once workers have left some wait for one
            sent = pack_task(self._job, slice)
            future = self._client.submit(fetch_packed, sent, key=key, pure=False, priority=urgency)
            self._follow(future, slice)

    def _name_of(self, slice: RequestSlice) -> str:
        """What Dask shows, the same for all slices of a partition: it keeps figures for each name that there
        ever was, and takes a hyphen for the end of a name."""
        return self._names.setdefault(slice.partition, slice.label.replace("-", "\N{NON-BREAKING HYPHEN}"))

    def _settle(self, future: Future, slice: RequestSlice) -> None:
        """Whatever has become of it since it was said to have ended: with its worker its report is lost."""
        from distributed import CancelledError, KilledWorker

        if future.status in ("pending", "lost"):
            self._follow(future, slice)
            return
        try:
            report: SliceReport = future.result(timeout=_REPORT)
        except KilledWorker as error:
            self._lose(slice, error)
        except CancelledError as error:
            raise LocalError(_GONE) from error
        except OSError as error:
            if future.status == "error":  # that is what the slice says
                raise
            if not isinstance(error, TimeoutError):
                raise LocalError(_GONE) from error
            self._follow(future, slice)
        else:
            future.release()  # else it is done again where its worker is lost before the next one ends
            self._count(slice, report)

    def _follow(self, future: Future, slice: RequestSlice) -> None:
        """Until it has ended; where it is done again, what is in the ledger is not."""
        self._under_way[future] = slice
        self._completed.add(future)

    def _lose(self, slice: RequestSlice, error: Exception) -> None:
        self._lost[slice.partition] += 1
        if self._lost[slice.partition] >= _MOST_LOST:
            raise LocalError(f"{slice.label}: {_MOST_LOST} times in a row its worker was lost") from error
        self._plan.end(slice, slice.items, 0.0)

    def _count(self, slice: RequestSlice, report: SliceReport) -> None:
        self._lost.pop(slice.partition, None)
        if report.held:
            self._wait_for_another(slice)
            return
        self._held.pop(slice.partition, None)
        self._counts.update(report.counts)
        self._exits.update(report.exits)
        self._bytes += report.bytes
        self._slices += 1
        now = monotonic()
        self._alone[slice.partition] = {host: now + pause for host, pause in report.pauses.items()}
        idle = report.counts.get("skipped", 0) + report.counts.get("refused", 0)
        self._plan.end(slice, report.left, report.seconds, idle=idle)

    def _wait_for_another(self, slice: RequestSlice) -> None:
        self._held[slice.partition] += 1
        if self._held[slice.partition] >= _MOST_HELD:
            raise LocalError(f"{slice.label}: another run has been at work with it for {_MOST_HELD} minutes")
        self._plan.end(slice, slice.items, 0.0)

    def _pauses_of(self, partition: int) -> dict[str, float]:
        """The seconds that are left of those for which hosts want to be left alone."""
        now = monotonic()
        until = self._alone.get(partition, {})  # once more, where a slice is lost with its worker
        return {host: moment - now for host, moment in until.items() if moment > now}

    def _tell(self) -> None:
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
            exit=_exit_of(self._exits),
        )


def _exit_of(exits: Iterable[int]) -> int:
    failures = {each for each in exits if each}
    if len(failures) > 1:
        return 1
    return failures.pop() if failures else 0


_GONE = "the scheduler has let go of what was under way: with another one the same run goes on"
