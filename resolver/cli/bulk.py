"""The command `bulk`: fetch lists of URLs with the workers of a Dask cluster, or print the plan.

This process reads the lists and the login files. The workers receive the content, and never prompt the user.
Dask is imported only when this command runs.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from threading import Thread, main_thread
from time import monotonic, sleep
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import trio

from protocols.contract import HostUrl, Url
from protocols.errors import LocalError, NotConfigured, ResolveError, choose_status, missing_libraries
from protocols.text import Masked, format_count, own_text
from resolver.cli import messages, streams
from resolver.cli.arguments import Command, is_encrypted
from resolver.cli.config import HostSection, get_mirrors, make_host_settings
from resolver.cli.lists import fetch_lists, is_url
from resolver.cli.secrets import CommandSecrets, Netrc, read_netrc
from resolver.cli.session_settings import make_limits, make_options, make_policy
from resolver.cli.targets import CommandTarget, targets
from resolver.cli.transfers import countdown, duration, octets
from resolver.cli.vocabulary import INTERRUPTED, MISSING_EXTRA, STATUS_BY_SIGNAL
from resolver.policy.settings import format_names
from resolver.transfer.many import SaveRequest
from resolver.transfer.session import Resolver
from resolver.transfer.settings import RetryPolicy, Settings

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

    from resolver.bulk import BulkProgress, BulkSummary
    from resolver.cli.lists import FetchedList


# Logins for the workers of a cluster. A login is sent to the workers only if a list contains a URL with the
# same host as the login. Workers do not prompt, run commands or read keyrings.


class PickledSecrets(CommandSecrets):
    """Logins in a form that can be pickled for the workers. The hosts of all lists must be admitted first."""

    def __init__(self, sections: Mapping[str, HostSection], default: HostSection | None) -> None:
        with_password = {name: section for name, section in sections.items() if section.password is not None}
        super().__init__(None, None, with_password, default)
        self.left_out_count = len(sections) - len(with_password)

    def admit(self, url: Url) -> None:
        """Permit a configured login for the URL's host. Others are not stored: a list may name any number."""
        if isinstance(url, HostUrl) and self._has_login(url):
            super().admit(url)

    def _has_login(self, url: HostUrl) -> bool:
        names = format_names(url.host, url.effective_port)
        return self._default is not None or any(name in self._sections for name in names)

    async def _ask(self, prompt: str) -> bytes | None:
        return None


# The progress of a cluster run, and a summary at the end. On a terminal, one progress line is redrawn. A log
# gets separate lines, and a program gets JSON objects.

T = TypeVar("T")

#: The number of columns of the progress bar. A terminal needs at least this number of columns for the bar.
_BAR_WIDTH = 20
_MIN_WIDTH = 60

_LOG_WIDTH = 100


@contextmanager
def open_display(command: Command) -> Iterator[BulkDisplay]:
    """Yield the progress display, and clear its lines at the end of the block."""
    kind = _LineDisplay if _has_line(command) else _DISPLAYS.get(command.progress, BulkDisplay)
    try:
        yield kind(command, monotonic)
    finally:
        streams.clear()


def _has_line(command: Command) -> bool:
    mode = command.progress
    return streams.is_terminal() and (mode == "bar" or (mode == "auto" and not command.is_quiet))


class BulkDisplay:
    """The base class of the displays; this class itself shows no progress."""

    #: Minimum seconds between two reports of the number of requests read.
    _READ_INTERVAL = 0.1

    def __init__(self, command: Command, clock: Callable[[], float]) -> None:
        self._command = command
        self._clock = clock
        self._began = clock()
        self._drawn = self._began

    def watch(self, requests: Iterable[T]) -> Iterator[T]:
        """Yield the requests, and report the number read so far; the elapsed time starts after the last."""
        for count, request in enumerate(requests, 1):
            yield request
            if (now := self._clock()) - self._drawn >= self._READ_INTERVAL:
                self._drawn = now
                self.report_reading(count)
        self._began = self._clock()

    def report_reading(self, count: int) -> None:
        """Report the number of requests read so far."""

    def report_progress(self, progress: BulkProgress) -> None:
        """Report the progress after each slice of requests."""

    def report_summary(self, summary: BulkSummary) -> None:
        if self._command.json:
            streams.print_record({**summary._asdict(), "seconds": round(summary.seconds, 6)})
        elif not self._command.is_quiet:
            streams.complain(own_text(format_summary(summary)))

    def _line(self, progress: BulkProgress, columns: int) -> str:
        return format_line(progress, self._clock() - self._began, columns)


