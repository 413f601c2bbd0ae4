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
_GROUP_SIZE = 500


def open_ledger(command: Command) -> AbstractAsyncContextManager[Ledger | None]:
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
        self._targets = targets(command, report, fetched)
        saves = command.verb == "get" and command.output is None
        self._naming = TargetNaming(command, ledger) if saves else None
        self._recall = None if self._naming is None else _recall(self._naming.naming_rule, ledger, command)
        self._records = CompletedRecords(command) if command.json else None
        self._group_size = _GROUP_SIZE if all(map(streams.is_file, command.lists)) else 1

    async def read(self) -> AsyncGenerator[list[Part], None]:
        """Yield all targets lazily, in groups.

        For an unreadable line, the targets before the line are yielded first. Then `LocalError` is raised.
        """
        fault: LocalError | None = None
        while fault is None:
            parts, fault = await self._read_next()
            if not parts:
                break
            yield parts
        if fault is not None:
            raise fault

    async def _read_next(self) -> tuple[list[Part], LocalError | None]:
        """Return the next targets, and the error that ended the input, or None.

        A thread reads the lists, because a list from a pipe may be idle for hours.
        """
        if not (self._command.lists or self._command.extracts) and self._ledger is None:
            return self._read_parts()
        return await trio.to_thread.run_sync(self._read_parts, abandon_on_cancel=True)

    def _read_parts(self) -> tuple[list[Part], LocalError | None]:
        group: list[CommandTarget] = []
        try:
            for target in islice(self._targets, self._group_size):
                group.append(target)
        except LocalError as error:
            return self._parts(group), error
        return self._parts(group), None

    def _parts(self, targets: list[CommandTarget]) -> list[Part]:
        if self._recall is None:
            return list(self._with_rows(map(self._name_target, targets)))
        completed = self._recall.find([target.url if target.is_bare else "" for target in targets])
        if not any(completed):
            rows = self._with_rows(map(self._name_target, targets))
            last = max((row.number for _, row in rows if row is not None and row.is_done), default=None)
            if last is not None:
                self._recall.continue_after(last)
            return list(rows)
        parts: list[Part] = []
        for is_done, group in groupby(zip(targets, completed, strict=True), lambda pair: pair[1] is not None):
            pairs = list(group)
            if is_done:
                parts += self._skip_repeated([(target, row) for target, row in pairs if row is not None])
            else:
                parts += self._with_rows(self._name_target(target) for target, _ in pairs)
        return parts

    def _skip_repeated(self, pairs: list[tuple[CommandTarget, CompletedRow]]) -> Iterator[Part]:
        """Yield groups of skipped lines: an earlier run completed their targets.

        If the file name of a target differs from its name in the ledger, the target is not skipped. It is
        yielded with its row.
        """
        assert self._naming is not None
        fits = self._naming.reserve_again([row.where for _, row in pairs])
        for fit, group in groupby(zip(pairs, fits, strict=True), lambda item: item[1]):
            if not fit:
                yield from self._with_rows(self._name_target(target) for (target, _), _ in group)
                continue
            skipped = [pair for pair, _ in group]
            octets = b"" if self._records is None else b"".join(starmap(self._records.octets, skipped))
            yield SkippedLines(len(skipped), octets)

    def _name_target(self, target: CommandTarget) -> CommandTarget:
        return target if self._naming is None else self._naming.name(target)

    def _with_rows(self, targets: Iterable[CommandTarget]) -> list[tuple[CommandTarget, LedgerEntry | None]]:
        if self._ledger is None:
            return [(target, None) for target in targets]
        group = list(targets)
        rule = None if self._naming is None else self._naming.naming_rule
        rows = self._ledger.admit(_make_row(target, self._command, rule) for target in group)
        return list(zip(group, rows, strict=True))


def _recall(rule: str | None, ledger: Ledger | None, command: Command) -> LedgerRecall | None:
    if rule is None or ledger is None:
        return None
    from resolver.ledger.book import LedgerRecall  # lazy import: few runs need the module

    return LedgerRecall(ledger, rule, command.directory or "")


class CompletedRecords:
    """A generator of the JSON records of targets that earlier runs completed.

    These records differ only in a few members, so the common members are computed once.
    """

    def __init__(self, command: Command) -> None:
        self._directory = command.directory or ""
        self._schemes: dict[str, str] = {}
        self._common = summary.make_done_record(make_saved(Masked(""), "", 0, None), "")

    def octets(self, target: CommandTarget, row: CompletedRow) -> bytes:
        url = target.url
        path = os.path.join(self._directory, row.where)
        record = {"url": url, "final_url": url, "scheme": self._scheme(target), "path": path}
        return streams.record_octets({**self._common, **record, "bytes": row.size, "digest": row.digest})

    def _scheme(self, target: CommandTarget) -> str:
        """Return the scheme of a target, from a cache if the URL starts with the name of the scheme."""
        prefix = target.url.partition(":")[0]
        scheme = self._schemes.get(prefix)
        if scheme is None:
            scheme = target.host_and_scheme[1]
            if scheme == prefix:
                self._schemes[prefix] = scheme
        return scheme


