"""Tracebacks of our errors: the caller, and the frame where the error left the package.

The way that it took inside says nothing to whoever called: what went wrong is in the message. With
`RESOLVE_TRACEBACK=full` in the environment every frame is there, for those who look for a mistake of ours.
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
    """The same error, to be raised where it leaves the package: it has none of the frames behind, and neither
    has what led to it, in so far as that happened here."""
    if os.environ.get("RESOLVE_TRACEBACK") != "full":
        for each in _chain(error):
            if _was_here(each.__traceback__):
                each.__traceback__ = None
    return error


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error, and all that a traceback would show before it."""
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
