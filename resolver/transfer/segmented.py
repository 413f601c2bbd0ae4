"""A segmented download: one object over several concurrent connections, to one or more locations.

First, the metadata of the object is requested. A segmented download is not possible in these cases:
- The metadata does not identify the version of the object.
- The object is too small.
- The location does not support range requests, or the first range requests fail.

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
from resolver.files.part_state import Range, Ranges, count_bytes, join_ranges
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
_CHECK_INTERVAL = 0.2
_CHECKS_PER_RECORD = 10

_FINAL = (Refused, LimitExceeded, LocalError, Changed)

#: A function that opens a request to a location. All segments share one clock with a time limit. The
#: integer is the attempt number.
Open = Callable[[RetrievalRequest, Clock, int], Retrieval]


class _SegmentsUnusable(Exception):
    """A location does not support range requests, or has another object."""


@dataclass(slots=True, eq=False)
class _SegmentSource:
    """A location from which segments are requested.

    - `version` has the validators of the object at this location.
    - `busy` is the number of open connections to this location.
    - `failures_in_a_row` is the number of consecutive attempts without new data.
    """

    request: RetrievalRequest
    version: Validators | None = None
    busy: int = 0
    failures_in_a_row: int = 0
    received: int = 0

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
        counter: the counter of connections per host, which all objects of the session share.
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
        counter: HostConnectionCounter,
        retry_policy: RetryPolicy,
        on_event: OnEvent,
        *,
        size: int | None,
        proved: bool,
    ) -> None:
        self._expected_size = size
        self._open = open_
        self._sources = [_SegmentSource(request) for request in requests]
        self._first = self._sources[0]
        self._best = self._first
        self._sink = sink
        self._count = count
        self._counter = counter
        self._retry_policy = retry_policy
        self._on_event = on_event
        self._proved = proved
        self._version = Validators()
        self._segments: set[Segment] = set()
        self._ranges: Ranges = ()
        self._lacks_ranges = False
        self._error: ResolveError | None = None
        self.attempts = 0
        self.resumed_from = 0
        self.findings: list[Finding] = []

    @property
    def served(self) -> RetrievalRequest:
        """Return the request of the location that has sent the most bytes."""
        return max((self._first, *self._sources, self._best), key=lambda source: source.received).request

    async def run(self, clock: Clock) -> StreamingResponse | None:
        """Retrieve the complete object into the file, and return the response with the metadata.

        Returns None if the object must be retrieved over one connection. The file is then truncated at its
        first gap. Raises `ResolveError`; the received bytes stay in the file.
        """
        self._clock, self.attempts = clock, 1
        if (task := current()) is not None:
            task.follow(lambda: count_bytes(self._join_ranges()))
        facts = await self._request_facts(clock)
        if facts is None or not await self._prepare(facts.validators):
            self.attempts -= 1  # the later retrieval over one connection is the first attempt
            self._sink.truncate_at_gap()
            return None
        size = self._version.size
        assert size is not None
        self._plan = SegmentPlan(size, self._ranges, self._limit)
        self.resumed_from = count_bytes(self._ranges)
        self._first.failures_in_a_row = 0
        url, number = self._first.request.url.shown, self._first.request.transfer
        self._on_event(Started(url, 1, transfer=number))
        try:
            await first_of(self._fetch_all, self._watch)
        except ResolveError as error:
            self._on_event(Finished(url, error, transfer=number))
            raise error.tried(self.attempts) from error.__cause__
        finally:
            self._sink.record_ranges(self._join_ranges())
        self._report()
        self._on_event(Finished(url, None, transfer=number))
        if count_bytes(self._ranges) != size:
            self.attempts -= 1
            self._sink.truncate_at_gap()
            return None
        self._sink.end_segments(size)
        return facts

    @property
    def _limit(self) -> int:
        """Return the number of connections to open, within the limits per host."""
        maxima = [self._counter.max_connections(source.request.url) for source in self._sources]
        return min(self._count, sum(self._count if maximum is None else maximum for maximum in maxima))

    # -- before the first segment

    async def _request_facts(self, clock: Clock) -> StreamingResponse | None:
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

    async def _prepare(self, new: Validators) -> bool:
        """Prepare the file for segments; return whether a segmented download is useful and possible."""
        sink, size = self._sink, new.size
        if (
            size is None
            or self._expected_size not in (None, size)
            or not (self._proved or can_detect_change(new))
        ):
            return False
        ranges = sink.ranges
        if ranges and not (sink.known.agree(new) and is_same(sink.known, new, proved=self._proved)):
            return False
        if ranges and not sink.has_gaps:  # after a crash, the last bytes of the file may be lost
            ranges = join_ranges([(0, ranges[0][1] - OVERLAP)])
        stops = sink.has_gaps or any(source.stops for source in self._sources)
        if size - count_bytes(ranges) < 2 * segments.min_size(stops=stops) or (
            ranges and ranges[-1][1] > size
        ):
            return False
        self._version, self._ranges = new, ranges
        self._first.version = new
        await sink.begin_segments(new, ranges)
        return True

    # -- the segments

    async def _fetch_all(self) -> None:
        await run_all([self._run_connection] * self._limit)
        if self._plan and self._error is not None and not self._lacks_ranges:
            raise self._error

    async def _run_connection(self) -> None:
        """Retrieve segments over one connection until the object is complete or all locations have failed."""
        while (source := self._next_source()) is not None:
            if (piece := self._plan.take(stops=source.stops)) is None:
                return
            source.busy += 1
            self._counter.enter(source.request.url)
            try:
                await self._fetch_segment(source, piece)
                source.failures_in_a_row = 0
            except _SegmentsUnusable as unfit:
                self._exclude(source, str(unfit))
            except ResolveError as error:
                if isinstance(error, _FINAL) or self._clock.is_over:
                    raise
                if not await self._handle_failure(source, error):
                    return
            finally:
                source.busy -= 1
                self._counter.leave(source.request.url)

    def _next_source(self) -> _SegmentSource | None:
        """Return the location for the next connection.

        The method chooses the location with the fewest failures. Among locations with equally few failures,
        the method chooses the location with the fewest connections. If the host of a location has reached its
        connection limit, the location is excluded. The first connection of the download is always allowed.
        """
        is_idle = not any(source.busy for source in self._sources)
        usable = [source for source in self._sources if is_idle or self._counter.has_room(source.request.url)]
        return min(usable, key=lambda source: (source.failures_in_a_row, source.busy), default=None)

    async def _fetch_segment(self, source: _SegmentSource, piece: Range) -> None:
        begin, end = piece
        position = begin
        validators = source.version or Validators(size=self._version.size)
        options = replace(source.request.options, start=begin, stop=end, known=validators)
        request = source.request._replace(options=options)
        try:
            async with self._open(request, self._clock, self.attempts) as reply:
                self._check(source, reply, piece)
                with self._sink.segment(begin, end) as segment:
                    self._segments.add(segment)
                    try:
                        await reply.body.drain(segment)
                    finally:
                        position = segment.position
                        self._segments.discard(segment)
                        self._ranges = join_ranges([*self._ranges, (begin, position)])
                if position < end:
                    raise Truncated("a segment ended early", received=position - begin, expected=end - begin)
        except ResolveError:
            if position > begin:
                source.failures_in_a_row = 0
            raise
        finally:
            source.received += position - begin
            self._plan.give_back(position, end)

    def _check(self, source: _SegmentSource, reply: StreamingResponse, piece: Range) -> None:
        """Check that the response has the requested range of the same object."""
        new = reply.validators
        if source is self._first and not self._version.agree(new):
            raise Changed("the object has changed")
        if not (source.version or new).agree(new) or not is_same(self._version, new, proved=self._proved):
            raise _SegmentsUnusable("the location has another object")
        source.version = new
        if (reply.start, reply.stop) != piece:
            self._lacks_ranges = True
            raise _SegmentsUnusable("the server does not support ranges")

    # -- failures

    def _exclude(self, source: _SegmentSource, reason: str) -> None:
        if source in self._sources:
            self._sources = [other for other in self._sources if other is not source]
            if source.received > self._best.received:
                self._best = source
            self.findings.append(Finding("save:mirror", "warn", f"{source.request.url.shown}: {reason}"))

    async def _handle_failure(self, source: _SegmentSource, error: ResolveError) -> bool:
        """Return whether this connection requests another segment after a failure.

        If other connections to the location work, the failed connection is not opened again, because the
        server may limit the number of connections.
        """
        if source.busy > 1 and sum(other.busy for other in self._sources) > 1:
            self.attempts += 1
            source.failures_in_a_row += 1
            return False
        has_others = any(not other.failures_in_a_row for other in self._sources if other is not source)
        if not await self._wait(source, error, elsewhere=has_others):
            self._error = error
            self._lacks_ranges |= not (error.retryable or self._join_ranges())
            self._exclude(source, error.message)
        return True

    async def _wait(self, source: _SegmentSource, error: ResolveError, *, elsewhere: bool = False) -> bool:
        """Wait until the location may be used again (backoff), or return False if it is excluded.

        If another location can be used in the meantime (`elsewhere`), the call returns immediately.
        """
        source.failures_in_a_row += 1
        pause = self._retry_policy.pause(source.failures_in_a_row, error)
        has_data = bool(self._join_ranges())
        is_over = self._retry_policy.gives_up(source.failures_in_a_row, error, has_data=has_data)
        if is_over or pause > MAX_WAIT:
            return False
        self.attempts += 1
        if elsewhere:
            return True
        requested = source.request
        self._on_event(Retrying(requested.url.shown, error, pause, transfer=requested.transfer))
        try:
            with self._clock.limit_time():
                await self._clock.loop.sleep(pause)
        except TimedOut as over:
            words = f"{over.message}; the last try: {error.message}"
            raise TimedOut(words, url=error.url).with_setting(over.setting) from error
        return True

    # -- progress

    def _join_ranges(self) -> Ranges:
        self._ranges = join_ranges([*self._ranges, *((part.begin, part.position) for part in self._segments)])
        return self._ranges

    async def _watch(self) -> None:
        """Report progress periodically, start flushing to the disk, and record the completed ranges."""
        recorded, checks, flushed = self._ranges, 0, self._ranges
        while True:
            await self._clock.loop.sleep(_CHECK_INTERVAL)
            checks += 1
            ranges = self._join_ranges()
            self._report()
            if ranges != flushed:
                await self._sink.start_writeback()
                flushed = ranges
            if checks % _CHECKS_PER_RECORD == 0 and ranges != recorded:
                await self._sink.sync_ranges(ranges)
                recorded = ranges

    def _report(self) -> None:
        request, received = self._first.request, count_bytes(self._join_ranges())
        event = partial(Progress, request.url.shown, received, self._version.size, self.resumed_from)
        self._on_event(event(transfer=request.transfer))
