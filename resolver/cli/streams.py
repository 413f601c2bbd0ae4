"""The standard streams of the command, its list files, and its trace file.

No other module of the command reads or writes these streams. Text on standard error is always escaped. Text
on standard output is escaped only if standard output is a terminal (rule S15).
"""

from __future__ import annotations

import os
import select
import stat
import sys
import termios
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress

from protocols.errors import LocalError
from resolver.terminal.text import escape_line

TYPE_CHECKING = False  # type checkers assume True; without the import of `typing`, the program starts faster

if TYPE_CHECKING:
    from typing import NoReturn

    from protocols.location import JsonValue
    from protocols.text import Masked


# Blocking and nonblocking writes to a file descriptor.


class OutputFault(LocalError):
    """A write error of standard output; every later write would fail, too."""


@contextmanager
def output_faults() -> Iterator[None]:
    """Convert each `OSError` of standard output, except `BrokenPipeError`, to `OutputFault`."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputFault(f"cannot write to standard output: {error.strerror or error}") from error


def write_all(fd: int, octets: bytes | memoryview) -> None:
    """Write all bytes to a descriptor and block until they are written.

    The function also blocks if another process has set the descriptor to nonblocking.
    """
    rest = memoryview(octets)
    while rest:
        try:
            rest = rest[os.write(fd, rest) :]
        except BlockingIOError:
            waiting = select.poll()
            waiting.register(fd, select.POLLOUT)
            waiting.poll()


def write_some(fd: int, octets: memoryview) -> memoryview:
    """Write as many bytes as a nonblocking descriptor accepts and return the remaining bytes."""
    with suppress(BlockingIOError):
        while octets:
            octets = octets[os.write(fd, octets) :]
    return octets


def open_nonblocking(fd: int) -> int | None:
    """Return a new nonblocking descriptor for the file of `fd`, or None if this is not possible.

    For a regular file or /dev/null, the descriptor is duplicated: writes to these files do not block. A pipe
    is opened again. Otherwise `O_NONBLOCK` on `fd` would affect all processes that share `fd`.
    """
    status = os.fstat(fd)
    if stat.S_ISREG(status.st_mode) or status.st_rdev == os.stat(os.devnull).st_rdev:
        return os.dup(fd)
    if not stat.S_ISFIFO(status.st_mode):
        return None
    try:
        return os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:  # the pipe belongs to another user or has no reader, or /proc is missing
        return None


# Messages on standard error, and the progress lines below them. The progress lines are redrawn after each
# message.
#
# The progress lines are erased at the end of the run. Between writes, the cursor is at the start of the first
# progress line. Therefore the cursor position is still correct if the terminal becomes narrower and progress
# lines wrap. A message overwrites the progress lines. The progress lines are then drawn again, below the
# message.

_FIRST = "\x1b[G"  # moves the cursor to the first column
_ERASE = f"{_FIRST}\x1b[J"  # erases from the current line to the end of the screen
# Control sequences that disable and enable line wrapping (DECAWM). A terminal may show a name wider than the
# calculated width.
_NO_WRAP, _WRAP = "\x1b[?7l", "\x1b[?7h"

_drawn = ""  # the progress lines on the screen, with their control sequences
_hide_depth = 0  # nesting level of `hide_lines`
_needs_return = False  # whether to write CR LF, because the terminal driver does not convert LF to CR LF


def print_above(text: str) -> None:
    """Write complete lines to standard error, if it is open, above the progress lines."""
    _write(f"{_ERASE}{text}{_drawn}" if _drawn else text)


def draw(lines: Sequence[str]) -> None:
    """Replace the progress lines; with empty `lines`, remove them.

    Each line must be narrower than the terminal. A line may contain the control sequences of colors, but no
    others.
    """
    global _drawn
    if _hide_depth or not (lines or _drawn):
        return
    back = f"\x1b[{len(lines) - 1}F" if len(lines) > 1 else _FIRST
    text = "\n".join(f"{_FIRST}{line}\x1b[K" for line in lines)
    _drawn = f"{_NO_WRAP}{text}\x1b[J{_WRAP}{back}" if lines else ""
    _write(_drawn or _ERASE)


def clear() -> None:
    draw(())


def set_newline_conversion(is_on: bool) -> None:
    """Set whether the terminal driver converts LF to CR LF; a telnet session may disable the conversion."""
    global _needs_return
    _needs_return = not is_on


@contextmanager
def hide_lines() -> Iterator[None]:
    """Hide the progress lines during the block, in which other output uses the terminal."""
    global _hide_depth
    clear()
    _hide_depth += 1
    try:
        yield
    finally:
        _hide_depth -= 1


def is_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def accepts_line() -> bool:
    """Return whether standard error accepts 4,096 bytes without a wait for its reader (pipe(7), PIPE_BUF)."""
    waiting = select.poll()
    if sys.stderr is not None:
        waiting.register(sys.stderr.fileno(), select.POLLOUT)
    return bool(waiting.poll(0))


def size() -> tuple[int, int]:
    """Return the current columns and rows of the terminal on standard error."""
    try:
        columns, rows = os.get_terminal_size(sys.stderr.fileno())
    except OSError:
        columns = rows = 0
    return columns or 80, rows or 24  # a terminal of unknown size reports 0 columns and 0 rows


def encoding() -> str:
    return sys.stderr.encoding


def _write(text: str) -> None:
    if sys.stderr is None:  # standard error was closed when Python started
        return
    try:
        sys.stderr.write(text.replace("\n", f"{_FIRST}\n") if _needs_return and is_terminal() else text)
        sys.stderr.flush()
    except OSError:
        pass  # standard error is closed, so the error cannot be reported


#: Maximum bytes of a line of standard input or of a list. A line may have a URL of 65,536 JSON escapes.
MAX_LINE = 1_048_576

_MAX_TEXT = 67_108_864  # maximum bytes of a text in memory, because /dev/zero never ends

_READ_SIZE = 65_536

_MAX_TYPED = 4_096  # maximum bytes of a typed line, as in the terminal driver

_BUFFER_SIZE = 8_192  # maximum buffered bytes of standard output, as in Python's own buffer

_DEFAULT_COLUMNS = 100  # columns of text if standard output is not a terminal

_buffer = bytearray()  # buffered bytes for standard output


def complain(*lines: Masked) -> None:
    """Write one message to standard error, or discard the message if standard error is closed."""
    print_above("resolve: " + "\n".join(map(escape_line, lines)) + "\n")


def log(line: Masked) -> None:
    """Write a message of a server to standard error, or discard the message while its reader is slow."""
    if accepts_line():
        complain(line)


def note(line: Masked) -> None:
    """Write a line to standard error, without the program's name."""
    print_above(escape_line(line) + "\n")


