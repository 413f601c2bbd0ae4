"""The outcomes of all URLs of a run: a summary line, JSON records, and the list of `--failed`.

The list is a valid input of `-i`, and contains the origin and referrer of each URL. URLs in the list are not
redacted, because another run must request them. Therefore, only the owner of the list file has read
permission.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import chain, islice
from typing import TYPE_CHECKING

import trio

from protocols.contract import JsonValue
from protocols.errors import REFUSED, LocalError, NotFound, ResolveError
from protocols.options import Options
from protocols.text import own_text
from resolver.cli import streams
from resolver.cli.arguments import Command
from resolver.cli.targets import CommandTarget, reread_targets
from resolver.cli.transfers import duration, octets
from resolver.network.events import Connected, Event
from resolver.policy.environment import read_proxies
from resolver.policy.settings import Policy
from resolver.transfer.response import Saved
from resolver.url.parsing import redact

if TYPE_CHECKING:
    from resolver.cli.lists import FetchedList


class RunSummary:
    """The counters of the outcomes of a run. Only pending and failed targets are stored in memory."""

    def __init__(self, command: Command) -> None:
        self._command = command
        self._file = None if command.failed is None else streams.ListFile(command.failed)
        self._target_count = 0
        self._last_number = 0
        self._lines_read = 0
        self._pending: dict[int, CommandTarget] = {}
        self._counts: Counter[str] = Counter()
        self._statuses: set[int] = set()
        self._octets = 0
        self._unreadable = 0
        self.fetched: Mapping[str, FetchedList] = {}
        self._has_all_lists = False
        self.elapsed: float | None = None

    def add_target(self, target: CommandTarget, *, below: bool = False) -> int:
        """Count a target and return its number.

        With `below`, the target is a file or directory in a tree, and is not counted as a line of a list.
        """
        self._target_count += 1
        self._lines_read += not below
        return self._add(target)

    def count_skipped(self, count: int) -> None:
        """Count the targets that earlier runs completed."""
        self._target_count += count
        self._lines_read += count
        self._last_number += count
        self._counts["kept"] += count

    def add_tree(self, target: CommandTarget) -> int:
        """Add a tree, which is pending until `remove_tree`, and return its number."""
        self._lines_read += 1
        return self._add(target)

    def remove_tree(self, number: int) -> None:
        """Remove a finished tree; the failed targets in the tree are not removed."""
        del self._pending[number]

    def remove_target(self, number: int) -> None:
        del self._pending[number]
        self._target_count -= 1

    def _add(self, target: CommandTarget) -> int:
        self._last_number += 1
        self._pending[self._last_number] = target
        return self._last_number

    def count_done(self, number: int, saved: Saved | None) -> None:
        del self._pending[number]
        self._counts[_word_for(saved)] += 1
        if saved is not None and not saved.skipped:
            self._octets += max(0, saved.bytes - saved.resumed_from)

    def count_failed(self, number: int, error: ResolveError) -> None:
        if self._file is None:  # without `--failed`, targets are only counted
            del self._pending[number]
        self._count_failure(error)

    def count_unreadable(self, error: ResolveError) -> None:
        """Count an error of a list or of a line in a list."""
        self._unreadable += 1
        self._count_failure(error)

    def _count_failure(self, error: ResolveError) -> None:
        if isinstance(error, NotFound):
            self._counts["missing"] += 1
        elif error.exit_code in REFUSED:
            self._counts["refused"] += 1
        else:
            self._counts["failed"] += 1
            self._statuses.add(error.exit_code)

    def end_lists(self) -> None:
        """Record that all lists were read to the end."""
        self._has_all_lists = True

    def close(self, *, is_shown: bool) -> LocalError | None:
        """Print the summary, write the list of failed targets, and return the write error or None.

        The summary is printed only if `is_shown` is true and the run has several targets.
        """
        lost = self._list_lost()
        rest = [] if self._has_all_lists or lost else list(self._list_unstarted())
        total = self._target_count + self._unreadable + len(rest)
        if is_shown and self.elapsed is not None and total > 1 and self._is_worth_a_line(total):
            streams.complain(own_text(self._line(total, self.elapsed)))
        if self._file is None:
            return None
        if self._unreadable and any(map(self._file.has_name, self._command.lists)):
            words = "stays unchanged: correct its unreadable lines, or write the failures to another file"
            return LocalError(f"the list {self._command.failed!r} {words}")
        if lost and not self._command.is_silent:
            words = "lacks URLs that were not read, and cannot be read again, from"
            streams.complain(own_text(f"the list {self._command.failed!r} {words} {', '.join(lost)}"))
        return self._file.write(
            dict.fromkeys(map(self._format_list_line, chain(self._pending.values(), rest)))
        )

    def _is_worth_a_line(self, total: int) -> bool:
        """Return whether the summary is useful, because the run saves files or a target failed."""
        if self._command.is_quiet or self._command.json:
            return False
        return self._saves or self._counts["done"] < total

    @property
    def _saves(self) -> bool:
        return self._command.verb == "get" and self._command.output != "-"

    @property
    def _done_word(self) -> str:
        if self._command.dry_run:
            return "to be saved"
        return "saved" if self._saves else "done"

    def _line(self, total: int, elapsed: float) -> str:
        remaining = total - self._counts.total()
        statuses = ", ".join(map(str, sorted(self._statuses)))
        words = [
            f"{self._counts['done']} of {total} {self._done_word}",
            *(
                f"{self._counts[word]} {word}"
                for word in ("kept", "left alone", "missing", "refused")
                if self._counts[word]
            ),
            *([f"{self._counts['failed']} failed (exit {statuses})"] if statuses else []),
            *([f"{remaining} left"] if remaining > 0 else []),
        ]
        return f"{', '.join(words)}; {octets(self._octets)} in {duration(elapsed)}"

    def _list_lost(self) -> list[str]:
        """Return the lists of an interrupted run that cannot be read a second time, such as a pipe."""
        if self._has_all_lists:
            return []
        names = (name for name in self._command.lists if name not in self.fetched)
        return [redact(name) for name in names if not streams.is_file(name)]

    def _list_unstarted(self) -> Iterator[CommandTarget]:
        """Yield the targets that an interrupted run did not start."""
        yield from islice(reread_targets(self._command, self.fetched), self._lines_read, None)

    def _format_list_line(self, target: CommandTarget) -> str:
        origin, url = self._command.origin, target.url
        referrer = None if self._command.referrer is None else (redact(self._command.referrer), None)
        facts = list_metadata(target)
        if (target.origin, target.referrer) == (origin, referrer) and is_plain(url) and not facts:
            return url + "\n"
        return streams.json_line({"url": url, "origin": target.origin, "referrer": target.referrer, **facts})


def list_metadata(target: CommandTarget) -> dict[str, JsonValue]:
    """Return the metadata of a target from its list as JSON members: name, mirrors, checksum and size."""
    if target.is_bare:
        return {}
    checksum = None if target.checksum is None else target.checksum.text
    name, mirrors, size = target.name, target.mirrors, target.size
    return {"listed": {"name": name, "mirrors": mirrors, "checksum": checksum, "size": size}}


def _word_for(saved: Saved | None) -> str:
    if saved is None or not saved.skipped:
        return "done"
    return "kept" if saved.path is not None else "left alone"


def is_plain(url: str) -> bool:
    """Return whether a URL can be a plain line of a list, without a JSON record."""
    return url.isprintable() and bool(url.strip()) and url[0] not in "#{"


def make_done_record(saved: Saved, scheme: str, *, dry_run: bool = False) -> dict[str, JsonValue]:
    """Return the record of a successful retrieval, or with `dry_run` of a planned retrieval.

    The member `path` is null for output to standard output, and for a skipped target without a file.
    """
    from resolver.transfer.many import make_outcome  # lazy import: most runs print no JSON

    record = make_outcome(saved, scheme).as_json()
    return {**record, "status": "skipped"} if dry_run else record


def make_removed_record(path: str, *, is_done: bool) -> dict[str, JsonValue]:
    """Return the record of a file or directory that `--delete` removes, or would remove without `is_done`."""
    nulls = dict.fromkeys(("url", "final_url", "scheme"))
    record: dict[str, JsonValue] = {**nulls, "status": "done" if is_done else "skipped", "exit": 0}
    record |= {"error": None, "path": path, "bytes": 0, "resumed_from": 0, "media_type": None}
    record |= {"modified": None, "digest": None, "verified": [], "attempts": 0, "elapsed": 0.0}
    return record | {"peer": None, "proxy": None, "findings": [], "mirror": None, "action": "delete"}


def make_failed_record(
    error: ResolveError, target: CommandTarget, started: float, command: Command, policy: Policy
) -> dict[str, JsonValue]:
    """Return the record of a retrieval that failed now; a member is null if its value is unknown."""
    from resolver.transfer.many import judge, outcome_of_failure

    verdict = judge(
        error,
        target.url,
        policy=policy,
        origin=target.origin,
        referrer=target.referrer,
        gateways=command.gateways,
        environment=read_proxies(),
        proxy=command.proxy,
    )
    return outcome_of_failure(error, target.url, trio.current_time() - started, verdict).as_json()


def make_unknown_record(error: ResolveError, target: CommandTarget) -> dict[str, JsonValue]:
    """Return the record of an error that ended the output of `info`, `ls` or `open`."""
    from resolver.transfer.many import describe_error

    return {"url": redact(target.url), "error": describe_error(error), "exit": error.exit_code}


# The records of `cat --json` for a telnet session. Each event is written as it happens, and the outcome is
# written last.


def add_event_records(options: Options) -> Options:
    """Return options for a recorded telnet session that writes each event as a record."""
    assert options.transcript is not None
    return replace(options, transcript=replace(options.transcript, tell=streams.note_record))


def add_peer_records(watch: Callable[[Event], None]) -> Callable[[Event], None]:
    """Return an event handler that calls `watch`, and writes a record with the address of the peer."""

    def handle(event: Event) -> None:
        watch(event)
        if isinstance(event, Connected):
            streams.note_record({"event": "connected", "peer": event.address})

    return handle
