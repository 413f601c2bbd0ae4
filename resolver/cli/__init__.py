"""The command `resolve`: arguments in, bodies and records out, one exit status.

`arguments` reads the command line, `offline` runs the verbs that need no network, `online` the
others; `streams` owns standard input, output and error, `messages` words what goes wrong. Nothing
here imports trio or httpx until a verb needs them.
"""

from __future__ import annotations

import gc
import sys

from protocols.errors import LocalError

TYPE_CHECKING = False  # as in typing, whose import is most of the cost of a bare start
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from resolver.cli.arguments import Command

USAGE = 2
INTERRUPTED = 130
READER_GONE = 141

_leave: Callable[[int], NoReturn] = sys.exit


def run() -> None:
    """The entry point of the `resolve` script."""
    gc.disable()  # what needs no network is done before a search for cycles would pay: 2 ms for a plan
    status = main(sys.argv[1:])
    gc.freeze()  # Python would search all that is left for cycles before it ends: 6 ms for a plan
    _leave(status)


def leave_by(way: Callable[[int], NoReturn]) -> None:
    """What ends the process, given the status, once all was said and written."""
    global _leave
    _leave = way


def main(argv: list[str]) -> int:
    """Run one command line; the exit status."""
    from resolver.cli import streams

    try:
        return _flushed(argv)
    except BrokenPipeError:
        return READER_GONE
    except KeyboardInterrupt:
        streams.abandon_output()
        return INTERRUPTED


def _flushed(argv: list[str]) -> int:
    """The exit status once all is out, also what came before an error."""
    from resolver.cli import streams

    try:
        status = _perform(argv)
    except LocalError as error:
        streams.complain(error.message)
        status = error.exit_code
    try:
        streams.flush()
    except LocalError as error:
        streams.complain(error.message)
        status = error.exit_code
    return status


def _perform(argv: list[str]) -> int:
    from resolver.cli import streams

    if argv in (["--version"], ["-V"]):
        return _tell_version()
    if not argv:
        from resolver.cli import help

        streams.complain(*help.orientation())
        return USAGE
    from resolver.cli import arguments
    from resolver.cli.values import UsageError

    try:
        command = arguments.read(argv)
        return _tell_version() if command is None else _dispatch(command)
    except UsageError as error:
        streams.complain(str(error))
        return USAGE


def _tell_version() -> int:
    from resolver.cli import streams
    from resolver.version import VERSION

    streams.print_line(f"resolve {VERSION}")
    return 0


def _dispatch(command: Command) -> int:
    from resolver.cli.arguments import ONLINE

    if command.verb == "help":
        from resolver.cli import help, streams

        streams.print_text(help.page(command.urls, streams.output_columns()))
        return 0
    if command.verb not in ONLINE:
        from resolver.cli import offline

        return offline.perform(command)
    if command.verb == "mcp":
        from resolver.cli import mcp as agents  # brings the SDK

        perform = agents.perform
    elif command.verb == "bulk":
        from resolver.cli import bulk  # brings a cluster

        perform = bulk.perform
    elif command.verb == "serve":
        from resolver.cli import serve as serving  # brings a server

        perform = serving.perform
    else:
        from resolver.cli import online  # brings trio

        perform = online.perform
    if not gc.isenabled():  # by `run`; in a process of others what they dropped would stay for ever
        gc.freeze()  # what was imported stays, and no search for cycles looks through it
        gc.enable()
    return perform(command)
