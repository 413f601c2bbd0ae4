"""Live replies on their connections, with a body that can be read once, and the sinks of its bytes.

`StreamingResponse` is the value of `stream`: the facts of a `Reply`, its body under the limits of the
retrieval, and its listing as entries that carry their place of origin.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Protocol, TypeAlias

from protocols.contract import (
    Body,
    BuiltUrl,
    Entry,
    EntryReader,
    Facts,
    Finding,
    Limits,
    Referrer,
    Reply,
    Sink,
    Url,
    Validators,
    facts_of,
)
from protocols.errors import Declined, InvalidUrl, ResolveError
from protocols.location import Kind
from protocols.text import instant
from resolver.loops import running
from resolver.network.clock import Clock
from resolver.network.mask import Masked
from resolver.network.url_gate import UrlGate
from resolver.transfer.limits import LimitedBody, locate_error
from resolver.transfer.redirects import RetrievalRequest
from resolver.url.parsing import LONGEST, build, parse
from resolver.url.tracebacks import trim_traceback

# A listing as text: one entry a line, whatever the scheme.
#
# A name may hold octets that would end its line; CR and LF are written `\x0d` and `\x0a`, so that a line is
# always one entry. Articles are shown with their number and subject. A long line has what is known of the
# entry before its name: kind, size, time, the types it can be had in or what may be done with it, and its
# number in the listing; a dash for what is not, and `~` before what the server only rounded or had by a
# clock of no known zone.

#: What FTP says of what may be done with an entry, and how long that is: facts of MLSD, of which the
#: first has seven letters for a directory and Pure-FTPd has none, and the mode of LIST.
_RIGHTS = (("perm", 7), ("unix.mode", 4), ("mode", 10))
#: What makes the line of an entry.
Line: TypeAlias = Callable[[Entry], str]


def listing_line(entry: Entry) -> str:
    """The line for one entry, without its line end."""
    shown = entry.name
    if entry.kind is Kind.ARTICLE and entry.title:
        shown = f"{shown} {entry.title}"
    return shown.replace("\r", "\\x0d").replace("\n", "\\x0a")


def long_line(entry: Entry, number: int, name: str) -> str:
    """The line with what is known of the entry, which has that number, before its `name` as it is shown."""
    may = _rights(entry) or _types(entry)
    known = f"{entry.kind.value:<9} {_size(entry):>12}  {_moment(entry):<20}  {may:<4}"
    return f"{known} {number:>4}  {name}"


def _size(entry: Entry) -> str:
    return _describe_entry(entry, "size_text") if entry.size is None else f"{entry.size}"


def _moment(entry: Entry) -> str:
    return instant(entry.modified) or _describe_entry(entry, "modified_local")


def _describe_entry(entry: Entry, name: str) -> str:
    """What a server said loosely; a dash where it said nothing."""
    said = (entry.extra or {}).get(name)
    return "~" + _one_word(said.replace(" ", "")) if isinstance(said, str) and said else "-"


def _rights(entry: Entry) -> str:
    """In a column as wide as all of its kind need, so that names begin below one another."""
    extra = entry.extra or {}
    for name, columns in _RIGHTS:
        if isinstance(said := extra.get(name), str) and said:
            return _one_word(said).ljust(columns)
    return ""


def _types(entry: Entry) -> str:
    """Those that a WAIS server has a document in; a menu's one character; else none are known: FTP's fact of
    that name says no more than the kind does."""
    extra = entry.extra or {}
    character = extra.get("type")
    types = extra.get("types", character if isinstance(character, str) and len(character) == 1 else None)
    words = types if isinstance(types, list) else [types]
    return ",".join(_one_word(word) for word in words if isinstance(word, str) and word) or "-"


def _one_word(word: str) -> str:
    """As a column can have it: a blank or a line end is a server's joke."""
    return "".join(character if character.isprintable() and character != " " else "?" for character in word)


def listing_octets(entries: Iterable[Entry], line: Line = listing_line) -> bytes:
    """Lines of a listing as UTF-8; octets that were no UTF-8 come out as they were."""
    return "".join(f"{line(entry)}\n" for entry in entries).encode("utf-8", "surrogateescape")


#: Octets of a listing that are read, and entries that are made of them, before others get their turn: a
#: millisecond or two of work, for many short lines as for a few long ones.
OCTETS_AT_ONCE = 4_096
ENTRIES_AT_ONCE = 32

