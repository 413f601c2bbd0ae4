"""The command's own streams: standard input, output and error, the list file, the trace file.

This is the one module of the command that touches them. What goes to standard error is always
escaped; what goes to standard output only where that is a terminal (rule S15).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from protocols.errors import LocalError
from resolver.terminal import escape_line

TYPE_CHECKING = False  # as in typing, whose import is most of the cost of a bare start
if TYPE_CHECKING:
    from protocols.location import JsonValue

_MOST_LINE = 1_048_576  # a line of a list: a URL of 65,536 characters, every one of them a JSON escape

_MOST_TEXT = 67_108_864  # what a body may have that is collected in memory: /dev/zero never ends

_READ_AT_ONCE = 65_536

_MOST_TYPED = 4_096  # what a terminal holds of a line


class OutputFault(LocalError):
    """Standard output takes no more, so nothing that follows could be shown either."""


def complain(*lines: str) -> None:
    """One message to standard error. Nothing is raised when nobody reads it."""
    _to_stderr("resolve: " + "\n".join(map(escape_line, lines)) + "\n")


def note(line: str) -> None:
    """A line of the dialogue to standard error, without the program's name."""
    _to_stderr(escape_line(line) + "\n")


def note_record(record: dict[str, JsonValue]) -> None:
    """A JSON object as one line of standard error, where standard output is a body's."""
    _to_stderr(json_line(record))


def _to_stderr(text: str) -> None:
    if sys.stderr is None:  # as Python has it where the descriptor was closed
        return
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        pass  # there is nobody left to tell


def print_line(text: str, *, raw: bool = False) -> None:
    """A line of ours to standard output; see `line_octets`."""
    write_output(line_octets(text, raw=raw))


def line_octets(text: str, *, raw: bool = False) -> bytes:
    """A text as a line of standard output, and one line it is: line ends in it are shown. What else drives a
    terminal is shown on one; with `raw` the person wants it as it is (S15)."""
    if output_is_terminal() and not raw:
        line = escape_line(text)
    else:
        line = text.replace("\r", "\\x0d").replace("\n", "\\x0a")
    return f"{line}\n".encode("utf-8", "surrogateescape")


def lines_octets(octets: bytes, *, raw: bool = False) -> bytes:
    """Whole lines in UTF-8, each as `line_octets` has it."""
    if not output_is_terminal() or raw:
        return octets
    lines = octets.decode("utf-8", "surrogateescape").split("\n")[:-1]
    return b"".join(map(line_octets, lines))


def print_text(text: str) -> None:
    """A text of our own to standard output."""
    write_output(text.encode())


def print_record(record: dict[str, JsonValue]) -> None:
    """A JSON object as one line of standard output. ASCII only, so nothing in it drives a terminal."""
    write_output(record_octets(record))


def record_octets(record: dict[str, JsonValue]) -> bytes:
    return json_line(record).encode("ascii")


def json_line(record: dict[str, JsonValue]) -> str:
    import json  # for those who ask for it

    return json.dumps(record, ensure_ascii=True, separators=(", ", ": ")) + "\n"


def write_output(octets: bytes) -> None:
    """Octets to standard output as they are. `BrokenPipeError` when its reader has gone."""
    if sys.stdout is None:
        raise OutputFault("cannot write to standard output: it is closed")
    try:
        sys.stdout.buffer.write(octets)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputFault(f"cannot write to standard output: {error.strerror}") from error


def write_through(octets: bytes) -> None:
    """Write and push out: for bodies, whose reader may be slow (call it in a worker thread)."""
    write_output(octets)
    flush()


def flush() -> None:
    """Push out what is buffered."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        abandon_output()
        raise OutputFault(f"cannot write to standard output: {error.strerror}") from error


def abandon_output() -> None:
    """Nobody reads standard output any more: keep the interpreter from saying so at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def output_is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def read_list(name: str) -> Iterator[str]:
    """The lines of a list file (`-` is standard input), each without its one line end, as they come."""
    with _reading(name, "the list ") as fd:
        for line in _lines(fd):
            if len(line) == _MOST_LINE:
                raise LocalError(f"{name}: a line is longer than {_MOST_LINE} octets")
            yield line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8", "surrogateescape")


def read_first_line(name: str, most: int) -> bytes:
    """The first line without its line end, at most `most` octets of it. Not an octet behind it is taken:
    what follows on standard input is another reader's."""
    line = b""
    with _reading(name, "") as fd:
        while len(line) < most and not line.endswith(b"\n") and (octet := os.read(fd, 1)):
            line += octet
    return line.removesuffix(b"\n").removesuffix(b"\r")


def read_text(name: str) -> str:
    """A whole text, for `extract`; any octets that are no UTF-8 stay distinguishable."""
    text = bytearray()
    with _reading(name, "") as fd:
        while octets := os.read(fd, _READ_AT_ONCE):
            text += octets
            if len(text) > _MOST_TEXT:
                raise LocalError(f"{name}: a text of more than {_MOST_TEXT} octets; give it in parts")
    return text.decode("utf-8", "surrogateescape")


@contextmanager
def _reading(name: str, what: str) -> Iterator[int]:
    """The descriptor of a file to read. That of standard input stays open: it may be named twice. Nothing
    of Python's reads ahead there, nor holds a lock when the program ends while a thread waits for a line."""
    try:
        if name != "-":
            fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
            try:
                yield fd
            finally:
                os.close(fd)
        elif sys.stdin is None:
            raise LocalError(f"cannot read {what}-: standard input is closed")
        else:
            yield sys.stdin.fileno()
    except OSError as error:
        raise LocalError(f"cannot read {what}{name!r}: {error.strerror}") from error


def _lines(fd: int) -> Iterator[bytes]:
    """Lines with their line ends, cut at `_MOST_LINE` octets; the last one may have none."""
    held = bytearray()
    while octets := os.read(fd, _READ_AT_ONCE):
        searched = len(held)
        held += octets
        while (end := held.find(b"\n", searched, _MOST_LINE) + 1) or len(held) >= _MOST_LINE:
            yield bytes(held[: end or _MOST_LINE])
            del held[: end or _MOST_LINE]
            searched = 0
    if held:
        yield bytes(held)


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
        os.write(terminal, escape_line(prompt).encode())
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
    """The dialogue, written as it happens: to a file, or to standard error for `-v`.

    A file that takes no more stops nothing: `close` tells of it.
    """

    def __init__(self, path: str | None, aloud: bool) -> None:
        self._path = path
        self._aloud = aloud
        self._problem: OSError | None = None
        try:
            self._file = None if path is None else open(path, "w", encoding="ascii")  # noqa: SIM115
        except OSError as error:
            raise self._fault(error) from error

    def line(self, text: str) -> None:
        shown = escape_line(text)
        if self._aloud:
            note(shown)
        if self._file is not None and self._problem is None:
            try:
                self._file.write(shown.encode("ascii", "backslashreplace").decode("ascii") + "\n")
            except OSError as error:
                self._problem = error

    def close(self) -> LocalError | None:
        """What kept some of it from being written, if anything did."""
        if self._file is not None:
            try:
                self._file.close()
            except OSError as error:
                self._problem = self._problem or error
        return None if self._problem is None else self._fault(self._problem)

    def _fault(self, error: OSError) -> LocalError:
        return LocalError(f"cannot write the trace {self._path!r}: {error.strerror}")
