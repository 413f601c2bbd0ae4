"""The command `resolve`: arguments in, bodies and records out, one exit status.

`arguments` reads the command line, `offline` runs the verbs that need no network, `online` the
others; `streams` owns standard input, output and error, `messages` words what goes wrong. Nothing
here imports trio or httpx until a verb needs them.
"""

from __future__ import annotations

import sys

USAGE = 2
INTERRUPTED = 130
READER_GONE = 141


def run() -> None:
    """The entry point of the `resolve` script."""
    sys.exit(main(sys.argv[1:]))


def main(argv: list[str]) -> int:
    """Run one command line; the exit status."""
    from resolver.cli import arguments, streams

    try:
        command = arguments.read(argv)
    except arguments.UsageError as error:
        streams.complain(str(error))
        return USAGE
    if command is None:
        return 0
    try:
        status = _dispatch(command)
        streams.flush()
        return status
    except BrokenPipeError:
        streams.abandon_output()
        return READER_GONE
    except KeyboardInterrupt:
        return INTERRUPTED


def _dispatch(command: object) -> int:
    from resolver.cli import arguments

    assert isinstance(command, arguments.Command)
    if command.verb in arguments.OFFLINE:
        from resolver.cli import offline

        return offline.perform(command)
    from resolver.cli import online

    return online.perform(command)
