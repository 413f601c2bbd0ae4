"""The command's own streams: standard input, output and error, the list file, the trace file.

No other module of the command touches them. Text on standard error is always escaped; text on standard output
only where that is a terminal (rule S15).
"""

from __future__ import annotations

import os
import select
import stat
import sys
import termios
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, NoReturn

from protocols.errors import LocalError
from resolver.terminal.text import escape_line

if TYPE_CHECKING:
    from protocols.location import JsonValue


# Writing to given descriptors: with a wait for the reader, and without one.


class OutputFault(LocalError):
    """Standard output takes no more, so nothing that follows could be shown either."""


@contextmanager
def output_faults() -> Iterator[None]:
    """What keeps standard output from taking more: `BrokenPipeError`, or `OutputFault`."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputFault(f"cannot write to standard output: {error.strerror or error}") from error


def write_all(fd: int, octets: bytes | memoryview) -> None:
    """Wait for as long as it takes; also where somebody made it a descriptor that does not wait."""
    left = memoryview(octets)
    while left:
        try:
            left = left[os.write(fd, left) :]
        except BlockingIOError:
            _wait(fd)


def _wait(fd: int) -> None:
    waiting = select.poll()
    waiting.register(fd, select.POLLOUT)
    waiting.poll()


def write_some(fd: int, octets: memoryview) -> memoryview:
    """To a descriptor that `open_ready` opened, as far as it takes them now: what is left."""
    with suppress(BlockingIOError):
        while octets:
            octets = octets[os.write(fd, octets) :]
    return octets


def open_ready(fd: int) -> int | None:
    """What this descriptor writes to, by one of our own that makes nobody wait; None where there is none.

    A regular file and /dev/null have no reader. A pipe is opened anew: set on the descriptor that we were
    given, `O_NONBLOCK` would hold for everybody who has it.
    """
    found = os.fstat(fd)
    if stat.S_ISREG(found.st_mode) or found.st_rdev == os.stat(os.devnull).st_rdev:
        return os.dup(fd)
    if not stat.S_ISFIFO(found.st_mode):
        return None
    try:
        return os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:  # another user's, or without a reader, or no such names here
        return None


# Standard error, and a few lines below all messages that are drawn again and again.
#
# These lines leave no trace. The cursor rests where the first of them begins: a terminal that is made
# narrower folds them, and only there they begin all the same. A message is written in their place, and they
# are drawn again below.

_FIRST = "\x1b[G"  # the first column
_ERASE = f"{_FIRST}\x1b[J"  # from where the cursor rests to the end of the screen
_NO_FOLD, _FOLD = "\x1b[?7l", "\x1b[?7h"  # a terminal may take a name for wider than it is

_drawn = ""  # what stands there now
_held_back = 0  # how many want nothing there
_returns = False  # does a line feed need a carriage return, for the terminal gives it none?


def print_above(text: str) -> None:
    """Whole lines to standard error. Nothing is raised when nobody reads them."""
    _write(f"{_ERASE}{text}{_drawn}" if _drawn else text)


def draw(lines: Sequence[str]) -> None:
    """Show these lines in place of those that stand there; none: take them away. Each is narrower than the
    terminal and drives no more of it than its colours."""
    global _drawn
    if _held_back or not (lines or _drawn):
        return
    back = f"\x1b[{len(lines) - 1}F" if len(lines) > 1 else _FIRST
    text = "\n".join(f"{_FIRST}{line}\x1b[K" for line in lines)
    _drawn = f"{_NO_FOLD}{text}\x1b[J{_FOLD}{back}" if lines else ""
    _write(_drawn or _ERASE)


def clear() -> None:
    draw(())


def ends_lines(does: bool) -> None:
    """Does the terminal make the end of a line of a line feed? While a session has it, often not."""
    global _returns
    _returns = not does


@contextmanager
def hide_lines() -> Iterator[None]:
    """The terminal is somebody else's meanwhile: nothing stands there, and nothing is drawn."""
    global _held_back
    clear()
    _held_back += 1
    try:
        yield
    finally:
        _held_back -= 1


def is_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def size() -> tuple[int, int]:
    """Columns and rows of the terminal, as they are now."""
    try:
        columns, rows = os.get_terminal_size(sys.stderr.fileno())
    except OSError:
        columns = rows = 0
    return columns or 80, rows or 24  # one that was never told its size says 0


def encoding() -> str:
    return sys.stderr.encoding