def note_record(record: dict[str, JsonValue]) -> None:
    """Write a JSON object as one line to standard error, because standard output contains a body."""
    print_above(json_line(record))


def print_line(text: str, *, raw: bool = False) -> None:
    """Write a line to standard output; see `line_octets`."""
    write_output(line_octets(text, raw=raw))


def line_octets(text: str, *, raw: bool = False) -> bytes:
    """Encode a text as exactly one line of standard output.

    Line ends in the text are escaped. On a terminal, other control characters are also escaped (S15), except
    if `raw` is true.
    """
    if output_is_terminal() and not raw:
        line = escape_line(text)
    else:
        line = text.replace("\r", "\\x0d").replace("\n", "\\x0a")
    return f"{line}\n".encode("utf-8", "surrogateescape")


def print_text(text: str) -> None:
    """Write trusted text to standard output."""
    write_output(text.encode())


def print_record(record: dict[str, JsonValue]) -> None:
    """Write a JSON object as one line of printable ASCII to standard output."""
    write_output(record_octets(record))


def record_octets(record: dict[str, JsonValue]) -> bytes:
    return json_line(record).encode("ascii")


def json_line(record: dict[str, JsonValue]) -> str:
    import json  # lazy import: few runs need it

    return json.dumps(record, ensure_ascii=True, separators=(", ", ": ")) + "\n"


