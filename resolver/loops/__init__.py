"""An interface to the event loops of trio and asyncio (including uvloop), and to blocking calls.

Code that retrieves URLs uses the event loop only through this package, and never imports trio or asyncio.

    loop = running()            # once per connection, clock or URL
    with loop.move_on_after(seconds) as scope: await event.wait()
    in_time = await loop.readable_by(socket, deadline)

In an asyncio program, trio is never imported. In a trio program, neither asyncio nor anyio is imported. To
find the event loop, this package examines the modules that the program has already imported. Times, events
and locks are valid only for one run of a loop, so a pooled connection never uses them in another run. The
types in `resolver.loops.loop` define the interface of an event loop.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from resolver.loops.loop import Background, CancelScope, Event, Loop, Nursery, Wait

__all__ = ["Background", "CancelScope", "Event", "Loop", "Nursery", "Wait", "is_cancel", "prefer", "running"]

_NO_LOOP = (
    "no task of trio or asyncio is running here: use asyncio.run(main()) or trio.run(main), "
    "or without a loop resolver.blocking"
)


#: The event loops that were found, trio before asyncio. Each item is a pair of a function and a loop. The
#: function returns whether the loop runs the current task.
_loops: list[tuple[Callable[[], bool], Loop]] = []


def prefer(runs: Callable[[], bool], loop: Loop) -> None:
    """Check a loop before all others: blocking calls, which a task of trio or asyncio may make."""
    _loops.insert(0, (runs, loop))


def running() -> Loop:
    """Return the event loop that runs the current task.

    trio is checked before asyncio, because trio in guest mode runs inside an asyncio loop. Raises
    `RuntimeError` if the caller is not in a task.
    """
    for runs, loop in _loops:
        if runs():
            return loop
    return _find_running()


def _find_running() -> Loop:
    if "trio" in sys.modules:
        from resolver.loops.on_trio import LOOP as TRIO
        from resolver.loops.on_trio import is_running as runs_trio

        if runs_trio():
            _loops.insert("resolver.loops.on_thread" in sys.modules, (runs_trio, TRIO))
            return TRIO
    if "asyncio" in sys.modules:
        from resolver.loops.on_asyncio import LOOP as ASYNCIO
        from resolver.loops.on_asyncio import is_running as runs_asyncio

        if runs_asyncio():
            _loops.append((runs_asyncio, ASYNCIO))
            return ASYNCIO
    raise RuntimeError(_NO_LOOP)


def is_cancel(kind: type[BaseException]) -> bool:
    """Return whether `kind` is a loop's cancellation exception, even after the run of the loop."""
    for name in ("on_thread", "on_trio", "on_asyncio"):
        # A module that another thread is importing has no `LOOP` yet, and so no run.
        loop = getattr(sys.modules.get(f"resolver.loops.{name}"), "LOOP", None)
        if loop is not None and issubclass(kind, loop.cancelled):
            return True
    return False