def _write(text: str) -> None:
    if sys.stderr is None:  # as Python has it where the descriptor was closed
        return
    try:
        sys.stderr.write(text.replace("\n", f"{_FIRST}\n") if _returns and is_terminal() else text)
        sys.stderr.flush()
    except OSError:
        pass  # there is nobody left to tell


#: Octets of a line of standard input or of a list: a URL of 65,536 characters, each of them a JSON escape.
MOST_LINE = 1_048_576

_MOST_TEXT = 67_108_864  # what a body may have that is collected in memory: /dev/zero never ends

_READ_AT_ONCE = 65_536

_MOST_TYPED = 4_096  # what a terminal holds of a line

_MOST_HELD = 8_192  # as much as Python's own buffer has

_PAGE = 100  # columns of a page of text where nobody says otherwise

_held = bytearray()  # meant for standard output, and not yet there


def complain(*lines: str) -> None:
    """One message to standard error. Nothing is raised when nobody reads it."""
    print_above("resolve: " + "\n".join(map(escape_line, lines)) + "\n")


def note(line: str) -> None:
    """A line of the dialogue to standard error, without the program's name."""
    print_above(escape_line(line) + "\n")


def say(text: str) -> None:
    """Text of a stranger that is escaped already, to standard error."""
    print_above(text)


def note_record(record: dict[str, JsonValue]) -> None:
    """A JSON object as one line of standard error, where standard output is a body's."""
    print_above(json_line(record))


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
    """Octets to standard output as they are; a pipe or a file gets many at a time. `BrokenPipeError` when its
    reader has gone."""
    output_descriptor()
    _held.extend(octets)
    if len(_held) >= _MOST_HELD or _at_once():
        flush()


def _at_once() -> bool:
    """Does somebody watch, or want it so (PYTHONUNBUFFERED)?"""
    return output_is_terminal() or getattr(sys.stdout, "write_through", False)


def behind_all(octets: bytes) -> bytes:
    """Octets behind those that are held, for whoever writes them now."""
    octets = bytes(_held) + octets if _held else octets
    _held.clear()
    return octets


def flush() -> None:
    """Push out what is held."""
    if _held:
        octets = bytes(_held)
        _held.clear()
        _push(octets)


def leave(status: int) -> NoReturn:
    """End the process, once all is written."""
    _leave(status)


def leave_by(way: Callable[[int], NoReturn]) -> None:
    """Set the function that ends the process, given the exit status."""
    global _leave
    _leave = way


_leave: Callable[[int], NoReturn] = sys.exit


def abandon_output() -> None:
    """Nobody reads standard output, so nobody gets what is held."""
    _held.clear()


def _push(octets: bytes) -> None:
    # Not through a buffer of Python's: a thread that waits for a reader keeps its lock, and the program
    # that leaves the thread behind could not end.
    fd = output_descriptor()
    if output_is_terminal():
        clear()
    with output_faults():
        write_all(fd, octets)


def output_descriptor() -> int:
    """Raises `OutputFault` where it is closed."""
    if sys.stdout is None:
        raise OutputFault("cannot write to standard output: it is closed")
    return sys.stdout.fileno()


def output_is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def input_is_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


def output_is_file() -> bool:
    """Is it a file on a disk, and no reader whose screen might be this one?"""
    return sys.stdout is not None and stat.S_ISREG(os.fstat(sys.stdout.fileno()).st_mode)


def output_encoding() -> str | None:
    return None if sys.stdout is None else sys.stdout.encoding


def output_columns() -> int:
    """How wide the terminal is that shows standard output; elsewhere a page has 100 columns."""
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or _PAGE
    except (AttributeError, OSError, ValueError):
        return _PAGE


def read_list(name: str) -> Iterator[bytes]:
    """The octets of a list file (`-` is standard input), as they come."""
    with _reading(name, "the list ") as fd:
        yield from _pieces(fd)


def list_lines(name: str, pieces: Iterable[bytes]) -> Iterator[str]:
    """The lines of a list, each without its one line end."""
    for line in _lines(pieces):
        if len(line) == MOST_LINE:
            raise LocalError(f"{name}: a line is longer than {MOST_LINE} octets")
        yield line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8", "surrogateescape")


def is_file(name: str) -> bool:
    """Can this list be read once more?"""
    try:
        return name != "-" and stat.S_ISREG(os.stat(name).st_mode)
    except (OSError, ValueError):
        return False