class _LineDisplay(BulkDisplay):
    def report_reading(self, count: int) -> None:
        streams.draw([f"{count:,} read"[: streams.size()[0] - 1]])

    def report_progress(self, progress: BulkProgress) -> None:
        streams.draw([self._line(progress, streams.size()[0] - 1)])


class _LogDisplay(BulkDisplay):
    def report_progress(self, progress: BulkProgress) -> None:
        streams.note(own_text(self._line(progress, _LOG_WIDTH)))


class _RecordDisplay(BulkDisplay):
    def report_progress(self, progress: BulkProgress) -> None:
        streams.note_record({"event": "progress", **progress._asdict()})


_DISPLAYS: dict[str, type[BulkDisplay]] = {"dot": _LogDisplay, "json": _RecordDisplay}


def format_line(progress: BulkProgress, elapsed: float, columns: int) -> str:
    """Return a progress line of at most `columns` columns; the elapsed time gives the time left."""
    ended, total = progress.ended, progress.requests
    fraction = ended / total if total else 1.0
    if not progress.threads:
        return f"waiting for workers: {ended:,} of {total:,}"[: max(1, columns)]
    words = [f"{ended:,} of {total:,}", *_list_failures(progress.counts), octets(progress.bytes)]
    if 0 < ended < total:
        words.append(f"{countdown(elapsed / ended * (total - ended))} left")
    line = f"{int(fraction * 100):>3}%  {', '.join(words)}"
    if columns >= _MIN_WIDTH:
        filled = int(fraction * _BAR_WIDTH)
        line = f"[{'=' * filled}{'.' * (_BAR_WIDTH - filled)}] {line}"
    return line[: max(1, columns)]


def format_summary(summary: BulkSummary) -> str:
    skipped = [f"{summary.skipped:,} kept"] if summary.skipped else []
    words = [f"{summary.done:,} of {summary.requests:,} done", *skipped, *_list_failures(summary._asdict())]
    hosts, slices = format_count(summary.hosts, "host"), format_count(summary.slices, "slice")
    amount = f"{octets(summary.bytes)} in {duration(summary.seconds)}"
    return f"{', '.join(words)}; {amount}, {hosts}, {slices}"


def _list_failures(counts: Mapping[str, int]) -> list[str]:
    return [f"{counts[status]:,} {status}" for status in ("failed", "refused") if counts.get(status)]


# Signal handling (Ctrl-C, SIGTERM) for `bulk`, which works in threads and processes of Dask.
#
# - A signal raises `KeyboardInterrupt` in the main thread. Context managers close the cluster and the files
#   while the stack unwinds.
# - Shells start background jobs of a script with SIGINT ignored, and Python then leaves SIGINT ignored. This
#   handler is installed in this case, too.
# - If a signal handler raises an exception in a finalizer or in a callback of the garbage collector, Python
#   ignores the exception. The signal is then sent again.
# - The close of the cluster may block, and the threads that Python joins at exit may block, too. A second
#   signal therefore ends the process immediately. After the first signal, the process ends after at most
#   `PATIENCE` seconds.

#: The maximum time in seconds from the first signal to the end of the process. Dask waits 4 s until a worker
#: ends, and another 5 s after it has killed the worker.
PATIENCE = 10.0

#: The delay in seconds before a signal is sent again. If a signal handler runs in a finalizer, Python ignores
#: its exception. After this time, the finalizer has ended.
_RESEND_DELAY = 0.05

#: The timeout in seconds to write the last message, because the reader of standard error may be blocked.
_MESSAGE_TIMEOUT = 1.0

_Event = Literal["first", "dropped", "second", "over"]


