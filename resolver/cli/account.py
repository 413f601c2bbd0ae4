"""A run and its ledger (`--ledger`): what is taken from the lists, what is passed over, what is noted."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from itertools import islice
from typing import TYPE_CHECKING

import trio

from protocols.contract import Kind
from protocols.errors import LocalError, ResolveError
from resolver.cli import streams
from resolver.cli.arguments import Command
from resolver.cli.outcome import class_name
from resolver.cli.summary import REFUSED, more_of
from resolver.cli.targets import Target, targets
from resolver.retrieval.response import Saved
from resolver.url import redact

if TYPE_CHECKING:
    from resolver.cli.lists import Fetched
    from resolver.ledger.book import Asked, Entry, Ledger

#: Lines of a list on a disk that are taken at once. What comes through a pipe is taken as it comes.
_AT_ONCE = 100


def ledger_of(command: Command) -> AbstractAsyncContextManager[Ledger | None]:
    """The ledger of this run; none where none is kept."""
    if command.found.ledger is None:
        return nullcontext()
    from resolver.ledger.book import Ledger  # it needs a database

    return Ledger(command.found.ledger, sidecars=command.found.meta)


class Supply:
    """The targets of a run, each with its row in the ledger."""

    def __init__(
        self,
        command: Command,
        report: Callable[[LocalError], None],
        ledger: Ledger | None,
        fetched: Mapping[str, Fetched],
    ) -> None:
        self._command = command
        self._ledger = ledger
        self._found = targets(command, report, fetched, ledger)
        self._at_once = _AT_ONCE if all(map(streams.is_file, command.lists)) else 1

    async def read(self) -> AsyncGenerator[tuple[Target, Entry | None], None]:
        """All of them. Raises `LocalError` behind those that came before it."""
        fault: LocalError | None = None
        while fault is None:
            taken, fault = await self._next()
            for each in taken:
                yield each
            if not taken:
                break
        if fault is not None:
            raise fault

    async def _next(self) -> tuple[list[tuple[Target, Entry | None]], LocalError | None]:
        """A list may be a pipe that nothing comes from for hours: it is waited for in a thread."""
        if not self._command.lists and self._ledger is None:
            return self._some()
        return await trio.to_thread.run_sync(self._some, abandon_on_cancel=True)

    def _some(self) -> tuple[list[tuple[Target, Entry | None]], LocalError | None]:
        found: list[Target] = []
        try:
            for target in islice(self._found, self._at_once):
                found.append(target)
        except LocalError as error:
            return self._with_rows(found), error
        return self._with_rows(found), None

    def _with_rows(self, found: list[Target]) -> list[tuple[Target, Entry | None]]:
        if self._ledger is None:
            return [(target, None) for target in found]
        rows = self._ledger.admit(_asked(target, self._command) for target in found)
        return list(zip(found, rows, strict=True))


def _asked(target: Target, command: Command) -> Asked:
    """How the ledger knows it: by what it is refined to, without a password, and by its place."""
    from resolver.ledger.book import Asked

    given = redact(target.url)
    shown = given
    with suppress(ResolveError):  # the verb meets it too, and says so
        shown = target.parsed(command).shown if command.url_options else given
    place = os.path.abspath(os.path.join(command.directory or "", target.where))
    more = more_of(target._replace(mirrors=tuple(map(redact, target.mirrors))))
    return Asked(
        url=shown,
        place=place,
        given=given,
        origin=target.origin,
        referrer=target.referrer,
        more=json.dumps(more) if more else None,
        without_password=given != target.url,
    )


def had_before(target: Target, entry: Entry, command: Command) -> Saved:
    """What an earlier run made of it, as it is still there."""
    path = os.path.join(command.directory or "", target.where)
    shown = _asked(target, command).url
    return Saved(
        url=shown,
        requested_url=shown,
        path=path if os.path.abspath(path) == entry.path else entry.path,
        bytes=entry.size,
        resumed_from=0,
        kind=Kind.DOCUMENT,
        digest=entry.digest,
        findings=(),
        verified=(),
        attempts=0,
        elapsed=0.0,
        skipped=True,
    )


async def note_saved(entry: Entry | None, saved: Saved | None) -> None:
    """Raises `LedgerFault`."""
    if entry is not None and saved is not None:
        brought = 0 if saved.skipped else max(0, saved.bytes - saved.resumed_from)
        await entry.done(saved.path, saved.bytes, brought, saved.attempts, skipped=saved.skipped)


async def note_failure(entry: Entry | None, error: ResolveError) -> None:
    """Raises `LedgerFault`."""
    if entry is not None:
        await entry.failed(error, class_name(error), refused=error.exit_code in REFUSED)
