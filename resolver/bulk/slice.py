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
from resolver.bulk.messages import BulkJob, BulkRequest, RequestSlice, SliceReport, check
from resolver.bulk.plan import request_of
from resolver.bulk.store import Store, store_of, table_of
from resolver.files.atomic import OutputFiles, claim_file, make_scratch_directory
from resolver.ledger import LedgerHeld
from resolver.ledger.book import Ledger
from resolver.loops import running
from resolver.transfer.batch import AT_REST, Batch, BatchTask
from resolver.transfer.many import BatchSettings, Outcome, SaveRequest, hosts_for, save_under
from resolver.transfer.queue import HostScheduler
from resolver.transfer.session import Resolver
from resolver.transfer.settings import Settings
from resolver.version import VERSION
from resolver.warc.recorder import Recorder

# The scratch directory of a slice. The directory contains output that is later sent to a store at a URL. The
# scratch directory is inside the local directory of the Dask worker, because the user has provided disk space
# there. If a worker is killed, Dask removes the local directory.


def scratch() -> AbstractContextManager[str]:
    """Create a temporary directory for the output of a slice."""
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
_open: dict[str, Recorder] = {}


@contextmanager
def recorder_of(job: BulkJob, slice: RequestSlice, store: Store) -> Iterator[Recorder | None]:
    """Yield the WARC recorder for a slice (batch of requests), or None if the job does not record."""
    if not job.warc:
        yield None
    elif isinstance(store, OutputFiles):
        yield _open_worker_archive(store)
    else:
        name = f"{slice.partition:04d}-{slice.number:05d}-{uuid4().hex[:8]}"
        with scratch() as directory:
            here = OutputFiles(directory)
            with Recorder(here.place(f"{name}.warc.gz"), sync=True) as recorder:
                yield recorder
            store.send([(here.place(each), f"warc/{each}") for each in here.names("")])


def _open_worker_archive(shelf: OutputFiles) -> Recorder:
    with _lock:
        if shelf.directory not in _open:
            if not _open:
                atexit.register(close_all)
            path = shelf.place(f"warc/{uuid4().hex}.warc.gz")
            _open[shelf.directory] = Recorder(path, sync=True)
        return _open[shelf.directory]


def close_all() -> None:
    """Close the WARC archives of this process, and write their CDXJ indexes."""
    with _lock:
        while _open:
            _, recorder = _open.popitem()
            with suppress(LocalError):
                recorder.close()


def index_all(directory: str) -> None:
    """Write the missing CDXJ indexes of WARC archives in a directory.

    An index is missing if the worker was killed. An archive that another process still writes is skipped.
    """
    shelf = OutputFiles(directory)
    names = set(shelf.names("warc"))
    for name in sorted(names):
        stem, ending, _ = name.partition(".warc")
        if ending and f"{stem}.cdxj" not in names:
            with suppress(LocalError):
                Recorder(shelf.place(f"warc/{name}")).close()


#: The polling interval in seconds for the lock on a partition that another worker holds.
_LOOK = 0.5


class SliceOutput(NamedTuple):
    """The output of a slice (batch of requests): a directory of bodies, and the ledger of the partition.

    Attributes:
        elsewhere: Whether finished files are moved to a store at a URL.
    """

    bodies: str
    ledger: str
    elsewhere: bool


def fetch_slice(job: BulkJob, slice: RequestSlice) -> SliceReport:
    """Fetch the URLs of a batch of requests (slice), and return a report.

    The function blocks until all started requests have ended. After the maximum duration of the slice, no
    further requests are started.

    Raises:
        LocalError: The output cannot be stored.
    """
    store = store_of(job.out)
    with _register_run(job.out), _bench(job, store, slice.partition) as bench:
        with recorder_of(job, slice, store) as recorder:
            report, ended = portal().run(partial(_fetch, job, slice, bench, recorder))
        _publish(job, store, bench, slice.partition, ended)
        if slice.last and not report.left:
            table = table_of(bench.ledger, job.format, files=not job.warc)
            store.write(f"outcomes/part-{slice.partition:04d}.{job.format}", table)
    return report


#: The stores of the running slices in this process.
_under_way: dict[object, str] = {}


@contextmanager
def _register_run(out: str) -> Iterator[None]:
    each = object()
    _under_way[each] = out
    try:
        yield
    finally:
        del _under_way[each]


def is_under_way(out: str) -> bool:
    """Return whether this process runs a slice for `out`, even after the client disconnected."""
    return out in tuple(_under_way.values())


