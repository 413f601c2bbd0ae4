"""Files that are saved from pages: one at a time or several, to be paused and gone on with, also by another
server than the one that began (`account`). None goes on before a person says so.

What was paused or cut short stays beside its file and is continued, if the object is still the same; a file
gets its name once it is whole, and none is ever put in the place of another.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from os.path import abspath, basename

import trio

from protocols.errors import ResolveError
from resolver.events import Event, Progress
from resolver.ledger import LedgerFault
from resolver.ledger import current as current_row
from resolver.ledger.book import LedgerEntry
from resolver.retrieval.session import Resolver
from resolver.url import redact
from resolver.window.account import SavedFile, SaveLedger
from resolver.window.pages.own import SavedTransfer
from resolver.window.session import UrlOrigin, new_id

#: Saves at a time; what more is asked for waits. And how many are remembered.
_AT_ONCE = 4
_MOST = 1_000
#: Seconds over which it is told how fast one comes.
_MOMENT = 1.0
_UNDER_WAY = ("waiting", "running")


class _TransferJob:
    """One of them: `scope` is what ends it while it runs. `changed` gives the number of a change, which is
    told by that."""

    def __init__(self, shown: SavedTransfer, saving: SavedFile, changed: Callable[[], int]) -> None:
        self._shown = shown
        self._changed = changed
        self.change = changed()
        self.saving = saving
        self.begin()

    def begin(self) -> None:
        """Anew, or for the first time."""
        self.scope, self.next = trio.CancelScope(), "paused"
        self._since: tuple[float, int] | None = None

    @property
    def shown(self) -> SavedTransfer:
        return self._shown

    @shown.setter
    def shown(self, shown: SavedTransfer) -> None:
        self._shown, self.change = shown, self._changed()

    def hear(self, event: Progress) -> None:
        now, rate = trio.current_time(), self.shown.rate
        if self._since is None:
            self._since = now, event.received
        elif now - self._since[0] >= _MOMENT:
            rate = max(0, event.received - self._since[1]) / (now - self._since[0])
            self._since = now, event.received
        self.shown = self.shown._replace(received=event.received, expected=event.expected, rate=rate)


_CURRENT: ContextVar[_TransferJob | None] = ContextVar("_CURRENT", default=None)


def hear_transfer(event: Event) -> None:
    """How far the save is that this happens in."""
    job = _CURRENT.get()
    if job is not None and isinstance(event, Progress):
        job.hear(event)


class TransferQueue:
    """Those of one run; `hands` is where they go on after their page is sent, `account` the ledger."""

    def __init__(self, resolver: Resolver, hands: trio.Nursery, account: SaveLedger | None = None) -> None:
        self._resolver = resolver
        self._hands = hands
        self._account = SaveLedger(None) if account is None else account
        self._opening = trio.Lock()
        self._is_open = False
        self._turns = trio.CapacityLimiter(_AT_ONCE)
        self._jobs: dict[int, _TransferJob] = {}
        self._last = 0
        self.change = 0
        self._news = trio.Event()

    async def recall(self) -> str:
        """Know what earlier runs had, before anything else; why nothing will be remembered, if so."""
        async with self._opening:
            if not self._is_open:
                for saving in await self._account.recall(_MOST):
                    if saving.told is not None:
                        self._add(saving.told, saving)
                self._is_open = True
        return self._account.complaint

    def _add(self, shown: SavedTransfer, saving: SavedFile) -> _TransferJob:
        if len(self._jobs) >= _MOST:
            self._jobs.pop(next(number for number, job in self._jobs.items() if job.shown.state != "running"))
        self._last += 1
        job = _TransferJob(shown._replace(number=self._last), saving, self._changed)
        self._jobs[self._last] = job
        return job

    @property
    def all(self) -> list[SavedTransfer]:
        """The newest first."""
        return [job.shown for job in reversed(self._jobs.values())]

    @property
    def are_under_way(self) -> bool:
        return any(job.shown.state in _UNDER_WAY for job in self._jobs.values())

    def since(self, change: int) -> list[SavedTransfer]:
        """What has changed since that one, the oldest first; `change` is the last of all."""
        return [job.shown for job in self._jobs.values() if job.change > change]

    @property
    def news(self) -> trio.Event:
        """Set by the next change, or by `wake`."""
        return self._news

    def wake(self) -> None:
        """Who waits for news has to look."""
        self._news.set()
        self._news = trio.Event()

    def _changed(self) -> int:
        self.change += 1
        self.wake()
        return self.change

    def begin(self, url: str, name: str, way: UrlOrigin) -> None:
        """Save it under a name that is free."""
        job = self._add(
            SavedTransfer(0, name, redact(url), "waiting", 0), SavedFile(url, abspath(name), way, new_id())
        )
        self._hands.start_soon(self._run, job)

    def pause(self, number: int | None) -> None:
        """One of them, or all."""
        self._end(number, "paused")

    def stop(self, number: int) -> None:
        self._end(number, "failed")

    def resume(self, number: int) -> None:
        """Go on with what was paused, or has failed."""
        job = self._jobs.get(number)
        if job is not None and job.shown.state in ("paused", "failed"):
            job.begin()
            job.shown = job.shown._replace(state="waiting", error="")
            self._hands.start_soon(self._run, job)

    def _end(self, number: int | None, state: str) -> None:
        for each, job in self._jobs.items():
            if number in (None, each) and job.shown.state in _UNDER_WAY:
                job.next = state
                job.scope.cancel()

    async def _run(self, job: _TransferJob) -> None:
        _CURRENT.set(job)
        with job.scope:
            await self._perform(job)
        if job.scope.cancelled_caught:
            error = "stopped" if job.next == "failed" else ""
            job.shown = job.shown._replace(state=job.next, error=error)

    async def _perform(self, job: _TransferJob) -> None:
        try:
            entry = await self._account.admit(job.saving)
            if entry is not None and entry.is_done:  # an earlier run was ended when all was there
                self._is_there(job, entry.path, entry.size, entry.digest)
                return
            async with self._turns:
                job.shown = job.shown._replace(state="running")
                current_row.set(entry)
                await self._save(job, entry)
        except LedgerFault as error:
            job.shown = job.shown._replace(state="failed", error=error.message)

    async def _save(self, job: _TransferJob, entry: LedgerEntry | None) -> None:
        """Raises `LedgerFault`."""
        saving = job.saving
        try:
            saved = await self._resolver.save(
                saving.url,
                saving.path,
                exists="rename",
                digest=True,
                origin=saving.way.origin,
                referrer=saving.way.referrer,
            )
        except LedgerFault:
            raise
        except ResolveError as error:
            await self._account.note(entry, error)
            job.shown = job.shown._replace(state="failed", error=error.message)
            return
        await self._account.note(entry, saved)
        self._is_there(job, saved.path or saving.path, saved.bytes, saved.digest, saved.verified)

    def _is_there(
        self, job: _TransferJob, path: str, size: int, digest: str | None, verified: tuple[str, ...] = ()
    ) -> None:
        job.shown = job.shown._replace(
            state="done", name=basename(path), received=size, digest=digest or "", verified=verified
        )