#: Lets others have their turn, and ends what has taken too long.
Pause: TypeAlias = "Callable[[], Awaitable[None]]"


class _Batches:
    """A listing, a few entries at a time, as its octets come. `at_hand`: more can be had without waiting
    for the peer."""

    def __init__(self, body: Body, reader: EntryReader, pause: Pause) -> None:
        self._body = body
        self._reader = reader
        self._pause = pause
        self._octets = memoryview(b"")
        self._made: Iterator[Entry] = iter(())
        self._failure: ResolveError | None = None
        self._ended = False
        self.at_hand = False

    async def read_next(self, url: str) -> list[Entry]:
        """Some entries, made now; none only behind the last. An error says that it is about this URL."""
        try:
            return await self._read_next()
        except ResolveError as error:
            raise trim_traceback(locate_error(error, url)) from error.__cause__

    async def _read_next(self) -> list[Entry]:
        while True:
            await self._pause()
            if entries := self._take():
                self.at_hand = bool(self._octets) or len(entries) == ENTRIES_AT_ONCE
                return entries
            if self._failure is not None:
                raise self._failure
            if self._ended:
                return entries
            await self._read_on()

    def _take(self) -> list[Entry]:
        """What went well before something went wrong is handed on first."""
        entries: list[Entry] = []
        try:
            entries.extend(islice(self._made, ENTRIES_AT_ONCE))
        except ResolveError as error:
            self._failure = error
        return entries

    async def _read_on(self) -> None:
        try:
            if not self._octets:
                self._octets = memoryview(await anext(self._body))
        except StopAsyncIteration:
            self._ended = True
            self._made = iter(self._reader.finish())
            return
        self._made = iter(self._reader.feed(bytes(self._octets[:OCTETS_AT_ONCE])))
        self._octets = self._octets[OCTETS_AT_ONCE:]


class _Collected:
    """The octets of a listing that are here already."""

    def __init__(self, octets: bytes) -> None:
        self._octets = octets

    def __aiter__(self) -> _Collected:
        return self

    async def __anext__(self) -> bytes:
        octets, self._octets = self._octets, b""
        if not octets:
            raise StopAsyncIteration
        return octets

    async def drain(self, sink: Sink) -> int:
        octets, self._octets = self._octets, b""
        sink.write(octets)
        return len(octets)


class EntryStream:
    """The entries of a listing as its octets come, each with where it was found. `at_hand`: may the next
    one be had without waiting for the peer?"""

    def __init__(
        self, body: Body, reader: EntryReader, found_in: Referrer, pause: Pause | None = None
    ) -> None:
        self._batches = _Batches(body, reader, pause or running().checkpoint)
        self._found_in = found_in
        self._waiting: Iterator[Entry] = iter(())
        self._left = 0

    @property
    def at_hand(self) -> bool:
        return self._left > 0 or self._batches.at_hand

    def __aiter__(self) -> EntryStream:
        return self

    async def __anext__(self) -> Entry:
        for entry in self._waiting:
            self._left -= 1
            return settle(entry, self._found_in)
        entries = await self._batches.read_next(self._found_in.url)
        if not entries:
            raise StopAsyncIteration
        self._waiting, self._left = iter(entries), len(entries)
        return await anext(self)


class LineStream:
    """A listing as lines, one an entry: some in a piece, at most as many as a piece of the body gave. Where
    they lead to is not looked at."""

    def __init__(
        self,
        body: Body,
        reader: EntryReader,
        url: str,
        pause: Pause | None = None,
        line: Line = listing_line,
    ) -> None:
        self._batches = _Batches(body, reader, pause or running().checkpoint)
        self._url = url
        self._line = line

    @property
    def at_hand(self) -> bool:
        """May the next piece be had without waiting for the peer?"""
        return self._batches.at_hand

    def __aiter__(self) -> LineStream:
        return self

    async def __anext__(self) -> bytes:
        entries = await self._batches.read_next(self._url)
        if not entries:
            raise StopAsyncIteration
        return listing_octets(entries, self._line)


def settle(entry: Entry, found_in: Referrer) -> Entry:
    """An entry with where it was found, unless it says so itself. A link made of a peer's data counts only
    if our own parser takes it (S20), and without a password, for entries are shown and stored (S17);
    fetched without a person looking at it, it is `derived`."""
    referrer = entry.referrer or found_in
    if isinstance(entry.url, BuiltUrl) and len(entry.url) <= LONGEST:
        return _vouch_entry(entry, referrer)
    try:
        url = None if entry.url is None else _link(entry.url)
    except InvalidUrl as error:
        extra = {**(entry.extra or {}), "unusable": error.message}
        return replace(entry, url=None, extra=extra, origin="derived", referrer=referrer)
    return replace(entry, url=url, origin="derived", referrer=referrer)


