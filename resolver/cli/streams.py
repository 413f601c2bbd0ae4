"""The command's own streams: standard input, output and error, the list file, the trace file.

This is the one module of the command that touches them. What goes to standard error is always
escaped; what goes to standard output only where that is a terminal (rule S15).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

from protocols.errors import LocalError
from protocols.location import JsonValue
from resolver.terminal import escape

_MOST_LINE = 1_048_576  # a line of a list: a URL of 65,536 characters, every one of them a JSON escape

_MOST_TYPED = 4_096  # what a terminal holds of a line


def complain(message: str) -> None:
    """One message to standard error. Nothing is raised when nobody reads it."""
    lines = [escape(line) for line in message.split("\n")]
    _to_stderr("resolve: " + "\n".join(lines) + "\n")


def note(line: str) -> None:
    """A line of the dialogue to standard error, without the program's name."""
    _to_stderr(escape(line) + "\n")


def note_record(record: dict[str, JsonValue]) -> None:
    """A JSON object as one line of standard error, where standard output is a body's."""
    _to_stderr(json_line(record))


def _to_stderr(text: str) -> None:
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        pass  # there is nobody left to tell


def print_line(text: str) -> None:
    """A line of ours to standard output; names in it come from strangers, so a terminal gets them escaped."""
    line = escape(text) if output_is_terminal() else text
    write_output(f"{line}\n".encode("utf-8", "surrogateescape"))


def print_record(record: dict[str, JsonValue]) -> None:
    """A JSON object as one line of standard output. ASCII only, so nothing in it drives a terminal."""
    write_output(json_line(record).encode("ascii"))


def json_line(record: dict[str, JsonValue]) -> str:
    import json  # for those who ask for it

    return json.dumps(record, ensure_ascii=True, separators=(", ", ": ")) + "\n"


def write_output(octets: bytes) -> None:
    """Octets to standard output as they are. `BrokenPipeError` when its reader has gone."""
    try:
        sys.stdout.buffer.write(octets)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise LocalError(f"cannot write to standard output: {error.strerror}") from error


def write_through(octets: bytes) -> None:
    """Write and push out: for bodies, whose reader may be slow (call it in a worker thread)."""
    write_output(octets)
    flush()


def flush() -> None:
    """Push out what is buffered."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        abandon_output()
        raise LocalError(f"cannot write to standard output: {error.strerror}") from error


def abandon_output() -> None:
    """Nobody reads standard output any more: keep the interpreter from saying so at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def output_is_terminal() -> bool:
    return sys.stdout.isatty()


def read_list(name: str) -> Iterator[str]:
    """The lines of a list file (`-` is standard input), each without its one line end."""
    try:
        with sys.stdin.buffer if name == "-" else open(name, "rb") as source:
            while line := source.readline(_MOST_LINE):
                if len(line) == _MOST_LINE:
                    raise LocalError(f"{name}: a line is longer than {_MOST_LINE} octets")
                yield line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8", "surrogateescape")
    except OSError as error:
        raise LocalError(f"cannot read the list {name}: {error.strerror}") from error


def read_text(name: str) -> str:
    """A whole text, for `extract`; any octets that are no UTF-8 stay distinguishable."""
    try:
        with sys.stdin.buffer if name == "-" else open(name, "rb") as source:
            return source.read().decode("utf-8", "surrogateescape")
    except OSError as error:
        raise LocalError(f"cannot read {name}: {error.strerror}") from error


async def ask_secret(prompt: str) -> bytes | None:
    """A line typed at the terminal without being shown; None where there is no terminal.

    The terminal is as it was before, however this ends.
    """
    import termios

    from trio.lowlevel import wait_readable

    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        before = termios.tcgetattr(terminal)
        silent = [*before[:3], before[3] & ~termios.ECHO, *before[4:]]
        os.write(terminal, escape(prompt).encode())
        try:
            termios.tcsetattr(terminal, termios.TCSAFLUSH, silent)
            await wait_readable(terminal)  # a terminal gives a whole line at once
            typed = os.read(terminal, _MOST_TYPED)
        finally:
            termios.tcsetattr(terminal, termios.TCSAFLUSH, before)
            os.write(terminal, b"\n")
    finally:
        os.close(terminal)
    return typed.removesuffix(b"\n") or None


class Trace:
    """The dialogue, written as it happens: to a file, or to standard error for `-v`."""

    def __init__(self, path: str | None, aloud: bool) -> None:
        self._aloud = aloud
        try:
            self._file = None if path is None else open(path, "w", encoding="ascii")  # noqa: SIM115
        except OSError as error:
            raise LocalError(f"cannot write the trace {path}: {error.strerror}") from error

    def line(self, text: str) -> None:
        shown = escape(text)
        if self._aloud:
            note(shown)
        if self._file is not None:
            self._file.write(shown.encode("ascii", "backslashreplace").decode("ascii") + "\n")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
