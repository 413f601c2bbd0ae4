"""Trying again: how often, how long to wait in between, and that nothing is fetched twice.

A *keep* is where octets go to stay: a file, memory, standard output. `carry` brings the whole of one
object into a keep, over as many tries as bring something new and a few that do not. Every further try
asks for what is missing only; a few octets that are held already are asked for again and compared, so a
peer that lies about where it begins cannot spoil what is there.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

import trio

from protocols.contract import Finding, Validators
from protocols.errors import Changed, Refused, ResolveError, TryLater
from resolver.events import OnEvent, Retrying
from resolver.hops import Request
from resolver.live import Clock, LiveReply
from resolver.retrieval import Retrieval

#: Octets held already that a further try asks for again, to see that it goes on with the same object.
OVERLAP = 4_096
_LONGEST_DELAY = 60.0


@dataclass(frozen=True, slots=True)
class Patience:
    """`tries` is how many tries in a row may bring nothing new; `delay` the seconds before the second,
    which double each time, up to 60, with some jitter."""

    tries: int = 1
    delay: float = 1.0

    def pause(self, fruitless: int, error: ResolveError) -> float:
        """Seconds to wait after `fruitless` tries in a row; a peer that named a time gets it."""
        asked = error.after if isinstance(error, TryLater) else None
        if asked is not None:
            return asked
        grown: float = min(_LONGEST_DELAY, self.delay * 2 ** max(0, fruitless - 1))
        return grown * random.uniform(0.75, 1.0)  # not all clients of a server at once


class Keep(Protocol):
    """Where octets stay. `position` counts them; `known` describes the object they are of. What is
    `final` is out and cannot be taken back."""

    known: Validators
    final: bool

    @property
    def position(self) -> int: ...

    def tail(self, count: int) -> bytes:
        """The last `count` octets, or as many as are held."""
        ...

    async def remember(self, known: Validators) -> None:
        """The octets that follow are of an object in this state."""
        ...

    def restart(self) -> None:
        """Begin again at octet 0. Never asked of what is final."""
        ...


class Memory:
    """Octets kept in memory, for a body that is bounded."""

    final = False

    def __init__(self) -> None:
        self.known = Validators()
        self._octets = bytearray()

    @property
    def position(self) -> int:
        return len(self._octets)

    def tail(self, count: int) -> bytes:
        return bytes(self._octets[-count:]) if count else b""

    async def remember(self, known: Validators) -> None:
        self.known = known

    def restart(self) -> None:
        self._octets.clear()
        self.known = Validators()

    async def fill(self, body: AsyncIterator[bytes]) -> None:
        """Take all that is left of a body."""
        async for octets in body:
            self._octets += octets

    def content(self) -> bytes:
        """All of it; the memory is empty afterwards."""
        octets, self._octets = self._octets, bytearray()
        return bytes(octets)


#: Puts the octets of a reply into the keep: all of a listing, or the rest of a body.
Fill: TypeAlias = Callable[[LiveReply], Awaitable[None]]


class Carrier:
    """Brings one object into a keep. `requests` are the places to get it, taken in turn: the first, then
    its mirrors. `findings` tell of starting over."""

    def __init__(
        self,
        open_: Callable[[Request, Clock, int], Retrieval],
        requests: Sequence[Request],
        keep: Keep,
        fill: Fill,
        patience: Patience,
        on_event: OnEvent,
    ) -> None:
        self._open = open_
        self._requests = requests
        self._keep = keep
        self._fill = fill
        self._patience = patience
        self._on_event = on_event
        self._trusting = True
        self._begun_again = 0
        self.attempts = 0
        self.findings: list[Finding] = []

    async def carry(self, clock: Clock) -> LiveReply:
        """All tries, within the one time limit. The reply of the last, whose facts stay readable.

        Raises what the last try raised; `Changed` when the object is no longer the one that octets of are
        out already.
        """
        fruitless, furthest = 0, self._keep.position
        while True:
            self.attempts += 1
            try:
                return await self._try(clock)
            except ResolveError as error:
                fruitless = 1 if self._keep.position > furthest else fruitless + 1
                furthest = max(furthest, self._keep.position)
                if not error.retryable or fruitless >= self._patience.tries:
                    raise
                await self._wait(clock, fruitless, error)

    async def _wait(self, clock: Clock, fruitless: int, error: ResolveError) -> None:
        pause = self._patience.pause(fruitless, error)
        self._on_event(Retrying(self._request().url.shown, error, pause))
        with clock.bound():
            await trio.sleep(pause)

    def _request(self) -> Request:
        return self._requests[(self.attempts - 1) % len(self._requests)]

    async def _try(self, clock: Clock) -> LiveReply:
        keep, request = self._keep, self._request()
        start = max(0, keep.position - OVERLAP) if self._trusting else 0
        options = replace(request.options, start=start, known=keep.known)
        async with self._open(replace(request, options=options), clock, self.attempts) as reply:
            if keep.position:
                await self._align(reply)
            await keep.remember(reply.validators)
            await self._fill(reply)
        return reply

    async def _align(self, reply: LiveReply) -> None:
        """Bring the reply to where the keep is, or the keep to where the reply begins."""
        keep = self._keep
        same = keep.known.agree(reply.validators)
        if reply.start == 0 and not keep.final:
            self._start_over("the object has changed" if not same else "the peer cannot go on in the middle")
            return
        if not same:
            raise Changed("the object has changed, and what is out of it cannot be taken back")
        await reply.body.skip(max(0, keep.position - OVERLAP) - reply.start)
        held = keep.tail(min(OVERLAP, keep.position - reply.start))
        if await reply.body.take(len(held)) != held:
            if keep.final:
                raise Changed("the peer goes on with other octets than those that are out already")
            self._trusting = False
            self._start_over("the peer goes on with other octets than those held")
            raise Changed("what came last is not what the peer has there", again=True)

    def _start_over(self, why: str) -> None:
        """Drop what is held. Not for ever: a peer that is never the same twice is given up."""
        self._begun_again += 1
        self._keep.restart()
        self.findings.append(Finding("save:restarted", "warn", f"{why}: started over"))
        if self._begun_again > self._patience.tries:
            raise Changed(f"{why}, again and again")


def refuse_pointer(reply: LiveReply) -> None:
    """What only leads elsewhere has no octets to keep. Raises `Refused` (S10)."""
    if reply.points:
        raise Refused(
            "S10", f"this is a {reply.kind.value}: it leads to {reply.target}, which is not followed"
        )
