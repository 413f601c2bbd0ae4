"""Ctrl-C and SIGTERM, for a verb whose work is done by threads and processes of a library.

A signal raises `KeyboardInterrupt` where the command is, and what was begun is closed on the way out. Python
leaves SIGINT alone where it begins with it ignored, as shells have it for the background of a script: here it
is heard. Nor is the rest certain. Python drops what is raised while it runs a finalizer or a callback of its
collector: then the signal is sent once more. And what closes may wait, as may the threads that Python joins
at its end: so a second signal ends the process at once, and a first one after `PATIENCE`, as it stands.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Thread, main_thread
from time import monotonic, sleep
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Literal

from resolver import cli
from resolver.cli import below

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

_STATUS_OF_SIGNAL = {signal.SIGINT: cli.INTERRUPTED, signal.SIGTERM: 143}

#: Seconds that closing may take. Dask gives a worker four to end, and five more once it was killed.
PATIENCE = 10.0

#: Seconds until a signal that was dropped is sent again: what dropped it is over by then.
_AGAIN = 0.05

#: Seconds for the last words, where somebody reads them.
_LAST = 1.0

_Word = Literal["first", "dropped", "second", "over"]


class Interrupts:
    """A context manager, for the main thread: once a signal has come, whatever error leaves it is that
    signal's; it is swallowed, and `tell` is told how the command ends. `status` is its exit status then."""

    def __init__(self, tell: Callable[[str], object]) -> None:
        self._tell = tell
        self._number: int | None = None
        self._comes_again = self._has_said = False
        self._words = SimpleQueue[_Word]()
        self._before: list[tuple[int, Any]] = []

    @property
    def status(self) -> int:
        assert self._number is not None, "a signal has come"
        return _STATUS_OF_SIGNAL[signal.Signals(self._number)]

    def __enter__(self) -> Interrupts:
        Thread(target=self._watch, name="Interrupts of resolve", daemon=True).start()
        self._hook = sys.unraisablehook
        sys.unraisablehook = self._hear_of_dropped
        for number in _STATUS_OF_SIGNAL:  # also where a shell has it ignored, as other verbs do
            self._before.append((number, signal.signal(number, self._hear)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        for number, before in self._before:
            signal.signal(number, before)
        sys.unraisablehook = self._hook
        is_ended = self._number is not None and error is not None
        if is_ended:
            cli.leave_by(os._exit)  # Python would wait for threads, and Dask close what is no more
            self._say()
        self._words.put("over")
        return is_ended

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self._number is None:
            self._number = number
            self._words.put("first")
        elif not self._comes_again:
            self._words.put("second")
            return
        self._comes_again = False
        raise KeyboardInterrupt

    def _hear_of_dropped(self, dropped: UnraisableHookArgs, /) -> None:
        if self._number is not None and isinstance(dropped.exc_value, KeyboardInterrupt):
            self._words.put("dropped")
        else:
            self._hook(dropped)

    def _watch(self) -> None:
        until: float | None = None
        while True:
            try:
                word = self._words.get(timeout=None if until is None else max(0.0, until - monotonic()))
            except Empty:
                word = "second"
            if word == "over":
                return
            if word == "first":
                until = monotonic() + PATIENCE
            elif word == "dropped":
                self._send_again()
            else:
                self._end()

    def _send_again(self) -> None:
        """Until it is heard: one that comes just before a wait does not end it."""
        self._comes_again = True
        while self._comes_again and self._words.empty():
            sleep(_AGAIN)
            signal.pthread_kill(main_thread().ident or 0, self._number or 0)

    def _end(self) -> None:
        """In a thread of its own the last words are said: who was to read them may have stopped to."""
        teller = Thread(target=self._say, daemon=True)
        teller.start()
        teller.join(_LAST)
        os._exit(self.status)

    def _say(self) -> None:
        if self._has_said:
            return
        self._has_said = True
        below.clear()
        self._tell("interrupted" if self.status == cli.INTERRUPTED else "terminated")
