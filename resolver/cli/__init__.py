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
    from resolver.cli.arguments import Command

USAGE = 2
INTERRUPTED = 130
READER_GONE = 141


def run() -> None:
    """The entry point of the `resolve` script."""
    gc.disable()  # what needs no network is done before a search for cycles would pay: 2 ms for a plan
    status = main(sys.argv[1:])
    gc.freeze()  # Python would search all that is left for cycles before it ends: 6 ms for a plan
    sys.exit(status)


def main(argv: list[str]) -> int:
    """Run one command line; the exit status."""
    from resolver.cli import streams

    try:
        status = _perform(argv)
        streams.flush()
        return status
    except LocalError as error:
        streams.complain(error.message)
        return error.exit_code
    except BrokenPipeError:
        streams.abandon_output()
        return READER_GONE
    except KeyboardInterrupt:
        return INTERRUPTED


def _perform(argv: list[str]) -> int:
    from resolver.cli import streams

    if argv == ["--version"]:
        from resolver.version import VERSION

        streams.print_line(f"resolve {VERSION}")
        return 0
    from resolver.cli import arguments

    try:
        command = arguments.read(argv)
        return 0 if command is None else _dispatch(command)
    except arguments.UsageError as error:
        streams.complain(str(error))
        return USAGE


def _dispatch(command: Command) -> int:
    from resolver.cli.arguments import OFFLINE

    if command.verb in OFFLINE:
        from resolver.cli import offline

        return offline.perform(command)
    gc.enable()
    from resolver.cli import online  # brings trio

    return online.perform(command)
