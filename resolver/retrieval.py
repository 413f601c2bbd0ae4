"""One retrieval, from a judged URL to the end of its body: one try, hops included.

What comes out is a `LiveReply`, which `stream` hands to its caller, and which `session` turns into
finished values.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, replace
from types import TracebackType

import trio

from protocols.contract import Finding, Moved, Reply, Url, Way
from protocols.errors import (
    IntegrityError,
    LimitExceeded,
    LocalError,
    Refused,
    ResolveError,
    TimedOut,
    UnsupportedScheme,
)
from resolver import registry
from resolver.clock import Clock
from resolver.events import Finished, Started, Warned
from resolver.gate import Door, Passage
from resolver.gateways import through_gateway
from resolver.hops import Request as Request
from resolver.hops import next_request
from resolver.live import LiveReply
from resolver.watching import WatchedBody, named

#: What no other way could mend: a limit of the caller's, this machine, octets that have begun to come.
_FINAL = (LimitExceeded, LocalError, IntegrityError)


@dataclass(slots=True)
class Fork:
    """A place where the peer said that the object has moved: who was asked, the ways that are left, and
    what the first of them failed by."""

    request: Request
    passage: Passage
    moved: Moved
    earlier: tuple[Url, ...]
    ways: list[Way]
    failed: ResolveError | None = None


class Retrieval:
    """An async context manager: judge, open, hand over a `LiveReply`; leaving it closes everything.

    Where the peer says that the object has moved, each hop is judged and opened like a retrieval of its
    own, on the one clock. Where it named several ways and one fails, the next one is gone, from where it
    was named; all of them together are at most as many as hops may be. If all fail, the first says why.
    """

    def __init__(
        self,
        door: Door,
        request: Request,
        *,
        most: int | None,
        clock: Clock | None = None,
        attempt: int = 1,
    ) -> None:
        self._door = door
        self._clock = clock
        self._attempt = attempt
        self._asked = request
        self._request = request
        self._earlier: tuple[Url, ...] = ()
        self._forks: list[Fork] = []
        self._gone = 0
        self._failures: list[Finding] = []
        self._most = most
        self._opened: AbstractAsyncContextManager[Reply] | None = None
        self._body: WatchedBody | None = None

    async def __aenter__(self) -> LiveReply:
        clock = Clock(self._door.limits.total) if self._clock is None else self._clock
        self._door.on_event(Started(self._asked.url.shown, self._attempt))
        try:
            return await self._open(clock)
        except BaseException as error:
            await self.__aexit__(type(error), error, error.__traceback__)
            raise

    async def _open(self, clock: Clock) -> LiveReply:
        way: Way | None = None
        while True:
            try:
                with named(self._request.url.shown), followed(bool(self._earlier)):
                    passage, reply = await self._open_way(way, clock)
                    if reply.moved is None:
                        return await self._bounded(passage, reply, clock)
                    await self._close()
                    self._fork(reply.moved, passage)
                    way = self._go_on()
            except ResolveError as error:
                way = self._turn_back(error)

    async def _open_way(self, way: Way | None, clock: Clock) -> tuple[Passage, Reply]:
        """Open the request; or, if the way is no location, what else there is at the place it was named."""
        if way is None or isinstance(way, str):
            return await self._open_one(clock)
        return self._forks[-1].passage, await self._enter(way(), clock)

    async def _open_one(self, clock: Clock) -> tuple[Passage, Reply]:
        request = self._request
        passage = self._admit(request)
        through = through_gateway(request.url, self._door.gateways)
        if through is not None:  # what it stands in for was judged; the gateway is the user's choice
            request = self._request = Request(through, options=request.options)
            passage = self._admit(request)
        scheme = registry.find(request.url.scheme)
        if scheme is None or scheme.open is None:
            raise UnsupportedScheme(
                request.url.scheme, f"this build has no handler for {request.url.scheme} URLs"
            )
        told = self._warn(passage, 0)
        reply = await self._enter(scheme.open(request.url, passage), clock)
        self._warn(passage, told)
        return passage, reply

    async def _enter(self, opened: AbstractAsyncContextManager[Reply], clock: Clock) -> Reply:
        """As far as the reply. Who wants a least rate of a body also wants it to begin: a peer that says
        something now and then has as long as one that says nothing."""
        limits = self._door.limits
        with clock.bound():
            if limits.min_rate is None:
                reply = await opened.__aenter__()
            else:
                with trio.move_on_after(limits.idle) as scope:
                    reply = await opened.__aenter__()
                if scope.cancelled_caught:
                    raise TimedOut(f"no body within {limits.idle:g} s (--min-rate)")
        self._opened = opened
        return reply

    def _admit(self, request: Request) -> Passage:
        return self._door.admit(
            request.url, origin=request.origin, referrer=request.referrer, options=request.options
        )

    def _fork(self, moved: Moved, passage: Passage) -> None:
        ways = [moved.location, *moved.others]
        self._forks.append(Fork(self._request, passage, moved, self._earlier, ways))

    def _go_on(self) -> Way:
        """Take the next way from the last fork: what is to be opened is the request then."""
        fork = self._forks[-1]
        way = fork.ways.pop(0)
        self._gone += 1
        self._request, self._earlier = fork.request, fork.earlier
        if isinstance(way, str):
            policy, hops = self._door.policy, self._door.limits.hops
            moved = replace(fork.moved, location=way)
            following = next_request(fork.request, moved, fork.passage.peer, fork.earlier, policy, hops)
            self._request, self._earlier = following, (*fork.earlier, fork.request.url)
        return way

    def _turn_back(self, error: ResolveError) -> Way:
        """The next way from the last fork that has one. Raises what the first one failed by."""
        while self._forks and not isinstance(error, _FINAL):
            fork = self._forks[-1]
            fork.failed = fork.failed or error
            if not fork.ways or self._gone >= self._door.limits.hops:
                error = fork.failed
                self._forks.pop()
                continue
            told = f"{self._request.url.shown}: {error.message}"
            self._failures.append(Finding(f"{self._request.url.scheme}:failed", "warn", told))
            try:
                with named(fork.request.url.shown), followed(bool(fork.earlier)):
                    return self._go_on()
            except ResolveError as again:
                error = again
        raise error

    async def _bounded(self, passage: Passage, reply: Reply, clock: Clock) -> LiveReply:
        if self._most is not None and reply.size is not None and reply.size > self._most:
            await self._close()
            raise LimitExceeded(
                "body", f"{reply.size} octets are announced, the limit is {self._most} (--max-size)"
            )
        url = self._request.url.shown
        reply.findings[:0] = self._failures
        limits, tell = self._door.limits, self._door.on_event
        body = self._body = WatchedBody(reply, url, clock, self._most, limits.min_rate, tell)
        return LiveReply(self._request, reply, passage, body, clock, self._asked.url, self._earlier)

    async def _close(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.__aexit__(None, None, None)

    def _warn(self, passage: Passage, told: int) -> int:
        """Tell the policy's warnings behind the first `told`; how many there are now."""
        for finding in passage.findings[told:]:
            self._door.on_event(Warned(self._request.url.shown, finding))
        return len(passage.findings)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._body is not None:
            self._body.close()
        try:
            if self._opened is not None:
                with named(self._request.url.shown):
                    await self._opened.__aexit__(kind, error, trace)
        finally:
            self._finish(error)

    def _finish(self, error: BaseException | None) -> None:
        self._door.on_event(Finished(self._asked.url.shown, error if isinstance(error, Exception) else None))


@contextmanager
def followed(hop: bool) -> Iterator[None]:
    """Whatever rule stops a hop, what failed is a redirect: exit status 15."""
    try:
        yield
    except (Refused, UnsupportedScheme) as error:
        if hop:
            error.exit_code = 15
        raise
