"""Transfers from pages: a queue of files to save with pause and resume, its ledger, and its events.

If a transfer is paused or interrupted, the partial file stays on the disk. If the object is unchanged, the
user can resume the transfer, even in a later run. A complete file is renamed to its final name, and never
replaces another file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import partial
from os.path import abspath, basename
from types import TracebackType
from typing import NamedTuple

import trio
from starlette.requests import Request
from starlette.responses import Response as Answer
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from protocols.errors import LocalError, ResolveError, class_name
from protocols.location import Origin, Referrer
from protocols.text import own_text
from resolver.files.atomic import make_parent_folder
from resolver.files.partial_file import has_size
from resolver.ledger import LedgerFault
from resolver.ledger import current as current_row
from resolver.ledger.book import Ledger, LedgerEntry, RequestRow
from resolver.ledger.report import ReportRow, list_newest
from resolver.loops import running
from resolver.network.events import Event, Progress
from resolver.terminal.text import escape_controls
from resolver.transfer.response import Saved
from resolver.transfer.session import Resolver
from resolver.url.parsing import redact
from resolver.web import headers
from resolver.web.answers import PageAnswers, get_query
from resolver.web.pages.own import SavedTransfer, make_transfer_row
from resolver.web.pages.page import PageAddressBar, parse_number
from resolver.web.reading import run_while_connected
from resolver.web.session import UrlOrigin, new_id

# The ledger is a file that stores complete and incomplete transfers, with their paths and errors, for later
# runs.
#
# The ledger is opened when the user first opens the transfers page or saves a file. If the ledger cannot be
# opened, for example because another server of the user has opened it, files are saved without a record. The
# page then shows the reason.

_ORIGINS: Mapping[str, Origin] = {"user": "user", "chosen": "chosen"}
#: The key in a ledger row for the data of the web UI.
_ROW_KEY = "window"
_NO_FILE = "the file was moved, deleted or changed"
_NO_PASSWORD = "the password in the URL was not stored (open the URL and save it again)"


class TransferRequest(NamedTuple):
    """A file to save.

    `key` makes the difference between the transfer of this file and other transfers of the same URL, also in
    other runs. `transfer` is the state that an earlier run recorded in the ledger.
    """

    url: str
    path: str
    source: UrlOrigin
    key: str
    transfer: SavedTransfer | None = None
    lacks_password: bool = False

    @property
    def row(self) -> RequestRow:
        shown = redact(self.url)
        return RequestRow(
            url=shown,
            place=f"{self.path}\0{self.key}",
            typed_url=shown,
            origin=self.source.origin,
            referrer=self.source.referrer,
            without_password=shown != self.url,
            more=json.dumps({_ROW_KEY: [self.path, self.key]}),
        )


class TransferLedger:
    """The ledger of one server, as an async context manager; a `path` of None disables it."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._ledger: Ledger | None = None
        self.complaint = "" if path else "no state directory is known"

    async def open_ledger(self, max_rows: int) -> list[TransferRequest]:
        """Open the ledger and return the newest transfers, or set `complaint` to the reason of a failure."""
        if self._path is None:
            return []
        ledger = Ledger(self._path)
        try:
            make_parent_folder(self._path, "ledger")
            self._ledger = await ledger.__aenter__()
            rows = await running().in_thread(partial(list_newest, self._path, max_rows))
        except LocalError as error:
            self.complaint = error.message
            return []
        return [file for file in map(_make_request, rows) if file is not None]

    async def __aenter__(self) -> TransferLedger:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Flush the ledger to the disk, and close the ledger.

        Raises:
            LedgerFault: The ledger cannot be written.
        """
        ledger, self._ledger = self._ledger, None
        if ledger is not None:
            await ledger.__aexit__(kind, error, trace)

    async def admit(self, file: TransferRequest) -> LedgerEntry | None:
        """Return the ledger row of a transfer.

        The result is `None` without an open ledger.

        Raises:
            LedgerFault: The ledger cannot be written, or the URL needs a password, which a ledger never
                stores.
        """
        if self._ledger is None:
            return None
        if file.lacks_password:
            raise LedgerFault(_NO_PASSWORD)
        (entry,) = await running().in_thread(self._ledger.admit, [file.row])
        return entry

    async def record_outcome(self, entry: LedgerEntry | None, outcome: Saved | ResolveError) -> None:
        """Record the outcome of a transfer.

        Raises:
            LedgerFault: The ledger cannot be written.
        """
        if entry is None or self._ledger is None:
            return
        if isinstance(outcome, ResolveError):
            entry.record_failed(outcome, class_name(outcome), refused=False)
        else:
            brought = max(0, outcome.bytes - outcome.resumed_from)
            entry.record_done(outcome.path, outcome.bytes, brought, outcome.attempts, skipped=False)
        await self._ledger.settle()


def _make_request(row: ReportRow) -> TransferRequest | None:
    """Return the transfer that a ledger row describes, or None for a row of another program."""
    request = row.request
    match request.more.get(_ROW_KEY):
        case [str(path), str(key)]:
            referrer = None if request.referrer is None else Referrer(*request.referrer)
            source = UrlOrigin(_ORIGINS.get(request.origin, "derived"), referrer)
            return TransferRequest(
                request.url, path, source, key, _make_transfer(row, path), request.without_password
            )
    return None


def _make_transfer(row: ReportRow, path: str) -> SavedTransfer:
    url, message = own_text(row.request.url), row.request.message or ""
    if row.status == "done" and has_size(row.path, row.size):
        return SavedTransfer(0, basename(row.path), url, "done", row.size, digest=row.digest or "")
    if row.status == "done":
        return SavedTransfer(0, basename(row.path), url, "failed", 0, error=_NO_FILE)
    if row.status == "failed":
        return SavedTransfer(0, basename(path), url, "failed", 0, error=message)
    return SavedTransfer(0, basename(path), url, "paused", 0)


#: Maximum number of concurrent transfers, and maximum number of stored transfers.
_MAX_RUNNING = 4
_MAX_TRANSFERS = 1_000
#: Time interval in seconds for the measurement of the transfer rate.
_RATE_INTERVAL = 1.0
_ACTIVE_STATES = ("waiting", "running")


class _TransferJob:
    """A transfer in the queue.

    `scope` cancels the running transfer. `count_change` returns the next change number. An assignment to
    `shown` calls `count_change`.
    """

    def __init__(self, shown: SavedTransfer, file: TransferRequest, count_change: Callable[[], int]) -> None:
        self._shown = shown
        self._count_change = count_change
        self.change = count_change()
        self.file = file
        self.begin()

    def begin(self) -> None:
        """Reset the state before each attempt."""
        self.scope, self.next = trio.CancelScope(), "paused"
        self._last_sample: tuple[float, int] | None = None

    @property
    def shown(self) -> SavedTransfer:
        return self._shown

    @shown.setter
    def shown(self, shown: SavedTransfer) -> None:
        self._shown, self.change = shown, self._count_change()

    def update(self, event: Progress) -> None:
        now, rate = trio.current_time(), self.shown.rate
        if self._last_sample is None:
            self._last_sample = now, event.received
        elif now - self._last_sample[0] >= _RATE_INTERVAL:
            rate = max(0, event.received - self._last_sample[1]) / (now - self._last_sample[0])
            self._last_sample = now, event.received
        self.shown = self.shown._replace(received=event.received, expected=event.expected, rate=rate)


_CURRENT: ContextVar[_TransferJob | None] = ContextVar("_CURRENT", default=None)


def update_transfer(event: Event) -> None:
    """Update the progress of the transfer of the current task from an event."""
    job = _CURRENT.get()
    if job is not None and isinstance(event, Progress):
        job.update(event)


class TransferQueue:
    """The queue of file transfers of one run.

    `nursery` runs the transfers. A transfer therefore continues after the response to the browser.
    """

    def __init__(
        self, resolver: Resolver, nursery: trio.Nursery, ledger: TransferLedger | None = None
    ) -> None:
        self._resolver = resolver
        self._nursery = nursery
        self._ledger = TransferLedger(None) if ledger is None else ledger
        self._opening = trio.Lock()
        self._is_open = False
        self._limiter = trio.CapacityLimiter(_MAX_RUNNING)
        self._jobs: dict[int, _TransferJob] = {}
        self._last = 0
        self.change = 0
        self.next_change = trio.Event()  # set at the next change, or by `wake`

    async def recall(self) -> str:
        """Load the transfers of earlier runs, once; return the reason if the ledger cannot be used, or ""."""
        async with self._opening:
            if not self._is_open:
                for file in await self._ledger.open_ledger(_MAX_TRANSFERS):
                    if file.transfer is not None:
                        self._add(file.transfer, file)
                self._is_open = True
        return self._ledger.complaint

    def _add(self, shown: SavedTransfer, file: TransferRequest) -> _TransferJob:
        if len(self._jobs) >= _MAX_TRANSFERS:
            self._jobs.pop(next(number for number, job in self._jobs.items() if job.shown.state != "running"))
        self._last += 1
        job = _TransferJob(shown._replace(number=self._last), file, self._count_change)
        self._jobs[self._last] = job
        return job

    @property
    def all(self) -> list[SavedTransfer]:
        """Return all transfers, the newest first."""
        return [job.shown for job in reversed(self._jobs.values())]

    @property
    def are_active(self) -> bool:
        return any(job.shown.state in _ACTIVE_STATES for job in self._jobs.values())

    def list_changes(self, change: int) -> list[SavedTransfer]:
        """Return the transfers that changed after a change number, the oldest first."""
        return [job.shown for job in self._jobs.values() if job.change > change]

    def wake(self) -> None:
        """Wake the event streams that wait for a change."""
        self.next_change.set()
        self.next_change = trio.Event()

    def _count_change(self) -> int:
        self.change += 1
        self.wake()
        return self.change

    def begin(self, url: str, name: str, source: UrlOrigin) -> None:
        """Add a transfer of a URL with a free file name."""
        job = self._add(
            SavedTransfer(0, name, redact(url), "waiting", 0),
            TransferRequest(url, abspath(name), source, new_id()),
        )
        self._nursery.start_soon(self._run, job)

    def pause(self, number: int | None) -> None:
        """Pause one transfer by its number, or all transfers."""
        self._end(number, "paused")

    def stop(self, number: int) -> None:
        self._end(number, "failed")

    def resume(self, number: int) -> None:
        """Resume a paused or failed transfer."""
        job = self._jobs.get(number)
        if job is not None and job.shown.state in ("paused", "failed"):
            job.begin()
            job.shown = job.shown._replace(state="waiting", error="")
            self._nursery.start_soon(self._run, job)

    def _end(self, number: int | None, state: str) -> None:
        for job_number, job in self._jobs.items():
            if number in (None, job_number) and job.shown.state in _ACTIVE_STATES:
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
            entry = await self._ledger.admit(job.file)
            # The file is complete, because an earlier run ended after it had completed the file.
            if entry is not None and entry.is_done:
                self._finish(job, entry.path, entry.size, entry.digest)
                return
            async with self._limiter:
                job.shown = job.shown._replace(state="running")
                current_row.set(entry)
                await self._save(job, entry)
        except LedgerFault as error:
            job.shown = job.shown._replace(state="failed", error=error.message)

    async def _save(self, job: _TransferJob, entry: LedgerEntry | None) -> None:
        """Save the file and record the outcome.

        Raises:
            LedgerFault: The ledger cannot be written.
        """
        file = job.file
        try:
            saved = await self._resolver.save(
                file.url,
                file.path,
                exists="rename",
                digest=True,
                origin=file.source.origin,
                referrer=file.source.referrer,
            )
        except LedgerFault:
            raise
        except ResolveError as error:
            await self._ledger.record_outcome(entry, error)
            job.shown = job.shown._replace(state="failed", error=error.message)
            return
        await self._ledger.record_outcome(entry, saved)
        self._finish(job, saved.path or file.path, saved.bytes, saved.digest, saved.verified)

    def _finish(
        self, job: _TransferJob, path: str, size: int, digest: str | None, verified: tuple[str, ...] = ()
    ) -> None:
        job.shown = job.shown._replace(
            state="done", name=basename(path), received=size, digest=digest or "", verified=verified
        )


# The transfers page receives progress as server-sent events (WHATWG HTML 9.2). The events contain only rows
# of transfers.
#
# An event stream ends in four cases:
# - All transfers have ended or are paused.
# - The browser disconnects.
# - The server stops.
# - The maximum duration of the stream is reached.
# After the end of a stream, the browser reconnects. The browser sends the last received event ID. A response
# with status 204 tells the browser not to reconnect. Browsers open at most six connections to a host. Six
# event streams would therefore block all pages of the web UI. Therefore the oldest stream ends when a fifth
# stream starts.

#: Maximum number of concurrent event streams.
MAX_STREAMS = 4
#: Three durations in seconds. The first is the minimum time between two events (rate limit). The second is
#: the idle time before a heartbeat comment, which probes the connection. The third is the maximum duration of
#: a stream.
PACE = 0.25
_HEARTBEAT = 15.0
_MAX_DURATION = 600.0
#: Time in milliseconds after which a browser reconnects.
_RETRY = 2_000


class TransferEvents:
    """The event streams of one run."""

    def __init__(self, transfers: TransferQueue, answers: PageAnswers) -> None:
        self._transfers = transfers
        self._answers = answers
        self._open: dict[_EventStream, None] = {}
        self.routes = [Route("/transfers/events", self._answer)]

    def end(self) -> None:
        """End all event streams when the server stops."""
        self._end(len(self._open))

    def _end(self, count: int) -> None:
        for stream in list(self._open)[:count]:
            stream.is_over = True
            del self._open[stream]
        self._transfers.wake()

    async def _answer(self, request: Request) -> Answer:
        change = parse_number(request.headers.get("last-event-id") or get_query(request).get("since", ""))
        transfers = self._transfers
        if request.method != "GET" or not (transfers.are_active or transfers.list_changes(change)):
            return Answer(status_code=204)  # status 204 tells the browser not to reconnect
        self._end(max(0, len(self._open) + 1 - MAX_STREAMS))
        stream = _EventStream(transfers, self._answers.make_address_bar("", ""), change, self._open)
        self._open[stream] = None
        return stream


class _EventStream(Answer):
    """An event stream of all changes after a change number; `streams` has all open streams."""

    def __init__(
        self, transfers: TransferQueue, bar: PageAddressBar, change: int, streams: dict[_EventStream, None]
    ) -> None:
        super().__init__(media_type=headers.EVENTS)
        del self.headers["content-length"]
        self._transfers = transfers
        self._bar = bar
        self._change = change
        self._streams = streams
        self.is_over = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await send(
                {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
            )
            if await run_while_connected(receive, partial(self._send_changes, send)):
                await send({"type": "http.response.body"})
        finally:
            self._streams.pop(self, None)

    async def _send_changes(self, send: Send) -> bool:
        """Send changes as events until the stream ends; return True at the end."""
        transfers, ends = self._transfers, trio.current_time() + _MAX_DURATION
        await _send_text(send, f"retry: {_RETRY}\n\n")
        while True:
            # The event is read before sending, so that a change during sending is not missed.
            next_change = transfers.next_change
            if changed := transfers.list_changes(self._change):
                self._change = transfers.change
                rows = [_make_row(transfer, self._bar) for transfer in changed]
                await _send_text(send, f"id: {self._change}\ndata: {json.dumps(rows)}\n\n")
            if self.is_over or trio.current_time() >= ends:
                return True
            if not transfers.are_active and self._change == transfers.change:
                return True
            with trio.move_on_after(_HEARTBEAT) as silence:
                await next_change.wait()
            if silence.cancelled_caught:
                await _send_text(send, ": nothing new\n\n")
            if not self.is_over:
                await trio.sleep(PACE)


async def _send_text(send: Send, text: str) -> None:
    await send({"type": "http.response.body", "body": text.encode("ascii"), "more_body": True})


def _make_row(transfer: SavedTransfer, bar: PageAddressBar) -> dict[str, object]:
    """Return the fields of a row that can change, as JSON values."""
    return {
        name: escape_controls(value) if isinstance(value, str) else value
        for name, value in make_transfer_row(transfer, bar)._asdict().items()
        if name not in ("url", "href")
    }
