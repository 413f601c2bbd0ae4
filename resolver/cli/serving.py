"""The verb `serve`: pages for the browsers of this machine, until it is stopped.

Who may come in is told on standard output, an address that is good once; what was refused, on standard error.
"""

from __future__ import annotations

import os.path
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import trio

from protocols.errors import LocalError, ResolveError
from protocols.extras import missing_libraries
from protocols.values import replace
from resolver.cli import INTERRUPTED, streams
from resolver.cli.arguments import Command, listens_to_others
from resolver.cli.bounds import limits_of, options_of
from resolver.cli.browser import lead
from resolver.cli.options import rows
from resolver.cli.permissions import policy_of
from resolver.cli.recording import archive_of
from resolver.cli.sections import hosts_of
from resolver.cli.vocabulary import RULES, STATUSES
from resolver.environment import state_folder
from resolver.settings import Settings

if TYPE_CHECKING:
    from resolver.warc.archive import Archive
    from resolver.window.listening import Certificate
    from resolver.window.own_pages import OwnPageFacts
    from resolver.window.serve import ServeOptions, WebServer

_STATUS_OF_SIGNAL = {signal.SIGINT: INTERRUPTED, signal.SIGTERM: 143}
#: Asks for one more way in.
_ANOTHER = signal.SIGUSR1
#: What `STATUSES` has for an extra that is missing.
_MISSING = 13
#: What says nothing of how pages are served.
_ASIDE = frozenset({"open", "quiet", "silent", "config"})


def perform(command: Command) -> int:
    """Serve until a signal ends it; the exit status."""
    try:
        import resolver.window.serve  # noqa: F401
    except ModuleNotFoundError:
        streams.complain(f"serve needs {missing_libraries('web')}")
        return _MISSING
    registers = command.found.register or command.found.unregister
    try:
        if registers:
            return trio.run(_registered, command)
        with archive_of(command) as archive:  # read before anything waits, so that it can be interrupted
            return trio.run(_serve, command, archive)
    except ResolveError as error:
        streams.complain(error.message)
        return error.exit_code


async def _registered(command: Command) -> int:
    from resolver.cli import handlers

    change = handlers.unregister if command.found.unregister else handlers.register
    await change(command.quiet)
    return 0


async def _serve(command: Command, archive: Archive | None) -> int:
    from resolver.window.running import found_entry
    from resolver.window.serve import serving

    if not command.configuration.given.keys() - _ASIDE:
        there = await trio.to_thread.run_sync(found_entry)
        if there is not None:
            return await _lead_on(command, there[0].process, there[1])
    status = 0
    with trio.open_signal_receiver(*_STATUS_OF_SIGNAL, _ANOTHER) as signals:
        async with serving(wishes_of(command, archive)) as server:
            with findable(server, command):
                streams.print_line(server.entry())
                streams.flush()
                if command.found.open:
                    await lead(server.entry())
                status = await _stopped(signals, server)
    return status


async def _lead_on(command: Command, process: int, address: str) -> int:
    """There is one already, and nothing was said that it should do otherwise."""
    if not command.quiet:
        streams.complain(f"the window of process {process} runs already, and its settings hold")
    if command.found.open:
        await lead(address)
    else:
        streams.print_line(address)
    return 0


@contextmanager
def findable(server: WebServer, command: Command) -> Iterator[None]:
    """`resolve open` finds it as long as the block runs; the first one, where there are several."""
    from resolver.window.running import told

    if command.found.listen is not None or command.found.from_warc:  # it is for others, or of another time
        yield
        return
    with ExitStack() as stack:
        try:
            stack.enter_context(told(server.house.port, server.house.keys.start))
        except LocalError as error:
            if not command.quiet:
                streams.complain(f"resolve open will not find this window: {error.message}")
        yield


async def _stopped(signals: AsyncIterator[int], server: WebServer) -> int:
    async for number in signals:
        if number == _ANOTHER:
            streams.print_line(server.entry())
            streams.flush()
            continue
        return _STATUS_OF_SIGNAL[signal.Signals(number)]
    return 0


def wishes_of(command: Command, archive: Archive | None = None) -> ServeOptions:
    """What this command line says of a server; all comes from the `archive`, if there is one. Raises
    `UsageError`."""
    from resolver.window.listening import LOOPBACK
    from resolver.window.serve import ServeOptions

    return ServeOptions(
        Settings(**settings_of(command), archive=archive),
        port=command.found.port,
        address=command.found.listen or LOOPBACK,
        public=listens_to_others(command.found),
        certificate=_certificate(command.found.listen_cert),
        size=command.found.page_size,
        known=_known(command),
        ledger=None if (state := state_folder()) is None else os.path.join(state, "transfers.db"),
        tell=_pass_over if command.quiet else streams.complain,
    )


def _certificate(named: str | None) -> Certificate | None:
    """One file, or two."""
    from resolver.window.listening import Certificate

    if named is None:
        return None
    chain, _, key = named.partition(",")
    return Certificate(chain, key or chain)


def _known(command: Command) -> OwnPageFacts:
    """What pages tell of the command."""
    from resolver.window.own_pages import OwnPageFacts
    from resolver.window.pages.own import RuleRow as Told
    from resolver.window.pages.words import FactRow

    rules = [Told(rule.name, rule.sentence, rule.options) for rule in RULES]
    found, sources = command.found, command.configuration.sources
    shown = [row for row in rows() if "serve" in row.verbs.split() and sources.get(row.name) != "default"]
    facts = [FactRow(row.long, f"set by {sources[row.name]}") for row in shown]
    policy = FactRow("policy", found.policy)
    return OwnPageFacts(rules, STATUSES, [policy, FactRow("rows on one page", str(found.page_size)), *facts])


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
