"""What is alive: a reply on its connection, with a body that can be taken once.

`LiveReply` is what `stream` hands to its caller: the facts of a `Reply`, its body under the limits of the
retrieval, and its listing as entries that say where they were found.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from protocols.contract import (
    Body,
    Entry,
    EntryReader,
    Finding,
    JsonValue,
    Kind,
    Referrer,
    Reply,
    Url,
    Validators,
)
from protocols.errors import Declined, InvalidUrl
from resolver import registry
from resolver.clock import Clock
from resolver.gate import Passage
from resolver.hops import Request
from resolver.listing import listing_octets
from resolver.records import spelling_of
from resolver.url import build, parse
from resolver.watching import WatchedBody, named


class _Pieces:
    """A listing in the pieces in which its octets come."""

    def __init__(self, body: Body, reader: EntryReader) -> None:
        self._body = body
        self._reader = reader
        self.ended = False

    async def next(self) -> Iterable[Entry]:
        """The entries that one more piece makes, `ended` when it was the last; made while they are taken."""
        try:
            return self._reader.feed(await anext(self._body))
        except StopAsyncIteration:
            self.ended = True
            return self._reader.finish()


class EntryStream:
    """The entries of a listing as its octets come, each with where it was found."""

    def __init__(self, body: Body, reader: EntryReader, found_in: Referrer) -> None:
        self._pieces = _Pieces(body, reader)
        self._found_in = found_in
        self._waiting: Iterator[Entry] = iter(())

    def __aiter__(self) -> EntryStream:
        return self

    async def __anext__(self) -> Entry:
        with named(self._found_in.url):
            return await self._next()

    async def _next(self) -> Entry:
        while True:
            for entry in self._waiting:
                return settle(entry, self._found_in)
            if self._pieces.ended:
                raise StopAsyncIteration
            self._waiting = iter(await self._pieces.next())


class LineStream:
    """A listing as lines, one an entry: as many in a piece as a piece of the body gave. Where they lead to
    is not looked at."""

    def __init__(self, body: Body, reader: EntryReader, url: str) -> None:
        self._pieces = _Pieces(body, reader)
        self._url = url

    def __aiter__(self) -> LineStream:
        return self

    async def __anext__(self) -> bytes:
        with named(self._url):
            return await self._next()

    async def _next(self) -> bytes:
        while not self._pieces.ended:
            if octets := listing_octets(await self._pieces.next()):
                return octets
        raise StopAsyncIteration


def settle(entry: Entry, found_in: Referrer) -> Entry:
    """An entry with where it was found, unless it says so itself. A link made of a peer's data counts only
    if our own parser takes it (S20), and without a password, for entries are shown and stored (S17);
    fetched without a person looking at it, it is `derived`."""
    referrer = entry.referrer or found_in
    try:
        url = None if entry.url is None else _link(entry.url)
    except InvalidUrl as error:
        extra = {**(entry.extra or {}), "unusable": error.message}
        return replace(entry, url=None, extra=extra, origin="derived", referrer=referrer)
    return replace(entry, url=url, origin="derived", referrer=referrer)


def _link(text: str) -> str:
    url = parse(text)
    if url.place("password") is not None:
        absent: dict[str, Any] = {"password": None}
        url = parse(build(replace(url, **absent)))
    return url.text


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
    def title(self) -> str | None:
        return self._reply.title

    @property
    def validators(self) -> Validators:
        """What tells this state of the object from another, for a later try to go on with it; nothing
        where the scheme knows of no such thing."""
        scheme = registry.find(self.request.url.scheme)
        if scheme is None or not scheme.resumes:
            return Validators()
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
        return (*spelling_of(self.request.url), *self._passage.findings, *self._reply.findings)

    @property
    def verified(self) -> tuple[str, ...]:
        return tuple(sorted(self._reply.verified))

    @property
    def lists(self) -> bool:
        """Is the body a listing, and nothing else?"""
        return self._reply.listing is not None and self._reply.records is None

    def entries(self) -> EntryStream:
        """The entries of a listing. Raises `Declined` when the URL names no listing."""
        return EntryStream(*self._listing(), Referrer(self.url, self.peer))

    def lines(self) -> LineStream:
        """The same as lines for people, in UTF-8."""
        return LineStream(*self._listing(), self.url)

    def _listing(self) -> tuple[Body, EntryReader]:
        if self._reply.listing is None:
            article = "an" if self.kind.value[0] in "aeiou" else "a"
            raise Declined(
                f"this is {article} {self.kind.value} and not a listing; cat shows it", url=self.url
            )
        return self.body if self._reply.records is None else self._reply.records, self._reply.listing

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
