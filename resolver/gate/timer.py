"""See `protocols.contract.Timer`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from protocols.step import TimerElapsed
from resolver.loops import Loop

T = TypeVar("T")


class LoopTimer:
    """Seconds that begin when it is made, on the clock of the loop that runs."""

    def __init__(self, loop: Loop, seconds: float) -> None:
        self._loop = loop
        self._seconds = seconds
        self._deadline = loop.current_time() + seconds

    async def run(self, function: Callable[[], Awaitable[T]]) -> T:
        with self._loop.move_on_at(self._deadline):
            return await function()
        raise TimerElapsed(f"{self._seconds:g} s are over (--for)")
