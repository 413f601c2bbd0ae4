"""The ledger of what pages save, which outlives the server: what was saved and where it is, what is left, and
what was in the way.

It is opened when somebody wants to see or to save something. Where it cannot be, as where another server of
this person has it, files are saved all the same; that is said, and nothing of them is remembered.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from os.path import basename
from types import TracebackType

from protocols.errors import LocalError, ResolveError
from protocols.location import Origin, Referrer
from protocols.values import NamedTuple
from resolver.disk.own_file import make_folder_of
from resolver.disk.whole import has_size
from resolver.ledger import LedgerFault
from resolver.ledger.book import Ledger, LedgerEntry, RequestRow
from resolver.ledger.report import ReportRow, newest
from resolver.loops import running
from resolver.retrieval.outcome import class_name
from resolver.retrieval.response import Saved
from resolver.url import redact
from resolver.window.pages.own import SavedTransfer
from resolver.window.session import UrlOrigin

_ORIGINS: Mapping[str, Origin] = {"user": "user", "chosen": "chosen"}
#: Under which name a row says what is ours alone.
_OURS = "window"
_GONE = "the file is no longer there"
_NO_PASSWORD = "the URL had a password, which nobody kept: open it, and save it again"


class SavedFile(NamedTuple):
    """What is to be saved, and where. `key` tells it from all others of the same URL, also in another run.
    `told` is what an earlier run knew of it."""

    url: str
    path: str
    way: UrlOrigin
    key: str
    told: SavedTransfer | None = None
    is_lost: bool = False

    @property
    def asked(self) -> RequestRow:
        shown = redact(self.url)
        return RequestRow(
            url=shown,
            place=f"{self.path}\0{self.key}",
            given=shown,
            origin=self.way.origin,
            referrer=self.way.referrer,
            without_password=shown != self.url,
            more=json.dumps({_OURS: [self.path, self.key]}),
        )


class SaveLedger:
    """Of one server: an async context manager. `path` is where the ledger is; None where none is kept."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._ledger: Ledger | None = None
        self.complaint = "" if path else "there is no place for a ledger"

    async def recall(self, most: int) -> list[SavedFile]:
        """The newest of what earlier runs have."""
        if self._path is None:
            return []
        ledger = Ledger(self._path)
        try:
            make_folder_of(self._path, "ledger")
            self._ledger = await ledger.__aenter__()
            held = await running().in_thread(partial(newest, self._path, most))
        except LocalError as error:
            self.complaint = error.message
            return []
        return [found for found in map(_saving, held) if found is not None]

    async def __aenter__(self) -> SaveLedger:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """All of it is on the disk. Raises `LedgerFault`."""
        ledger, self._ledger = self._ledger, None
        if ledger is not None:
            await ledger.__aexit__(kind, error, trace)

    async def admit(self, saving: SavedFile) -> LedgerEntry | None:
        """Its row. Raises `LedgerFault`."""
        if self._ledger is None:
            return None
        if saving.is_lost:
            raise LedgerFault(_NO_PASSWORD)
        (entry,) = await running().in_thread(self._ledger.admit, [saving.asked])
        return entry

    async def note(self, entry: LedgerEntry | None, found: Saved | ResolveError) -> None:
        """What became of it. Raises `LedgerFault`."""
        if entry is None or self._ledger is None:
            return
        if isinstance(found, ResolveError):
            await entry.failed(found, class_name(found), refused=False)
        else:
            brought = max(0, found.bytes - found.resumed_from)
            await entry.done(found.path, found.bytes, brought, found.attempts, skipped=False)
        await self._ledger.settle()


def _saving(held: ReportRow) -> SavedFile | None:
    """What a row is about; None for one that another program's run has put there."""
    asked = held.asked
    match asked.more.get(_OURS):
        case [str(path), str(key)]:
            referrer = None if asked.referrer is None else Referrer(*asked.referrer)
            way = UrlOrigin(_ORIGINS.get(asked.origin, "derived"), referrer)
            return SavedFile(asked.url, path, way, key, _told(held, path), asked.without_password)
    return None


def _told(held: ReportRow, path: str) -> SavedTransfer:
    url, message = held.asked.url, held.asked.message or ""
    if held.status == "done" and has_size(held.path, held.size):
        return SavedTransfer(0, basename(held.path), url, "done", held.size, digest=held.digest or "")
    if held.status == "done":
        return SavedTransfer(0, basename(held.path), url, "failed", 0, error=_GONE)
    if held.status == "failed":
        return SavedTransfer(0, basename(path), url, "failed", 0, error=message)
    return SavedTransfer(0, basename(path), url, "paused", 0)
