"""The ledger of a run (`--ledger`) and the command `ledger`.

A ledger is a file that records the outcome of each request. A later run skips the completed requests.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from itertools import groupby, islice, starmap
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import trio

from protocols.contract import Kind
from protocols.errors import REFUSED, LocalError, ResolveError, class_name
from protocols.location import JsonValue
from protocols.text import Masked, own_text
from resolver.cli import streams, summary
from resolver.cli.arguments import Command
from resolver.cli.summary import is_plain, list_metadata
from resolver.cli.targets import CommandTarget, TargetNaming, targets
from resolver.cli.transfers import duration, octets
from resolver.transfer.response import Saved
from resolver.url.parsing import redact

if TYPE_CHECKING:
    from resolver.cli.lists import FetchedList
    from resolver.ledger.book import CompletedRow, Ledger, LedgerEntry, LedgerRecall, RequestRow
    from resolver.ledger.report import LedgerReport, PendingRow


#: The maximum number of lines that are read from a list file in one step. Lines of a pipe are read one by
#: one.
_AT_ONCE = 500


def ledger_of(command: Command) -> AbstractAsyncContextManager[Ledger | None]:
    """Return the ledger of this run, or None without `--ledger`."""
    if command.ledger is None:
        return nullcontext()
    from resolver.ledger.book import Ledger  # lazy import: the ledger needs sqlite3

    return Ledger(command.ledger, sidecars=command.meta)


class SkippedLines(NamedTuple):
    """A group of successive list lines that are skipped, because earlier runs completed them.

    Attributes:
        number: the number of lines.
        octets: the JSON records of the lines, or empty bytes without `--json`.
    """

    number: int
    octets: bytes


#: An element of the input: a target with its row in the ledger, or a group of completed lines, of which only
#: the number is needed.
Part: TypeAlias = "SkippedLines | tuple[CommandTarget, LedgerEntry | None]"


class LedgerInput:
    """The reader of a run's targets. It finds the row of each target in the ledger."""

    def __init__(
        self,
        command: Command,
        report: Callable[[ResolveError], None],
        ledger: Ledger | None,
        fetched: Mapping[str, FetchedList],
    ) -> None:
        self._command = command
        self._ledger = ledger
        self._found = targets(command, report, fetched)
        saves = command.verb == "get" and command.output is None
        self._naming = TargetNaming(command, ledger) if saves else None
        self._recall = None if self._naming is None else _recall(self._naming.how, ledger, command)
        self._records = EarlierRecords(command) if command.json else None
        self._at_once = _AT_ONCE if all(map(streams.is_file, command.lists)) else 1

    async def read(self) -> AsyncGenerator[list[Part], None]:
        """Yield all targets lazily, in groups.

        For an unreadable line, the targets before the line are yielded first. Then `LocalError` is raised.
        """
        fault: LocalError | None = None
        while fault is None:
            taken, fault = await self._take_next()
            if not taken:
                break
            yield taken
        if fault is not None:
            raise fault

    async def _take_next(self) -> tuple[list[Part], LocalError | None]:
        """Return the next targets.

        The second value is the error that ended the input, or None.

        A thread reads the lists, because a list from a pipe may be idle for hours.
        """
        if not (self._command.lists or self._command.extracts) and self._ledger is None:
            return self._take_some()
        return await trio.to_thread.run_sync(self._take_some, abandon_on_cancel=True)

    def _take_some(self) -> tuple[list[Part], LocalError | None]:
        found: list[CommandTarget] = []
        try:
            for target in islice(self._found, self._at_once):
                found.append(target)
        except LocalError as error:
            return self._parts(found), error
        return self._parts(found), None

    def _parts(self, found: list[CommandTarget]) -> list[Part]:
        if self._recall is None:
            return list(self._with_rows(map(self._name_target, found)))
        known = self._recall.find([target.url if target.is_bare else "" for target in found])
        if not any(known):
            rows = self._with_rows(map(self._name_target, found))
            last = max((row.number for _, row in rows if row is not None and row.is_done), default=None)
            if last is not None:
                self._recall.continue_after(last)
            return list(rows)
        parts: list[Part] = []
        for is_known, group in groupby(zip(found, known, strict=True), lambda each: each[1] is not None):
            pairs = list(group)
            if is_known:
                parts += self._find_repeated([(target, one) for target, one in pairs if one is not None])
            else:
                parts += self._with_rows(self._name_target(target) for target, _ in pairs)
        return parts

    def _find_repeated(self, pairs: list[tuple[CommandTarget, CompletedRow]]) -> Iterator[Part]:
        """Yield groups of skipped lines.

        An earlier run completed the targets of these lines.

        If the file name of a target differs from its name in the ledger, the target is not skipped. It is
        yielded with its row.
        """
        assert self._naming is not None
        fits = self._naming.find_again([known.where for _, known in pairs])
        for fit, group in groupby(zip(pairs, fits, strict=True), lambda each: each[1]):
            if not fit:
                yield from self._with_rows(self._name_target(target) for (target, _), _ in group)
                continue
            passed = [pair for pair, _ in group]
            octets = b"" if self._records is None else b"".join(starmap(self._records.octets, passed))
            yield SkippedLines(len(passed), octets)

    def _name_target(self, target: CommandTarget) -> CommandTarget:
        return target if self._naming is None else self._naming.name(target)

    def _with_rows(self, found: Iterable[CommandTarget]) -> list[tuple[CommandTarget, LedgerEntry | None]]:
        if self._ledger is None:
            return [(target, None) for target in found]
        named = list(found)
        how = None if self._naming is None else self._naming.how
        rows = self._ledger.admit(_make_row(target, self._command, how) for target in named)
        return list(zip(named, rows, strict=True))


