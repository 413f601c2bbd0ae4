"""One retrieval, from a judged URL to the end of its body.

This is the one place where a living `Reply` is bounded and watched: the time for all of it, the
octets of a body, progress, and the URL on every error. A handler does none of that. What comes out is
`LiveReply`, which `stream` hands to its caller, and which `session` turns into finished values.

No cancel scope stays open across a yield: each is opened and closed inside one call.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import replace
from datetime import datetime
from types import TracebackType

import trio

from protocols.contract import (
    Body,
    Entry,
    EntryReader,
    Finding,
    JsonValue,
    Kind,
    Moved,
    Referrer,
    Reply,
    Sink,
    Url,
)
from protocols.errors import (
    Declined,
    InvalidUrl,
    LimitExceeded,
    Refused,
    ResolveError,
    TimedOut,
    UnsupportedScheme,
)
from resolver import registry
from resolver.events import Finished, OnEvent, Progress, Started, Warned
from resolver.gate import Door, Passage
from resolver.gateways import through_gateway
from resolver.hops import Request as Request
from resolver.hops import next_request
from resolver.url import parse


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
    """A body under the limits of its retrieval. Iterate it or drain it; one of the two, once."""

    def __init__(
        self, body: Body, url: str, clock: Clock, most: int | None, expected: int | None, on_event: OnEvent
    ) -> None:
        self._body = body
        self._url = url
        self._clock = clock
        self._most = most
        self._expected = expected
        self._on_event = on_event
        self.received = 0

    def __aiter__(self) -> WatchedBody:
        return self

    async def __anext__(self) -> bytes:
        with named(self._url), self._clock.bound():
            octets = await anext(self._body)
        self._count(len(octets))
        return octets

    async def drain(self, sink: Sink) -> int:
        """Move what is left into `sink`, in bulk where no limit has to be watched."""
        before = self.received
        if self._most is None:
            with named(self._url), self._clock.bound():
                self._count(await self._body.drain(sink))
        else:
            async for octets in self:
                sink.write(octets)
        return self.received - before

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
    """An entry with where it was found. A link made of a peer's data counts only if our own parser
    takes it (S20); fetched without a person looking at it, it is `derived`."""
    try:
        url = None if entry.url is None else parse(entry.url).text
    except InvalidUrl:
        url = None
    return replace(entry, url=url, origin="derived", referrer=found_in)


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
    def modified(self) -> datetime | None:
        return self._reply.modified

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
        return self._passage.peer

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


class Retrieval:
    """An async context manager: judge, open, hand over a `LiveReply`; leaving it closes everything.

    Where the peer says that the object has moved, each hop is judged and opened like a retrieval of its
    own, on the one clock.
    """

    def __init__(self, door: Door, request: Request, *, most: int | None) -> None:
        self._door = door
        self._asked = request
        self._request = request
        self._earlier: list[Url] = []
        self._most = most
        self._opened: AbstractAsyncContextManager[Reply] | None = None

    async def __aenter__(self) -> LiveReply:
        clock = Clock(self._door.limits.total)
        self._door.on_event(Started(self._asked.url.shown, 1))
        try:
            return await self._open(clock)
        except BaseException as error:
            self._finish(error)
            raise

    async def _open(self, clock: Clock) -> LiveReply:
        while True:
            with named(self._request.url.shown), followed(bool(self._earlier)):
                passage, reply = await self._open_one(clock)
                if reply.moved is None:
                    return await self._bounded(passage, reply, clock)
                await self._close()
                self._request = self._next(reply.moved, passage.peer)

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
        opened = scheme.open(request.url, passage)
        with clock.bound():
            reply = await opened.__aenter__()
        self._opened = opened
        self._warn(passage, told)
        return passage, reply

    def _admit(self, request: Request) -> Passage:
        return self._door.admit(
            request.url, origin=request.origin, referrer=request.referrer, options=request.options
        )

    def _next(self, moved: Moved, peer: str | None) -> Request:
        policy, hops = self._door.policy, self._door.limits.hops
        following = next_request(self._request, moved, peer, self._earlier, policy, hops)
        self._earlier.append(self._request.url)
        return following

    async def _bounded(self, passage: Passage, reply: Reply, clock: Clock) -> LiveReply:
        if self._most is not None and reply.size is not None and reply.size > self._most:
            await self._close()
            raise LimitExceeded("body", f"{reply.size} octets are announced, the limit is {self._most}")
        url = self._request.url.shown
        body = WatchedBody(reply.body, url, clock, self._most, reply.size, self._door.on_event)
        return LiveReply(self._request, reply, passage, body, clock, self._asked.url, tuple(self._earlier))

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
        try:
            if self._opened is not None:
                with named(self._request.url.shown):
                    await self._opened.__aexit__(kind, error, trace)
        finally:
            self._finish(error)

    def _finish(self, error: BaseException | None) -> None:
        self._door.on_event(Finished(self._asked.url.shown, error if isinstance(error, Exception) else None))


@contextmanager
def named(url: str) -> Iterator[None]:
    """Every error of ours that passes says which URL it is about."""
    try:
        yield
    except ResolveError as error:
        if error.url is None:
            error.url = url
        raise


@contextmanager
def followed(hop: bool) -> Iterator[None]:
    """Whatever rule stops a hop, what failed is a redirect: exit status 15."""
    try:
        yield
    except (Refused, UnsupportedScheme) as error:
        if hop:
            error.exit_code = 15
        raise


async def collect(body: AsyncIterator[bytes]) -> bytes:
    """All octets of a bounded body."""
    pieces = [octets async for octets in body]
    return b"".join(pieces)
