"""Streaming responses with a body that is read once from an open connection, and stores for the bytes.

`StreamingResponse` is the value of `Resolver.stream`. A `StreamingResponse` has the metadata of the response,
a body with the limits of the retrieval, and the entries of a listing with their provenance.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Protocol, Self, TypeAlias

from protocols.contract import (
    BuiltUrl,
    Entry,
    EntryReader,
    Facts,
    Finding,
    Limits,
    Referrer,
    Reply,
    Url,
    Validators,
)
from protocols.errors import Declined, InvalidUrl, ResolveError
from protocols.location import Kind
from protocols.options import NOTHING
from protocols.text import Masked, instant
from resolver.loops import running
from resolver.network.clock import Clock
from resolver.network.url_gate import UrlGate
from resolver.transfer.limits import LimitedBody, locate_error
from resolver.transfer.redirects import RetrievalRequest
from resolver.url.parsing import MAX_URL, build, parse, redact
from resolver.url.tracebacks import trim_traceback

# A listing as text with one line per entry, in the same format for all schemes.
#
# CR and LF in a name are escaped as `\x0d` and `\x0a`. Therefore each entry is exactly one line. A news
# article is shown with its number and subject. A line in long format has additional columns before the name:
# kind, size, time, types or permissions, and the position in the listing. A dash means that the value is
# unknown. A `~` before a size means that the server rounded the size, and a `~` before a time means that the
# time zone is unknown.

#: The permissions of an FTP entry, from MLSD facts and from the mode of LIST. The number is the width of the
#: column in characters. `perm` has 7 letters for a directory. Pure-FTPd does not send `perm`.
_RIGHTS = (("perm", 7), ("unix.mode", 4), ("mode", 10))
#: A function that formats an entry of a listing as one line.
Line: TypeAlias = Callable[[Entry], str]


def listing_line(entry: Entry) -> str:
    """Format an entry as one line in short format, without a line end."""
    shown = entry.name
    if entry.kind is Kind.ARTICLE and entry.title:
        shown = f"{shown} {entry.title}"
    return shown.replace("\r", "\\x0d").replace("\n", "\\x0a")


def long_line(entry: Entry, number: int, name: str) -> str:
    """Format an entry as one line in long format.

    The line has the metadata, `number`, and the escaped `name`.
    """
    size = _describe_entry(entry, "size_text") if entry.size is None else f"{entry.size}"
    moment = instant(entry.modified) or _describe_entry(entry, "modified_local")
    rights = _rights(entry) or _types(entry)
    facts = f"{entry.kind.value:<9} {size:>12}  {moment:<20}  {rights:<4}"
    return f"{facts} {number:>4}  {name}"


def _describe_entry(entry: Entry, name: str) -> str:
    """Return a size or time for a listing.

    An inexact value has the prefix `~`, and an unknown value is a dash.
    """
    value = (entry.extra or {}).get(name)
    return "~" + _one_word(value.replace(" ", "")) if isinstance(value, str) and value else "-"


def _rights(entry: Entry) -> str:
    """Return the permissions of an entry, padded to the column width to align the names."""
    extra = entry.extra or {}
    for name, columns in _RIGHTS:
        if isinstance(value := extra.get(name), str) and value:
            return _one_word(value).ljust(columns)
    return ""


def _types(entry: Entry) -> str:
    """Return the types of a WAIS document, the one-character type of a menu entry, or a dash.

    The `type` fact of an FTP entry is ignored, because it repeats the kind of the entry.
    """
    extra = entry.extra or {}
    character = extra.get("type")
    types = extra.get("types", character if isinstance(character, str) and len(character) == 1 else None)
    words = types if isinstance(types, list) else [types]
    return ",".join(_one_word(word) for word in words if isinstance(word, str) and word) or "-"


def _one_word(word: str) -> str:
    """Return server text as one column: spaces and unprintable characters become `?`."""
    return "".join(character if character.isprintable() and character != " " else "?" for character in word)


def listing_octets(entries: Iterable[Entry], line: Line = listing_line) -> bytes:
    """Return the lines of a listing as UTF-8, with bytes that are not valid UTF-8 unchanged."""
    return "".join(f"{line(entry)}\n" for entry in entries).encode("utf-8", "surrogateescape")


#: The number of bytes that are parsed, and the number of entries that are created, before other tasks can
#: run. Parsing the bytes takes 1 to 2 ms, and so does creating the entries.
OCTETS_AT_ONCE = 4_096
ENTRIES_AT_ONCE = 32

#: A function that lets other tasks run (checkpoint), and raises an error if the deadline has passed.
Pause: TypeAlias = "Callable[[], Awaitable[None]]"


class _ListingStream:
    """An async iterator over a listing, which is parsed in small batches while the body is received.

    `url` is the URL for errors.
    """

    def __init__(
        self, body: AsyncIterator[bytes], reader: EntryReader, url: str, pause: Pause | None
    ) -> None:
        self._body = body
        self._reader = reader
        self._url = url
        self._pause = pause or running().checkpoint
        self._octets = memoryview(b"")
        self._parsed: Iterator[Entry] = iter(())
        self._failure: ResolveError | None = None
        self._ended = False
        self._has_more = False

    @property
    def at_hand(self) -> bool:
        """Return whether more can be read without waiting for the server."""
        return self._has_more

    def __aiter__(self) -> Self:
        return self

    async def _read_next(self) -> list[Entry]:
        """Return the next entries, which are at least one. Raises `StopAsyncIteration` at the end."""
        try:
            while True:
                await self._pause()
                if entries := self._take():
                    self._has_more = bool(self._octets) or len(entries) == ENTRIES_AT_ONCE
                    return entries
                if self._failure is not None:
                    raise self._failure
                if self._ended:
                    raise StopAsyncIteration
                await self._parse_more()
        except ResolveError as error:
            raise trim_traceback(locate_error(error, redact(self._url))) from error.__cause__

    def _take(self) -> list[Entry]:
        """Return the parsed entries.

        If the parser fails, these entries are returned first, and the next call raises the error.
        """
        entries: list[Entry] = []
        try:
            entries.extend(islice(self._parsed, ENTRIES_AT_ONCE))
        except ResolveError as error:
            self._failure = error
        return entries

    async def _parse_more(self) -> None:
        try:
            if not self._octets:
                self._octets = memoryview(await anext(self._body))
        except StopAsyncIteration:
            self._ended = True
            self._parsed = iter(self._reader.finish())
            return
        self._parsed = iter(self._reader.feed(bytes(self._octets[:OCTETS_AT_ONCE])))
        self._octets = self._octets[OCTETS_AT_ONCE:]


class _Collected:
    """The body of a listing that is completely in memory."""

    def __init__(self, octets: bytes) -> None:
        self._octets = octets

    def __aiter__(self) -> _Collected:
        return self

    async def __anext__(self) -> bytes:
        octets, self._octets = self._octets, b""
        if not octets:
            raise StopAsyncIteration
        return octets


class EntryStream(_ListingStream):
    """An async iterator over the entries of a listing, each with its provenance.

    Entries are parsed while the body is received. `at_hand` is whether the next entry can be read without
    waiting for the server.
    """

    def __init__(
        self,
        body: AsyncIterator[bytes],
        reader: EntryReader,
        found_in: Referrer,
        pause: Pause | None = None,
    ) -> None:
        super().__init__(body, reader, found_in.url, pause)
        self._found_in = found_in
        self._waiting: deque[Entry] = deque()

    @property
    def at_hand(self) -> bool:
        return bool(self._waiting) or self._has_more

    async def __anext__(self) -> Entry:
        if not self._waiting:
            self._waiting += await self._read_next()
        return add_provenance(self._waiting.popleft(), self._found_in)


class LineStream(_ListingStream):
    """An async iterator over a listing as text with one line per entry.

    Each chunk of text has the lines of at most one chunk of the body. The URLs of the entries are not
    checked.
    """

    def __init__(
        self,
        body: AsyncIterator[bytes],
        reader: EntryReader,
        url: str,
        pause: Pause | None = None,
        line: Line = listing_line,
    ) -> None:
        super().__init__(body, reader, url, pause)
        self._line = line

    async def __anext__(self) -> bytes:
        return listing_octets(await self._read_next(), self._line)


def add_provenance(entry: Entry, found_in: Referrer) -> Entry:
    """Return the entry with its provenance (origin and referrer).

    The link of an entry is untrusted server data. If the URL parser rejects the link, the link is removed
    (S20). A password in the link is also removed, because entries are displayed and stored (S17). The origin
    of the link is `derived`, because a program may fetch the link without confirmation by the user.
    """
    referrer = entry.referrer or found_in
    if isinstance(entry.url, BuiltUrl) and len(entry.url) <= MAX_URL:
        # The new entry is changed in place, because a copy takes five times as long in long listings.
        object.__setattr__(entry, "url", str(entry.url))
        object.__setattr__(entry, "origin", "derived")
        object.__setattr__(entry, "referrer", referrer)
        return entry
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


class OpenRetrieval:
    """A retrieval whose reply has arrived: the source of the metadata of its response.

    - `facts` is the redacted metadata of the reply, by field name.
    - `shown` is the URL of the reply. After a redirect, the URL may contain a secret that was sent.
    - `requested` is the request before redirects and before the use of a gateway.
    - `earlier` are the URLs of redirected requests, and `peers` are the IP addresses of their servers.
    """

    facts: dict[str, Any]
    shown: Masked
    reply: Reply
    url_gate: UrlGate
    clock: Clock
    requested: RetrievalRequest
    earlier: tuple[Url, ...]
    peers: tuple[str | None, ...] = ()


class LiveFacts(Facts):
    """The metadata of a response whose connection is open.

    All texts in the metadata are `Masked` (redacted), so they can be displayed and stored. `findings` and
    `verified` are complete only at the end of the body.

    - `start` is the offset in the object at which the body starts, in bytes.
    - `stop` is the end offset if the body is a requested range; otherwise None.
    - `unchanged` is whether the body is omitted because the caller's copy is up to date (http status 304).
      The caller describes its copy in `Options.held`.
    """

    media_type: Masked | None
    charset: Masked | None
    etag: Masked | None
    title: Masked | None
    meta: tuple[tuple[Masked, Masked], ...]
    target: Masked | None

    def __init__(self, retrieval: OpenRetrieval, request: RetrievalRequest, body: Any) -> None:
        vars(self).update(retrieval.facts)
        self.request = request
        self.body = body
        self.start, self.stop = retrieval.reply.start, retrieval.reply.stop
        self.unchanged = retrieval.reply.unchanged
        self._retrieval = retrieval

    @property
    def url(self) -> Masked:
        shown = self._retrieval.shown
        return self._retrieval.url_gate.mask.hide_in_text(shown) if self._retrieval.earlier else shown

    @property
    def requested_url(self) -> Masked:
        """Return the redacted URL of the request, before redirects and before the use of a gateway."""
        return self._retrieval.requested.url.shown

    @property
    def chain(self) -> tuple[Masked, ...]:
        """Return the redacted URLs of all redirected requests.

        The first URL is the requested URL.
        """
        if not self._retrieval.earlier:
            return ()
        first, *others = [url.shown for url in self._retrieval.earlier]
        return (first, *map(self._retrieval.url_gate.mask.hide_in_text, others))

    @property
    def addresses(self) -> tuple[str | None, ...]:
        """Return the IP addresses of the servers.

        The order is: the URLs of `chain`, then `url`.
        """
        return (*self._retrieval.peers, self.peer)

    @property
    def validators(self) -> Validators:
        """Return the validators of this version of the object.

        They are empty for a scheme without validators.
        """
        row = self._retrieval.url_gate.row
        resumes = row is not None and row.resumes
        return Validators(self.size, self.modified, self.etag) if resumes else NOTHING

    @property
    def failure(self) -> ResolveError | None:
        """Return the error of an error response.

        The body of the response can be read (`Options.refusals`). The result is `None` for other responses.
        """
        failure = self._retrieval.reply.failure
        return None if failure is None else failure.hiding(self._retrieval.url_gate.mask.hide_in_text)

    @property
    def points(self) -> bool:
        """Return whether the object is a link or a service.

        A link or a service has no content.
        """
        return self.kind in (Kind.LINK, Kind.SERVICE)

    @property
    def peer(self) -> str | None:
        """Return the IP address of the server or the proxy, or None without a connection."""
        return self._retrieval.reply.peer or self._retrieval.url_gate.peer

    @property
    def source(self) -> str | None:
        """Return the IP address with which links in the response are compared (S08).

        Without a proxy, the result is the address of the server. With a proxy, the result is the address that
        was sent to the proxy. It is `None` if the proxy resolves the host name.
        """
        return self._retrieval.reply.peer or self._retrieval.url_gate.source

    @property
    def limits(self) -> Limits:
        """Return the limits for the host of this response."""
        return self._retrieval.url_gate.limits

    @property
    def proxy(self) -> Masked | None:
        """Return the URL of the proxy, without user and password; None if a proxy was not used."""
        return self._retrieval.url_gate.proxy

    @property
    def elapsed(self) -> float:
        return self._retrieval.clock.elapsed

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Return the findings about the URL, then of the policy, then about the response."""
        hide = self._retrieval.url_gate.mask.hide_in_text
        findings = self.request.url.spelling
        for reported in (self._retrieval.url_gate.findings, self._retrieval.reply.findings):
            for finding in reported:
                findings += (finding._replace(detail=hide(finding.detail)),)
        return findings

    @property
    def verified(self) -> tuple[str, ...]:
        return tuple(sorted(self._retrieval.reply.verified))

    @property
    def lists(self) -> bool:
        """Return whether the body is a listing, and not a document with links."""
        return self.has_entries and not self._retrieval.reply.legible

    @property
    def has_entries(self) -> bool:
        """Return whether the body can be read as entries: a listing, or a document with links."""
        reply = self._retrieval.reply
        return reply.listing is not None and reply.records is None and not self._is_raw

    @property
    def _is_raw(self) -> bool:
        return self.request.options.raw