def write_output(octets: bytes) -> None:
    """Write bytes to standard output, with a buffer unless it is a terminal. Raises `BrokenPipeError`."""
    output_descriptor()
    _buffer.extend(octets)
    # PYTHONUNBUFFERED sets `write_through`.
    if len(_buffer) >= _BUFFER_SIZE or output_is_terminal() or getattr(sys.stdout, "write_through", False):
        flush()


def take_buffered(octets: bytes) -> bytes:
    """Clear the buffer, and return its bytes followed by `octets`, which the caller writes."""
    octets = bytes(_buffer) + octets if _buffer else octets
    _buffer.clear()
    return octets


def flush() -> None:
    """Write the buffered bytes to standard output."""
    if _buffer:
        octets = bytes(_buffer)
        _buffer.clear()
        _push(octets)


def exit_process(status: int) -> NoReturn:
    """End the process with an exit status; call this function after all output is written."""
    try:
        if sys.stderr is not None:
            sys.stderr.flush()
    except OSError:  # Python kept the text of an earlier write error, which `print_above` ignored
        with suppress(OSError):
            sys.stderr.close()  # otherwise Python would flush again, and change the exit status to 120
    _exit(status)


def set_exit(function: Callable[[int], NoReturn]) -> None:
    """Set the function that ends the process; its argument is the exit status."""
    global _exit
    _exit = function


_exit: Callable[[int], NoReturn] = sys.exit


def discard_output() -> None:
    """Discard the buffered bytes, because the reader of standard output closed the pipe."""
    _buffer.clear()


def _push(octets: bytes) -> None:
    # Python's buffer is bypassed. A thread that waits for a slow reader would hold the lock of this buffer. A
    # process that abandons such a thread would wait for the lock at exit and never end.
    fd = output_descriptor()
    if output_is_terminal():
        clear()
    with output_faults():
        write_all(fd, octets)


def output_descriptor() -> int:
    """Return the descriptor of standard output. Raises `OutputFault` if it is closed."""
    if sys.stdout is None:
        raise OutputFault("cannot write to standard output: it is closed")
    return sys.stdout.fileno()


def output_is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def input_is_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


def output_is_file(path: bytes | None = None) -> bool:
    """Return whether standard output is a regular file, and with `path`, the file at this path."""
    status = None if sys.stdout is None else os.fstat(sys.stdout.fileno())
    if status is None or not stat.S_ISREG(status.st_mode):
        return False
    if path is None:
        return True
    with suppress(OSError, ValueError):  # the file does not exist, or the name has a NUL
        return os.path.samestat(status, os.stat(path))
    return False


def output_encoding() -> str | None:
    return None if sys.stdout is None else sys.stdout.encoding


def can_encode(text: str, encoding: str | None) -> bool:
    """Return whether a stream with this encoding can show a text."""
    with suppress(UnicodeEncodeError, LookupError):
        text.encode(encoding or "ascii")
        return True
    return False


def output_columns() -> int:
    """Return the columns of the terminal on standard output, or 100 without a terminal."""
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or _DEFAULT_COLUMNS
    except (AttributeError, OSError, ValueError):
        return _DEFAULT_COLUMNS


def read_list(name: str) -> Iterator[bytes]:
    """Yield the bytes of a list file as they arrive; the name `-` is standard input."""
    with _open_input(name, "the list ") as fd:
        yield from _pieces(fd)


def list_lines(name: str, pieces: Iterable[bytes], end: bytes) -> Iterator[str]:
    """Yield the lines of a list without line ends, or its items if `end` is NUL."""
    for line in _lines(pieces, end):
        if len(line) == MAX_LINE:
            raise LocalError(f"{name}: line too long (more than {MAX_LINE} bytes)")
        item = line.removesuffix(end)
        yield (item.removesuffix(b"\r") if end == b"\n" else item).decode("utf-8", "surrogateescape")


