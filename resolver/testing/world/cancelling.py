"""Cancellations by the caller: at a step of a coroutine, or after a virtual time.

The cancellations are those of the event loop: a `CancelScope` of trio, and `asyncio.timeout`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import trio

from resolver.loops import on_trio
from resolver.testing.world.schedule import Fault

T = TypeVar("T")


class SteppedCoroutine(Coroutine[Any, Any, Any]):
    """A coroutine whose steps are counted; `strike` is called with the awaited object of step `at`."""

    def __init__(
        self, coroutine: Coroutine[Any, Any, object], at: int | None, strike: Callable[[object], None]
    ) -> None:
        self._coroutine = coroutine
        self._at = at
        self._strike = strike
        self.count = 0

    def __await__(self) -> SteppedCoroutine:
        return self

    def __iter__(self) -> SteppedCoroutine:
        return self

    def __next__(self) -> object:
        return self.send(None)

    def send(self, value: Any) -> object:
        return self._counted(self._coroutine.send(value))

    def throw(self, *error: Any) -> object:
        return self._counted(self._coroutine.throw(*error))

    def close(self) -> None:
        self._coroutine.close()

    def _counted(self, awaited: object) -> object:
        self.count += 1
        if self.count == self._at:
            self._strike(awaited)
        return awaited


async def call_with_cancellation(coroutine: Coroutine[Any, Any, T], fault: Fault) -> T | None:
    """Await a coroutine and cancel it as `fault` says, and return its result, or None if it was cancelled."""
    at = fault.octets if fault.kind == "cancel" else None
    seconds = fault.octets / 1000 if fault.kind == "timeout" else None
    if on_trio.is_running():
        with trio.CancelScope() as scope:
            if seconds is not None:
                scope.deadline = trio.current_time() + seconds
            result: T = await SteppedCoroutine(coroutine, at, lambda _: scope.cancel())
            return result
        return None
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            result = await SteppedCoroutine(coroutine, at, lambda _: limit.reschedule(-1.0))
            return result
    except TimeoutError:
        if not limit.expired():
            raise
        return None