def _make_row(target: CommandTarget, command: Command, naming_rule: str | None = None) -> RequestRow:
    """Return the ledger row of a target. Its key is the URL without a password, and the path.

    The options `--search` and `--view` have already been applied to the URL in the key.
    """
    from resolver.ledger.book import RequestRow

    url = target.parsed_url
    if url is not None and url.text == target.url:
        typed_url = shown = url.shown
    else:
        typed_url = shown = redact(target.url)
        with suppress(ResolveError):  # the command reports the error
            shown = target.parse(command).shown
    path = os.path.abspath(os.path.join(command.directory or "", target.path))
    metadata = None
    if not target.is_bare:
        import json  # lazy import: few lists have further metadata of a URL

        naming_rule = None
        metadata = json.dumps(list_metadata(target._replace(mirrors=tuple(map(redact, target.mirrors)))))
    return RequestRow(
        url=shown,
        place=path,
        typed_url=typed_url,
        origin=target.origin,
        referrer=target.referrer,
        more=metadata,
        without_password=typed_url != target.url,
        naming=naming_rule,
    )


def load_saved(target: CommandTarget, entry: LedgerEntry, command: Command) -> Saved:
    """Return the outcome of a target whose file was saved by an earlier run."""
    path = os.path.join(command.directory or "", target.path)
    path = path if os.path.abspath(path) == entry.path else entry.path
    return make_saved(_make_row(target, command).url, path, entry.size, entry.digest)


def make_saved(shown: Masked, path: str, size: int, digest: str | None) -> Saved:
    """Return the outcome of an earlier run for a target that is complete in the ledger."""
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


async def record_saved(entry: LedgerEntry, saved: Saved | None) -> None:
    """Record a completed target, even if the run was cancelled. Raises `LedgerFault`."""
    if saved is not None:
        received = 0 if saved.skipped else max(0, saved.bytes - saved.resumed_from)
        entry.record_done(saved.path, saved.bytes, received, saved.attempts, skipped=saved.skipped)
        if entry.ledger.is_due:
            with trio.CancelScope(shield=True):
                await entry.ledger.settle()


async def record_failure(entry: LedgerEntry | None, error: ResolveError) -> None:
    if entry is not None:
        entry.record_failed(error, class_name(error), refused=error.exit_code in REFUSED)
        if entry.ledger.is_due:
            await entry.ledger.settle()


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
            requests = Masked("1 request is" if count == 1 else f"{count} requests are")
            streams.complain(Masked(f"{own_text(path)}: {requests} pending again"))
    if command.failed is not None:
        return _write_pending(report.list_pending(path), command.failed, command)
    if command.again is None or command.json:
        content = report.read(path)
        if command.json:
            streams.print_record(_record(path, content))
        else:
            for line in _lines(content):
                streams.print_line(line)
    return 0


def _record(path: str, result: LedgerReport) -> dict[str, JsonValue]:
    return {
        "ledger": path,
        **{
            name: getattr(result, name)
            for name in ("objects", "done", "skipped", "failed", "refused", "left")
        },
        "bytes": result.size,
        "brought": result.brought,
        "attempts": result.attempts,
        "runs": result.runs,
        "elapsed": round(result.elapsed, 6),
        "rate": None if result.rate is None else round(result.rate, 3),
        "failures": [dict(failure._asdict()) for failure in result.failures],
    }


def _lines(result: LedgerReport) -> list[str]:
    counts = {
        "done": f"{result.done} of {result.objects}, {octets(result.size)}",
        "kept": result.skipped,
        "failed": result.failed,
        "refused": result.refused,
        "left": result.left,
    }
    lines = [f"{name:<8} {value}" for name, value in counts.items() if value]
    for failure in result.failures:
        lines.append(f"  {failure.objects} with {failure.error} (exit {failure.exit})")
    rate = "" if result.rate is None else f", {octets(round(result.rate))}/s"
    runs = f"{result.runs} run{'s' if result.runs != 1 else ''}"
    return [*lines, f"received {octets(result.brought)} in {duration(result.elapsed)}{rate}, {runs}"]


def _write_pending(rows: Iterator[PendingRow], name: str, command: Command) -> int:
    """Write the pending targets to standard output or a file, as a list for `-i`.

    With `--json`, each record includes the error. The ledger does not store the passwords of URLs. If a URL
    had a password, a message tells the user to use the original list.
    """
    hidden_count = 0

    def lines() -> Iterator[str]:
        nonlocal hidden_count
        for row in rows:
            hidden_count += row.without_password
            yield _line(row, json=command.json)

    fault = None
    if name == "-":
        for line in lines():
            streams.write_output(line.encode("utf-8", "surrogateescape"))
    else:
        fault = streams.ListFile(name).write(lines())
    if hidden_count and not command.is_quiet:
        streams.complain(
            Masked(
                f"{hidden_count} URLs had a password, which ledgers do not store (use the original list, "
                "--user with --password-file, or --netrc)"
            )
        )
    if fault is not None:
        raise fault
    return 0


def _line(row: PendingRow, *, json: bool) -> str:
    if not json and row.origin == "user" and row.referrer is None and not row.more and is_plain(row.url):
        return row.url + "\n"
    record: dict[str, JsonValue] = {
        "url": row.url,
        "origin": row.origin,
        "referrer": row.referrer,
        **row.more,
    }
    if json:
        details = {"error": row.error, "exit": row.exit, "message": row.message, "attempts": row.attempts}
        record |= details
    return streams.json_line(record)
