"""The verb `bulk`: what lists name, over the workers of a cluster (Dask); or the plan of that.

The lists are read here, and so are the files of logins: a worker gets values, and asks nobody. Nothing of
Dask is imported unless this verb runs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import trio

from protocols.errors import LocalError, NotConfigured, ResolveError
from protocols.extras import missing_libraries
from resolver.cli import below, messages, streams
from resolver.cli.arguments import Command
from resolver.cli.bounds import limits_of, options_of
from resolver.cli.bulk_progress import display_of
from resolver.cli.bulk_words import is_encrypted
from resolver.cli.carried import PickledSecrets
from resolver.cli.interrupts import Interrupts
from resolver.cli.lists import is_url
from resolver.cli.netrc import Netrc, read_netrc
from resolver.cli.permissions import policy_of
from resolver.cli.sections import hosts_of, mirrors_of
from resolver.cli.targets import CommandTarget, status_of, targets
from resolver.retrieval.many import SaveRequest
from resolver.retrieval.retry import RetryPolicy
from resolver.retrieval.session import Resolver
from resolver.settings import Settings

if TYPE_CHECKING:
    from resolver.cli.lists import FetchedList

#: What `STATUSES` has for an extra that is missing.
_MISSING = 13


def perform(command: Command) -> int:
    """Run it, or say what it would do; the exit status."""

    def tell(how: str) -> None:
        if not command.quiet:
            streams.complain(f"{how}: what is done stays, and the same command goes on with the rest")

    try:
        with Interrupts(tell) as interrupts:
            return _BulkCommand(command).plan() if command.found.dry_run else _BulkCommand(command).run()
        return interrupts.status
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] in ("resolver", "protocols"):
            raise
        streams.complain(f"bulk needs {missing_libraries('bulk')}")
        return _MISSING
    except ResolveError as error:
        if not command.silent:
            streams.complain(error.message)
        return error.exit_code


class _BulkCommand:
    """One command line under way."""

    def __init__(self, command: Command) -> None:
        self._command = command
        self._statuses: set[int] = set()
        self._carried = _carried(command)
        self._settings = settings_of(command, self._carried)

    def run(self) -> int:
        """All of it, until done or stopped; the exit status. Raises `ResolveError`."""
        from resolver.bulk import run
        from resolver.cli.clusters import client_of

        command, found = self._command, self._command.found
        fetched = self._fetched()
        with display_of(command) as display, client_of(found.scheduler) as client:
            summary = run(
                display.read(self._requests(fetched)),
                client=client,
                out=_place(found.out),
                per_host=found.per_host,
                host_rate=found.host_rate,
                format="jsonl" if found.jsonl else "parquet",
                warc=found.warc is not None,
                on_progress=display.hear,
                **self._settings,
            )
        display.conclude(summary)
        return status_of({*self._statuses, summary.exit})

    def plan(self) -> int:
        """What it would be; the exit status."""
        from resolver.bulk.plan import HostPace
        from resolver.bulk.run import planned
        from resolver.cli.bulk_plan import tell

        found = self._command.found
        requests = self._requests(self._fetched())
        pace = HostPace(found.host_rate, found.per_host)
        with display_of(self._command) as display, planned(display.read(requests), None, pace) as plan:
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

    def _fetched(self) -> Mapping[str, FetchedList]:
        """The lists that are URLs."""
        if not any(map(is_url, self._command.lists)):
            return {}
        return trio.run(self._fetch)

    async def _fetch(self) -> Mapping[str, FetchedList]:
        from resolver.cli.fetched import fetch_lists  # few lists are fetched

        async with Resolver(**self._settings) as session:
            return await fetch_lists(session, self._command, self._carried, self.report)

    def report(self, error: ResolveError) -> None:
        """A list, or a line of one that is no target."""
        if not self._command.found.silent:
            told = [error.message] if error.url is None else messages.describe(error, error.url)
            streams.complain(*told)
        self._statuses.add(error.exit_code)


def settings_of(command: Command, carried: PickledSecrets) -> Settings:
    """What holds for every URL, on every worker: files are named as they are there."""
    found = command.found
    policy = policy_of(found)
    return Settings(
        policy=policy,
        limits=limits_of(found),
        gateways=command.gateways,
        cafile=None if command.cafile is None else os.path.abspath(command.cafile),
        family=command.family,
        strict=command.strict,
        options=options_of(found, policy, keep=True),
        credentials=carried.request,
        news_server=found.news_server,
        proxy=found.proxy,
        hosts=hosts_of(command.configuration),
        mirrored=mirrors_of(command.configuration),
        patience=RetryPolicy(found.tries, found.retry_delay, found.retry_all),
    )


def _carried(command: Command) -> PickledSecrets:
    """The logins that go along. Where everybody could read them on the way there are none. Raises
    `NotConfigured` for those that this command line asks for, and `UsageError` for a file that is not to be
    trusted."""
    found = command.found
    asked = found.netrc or found.netrc_file is not None
    sections = {name: each for name, each in command.configuration.hosts.items() if each.logs_in}
    safe = found.dry_run or is_encrypted(found.scheduler)
    if asked and not safe:
        raise NotConfigured(
            f"logins would go to {found.scheduler} for everybody to read: --scheduler tls://… keeps them"
        )
    netrc = read_netrc(found.netrc_file) if asked else Netrc()
    for warning in () if command.quiet else netrc.warnings:
        streams.complain(warning)
    carried = PickledSecrets({**netrc.hosts, **sections} if safe else {}, netrc.default)
    left = carried.left_behind if safe else len(sections)
    if left and not command.quiet:
        why = "nobody is asked on workers" if safe else f"the way to {found.scheduler} is not encrypted"
        streams.complain(f"logins of {left} hosts of the configuration stay here: {why}")
    return carried


def _place(out: str) -> str:
    """Workers have a working directory of their own."""
    if out.startswith("-"):
        raise LocalError(f"{out}: no place for files")
    return out if is_url(out) else os.path.abspath(out)
