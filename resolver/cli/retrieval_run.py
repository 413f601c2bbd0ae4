"""The run of a command that retrieves URLs: one event loop, one `Resolver`, an exit status for each URL.

A signal ends the run at the next checkpoint. The exit status is then 130 for SIGINT and 143 for SIGTERM. If
the reader of standard output closes the pipe, the run ends without a message (exit status 141). In all these
cases, an incomplete file never has its final name.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Hashable, Mapping
from contextlib import aclosing, closing, suppress
from copy import copy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import trio

from protocols.errors import LimitExceeded, LocalError, NotConfigured, ResolveError, choose_status
from protocols.text import Masked, own_text
from resolver.cli import messages, streams, summary
from resolver.cli.arguments import Command
from resolver.cli.config import get_mirrors, make_host_settings
from resolver.cli.ledger import (
    LedgerInput,
    Part,
    SkippedLines,
    load_saved,
    open_ledger,
    record_failure,
    record_saved,
)
from resolver.cli.listing import follow
from resolver.cli.options import LISTINGS
from resolver.cli.output import print_bytes
from resolver.cli.recording import open_archive, open_recorder
from resolver.cli.secrets import CommandSecrets, Netrc, read_netrc, request_key_password
from resolver.cli.session_settings import make_limits, make_options, make_policy
from resolver.cli.streams import OutputFault
from resolver.cli.summary import RunSummary, add_event_records, add_peer_records
from resolver.cli.targets import CommandTarget
from resolver.cli.trace import Watcher
from resolver.cli.values import unescape
from resolver.cli.verbs import VERBS
from resolver.cli.vocabulary import INTERRUPTED, READER_GONE, STATUS_BY_SIGNAL, TERMINATED
from resolver.files.faults import DirectoryGone, is_full, is_scarce
from resolver.ledger import LedgerFault, current
from resolver.network.connecting import run_all
from resolver.network.events import OnEvent
from resolver.policy.schemes import max_connections
from resolver.transfer.batch import MAX_FLUSHING, Batch, BatchTask, TaskResult
from resolver.transfer.queue import HostScheduler
from resolver.transfer.response import Saved
from resolver.transfer.session import Resolver
from resolver.transfer.settings import RetryPolicy
from resolver.url.parsing import redact

if TYPE_CHECKING:
    from resolver.cli.lists import FetchedList
    from resolver.cli.mirror import Trees
    from resolver.files.directory import OutputDirectory
    from resolver.ledger.book import Ledger, LedgerEntry
    from resolver.warc.archive import Archive
    from resolver.warc.recorder import Recorder

_STOP_WORDS = {INTERRUPTED: "interrupted", TERMINATED: "terminated"}


def perform(command: Command) -> int:
    """Run a command that retrieves URLs, and return the exit status.

    Raises `LocalError` if a file of the options cannot be written.
    """
    watcher = Watcher(command)
    tally = RunSummary(command)
    try:
        with open_archive(command) as archive:  # before the event loop starts, so that Ctrl-C is handled
            status = trio.run(_RetrievalRun(command, watcher, tally, archive).run_supervised)
    except ResolveError as error:
        streams.complain(error.message)
        status = error.exit_code
    finally:
        faults = watcher.close()
    if (fault := tally.close(is_shown=status != READER_GONE)) is not None:
        faults.append(fault)
    for fault in faults:
        streams.complain(fault.message)
    if status >= INTERRUPTED:
        return status
    return choose_status([status, *(fault.exit_code for fault in faults)])


def _load_secrets(command: Command) -> CommandSecrets:
    """Return the logins of the run. Raises `UsageError` if others may read or change the netrc file."""
    sections = command.configuration.hosts
    hosts = {name: section for name, section in sections.items() if section.has_login}
    netrc = read_netrc(command.netrc_file) if command.netrc or command.netrc_file else Netrc()
    if not command.is_quiet:
        for warning in netrc.warnings:
            streams.complain(own_text(warning))
    return CommandSecrets(command.user, command.password_file, {**netrc.hosts, **hosts}, netrc.default)


def _retry_policy(command: Command, *, is_batch: bool) -> RetryPolicy:
    """Return the retry policy of the run.

    A single URL has only one attempt, because the user waits for the result. `--tries` and the configuration
    override this rule. `get` also retries a single URL after the first bytes have arrived, and resumes the
    file.
    """
    policy = RetryPolicy(command.tries, command.retry_delay, command.retry_all)
    if is_batch or command.configuration.sources["tries"] != "default":
        return policy
    return replace(policy, tries_before_data=1) if command.verb == "get" else replace(policy, tries=1)


def _may_be_data(command: Command) -> bool:
    """Return whether the value of `-d` is not a directory, and looks like data for curl's `-d`."""
    directory = command.configuration.options.get("directory")
    if directory is None or os.path.lexists(directory):
        return False
    from resolver.cli.habits import looks_like_data  # lazy: the table of other clients is long

    return looks_like_data(directory)


