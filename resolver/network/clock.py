"""The clock and its limits: time of a retrieval, time before its body, minimum and shared maximum rate.

The clock is that of the running event loop. No cancel scope stays open across a yield of a body: each is
opened and closed inside one call.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from protocols.errors import NotConfigured, TimedOut
from protocols.options import Limits
from resolver.loops import CancelScope, Loop, running

#: Seconds over which the rate of a body is averaged: long enough for one lost packet to be sent again.
_RATE_WINDOW = 5.0

#: Seconds that one wait counts for at most while an answer comes: what is longer is silence, which a peer may
#: need (an FTP server before it says that the transfer is complete) and which the idle limit ends.
_LONGEST_COUNTED = 2.0

_UNBOUND: AbstractContextManager[None] = nullcontext()


class Clock:
    """A time limit that begins now: one deadline, applied to one call at a time. That for all of a retrieval,
    unless `missed` tells of another one: what it says is not there after so many seconds."""

    def __init__(
        self, limit: float | None, missed: str = "not finished within {:g} s in all (--max-time)"
    ) -> None:
        self.loop = running()
        self._limit = limit
        self.is_bound = limit is not None
        self._missed = missed
        self.started = self.loop.current_time()
        self.deadline = float("inf") if limit is None else self.started + limit

    @classmethod
    def for_head(cls, limits: Limits) -> Clock:
        """The limit for what comes before a body."""
        return cls(limits.head, "no body within {:g} s (--limit head=S)")

    @property
    def elapsed(self) -> float:
        return self.loop.current_time() - self.started

    @property
    def is_over(self) -> bool:
        return self.loop.current_time() >= self.deadline

    async def pause(self) -> None:
        """Others get their turn. `TimedOut` behind the deadline."""
        with self.limit_time():
            await self.loop.checkpoint()

    def limit_time(self) -> AbstractContextManager[None]:
        """Whatever is awaited inside ends at the deadline with `TimedOut`."""
        return _UNBOUND if self._limit is None else self._limit_time()

    @contextmanager
    def _limit_time(self) -> Iterator[None]:
        with self.loop.move_on_at(self.deadline) as scope:
            yield
        if scope.cancelled_caught:
            raise self.make_timeout()

    def make_timeout(self) -> TimedOut:
        """What is said behind the deadline."""
        return TimedOut(f"timed out: {self._missed.format(self._limit)}")


class RateCheck:
    """Is a body fast enough? `least` octets a second, averaged over each `_RATE_WINDOW` seconds of waiting
    for it: what a caller does between two pieces does not count against the peer."""

    def __init__(self, least: int) -> None:
        self._least = least
        self._needed = least * _RATE_WINDOW
        self._octets = 0
        self._left = _RATE_WINDOW

    @property
    def patience(self) -> float:
        """Seconds after which it is too slow if nothing comes until then."""
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
        words = f"timed out: fewer than {self._least} octets a second for {_RATE_WINDOW:g} s (--min-rate)"
        return TimedOut(words, retryable=False)


class AnswerPace:
    """Is an answer fast enough that has begun? `least` octets a second of waiting between its octets, as in
    `RateCheck`; a peer may think about a question for as long as the idle limit lets it. So a peer that says
    everything drop by drop is given up wherever that is: in its greeting, or in the head of an article."""

    def __init__(self, least: int | None) -> None:
        self._least = least
        self.begin()

    def begin(self) -> None:
        """A question was put: what comes next is the beginning of an answer."""
        self._begun = False
        if self._least is not None:
            self._pace = RateCheck(self._least)

    def hear(self, seconds: float, octets: int) -> None:
        """So many octets came after a wait. Raises `TimedOut` as `Pace.spend` does."""
        if self._least is None or not octets:
            return
        if self._begun:
            self._pace.spend(min(seconds, _LONGEST_COUNTED), octets)
        self._begun = True


# The maximum rate of all transfers of a run together: a token bucket, and the throttle that waits for it.
#
# `Bucket` is one line of time on which each taker appends its amount: it reads no clock and never waits. A
# `Throttle` is how one retrieval uses it. An amount is paid for before more is taken, so that a cancel during
# the wait loses nothing, and an idle timeout is caused by the peer alone. Each taker takes a share and is
# then last in the queue, so all progress at the same rate, however fast their peers are.

#: The seconds that what is taken at once may last: short enough to look steady, and to end soon.
_SHARE = 0.1

#: Octets that a retrieval takes without waiting, as long as no more than a second is owed by all: what words
#: are made of, so that a dialogue of ten commands does not stand in line ten times.
_FREE = 4_096
_OWED = 1.0


class Bucket:
    """`rate` octets a second. Times are those of one run of a loop; `begin` is told of which."""

    def __init__(self, rate: int) -> None:
        self.rate = rate
        self.share = max(1, int(rate * _SHARE))
        self._run: object = None
        self._paid_until = 0.0

    def begin(self, run: object, now: float) -> None:
        """In another run than before nothing is owed."""
        if run is not self._run:
            self._run, self._paid_until = run, now

    def pay(self, octets: int, now: float) -> float:
        """So many were taken: when they are paid for. What nobody used of the past is not made up for."""
        self._paid_until = max(self._paid_until, now) + octets / self.rate
        return self._paid_until


class Throttle:
    """One retrieval at a bucket. `share` is how many octets to take at once."""

    def __init__(self, bucket: Bucket, loop: Loop) -> None:
        self._bucket = bucket
        self._loop = loop
        self._taken = 0
        self._ready = 0.0
        self._waited = 0.0
        self._since: float | None = None
        self._standing: list[CancelScope] = []
        self.share = bucket.share
        bucket.begin(loop.run(), loop.current_time())

    @property
    def waited(self) -> float:
        """Seconds, until now, that are no fault of the peer's."""
        since = self._since
        return self._waited if since is None else self._waited + self._loop.current_time() - since

    @contextmanager
    def pause_deadline(self, scope: CancelScope) -> Iterator[None]:
        """The deadline of the scope, which is the peer's, stands still while we wait."""
        self._standing.append(scope)
        try:
            yield
        finally:
            self._standing.remove(scope)

    def record_received(self, octets: int) -> None:
        """So many have come."""
        now = self._loop.current_time()
        self._taken += octets
        ready = self._bucket.pay(octets, now)
        if self._taken > _FREE or ready - now > _OWED:
            self._ready = ready

    async def turn(self) -> None:
        """Wait until what was taken is paid for. No checkpoint where that is so already."""
        began = self._loop.current_time()
        if self._ready <= began:
            return
        for scope in self._standing:
            scope.deadline += self._ready - began
        self._since = began
        try:
            await self._loop.sleep(self._ready - began)
        finally:
            self._waited += self._loop.current_time() - began
            self._since = None


def check_rate(rate: int | None) -> None:
    """Raises `NotConfigured` for what nothing could come at."""
    if rate is not None and rate < 1:
        raise NotConfigured(f"a rate is 1 or more octets a second, not {rate}")
