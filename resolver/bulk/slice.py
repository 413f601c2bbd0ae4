"""The code that runs in a Dask worker: it fetches a slice (batch of requests) and reports the outcome.

A partition has at most one running slice. The lock on the ledger of the partition prevents a second slice.
This also holds if Dask wrongly assumes that the worker of the first slice is dead. A store at a URL does not
support locks. Therefore a run with such a store first waits for workers that still run slices of an earlier
run.
"""

from __future__ import annotations

import atexit
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, AsyncExitStack, contextmanager, suppress
from functools import partial
from threading import Lock
from typing import NamedTuple
from uuid import uuid4

from protocols.errors import LocalError
from resolver.blocking.portal import portal
from resolver.bulk.messages import CONCURRENCY, BulkJob, BulkRequest, RequestSlice, SliceReport, check
from resolver.bulk.plan import make_request
from resolver.bulk.store import Store, encode_table, open_store
from resolver.files.atomic import OutputFiles, claim_file, make_scratch_directory
from resolver.ledger import LedgerHeld
from resolver.ledger.book import Ledger
from resolver.loops import running
from resolver.transfer.batch import MAX_FLUSHING, Batch, BatchTask
from resolver.transfer.many import BatchSettings, Outcome, SaveRequest, hosts_for, save_under
from resolver.transfer.queue import HostScheduler
from resolver.transfer.session import Resolver
from resolver.transfer.settings import Settings
from resolver.version import VERSION
from resolver.warc.recorder import Recorder

# The scratch directory of a slice. The directory contains output that is later sent to a store at a URL. The
# scratch directory is inside the local directory of the Dask worker, because the user has provided disk space
# there. If a worker is killed, Dask removes the local directory.


def create_scratch() -> AbstractContextManager[str]:
    from distributed import get_worker

    try:
        directory: str | None = get_worker().local_directory
    except ValueError:  # `get_worker` fails outside a Dask worker.
        directory = None
    return make_scratch_directory(directory)


# The WARC archives of a bulk run. If `out` is a directory, all slices of a worker write to one archive in
# `out`, until the run ends. If `out` is a URL, each slice writes a separate archive. The archive is sent to
# the store with the other output.

_lock = Lock()
_recorders: dict[str, Recorder] = {}


@contextmanager
def open_recorder(job: BulkJob, slice: RequestSlice, store: Store) -> Iterator[Recorder | None]:
    """Yield the WARC recorder for a slice (batch of requests), or None if the job does not record."""
    if not job.warc:
        yield None
    elif isinstance(store, OutputFiles):
        yield _open_worker_archive(store)
    else:
        name = f"{slice.partition:04d}-{slice.number:05d}-{uuid4().hex[:8]}"
        with create_scratch() as directory:
            files = OutputFiles(directory)
            with Recorder(files.place(f"{name}.warc.gz"), sync=True) as recorder:
                yield recorder
            store.send([(files.place(file), f"warc/{file}") for file in files.names("")])


def _open_worker_archive(store: OutputFiles) -> Recorder:
    with _lock:
        if store.directory not in _recorders:
            if not _recorders:
                atexit.register(close_all)
            path = store.place(f"warc/{uuid4().hex}.warc.gz")
            _recorders[store.directory] = Recorder(path, sync=True)
        return _recorders[store.directory]


def close_all() -> None:
    """Close the WARC archives of this process, and write their CDXJ indexes."""
    with _lock:
        while _recorders:
            _, recorder = _recorders.popitem()
            with suppress(LocalError):
                recorder.close()


def index_all(directory: str) -> None:
    """Write the missing CDXJ indexes of WARC archives in a directory.

    An index is missing if the worker was killed. An archive that another process still writes is skipped.
    """
    store = OutputFiles(directory)
    names = set(store.names("warc"))
    for name in sorted(names):
        stem, ending, _ = name.partition(".warc")
        if ending and f"{stem}.cdxj" not in names:
            with suppress(LocalError):
                Recorder(store.place(f"warc/{name}")).close()


#: The polling interval in seconds for the lock on a partition that another worker holds.
_LOCK_INTERVAL = 0.5


class SliceOutput(NamedTuple):
    """The output of a slice (batch of requests): a directory of bodies, and the ledger of the partition.

    Attributes:
        is_remote: Whether finished files are moved to a store at a URL.
    """

    bodies: str
    ledger: str
    is_remote: bool


def fetch_slice(job: BulkJob, slice: RequestSlice) -> SliceReport:
    """Fetch the URLs of a batch of requests (slice), and return a report.

    The function blocks until all started requests have ended. After the maximum duration of the slice, no
    further requests are started.

    Raises:
        LocalError: The output cannot be stored.
    """
    store = open_store(job.out)
    with _register_run(job.out), _prepare_output(job, store, slice.partition) as output:
        with open_recorder(job, slice, store) as recorder:
            report, ended = portal().run(partial(_fetch, job, slice, output, recorder))
        _publish(job, store, output, slice.partition, ended)
        if slice.is_last and not report.unstarted:
            table = encode_table(output.ledger, job.format, files=not job.warc)
            store.write(f"outcomes/part-{slice.partition:04d}.{job.format}", table)
    return report


#: The stores of the running slices in this process.
_running: dict[object, str] = {}


@contextmanager
def _register_run(out: str) -> Iterator[None]:
    key = object()
    _running[key] = out
    try:
        yield
    finally:
        del _running[key]


def is_running(out: str) -> bool:
    """Return whether this process runs a slice for `out`, even after the client disconnected."""
    return out in tuple(_running.values())


