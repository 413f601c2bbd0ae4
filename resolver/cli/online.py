"""The verbs that retrieve: one event loop, one `Resolver`, an exit status for each URL.

Signals end the run within one checkpoint (130, 143); a reader of standard output that goes away ends
it without a word (141). Neither leaves anything under a final name.
"""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress

import trio

from protocols.errors import LocalError, ResolveError
from resolver.cli import INTERRUPTED, READER_GONE, messages, streams
from resolver.cli.arguments import Command
from resolver.cli.bounds import limits_of, wishes_of
from resolver.cli.permissions import policy_of
from resolver.cli.secrets import Secrets
from resolver.cli.targets import Target, status_of, targets
from resolver.cli.verbs import VERBS
from resolver.cli.watcher import Watcher
from resolver.session import Resolver
from resolver.tries import Patience

_STATUS_OF_SIGNAL = {signal.SIGINT: 130, signal.SIGTERM: 143}


def perform(command: Command) -> int:
    """Run one of these verbs; the exit status."""
    try:
        watcher = Watcher(command.trace, aloud=command.verbose, quiet=command.quiet)
    except LocalError as error:
        streams.complain(error.message)
        return error.exit_code
    try:
        status = trio.run(_Run(command, watcher).supervised)
    except ResolveError as error:
        streams.complain(error.message)
        status = error.exit_code
    finally:
        fault = watcher.close()
    if fault is None or status >= INTERRUPTED:
        return status
    streams.complain(fault.message)
    return status_of([status, fault.exit_code])


class _Run:
    """One command line under way: its workers and the statuses so far."""

    def __init__(self, command: Command, watcher: Watcher) -> None:
        self._command = command
        self._policy = policy_of(command.found)
        self._limits = limits_of(command.found)
        several = bool(command.lists) or len(command.urls) > 1
        self._wishes = wishes_of(command.found, self._policy, keep=several)
        self._secrets = Secrets(command.found.user, command.found.password_file)
        self._watcher = watcher
        self._statuses: list[int] = []
        self._stopped: int | None = None
        self._scope = trio.CancelScope()

    async def supervised(self) -> int:
        """All URLs, until done or stopped; the exit status."""
        with trio.open_signal_receiver(*_STATUS_OF_SIGNAL) as signals:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._stop_on, signals)
                with self._scope:
                    await self._work_through()
                nursery.cancel_scope.cancel()
        return status_of(self._statuses) if self._stopped is None else self._stopped

    async def _stop_on(self, signals: AsyncIterator[int]) -> None:
        async for number in signals:
            self._stop(_STATUS_OF_SIGNAL[signal.Signals(number)])

    def _stop(self, status: int) -> None:
        self._stopped = status
        self._scope.cancel()

    async def _work_through(self) -> None:
        command = self._command
        jobs = command.jobs if command.verb == "get" and command.output != "-" else 1
        sender, receiver = trio.open_memory_channel[Target](0)
        session = Resolver(
            policy=self._policy,
            limits=self._limits,
            gateways=command.gateways,
            on_event=self._watcher.watch,
            cafile=command.cafile,
            family=command.family,
            strict=command.strict,
            options=self._wishes,
            credentials=self._secrets.ask,
            news_server=command.found.news_server,
            patience=Patience(command.found.tries, command.found.retry_delay),
        )
        async with session, trio.open_nursery() as nursery:
            for _ in range(jobs):
                nursery.start_soon(self._worker, session, receiver.clone())
            receiver.close()
            await self._hand_out(sender)

    async def _hand_out(self, sender: trio.MemorySendChannel[Target]) -> None:
        async with sender:
            found = targets(self._command, self._tell)
            try:
                while (target := await self._next(found)) is not None:
                    await sender.send(target)
            except LocalError as error:
                self._tell(error)

    def _tell(self, error: LocalError) -> None:
        streams.complain(error.message)
        self._statuses.append(error.exit_code)

    async def _next(self, found: Iterator[Target]) -> Target | None:
        """A list may be a pipe that nothing comes from for hours: it is waited for in a thread."""
        if not self._command.lists:
            return next(found, None)
        return await trio.to_thread.run_sync(next, found, None, abandon_on_cancel=True)

    async def _worker(self, session: Resolver, receiver: trio.MemoryReceiveChannel[Target]) -> None:
        async with receiver:
            async for target in receiver:
                self._admit(target)
                await self._one(session, target)

    def _admit(self, target: Target) -> None:
        """What a person gave for this run may go to the places that a person named."""
        if target.origin == "user":
            with suppress(ResolveError):  # the verb meets it too, and says so
                self._secrets.admit(target.parsed(self._command))

    async def _one(self, session: Resolver, target: Target) -> None:
        try:
            await VERBS[self._command.verb](session, target, self._command)
            streams.flush()
            self._statuses.append(0)
        except streams.OutputFault as error:
            self._statuses.append(error.exit_code)
            if not self._command.quiet and not self._scope.cancel_called:
                streams.complain(error.message)
            self._scope.cancel()
        except ResolveError as error:
            self._statuses.append(error.exit_code)
            if not self._command.quiet:
                streams.complain(*messages.describe(error, target.url))
        except BrokenPipeError:
            self._stop(READER_GONE)
