"""A segmented download: one object over several concurrent connections, to one or more locations.

First, the metadata of the object is requested. A segmented download is not possible in these cases:
- The metadata does not identify the version of the object.
- The object is too small.
- The location does not support range requests.

If a segmented download is not possible, `run` returns None, and the caller retrieves the object over one
connection.

Each segment is written directly to its offset in NAME.part. If a location sends a segment of another object,
the location is not used again. A failed segment is requested again, if possible from another location.

The ranges of completed segments are recorded every 2 s, after the segments were flushed to the disk. The
ranges of completed segments are also recorded when the file is closed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from protocols.contract import Finding, Validators
from protocols.errors import Changed, LimitExceeded, LocalError, Refused, ResolveError, TimedOut, Truncated
from resolver.files.part import Segment
from resolver.files.part_state import Range, Ranges, join_ranges, octets_of
from resolver.files.partial_file import PartialFile
from resolver.network.clock import Clock
from resolver.network.connecting import first_of, run_all
from resolver.network.events import Finished, OnEvent, Progress, Retrying, Started
from resolver.network.task import MAX_WAIT, current
from resolver.transfer import segments
from resolver.transfer.redirects import RetrievalRequest
from resolver.transfer.retrieval import Retrieval
from resolver.transfer.retry import OVERLAP
from resolver.transfer.segments import HostConnectionCounter, SegmentPlan, can_detect_change, is_same
from resolver.transfer.settings import RetryPolicy
from resolver.transfer.streaming import StreamingResponse
from resolver.url import registry

#: The interval in seconds between two progress checks, and the number of progress checks between two writes
#: of the completed ranges.
_LOOK_EVERY = 0.2
_LOOKS_A_NOTE = 10

_FINAL = (Refused, LimitExceeded, LocalError, Changed)

#: A function that opens a request to a location. All segments share one clock with a time limit. The
#: integer is the attempt number.
Open = Callable[[RetrievalRequest, Clock, int], Retrieval]


class _SegmentsUnusable(Exception):
    """A location does not support range requests, or has another object."""


@dataclass(slots=True, eq=False)
class _SegmentSource:
    """A location from which segments are requested.

    - `known` are the validators of the object at this location.
    - `busy` is the number of open connections to this location.
    - `failures_in_a_row` is the number of consecutive attempts without new data.
    """

    request: RetrievalRequest
    known: Validators | None = None
    busy: int = 0
    failures_in_a_row: int = 0
    brought: int = 0

    @property
    def stops(self) -> bool:
        """Return whether range requests of this scheme include the end offset."""
        row = registry.find(self.request.url.scheme)
        return row is not None and row.stops


class SegmentedDownload:
    """A segmented download of one object.

    Args:
        requests: a request for each location of the object.
        count: the maximum total number of connections to all locations.
        crowd: the counter of connections per host, which all objects of the session share.
        size: the expected size of the object in bytes, or None.
        proved: whether a digest will verify the complete object.

    Attributes:
        findings: the locations that are not used again, with the reasons.
        attempts: the number of attempts, which is 1 plus the number of failures.
        resumed_from: the number of bytes that the file already had at the start.
    """

    def __init__(
        self,
        open_: Open,
        requests: Sequence[RetrievalRequest],
        sink: PartialFile,
        count: int,
        crowd: HostConnectionCounter,
        retry_policy: RetryPolicy,
        on_event: OnEvent,
        *,
        size: int | None,
        proved: bool,
    ) -> None:
        self._expected = size
        self._open = open_
        self._places = [_SegmentSource(request) for request in requests]
        self._first = self._places[0]
        self._served = self._first
        self._sink = sink
        self._count = count
        self._crowd = crowd
        self._retry_policy = retry_policy
        self._on_event = on_event
        self._proved = proved
        self._known = Validators()
        self._segments: set[Segment] = set()
        self._whole: Ranges = ()
        self._partless = False
        self._failed: ResolveError | None = None
        self.attempts = 0
        self.resumed_from = 0
        self.findings: list[Finding] = []

    @property
    def served(self) -> RetrievalRequest:
        """Return the request of the location that has sent the most bytes."""
        return max((self._first, *self._places, self._served), key=lambda place: place.brought).request

    async def run(self, clock: Clock) -> StreamingResponse | None:
        """Retrieve the complete object into the file, and return the response with the metadata.

        Returns None if the object must be retrieved over one connection. The file is then truncated at its
        first gap. Raises `ResolveError`; the received bytes stay in the file.
        """
        self._clock, self.attempts = clock, 1
        if (turn := current()) is not None:
            turn.follow(lambda: octets_of(self._there()))
        facts = await self._ask(clock)
        if facts is None or not await self._begin(facts.validators):
            self.attempts -= 1  # the later retrieval over one connection is the first attempt
            self._sink.flatten()
            return None
        size = self._known.size
        assert size is not None
        self._pieces, self.resumed_from = SegmentPlan(size, self._whole, self._shares), octets_of(self._whole)
        self._first.failures_in_a_row = 0
        url, number = self._first.request.url.shown, self._first.request.transfer
        self._on_event(Started(url, 1, transfer=number))
        try:
            await first_of(self._bring_all, self._watch)
        except ResolveError as error:
            self._on_event(Finished(url, error, transfer=number))
            raise error.tried(self.attempts) from error.__cause__
        finally:
            self._sink.record_ranges(self._there())
        self._report()
        self._on_event(Finished(url, None, transfer=number))
        if octets_of(self._whole) != size:
            self.attempts -= 1
            self._sink.flatten()
            return None
        self._sink.gather(size)
        return facts

    @property
    def _shares(self) -> int:
        """Return the number of connections to open, within the limits per host."""
        most = [self._crowd.max_connections(place.request.url) for place in self._places]
        return min(self._count, sum(self._count if each is None else each for each in most))

    # -- before the first segment

    async def _ask(self, clock: Clock) -> StreamingResponse | None:
        """Request the metadata from the first location.

        If the file has gaps, a failed request is retried. Otherwise the retrieval over one connection would
        discard the bytes after the first gap. Without gaps, the method returns None after a failure, and the
        retrieval over one connection reports the error.
        """
        request = self._first.request
        row = registry.find(request.url.scheme)
        if row is None or not row.resumes:
            return None
        request = request._replace(options=replace(request.options, want="facts"))
        while True:
            try:
                async with self._open(request, clock, 1) as reply:
                    return None if reply.lists or reply.points else reply
            except ResolveError as error:
                if not self._sink.has_gaps:
                    return None
                if isinstance(error, _FINAL) or not await self._wait(self._first, error):
                    raise error.tried(self.attempts) from error.__cause__

    async def _begin(self, known: Validators) -> bool:
        """Prepare the file for segments; return whether a segmented download is useful and possible."""
        sink, size = self._sink, known.size
        if (
            size is None
            or self._expected not in (None, size)
            or not (self._proved or can_detect_change(known))
        ):
            return False
        held = sink.whole
        if held and not (sink.known.agree(known) and is_same(sink.known, known, proved=self._proved)):
            return False
        if held and not sink.has_gaps:  # after a crash, the last bytes of the file may be lost
            held = join_ranges([(0, held[0][1] - OVERLAP)])
        stops = sink.has_gaps or any(place.stops for place in self._places)
        if size - octets_of(held) < 2 * segments.least_piece(stops=stops) or (held and held[-1][1] > size):
            return False
        self._known, self._whole = known, held
        self._first.known = known
        await sink.spread(known, held)
        return True

    # -- the segments

    async def _bring_all(self) -> None:
        await run_all([self._work] * self._count)
        if self._pieces and self._failed is not None and not self._partless:
            raise self._failed

    async def _work(self) -> None:
        """Retrieve segments over one connection until the object is complete or all locations have failed."""
        while (place := self._next_place()) is not None:
            if (piece := self._pieces.take(stops=place.stops)) is None:
                return
            place.busy += 1
            self._crowd.enter(place.request.url)
            try:
                await self._bring(place, piece)
                place.failures_in_a_row = 0
            except _SegmentsUnusable as unfit:
                self._drop(place, str(unfit))
            except ResolveError as error:
                if isinstance(error, _FINAL) or self._clock.is_over:
                    raise
                if not await self._cope(place, error):
                    return
            finally:
                place.busy -= 1
                self._crowd.leave(place.request.url)

    def _next_place(self) -> _SegmentSource | None:
        """Return the location for the next connection.

        The method chooses the location with the fewest failures. Among locations with equally few failures,
        the method chooses the location with the fewest connections. If the host of a location has reached its
        connection limit, the location is excluded. The first connection of the download is always allowed.
        """
        alone = not any(each.busy for each in self._places)
        there = [each for each in self._places if alone or self._crowd.has_room(each.request.url)]
        return min(there, key=lambda each: (each.failures_in_a_row, each.busy), default=None)

    async def _bring(self, place: _SegmentSource, piece: Range) -> None:
        begin, end = piece
        came = begin
        known = place.known or Validators(size=self._known.size)
        options = replace(place.request.options, start=begin, stop=end, known=known)
        request = place.request._replace(options=options)
        try:
            async with self._open(request, self._clock, self.attempts) as reply:
                self._check(place, reply, piece)
                with self._sink.segment(begin, end) as segment:
                    self._segments.add(segment)
                    try:
                        await reply.body.drain(segment)
                    finally:
                        came = segment.position
                        self._segments.discard(segment)
                        self._whole = join_ranges([*self._whole, (begin, came)])
                if came < end:
                    raise Truncated("a segment ended early", received=came - begin, expected=end - begin)
        except ResolveError:
            if came > begin:
                place.failures_in_a_row = 0
            raise
        finally:
            place.brought += came - begin
            self._pieces.give_back(came, end)

    def _check(self, place: _SegmentSource, reply: StreamingResponse, piece: Range) -> None:
        """Check that the response has the requested range of the same object."""
        there = reply.validators
        if place is self._first and not self._known.agree(there):
            raise Changed("the object has changed")
        if not (place.known or there).agree(there) or not is_same(self._known, there, proved=self._proved):
            raise _SegmentsUnusable("the location has another object")
        place.known = there
        if (reply.start, reply.stop) != piece:
            self._partless = True
            raise _SegmentsUnusable("the server does not support ranges")

    # -- failures

    def _drop(self, place: _SegmentSource, why: str) -> None:
        if place in self._places:
            self._places = [each for each in self._places if each is not place]
            if place.brought > self._served.brought:
                self._served = place
            self.findings.append(Finding("save:mirror", "warn", f"{place.request.url.shown}: {why}"))

    async def _cope(self, place: _SegmentSource, error: ResolveError) -> bool:
        """Return whether this connection requests another segment after a failure.

        If other connections to the location work, the failed connection is not opened again, because the
        server may limit the number of connections.
        """
        if place.busy > 1 and sum(each.busy for each in self._places) > 1:
            self.attempts += 1
            place.failures_in_a_row += 1
            return False
        others = any(not each.failures_in_a_row for each in self._places if each is not place)
        if not await self._wait(place, error, elsewhere=others):
            self._failed = error
            self._drop(place, error.message)
        return True

    async def _wait(self, place: _SegmentSource, error: ResolveError, *, elsewhere: bool = False) -> bool:
        """Wait until the location may be used again (backoff), or return False if it is excluded.

        If another location can be used in the meantime (`elsewhere`), the call returns immediately.
        """
        place.failures_in_a_row += 1
        pause = self._retry_policy.pause(place.failures_in_a_row, error)
        has_data = bool(self._there())
        is_over = self._retry_policy.gives_up(place.failures_in_a_row, error, has_data=has_data)
        if is_over or pause > MAX_WAIT:
            return False
        self.attempts += 1
        if elsewhere:
            return True
        requested = place.request
        self._on_event(Retrying(requested.url.shown, error, pause, transfer=requested.transfer))
        try:
            with self._clock.limit_time():
                await self._clock.loop.sleep(pause)
        except TimedOut as over:
            words = f"{over.message}; the last try: {error.message}"
            raise TimedOut(words, url=error.url).with_setting(over.setting) from error
        return True

    # -- progress

    def _there(self) -> Ranges:
        self._whole = join_ranges([*self._whole, *((each.begin, each.position) for each in self._segments)])
        return self._whole

    async def _watch(self) -> None:
        """Report progress periodically, start flushing to the disk, and record the completed ranges."""
        noted, looks, seen = self._whole, 0, self._whole
        while True:
            await self._clock.loop.sleep(_LOOK_EVERY)
            looks += 1
            there = self._there()
            self._report()
            if there != seen:
                await self._sink.set_going()
                seen = there
            if looks % _LOOKS_A_NOTE == 0 and there != noted:
                await self._sink.note_whole(there)
                noted = there

    def _report(self) -> None:
        request, received = self._first.request, octets_of(self._there())
        event = partial(Progress, request.url.shown, received, self._known.size, self.resumed_from)
        self._on_event(event(transfer=request.transfer))