class Interrupts:
    """A context manager for the main thread that converts SIGINT and SIGTERM to an exit status.

    After a signal, all exceptions of the block are suppressed, because the signal caused them. `report` is
    then called with "interrupted" or "terminated", and `status` is the exit status.
    """

    def __init__(self, report: Callable[[str], object]) -> None:
        self._report = report
        self._number: int | None = None
        self._is_resending = self._is_reported = False
        self._events = SimpleQueue[_Event]()
        self._handlers: list[tuple[int, Any]] = []

    @property
    def status(self) -> int:
        assert self._number is not None, "a signal has come"
        return STATUS_BY_SIGNAL[self._number]

    def __enter__(self) -> Interrupts:
        Thread(target=self._watch, name="Interrupts of resolve", daemon=True).start()
        self._hook = sys.unraisablehook
        sys.unraisablehook = self._handle_unraisable
        for number in STATUS_BY_SIGNAL:  # signals are handled even if the shell set SIGINT to be ignored
            self._handlers.append((number, signal.signal(number, self._handle)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        for number, handler in self._handlers:
            signal.signal(number, handler)
        sys.unraisablehook = self._hook
        is_ended = self._number is not None and error is not None
        if is_ended:
            # A normal exit would wait for threads, and Dask would close connections that no longer exist.
            streams.set_exit(os._exit)
            self._report_once()
        self._events.put("over")
        return is_ended

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._number is None:
            self._number = number
            self._events.put("first")
        elif not self._is_resending:
            self._events.put("second")
            return
        self._is_resending = False
        raise KeyboardInterrupt

    def _handle_unraisable(self, unraisable: UnraisableHookArgs, /) -> None:
        if self._number is not None and isinstance(unraisable.exc_value, KeyboardInterrupt):
            self._events.put("dropped")
        else:
            self._hook(unraisable)

    def _watch(self) -> None:
        end: float | None = None
        while True:
            try:
                event = self._events.get(timeout=None if end is None else max(0.0, end - monotonic()))
            except Empty:
                event = "second"
            if event == "over":
                return
            if event == "first":
                end = monotonic() + PATIENCE
            elif event == "dropped":
                self._send_again()
            else:
                self._end()

    def _send_again(self) -> None:
        """Send the signal repeatedly until the handler runs.

        A single signal may be too early: a signal that arrives just before a blocking call does not interrupt
        the call.
        """
        self._is_resending = True
        while self._is_resending and self._events.empty():
            sleep(_RESEND_DELAY)
            signal.pthread_kill(main_thread().ident or 0, self._number or 0)

    def _end(self) -> None:
        """Print the last message and end the process immediately.

        A separate thread prints the message, because the reader of standard error may be blocked.
        """
        thread = Thread(target=self._report_once, daemon=True)
        thread.start()
        thread.join(_MESSAGE_TIMEOUT)
        os._exit(self.status)

    def _report_once(self) -> None:
        if self._is_reported:
            return
        self._is_reported = True
        streams.clear()
        self._report("interrupted" if self.status == INTERRUPTED else "terminated")


def perform(command: Command) -> int:
    """Run `bulk`, or print the plan with `--dry-run`, and return the exit status."""

    def report(event: str) -> None:
        if not command.is_quiet:
            advice = "finished files are kept (run the same command again to continue)"
            streams.complain(own_text(f"{event}: {advice}"))

    try:
        with Interrupts(report) as interrupts:
            return _BulkCommand(command).plan() if command.dry_run else _BulkCommand(command).run()
        return interrupts.status
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] in ("resolver", "protocols"):
            raise
        streams.complain(Masked(f"bulk needs {missing_libraries('bulk')}"))
        return MISSING_EXTRA
    except ResolveError as error:
        if not command.is_silent:
            streams.complain(error.message)
        return error.exit_code


class _BulkCommand:
    def __init__(self, command: Command) -> None:
        self._command = command
        self._statuses: set[int] = set()
        self._secrets = _collect_logins(command)
        self._settings = make_settings(command, self._secrets)

    def run(self) -> int:
        """Fetch all requests on the cluster and return the exit status. Raises `ResolveError`."""
        from resolver.bulk import run
        from resolver.cli.cluster import open_client

        command = self._command
        assert command.out is not None, "a run without --out is refused"
        fetched = self._fetch_lists()
        with open_display(command) as display, open_client(command.scheduler) as client:
            summary = run(
                display.watch(self._requests(fetched)),
                client=client,
                out=_make_absolute(command.out),
                per_host=command.per_host,
                host_rate=command.host_rate,
                format="jsonl" if command.jsonl else "parquet",
                warc=command.warc is not None,
                on_progress=display.report_progress,
                **self._settings,
            )
        display.report_summary(summary)
        return choose_status({*self._statuses, summary.exit})

    def plan(self) -> int:
        """Print the plan and return the exit status."""
        from resolver.bulk.queue import HostPace
        from resolver.bulk.run import plan_requests
        from resolver.cli.forecast import show

        command = self._command
        requests = self._requests(self._fetch_lists())
        pace = HostPace(command.host_rate, command.per_host)
        with open_display(command) as display, plan_requests(display.watch(requests), None, pace) as plan:
            streams.clear()
            show(plan, command)
        return choose_status(self._statuses)

    def _requests(self, fetched: Mapping[str, FetchedList]) -> Iterator[SaveRequest]:
        """Yield the requests of the lists.

        The file name of a request depends only on its URL. Therefore two machines never use the same name for
        different URLs.
        """
        for target in targets(self._command, self.report, fetched):
            self._admit(target)
            yield SaveRequest(
                target.url,
                mirrors=target.mirrors,
                checksum=target.checksum,
                size=target.size,
                origin=target.origin,
                referrer=target.referrer,
            )

    def _admit(self, target: CommandTarget) -> None:
        """Permit the use of the configured login for the target's host if the URL comes from the user."""
        if self._secrets.has_sources and target.origin == "user":
            try:
                self._secrets.admit(target.parse(self._command))
            except ResolveError:
                return  # the worker reports the error as the outcome of the request

    def _fetch_lists(self) -> Mapping[str, FetchedList]:
        """Fetch the lists of URLs that are themselves URLs."""
        if not any(map(is_url, self._command.lists)):
            return {}
        return trio.run(self._fetch)

    async def _fetch(self) -> Mapping[str, FetchedList]:
        async with Resolver(**self._settings) as session:
            return await fetch_lists(session, self._command, self._secrets, self.report)

    def report(self, error: ResolveError) -> None:
        """Report an error of a list, or of a line in a list."""
        if not self._command.silent:
            lines = [error.message] if error.url is None else messages.describe(error, error.url)
            streams.complain(*lines)
        self._statuses.add(error.exit_code)


def make_settings(command: Command, secrets: PickledSecrets) -> Settings:
    """Return the request settings for the workers; file paths are absolute paths of this machine."""
    policy = make_policy(command)
    return Settings(
        policy=policy,
        limits=make_limits(command),
        gateways=command.gateways,
        cafile=None if command.cacert is None else os.path.abspath(command.cacert),
        family=command.family,
        strict=command.strict,
        options=make_options(command, policy, keep=True),
        credentials=secrets.request,
        news_server=command.news_server,
        proxy=command.proxy,
        hosts=make_host_settings(command.configuration),
        mirrored=get_mirrors(command.configuration),
        patience=RetryPolicy(command.tries, command.retry_delay, command.retry_all),
    )


def _collect_logins(command: Command) -> PickledSecrets:
    """Return the logins to send to the workers.

    If the connection to the scheduler is not encrypted, the result is empty.

    Raises:
        NotConfigured: `--netrc` or `--netrc-file` is set, and the connection is not encrypted.
        UsageError: other users may read or change the netrc file.
    """
    reads_netrc = command.netrc or command.netrc_file is not None
    sections = {name: section for name, section in command.configuration.hosts.items() if section.has_login}
    is_safe = command.dry_run or is_encrypted(command.scheduler)
    if reads_netrc and not is_safe:
        raise NotConfigured(
            f"logins would be sent unencrypted to {command.scheduler} (use --scheduler tls://…)"
        )
    netrc = read_netrc(command.netrc_file) if reads_netrc else Netrc()
    for warning in () if command.is_quiet else netrc.warnings:
        streams.complain(own_text(warning))
    secrets = PickledSecrets({**netrc.hosts, **sections} if is_safe else {}, netrc.default)
    count = secrets.left_out_count if is_safe else len(sections)
    if count and not command.is_quiet:
        address = own_text(str(command.scheduler))
        reason = Masked(
            "workers cannot ask for passwords" if is_safe else f"the connection to {address} is not encrypted"
        )
        streams.complain(Masked(f"logins of {count} configured hosts are not sent to workers: {reason}"))
    return secrets


def _make_absolute(out: str) -> str:
    """Return the output directory as an absolute path, because each worker has its own working directory."""
    if out.startswith("-"):
        raise LocalError(f"--out {out}: must not start with -")
    return out if is_url(out) else os.path.abspath(out)
