"""The command `warc`, which lists and checks WARC archives without changing them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from protocols.errors import IntegrityError, InvalidUrl, LocalError, choose_status
from protocols.text import Masked, own_text
from resolver.cli import streams
from resolver.cli.arguments import Command
from resolver.files.archive import ArchiveFile, open_archive
from resolver.trees.scope import TreeScope, find_tree
from resolver.url.parsing import parse, redact
from resolver.warc.check import ArchiveCheck, ArchiveFinding, ListedRecord, list_records
from resolver.warc.records import DamagedSpan

_DAMAGED = IntegrityError.exit_code


def perform(command: Command) -> int:
    """List or check the archives. Raises `InvalidUrl` if the value of `--under` is not valid.

    Returns:
        The exit status, which is 10 for a damaged archive.
    """
    subcommand, paths = command.urls[0], command.urls[1:]
    task = _ArchiveListing(command) if subcommand == "ls" else _ArchiveCheck(command)
    statuses = []
    for path in paths:
        try:
            with open_archive(path) as archive:
                statuses.append(task.read(archive))
        except streams.OutputFault:
            raise
        except LocalError as error:
            if not command.silent:
                streams.complain(Masked(f"{own_text(path)}: {error.message}"))
            statuses.append(error.exit_code)
    task.end()
    return choose_status(statuses)


class _ArchiveListing:
    """The command `warc ls`, which prints one record per line."""

    def __init__(self, command: Command) -> None:
        self._command = command
        self._url_filter = None if command.under is None else _make_url_filter(command.under)

    def read(self, archive: ArchiveFile) -> int:
        status = 0
        for record in list_records(archive, self._url_filter):
            if isinstance(record, DamagedSpan):
                status = _DAMAGED
                if not self._command.silent:
                    fault = own_text(record.message)
                    streams.complain(Masked(f"{own_text(archive.path)}: byte {record.offset}: {fault}"))
            elif self._command.json:
                streams.print_record({"archive": archive.path, **record.as_json()})
            else:
                streams.print_line(_format_record(record))
        return status

    def end(self) -> None:
        """End the listing; all records are already printed."""


def _format_record(record: ListedRecord) -> str:
    """Format a record as a line: date, type, status or kind, length and URL."""
    head = record.head
    date = head.get_first("WARC-Date") or "-"
    url = "-" if head.target is None else redact(head.target)
    return f"{date[:19]:<19}  {head.type or '-':<9} {record.kind:<10} {head.length:>12}  {url}"


def _make_url_filter(text: str) -> Callable[[str], bool]:
    """Return a predicate for the URL `text` and the URLs below it. Raises `InvalidUrl`."""
    top = parse(text, origin="user")
    scope = None if find_tree(top) is None else TreeScope.from_url(top)

    def is_match(target: str) -> bool:
        try:
            url = parse(target)
        except InvalidUrl:
            return False
        return url == top if scope is None else scope.covers(url)

    return is_match


class _ArchiveCheck:
    """The command `warc check`, which prints one line per finding, and a summary."""

    def __init__(self, command: Command) -> None:
        self._command = command
        self._check = ArchiveCheck()
        self._files = 0

    def read(self, archive: ArchiveFile) -> int:
        self._files += 1
        return _DAMAGED if self._print_findings(self._check.read(archive, archive.path)) else 0

    def end(self) -> None:
        self._print_findings(self._check.end())
        if not (self._command.json or self._command.is_quiet):
            check = self._check
            damaged = Masked(f", {check.damaged} damaged" if check.damaged else "")
            files = Masked("1 file" if self._files == 1 else f"{self._files} files")
            streams.complain(Masked(f"{check.records} complete records in {files}{damaged}"))

    def _print_findings(self, findings: Iterator[ArchiveFinding]) -> bool:
        """Print the findings and return whether one is a fault."""
        is_faulty = False
        for finding in findings:
            is_faulty = is_faulty or finding.is_fault
            if self._command.json:
                streams.print_record(
                    {
                        "archive": finding.file or None,
                        "offset": finding.offset,
                        "finding": finding.name,
                        "fault": finding.is_fault,
                        "message": finding.message,
                    }
                )
            else:
                place = f"{finding.file}: byte {finding.offset}: " if finding.file else ""
                streams.print_line(f"{place}{finding.message} ({finding.name})")
        return is_faulty
