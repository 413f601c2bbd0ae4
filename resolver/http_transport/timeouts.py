"""The gate of one request of httpx's: what is opened through it heeds the timeouts that the client gave.

httpx has a time for each phase: to connect, to write once, to read once. Whichever ends first, that or the
limit of ours, ends the request. The time for a head begins when all is sent.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

import httpx

from protocols.contract import FirstResult, Reply
from protocols.errors import TimedOut
from resolver.clock import Clock
from resolver.gate import Admission, UrlGate
from resolver.gate.stream_settings import Phase
from resolver.loops import CancelScope

A = TypeVar("A")
B = TypeVar("B")

_NEVER = float("inf")
_TIMED_OUT: Mapping[Phase, type[httpx.TimeoutException]] = {
    "connect": httpx.ConnectTimeout,
    "write": httpx.WriteTimeout,
    "read": httpx.ReadTimeout,
}


class HttpxTimeouts:
    """See `Bounds`. `timeouts` are httpx's, in seconds by phase; None is no bound. `clock` is that of all
    hops of a request, `head` the seconds for what comes before a body."""

    def __init__(self, timeouts: Mapping[str, float | None], clock: Clock, head: float | None) -> None:
        self._timeouts = timeouts
        self._clock = clock
        self._head = head
        self._until: dict[Phase, float] = {}
        self.scope: CancelScope | None = None
        self._late: Phase = "read"
        self._saying = False

    @property
    def late(self) -> Phase:
        """Where somebody still says something and hears beside it, silence is no fault, and may end in the
        same turn as what is."""
        return self._late

    @late.setter
    def late(self, phase: Phase) -> None:
        if phase != "read" or not self._saying:
            self._late = phase

    def begin_saying(self) -> None:
        """And hear beside it."""
        self._saying = True
        self.leave_head()

    def end_saying(self) -> None:
        """Then the head is waited for."""
        self._saying = False
        self.await_head()

    def begin(self, phase: Phase) -> None:
        """The client's time for it begins."""
        seconds = self._timeouts.get(phase)
        self._until[phase] = _NEVER if seconds is None else self._clock.loop.current_time() + seconds
        if phase == "connect":
            self.leave_head()

    def connected(self) -> None:
        """Little is said, and then a head is waited for."""
        self.await_head()

    def deadline(self, phase: Phase) -> float:
        """When the client's time for it is over."""
        return self._until.get(phase, _NEVER)

    def until(self, phase: Phase, silent: float) -> float:
        """When one wait in it is over."""
        return silent if phase == "connect" else min(silent, self.deadline(phase))

    def missed(self, phase: Phase) -> TimedOut:
        """What is said then."""
        return TimedOut(f"timed out: not done within {self._timeouts[phase]:g} s, as the client has it")

    def leave_head(self) -> None:
        """Nobody can have answered yet."""
        if self.scope is not None:
            self.scope.deadline = self._clock.deadline

    def await_head(self) -> None:
        """All is said: it is to have come in so many seconds from now on."""
        if self.scope is not None and self._head is not None:
            self.scope.deadline = min(self._clock.deadline, self._clock.loop.current_time() + self._head)


class TimeoutGate(UrlGate):
    """See `UrlGate`: with the times of one request."""

    def __init__(
        self, admission: Admission, timeouts: Mapping[str, float | None], clock: Clock | None
    ) -> None:
        super().__init__(admission)
        self.clock = clock or Clock(self.limits.total)
        self._times = self._connector.bounds = HttpxTimeouts(timeouts, self.clock, self.limits.head)

    def timed_out(self, message: str) -> httpx.TimeoutException:
        """httpx's error for the phase that took too long."""
        return _TIMED_OUT[self._times.late](message)

    async def enter(self, conversation: AbstractAsyncContextManager[Reply]) -> Reply:
        """As far as the head, which has a time of its own, if that is bound."""
        if self.limits.head is None:
            with self.clock.bound():
                return await conversation.__aenter__()
        with self.clock.loop.move_on_at(self.clock.deadline) as scope:
            self._times.scope = scope
            return await conversation.__aenter__()
        raise (self.clock if scope.deadline == self.clock.deadline else Clock.for_head(self.limits)).over()

    async def first_of(
        self, first: Callable[[], Awaitable[A]], second: Callable[[], Awaitable[B]]
    ) -> tuple[FirstResult[A] | None, FirstResult[B] | None]:
        """Nobody does two things at once here but who still sends."""
        self._times.begin_saying()
        try:
            return await super().first_of(first, second)
        finally:
            self._times.end_saying()