def _recall(how: str | None, ledger: Ledger | None, command: Command) -> LedgerRecall | None:
    if how is None or ledger is None:
        return None
    from resolver.ledger.book import LedgerRecall  # lazy import: few runs need the module

    return LedgerRecall(ledger, how, command.directory or "")


class EarlierRecords:
    """A generator of the JSON records of targets that earlier runs completed.

    These records differ only in a few members, so the common members are computed once.
    """

    def __init__(self, command: Command) -> None:
        self._directory = command.directory or ""
        self._schemes: dict[str, str] = {}
        self._alike: dict[str, JsonValue] = summary.make_done_record(_make_saved(Masked(""), "", 0, None), "")

    def octets(self, target: CommandTarget, known: CompletedRow) -> bytes:
        url = target.url
        path = os.path.join(self._directory, known.where)
        record = {"url": url, "final_url": url, "scheme": self._scheme(target), "path": path}
        return streams.record_octets({**self._alike, **record, "bytes": known.size, "digest": known.digest})

    def _scheme(self, target: CommandTarget) -> str:
        """Return the scheme of a target, from a cache if the URL starts with the name of the scheme."""
        begin = target.url.partition(":")[0]
        scheme = self._schemes.get(begin)
        if scheme is None:
            scheme = target.place[1]
            if scheme == begin:
                self._schemes[begin] = scheme
        return scheme


def _make_row(target: CommandTarget, command: Command, naming: str | None = None) -> RequestRow:
    """Return the ledger row of a target.

    The key of the row is the URL without a password, and the path.

    The options `--search` and `--view` have already been applied to the URL in the key.
    """
    from resolver.ledger.book import RequestRow

    options = command.url_options
    typed_url = redact(target.url) if options or target.known is None else target.known.shown
    shown = typed_url
    if options:
        with suppress(ResolveError):  # the command reports the error
            shown = target.parsed(command).shown
    place = os.path.abspath(os.path.join(command.directory or "", target.where))
    more = None
    if not target.is_bare:
        more = list_metadata(target._replace(mirrors=tuple(map(redact, target.mirrors))))
        import json  # lazy import: few lists have further metadata of a URL
    return RequestRow(
        url=shown,
        place=place,
        typed_url=typed_url,
        origin=target.origin,
        referrer=target.referrer,
        more=json.dumps(more) if more else None,
        without_password=typed_url != target.url,
        naming=naming if target.is_bare else None,
    )


def find_earlier(target: CommandTarget, entry: LedgerEntry, command: Command) -> Saved:
    """Return the outcome of a target whose file was saved by an earlier run."""
    path = os.path.join(command.directory or "", target.where)
    path = path if os.path.abspath(path) == entry.path else entry.path
    return make_saved(_make_row(target, command).url, path, entry)


def make_saved(shown: Masked, path: str, entry: LedgerEntry) -> Saved:
    """Return the outcome of an earlier run for a target that is complete in the ledger.

    Args:
        shown: the URL without its password.
        path: the path of the saved file.
        entry: the row of the target in the ledger.
    """
    return _make_saved(shown, path, entry.size, entry.digest)


def _make_saved(shown: Masked, path: str, size: int, digest: str | None) -> Saved:
    return Saved(
        url=shown,
        requested_url=shown,
        path=path,
        bytes=size,
        resumed_from=0,
        kind=Kind.DOCUMENT,
        digest=digest,
        findings=(),
        verified=(),
        attempts=0,
        elapsed=0.0,
        skipped=True,
    )