class StreamingResponse(LiveFacts):
    """A response with metadata and a body that can be read once, while the connection is open.

    Examples:
        >>> async with resolver.stream("http://127.0.0.1:8920/about.txt") as reply:
        ...     print(reply.status, await reply.body.take(6))
        200 b'A text'
    """

    body: LimitedBody

    def entries(self) -> EntryStream:
        """Return an iterator over the entries of a listing.

        Raises `Declined` if the URL does not name a listing.
        """
        return EntryStream(*self._listing(), Referrer(self.url, self.source), self._retrieval.clock.pause)

    def lines(self, line: Line = listing_line) -> LineStream:
        """Return an iterator over the entries as lines of UTF-8 text.

        `line` formats an entry.
        """
        return LineStream(*self._listing(), self.url, self._retrieval.clock.pause, line)

    def _listing(self) -> tuple[AsyncIterator[bytes], EntryReader]:
        reply = self._retrieval.reply
        if reply.listing is None or self._is_raw:
            if self._is_raw:
                raise Declined("cannot list entries: the raw bytes were requested", url=self.url)
            article = "an" if self.kind.value[0] in "aeiou" else "a"
            raise Declined(
                f"this is {article} {self.kind.value} and not a listing; cat shows it", url=self.url
            )
        return self.body if reply.records is None else _Collected(reply.records), reply.listing

    def entries_in(self, content: bytes) -> EntryStream:
        """Return an iterator over the entries of a listing.

        `content` is the complete body of the listing.
        """
        listing, found_in = self._retrieval.reply.listing, Referrer(self.url, self.source)
        assert listing is not None
        return EntryStream(_Collected(content), listing, found_in, self._retrieval.clock.pause)

    def raw(self, content: bytes) -> bytes | None:
        """Return the content with the protocol quoting (dot-stuffing) added again, or None."""
        return None if self._retrieval.reply.raw is None else self._retrieval.reply.raw(content)

    def finished(self, *findings: Finding, proved: Iterable[str] = ()) -> dict[str, Any]:
        """Return the metadata and the provenance of a completed response.

        The arguments are added to the findings and successful checks of this response.
        """
        retrieval = self._retrieval
        return dict(
            retrieval.facts,
            url=(url := self.url),
            requested_url=url if retrieval.requested.url is self.request.url else self.requested_url,
            findings=(*self.findings, *findings),
            verified=tuple(sorted({*retrieval.reply.verified, *proved})),
            elapsed=retrieval.clock.elapsed,
            retrieved=datetime.now(UTC),
            peer=self.peer,
            proxy=retrieval.url_gate.proxy,
            chain=self.chain if retrieval.earlier else (),
        )


