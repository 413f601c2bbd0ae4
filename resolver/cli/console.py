"""The terminal of an interactive session: its settings (termios), keyboard input and output.

`restore` restores the settings at every end of a session. The shell shares the file status flags of standard
input and output. The terminal is therefore opened again, and only the new descriptors are nonblocking. With a
blocking descriptor, a stopped terminal (Ctrl-S) would delay a cancellation.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import trio
from trio.lowlevel import wait_readable, wait_writable

from protocols.errors import LocalError
from resolver.cli import streams

#: The key that opens the prompt: `^]`.
ESCAPE = b"\x1d"

_READ_SIZE = 4_096  # maximum bytes of a read: the size of a terminal's input buffer

# Indexes of the result of `tcgetattr`.
_IN, _OUT, _CONTROL, _LOCAL, _CHARACTERS = 0, 1, 2, 3, 6


class TerminalHangup(Exception):
    """The terminal was closed (hangup)."""


class Mode(NamedTuple):
    """A terminal mode.

    Attributes:
        by_characters: whether each character is sent immediately, instead of complete lines.
        echo: whether the terminal driver echoes typed text.
        converts_lf: whether the terminal driver converts LF to CR LF.
    """

    by_characters: bool
    echo: bool
    converts_lf: bool = False


class Console:
    """A context manager that restores all terminal settings at its end, and changes none at its start."""

    def __init__(self) -> None:
        self._input = self._output = -1
        self._mode: Mode | None = None
        self._is_set = False
        self._is_restored = False
        self._writing = trio.Lock()
        self._edited_count = 0
        self.is_line_mode = True

    def __enter__(self) -> Console:
        try:
            self._input = _reopen_terminal(sys.stdin.fileno(), os.O_RDONLY)
            self._output = _reopen_terminal(sys.stdout.fileno(), os.O_WRONLY)
            self._original = termios.tcgetattr(self._input)
        except (OSError, termios.error) as error:
            self._close()
            raise LocalError(f"the terminal cannot be used: {error}") from error
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.restore()
        finally:
            self._close()

    def _close(self) -> None:
        for fd in (self._input, self._output):
            if fd >= 0:
                os.close(fd)

    @property
    def is_utf8(self) -> bool:
        """Return whether the charset of standard output is UTF-8."""
        return sys.stdout.encoding.lower().replace("-", "") == "utf8"

    @property
    def size(self) -> tuple[int, int]:
        """Return the number of columns and rows of the terminal; both are 0 if the size is unknown."""
        try:
            columns, rows = os.get_terminal_size(self._output)
        except OSError:
            return (0, 0)
        return (columns, rows)

    def set_mode(self, mode: Mode) -> None:
        """Set the terminal mode of the session after pending output is written.

        During `restore_terminal`, the mode is set at the end of the block.
        """
        if self._is_set and mode == self._mode:
            return
        self._mode = mode
        if self._is_restored:
            return
        self._is_set = True
        streams.set_newline_conversion(not mode.by_characters or mode.converts_lf)
        make_settings = _character_settings if mode.by_characters else _line_settings
        self._set(termios.TCSADRAIN, make_settings(self._original, mode))
        self._edited_count = self._buffered_count if mode.by_characters else 0

    @property
    def _buffered_count(self) -> int:
        """Return the number of bytes in the terminal's input buffer."""
        try:
            count = fcntl.ioctl(self._input, termios.FIONREAD, bytes(4))
        except OSError as error:
            raise TerminalHangup from error
        return int.from_bytes(count, sys.byteorder)

    def restore(self, *, flush: bool = False) -> None:
        """Restore the original settings.

        With `flush`, unread typed bytes are discarded, so that the shell does not read them.
        """
        if not self._is_set:
            return
        self._is_set = False
        streams.set_newline_conversion(True)
        handler = signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # this process may be in the background
        try:
            with suppress(TerminalHangup):
                self._set(termios.TCSAFLUSH if flush else termios.TCSADRAIN, self._original)
        finally:
            signal.signal(signal.SIGTTOU, handler)

    def reset_mode(self) -> None:
        """Set the terminal mode of the session again when a stopped process continues (SIGCONT).

        Another process, such as the shell, may have changed the settings.
        """
        if self._is_set and self._mode is not None:
            self._is_set = False
            self.set_mode(self._mode)

    @contextmanager
    def restore_terminal(self) -> Iterator[None]:
        """Restore the original settings during the block.

        If the settings change inside the block, `restore` restores the changed settings later.
        """
        was_set, was_restored = self._is_set, self._is_restored
        self.restore()
        self._is_restored = True
        yield
        self._is_restored = was_restored
        with suppress(termios.error):
            self._original = termios.tcgetattr(self._input)
        if was_set and self._mode is not None:
            self.set_mode(self._mode)

    def _set(self, action: int, settings: list[Any]) -> None:
        try:
            termios.tcsetattr(self._input, action, settings)
        except termios.error as error:
            raise TerminalHangup from error

    async def read(self) -> bytes:
        """Read typed bytes. Raises `TerminalHangup`.

        In line mode, the result is empty for `^D` (end of input). `is_line_mode` is set to True if the
        terminal driver edited the bytes in line mode. It can also be True in character mode, if the bytes
        were typed before the mode changed.
        """
        while True:
            await wait_readable(self._input)
            try:
                typed = os.read(self._input, self._edited_count or _READ_SIZE)
                if not typed:
                    # after the terminal was closed, a read also returns zero bytes, but tcgetattr fails
                    termios.tcgetattr(self._input)
            except BlockingIOError:
                continue
            except (OSError, termios.error) as error:
                raise TerminalHangup from error
            self.is_line_mode = self._edited_count > 0 or self._mode is None or not self._mode.by_characters
            self._edited_count = max(0, self._edited_count - len(typed))
            return typed

    async def write(self, octets: bytes) -> None:
        """Write all bytes to the terminal, without other writes between them. Raises `TerminalHangup`."""
        rest = memoryview(octets)
        async with self._writing:  # trio allows only one task to wait for a descriptor
            while rest:
                try:
                    rest = rest[os.write(self._output, rest) :]
                except BlockingIOError:
                    await wait_writable(self._output)
                except OSError as error:
                    raise TerminalHangup from error

    def write_some(self, octets: bytes) -> None:
        """Write as many bytes as the terminal accepts without blocking; discard the other bytes."""
        with suppress(OSError):
            os.write(self._output, octets)