async def note_saved(entry: LedgerEntry, saved: Saved | None) -> None:
    """Record a completed target, even if the run was cancelled. Raises `LedgerFault`."""
    if saved is not None:
        brought = 0 if saved.skipped else max(0, saved.bytes - saved.resumed_from)
        with trio.CancelScope(shield=True) if entry.ledger.is_due else nullcontext():
            await entry.record_done(saved.path, saved.bytes, brought, saved.attempts, skipped=saved.skipped)


async def forget(entry: LedgerEntry | None) -> None:
    """Remove the row of a target, which turned out to be a directory. Raises `LedgerFault`."""
    if entry is not None:
        await entry.forget()


async def note_failure(entry: LedgerEntry | None, error: ResolveError) -> None:
    """Record a failed target. Raises `LedgerFault`."""
    if entry is not None:
        await entry.record_failed(error, class_name(error), refused=error.exit_code in REFUSED)


def show(command: Command) -> int:
    """Run the command `ledger`: print or change a ledger. Raises `LocalError`.

    Returns:
        The exit status.
    """
    from resolver.ledger import report

    path = command.urls[0] if command.urls else command.ledger
    assert path is not None, "a command line without a ledger is refused"
    if command.again is not None:
        count = report.requeue_errors(path, command.again)
        if not command.is_quiet:
            streams.complain(Masked(f"{own_text(path)}: {count} requests are pending again"))
    if command.failed is not None:
        return _list(report.list_pending(path), command.failed, command)
    if command.again is None or command.json:
        found = report.read(path)
        if command.json:
            streams.print_record(_record(path, found))
        else:
            for line in _lines(found):
                streams.print_line(line)
    return 0


def _record(path: str, found: LedgerReport) -> dict[str, JsonValue]:
    return {
        "ledger": path,
        **{
            name: getattr(found, name) for name in ("objects", "done", "skipped", "failed", "refused", "left")
        },
        "bytes": found.size,
        "brought": found.brought,
        "attempts": found.attempts,
        "runs": found.runs,
        "elapsed": round(found.elapsed, 6),
        "rate": None if found.rate is None else round(found.rate, 3),
        "failures": [dict(failure._asdict()) for failure in found.failures],
    }


def _lines(found: LedgerReport) -> list[str]:
    counts = {
        "done": f"{found.done} of {found.objects}, {octets(found.size)}",
        "kept": found.skipped,
        "failed": found.failed,
        "refused": found.refused,
        "left": found.left,
    }
    lines = [f"{name:<8} {value}" for name, value in counts.items() if value]
    for failure in found.failures:
        lines.append(f"  {failure.objects} with {failure.error} (exit {failure.exit})")
    rate = "" if found.rate is None else f", {octets(round(found.rate))}/s"
    runs = f"{found.runs} run{'s' if found.runs != 1 else ''}"
    return [*lines, f"received {octets(found.brought)} in {duration(found.elapsed)}{rate}, {runs}"]


def _list(left: Iterator[PendingRow], name: str, command: Command) -> int:
    """Write the pending targets to standard output or a file, as a list for `-i`.

    With `--json`, each record includes the error. The ledger does not store the passwords of URLs. If a URL
    had a password, a message tells the user to use the original list.
    """
    hidden = 0

    def lines() -> Iterator[str]:
        nonlocal hidden
        for each in left:
            hidden += each.without_password
            yield _line(each, json=command.json)

    fault = None
    if name == "-":
        for line in lines():
            streams.write_output(line.encode("utf-8", "surrogateescape"))
    else:
        fault = streams.ListFile(name).write(lines())
    if hidden and not command.is_quiet:
        streams.complain(
            Masked(
                f"{hidden} URLs had a password, which ledgers do not store (use the original list, "
                "--user with --password-file, or --netrc)"
            )
        )
    if fault is not None:
        raise fault
    return 0


def _line(left: PendingRow, *, json: bool) -> str:
    if not json and left.origin == "user" and left.referrer is None and not left.more and is_plain(left.url):
        return left.url + "\n"
    record: dict[str, JsonValue] = {
        "url": left.url,
        "origin": left.origin,
        "referrer": left.referrer,
        **left.more,
    }
    if json:
        why = {"error": left.error, "exit": left.exit, "message": left.message, "attempts": left.attempts}
        record |= why
    return streams.json_line(record)
