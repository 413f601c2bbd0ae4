"""Time limits: one for all of a retrieval, and the least rate of its body.

No cancel scope stays open across a yield of a body: each is opened and closed inside one call.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import trio

from protocols.errors import TimedOut

#: Seconds over which the rate of a body is averaged: long enough for one lost packet to be sent again.
_RATE_WINDOW = 5.0

_UNBOUND: AbstractContextManager[None] = nullcontext()


class Clock:
    """The time limit for all of a retrieval: one deadline, applied to one call at a time."""

    def __init__(self, total: float | None) -> None:
        self._total = total
        self.started = trio.current_time()
        self._deadline = float("inf") if total is None else self.started + total

    @property
    def elapsed(self) -> float:
        return trio.current_time() - self.started

    @property
    def is_over(self) -> bool:
        return trio.current_time() >= self._deadline

    def bound(self) -> AbstractContextManager[None]:
        """Whatever is awaited inside ends at the deadline with `TimedOut`."""
        return _UNBOUND if self._total is None else self._bound()

    @contextmanager
    def _bound(self) -> Iterator[None]:
        with trio.move_on_at(self._deadline) as scope:
            yield
        if scope.cancelled_caught:
            raise TimedOut(f"not finished within the limit of {self._total:g} s in all")


class Pace:
    """Is a body fast enough? `least` octets a second, averaged over each `_RATE_WINDOW` seconds of waiting
    for it: what a caller does between two pieces does not count against the peer."""

    def __init__(self, least: int | None) -> None:
        self._least = least
        self._needed = 0.0 if least is None else least * _RATE_WINDOW
        self._octets = 0
        self._left = _RATE_WINDOW

    @property
    def patience(self) -> float:
        """Seconds after which it is too slow if nothing comes until then."""
        if self._least is None:
            return float("inf")
        return self._left if self._octets < self._needed else self._left + _RATE_WINDOW

    def spend(self, seconds: float, octets: int) -> None:
        """So long was waited, and so many octets came. Raises `TimedOut` after a window with too few."""
        self._left -= seconds
        if self._left <= 0:
            if self._octets + octets < self._needed:
                raise self.too_slow()
            self._octets, self._left = 0, max(0.0, self._left + _RATE_WINDOW)
        self._octets += octets

    def too_slow(self) -> TimedOut:
        """Not to be tried again at the same place: who sets a least rate would rather give up."""
        error = TimedOut(f"fewer than {self._least} octets a second for {_RATE_WINDOW:g} s (--min-rate)")
        error.retryable = False
        return error
