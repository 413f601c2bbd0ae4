"""The terminal that a person sits at while a session has it: how it is set, what is typed, what is shown.

The settings that it had are put back by `leave`, whatever ends the session. The shell shares the flags of
standard input and output, so the terminal is opened anew: what never waits is that descriptor alone, and a
terminal that is stopped keeps nobody from being cancelled.
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

from trio.lowlevel import wait_readable, wait_writable

from protocols.errors import LocalError
from resolver.cli import streams as below

#: What stops the session for the prompt: `^]`.
ESCAPE = b"\x1d"

_READ_AT_ONCE = 4_096  # what a terminal holds of what is typed

# Indexes of what `tcgetattr` gives.
_IN, _OUT, _CONTROL, _LOCAL, _CHARACTERS = 0, 1, 2, 3, 6


class HungUp(Exception):
    """The terminal is gone."""


class Mode(NamedTuple):
    """Is each character sent as it is typed, and is it shown by the terminal itself? `folds`: the terminal
    makes line ends of line feeds, which nobody else does."""

    by_characters: bool
    echo: bool
    folds: bool = False


class Console:
    """A context manager: nothing is set on entering, and all is put back on leaving."""

    def __init__(self) -> None:
        self._input = self._output = -1
        self._mode: Mode | None = None
        self._is_set = False
        self._edited = 0
        self.by_lines = True

    def __enter__(self) -> Console:
        try:
            self._input = _reopen_terminal(sys.stdin.fileno(), os.O_RDONLY)
            self._output = _reopen_terminal(sys.stdout.fileno(), os.O_WRONLY)
            self._first = termios.tcgetattr(self._input)
        except (OSError, termios.error) as error:
            self._close()
            raise LocalError(f"the terminal cannot be used: {error}") from error
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.leave()
        finally:
            self._close()

    def _close(self) -> None:
        for fd in (self._input, self._output):
            if fd >= 0:
                os.close(fd)

    @property
    def utf8(self) -> bool:
        """Does it show UTF-8?"""
        return sys.stdout.encoding.lower().replace("-", "") == "utf8"

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows; 0 where the terminal was told none."""
        try:
            columns, rows = os.get_terminal_size(self._output)
        except OSError:
            return (0, 0)
        return (columns, rows)

    def sit(self, mode: Mode) -> None:
        """Set the terminal as the session has it, once what was written is out."""
        if self._is_set and mode == self._mode:
            return
        self._mode, self._is_set = mode, True
        below.ends_lines(not mode.by_characters or mode.folds)
        settings = _by_characters(self._first, mode) if mode.by_characters else _by_lines(self._first, mode)
        self._set(termios.TCSADRAIN, settings)
        self._edited = self._waiting if mode.by_characters else 0

    @property
    def _waiting(self) -> int:
        """Octets that were typed and not read."""
        try:
            count = fcntl.ioctl(self._input, termios.FIONREAD, bytes(4))
        except OSError as error:
            raise HungUp from error
        return int.from_bytes(count, sys.byteorder)

    def leave(self, *, flush: bool = False) -> None:
        """Put back what was set before; `flush`: what is typed and not read must not reach the shell."""
        if not self._is_set:
            return
        self._is_set = False
        below.ends_lines(True)
        before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # also from the background
        try:
            with suppress(HungUp):
                self._set(termios.TCSAFLUSH if flush else termios.TCSADRAIN, self._first)
        finally:
            signal.signal(signal.SIGTTOU, before)

    def sit_again(self) -> None:
        """The process goes on after a stop: others may have set the terminal meanwhile."""
        if self._is_set and self._mode is not None:
            self._is_set = False
            self.sit(self._mode)

    @contextmanager
    def restore_terminal(self) -> Iterator[None]:
        """The person has the terminal as it was before; how it is then is how it is put back in the end."""
        was_set = self._is_set
        self.leave()
        yield
        with suppress(termios.error):
            self._first = termios.tcgetattr(self._input)
        if was_set and self._mode is not None:
            self.sit(self._mode)

    def _set(self, when: int, settings: list[Any]) -> None:
        try:
            termios.tcsetattr(self._input, when, settings)
        except termios.error as error:
            raise HungUp from error

    async def read(self) -> bytes:
        """What was typed; empty for the end of input that a person gives by `^D`, where lines are edited.
        `by_lines` tells of it whether they were: also of what was typed before that changed. Raises
        `HungUp`."""
        while True:
            await wait_readable(self._input)
            try:
                typed = os.read(self._input, self._edited or _READ_AT_ONCE)
                if not typed:
                    termios.tcgetattr(self._input)  # a terminal that is gone gives nothing either
            except BlockingIOError:
                continue
            except (OSError, termios.error) as error:
                raise HungUp from error
            self.by_lines = self._edited > 0 or self._mode is None or not self._mode.by_characters
            self._edited = max(0, self._edited - len(typed))
            return typed

    async def write(self, octets: bytes) -> None:
        """Raises `HungUp`."""
        left = memoryview(octets)
        while left:
            try:
                left = left[os.write(self._output, left) :]
            except BlockingIOError:
                await wait_writable(self._output)
            except OSError as error:
                raise HungUp from error

    def write_at_once(self, octets: bytes) -> None:
        """As much as the terminal takes now."""
        with suppress(OSError):
            os.write(self._output, octets)


def _reopen_terminal(fd: int, way: int) -> int:
    """That terminal. Its own name may be another person's, by whom the shell was begun; the name of the
    terminal of this session is everybody's."""
    try:
        os.tcgetpgrp(fd)
        name = "/dev/tty"
    except OSError:
        name = os.ttyname(fd)
    return os.open(name, way | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)


def _copy_settings(settings: list[Any]) -> list[Any]:
    return [*settings[:_CHARACTERS], list(settings[_CHARACTERS])]


def _by_characters(first: list[Any], mode: Mode) -> list[Any]:
    """All that is typed is data, and all that is shown has come so."""
    settings = _copy_settings(first)
    settings[_IN] &= ~(termios.IXON | termios.ICRNL | termios.INLCR | termios.IGNCR | termios.ISTRIP)
    settings[_OUT] &= ~termios.OPOST
    if mode.folds:
        settings[_OUT] |= termios.OPOST | termios.ONLCR
    settings[_CONTROL] = settings[_CONTROL] & ~(termios.CSIZE | termios.PARENB) | termios.CS8
    settings[_LOCAL] &= ~(termios.ICANON | termios.ECHO | termios.ISIG | termios.IEXTEN)
    if mode.echo:
        settings[_LOCAL] |= termios.ECHO
    settings[_CHARACTERS][termios.VMIN] = 1
    settings[_CHARACTERS][termios.VTIME] = 0
    return settings


def _by_lines(first: list[Any], mode: Mode) -> list[Any]:
    """The terminal edits a line; a read returns at the escape character, too."""
    settings = _copy_settings(first)
    settings[_IN] = settings[_IN] & ~(termios.INLCR | termios.IGNCR) | termios.ICRNL
    settings[_OUT] |= termios.OPOST | termios.ONLCR
    settings[_LOCAL] = settings[_LOCAL] & ~termios.ECHO | termios.ICANON | termios.ISIG
    if mode.echo:
        settings[_LOCAL] |= termios.ECHO
    settings[_CHARACTERS][termios.VEOL] = ESCAPE
    return settings
