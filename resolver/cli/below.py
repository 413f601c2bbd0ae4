"""Standard error, and what stands below all that is said there: a few lines that are drawn again and again.

Nothing of these lines stays. The cursor rests where the first of them begins: a terminal that is made
narrower folds them, and there alone they begin all the same. What is said meanwhile goes in their place, and
they come again below it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

_FIRST = "\x1b[G"  # the first column
_ERASE = f"{_FIRST}\x1b[J"  # from where the cursor rests to the end of the screen
_NO_FOLD, _FOLD = "\x1b[?7l", "\x1b[?7h"  # a terminal may take a name for wider than it is

_drawn = ""  # what stands there now
_held_back = 0  # how many want nothing there
_returns = False  # does a line feed need a carriage return, for the terminal gives it none?


def say(text: str) -> None:
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
def nothing() -> Iterator[None]:
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