def is_file(name: str) -> bool:
    """Return whether a list is a regular file, which can be read again."""
    try:
        return name != "-" and stat.S_ISREG(os.stat(name).st_mode)
    except (OSError, ValueError):
        return False


class ListFile:
    """A list file that is written at the end of a run.

    The run may read its own URLs from the same file. The file is opened at the start of the run, so that
    errors are reported early. Raises `LocalError`.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        try:
            self._fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise self._fault(error) from error

    def has_name(self, name: str) -> bool:
        """Return whether the name is a name of this file."""
        with suppress(OSError):
            return os.path.samestat(os.fstat(self._fd), os.stat(name))
        return False

    def write(self, lines: Iterable[str]) -> LocalError | None:
        """Replace the content of the file and return the error, or None."""
        text = "".join(lines).encode("utf-8", "surrogateescape")
        try:
            with open(self._fd, "wb") as file:
                file.write(text)
                if stat.S_ISREG(os.fstat(self._fd).st_mode):
                    file.truncate()  # last, so that a full disk or SIGKILL does not lose the earlier content
        except OSError as error:
            return self._fault(error)
        return None

    def _fault(self, error: OSError) -> LocalError:
        return LocalError(f"cannot write the list {self._name!r}: {error.strerror}")


def input_lines() -> Iterator[bytes]:
    """Yield the lines of standard input; a line longer than `MAX_LINE` is split."""
    with _open_input("-", "") as fd:
        yield from _lines(_pieces(fd))


def read_first_line(name: str, max_size: int) -> bytes:
    """Return the first line, at most `max_size` bytes, without its line end.

    Bytes after the first line are not read, because another reader of standard input may need them.
    """
    line = b""
    with _open_input(name, "") as fd:
        while len(line) < max_size and not line.endswith(b"\n") and (octet := os.read(fd, 1)):
            line += octet
    return line.removesuffix(b"\n").removesuffix(b"\r")


def read_file(name: str, max_size: int) -> bytes:
    """Return the content of a user's file of at most `max_size` bytes. Raises `LocalError`."""
    with _open_input(name, "") as fd, open(fd, "rb", closefd=False) as file:
        octets = file.read(max_size + 1)
    if len(octets) > max_size:
        raise LocalError(f"{name}: file too large (more than {max_size} bytes)")
    return octets


def read_text(name: str) -> str:
    """Return the complete text for `extract`; bytes that are not valid UTF-8 become surrogates."""
    text = bytearray()
    with _open_input(name, "") as fd:
        while octets := os.read(fd, _READ_SIZE):
            text += octets
            if len(text) > _MAX_TEXT:
                raise LocalError(f"{name}: text too large (more than {_MAX_TEXT} bytes); split it")
    return text.decode("utf-8", "surrogateescape")


@contextmanager
def _open_input(name: str, label: str) -> Iterator[int]:
    """Yield the descriptor of a file to read.

    Standard input is not closed, because the command line may name `-` twice. Python's buffered reader is not
    used, because that reader would read ahead. A thread that waits for a line would also hold the lock of the
    reader, even while the process ends.
    """
    try:
        if name != "-":
            fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
            try:
                yield fd
            finally:
                os.close(fd)
        elif sys.stdin is None:
            raise LocalError(f"cannot read {label}-: standard input is closed")
        else:
            yield sys.stdin.fileno()
    except OSError as error:
        raise LocalError(f"cannot read {label}{name!r}: {error.strerror}") from error


def _pieces(fd: int) -> Iterator[bytes]:
    while octets := os.read(fd, _READ_SIZE):
        yield octets


def _lines(pieces: Iterable[bytes], ending: bytes = b"\n") -> Iterator[bytes]:
    """Yield lines with their line ends, if any; a line longer than `MAX_LINE` bytes is split."""
    buffer = bytearray()
    for octets in pieces:
        searched = len(buffer)
        buffer += octets
        while (end := buffer.find(ending, searched, MAX_LINE) + 1) or len(buffer) >= MAX_LINE:
            yield bytes(buffer[: end or MAX_LINE])
            del buffer[: end or MAX_LINE]
            searched = 0
    if buffer:
        yield bytes(buffer)


