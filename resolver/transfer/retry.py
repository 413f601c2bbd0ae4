"""Retries: the number of tries, the waits between them, and the bytes that each try requests.

`Retrier.retry` retrieves one complete object into a store. Tries that bring new data are unlimited.
Consecutive tries without new data are limited. Each further try requests only the missing bytes, and the last
4 KiB before them. This overlap is compared with the stored bytes, so that a server with wrong offsets cannot
corrupt the object.
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

#: Stored bytes that a further try requests again, to verify that it resumes the same object.
OVERLAP = 4_096

#: Writes the bytes of a reply to the store: all of a listing, or the rest of a body.
Fill: TypeAlias = Callable[[StreamingResponse], Awaitable[None]]

#: Errors that no other location and no further try can correct: a refusal by the policy, a limit of the
#: caller, or an error of this machine.
_FINAL = (Refused, LimitExceeded, LocalError)


@dataclass(slots=True)
class Location:
    """A location of the object.

    A location is not `trusted` after it sent wrong bytes from the middle of the object. `failures_in_a_row`
    counts its consecutive tries without new data.
    """

    request: RetrievalRequest
    trusted: bool = True
    failures_in_a_row: int = 0
    failed: ResolveError | None = None


class Retrier:
    """The retrieval of one object into a store, from one or more locations.

    `requests` are the locations: the first, and its mirrors. The locations form a queue. The location at its
    head is tried next:
    - After a try with new data the same location is tried again.
    - After a try without new data, the location goes to the end of the queue.
    - A location is removed after a final error (the server declined, or the failure will recur), or after the
      maximum number of consecutive tries without new data.

    `keep.known` identifies the object state of the stored bytes. Another location may resume them only if the
    size is known and `proved` says that a digest will verify the complete object. If the object changes, the
    store restarts, unless its bytes are final.

    `findings` are the restarts and the removed locations. `resumed_from` is the position at the last
    resumption.
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
        """Return the location from which bytes were last stored."""
        return self._held_of.request.url

    async def retry(self, clock: Clock) -> StreamingResponse:
        """Try until the object is complete, and return the last response; its metadata stays readable.

        The clock limits the total time of all tries.

        Raises:
            ResolveError: the error of the last try; if every location declined, the error of the first
                location.
            Changed: if the object has changed since final bytes of it were written.
            Requeue: in a batch, if the host rejects requests because of its load.
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
                    continue  # `_begin_anew` counts the changes
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
        """Return the key of this retrieval among the retrievals of its task."""
        request = self._first.request
        return f"{request.options.want} {request.url.text}"

    def _recall(self) -> None:
        """Restore the counts from before a requeue. Raises `TryLater` if the host is closed now."""
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
        """Requeue the task if its host rejects requests, so that other tasks run meanwhile.

        The try counts as a failure only if the task was alone at its host. `Requeue` is not raised if there
        is another location, if final bytes were written, if the tries are used up, or if the requested pause
        is longer than `LONGEST_WAIT`.
        """
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
        """Remove the current location.

        If no location is left, raise its error; if the server declined, raise the error of the first location
        instead.
        """
        place = self._places.pop(0)
        place.failed = error
        if not self._places:
            reported = error if error.retryable else self._first.failed
            assert reported is not None
            raise reported.tried(self.attempts)
        self.findings.append(Finding("save:mirror", "warn", f"{place.request.url.shown}: {error.message}"))

    async def _wait(self, clock: Clock, failures_in_a_row: int, error: ResolveError) -> None:
        """Wait before the next try.

        Raises the error itself if the server requests a longer wait than `LONGEST_WAIT` (600 s).
        """
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
            words = f"{over.message}; the last try: {error.message}"
            reported = TimedOut(words, url=error.url).with_setting(over.setting)
            raise reported.tried(self.attempts) from error

    async def _try(self, clock: Clock) -> StreamingResponse:
        keep, place = self._keep, self._places[0]
        held = keep.position
        known, start = (self._known_at(place), self._start_at(place)) if held else (NOTHING, 0)
        request = place.request
        if start or request.options.start:
            request = replace(request, options=replace(request.options, start=start, known=known))
        # the metadata from the listing may be outdated
        if self.attempts > 1 and request.options.listed != NOTHING:
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
            except Changed as error:  # the object changed during the transfer
                self._begin_anew(error.message)
                raise
            if begin:
                self._check_end(reply, place)
        return reply

    def _known_at(self, place: Location) -> Validators:
        """Return the validators for this location: times and tags are valid only at their own server."""
        return self._keep.known if place is self._held_of else Validators(size=self._keep.known.size)

    def _describe_object(self, reply: StreamingResponse, place: Location) -> Validators:
        """Return the validators to store with the bytes.

        From a mirror only the size is stored, because a later run starts with the first location.
        """
        return reply.validators if place is self._first else Validators(size=reply.size)

    def _start_at(self, place: Location) -> int:
        """Return the offset to resume from; 0 if the location's offsets cannot be relied on."""
        elsewhere = place is not self._held_of and not (self._proved and self._keep.known.size is not None)
        if self._listing or not place.trusted or elsewhere:
            return 0
        return max(0, self._keep.position - OVERLAP)

    async def _align(
        self, reply: StreamingResponse, place: Location, known: Validators, requested: int
    ) -> None:
        """Align the reply with the store's position, or restart the store if the reply starts at 0."""
        keep = self._keep
        same = known.agree(reply.validators)
        if reply.start == 0 and not keep.final:
            if not same:
                self._begin_anew("the object has changed")
            elif requested:
                self._start_over("the server cannot resume at an offset")
            else:
                keep.restart()
            return
        if not same:
            self._begin_anew("the object has changed")
            raise Changed("the object has changed", again=True)
        await reply.body.skip(max(0, keep.position - OVERLAP) - reply.start)
        held = keep.tail(min(OVERLAP, keep.position - reply.start))
        if await reply.body.take(len(held)) != held:
            self._distrust(place, "the server resumed with bytes that differ from the stored ones")

    def _check_end(self, reply: StreamingResponse, place: Location) -> None:
        """Check the size of a resumed object: extra bytes show that it is another object."""
        if reply.size is not None and self._keep.position != reply.size:
            held = self._keep.position
            self._distrust(place, f"got {held} bytes after resuming, expected {reply.size}")

    def _distrust(self, place: Location, why: str) -> NoReturn:
        """Never resume from this location again. Raises `Changed`."""
        place.trusted = False
        self._begin_anew(why)
        raise Changed(why, again=True)

    def _begin_anew(self, why: str) -> None:
        """Restart with the changed object; raise `Changed` if bytes of the earlier state are final.

        The number of changes is limited, because some servers send a different object each time.
        """
        if self._keep.final:
            raise Changed(f"{why}, and the bytes already written cannot be taken back")
        self._changes += 1
        self._furthest = 0
        self._start_over(why)
        if self._changes > self._retry_policy.tries:
            raise Changed(f"{why} repeatedly")

    def _start_over(self, why: str) -> None:
        self._keep.restart()
        self.findings.append(Finding("save:restarted", "warn", f"{why}: started over"))


def give_way_for_room(error: ResolveError, url: Url, network: Network) -> None:
    """Raise `Requeue` in a batch if this machine has no file descriptor left.

    Other running tasks will close some. The concurrency is lowered, and a warning reports it.
    """
    turn = current()
    if turn is not None and is_scarce(error) and turn.lower():
        words = f"{most_descriptors()} file descriptors are all in use (ulimit -n): concurrency is reduced"
        network.warn(url.shown, Finding("descriptors", "warn", words))
        raise Requeue from error


def refuse_pointer(reply: LiveFacts) -> None:
    """Refuse to save a link or a service, which has no bytes of its own. Raises `Refused` (S10)."""
    if reply.points:
        raise Refused("S10", f"this is a {reply.kind.value}: its target {reply.target} is not followed")