@contextmanager
def _prepare_output(job: BulkJob, store: Store, partition: int) -> Iterator[SliceOutput]:
    name = _ledger_name(partition)
    if isinstance(store, OutputFiles) and not job.warc:
        yield SliceOutput(store.place("bodies"), _ledger_path(job, store, name), is_remote=False)
        return
    with create_scratch() as directory:
        files = OutputFiles(directory)
        ledger = files.place("ledger")
        if isinstance(store, OutputFiles):
            ledger = _ledger_path(job, store, name)
        elif store.fetch(name, ledger):
            claim_file(ledger)
        yield SliceOutput(files.place("bodies"), ledger, is_remote=True)


def _ledger_name(partition: int) -> str:
    return f"ledger/{partition:04d}.ledger"


def _ledger_path(job: BulkJob, store: OutputFiles, name: str) -> str:
    return store.place(name) if job.ledger is None else OutputFiles(job.ledger).place(name.partition("/")[2])


def _publish(job: BulkJob, store: Store, output: SliceOutput, partition: int, ended: list[str]) -> None:
    """Upload the saved files to the store, and then the ledger, which lists the files."""
    if isinstance(store, OutputFiles):
        return
    files = OutputFiles(output.bodies)
    if not job.warc:
        store.send([(files.place(path), f"bodies/{path}") for path in ended if files.has(path)])
    store.send([(output.ledger, _ledger_name(partition))])


async def _fetch(
    job: BulkJob, slice: RequestSlice, output: SliceOutput, recorder: Recorder | None
) -> tuple[SliceReport, list[str]]:
    loop = running()
    settings = Settings(**job.settings)
    if recorder is not None:
        settings["recorder"] = recorder
    started = loop.current_time()
    async with AsyncExitStack() as stack:
        ledger = await _lock_ledger(output, stack, job.max_seconds)
        if ledger is None:
            seconds = loop.current_time() - started
            return SliceReport(slice.items, {}, {}, 0, seconds, slice.pauses or {}, is_locked=True), []
        started = loop.current_time()
        hosts: HostScheduler[BatchTask[Outcome]] = hosts_for(job.per_host, job.host_rate)
        for host, seconds in (slice.pauses or {}).items():
            hosts.pause_until(host, started + seconds)
        batch: Batch[Outcome] = Batch(
            hosts, concurrency=CONCURRENCY, until=started + job.max_seconds, max_flushing=MAX_FLUSHING
        )
        outcomes = _SliceOutcomes(slice.items)
        session = _SliceSession(**settings)
        async with session:
            await session.save_slice(slice, output, ledger, batch, outcomes)
        now = loop.current_time()
    report = SliceReport(
        unstarted=outcomes.list_remaining(),
        counts=dict(+outcomes.counts),
        exits=dict(outcomes.exits),
        bytes=outcomes.bytes,
        seconds=now - started,
        pauses=hosts.pauses(now),
    )
    return report, outcomes.saved


async def _lock_ledger(output: SliceOutput, stack: AsyncExitStack, max_wait: float) -> Ledger | None:
    """Lock and return the ledger, or return None if the lock is not free within `max_wait` seconds.

    Raises:
        LedgerFault: The ledger cannot be read or written.
    """
    loop = running()
    deadline = loop.current_time() + max_wait
    while True:
        ledger = Ledger(output.ledger, below=output.bodies, elsewhere=output.is_remote)
        try:
            return await stack.enter_async_context(ledger)
        except LedgerHeld:
            if loop.current_time() >= deadline:
                return None
            await loop.sleep(_LOCK_INTERVAL)


class _SliceSession(Resolver):
    async def save_slice(
        self,
        slice: RequestSlice,
        output: SliceOutput,
        ledger: Ledger,
        batch: Batch[Outcome],
        outcomes: _SliceOutcomes,
    ) -> None:
        settings = BatchSettings(
            session=self,
            network=self._network,
            directory=output.bodies,
            exists="replace",
            digest=True,
            moves=True,
        )
        await save_under(settings, map(make_request, outcomes.list_remaining()), ledger, batch, outcomes.add)


class _SliceOutcomes:
    """The requests of a slice and their outcomes. A duplicate request is performed once."""

    def __init__(self, items: tuple[BulkRequest, ...]) -> None:
        self._unfinished = {item.path: item for item in items}
        self.counts = Counter(skipped=len(items) - len(self._unfinished))
        self.exits: Counter[int] = Counter()
        self.bytes = 0
        self.saved: list[str] = []

    async def add(self, request: SaveRequest, outcome: Outcome) -> None:
        assert request.path is not None
        self._unfinished.pop(request.path, None)
        self.counts[outcome.status] += 1
        self.exits[outcome.exit] += 1
        if outcome.status == "done":
            self.bytes += outcome.bytes - outcome.resumed_from
            self.saved.append(request.path)

    def list_remaining(self) -> tuple[BulkRequest, ...]:
        """Return the requests that have not ended, in their original order."""
        return tuple(self._unfinished.values())


# A task is sent to Dask as serialized bytes, with the version of this package before the bytes.
#
# Dask stores the last 1,000 messages to each worker and to the scheduler
# (`distributed.admin.low-level-log-length`). If tasks were sent as objects, Dask would store the objects.
# Hundreds of megabytes of finished requests would then stay in memory.


def pack_task(job: BulkJob, slice: RequestSlice) -> bytes:
    """Serialize a task as Dask does, because the settings may contain functions of the user's notebook."""
    from distributed.protocol.pickle import dumps

    octets: bytes = dumps((job, slice))
    return VERSION.encode() + b"\n" + zlib.compress(octets)


def fetch_packed(octets: bytes) -> SliceReport:
    """Run `fetch_slice` on a serialized task. Raises `NotConfigured` for another version."""
    from distributed.protocol.pickle import loads

    version, _, pickled = octets.partition(b"\n")
    check(version.decode())
    job, slice = loads(zlib.decompress(pickled))
    return fetch_slice(job, slice)
