"""The running event loop: trio, or asyncio (uvloop too).

Retrieval code uses a loop only through this package, and never imports trio or asyncio.

    loop = running()            once for a connection, a clock, a URL
    with loop.move_on_after(seconds) as scope: await event.wait()
    in_time = await loop.readable_by(socket, deadline)

In a program on asyncio, trio is never imported. In a program on trio, neither asyncio nor anyio is imported.
This package finds the loop among the modules that the program has already imported. Times, events and locks
belong to one run of a loop; a pooled connection never uses them in another run. The types in
`resolver.loops.loop` are all that this package requires of a loop.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from resolver.loops.loop import Background, CancelScope, Event, Loop, Nursery, Wait

__all__ = ["Background", "CancelScope", "Event", "Loop", "Nursery", "Wait", "is_cancel", "running"]

_NONE_RUNS = (
    "no task of trio or asyncio is running here: use asyncio.run(main()) or trio.run(main), "
    "or without a loop resolver.blocking"
)


#: The loops that have been found running, trio first. Each has a test whether the current task belongs to it.
_known: list[tuple[Callable[[], bool], Loop]] = []


def running() -> Loop:
    """Return the loop that runs the current task.

    trio is checked first: in guest mode it runs inside asyncio's loop. Raises `RuntimeError` outside a task
    of either loop.
    """
    for runs, loop in _known:
        if runs():
            return loop
    return _find_running()


def _find_running() -> Loop:
    if "trio" in sys.modules:
        from resolver.loops.on_trio import LOOP as TRIO
        from resolver.loops.on_trio import is_running as runs_trio

        if runs_trio():
            _known.insert(0, (runs_trio, TRIO))
            return TRIO
    if "asyncio" in sys.modules:
        from resolver.loops.on_asyncio import LOOP as ASYNCIO
        from resolver.loops.on_asyncio import is_running as runs_asyncio

        if runs_asyncio():
            _known.append((runs_asyncio, ASYNCIO))
            return ASYNCIO
    raise RuntimeError(_NONE_RUNS)


def is_cancel(kind: type[BaseException]) -> bool:
    """Return whether `kind` is the cancellation exception of a loop, even after the run has ended."""
    if "resolver.loops.on_trio" in sys.modules:
        from resolver.loops import on_trio

        if issubclass(kind, on_trio.LOOP.cancelled):
            return True
    if "resolver.loops.on_asyncio" in sys.modules:
        from resolver.loops import on_asyncio

        return issubclass(kind, on_asyncio.LOOP.cancelled)
    return False