class ListFile:
    """A list to be written at the end of a run, which may be the one that the run reads. It is opened before
    anything else is done: what cannot be written is told then. Raises `LocalError`."""

    def __init__(self, name: str) -> None:
        self._name = name
        try:
            self._fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise self._fault(error) from error

    def write(self, lines: Iterable[str]) -> LocalError | None:
        """All of it, in place of what was there. What kept it from being written, if anything did."""
        text = "".join(lines).encode("utf-8", "surrogateescape")
        try:
            if stat.S_ISREG(os.fstat(self._fd).st_mode):
                os.ftruncate(self._fd, 0)
            with open(self._fd, "wb") as file:
                file.write(text)
        except OSError as error:
            return self._fault(error)
        return None

    def _fault(self, error: OSError) -> LocalError:
        return LocalError(f"cannot write the list {self._name!r}: {error.strerror}")


def input_lines() -> Iterator[bytes]:
    """The lines of standard input as they come; one longer than `MOST_LINE` in pieces."""
    with _reading("-", "") as fd:
        yield from _lines(_pieces(fd))


def read_first_line(name: str, most: int) -> bytes:
    """The first line without its line end, at most `most` octets of it. Not an octet behind it is taken:
    what follows on standard input is another reader's."""
    line = b""
    with _reading(name, "") as fd:
        while len(line) < most and not line.endswith(b"\n") and (octet := os.read(fd, 1)):
            line += octet
    return line.removesuffix(b"\n").removesuffix(b"\r")


def read_file(name: str, most: int) -> bytes:
    """A file of the person's, of at most `most` octets. Raises `LocalError`."""
    with _reading(name, "") as fd, open(fd, "rb", closefd=False) as file:
        octets = file.read(most + 1)
    if len(octets) > most:
        raise LocalError(f"{name}: a file of more than {most} octets")
    return octets


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


def _pieces(fd: int) -> Iterator[bytes]:
    while octets := os.read(fd, _READ_AT_ONCE):
        yield octets


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Lines with their line ends, cut at `MOST_LINE` octets; the last one may have none."""
    held = bytearray()
    for octets in pieces:
        searched = len(held)
        held += octets
        while (end := held.find(b"\n", searched, MOST_LINE) + 1) or len(held) >= MOST_LINE:
            yield bytes(held[: end or MOST_LINE])
            del held[: end or MOST_LINE]
            searched = 0
    if held:
        yield bytes(held)


async def request_secret(prompt: str) -> bytes | None:
    """A line typed at the terminal without being shown; None for none, and where there is no terminal."""
    return await request_line(prompt, hidden=True) or None


async def request_line(prompt: str, *, hidden: bool = False) -> bytes | None:
    """A line typed at the terminal, without its end; None where there is none, and for an end of input. No
    bar is drawn meanwhile. What is `hidden` is not shown; the terminal is as it was, however this ends."""
    from trio.lowlevel import wait_readable

    terminal = _terminal()
    if terminal is None:
        return None
    try:
        with hide_lines(), _silence(terminal) if hidden else nullcontext():
            os.write(terminal, escape_line(prompt).encode())
            await wait_readable(terminal)  # a terminal gives a whole line at once
            typed = os.read(terminal, _MOST_TYPED)
    finally:
        os.close(terminal)
    return typed.removesuffix(b"\n") if typed else None


@contextmanager
def _silence(terminal: int) -> Iterator[None]:
    before = termios.tcgetattr(terminal)
    try:
        silent = [*before[:3], before[3] & ~termios.ECHO, *before[4:]]
        termios.tcsetattr(terminal, termios.TCSAFLUSH, silent)
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSAFLUSH, before)
        os.write(terminal, b"\n")


async def ask(question: str) -> bool:
    """Does the person at the terminal say yes? Nothing else is one, and no terminal says none."""
    typed = await request_line(f"{question} [y/N] ")
    return typed is not None and typed.strip().lower() in (b"y", b"yes")


def has_terminal() -> bool:
    """Is there one at which a person could be asked?"""
    terminal = _terminal()
    if terminal is not None:
        os.close(terminal)
    return terminal is not None


def _terminal() -> int | None:
    try:
        return os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return None


class TraceWriter:
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

    def line(self, text: str, said: str | None) -> None:
        """A line for the file, and what a person gets of it."""
        shown = escape_line(text)
        if self._aloud and said is not None:
            note(said)
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
