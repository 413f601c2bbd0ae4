"""What a worker does: it fetches a slice, and says what became of it.

Whatever else runs, one slice of a partition is under way at a time: the ledger of the partition lets in no
second one, not even where a worker is taken for dead and is not. Elsewhere than in a directory no ledger can:
there a run waits, before it begins, for what workers still do for one before it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from functools import partial

from protocols.values import NamedTuple
from resolver.batch import Batch, BatchTask, HostScheduler
from resolver.bulk.archives import recorder_of
from resolver.bulk.item import BulkRequest, RequestSlice, SliceReport
from resolver.bulk.job import BulkJob
from resolver.bulk.outcomes import table_of
from resolver.bulk.requests import request_of
from resolver.bulk.scratch import scratch
from resolver.bulk.store import Store, store_of
from resolver.disk.shelf import OutputFiles, own
from resolver.ledger import LedgerHeld
from resolver.ledger.book import Ledger
from resolver.loops import running
from resolver.portal import portal
from resolver.retrieval.many import BatchSettings, SaveRequest, hosts_for, save_under
from resolver.retrieval.outcome import Outcome
from resolver.retrieval.session import Resolver
from resolver.settings import Settings
from resolver.warc.recorder import Recorder

#: Seconds between two looks whether another worker, which was taken for dead, has let go of a partition.
_LOOK = 0.5


class SliceOutput(NamedTuple):
    """Where a slice puts what it brings: bodies, and the ledger of its partition. `elsewhere`: what is done
    is kept in another place."""

    bodies: str
    ledger: str
    elsewhere: bool


def fetch_slice(job: BulkJob, slice: RequestSlice) -> SliceReport:
    """Blocks until all of it has ended, or its time is over and what was begun has. Raises `LocalError` where
    nothing could be kept."""
    store = store_of(job.out)
    with _known(job.out), _bench(job, store, slice.partition) as bench:
        with recorder_of(job, slice, store) as recorder:
            report, ended = portal().run(partial(_fetch, job, slice, bench, recorder))
        _publish(job, store, bench, slice.partition, ended)
        if slice.last and not report.left:
            table = table_of(bench.ledger, job.format, files=not job.warc)
            store.write(f"outcomes/part-{slice.partition:04d}.{job.format}", table)
    return report


#: Where the slices go that are under way in this process.
_under_way: dict[object, str] = {}


@contextmanager
def _known(out: str) -> Iterator[None]:
    each = object()
    _under_way[each] = out
    try:
        yield
    finally:
        del _under_way[each]


def is_under_way(out: str) -> bool:
    """Is a slice for that place under way in this process? One whose client is gone goes on to its end."""
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
            own(ledger)
        yield SliceOutput(here.place("bodies"), ledger, elsewhere=True)


def _ledger_name(partition: int) -> str:
    return f"ledger/{partition:04d}.ledger"


def _ledger_here(job: BulkJob, shelf: OutputFiles, name: str) -> str:
    return shelf.place(name) if job.ledger is None else OutputFiles(job.ledger).place(name.partition("/")[2])


def _publish(job: BulkJob, store: Store, bench: SliceOutput, partition: int, ended: list[str]) -> None:
    """What came goes to its place, and then the ledger that says so."""
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
        batch: Batch[Outcome] = Batch(hosts, concurrency=job.concurrency, until=began + job.box)
        account = _SliceLedger(slice.items)
        session = _SliceSession(**settings)
        async with session:
            await session.save_slice(slice, bench, ledger, batch, account)
        now = loop.current_time()
    report = SliceReport(
        slice.partition,
        slice.number,
        left=account.left(),
        counts=dict(+account.counts),
        exits=dict(account.exits),
        bytes=account.bytes,
        seconds=now - began,
        pauses=hosts.pauses(now),
    )
    return report, account.saved


async def _enter(bench: SliceOutput, held: AsyncExitStack, patience: float) -> Ledger | None:
    """The ledger, once nobody else has it; None where somebody has it for so long. Raises `LedgerFault`."""
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
        await save_under(how, map(request_of, account.left()), ledger, batch, account.take)


class _SliceLedger:
    """Which requests of a slice have ended, and how. One that is there twice has ended once."""

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

    def left(self) -> tuple[BulkRequest, ...]:
        """What has not ended, in its order."""
        return tuple(self._waiting.values())