def _vouch_entry(entry: Entry, referrer: Referrer) -> Entry:
    """What `replace` would make, in a fifth of the time: a listing may have millions."""
    return Entry(
        name=entry.name,
        url=str(entry.url),
        kind=entry.kind,
        size=entry.size,
        modified=entry.modified,
        title=entry.title,
        raw=entry.raw,
        extra=entry.extra,
        referrer=referrer,
    )


def _link(text: str) -> str:
    url = parse(text)
    if url.place("password") is not None:
        absent: dict[str, Any] = {"password": None}
        url = parse(build(replace(url, **absent)))
    return url.text


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class LiveFacts(Facts):
    """What is known of a reply whose connection still lives, however its body is taken.

    Every text of it is `Masked`, so what is made of it may be shown and written down. `findings` and
    `verified` are complete only when the body has ended.
    """

    media_type: Masked | None = None
    charset: Masked | None = None
    etag: Masked | None = None
    title: Masked | None = None
    meta: tuple[tuple[Masked, Masked], ...] = ()
    target: Masked | None = None
    request: RetrievalRequest
    _reply: Reply
    _url_gate: UrlGate
    _clock: Clock
    _requested: Url
    _earlier: tuple[Url, ...]
    _peers: tuple[str | None, ...] = ()

    @property
    def url(self) -> Masked:
        shown = self.request.url.shown
        return self._url_gate.mask.hide_in_text(shown) if self._earlier else Masked(shown)

    @property
    def requested_url(self) -> Masked:
        """What was asked for, redacted: before any hop, and before a gateway."""
        return Masked(self._requested.shown)

    @property
    def chain(self) -> tuple[Masked, ...]:
        """The URLs that led here, redacted: what was asked for, then each that had moved."""
        if not self._earlier:
            return ()
        first, *others = [url.shown for url in self._earlier]
        return (Masked(first), *map(self._url_gate.mask.hide_in_text, others))

    @property
    def addresses(self) -> tuple[str | None, ...]:
        """The numeric address connected to for each of `chain`, and then for `url`."""
        return (*self._peers, self.peer)

    @property
    def start(self) -> int:
        """The octet of the object at which the body begins."""
        return self._reply.start

    @property
    def stop(self) -> int | None:
        """The octet at which it ends, where a part was asked for and this is it."""
        return self._reply.stop

    @property
    def validators(self) -> Validators:
        """What tells this state of the object from another; nothing where its scheme has no such thing."""
        row = self._url_gate.row
        known = row is not None and row.resumes
        return Validators(size=self.size, modified=self.modified, etag=self.etag) if known else Validators()

    @property
    def unchanged(self) -> bool:
        """Is there no body, for the caller's copy is no older (`Options.held`)?"""
        return self._reply.unchanged

    @property
    def failure(self) -> ResolveError | None:
        """The error that the body explains, where it is that of a refusal (`Options.refusals`)."""
        failure = self._reply.failure
        return None if failure is None else failure.hiding(self._url_gate.mask.hide_in_text)

    @property
    def points(self) -> bool:
        """Is this no object but a link or a service, which has no octets of its own?"""
        return self.kind in (Kind.LINK, Kind.SERVICE)

    @property
    def peer(self) -> str | None:
        """The numeric address the octets come from; None where nothing was connected to."""
        return self._reply.peer or self._url_gate.peer

    @property
    def source(self) -> str | None:
        """The address by which it is judged what this leads to (S08): the peer's, unless behind a proxy."""
        return self._reply.peer or self._url_gate.source

    @property
    def limits(self) -> Limits:
        """Those that hold where it comes from."""
        return self._url_gate.limits

    @property
    def proxy(self) -> str | None:
        """The URL of the proxy it came through, without user and password."""
        return self._url_gate.proxy

    @property
    def elapsed(self) -> float:
        return self._clock.elapsed

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The URL's own, then the policy's warnings, then oddities of the reply."""
        hide = self._url_gate.mask.hide_in_text
        found = self.request.url.spelling
        for reported in (self._url_gate.findings, self._reply.findings):
            for finding in reported:
                found += (finding._replace(detail=hide(finding.detail)),)
        return found

    @property
    def verified(self) -> tuple[str, ...]:
        return tuple(sorted(self._reply.verified))

    @property
    def lists(self) -> bool:
        """Is the body a listing, and nothing else?"""
        return self.has_entries and not self._reply.legible

    @property
    def has_entries(self) -> bool:
        """Can the body be read as entries, whatever else it is?"""
        return self._reply.listing is not None and self._reply.records is None and not self._is_raw

    @property
    def _is_raw(self) -> bool:
        return self.request.options.raw


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class StreamingResponse(LiveFacts):
    """A reply whose connection still lives: facts, and a body that can be taken once.

    Examples:
        >>> async with resolver.stream("http://127.0.0.1:8920/about.txt") as reply:
        ...     print(reply.status, await reply.body.take(6))
        200 b'A text'
    """

    body: LimitedBody

    def entries(self) -> EntryStream:
        """The entries of a listing. Raises `Declined` when the URL names no listing."""
        return EntryStream(*self._listing(), Referrer(self.url, self.source), self._clock.pause)

    def lines(self, line: Line = listing_line) -> LineStream:
        """The same as lines for people, in UTF-8, each as `line` makes it."""
        return LineStream(*self._listing(), self.url, self._clock.pause, line)

    def _listing(self) -> tuple[Body, EntryReader]:
        if self._reply.listing is None or self._is_raw:
            if self._is_raw:
                raise Declined("the octets were asked for as they came, and not the entries", url=self.url)
            article = "an" if self.kind.value[0] in "aeiou" else "a"
            raise Declined(
                f"this is {article} {self.kind.value} and not a listing; cat shows it", url=self.url
            )
        records = self._reply.records
        return self.body if records is None else _Collected(records), self._reply.listing

    def entries_in(self, content: bytes) -> EntryStream:
        """The entries of a listing whose octets have all been collected."""
        assert self._reply.listing is not None
        found_in = Referrer(self.url, self.source)
        return EntryStream(_Collected(content), self._reply.listing, found_in, self._clock.pause)

    def raw(self, content: bytes) -> bytes | None:
        """The body before the protocol's quoting was undone, made again from the whole of it."""
        return None if self._reply.raw is None else self._reply.raw(content)

    def finished(self, *findings: Finding, proved: Iterable[str] = ()) -> dict[str, Any]:
        """What a finished value has of this, by the names of its members: the facts and how they came, with
        what was found and proved besides."""
        return {
            **facts_of(self),
            "url": (url := self.url),
            "requested_url": url if self._requested is self.request.url else self.requested_url,
            "findings": (*self.findings, *findings),
            "verified": tuple(sorted({*self._reply.verified, *proved})),
            "elapsed": self._clock.elapsed,
            "peer": self.peer,
            "proxy": self._url_gate.proxy,
            "chain": self.chain if self._earlier else (),
        }


