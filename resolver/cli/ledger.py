"""The verb `ledger`: what runs have done and left to do, by the file that they kept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from protocols.location import JsonValue
from resolver.cli import streams
from resolver.cli.amounts import duration, octets
from resolver.cli.arguments import Command
from resolver.cli.summary import is_plain

if TYPE_CHECKING:
    from resolver.ledger.report import LedgerReport, PendingRow


def show(command: Command) -> int:
    """What is asked of it; the exit status. Raises `LocalError`."""
    from resolver.ledger import report

    path = command.urls[0] if command.urls else command.found.ledger
    if command.found.again is not None:
        count = report.again(path, command.found.again)
        if not command.quiet:
            streams.complain(f"{path}: {count} of them will be asked for again")
    if command.found.failed is not None:
        return _list(report.left(path), command)
    if command.found.again is None or command.json:
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
    return [*lines, f"brought  {octets(found.brought)} in {duration(found.elapsed)}{rate}, {runs}"]


def _list(left: Iterator[PendingRow], command: Command) -> int:
    """What is not done, as a list that `-i` takes: to standard output, or into the file that was named. With
    `--json` why, too. Who had a password in the URL has to give the list with it once more."""
    name, hidden = command.found.failed, 0

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
    if hidden and not command.quiet:
        streams.complain(
            f"{hidden} of them had a password, which is in no ledger: the list they are from has it, or "
            "give it by --user and --password-file, or --netrc"
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