# Stores for the bytes of an object: a file, memory, standard output. A store counts its bytes and can return
# the last bytes, so that a retry can resume the transfer.


class Store(Protocol):
    """A store for the bytes of an object.

    - `position` is the number of stored bytes.
    - `known` are the validators, which identify the version of the object.
    - `final`: whether the store cannot restart, because the bytes are passed on immediately, for example to
      standard output.
    """

    final: bool

    @property
    def known(self) -> Validators: ...

    @property
    def position(self) -> int: ...

    def tail(self, count: int) -> bytes:
        """Return the last `count` stored bytes, or all if there are fewer."""
        ...

    async def remember(self, known: Validators) -> None:
        """Store the validators of the object from which the next bytes come."""
        ...

    def restart(self) -> None:
        """Discard all bytes, and restart at offset 0. Must not be called for a final store."""
        ...


class MemoryStore:
    """A store in memory, for a body with a size limit."""

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

    def append(self, octets: bytes) -> None:
        self._octets += octets
        self.position += len(octets)

    async def fill(self, body: LimitedBody) -> None:
        """Append the remaining bytes of a body."""
        if whole := body.take_whole():
            return self.append(whole)
        async for octets in body:
            self.append(octets)

    def content(self) -> bytes:
        """Return all bytes, and empty the store."""
        octets, self._octets, self.position = self._octets, bytearray(), 0
        return bytes(octets)


def octets_to_keep(reply: StreamingResponse) -> AsyncIterator[bytes]:
    """Return the bytes to write to a file or standard output: a listing as lines, or the body."""
    return reply.lines() if reply.lists else reply.body


async def skip(reply: StreamingResponse) -> None:
    """Leave the body unread, because only the metadata is needed."""
