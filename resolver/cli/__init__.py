"""The command-line program `resolve`.

- `arguments` parses the command line.
- `vocabulary` has the table of commands, with a function for each command.
- `streams` reads and writes the standard streams.
- `messages` formats error messages.

trio and httpx are imported only if a command needs them.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` would import `enum` for `--version`, too
import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module

from protocols.errors import ResolveError
from protocols.text import own_text
from resolver.cli import streams
from resolver.cli.vocabulary import INTERRUPTED, READER_GONE, USAGE, VERBS
from resolver.files.faults import exhaustion_fault
from resolver.version import VERSION


def run() -> None:
    """Run `resolve` with the arguments of the process, and end the process."""
    # Imports create 100,000 objects that stay in memory. Each garbage collection would examine all of them.
    # Without garbage collection, `parse` takes 68 ms of CPU time, and `cat` of a small file 195 ms. With
    # garbage collection, the times are 76 ms and 224 ms.
    gc.disable()
    status = main(sys.argv[1:])
    gc.freeze()
    streams.exit_process(status)


def main(argv: list[str]) -> int:
    """Run one command line and return its exit status."""
    try:
        return _run_and_flush(argv)
    except BrokenPipeError:
        return READER_GONE
    except KeyboardInterrupt:
        streams.discard_output()
        return INTERRUPTED


def _run_and_flush(argv: list[str]) -> int:
    """Run one command line, flush the output even after an error, and return the exit status."""
    try:
        status = _perform(argv)
    except ResolveError as error:
        streams.complain(error.message)
        status = error.exit_code
    except (OSError, MemoryError, RuntimeError, ModuleNotFoundError, BaseExceptionGroup) as error:
        if (fault := exhaustion_fault(error)) is None:
            raise
        streams.complain(fault.message)
        status = fault.exit_code
    try:
        streams.flush()
    except ResolveError as error:
        streams.complain(error.message)
        status = error.exit_code
    return status


def _perform(argv: list[str]) -> int:
    if argv in (["--version"], ["-V"]):  # `--version` takes 20 ms of CPU time; with all imports, 60 ms
        return _print_version()
    with _delayed_interrupt():
        from resolver.cli import arguments
        from resolver.cli.values import UsageError

    if not argv:
        from resolver.cli import help  # lazy import: few command lines need it

        streams.complain(*map(own_text, help.list_introduction()))
        return USAGE
    try:
        with _delayed_interrupt():
            command = arguments.read(argv)
            if command is None:
                return _print_version()
            (verb,) = (verb for verb in VERBS if verb.name == command.verb)
            module, _, function = verb.perform.partition(":")
            perform: Callable[[arguments.Command], int] = getattr(
                import_module(f"resolver.cli.{module}"), function
            )
        # `run` disabled garbage collection. After `gc.freeze`, the collector ignores the imported objects.
        # For a file of a long list, collections take 0.10 ms with the default of 700 new objects, and 5 µs
        # with 30,000, because fewer objects exist concurrently.
        if verb.online and not gc.isenabled():
            gc.freeze()
            gc.set_threshold(30_000)
            gc.enable()
        return perform(command)
    except BaseExceptionGroup as group:  # a nursery wraps the write errors of standard output
        if (faults := group.subgroup((streams.OutputFault, BrokenPipeError))) is None:
            raise
        from resolver.network.connecting import unwrap_group  # imported lazily: only servers need it

        raise unwrap_group(faults) from group
    except UsageError as error:
        streams.complain(own_text(str(error)))
        return USAGE


@contextmanager
def _delayed_interrupt() -> Iterator[None]:
    """Delay SIGINT until the end of a block of imports.

    The import system has callbacks of weak references, in which Python only reports a `KeyboardInterrupt`.
    Without the delay, 3 of 200 runs with an early Ctrl-C continued.
    """
    before = _signal.pthread_sigmask(_signal.SIG_BLOCK, {_signal.SIGINT})
    try:
        yield
    finally:
        _signal.pthread_sigmask(_signal.SIG_SETMASK, before)


def _print_version() -> int:
    streams.print_line(f"resolve {VERSION}")
    return 0
