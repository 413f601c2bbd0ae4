"""The command `mcp`: a server of the Model Context Protocol, with tools for AI agents.

The server runs until the client closes standard input. Only messages of the protocol are written to standard
output. With `--listen`, the server uses HTTP and runs until a signal arrives. The policy is `untrusted`. Only
options on the command line of `mcp` override its rules. Logins of the user are never used.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import trio

from protocols.errors import LocalError, missing_libraries
from protocols.text import Masked
from resolver.cli import streams
from resolver.cli.arguments import Command
from resolver.cli.output import print_bytes
from resolver.cli.session_settings import make_limits, make_options, make_policy
from resolver.cli.streams import OutputFault
from resolver.cli.vocabulary import MISSING_EXTRA, READER_GONE, STATUS_BY_SIGNAL
from resolver.version import VERSION

if TYPE_CHECKING:
    from resolver.adapters.mcp import ToolGrant

#: A function that serves one client until the client disconnects. The arguments are the lines from the client
#: and a function that sends bytes to the client.
Serve: TypeAlias = Callable[
    [AsyncIterator[bytes | None], Callable[[bytes], Awaitable[None]]], Awaitable[None]
]


def perform(command: Command) -> int:
    """Serve one MCP client and return the exit status."""
    try:
        from resolver.adapters.mcp import serve
    except ModuleNotFoundError:
        streams.complain(Masked(f"mcp needs {missing_libraries('mcp')}"))
        return MISSING_EXTRA
    if command.listen is not None:
        return _perform_http(command, command.listen)
    serving = _McpServer(partial(serve, make_grant(command), version=VERSION))
    if streams.input_is_terminal():  # without this message, a user at a terminal would see no output
        streams.complain(Masked("mcp: waiting for an MCP client on standard input (Ctrl-D ends it)"))
    return trio.run(serving.run_supervised)


def _perform_http(command: Command, address: str) -> int:
    """Serve MCP clients over HTTP until a signal arrives, and return the exit status. Raises `LocalError`."""
    try:
        import resolver.web.server  # noqa: F401
    except ModuleNotFoundError:
        streams.complain(Masked(f"mcp --listen needs {missing_libraries('web')}"))
        return MISSING_EXTRA
    return trio.run(_serve_http, make_grant(command), address, command.port)


async def _serve_http(grant: ToolGrant, address: str, port: int) -> int:
    from resolver.adapters.mcp import http_application
    from resolver.web.server import run_program_server

    application = http_application(grant, version=VERSION)
    fault: Exception | None = None
    with trio.open_signal_receiver(*STATUS_BY_SIGNAL) as signals:
        async with run_program_server(application, address, port, streams.log) as running:
            try:
                streams.print_line(f"{running.origin}/mcp")
                streams.print_line(f"Authorization: Bearer {running.token}")
                streams.flush()
            except (BrokenPipeError, OutputFault) as error:
                fault = error  # raised below, outside the server's exception group
            else:
                async for number in signals:
                    return STATUS_BY_SIGNAL[number]
    if fault is not None:
        raise fault
    return 0


def make_grant(command: Command) -> ToolGrant:
    """Return the permissions for agents that this command line grants. Raises `UsageError`."""
    from resolver.adapters.mcp import ToolGrant, limit_body

    policy = replace(make_policy(command), name="untrusted")
    return ToolGrant(
        policy=policy,
        limits=limit_body(make_limits(command)),
        options=make_options(command, policy, keep=True),
        gateways=command.gateways,
        proxy=command.proxy,
        cafile=command.cacert,
        family=command.family,
        news_server=command.news_server,
        rate=command.rate,
        strict=command.strict,
    )


async def _read_lines(lines: Iterator[bytes], faults: list[LocalError]) -> AsyncGenerator[bytes | None, None]:
    """Yield the lines of standard input, and None for each line that is longer than `streams.MAX_LINE`.

    A thread reads the lines, because standard input may be a file of any type. An error that ends the input
    is appended to `faults`.
    """
    was_cut = False
    try:
        while line := await trio.to_thread.run_sync(next, lines, b"", abandon_on_cancel=True):
            # Only the last line of the input may lack a line end. Any other line without a line end is the
            # start of a line that is too long.
            is_cut = not line.endswith(b"\n") and len(line) >= streams.MAX_LINE
            if not was_cut:
                yield None if is_cut else line
            was_cut = is_cut
    except LocalError as error:
        faults.append(error)


class _McpServer:
    """An MCP session with one client; the session ends at a signal, or if the client stops reading."""

    def __init__(self, serve: Serve) -> None:
        self._serve = serve
        self._status = 0
        self._scope = trio.CancelScope()

    async def run_supervised(self) -> int:
        faults: list[LocalError] = []
        with trio.open_signal_receiver(*STATUS_BY_SIGNAL) as signals:
            reading = aclosing(_read_lines(streams.input_lines(), faults))
            async with reading as incoming, trio.open_nursery() as nursery:
                nursery.start_soon(self._stop_on, signals)
                with self._scope:
                    await self._serve(incoming, self._send)
                nursery.cancel_scope.cancel()
        if faults:
            raise faults[0]
        return self._status

    async def _stop_on(self, signals: AsyncIterator[int]) -> None:
        async for number in signals:
            self._stop(STATUS_BY_SIGNAL[number])

    def _stop(self, status: int) -> None:
        self._status = status
        self._scope.cancel()

    async def _send(self, octets: bytes) -> None:
        try:
            await print_bytes(octets)
        except BrokenPipeError:
            self._stop(READER_GONE)
        except OutputFault as error:
            streams.complain(error.message)
            self._stop(error.exit_code)
