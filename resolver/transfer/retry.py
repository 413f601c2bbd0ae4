"""Trying again: how often, how long to wait in between, and that nothing is fetched twice.

`retry` brings the whole of one object into a keep, over as many tries as bring something new and a few
that do not. Every further try asks for what is missing only; a few octets that are held already are asked
for again and compared, so a peer that lies about where it begins cannot spoil what is there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn, TypeAlias

from protocols.contract import Finding, Url, Validators
from protocols.errors import (
    Changed,
    LimitExceeded,
    LocalError,
    Refused,
    ResolveError,
    TimedOut,
    TryLater,
)
from resolver.files.faults import is_scarce, most_descriptors
from resolver.network.clock import Clock
from resolver.network.events import OnEvent, Retrying
from resolver.network.task import LONGEST_WAIT, Requeue, current, is_push_back
from resolver.transfer.network import Network
from resolver.transfer.redirects import RetrievalRequest
from resolver.transfer.retrieval import Retrieval
from resolver.transfer.settings import RetryPolicy, requested_pause
from resolver.transfer.streaming import NOTHING, LiveFacts, Store, StreamingResponse

#: Octets held already that a further try asks for again, to see that it goes on with the same object.
OVERLAP = 4_096

#: Puts the octets of a reply into the keep: all of a listing, or the rest of a body.
Fill: TypeAlias = Callable[[StreamingResponse], Awaitable[None]]

#: What no other place and no further try could mend: our policy, a limit of the caller's, this machine.
_FINAL = (Refused, LimitExceeded, LocalError)


@dataclass(slots=True)
class Location:
    """Where the object can be had. Not `trusted`: what it sent as the middle of the object was not that.
    `failures_in_a_row` tries in a row brought nothing new."""

    request: RetrievalRequest
    trusted: bool = True
    failures_in_a_row: int = 0
    failed: ResolveError | None = None


class Retrier:
    """Brings one object into a keep. `requests` are the places to get it: the first, and its mirrors.

    A place is kept to while it brings something new; after a try in vain the next one has its turn, and
    one that has said no, or was tried in vain as often as there is patience for, is not asked again. What
    is held of one place another may go on with only where the size is known and `proved` says that a digest
    will show whether the whole is right.

    `findings` tell of starting over; `resumed_from` is how much was held when the last try went on with it.
    """

    def __init__(
        self,
        open_: Callable[[RetrievalRequest, Clock, int], Retrieval],
        requests: Sequence[RetrievalRequest],
        keep: Store,
        fill: Fill,
        retry_policy: RetryPolicy,
        on_event: OnEvent,
        *,
        proved: bool = False,
    ) -> None:
        self._open = open_
        self._places = list(map(Location, requests))
        self._first = self._held_of = self._places[0]
        self._keep = keep
        self._fill = fill
        self._retry_policy = retry_policy
        self._on_event = on_event
        self._proved = proved
        self._listing = False
        self._changes = 0
        self._furthest = keep.position
        self.attempts = 0
        self.resumed_from = 0
        self.findings: list[Finding] = []

    @property
    def served(self) -> Url:
        """Where what is held came from last."""
        return self._held_of.request.url

    async def retry(self, clock: Clock) -> StreamingResponse:
        """All tries, within the one time limit. The reply of the last, whose facts stay readable.

        Raises what the last try raised, or, where every place said no, what the first of them said;
        `Changed` when the object is no longer the one that octets of are out already. In a batch `Requeue`,
        where its host wants to be left alone.
        """
        self._recall()
        while True:
            self.attempts += 1
            try:
                return await self._try(clock)
            except ResolveError as error:
                if isinstance(error, _FINAL) or clock.is_over:
                    raise error.tried(self.attempts) from error.__cause__
                if isinstance(error, Changed) and error.retryable:
                    continue  # `_begin_anew` counts these
                brought = self._keep.position > self._furthest
                self._furthest = max(self._furthest, self._keep.position)
                place = self._places[0]
                place.failures_in_a_row = 1 if brought else place.failures_in_a_row + 1
                self._give_way(place, error)
                if self._gives_up(place, error):
                    self._drop(error)
                    continue
                await self._wait(clock, place.failures_in_a_row, error)
                if not brought:
                    self._places.append(self._places.pop(0))

    def _gives_up(self, place: Location, error: ResolveError) -> bool:
        return self._retry_policy.gives_up(place.failures_in_a_row, error, has_data=self._furthest > 0)

    @property
    def _name(self) -> str:
        """What this is among all that a task asks for."""
        request = self._first.request
        return f"{request.options.want} {request.url.text}"

    def _recall(self) -> None:
        """What is known of earlier turns. Raises `TryLater` where nothing is to be asked of the host now."""
        turn, first = current(), self._first
        if turn is None:
            return
        turn.follow(lambda: self._keep.position)
        if self._name in turn.memory:
            self.attempts, first.failures_in_a_row, transfer = turn.memory.pop(self._name)
            first.request = replace(first.request, transfer=transfer)
        refusal = turn.refusal(first.request.url.shown)
        if refusal is not None and len(self._places) == 1:
            raise refusal.tried(self.attempts)

    def _give_way(self, place: Location, error: ResolveError) -> None:
        """Where its host pushes back, others have their turn meanwhile. A try is in vain only where nobody
        else was there. Raises `Requeue`, but where there is another place, octets are out, or patience is."""
        turn, requested = current(), requested_pause(error)
        if turn is None or place is not self._first or not is_push_back(error, requested):
            return
        if requested is not None and requested > LONGEST_WAIT:
            assert isinstance(error, TryLater)
            turn.close(error, requested)
            return
        counts, failures = turn.counts(), place.failures_in_a_row
        waits = counts or requested is not None
        pause = self._retry_policy.pause(failures, error) if waits else 0.0
        turn.push_back(pause)
        if len(self._places) > 1 or self._keep.final:
            return
        if counts and self._gives_up(place, error):
            return
        request = place.request
        turn.memory[self._name] = self.attempts, failures if counts else failures - 1, request.transfer
        self._on_event(
            Retrying(request.url.shown, error.tried(self.attempts), pause, transfer=request.transfer)
        )
        raise Requeue from error

    def _drop(self, error: ResolveError) -> None:
        """This place will not give it. When it was the last: raises the error, or, if it is a no, what the
        first place said."""
        place = self._places.pop(0)
        place.failed = error
        if not self._places:
            reported = error if error.retryable else self._first.failed
            assert reported is not None
            raise reported.tried(self.attempts)
        self.findings.append(Finding("save:mirror", "warn", f"{place.request.url.shown}: {error.message}"))

    async def _wait(self, clock: Clock, failures_in_a_row: int, error: ResolveError) -> None:
        """Raises the error itself where the peer asks for more patience than anybody has."""
        pause = self._retry_policy.pause(failures_in_a_row, error)
        if pause > LONGEST_WAIT:
            raise error.tried(self.attempts)
        requested = self._places[0].request
        self._on_event(
            Retrying(requested.url.shown, error.tried(self.attempts), pause, transfer=requested.transfer)
        )
        try:
            with clock.limit_time():
                await clock.loop.sleep(pause)
        except TimedOut as over:
            reported = TimedOut(f"{over.message}; the last try: {error.message}", url=error.url)
            raise reported.tried(self.attempts) from error

    async def _try(self, clock: Clock) -> StreamingResponse:
        keep, place = self._keep, self._places[0]
        held = keep.position
        known, start = (self._known_at(place), self._start_at(place)) if held else (NOTHING, 0)
        request = place.request
        if start or request.options.start:
            request = replace(request, options=replace(request.options, start=start, known=known))
        if self.attempts > 1 and request.options.listed != NOTHING:  # it may be outdated
            request = replace(request, options=replace(request.options, listed=NOTHING))
        async with self._open(request, clock, self.attempts) as reply:
            self._listing = reply.lists
            if held:
                await self._align(reply, place, known, start)
            self.resumed_from = keep.position if (begin := reply.start) else 0
            self._held_of = place
            reported = self._describe_object(reply, place)
            await keep.remember(known.completed_by(reported) if held and keep.position else reported)
            try:
                await self._fill(reply)
            except Changed as error:  # under our eyes
                self._begin_anew(error.message)
                raise
            if begin:
                self._check_end(reply, place)
        return reply

    def _known_at(self, place: Location) -> Validators:
        """What can be known of the object at this place. Times and tags hold where they were given."""
        return self._keep.known if place is self._held_of else Validators(size=self._keep.known.size)

    def _describe_object(self, reply: StreamingResponse, place: Location) -> Validators:
        """What is to be remembered of the object. What a mirror says of it but its size means nothing to
        the first place, where a later run asks again."""
        return reply.validators if place is self._first else Validators(size=reply.size)

    def _start_at(self, place: Location) -> int:
        """The octet to go on from; 0 where the peer has no offsets that could be believed."""
        elsewhere = place is not self._held_of and not (self._proved and self._keep.known.size is not None)
        if self._listing or not place.trusted or elsewhere:
            return 0
        return max(0, self._keep.position - OVERLAP)

    async def _align(
        self, reply: StreamingResponse, place: Location, known: Validators, requested: int
    ) -> None:
        """Bring the reply to where the keep is, or the keep to where the reply begins."""
        keep = self._keep
        same = known.agree(reply.validators)
        if reply.start == 0 and not keep.final:
            if not same:
                self._begin_anew("the object has changed")
            elif requested:
                self._start_over("the peer cannot go on in the middle")
            else:
                keep.restart()
            return
        if not same:
            self._begin_anew("the object has changed")
            raise Changed("the object has changed", again=True)
        await reply.body.skip(max(0, keep.position - OVERLAP) - reply.start)
        held = keep.tail(min(OVERLAP, keep.position - reply.start))
        if await reply.body.take(len(held)) != held:
            self._distrust(place, "the peer goes on with other octets than those held")

    def _check_end(self, reply: StreamingResponse, place: Location) -> None:
        """What went on in the middle has to end where it should: octets too many are from elsewhere, or of
        another state of the object."""
        if reply.size is not None and self._keep.position != reply.size:
            held = self._keep.position
            self._distrust(place, f"{held} octets came of an object of {reply.size} that was gone on with")

    def _distrust(self, place: Location, why: str) -> NoReturn:
        """Nothing in the middle is asked of this place again. Raises `Changed`."""
        place.trusted = False
        self._begin_anew(why)
        raise Changed(why, again=True)

    def _begin_anew(self, why: str) -> None:
        """Start over with what is another object now; `Changed` where octets of the other are out already.
        Not for ever: a peer that is never the same twice is given up."""
        if self._keep.final:
            raise Changed(f"{why}, and what is out cannot be taken back")
        self._changes += 1
        self._furthest = 0
        self._start_over(why)
        if self._changes > self._retry_policy.tries:
            raise Changed(f"{why}, again and again")

    def _start_over(self, why: str) -> None:
        """Drop what is held, and say so."""
        self._keep.restart()
        self.findings.append(Finding("save:restarted", "warn", f"{why}: started over"))


def give_way_for_room(error: ResolveError, url: Url, network: Network) -> None:
    """Raise `Requeue` in a batch where this machine has no descriptor left, and others are under way who will
    close some: so many at once are too many, which is told."""
    turn = current()
    if turn is not None and is_scarce(error) and turn.lower():
        words = f"{most_descriptors()} descriptors are all in use (ulimit -n): less is done at once"
        network.warn(url.shown, Finding("descriptors", "warn", words))
        raise Requeue from error


def refuse_pointer(reply: LiveFacts) -> None:
    """What only leads elsewhere has no octets to keep. Raises `Refused` (S10)."""
    if reply.points:
        raise Refused(
            "S10", f"this is a {reply.kind.value}: it leads to {reply.target}, which is not followed"
        )
