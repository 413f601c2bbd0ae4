"""Retries of a retrieval: the number of attempts, the backoff between attempts, and resumption.

`Retrier.retry` retrieves one complete object into a store. Only the number of consecutive attempts without
new data is limited. A retry requests the missing bytes and also the last 4 KiB of the stored bytes. The
overlap of 4 KiB is compared with the stored bytes, so that a server with wrong offsets cannot corrupt the
object.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import NoReturn, TypeAlias

from protocols.contract import Finding, Url, Validators
from protocols.errors import (
    Changed,
    Declined,
    LimitExceeded,
    LocalError,
    Refused,
    ResolveError,
    TimedOut,
    TryLater,
)
from protocols.options import NOTHING
from resolver.files.faults import is_scarce, max_descriptors
from resolver.network.clock import Clock
from resolver.network.events import Retrying
from resolver.network.task import MAX_WAIT, Requeue, TaskContext, current, is_push_back
from resolver.transfer.network import Network
from resolver.transfer.redirects import RetrievalRequest
from resolver.transfer.retrieval import Retrieval
from resolver.transfer.settings import RetryPolicy, requested_pause
from resolver.transfer.streaming import LiveFacts, Store, StreamingResponse

#: The number of stored bytes that a retry requests again. The bytes show whether the object has changed.
OVERLAP = 4_096

#: A function that writes the bytes of a response to the store. The function writes a complete listing, or the
#: remaining bytes of a body.
Fill: TypeAlias = Callable[[StreamingResponse], Awaitable[None]]

#: The errors after which no retry and no mirror is attempted. Either the policy refused, a limit of the
#: caller was exceeded, or this machine failed.
_FINAL = (Refused, LimitExceeded, LocalError)


class Location:
    """A location of the object: the requested URL or a mirror.

    - `trusted` is False after the server sent wrong bytes for an offset. The client then does not resume from
      this location.
    - `failures_in_a_row` is the number of consecutive attempts without new data.
    """

    trusted = True
    failures_in_a_row = 0
    error: ResolveError | None = None

    def __init__(self, request: RetrievalRequest) -> None:
        self.request = request


class Retrier:
    """The retrieval of one object into a store, from one or more locations.

    `requests` has a request for each location: first for the requested URL, then for the mirrors. The
    locations form a queue. Each attempt uses the first location of the queue:
    - After an attempt with new data, the next attempt uses the same location.
    - After an attempt without new data, the location moves to the end of the queue.
    - After a permanent error, the location is removed. An error is permanent if the server refused the
      request, or if another attempt would probably fail in the same way.
    - After too many consecutive attempts without new data, the location is removed too.

    `keep.known` are the validators of the stored bytes. A mirror may append to the stored bytes only if the
    size is known and the digest of the complete object will be verified (`proved`). If the object changes,
    the store discards its bytes and restarts. A final store (for example standard output) cannot restart, so
    a changed object raises `Changed`.

    `findings` describes the restarts and the removed locations. `resumed_from` is the offset of the last
    resumption.
    """

    def __init__(
        self,
        network: Network,
        requests: Sequence[RetrievalRequest],
        store: Store,
        fill: Fill,
        retry_policy: RetryPolicy,
        *,
        proved: bool = False,
    ) -> None:
        self._network = network
        self._locations = list(map(Location, requests))
        self._first = self._source = self._locations[0]
        self._store = store
        self._fill = fill
        self._retry_policy = retry_policy
        self._proved = proved
        self._reply: StreamingResponse | None = None
        self._changes = 0
        self._max_position = store.position
        self.attempts = 0
        self.resumed_from = 0
        self.findings: list[Finding] = []

    @property
    def served(self) -> Url:
        """Return the URL of the location that sent the last stored bytes."""
        return self._source.request.url

    async def retry(self, clock: Clock) -> StreamingResponse:
        """Retrieve the object, with retries, until it is complete.

        Return the last response.

        The connection of the returned response is closed, but the metadata is available. The clock limits the
        total time of all attempts.

        Raises:
            ResolveError: the error of the last attempt. If every location refused the request, the error of
                the first location is raised.
            Changed: if the object has changed and the store cannot restart (`Store.final`).
            Requeue: in a batch, if the host rejects requests because of its load (rate limit).
        """
        if (task := current()) is not None:
            self._restore_attempts(task)
        while True:
            self.attempts += 1
            try:
                return await self._try(clock)
            except ResolveError as error:
                if isinstance(error, _FINAL) or clock.is_over:
                    raise error.tried(self.attempts) from error.__cause__
                if isinstance(error, Changed) and error.retryable:
                    continue  # not an endless loop, because `_restart_changed` limits the number of restarts
                has_new_data = self._store.position > self._max_position
                self._max_position = max(self._max_position, self._store.position)
                location = self._locations[0]
                location.failures_in_a_row = 1 if has_new_data else location.failures_in_a_row + 1
                self._requeue_if_limited(location, error)
                if self._gives_up(location, error):
                    self._remove_location(error)
                    continue
                await self._wait(clock, location.failures_in_a_row, error)
                if not has_new_data:
                    self._locations.append(self._locations.pop(0))

    def _gives_up(self, location: Location, error: ResolveError) -> bool:
        return self._retry_policy.gives_up(location.failures_in_a_row, error, has_data=self._max_position > 0)

    @property
    def _key(self) -> str:
        """Return the key of this retrieval among the retrievals of the same batch task."""
        request = self._first.request
        return f"{request.options.want} {request.url.text}"

    def _restore_attempts(self, task: TaskContext) -> None:
        """Restore the numbers of attempts that were saved before the task was queued again.

        Raises `TryLater` if the host accepts no requests now and the object has no mirror.
        """
        first = self._first
        task.follow(lambda: self._store.position)
        if task.memory and self._key in task.memory:
            self.attempts, first.failures_in_a_row, transfer = task.memory.pop(self._key)
            first.request = first.request._replace(transfer=transfer)
        refusal = task.refusal(first.request.url)
        if refusal is not None and len(self._locations) == 1:
            raise refusal.tried(self.attempts)

    def _requeue_if_limited(self, location: Location, error: ResolveError) -> None:
        """Raise `Requeue` if the host rejects requests because of a rate limit.

        `Requeue` lets other tasks of the batch run. If other tasks were running at the host, the attempt does
        not count as a failure.

        `Requeue` is not raised in these cases:
        - Another location of the object remains.
        - The store cannot restart (`Store.final`).
        - The maximum number of attempts is reached.
        - The server requested a pause longer than `MAX_WAIT`.
        """
        task, requested = current(), requested_pause(error)
        if task is None or location is not self._first:
            return
        url = location.request.url
        if isinstance(error, Declined) and error.of_login and error.url == url.shown:  # not of a redirect
            task.refuse_login(error, url)
        if not is_push_back(error, requested):
            return
        if requested is not None and requested > MAX_WAIT:
            assert isinstance(error, TryLater)
            task.refuse_until(error, requested)
            return
        counts, failures = task.counts_as_failure(), location.failures_in_a_row
        waits = counts or requested is not None
        pause = self._retry_policy.pause(failures, error) if waits else 0.0
        task.push_back(pause)
        if len(self._locations) > 1 or self._store.final:
            return
        if counts and self._gives_up(location, error):
            return
        request = location.request
        task.memory[self._key] = self.attempts, failures if counts else failures - 1, request.transfer
        self._network.on_event(
            Retrying(request.url.shown, error.tried(self.attempts), pause, transfer=request.transfer)
        )
        raise Requeue from error

    def _remove_location(self, error: ResolveError) -> None:
        """Remove the current location from the queue.

        If the queue is then empty, the method raises an error. This is the error of the removed location if
        it is retryable, and otherwise the error of the first location.
        """
        location = self._locations.pop(0)
        location.error = error
        if not self._locations:
            reported = error if error.retryable else self._first.error
            assert reported is not None
            raise reported.tried(self.attempts)
        self.findings.append(Finding("save:mirror", "warn", f"{location.request.url.shown}: {error.message}"))

    async def _wait(self, clock: Clock, failures_in_a_row: int, error: ResolveError) -> None:
        """Wait before the next attempt. Raises `error` if the server wants over `MAX_WAIT` (600 s)."""
        pause = self._retry_policy.pause(failures_in_a_row, error)
        if pause > MAX_WAIT:
            raise error.tried(self.attempts)
        requested = self._locations[0].request
        self._network.on_event(
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
        store, location = self._store, self._locations[0]
        position = store.position
        known, start = (self._validators_at(location), self._start_at(location)) if position else (NOTHING, 0)
        request = location.request
        if start or request.options.start:
            request = request._replace(options=replace(request.options, start=start, known=known))
        # Before a retry, discard the metadata from the listing, because the metadata may be outdated.
        if self.attempts > 1 and request.options.listed != NOTHING:
            request = request._replace(options=replace(request.options, listed=NOTHING))
        async with Retrieval(self._network, request, clock, self.attempts) as reply:
            self._reply = reply
            if (task := current()) is not None:
                task.refusals.has_answered = True
            if position:
                await self._align(reply, location, known, start)
            self.resumed_from = store.position if (begin := reply.start) else 0
            self._source = location
            # A later run resumes from the first location. There, only the size of a mirror's object is valid.
            reported = reply.validators if location is self._first else Validators(size=reply.size)
            if position and store.position:
                reported = known.completed_by(reported)
            await store.remember(reported)
            try:
                await self._fill(reply)
            except Changed as error:  # the server reported during the transfer that the object has changed
                self._restart_changed(error.message)
                raise
            # A range may end before the object, and `Content-Range` may lack the size (RFC 9110 14.4).
            if begin and reported.size is not None and store.position != reported.size:
                reason = f"got {store.position} bytes after resuming, expected {reported.size}"
                self._stop_resuming(location, reason)
        return reply

    def _validators_at(self, location: Location) -> Validators:
        """Return the validators for this location. Dates and entity tags are valid only at their server."""
        return self._store.known if location is self._source else Validators(size=self._store.known.size)

    def _start_at(self, location: Location) -> int:
        """Return the offset at which to resume, or 0 if this location's transfer cannot be resumed."""
        is_other = location is not self._source and not (self._proved and self._store.known.size is not None)
        is_listing = self._reply is not None and self._reply.lists
        if is_listing or not location.trusted or is_other:
            return 0
        return max(0, self._store.position - OVERLAP)

    async def _align(
        self, reply: StreamingResponse, location: Location, known: Validators, requested: int
    ) -> None:
        """Align the response with the end of the stored bytes. If it starts at 0, restart the store."""
        store = self._store
        is_same = known.agree(reply.validators)
        if reply.start == 0 and not store.final:
            if not is_same:
                self._restart_changed("the object has changed")
            elif requested:
                self._restart("the transfer cannot resume at an offset")
            else:
                store.restart()
            return
        if not is_same:
            self._restart_changed("the object has changed")
            raise Changed("the object has changed", again=True)
        await reply.body.skip(max(0, store.position - OVERLAP) - reply.start)
        stored = store.tail(min(OVERLAP, store.position - reply.start))
        if await reply.body.take(len(stored)) != stored:
            self._stop_resuming(location, "the server resumed with bytes that differ from the stored ones")

    def _stop_resuming(self, location: Location, reason: str) -> NoReturn:
        """Exclude the location from further resumption, and raise `Changed`."""
        location.trusted = False
        self._restart_changed(reason)
        raise Changed(reason, again=True)

    def _restart_changed(self, reason: str) -> None:
        """Restart the store for the changed object.

        Raises `Changed` if the store cannot restart (`Store.final`). The number of restarts is limited,
        because some servers send a different object for each request.
        """
        if self._store.final:
            raise Changed(f"{reason}, and the bytes already written cannot be taken back")
        self._changes += 1
        self._max_position = 0
        self._restart(reason)
        if self._changes > self._retry_policy.tries:
            raise Changed(f"{reason} repeatedly")

    def _restart(self, reason: str) -> None:
        self._store.restart()
        self.findings.append(Finding("save:restarted", "warn", f"{reason}: started over"))


def requeue_if_scarce(error: ResolveError, url: Url, network: Network) -> None:
    """Raise `Requeue` in a batch if the process has reached its limit of file descriptors.

    The concurrency of the batch is lowered, and a warning is reported. The task can run again after other
    tasks have closed their file descriptors.
    """
    task = current()
    if task is not None and is_scarce(error) and task.reduce_concurrency():
        words = f"{max_descriptors()} file descriptors are all in use (ulimit -n): concurrency is reduced"
        network.warn(url.shown, Finding("descriptors", "warn", words))
        raise Requeue from error


def refuse_pointer(reply: LiveFacts) -> None:
    """Raise `Refused` (S10) for a link or a service, which has no content to save."""
    if reply.points:
        raise Refused("S10", f"this is a {reply.kind.value}: its target {reply.target} is not followed")
