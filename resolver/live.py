"""What is alive: a reply on its connection, with a body that can be taken once.

Here a living `Reply` is bounded and watched: the time for all of it, the octets of a body, progress, and
the URL on every error. A handler does none of that. `LiveReply` is what `stream` hands to its caller.

No cancel scope stays open across a yield: each is opened and closed inside one call.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime

import trio

from protocols.contract import (
    Body,
    Entry,
    EntryReader,
    Finding,
    JsonValue,
    Kind,
    Referrer,
    Reply,
    Sink,
    Url,
    Validators,
)
from protocols.errors import Declined, InvalidUrl, LimitExceeded, ResolveError, TimedOut
from resolver.events import OnEvent, Progress
from resolver.gate import Passage
from resolver.hops import Request
from resolver.url import parse

_SKIPPED_AT_ONCE = 1_048_576


class Clock:
    """The time limit for all of a retrieval: one deadline, applied to one call at a time."""

    def __init__(self, total: float | None) -> None:
        self._total = total
        self.started = trio.current_time()
        self._deadline = float("inf") if total is None else self.started + total

    @property
    def elapsed(self) -> float:
        return trio.current_time() - self.started

    @contextmanager
    def bound(self) -> Iterator[None]:
        """Whatever is awaited inside ends at the deadline with `TimedOut`."""
        with trio.move_on_at(self._deadline) as scope:
            yield
        if scope.cancelled_caught:
            raise TimedOut(f"not finished within the limit of {self._total:g} s in all")


class WatchedBody:
    """A body under the limits of its retrieval. Iterate it, or drain it, or take some and drain the rest;
    once. `received` counts from the beginning of the object, wherever the body begins."""

    def __init__(self, reply: Reply, url: str, clock: Clock, most: int | None, on_event: OnEvent) -> None:
        self._body = reply.body
        self._url = url
        self._clock = clock
        self._most = most
        self._expected = reply.size
        self._on_event = on_event
        self._ahead = b""
        self.received = reply.start

    def __aiter__(self) -> WatchedBody:
        return self

    async def __anext__(self) -> bytes:
        octets, self._ahead = self._ahead, b""
        if octets:
            return octets
        with named(self._url), self._clock.bound():
            octets = await anext(self._body)
        self._count(len(octets))
        return octets

    async def take(self, count: int) -> bytes:
        """The next `count` octets; fewer only when there are no more."""
        pieces: list[bytes] = []
        while count > 0:
            octets = await anext(self, b"")
            if not octets:
                break
            pieces.append(octets[:count])
            self._ahead = octets[count:]
            count -= len(pieces[-1])
        return b"".join(pieces)

    async def skip(self, count: int) -> None:
        """Pass over the next `count` octets, without keeping them."""
        while count > 0 and (octets := await self.take(min(count, _SKIPPED_AT_ONCE))):
            count -= len(octets)

    async def drain(self, sink: Sink) -> int:
        """Move what is left into `sink`, in bulk where no limit has to be watched; how many octets."""
        if self._most is not None:
            return await self._write_all(sink)
        ahead, self._ahead = self._ahead, b""
        sink.write(ahead)
        with named(self._url), self._clock.bound():
            moved = await self._body.drain(sink)
        self._count(moved)
        return len(ahead) + moved

    async def _write_all(self, sink: Sink) -> int:
        written = 0
        async for octets in self:
            sink.write(octets)
            written += len(octets)
        return written

    def _count(self, octets: int) -> None:
        self.received += octets
        if self._most is not None and self.received > self._most:
            raise LimitExceeded(
                "body",
                f"the body is larger than the limit of {self._most} octets (--max-size)",
                url=self._url,
            )
        self._on_event(Progress(self._url, self.received, self._expected))


class EntryStream:
    """The entries of a listing as its octets come, each with where it was found."""

    def __init__(self, body: Body, reader: EntryReader, found_in: Referrer) -> None:
        self._body = body
        self._reader = reader
        self._found_in = found_in
        self._waiting: Iterator[Entry] = iter(())
        self._ended = False

    def __aiter__(self) -> EntryStream:
        return self

    async def __anext__(self) -> Entry:
        while True:
            for entry in self._waiting:
                return settle(entry, self._found_in)
            if self._ended:
                raise StopAsyncIteration
            try:
                self._waiting = iter(self._reader.feed(await anext(self._body)))
            except StopAsyncIteration:
                self._ended = True
                self._waiting = iter(self._reader.finish())


def settle(entry: Entry, found_in: Referrer) -> Entry:
    """An entry with where it was found, unless it says so itself. A link made of a peer's data counts only
    if our own parser takes it (S20); fetched without a person looking at it, it is `derived`."""
    try:
        url = None if entry.url is None else parse(entry.url).text
    except InvalidUrl:
        url = None
    return replace(entry, url=url, origin="derived", referrer=entry.referrer or found_in)


class LiveReply:
    """A reply whose connection still lives: facts, and a body that can be taken once.

    `findings` and `verified` are complete only when the body has ended.
    """

    def __init__(
        self,
        request: Request,
        reply: Reply,
        passage: Passage,
        body: WatchedBody,
        clock: Clock,
        asked: Url,
        earlier: tuple[Url, ...],
    ) -> None:
        self.request = request
        self._asked = asked
        self._earlier = earlier
        self.body = body
        self._reply = reply
        self._passage = passage
        self._clock = clock

    @property
    def url(self) -> str:
        return self.request.url.shown

    @property
    def requested_url(self) -> str:
        """What was asked for, redacted: before any hop, and before a gateway."""
        return self._asked.shown

    @property
    def chain(self) -> tuple[str, ...]:
        """The URLs that led here, redacted: what was asked for, then each that had moved."""
        return tuple(url.shown for url in self._earlier)

    @property
    def kind(self) -> Kind:
        return self._reply.kind

    @property
    def media_type(self) -> str | None:
        return self._reply.media_type

    @property
    def charset(self) -> str | None:
        return self._reply.charset

    @property
    def size(self) -> int | None:
        return self._reply.size

    @property
    def start(self) -> int:
        """The octet of the object at which the body begins."""
        return self._reply.start

    @property
    def modified(self) -> datetime | None:
        return self._reply.modified

    @property
    def validators(self) -> Validators:
        """What tells this state of the object from another."""
        return Validators(size=self._reply.size, modified=self._reply.modified, etag=self._reply.etag)

    @property
    def points(self) -> bool:
        """Is this no object but a link or a service, which has no octets of its own?"""
        return self._reply.kind in (Kind.LINK, Kind.SERVICE)

    @property
    def meta(self) -> tuple[tuple[str, str], ...]:
        return self._reply.meta

    @property
    def target(self) -> str | None:
        return self._reply.target

    @property
    def extra(self) -> Mapping[str, JsonValue] | None:
        return self._reply.extra

    @property
    def peer(self) -> str | None:
        """The numeric address the octets come from; None where nothing was connected to."""
        return self._reply.peer or self._passage.peer

    @property
    def elapsed(self) -> float:
        return self._clock.elapsed

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The URL's own, then the policy's warnings, then oddities of the reply."""
        spelling = (Finding(name, "allow", "spelling of the URL") for name in self.request.url.findings)
        return (*spelling, *self._passage.findings, *self._reply.findings)

    @property
    def verified(self) -> tuple[str, ...]:
        return tuple(sorted(self._reply.verified))

    @property
    def lists(self) -> bool:
        """Is the body a listing, and nothing else?"""
        return self._reply.listing is not None and self._reply.records is None

    def entries(self) -> EntryStream:
        """The entries of a listing. Raises `Declined` when the URL names no listing."""
        if self._reply.listing is None:
            raise Declined(f"this is a {self.kind.value} and not a listing", url=self.url)
        body = self.body if self._reply.records is None else self._reply.records
        return EntryStream(body, self._reply.listing, Referrer(self.url, self.peer))

    def entries_in(self, content: bytes) -> Iterator[Entry]:
        """The entries of a listing whose octets have all been collected."""
        assert self._reply.listing is not None
        found_in = Referrer(self.url, self.peer)
        for batch in (self._reply.listing.feed(content), self._reply.listing.finish()):
            for entry in batch:
                yield settle(entry, found_in)

    def untouched(self, content: bytes) -> bytes | None:
        """The body before the protocol's quoting was undone, made again from the whole of it."""
        return None if self._reply.untouched is None else self._reply.untouched(content)


@contextmanager
def named(url: str) -> Iterator[None]:
    """Every error of ours that passes says which URL it is about."""
    try:
        yield
    except ResolveError as error:
        if error.url is None:
            error.url = url
        raise


async def collect(body: AsyncIterator[bytes]) -> bytes:
    """All octets of a bounded body."""
    pieces = [octets async for octets in body]
    return b"".join(pieces)