async def request_secret(prompt: str) -> bytes | None:
    """Read a line from the terminal without echo; return None if it is empty, or without a terminal."""
    return await request_line(prompt, hidden=True) or None


async def request_line(prompt: str, *, hidden: bool = False) -> bytes | None:
    """Read a line from the terminal without its line end.

    Returns None at the end of input or without a terminal. Progress bars are hidden while the user types.
    With `hidden`, the terminal does not echo. The terminal settings are always restored.
    """
    from trio.lowlevel import wait_readable

    terminal = _terminal()
    if terminal is None:
        return None
    try:
        with hide_lines(), _disable_echo(terminal) if hidden else nullcontext():
            os.write(terminal, escape_line(prompt).encode())
            await wait_readable(terminal)  # in line mode, a terminal is readable after a complete line
            typed = os.read(terminal, _MAX_TYPED)
    except (OSError, termios.error):  # the terminal was closed, and SIGHUP is ignored (nohup)
        return None
    finally:
        os.close(terminal)
    return typed.removesuffix(b"\n") if typed else None


@contextmanager
def _disable_echo(terminal: int) -> Iterator[None]:
    import signal  # lazy import: few runs ask for a secret, and the module imports enum

    before = termios.tcgetattr(terminal)
    silent = [*before[:3], before[3] & ~termios.ECHO, *before[4:]]

    def restore_echo(number: int, _: object) -> None:
        with suppress(termios.error):
            termios.tcsetattr(terminal, termios.TCSANOW, before)
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)  # after SIGTSTP and SIGCONT, the process continues here
        signal.signal(number, restore_echo)
        with suppress(termios.error):
            termios.tcsetattr(terminal, termios.TCSAFLUSH, silent)

    # Their default actions end or stop the process without the `finally` below, so that the shell would get a
    # terminal without echo.
    numbers = (signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP)
    handled = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]
    try:
        for number in handled:
            signal.signal(number, restore_echo)
        termios.tcsetattr(terminal, termios.TCSAFLUSH, silent)
        yield
    finally:
        for number in handled:
            signal.signal(number, signal.SIG_DFL)
        termios.tcsetattr(terminal, termios.TCSAFLUSH, before)
        os.write(terminal, b"\n")


async def ask(question: str) -> bool:
    """Ask the user a yes-or-no question, and return whether the answer was yes; False without a terminal."""
    typed = await request_line(f"{question} [y/N] ")
    return typed is not None and typed.strip().lower() in (b"y", b"yes")


def can_ask() -> bool:
    """Return whether questions to the user are possible: input and messages use a terminal."""
    return input_is_terminal() and is_terminal() and has_terminal()


def has_terminal() -> bool:
    """Return whether a terminal is available to ask the user."""
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
    """A writer for the protocol trace. It writes to a file, or with `-v` to standard error.

    A write error of the file does not stop the run; `close` returns the error.
    """

    def __init__(self, path: str | None, is_verbose: bool) -> None:
        self._path = path
        self._is_verbose = is_verbose
        self._error: OSError | None = None
        try:
            self._file = None if path is None else open(path, "w", encoding="ascii")  # noqa: SIM115
        except OSError as error:
            raise self._fault(error) from error

    def line(self, text: Masked, message: Masked | None) -> None:
        """Write `text` to the trace file, and `message` to standard error."""
        shown = escape_line(text)
        if self._is_verbose and message is not None:
            note(message)
        if self._file is not None and self._error is None:
            try:
                self._file.write(shown.encode("ascii", "backslashreplace").decode("ascii") + "\n")
            except OSError as error:
                self._error = error

    def close(self) -> LocalError | None:
        """Close the trace file and return its first error, or None."""
        if self._file is not None:
            try:
                self._file.close()
            except OSError as error:
                self._error = self._error or error
        return None if self._error is None else self._fault(self._error)

    def _fault(self, error: OSError) -> LocalError:
        return LocalError(f"cannot write the trace {self._path!r}: {error.strerror}")
