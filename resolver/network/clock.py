"""Deadlines for a retrieval and for its response head, the minimum rate, and the rate limit.

All times come from the clock of the running event loop. Each cancel scope is opened and closed inside one
call, so no cancel scope stays open while a generator yields body data.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from protocols.errors import NotConfigured, TimedOut
from protocols.options import Limits
from resolver.loops import CancelScope, Loop, running

#: The time in seconds over which the rate of a body is averaged. In 5 s, TCP can retransmit a lost packet.
_RATE_WINDOW = 5.0

#: The maximum number of seconds of a single wait that are included in the measured rate. For example, an FTP
#: server pauses before it reports a complete transfer. Only the idle timeout limits such a pause.
_MAX_COUNTED_WAIT = 2.0

_UNBOUND: AbstractContextManager[None] = nullcontext()


class Clock:
    """A deadline that starts now and applies to one call at a time.

    Args:
        limit: the time limit in seconds; None for no limit.
        message: the error message, with a placeholder for the seconds. The default message says that the
            complete retrieval took too long.
        setting: the name of the setting that changes the limit.
        loop: the current event loop, if the caller knows it.
    """

    def __init__(
        self,
        limit: float | None,
        message: str = "not complete within {:g} s",
        setting: str = "max_time",
        loop: Loop | None = None,
    ) -> None:
        self.loop = loop or running()
        self._limit = limit
        self.is_bound = limit is not None
        self._message = message
        self._setting = setting
        self.started = self.loop.current_time()
        self.deadline = float("inf") if limit is None else self.started + limit

    @classmethod
    def for_head(cls, limits: Limits) -> Clock:
        """Return the deadline for the arrival of the response head."""
        return cls(limits.head, "no body within {:g} s", "limit head=S")

    @property
    def elapsed(self) -> float:
        return self.loop.current_time() - self.started

    @property
    def is_over(self) -> bool:
        return self.loop.current_time() >= self.deadline

    async def pause(self) -> None:
        """Yield to other tasks.

        Raises:
            TimedOut: the deadline has passed.
        """
        with self.limit_time():
            await self.loop.checkpoint()

    def limit_time(self) -> AbstractContextManager[None]:
        """Return a context manager that raises `TimedOut` at the deadline."""
        return _UNBOUND if self._limit is None else self._limit_time()

    @contextmanager
    def _limit_time(self) -> Iterator[None]:
        with self.loop.move_on_at(self.deadline) as scope:
            yield
        if scope.cancelled_caught:
            raise self.make_timeout()

    def make_timeout(self) -> TimedOut:
        """Return the error for a passed deadline."""
        words = f"timed out: {self._message.format(self._limit)}"
        return TimedOut(words).with_setting(self._setting)


class RateCheck:
    """A minimum rate for a body, in bytes per second.

    The rate is averaged over each `_RATE_WINDOW` seconds of waiting for the body. The time that the caller
    uses between two reads does not count.
    """

    def __init__(self, min_rate: int) -> None:
        self._min_rate = min_rate
        self._min_octets = min_rate * _RATE_WINDOW
        self._octets = 0
        self._remaining = _RATE_WINDOW

    @property
    def max_wait(self) -> float:
        """Return the longest allowed wait without a byte, in seconds."""
        return self._remaining if self._octets < self._min_octets else self._remaining + _RATE_WINDOW

    def record_wait(self, seconds: float, octets: int) -> None:
        """Record a wait and the bytes that arrived after the wait.

        Raises:
            TimedOut: fewer bytes than the minimum arrived in a period of `_RATE_WINDOW` seconds.
        """
        self._remaining -= seconds
        if self._remaining <= 0:
            if self._octets + octets < self._min_octets:
                raise self.make_timeout()
            self._octets, self._remaining = 0, max(0.0, self._remaining + _RATE_WINDOW)
        self._octets += octets

    def make_timeout(self) -> TimedOut:
        """Return the error for a slow body.

        The client does not retry the request on the same server, because a user who sets a minimum rate wants
        to stop a slow transfer.
        """
        words = f"timed out: less than {self._min_rate} bytes/s for {_RATE_WINDOW:g} s"
        return TimedOut(words, retryable=False).with_setting("min_rate")


class ResponseRateCheck:
    """The minimum rate of a response after its first byte. It protects against slow-loris servers.

    At least `min_rate` bytes must arrive per second of waiting, as in `RateCheck`. The rate also applies
    to greetings and to the headers of articles. Before the first byte, only the idle timeout applies, because
    a server may need time to process a request.
    """

    def __init__(self, min_rate: int) -> None:
        self._min_rate = min_rate
        self.begin()

    def begin(self) -> None:
        """Record that a request was sent: the next byte is the first of a response."""
        self._has_begun = False
        self._check = RateCheck(self._min_rate)

    def record_received(self, seconds: float, octets: int) -> None:
        """Record the bytes that arrived after a wait.

        Raises:
            TimedOut: the response is too slow; see `RateCheck.record_wait`.
        """
        if self._has_begun and octets:
            self._check.record_wait(min(seconds, _MAX_COUNTED_WAIT), octets)
        self._has_begun |= octets > 0


# Rate limiting. All transfers of a run share one token bucket (`Bucket`). Each retrieval waits through its
# own `Throttle`.
#
# A retrieval first reads, and then waits until the received bytes are within the rate limit. So a
# cancellation during the wait loses no data, and the idle timeout does not include the wait. Each transfer
# reads a limited number of bytes, and then waits until the other transfers have read. So all transfers have
# the same rate, even if one server is faster.

#: A read returns at most the number of bytes that the rate limit allows in this time, in seconds. A short
#: time gives a steady rate and a quick cancellation.
_SHARE = 0.1

#: Burst size: the number of bytes that a retrieval may read without a wait, if the debt of the bucket is at
#: most `_MAX_DEBT` seconds. Replies to commands are shorter, so ten commands do not cause ten waits.
_BURST_SIZE = 4_096
_MAX_DEBT = 1.0


class Bucket:
    """A token bucket of `rate` bytes per second.

    The caller passes the current time. `begin` resets the bucket for a new event loop, because each event
    loop has its own clock.
    """

    def __init__(self, rate: int) -> None:
        self.rate = rate
        self.share = max(1, int(rate * _SHARE))
        self._run: object = None
        self._paid_until = 0.0

    def begin(self, run: object, now: float) -> None:
        """Reset the debt at the start of another run."""
        if run is not self._run:
            self._run, self._paid_until = run, now

    def pay(self, octets: int, now: float) -> float:
        """Add bytes to the debt, and return the time of its payment.

        Idle time gives no credit for a later burst.
        """
        self._paid_until = max(self._paid_until, now) + octets / self.rate
        return self._paid_until


class Throttle:
    """The rate limiter of one retrieval. One read may return at most `share` bytes."""

    def __init__(self, bucket: Bucket, loop: Loop) -> None:
        self._bucket = bucket
        self._loop = loop
        self._received = 0
        self._ready = 0.0
        self._waited = 0.0
        self._wait_start: float | None = None
        self._scopes: list[CancelScope] = []
        self.share = bucket.share
        bucket.begin(loop.run(), loop.current_time())

    @property
    def waited(self) -> float:
        """Return the total time in seconds that the retrieval waited for the rate limit."""
        start = self._wait_start
        return self._waited if start is None else self._waited + self._loop.current_time() - start

    @contextmanager
    def pause_deadline(self, scope: CancelScope) -> Iterator[None]:
        """Extend the deadline of the cancel scope by each wait for the rate limit.

        Therefore, only the time that the peer uses counts towards the deadline.
        """
        self._scopes.append(scope)
        try:
            yield
        finally:
            self._scopes.remove(scope)

    def record_received(self, octets: int) -> None:
        """Record received bytes and add them to the debt."""
        now = self._loop.current_time()
        self._received += octets
        ready = self._bucket.pay(octets, now)
        if self._received > _BURST_SIZE or ready - now > _MAX_DEBT:
            self._ready = ready

    async def wait(self) -> None:
        """Wait until the rate limit allows another read. Without a wait, the call is not a checkpoint."""
        start = self._loop.current_time()
        if self._ready <= start:
            return
        for scope in self._scopes:
            scope.deadline += self._ready - start
        self._wait_start = start
        try:
            await self._loop.sleep(self._ready - start)
        finally:
            self._waited += self._loop.current_time() - start
            self._wait_start = None


def check_rate(rate: int | None) -> None:
    """Raise `NotConfigured` for a rate below 1 byte per second, or one that no clock can measure."""
    if rate is not None and not 1 <= rate < 1e308:
        raise NotConfigured(f"rate must be from 1 to 1e308 bytes/s, got {rate}")
