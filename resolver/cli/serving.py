"""The verb `serve`: pages for the browsers of this machine, until it is stopped.

Who may come in is told on standard output, an address that is good once; what was refused, on standard error.
"""

from __future__ import annotations

import os.path
import signal
import webbrowser
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import trio

from protocols.errors import ResolveError
from protocols.values import replace
from resolver.cli import INTERRUPTED, streams
from resolver.cli.arguments import Command
from resolver.cli.bounds import limits_of, options_of
from resolver.cli.options import rows
from resolver.cli.permissions import policy_of
from resolver.cli.sections import hosts_of
from resolver.cli.vocabulary import RULES, STATUSES
from resolver.environment import state_folder
from resolver.settings import Settings

if TYPE_CHECKING:
    from resolver.window.own_pages import Known
    from resolver.window.serve import Wishes

_STATUS_OF_SIGNAL = {signal.SIGINT: INTERRUPTED, signal.SIGTERM: 143}
#: What `STATUSES` has for an extra that is missing.
_MISSING = 13


def perform(command: Command) -> int:
    """Serve until a signal ends it; the exit status."""
    try:
        import resolver.window.serve  # noqa: F401
    except ModuleNotFoundError:
        streams.complain("serve needs an extra: pip install 'url-resolver[web]'")
        return _MISSING
    try:
        return trio.run(_serve, command)
    except ResolveError as error:
        streams.complain(error.message)
        return error.exit_code


async def _serve(command: Command) -> int:
    from resolver.window.serve import serving

    status = 0
    with trio.open_signal_receiver(*_STATUS_OF_SIGNAL) as signals:
        async with serving(wishes_of(command)) as server:
            streams.print_line(server.entry())
            streams.flush()
            if command.found.open:  # the person's own browser, at the person's word
                await trio.to_thread.run_sync(webbrowser.open, server.entry())
            status = await _stopped(signals)
    return status


async def _stopped(signals: AsyncIterator[int]) -> int:
    async for number in signals:
        return _STATUS_OF_SIGNAL[signal.Signals(number)]
    return 0


def wishes_of(command: Command) -> Wishes:
    """What this command line says of a server. Raises `UsageError`."""
    from resolver.window.serve import Wishes

    return Wishes(
        settings_of(command),
        port=command.found.port,
        size=command.found.page_size,
        known=_known(command),
        ledger=None if (state := state_folder()) is None else os.path.join(state, "transfers.db"),
        tell=_pass_over if command.quiet else streams.complain,
    )


def _known(command: Command) -> Known:
    """What pages tell of the command."""
    from resolver.window.own_pages import Known
    from resolver.window.pages.own import Rule as Told
    from resolver.window.pages.words import Fact

    rules = [Told(rule.name, rule.sentence, rule.options) for rule in RULES]
    found, sources = command.found, command.configuration.sources
    shown = [row for row in rows() if "serve" in row.verbs.split() and sources.get(row.name) != "default"]
    facts = [Fact(row.long, f"set by {sources[row.name]}") for row in shown]
    policy = Fact("policy", found.policy)
    return Known(rules, STATUSES, [policy, Fact("rows on one page", str(found.page_size)), *facts])


def _pass_over(line: str) -> None:
    """Nobody wants to hear it."""


def settings_of(command: Command) -> Settings:
    """What holds for every URL that a browser asks for."""
    found = command.found
    policy = policy_of(found)
    return Settings(
        policy=policy,
        limits=limits_of(found),
        gateways=command.gateways,
        cafile=command.cafile,
        family=command.family,
        strict=command.strict,
        options=replace(options_of(found, policy, keep=True), detailed=True),  # for their columns
        news_server=found.news_server,
        proxy=found.proxy,
        rate=found.rate,
        hosts=hosts_of(command.configuration),
    )
