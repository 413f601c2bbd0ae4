"""The running event loop: trio, or asyncio (uvloop too). No other module below the command names one.

    loop = running()            once for a connection, a clock, a URL
    with loop.move_on_after(seconds) as scope: await event.wait()
    in_time = await loop.readable_by(socket, deadline)

A program on asyncio never imports trio, and one on trio neither asyncio nor anyio: a program that runs a loop
has imported it. Times, events and locks belong to one run of a loop, and no pooled connection uses them in
another. The types are all that this package needs of a loop.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from resolver.loops.loop import Background, CancelScope, Event, Loop, Nursery, Wait

__all__ = ["Background", "CancelScope", "Event", "Loop", "Nursery", "Wait", "is_cancel", "running"]

_NONE_RUNS = (
    "url-resolver waits under trio or asyncio, and no task of either is running here. "
    "In a program of its own: asyncio.run(main()) or trio.run(main). Without a loop: resolver.blocking"
)


#: Those that were found to run once, trio first: whether a task of it is running here, and the loop.
_known: list[tuple[Callable[[], bool], Loop]] = []


def running() -> Loop:
    """The loop whose task this is. trio is asked first: as a guest it runs inside asyncio's loop. Raises
    `RuntimeError` where there is none."""
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
    """Is it what a cancel raises, here or where it was raised? Asked also behind the end of a run."""
    if "resolver.loops.on_trio" in sys.modules:
        from resolver.loops import on_trio

        if issubclass(kind, on_trio.LOOP.cancelled):
            return True
    if "resolver.loops.on_asyncio" in sys.modules:
        from resolver.loops import on_asyncio

        return issubclass(kind, on_asyncio.LOOP.cancelled)
    return False
