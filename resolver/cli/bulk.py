"""The command `bulk`: fetch lists of URLs with the workers of a cluster (Dask), or print the plan of that.

The command reads the lists, and so it reads the files of logins: a worker gets values, and asks nobody. Dask
is imported only when this command runs.
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
from protocols.errors import LocalError, NotConfigured, ResolveError, missing_libraries
from resolver.cli import messages, streams
from resolver.cli import streams as below
from resolver.cli.arguments import Command, is_encrypted
from resolver.cli.config import HostSection, hosts_of, mirrors_of
from resolver.cli.lists import fetch_lists, is_url
from resolver.cli.secrets import CommandSecrets, Netrc, read_netrc
from resolver.cli.session_settings import limits_of, options_of, policy_of
from resolver.cli.targets import CommandTarget, status_of, targets
from resolver.cli.transfers import countdown, duration, octets
from resolver.cli.vocabulary import INTERRUPTED, MISSING_EXTRA, STATUS_BY_SIGNAL
from resolver.policy.settings import names_of
from resolver.transfer.many import SaveRequest
from resolver.transfer.session import Resolver
from resolver.transfer.settings import RetryPolicy, Settings

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

    from resolver.bulk import BulkProgress, BulkSummary
    from resolver.cli.lists import FetchedList


# Logins for the workers of a cluster: those that the user wrote down, for hosts in a list. A worker asks no
# user, runs no command and reads no keyring. Logins for other hosts stay here.


class PickledSecrets(CommandSecrets):
    """Can be pickled, and is when all places are known."""

    def __init__(self, sections: Mapping[str, HostSection], default: HostSection | None) -> None:
        told = {name: section for name, section in sections.items() if section.password is not None}
        super().__init__(None, None, told, default)
        self.left_behind = len(sections) - len(told)

    @property
    def has_any(self) -> bool:
        return self._default is not None or bool(self._sections)

    def admit(self, url: Url) -> None:
        """Only where somebody logs in: a list may name any number of places."""
        if isinstance(url, HostUrl) and self._has(url):
            super().admit(url)

    def _has(self, url: HostUrl) -> bool:
        names = names_of(url.host, url.effective_port)
        return self._default is not None or any(name in self._sections for name in names)

    async def _ask(self, prompt: str) -> bytes | None:
        return None


# bulk progress: How far a run over a cluster is: a line that is drawn anew on a terminal, lines for a log,
# JSON for programs; and what became of all, at the end.

T = TypeVar("T")

#: Columns of the bar, and of a terminal that has one.
_BAR = 20
_WIDE = 60

#: Columns of a line of a log.
_LOG = 100


@contextmanager
def display_of(command: Command, clock: Callable[[], float] = monotonic) -> Iterator[BulkDisplay]:
    """Nothing of what was drawn stays."""
    kind = _LineDisplay if _has_line(command) else _DISPLAYS.get(command.progress, BulkDisplay)
    try:
        yield kind(command, clock)
    finally:
        below.clear()


def _has_line(command: Command) -> bool:
    how = command.progress
    return below.is_terminal() and (how == "bar" or (how == "auto" and not command.is_quiet))


class BulkDisplay:
    """Shows nothing on the way: what the others do more."""

    #: Seconds between two times that it is told how many requests were read.
    _SOON = 0.1

    def __init__(self, command: Command, clock: Callable[[], float]) -> None:
        self._command = command
        self._clock = clock
        self._began = clock()
        self._drawn = self._began

    def read(self, requests: Iterable[T]) -> Iterator[T]:
        """The same. How many they are so far is told meanwhile; how long it takes counts from their end."""
        for count, request in enumerate(requests, 1):
            yield request
            if (now := self._clock()) - self._drawn >= self._SOON:
                self._drawn = now
                self.hear_of_reading(count)
        self._began = self._clock()

    def hear_of_reading(self, count: int) -> None:
        """So many requests were read."""

    def hear(self, progress: BulkProgress) -> None:
        """A slice has ended."""

    def conclude(self, summary: BulkSummary) -> None:
        """What became of all."""
        if self._command.json:
            streams.print_record({**summary._asdict(), "seconds": round(summary.seconds, 6)})
        elif not self._command.is_quiet:
            streams.complain(format_summary(summary))

    def _line(self, progress: BulkProgress, columns: int) -> str:
        return line_of(progress, self._clock() - self._began, columns)


class _LineDisplay(BulkDisplay):
    def hear_of_reading(self, count: int) -> None:
        below.draw([f"{count:,} read"[: below.size()[0] - 1]])

    def hear(self, progress: BulkProgress) -> None:
        below.draw([self._line(progress, below.size()[0] - 1)])


class _LinesDisplay(BulkDisplay):
    def hear(self, progress: BulkProgress) -> None:
        streams.note(self._line(progress, _LOG))


class _RecordDisplay(BulkDisplay):
    def hear(self, progress: BulkProgress) -> None:
        streams.note_record({"event": "progress", **progress._asdict()})


_DISPLAYS: dict[str, type[BulkDisplay]] = {"dot": _LinesDisplay, "json": _RecordDisplay}


def line_of(progress: BulkProgress, elapsed: float, columns: int) -> str:
    """At most so wide. How long it still takes is guessed by what it took."""
    ended, whole = progress.ended, progress.requests
    share = ended / whole if whole else 1.0
    if not progress.threads:
        return f"waiting for workers: {ended:,} of {whole:,}"[: max(1, columns)]
    words = [f"{ended:,} of {whole:,}", *_list_failures(progress.counts), octets(progress.bytes)]
    if 0 < ended < whole:
        words.append(f"{countdown(elapsed / ended * (whole - ended))} left")
    line = f"{int(share * 100):>3}%  {', '.join(words)}"
    if columns >= _WIDE:
        done = int(share * _BAR)
        line = f"[{'=' * done}{'.' * (_BAR - done)}] {line}"
    return line[: max(1, columns)]


def format_summary(summary: BulkSummary) -> str:
    """A line for people."""
    kept = [f"{summary.skipped:,} kept"] if summary.skipped else []
    words = [f"{summary.done:,} of {summary.requests:,} done", *kept, *_list_failures(summary._asdict())]
    hosts = "1 host" if summary.hosts == 1 else f"{summary.hosts:,} hosts"
    slices = "1 slice" if summary.slices == 1 else f"{summary.slices:,} slices"
    amount = f"{octets(summary.bytes)} in {duration(summary.seconds)}"
    return f"{', '.join(words)}; {amount}, {hosts}, {slices}"


def _list_failures(counts: Mapping[str, int]) -> list[str]:
    return [f"{counts[how]:,} {how}" for how in ("failed", "refused") if counts.get(how)]


# Ctrl-C and SIGTERM, for a command whose work is done by threads and processes of a library.
#
# A signal raises `KeyboardInterrupt` where the command is, and open work is closed on the way out. Python
# leaves SIGINT alone where it begins with it ignored, as shells have it for the background of a script: here
# it is handled. Python also drops an exception that is raised while it runs a finalizer or a callback of its
# collector: then the signal is sent once more. And closing may wait, as may the threads that Python joins at
# its end: so a second signal ends the process immediately, and a first one after `PATIENCE`, as it stands.

#: Seconds that closing may take. Dask gives a worker four to end, and five more once it was killed.
PATIENCE = 10.0

#: Seconds until a signal that was dropped is sent again: what dropped it is over by then.
_AGAIN = 0.05

#: Seconds for the last words, where somebody reads them.
_LAST = 1.0

_Word = Literal["first", "dropped", "second", "over"]


class Interrupts:
    """A context manager, for the main thread: once a signal has come, whatever error leaves it is that
    signal's; it is swallowed, and `tell` is told how the command ends. `status` is its exit status then."""

    def __init__(self, tell: Callable[[str], object]) -> None:
        self._tell = tell
        self._number: int | None = None
        self._comes_again = self._has_said = False
        self._words = SimpleQueue[_Word]()
        self._before: list[tuple[int, Any]] = []

    @property
    def status(self) -> int:
        assert self._number is not None, "a signal has come"
        return STATUS_BY_SIGNAL[signal.Signals(self._number)]

    def __enter__(self) -> Interrupts:
        Thread(target=self._watch, name="Interrupts of resolve", daemon=True).start()
        self._hook = sys.unraisablehook
        sys.unraisablehook = self._hear_of_dropped
        for number in STATUS_BY_SIGNAL:  # also where a shell has it ignored, as other verbs do
            self._before.append((number, signal.signal(number, self._hear)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        for number, before in self._before:
            signal.signal(number, before)
        sys.unraisablehook = self._hook
        is_ended = self._number is not None and error is not None
        if is_ended:
            streams.leave_by(os._exit)  # Python would wait for threads, and Dask close what is no more
            self._say()
        self._words.put("over")
        return is_ended

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self._number is None:
            self._number = number
            self._words.put("first")
        elif not self._comes_again:
            self._words.put("second")
            return
        self._comes_again = False
        raise KeyboardInterrupt

    def _hear_of_dropped(self, dropped: UnraisableHookArgs, /) -> None:
        if self._number is not None and isinstance(dropped.exc_value, KeyboardInterrupt):
            self._words.put("dropped")
        else:
            self._hook(dropped)

    def _watch(self) -> None:
        until: float | None = None
        while True:
            try:
                word = self._words.get(timeout=None if until is None else max(0.0, until - monotonic()))
            except Empty:
                word = "second"
            if word == "over":
                return
            if word == "first":
                until = monotonic() + PATIENCE
            elif word == "dropped":
                self._send_again()
            else:
                self._end()

    def _send_again(self) -> None:
        """Until it is heard: one that comes just before a wait does not end it."""
        self._comes_again = True
        while self._comes_again and self._words.empty():
            sleep(_AGAIN)
            signal.pthread_kill(main_thread().ident or 0, self._number or 0)

    def _end(self) -> None:
        """In a thread of its own the last words are said: who was to read them may have stopped to."""
        teller = Thread(target=self._say, daemon=True)
        teller.start()
        teller.join(_LAST)
        os._exit(self.status)

    def _say(self) -> None:
        if self._has_said:
            return
        self._has_said = True
        below.clear()
        self._tell("interrupted" if self.status == INTERRUPTED else "terminated")


def perform(command: Command) -> int:
    """Run it, or say what it would do; the exit status."""

    def tell(how: str) -> None:
        if not command.is_quiet:
            streams.complain(f"{how}: what is done stays, and the same command goes on with the rest")

    try:
        with Interrupts(tell) as interrupts:
            return _BulkCommand(command).plan() if command.dry_run else _BulkCommand(command).run()
        return interrupts.status
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] in ("resolver", "protocols"):
            raise
        streams.complain(f"bulk needs {missing_libraries('bulk')}")
        return MISSING_EXTRA
    except ResolveError as error:
        if not command.is_silent:
            streams.complain(error.message)
        return error.exit_code


class _BulkCommand:
    """One command line under way."""

    def __init__(self, command: Command) -> None:
        self._command = command
        self._statuses: set[int] = set()
        self._carried = _collect_logins(command)
        self._settings = settings_of(command, self._carried)

    def run(self) -> int:
        """All of it, until done or stopped; the exit status. Raises `ResolveError`."""
        from resolver.bulk import run
        from resolver.cli.cluster import client_of

        command = self._command
        assert command.out is not None, "a run without --out is refused"
        fetched = self._fetch_lists()
        with display_of(command) as display, client_of(command.scheduler) as client:
            summary = run(
                display.read(self._requests(fetched)),
                client=client,
                out=_place(command.out),
                per_host=command.per_host,
                host_rate=command.host_rate,
                format="jsonl" if command.jsonl else "parquet",
                warc=command.warc is not None,
                on_progress=display.hear,
                **self._settings,
            )
        display.conclude(summary)
        return status_of({*self._statuses, summary.exit})

    def plan(self) -> int:
        """What it would be; the exit status."""
        from resolver.bulk.queue import HostPace
        from resolver.bulk.run import plan_requests
        from resolver.cli.forecast import tell

        command = self._command
        requests = self._requests(self._fetch_lists())
        pace = HostPace(command.host_rate, command.per_host)
        with display_of(self._command) as display, plan_requests(display.read(requests), None, pace) as plan:
            below.clear()
            tell(plan, self._command)
        return status_of(self._statuses)

    def _requests(self, fetched: Mapping[str, FetchedList]) -> Iterator[SaveRequest]:
        """Each by a name that is made of its URL alone: two machines never want the same."""
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
        """What a person wrote down of a login may go to the places that a person named."""
        if self._carried.has_any and target.origin == "user":
            try:
                self._carried.admit(target.parsed(self._command))
            except ResolveError:
                return  # its outcome says so

    def _fetch_lists(self) -> Mapping[str, FetchedList]:
        """The lists that are URLs."""
        if not any(map(is_url, self._command.lists)):
            return {}
        return trio.run(self._fetch)

    async def _fetch(self) -> Mapping[str, FetchedList]:
        async with Resolver(**self._settings) as session:
            return await fetch_lists(session, self._command, self._carried, self.report)

    def report(self, error: ResolveError) -> None:
        """A list, or a line of one that is no target."""
        if not self._command.silent:
            told = [error.message] if error.url is None else messages.describe(error, error.url)
            streams.complain(*told)
        self._statuses.add(error.exit_code)


def settings_of(command: Command, carried: PickledSecrets) -> Settings:
    """What holds for every URL, on every worker: files are named as they are there."""
    policy = policy_of(command)
    return Settings(
        policy=policy,
        limits=limits_of(command),
        gateways=command.gateways,
        cafile=None if command.cacert is None else os.path.abspath(command.cacert),
        family=command.family,
        strict=command.strict,
        options=options_of(command, policy, keep=True),
        credentials=carried.request,
        news_server=command.news_server,
        proxy=command.proxy,
        hosts=hosts_of(command.configuration),
        mirrored=mirrors_of(command.configuration),
        patience=RetryPolicy(command.tries, command.retry_delay, command.retry_all),
    )


def _collect_logins(command: Command) -> PickledSecrets:
    """The logins that go along. Where everybody could read them on the way there are none. Raises
    `NotConfigured` for those that this command line asks for, and `UsageError` for a file that is not to be
    trusted."""
    asked = command.netrc or command.netrc_file is not None
    sections = {name: each for name, each in command.configuration.hosts.items() if each.logs_in}
    safe = command.dry_run or is_encrypted(command.scheduler)
    if asked and not safe:
        raise NotConfigured(
            f"logins would go to {command.scheduler} for everybody to read: --scheduler tls://… keeps them"
        )
    netrc = read_netrc(command.netrc_file) if asked else Netrc()
    for warning in () if command.is_quiet else netrc.warnings:
        streams.complain(warning)
    carried = PickledSecrets({**netrc.hosts, **sections} if safe else {}, netrc.default)
    left = carried.left_behind if safe else len(sections)
    if left and not command.is_quiet:
        why = "nobody is asked on workers" if safe else f"the way to {command.scheduler} is not encrypted"
        streams.complain(f"logins of {left} hosts of the configuration stay here: {why}")
    return carried


def _place(out: str) -> str:
    """Workers have a working directory of their own."""
    if out.startswith("-"):
        raise LocalError(f"{out}: no place for files")
    return out if is_url(out) else os.path.abspath(out)