@contextmanager
def _bench(job: BulkJob, store: Store, partition: int) -> Iterator[SliceOutput]:
    name = _ledger_name(partition)
    if isinstance(store, OutputFiles) and not job.warc:
        yield SliceOutput(store.place("bodies"), _ledger_here(job, store, name), elsewhere=False)
        return
    with scratch() as directory:
        here = OutputFiles(directory)
        ledger = here.place("ledger")
        if isinstance(store, OutputFiles):
            ledger = _ledger_here(job, store, name)
        elif store.fetch(name, ledger):
            claim_file(ledger)
        yield SliceOutput(here.place("bodies"), ledger, elsewhere=True)


def _ledger_name(partition: int) -> str:
    return f"ledger/{partition:04d}.ledger"


def _ledger_here(job: BulkJob, shelf: OutputFiles, name: str) -> str:
    return shelf.place(name) if job.ledger is None else OutputFiles(job.ledger).place(name.partition("/")[2])


def _publish(job: BulkJob, store: Store, bench: SliceOutput, partition: int, ended: list[str]) -> None:
    """Upload the saved files to the store, and then the ledger, which lists the files."""
    if isinstance(store, OutputFiles):
        return
    here = OutputFiles(bench.bodies)
    if not job.warc:
        store.send([(here.place(path), f"bodies/{path}") for path in ended if here.has(path)])
    store.send([(bench.ledger, _ledger_name(partition))])


async def _fetch(
    job: BulkJob, slice: RequestSlice, bench: SliceOutput, recorder: Recorder | None
) -> tuple[SliceReport, list[str]]:
    loop = running()
    settings = Settings(**job.settings)
    if recorder is not None:
        settings["recorder"] = recorder
    began = loop.current_time()
    async with AsyncExitStack() as held:
        ledger = await _enter(bench, held, job.box)
        if ledger is None:
            seconds = loop.current_time() - began
            empty = SliceReport(
                slice.partition, slice.number, slice.items, {}, {}, 0, seconds, slice.pauses or {}
            )
            return empty._replace(held=True), []
        began = loop.current_time()
        hosts: HostScheduler[BatchTask[Outcome]] = hosts_for(job.per_host, job.host_rate)
        for host, seconds in (slice.pauses or {}).items():
            hosts.leave_alone(host, began + seconds)
        batch: Batch[Outcome] = Batch(
            hosts, concurrency=job.concurrency, until=began + job.box, resting=AT_REST
        )
        account = _SliceLedger(slice.items)
        session = _SliceSession(**settings)
        async with session:
            await session.save_slice(slice, bench, ledger, batch, account)
        now = loop.current_time()
    report = SliceReport(
        slice.partition,
        slice.number,
        left=account.list_remaining(),
        counts=dict(+account.counts),
        exits=dict(account.exits),
        bytes=account.bytes,
        seconds=now - began,
        pauses=hosts.pauses(now),
    )
    return report, account.saved


async def _enter(bench: SliceOutput, held: AsyncExitStack, patience: float) -> Ledger | None:
    """Lock and return the ledger, or return None if the lock is not free within `patience` seconds.

    Raises:
        LedgerFault: The ledger cannot be read or written.
    """
    loop = running()
    until = loop.current_time() + patience
    while True:
        ledger = Ledger(bench.ledger, below=bench.bodies, elsewhere=bench.elsewhere)
        try:
            return await held.enter_async_context(ledger)
        except LedgerHeld:
            if loop.current_time() >= until:
                return None
            await loop.sleep(_LOOK)


class _SliceSession(Resolver):
    async def save_slice(
        self,
        slice: RequestSlice,
        bench: SliceOutput,
        ledger: Ledger,
        batch: Batch[Outcome],
        account: _SliceLedger,
    ) -> None:
        how = BatchSettings(
            session=self,
            network=self._network,
            directory=bench.bodies,
            exists="replace",
            digest=True,
            moves=True,
        )
        await save_under(how, map(request_of, account.list_remaining()), ledger, batch, account.take)


class _SliceLedger:
    """The requests of a slice and their outcomes. A duplicate request is performed once."""

    def __init__(self, items: tuple[BulkRequest, ...]) -> None:
        self._waiting = {item.path: item for item in items}
        self.counts = Counter(skipped=len(items) - len(self._waiting))
        self.exits: Counter[int] = Counter()
        self.bytes = 0
        self.saved: list[str] = []

    async def take(self, request: SaveRequest, outcome: Outcome) -> None:
        assert request.path is not None
        self._waiting.pop(request.path, None)
        self.counts[outcome.status] += 1
        self.exits[outcome.exit] += 1
        if outcome.status == "done":
            self.bytes += outcome.bytes - outcome.resumed_from
            self.saved.append(request.path)

    def list_remaining(self) -> tuple[BulkRequest, ...]:
        """Return the requests that have not ended, in their original order."""
        return tuple(self._waiting.values())


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