# Sinks of bytes: a file, memory, standard output. Each counts its bytes and knows the last ones, so that
# another try can resume behind them.

#: What is known where nothing is.
NOTHING = Validators()


class Store(Protocol):
    """Where octets stay. `position` counts them; `known` describes the object they are of. What is
    `final` is out and cannot be taken back."""

    final: bool

    @property
    def known(self) -> Validators: ...

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


class MemoryStore:
    """Octets kept in memory, for a body that is bounded."""

    final = False

    def __init__(self) -> None:
        self.known = NOTHING
        self.position = 0
        self._octets = bytearray()

    def tail(self, count: int) -> bytes:
        return bytes(self._octets[-count:]) if count else b""

    async def remember(self, known: Validators) -> None:
        self.known = known

    def restart(self) -> None:
        self._octets.clear()
        self.position, self.known = 0, NOTHING

    async def fill(self, body: AsyncIterator[bytes]) -> None:
        """Take all that is left of a body."""
        async for octets in body:
            self._octets += octets
            self.position += len(octets)

    def content(self) -> bytes:
        """All of it; the memory is empty afterwards."""
        octets, self._octets, self.position = self._octets, bytearray(), 0
        return bytes(octets)


def octets_to_keep(reply: StreamingResponse) -> AsyncIterator[bytes]:
    """What a file or standard output gets: the lines of a listing, else the body as it is."""
    return reply.lines() if reply.lists else reply.body


async def leave(reply: StreamingResponse) -> None:
    """Only the facts are wanted."""
