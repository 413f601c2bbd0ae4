"""How fast octets may come, all transfers of a run together: a token bucket, and who waits for its tokens.

`Bucket` is one line of time on which each taker puts what it took, one behind another: it reads no clock and
waits for nothing. A `Throttle` is how one retrieval goes by it. What was taken is paid for before more is
taken, so that a cancel while it waits loses nothing, and silence is the peer's own. Each takes a share and
then has its turn behind all others: so all come equally far, however fast their peers are.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from protocols.errors import NotConfigured
from resolver.loops import CancelScope, Loop

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
    def sparing(self, scope: CancelScope) -> Iterator[None]:
        """The deadline of the scope, which is the peer's, stands still while we wait."""
        self._standing.append(scope)
        try:
            yield
        finally:
            self._standing.remove(scope)

    def took(self, octets: int) -> None:
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
