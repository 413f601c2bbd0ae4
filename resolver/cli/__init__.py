"""The command `resolve`: arguments in, bodies and records out, one exit status.

`arguments` reads the command line, `vocabulary` names the function of each verb; `streams` owns standard
input, output and error, `messages` words what goes wrong. Nothing here imports trio or httpx until a verb
needs them.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from importlib import import_module

from protocols.errors import ResolveError
from resolver.cli import streams
from resolver.cli.vocabulary import INTERRUPTED, READER_GONE, USAGE, VERBS
from resolver.version import VERSION


def run() -> None:
    """Run the `resolve` script."""
    # Imports make 100,000 objects that stay: each search for cycles would go through them. With all three
    # steps on gc `parse` takes 68 ms of CPU and `cat` of a small file 195, without them 76 and 224.
    gc.disable()
    status = main(sys.argv[1:])
    gc.freeze()
    streams.leave(status)


def main(argv: list[str]) -> int:
    """Run one command line; the exit status."""
    try:
        return _run_and_flush(argv)
    except BrokenPipeError:
        return READER_GONE
    except KeyboardInterrupt:
        streams.abandon_output()
        return INTERRUPTED


def _run_and_flush(argv: list[str]) -> int:
    """The exit status once all is out, also what came before an error."""
    try:
        status = _perform(argv)
    except ResolveError as error:
        streams.complain(error.message)
        status = error.exit_code
    try:
        streams.flush()
    except ResolveError as error:
        streams.complain(error.message)
        status = error.exit_code
    return status


def _perform(argv: list[str]) -> int:
    if argv in (["--version"], ["-V"]):  # 20 ms of CPU, and 60 with the imports below
        return _tell_version()
    from resolver.cli import arguments, help
    from resolver.cli.values import UsageError

    if not argv:
        streams.complain(*help.orientation())
        return USAGE
    try:
        command = arguments.read(argv)
        if command is None:
            return _tell_version()
        (verb,) = (verb for verb in VERBS if verb.name == command.verb)
        module, _, function = verb.perform.partition(":")
        perform: Callable[[arguments.Command], int] = getattr(
            import_module(f"resolver.cli.{module}"), function
        )
        if verb.online and not gc.isenabled():  # by `run`: what was imported stays, and is not searched
            gc.freeze()
            gc.enable()
        return perform(command)
    except UsageError as error:
        streams.complain(str(error))
        return USAGE


def _tell_version() -> int:
    streams.print_line(f"resolve {VERSION}")
    return 0