class _RetrievalRun:
    """A run of a command: its workers, and the exit statuses so far."""

    def __init__(
        self, command: Command, watcher: Watcher, tally: RunSummary, archive: Archive | None
    ) -> None:
        self._archive = archive
        self._command = command
        self._tally = tally
        self._policy = make_policy(command)
        self._limits = make_limits(command)
        self._has_trees = command.has_trees
        self._is_batch = self._has_trees or bool(command.lists) or len(command.urls) > 1
        self._options = make_options(
            command,
            self._policy,
            keep=self._is_batch,
            raw=command.verb in ("get", "cat"),
            listen=command.verb == "cat",
        )
        self._secrets = _load_secrets(command)
        self._can_log_in = self._secrets.has_sources or streams.has_terminal()
        self._watcher = watcher
        self._on_event: OnEvent = watcher.listener
        if command.json and self._options.transcript is not None:
            self._options = add_event_records(self._options)
            self._on_event = add_peer_records(watcher.watch)
        self._directory: OutputDirectory | None = None
        if command.directory is not None:
            from resolver.files.directory import OutputDirectory  # Imported lazily: only `get` saves files.

            self._directory = OutputDirectory(command.directory)
        self._statuses: set[int] = set()
        self._stop_status: int | None = None
        self._at_quota = False
        writes_bodies = command.verb == "cat" or (command.verb == "get" and command.output == "-")
        self._separator = unescape(command.separator) if writes_bodies and command.separator else b""
        self._last_separated = 0
        self._scope = trio.CancelScope()

    async def run_supervised(self) -> int:
        """Process all URLs, or stop at a signal, and return the exit status."""
        started = trio.current_time()
        with trio.open_signal_receiver(*STATUS_BY_SIGNAL) as signals:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._stop_on, signals)
                nursery.start_soon(self._watcher.display.run)
                with self._scope:
                    await self._run_targets()
                nursery.cancel_scope.cancel()
        self._tally.elapsed = trio.current_time() - started
        if self._stop_status is None:
            if self._at_quota and not self._command.is_quiet and (files := self._watcher.take_partials()):
                streams.complain(
                    Masked(f"the quota ended the run: {messages.advise_resume(files, self._rerun)}")
                )
            return choose_status(self._statuses)
        self._report_stop(self._stop_status)
        return self._stop_status

    def _report_stop(self, status: int) -> None:
        """Report the partial files of a stopped run, and how to resume them."""
        command = self._command
        if not command.is_quiet and command.verb == "get" and command.output != "-" and status in _STOP_WORDS:
            advice = messages.advise_resume(self._watcher.take_partials(), self._rerun)
            streams.complain(Masked(f"{own_text(_STOP_WORDS[status])}: {advice}"))

    @property
    def _rerun(self) -> Masked:
        """Describe the command that resumes this run.

        Without a ledger, a second run fails if a file is already complete. The command then needs `--exists
        skip`.
        """
        command = self._command
        has_conflicts = self._is_batch and command.exists == "fail" and command.ledger is None
        return Masked(f"the same command{' with --exists skip' if has_conflicts else ''}")

    async def _stop_on(self, signals: AsyncIterator[int]) -> None:
        async for number in signals:
            self._stop(STATUS_BY_SIGNAL[number])

    def _stop(self, status: int) -> None:
        self._stop_status = status
        self._scope.cancel()

    async def _run_targets(self) -> None:
        if not await self._confirm_directory():
            self._statuses.add(NotConfigured.exit_code)
            return
        try:
            password = await request_key_password(self._command.cert)
            with open_recorder(self._command) as recorder:
                async with (
                    open_ledger(self._command) as ledger,
                    self._make_session(password, recorder) as session,
                ):
                    await self._fetch_all(session, ledger)
        except LocalError as error:  # the error is about a local file, such as the ledger
            if not self._command.is_silent:
                streams.complain(error.message)
            self._statuses.add(error.exit_code)

    async def _confirm_directory(self) -> bool:
        """Ask the user whether the value of `-d`, which curl would send, is a new directory."""
        command = self._command
        if command.yes or command.dry_run or not _may_be_data(command) or not streams.can_ask():
            return True
        name = redact(command.configuration.options["directory"])
        streams.complain(Masked(f"-d {name}: this option names a directory; resolve sends no request body"))
        return await streams.ask(f"save below a new directory {name!r}?")

    async def _fetch_all(self, session: Resolver, ledger: Ledger | None) -> None:
        try:
            if self._has_trees:
                await self._walk(session, ledger)
            else:
                await self._batch(self._scheduler()).run(self._tasks(session, ledger), _ignore_result)
            if self._directory is not None and self._directory.is_open:
                self._directory.check()
        finally:
            if self._directory is not None:
                self._directory.close()

    def _make_session(self, certfile_password: bytes | None, recorder: Recorder | None) -> Resolver:
        command = self._command
        return Resolver(
            policy=self._policy,
            limits=self._limits,
            gateways=command.gateways,
            on_event=self._on_event,
            cafile=command.cacert,
            certfile=command.cert,
            certfile_password=certfile_password,
            pin=command.pin,
            family=command.family,
            strict=command.strict,
            options=self._options,
            credentials=self._secrets.request if self._can_log_in else None,
            news_server=command.news_server,
            proxy=command.proxy,
            cookies=command.cookies,
            rate=command.rate,
            hosts=make_host_settings(command.configuration),
            mirrored=get_mirrors(command.configuration),
            segments=command.segments,
            segments_per_host=command.per_host,
            patience=_retry_policy(command, is_batch=self._is_batch),
            sync=command.sync,
            recorder=recorder,
            archive=self._archive,
        )

    def _scheduler(
        self, get_lane: Callable[[BatchTask[None]], Hashable] | None = None
    ) -> HostScheduler[BatchTask[None]]:
        command = self._command
        return HostScheduler(
            partial(max_connections, setting=command.per_host), rate=command.host_rate, get_lane=get_lane
        )

    def _batch(self, hosts: HostScheduler[BatchTask[None]]) -> Batch[None]:
        """Return the batch that runs the tasks concurrently, or in list order for standard output."""
        command = self._command
        if command.verb == "get" and command.output != "-":
            max_flushing = MAX_FLUSHING if command.jobs > 1 else 0  # a sequential run must report in order
            return Batch(hosts, concurrency=command.jobs, max_flushing=max_flushing)
        return Batch(hosts, concurrency=1, window=1)

    async def _walk(self, session: Resolver, ledger: Ledger | None) -> None:
        """Walk the directory trees (`-r`) and save their files; the lists of URLs are read lazily."""
        from resolver.cli.mirror import (
            Trees,
            get_lane,  # lazy import: few runs have trees
        )

        hosts = self._scheduler(get_lane)
        trees = Trees(self, session, self._command, self._tally, hosts.slow_down, ledger)
        with closing(trees):
            start = partial(self._start_trees, session, trees)
            await run_all([start, partial(self._batch(hosts).run, trees.tasks(), _ignore_result)])
            await trees.remove_surplus()

    async def _start_trees(self, session: Resolver, trees: Trees) -> None:
        async with aclosing(self._targets(session, None)) as groups:
            async for parts in groups:
                for part in parts:
                    assert not isinstance(part, SkippedLines), "trees are walked again"
                    self._admit(part[0])
                    await trees.start_tree(part[0])
        trees.end_roots()

    async def _tasks(self, session: Resolver, ledger: Ledger | None) -> AsyncIterator[BatchTask[None]]:
        """Yield a task for each URL; the lists of URLs are read lazily."""
        async with aclosing(self._targets(session, ledger)) as groups:
            async for parts in groups:
                for part in parts:
                    if isinstance(part, SkippedLines):
                        self._report_skipped_lines(part)
                        continue
                    target, entry = part
                    host, scheme = target.host_and_scheme
                    number = self._tally.add_target(target)
                    if entry is not None and entry.is_done:
                        self.report_skipped(number, load_saved(target, entry, self._command), scheme)
                    else:
                        work = partial(self.process_target, session, number, target, entry)
                        yield _TargetTask(host, scheme, work)

    async def _targets(self, session: Resolver, ledger: Ledger | None) -> AsyncGenerator[list[Part], None]:
        fetched: Mapping[str, FetchedList] = {}
        if self._command.lists:
            from resolver.cli.lists import fetch_lists  # lazy import: few runs have a list

            fetched = await fetch_lists(session, self._command, self._secrets, self.report)
        self._tally.fetched = fetched
        reader = LedgerInput(self._command, self.report, ledger, fetched)
        try:
            async with aclosing(reader.read()) as groups:
                async for parts in groups:
                    yield parts
        except LocalError as error:
            self.report(error)
        self._tally.end_lists()

    def _report_skipped_lines(self, lines: SkippedLines) -> None:
        """Report several targets that earlier runs completed."""
        if lines.octets:
            streams.write_output(lines.octets)
        self._tally.count_skipped(lines.number)
        self._statuses.add(0)

    def report_skipped(self, number: int, saved: Saved, scheme: str) -> None:
        """Report one target that an earlier run completed."""
        if self._command.json:
            streams.print_record(summary.make_done_record(saved, scheme))
        self._tally.count_done(number, saved)
        self._statuses.add(0)

    def report(self, error: ResolveError) -> None:
        if not self._command.silent:  # also with JSON records on stderr, which lack this error
            lines = [error.message] if error.url is None else messages.describe(error, error.url)
            streams.complain(*lines)
        self._tally.count_unreadable(error)
        self._statuses.add(error.exit_code)

    def _admit(self, target: CommandTarget) -> None:
        """Permit the use of logins for the target's host if the URL comes from the user."""
        if self._can_log_in and target.origin == "user":
            with suppress(ResolveError):  # the command reports the error
                self._secrets.admit(target.parse(self._command))

    async def _separate(self, number: int) -> None:
        """Write the separator before a target, except before the first target or a repeated target."""
        if number > self._last_separated:
            if self._last_separated:
                await print_bytes(self._separator)
            self._last_separated = number

    async def _perform(self, session: Resolver, position: int, target: CommandTarget) -> Saved | None:
        command = self._command
        if self._separator:
            await self._separate(position)
        if (number := command.follow) is not None and command.verb in LISTINGS.split():
            target = await follow(session, target, command, number)
            # `--search`, `--view` and `--type` were already applied, to the URL of the listing
            command = copy(command)
            command.search = command.view = command.type = None
        return await VERBS[command.verb](session, target, command)

    def process_target(
        self, session: Resolver, number: int, target: CommandTarget, entry: LedgerEntry | None
    ) -> Coroutine[object, object, None]:
        """Retrieve one target, and report and count its outcome."""
        self._watcher.add_target(target)
        self._admit(target)
        return self.run_retrieval(number, target, partial(self._perform, session, number, target), entry)

    async def run_retrieval(
        self,
        number: int,
        target: CommandTarget,
        perform: Callable[[], Awaitable[Saved | None]],
        entry: LedgerEntry | None = None,
    ) -> None:
        """Perform a retrieval, and report and count its outcome."""
        current.set(entry)
        self._watcher.forget_partial(target)
        try:
            saved = await perform()
            if saved is not None and self._directory is not None:
                self._directory.check()
            streams.flush()
            if entry is not None:
                await record_saved(entry, saved)
            if self._has_trees and saved is None:  # the target turned out to be a directory
                if entry is not None:
                    await entry.forget()
                self._tally.remove_target(number)
            else:
                self._tally.count_done(number, saved)
            self._statuses.add(0)
        except (OutputFault, LedgerFault, DirectoryGone) as error:
            self._tally.count_failed(number, error)
            self._end_run(error)
        except ResolveError as error:
            await self._report_failure(number, target, entry, error)
        except BrokenPipeError:
            self._stop(READER_GONE)

    async def _report_failure(
        self, number: int, target: CommandTarget, entry: LedgerEntry | None, error: ResolveError
    ) -> None:
        self._tally.count_failed(number, error)
        if self._is_batch and (is_full(error) or is_scarce(error)):  # each following URL would fail, too
            return self._end_run(error)
        self._statuses.add(error.exit_code)
        if self._at_quota:  # the quota error was already reported, for an earlier URL
            return None
        if not self._command.is_silent:
            typed = target.origin == "user" and not self._command.glob
            streams.complain(*messages.describe(error, target.url, typed=typed))
        if isinstance(error, LimitExceeded) and error.limit == "quota":
            self._at_quota = True
            self._scope.cancel()
            await trio.lowlevel.checkpoint()  # otherwise the worker would start another URL
        files = self._watcher.take_partials()
        if files and not self._command.is_quiet:
            streams.complain(Masked(f"{redact(target.url)}: {messages.advise_resume(files, self._rerun)}"))
        try:
            await record_failure(entry, error)
        except LedgerFault as fault:
            self._end_run(fault)
        return None

    def _end_run(self, error: ResolveError) -> None:
        """End the run after a local error, such as a full disk, which would affect each following URL."""
        self._statuses.add(error.exit_code)
        if not self._command.is_silent and not self._scope.cancel_called:
            streams.complain(error.message)
        self._scope.cancel()


class _TargetTask(NamedTuple):
    host: str
    scheme: str
    run: Callable[[], Coroutine[object, object, None]]


async def _ignore_result(result: TaskResult[None]) -> None:
    """Ignore the result of a task, because the task has already reported it."""
