"""The command `mcp`: tools for AI agents over the standard streams, until the client closes its end.

Standard output carries the protocol, so nothing else is written there. The policy is `untrusted`; only
options of this command line override its rules. Logins of the user are not used.
"""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import trio

from protocols.errors import LocalError, missing_libraries
from resolver.cli import streams
from resolver.cli.arguments import Command
from resolver.cli.options import rows
from resolver.cli.output import put
from resolver.cli.session_settings import limits_of, options_of, policy_of
from resolver.cli.streams import OutputFault
from resolver.cli.values import UsageError
from resolver.cli.vocabulary import MISSING_EXTRA, READER_GONE, STATUS_BY_SIGNAL
from resolver.version import VERSION

if TYPE_CHECKING:
    from resolver.adapters.mcp import ToolGrant

#: A function that serves a client: gets its lines, and a function that sends bytes, until it disconnects.
Serve: TypeAlias = Callable[
    [AsyncIterator[bytes | None], Callable[[bytes], Awaitable[None]]], Awaitable[None]
]


def perform(command: Command) -> int:
    """Serve one client and return the exit status."""
    try:
        from resolver.adapters.mcp import serve
    except ModuleNotFoundError:
        streams.complain(f"mcp needs {missing_libraries('mcp')}")
        return MISSING_EXTRA
    serving = _McpServer(partial(serve, grant_of(command), version=VERSION))
    if streams.input_is_terminal():  # a user at a terminal would otherwise see nothing
        streams.complain("mcp: waiting for an MCP client on standard input (Ctrl-D ends it)")
    return trio.run(serving.run_supervised)


def grant_of(command: Command) -> ToolGrant:
    """Return the permissions of agents from this command line. Raises `UsageError`."""
    from resolver.adapters.mcp import ToolGrant, limit_body

    _check_given(command)
    policy = replace(policy_of(command), name="untrusted")
    return ToolGrant(
        policy=policy,
        limits=limit_body(limits_of(command)),
        options=options_of(command, policy, keep=True),
        gateways=command.gateways,
        proxy=command.proxy,
        cafile=command.cacert,
        family=command.family,
        news_server=command.news_server,
        rate=command.rate,
        strict=command.strict,
    )


def _check_given(command: Command) -> None:
    """Reject options that have no effect here. Raises `UsageError`.

    The user might rely on such an option. If the option holds a secret, an agent could send the secret to any
    host.
    """
    for row in rows():
        given = command.configuration.sources[row.name] == "the command line"
        if given and row.name == "policy" and command.policy == "untrusted":
            continue
        if given and "mcp" not in row.verbs.split():
            why = "; its policy is untrusted, and --allow-… overrides rules" if row.name == "policy" else ""
            raise UsageError(f"mcp does not take {row.long}{why}")


class _StdinReader:
    """The lines of standard input, read in a thread because it may be any kind of file.

    `fault` is the error that ended the input, if any.
    """

    def __init__(self, lines: Iterator[bytes]) -> None:
        self._lines = lines
        self._is_cut = False
        self.fault: LocalError | None = None

    def __aiter__(self) -> AsyncIterator[bytes | None]:
        return self

    async def __anext__(self) -> bytes | None:
        """Return the next line, or None for an overlong line; its rest is skipped."""
        while line := await self._read_next():
            # the last line may have no line end
            whole = line.endswith(b"\n") or len(line) < streams.MOST_LINE
            was_cut, self._is_cut = self._is_cut, not whole
            if not was_cut:
                return line if whole else None
        raise StopAsyncIteration

    async def _read_next(self) -> bytes:
        try:
            return await trio.to_thread.run_sync(next, self._lines, b"", abandon_on_cancel=True)
        except LocalError as error:
            self.fault = error
            return b""


class _McpServer:
    """A conversation with a client; a signal ends it, and so does a client that stops reading."""

    def __init__(self, serve: Serve) -> None:
        self._serve = serve
        self._status = 0
        self._scope = trio.CancelScope()

    async def run_supervised(self) -> int:
        incoming = _StdinReader(streams.input_lines())
        with trio.open_signal_receiver(*STATUS_BY_SIGNAL) as signals:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._stop_on, signals)
                with self._scope:
                    await self._serve(incoming, self._put)
                nursery.cancel_scope.cancel()
        if incoming.fault is not None:
            streams.complain(incoming.fault.message)
            return incoming.fault.exit_code
        return self._status

    async def _stop_on(self, signals: AsyncIterator[int]) -> None:
        async for number in signals:
            self._stop(STATUS_BY_SIGNAL[signal.Signals(number)])

    def _stop(self, status: int) -> None:
        self._status = status
        self._scope.cancel()

    async def _put(self, octets: bytes) -> None:
        try:
            await put(octets)
        except BrokenPipeError:
            self._stop(READER_GONE)
        except OutputFault as error:
            streams.complain(error.message)
            self._stop(error.exit_code)
