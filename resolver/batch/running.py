"""A batch that goes on while its results are iterated over, one by one.

Who iterates has no nursery open meanwhile: the batch is a task of its own, which ends with the last result,
with `aclose`, or with the run of the loop. A result that nobody asked for yet keeps its place in the batch:
no more begins than can be told.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from resolver.loops import Background, Event, running

T = TypeVar("T")

#: Gives each value to the function that it is given, until all have been taken.
Work = Callable[[Callable[[T], Awaitable[None]]], Awaitable[None]]


class RunningBatch(Generic[T]):
    """An iterator over what `work` gives. It begins with the first that is asked for; `when_ended` is called
    once nothing of it goes on any more."""

    def __init__(self, work: Work[T]) -> None:
        self._work = work
        self.when_ended: Callable[[], object] = lambda: None
        self._values: deque[tuple[T, Event]] = deque()
        self._background: Background | None = None
        self._closed = self._over = False
        self._error: BaseException | None = None

    def __aiter__(self) -> RunningBatch[T]:
        return self

    async def __anext__(self) -> T:
        """Raises what ended the batch before its time, `RuntimeError` once it was closed. A cancel loses
        nothing: the next call gives what this one would have."""
        loop = running()
        if self._background is None and not self._closed:
            self._changed = loop.event()
            self._background = loop.in_background(self._run)
        while not self._values:
            if self._error is not None:
                raise self._error
            if self._closed:
                raise RuntimeError("this was closed before its end: there is no more of it")
            if self._over:
                raise StopAsyncIteration
            self._changed = loop.event()
            await self._changed.wait()
        value, taken = self._values.popleft()
        taken.set()
        return value

    async def aclose(self) -> None:
        """Cancel what is under way, and wait until it has ended."""
        self._closed = self._closed or not self._over
        self._values.clear()
        if self._background is not None and not self._over:
            self._background.cancel()
            await self._background.wait()

    async def _run(self) -> None:
        loop = running()
        try:
            await self._work(self._hand_over)
        except BaseException as error:
            if _is_only(loop.cancelled, error):
                self._closed = True
                raise
            self._error = error
        finally:
            self._over = True
            self._changed.set()
            self.when_ended()

    async def _hand_over(self, value: T) -> None:
        taken = running().event()
        self._values.append((value, taken))
        self._changed.set()
        await taken.wait()


def _is_only(cancelled: type[BaseException], error: BaseException) -> bool:
    """A cancel, or several: of all that were under way at once."""
    if isinstance(error, BaseExceptionGroup):
        return error.split(cancelled)[1] is None
    return isinstance(error, cancelled)
