"""A terminal for the command: a pseudo-terminal, and an emulated screen that shows its output."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import sys
import termios
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pyte
import trio
from pyte.screens import Char

from tests.begun import Begun, begin
from tests.hang import HANG

CHECKOUT = Path(__file__).parents[3]


class Screen(pyte.Screen):
    """A screen that, if it `folds`, wraps its lines when it becomes narrower.

    Most current terminals do this: the rest of a long line moves to the next row, and the cursor stays at its
    character. Other terminals truncate the line.
    """

    folds = False

    def resize(self, lines: int | None = None, columns: int | None = None) -> None:
        if not (self.folds and columns is not None and columns < self.columns):
            super().resize(lines, columns)
            return
        rows: list[list[Char]] = []
        above = 0
        for index in range(self.lines):
            line = self.buffer[index]
            cells = [line[column] for column in range(max(line, default=-1) + 1)]
            while cells and cells[-1].data == " ":
                cells.pop()
            above = len(rows) if index == self.cursor.y else above
            rows += [cells[start : start + columns] for start in range(0, max(1, len(cells)), columns)]
        while len(rows) > self.lines and not rows[-1]:
            rows.pop()
        count = max(0, len(rows) - self.lines)
        self.columns = columns
        self.buffer.clear()
        for index, cells in enumerate(rows[count:]):
            for column, cell in enumerate(cells):
                self.buffer[index][column] = cell
        self.cursor.y = max(0, above - count)


class Terminal:
    """A pseudo-terminal: `screen` is its display, `octets` are all bytes it received."""

    def __init__(self, columns: int, lines: int = 24, *, folds: bool = False) -> None:
        self.master, self.slave = pty.openpty()
        self.screen = Screen(columns, lines)
        self.screen.folds = folds
        self.octets = b""
        self._stream = pyte.ByteStream(self.screen)
        self._set_size()

    @property
    def settings(self) -> list[object]:
        """Return the current result of `tcgetattr`."""
        return termios.tcgetattr(self.slave)

    def type(self, octets: bytes) -> None:
        os.write(self.master, octets)

    @property
    def unread(self) -> int:
        """Return the number of typed bytes that no process has read."""
        answer = fcntl.ioctl(self.slave, termios.FIONREAD, b"\0\0\0\0")
        return int.from_bytes(answer, sys.byteorder)

    def resize(self, columns: int) -> None:
        """Resize the screen and notify the program, as a window manager does."""
        self.screen.resize(columns=columns)
        self._set_size()

    def _set_size(self) -> None:
        size = struct.pack("HHHH", self.screen.lines, self.screen.columns, 0, 0)
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, size)

    @property
    def rows(self) -> list[str]:
        """Return the rows of the screen that are not empty."""
        return [row.rstrip() for row in self.screen.display if row.strip()]

    async def until(self, is_shown: Callable[[list[str]], bool]) -> list[str]:
        """Read output until `seen` accepts the rows; return the rows."""
        while self._is_being_drawn or not is_shown(self.rows):
            await trio.lowlevel.wait_readable(self.master)
            self._read()
        return self.rows

    @property
    def _is_being_drawn(self) -> bool:
        """Return whether only a part of the latest drawing has arrived."""
        begun = self.octets.rfind(b"\x1b[?7l")
        return begun >= 0 and not re.search(rb"\x1b\[\?7h\x1b\[([0-9]+F|G)", self.octets[begun:])

    async def watch(self) -> None:
        """Read all output: a terminal that is not read blocks the writer."""
        await self.until(lambda rows: False)

    def catch_up(self) -> None:
        """Read the remaining output of a writer that has ended."""
        os.write(self.slave, b"\0")
        while not self.octets.endswith(b"\0"):
            self._read()

    def _read(self) -> None:
        octets = os.read(self.master, 65_536)
        self.octets += octets
        self._stream.feed(octets)


class Command:
    """A run of the command on a terminal."""

    def __init__(self, process: Begun, terminal: Terminal) -> None:
        self.process = process
        self.terminal = terminal

    async def status(self) -> int:
        """Return the exit status after the command has ended and the screen shows all output."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.terminal.watch)
            status = await self.process.wait()
            nursery.cancel_scope.cancel()
        self.terminal.catch_up()
        return status


@asynccontextmanager
async def on_terminal(
    terminal: Terminal,
    folder: Path,
    *arguments: str,
    stdout: int | None = None,
    variables: Mapping[str, str] | None = None,
    typed: bool = False,
    ignored: Collection[int] = (),
) -> AsyncIterator[Command]:
    """Start `resolve` in `folder` with a terminal as standard error, and kill it on exit.

    Standard output is the terminal unless `stdout` is given. Standard input is the terminal if `typed`,
    otherwise /dev/null. The process starts with the signals `ignored`.
    """
    inherited = {
        name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "LINES")
    }
    environment = {**inherited, "TERM": "xterm-256color", "PYTHONPATH": str(CHECKOUT), **(variables or {})}
    slave = terminal.slave
    with trio.fail_after(HANG), open(os.devnull, "rb") as nothing:  # noqa: ASYNC230
        streams = (slave if typed else nothing.fileno(), slave if stdout is None else stdout, slave)
        process = begin(arguments, folder=folder, environment=environment, streams=streams, ignored=ignored)
        try:
            yield Command(process, terminal)
        finally:
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()
            process.close()
            os.close(terminal.master)
            os.close(terminal.slave)


#: Bytes that the command may send to a terminal: text, line ends, colors, and the sequences that draw the
#: progress below the text.
_HARMLESS = re.compile(rb"[^\0-\x08\x0b\x0c\x0e-\x1f\x7f]|\x1b\[[0-9;]*m|\x1b\[(\?7[lh]|[GJK]|[0-9]+F)")


def unsafe_bytes(octets: bytes) -> bytes:
    """Return the bytes that the command must not send to a terminal."""
    return _HARMLESS.sub(b"", octets.rstrip(b"\0"))
