"""Shorter tracebacks: only the caller's frame, and the frame in which the error left the package.

Internal frames do not help the caller, because the error message describes the problem. The environment
variable `RESOLVE_TRACEBACK=full` keeps all frames, to debug this package.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import TracebackType
from typing import TypeVar

E = TypeVar("E", bound=BaseException)

_PACKAGES = frozenset({"protocols", "resolver"})


def trim_traceback(error: E) -> E:
    """Return the error without internal frames in it and in its causes, for a public function to raise."""
    if os.environ.get("RESOLVE_TRACEBACK") != "full":
        for chained in _chain(error):
            if _has_own_frame(chained.__traceback__):
                chained.__traceback__ = None
    return error


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the error, and the chained errors (cause or context) that a traceback of the error shows."""
    visited: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in visited:
        visited.add(id(current))
        yield current
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)


def _has_own_frame(trace: TracebackType | None) -> bool:
    while trace is not None:
        if str(trace.tb_frame.f_globals.get("__name__")).partition(".")[0] in _PACKAGES:
            return True
        trace = trace.tb_next
    return False
