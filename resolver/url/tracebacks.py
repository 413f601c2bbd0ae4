"""Shorter tracebacks: only the caller's frame, and the frame in which the error left the package.

Internal frames do not help the caller, because the error message describes the problem. The environment
variable `RESOLVE_TRACEBACK=full` keeps all frames, to debug this package.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import TracebackType
from typing import TypeVar

from protocols.errors import ResolveError

E = TypeVar("E", bound=ResolveError)

_OURS = frozenset({"protocols", "resolver"})


def trim_traceback(error: E) -> E:
    """Return the error without internal frames, to be raised by a public function.

    Internal frames of the error's causes are removed too.
    """
    if os.environ.get("RESOLVE_TRACEBACK") != "full":
        for each in _chain(error):
            if _was_here(each.__traceback__):
                each.__traceback__ = None
    return error


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the error, and the chained errors (cause or context) that a traceback of the error shows."""
    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        yield found
        found = found.__cause__ or (None if found.__suppress_context__ else found.__context__)


def _was_here(trace: TracebackType | None) -> bool:
    while trace is not None:
        if str(trace.tb_frame.f_globals.get("__name__")).partition(".")[0] in _OURS:
            return True
        trace = trace.tb_next
    return False