def _reopen_terminal(fd: int, flags: int) -> int:
    """Open the terminal of a descriptor again.

    After `su`, the terminal device may belong to another user, but all users can open /dev/tty.
    """
    try:
        os.tcgetpgrp(fd)
        name = "/dev/tty"
    except OSError:
        name = os.ttyname(fd)
    return os.open(name, flags | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)


def _copy_settings(settings: list[Any]) -> list[Any]:
    return [*settings[:_CHARACTERS], list(settings[_CHARACTERS])]


def _character_settings(original: list[Any], mode: Mode) -> list[Any]:
    """Return the settings of character mode: typed bytes are data, and output is not changed."""
    settings = _copy_settings(original)
    settings[_IN] &= ~(termios.IXON | termios.ICRNL | termios.INLCR | termios.IGNCR | termios.ISTRIP)
    settings[_OUT] &= ~termios.OPOST
    if mode.converts_lf:
        settings[_OUT] |= termios.OPOST | termios.ONLCR
    settings[_CONTROL] = settings[_CONTROL] & ~(termios.CSIZE | termios.PARENB) | termios.CS8
    settings[_LOCAL] &= ~(termios.ICANON | termios.ECHO | termios.ISIG | termios.IEXTEN)
    if mode.echo:
        settings[_LOCAL] |= termios.ECHO
    settings[_CHARACTERS][termios.VMIN] = 1
    settings[_CHARACTERS][termios.VTIME] = 0
    return settings


def _line_settings(original: list[Any], mode: Mode) -> list[Any]:
    """Return the settings of line mode: the terminal driver edits lines.

    The escape character also ends a line (VEOL), so that it is read immediately.
    """
    settings = _copy_settings(original)
    settings[_IN] = settings[_IN] & ~(termios.INLCR | termios.IGNCR) | termios.ICRNL
    settings[_OUT] |= termios.OPOST | termios.ONLCR
    settings[_LOCAL] = settings[_LOCAL] & ~termios.ECHO | termios.ICANON | termios.ISIG
    if mode.echo:
        settings[_LOCAL] |= termios.ECHO
    settings[_CHARACTERS][termios.VEOL] = ESCAPE
    return settings
