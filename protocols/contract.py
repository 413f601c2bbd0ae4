"""What every scheme and everything around the schemes agree on.

Values (`Url`, `Entry`, `Limits`, …) are frozen. What is alive hangs on a connection: `Reply` and its
`Body`. What a scheme may ask of the world is a `Gate`. No behaviour lives here, and nothing here
knows one scheme from another.

Still percent-encoded text is `str`, decoded octets are `bytes`; so nothing is decoded twice.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, Protocol, TypeAlias, TypeVar

from protocols.connection import Datagram as Datagram
from protocols.connection import Datagrams as Datagrams
from protocols.connection import Line as Line
from protocols.connection import Sink as Sink
from protocols.connection import Stream as Stream
from protocols.instant import instant
from protocols.location import Action as Action
from protocols.location import Finding as Finding
from protocols.location import HostUrl as HostUrl
from protocols.location import JsonValue as JsonValue
from protocols.location import Kind as Kind
from protocols.location import Origin as Origin
from protocols.location import Place as Place
from protocols.location import Referrer as Referrer
from protocols.location import Url as Url
from protocols.location import UrlText as UrlText
from protocols.options import Credentials as Credentials
from protocols.options import Frames as Frames
from protocols.options import Limits as Limits
from protocols.options import Options as Options
from protocols.options import Part as Part
from protocols.options import Unpacking as Unpacking
from protocols.options import Validators as Validators
from protocols.options import Wanted as Wanted
from protocols.scheme import Dialogue as Dialogue
from protocols.scheme import Scheme as Scheme

A = TypeVar("A")
B = TypeVar("B")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One record of a listing, whatever the scheme.

    `name` is what a listing line shows, `title` what describes it; `raw` are the octets it was read
    from; `extra` holds what only this scheme knows. A scheme fills in the first eight members; the
    retrieval adds where the entry was found, so that a later fetch of `url` is judged accordingly. Only
    where that is not the URL asked, at the address connected to, does a scheme say so in `referrer`.
    """

    name: str
    url: str | None = None
    kind: Kind = Kind.UNKNOWN
    size: int | None = None
    modified: datetime | None = None
    title: str | None = None
    raw: bytes | None = None
    extra: Mapping[str, JsonValue] | None = None
    origin: Origin = "derived"
    referrer: Referrer | None = None

    def as_json(self) -> dict[str, JsonValue]:
        """Every member under its name: `modified` as RFC 3339, `raw` one character an octet, `referrer` as
        `[url, address]`."""
        return {
            "name": self.name,
            "url": self.url,
            "kind": self.kind.value,
            "size": self.size,
            "modified": instant(self.modified),
            "title": self.title,
            "raw": None if self.raw is None else self.raw.decode("latin-1"),
            "extra": None if self.extra is None else dict(self.extra),
            "origin": self.origin,
            "referrer": None if self.referrer is None else list(self.referrer),
        }


class EntryReader(Protocol):
    """Turns the octets of a listing into entries as they come: a machine without I/O."""

    def feed(self, octets: bytes) -> Iterable[Entry]: ...

    def finish(self) -> Iterable[Entry]:
        """The octets have ended: the entries that were still waiting for more."""
        ...


class Body(Protocol):
    """The octets of a reply, alive: iterate it, or drain it into a file; one of the two, once.

    Raises `Truncated` when the peer ends early, `Disconnected` before the first octet, `TimedOut`,
    `LimitExceeded`. After a cancel only `aclose` of the surrounding reply is left.
    """

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    async def __anext__(self) -> bytes: ...

    async def drain(self, sink: Sink) -> int:
        """Move everything that is left into `sink` in bulk; the number of octets moved."""
        ...


#: A way to an object: the text of a location, or what opens a reply without leaving.
Way: TypeAlias = "str | Callable[[], AbstractAsyncContextManager[Reply]]"


@dataclass(frozen=True, slots=True)
class Moved:
    """The peer says that the object is elsewhere: `location` is its text, complete or relative to the
    URL asked, neither parsed nor judged; `code` what it said with it.

    `others` are further ways to the object, in the peer's order, for the case that the one before fails:
    other such texts, or a function that opens a reply of the same URL. `found_in` is what led to these,
    where it is not the URL asked at the address connected to.
    """

    location: str
    code: str
    others: tuple[Way, ...] = ()
    found_in: Referrer | None = None


@dataclass(slots=True, kw_only=True)
class Reply:
    """What a scheme's `open` hands over: facts first, then the body, while the connection lives.

    `findings` and `verified` may grow until the body has ended. `verified` takes words out of
    length, final-reply, close-notify, terminator. `size` is that of the whole object; the body begins at
    its octet `start`, which is 0 unless `Options.start` could be granted; `etag` is a strong one.
    `title` describes it, where the peer does. `listing` reads the body as entries, or is None where the
    URL names no listing; with `records` it reads those, and the body is a document that says what is
    listed (a wais database). `target` is the URL that a link, service or address points to. `untouched`
    makes the octets that were sent out of the whole body again, where the protocol's quoting was undone
    in it; it may be called once the body has ended. With `moved` there is nothing here but the way to
    another URL, which a retrieval follows as far as S10 and S11 let it. `peer` is the numeric address
    that the octets came from, where it is not the one connected to.
    """

    kind: Kind
    body: Body
    media_type: str | None = None
    charset: str | None = None
    size: int | None = None
    start: int = 0
    modified: datetime | None = None
    etag: str | None = None
    title: str | None = None
    meta: tuple[tuple[str, str], ...] = ()
    listing: EntryReader | None = None
    records: Body | None = None
    target: str | None = None
    moved: Moved | None = None
    extra: Mapping[str, JsonValue] | None = None
    untouched: Callable[[bytes], bytes] | None = None
    peer: str | None = None
    findings: list[Finding] = field(default_factory=list)
    verified: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Came(Generic[A]):
    """A value that `first_of` waited for and got."""

    value: A


@dataclass(frozen=True, slots=True)
class FileStatus:
    """What is known of a file or directory before it is read. `kind` is DOCUMENT or DIRECTORY;
    anything else in the file system shows as UNKNOWN in a listing and is never opened (S12).
    `size` is None where the file system does not tell: directories, pipes, files made up as they are read."""

    kind: Kind
    size: int | None
    modified: datetime | None


class LocalFile(Protocol):
    """A file or directory that the gate opened under rule S12. A document is read or moved, a
    directory gives its names."""

    @property
    def status(self) -> FileStatus: ...

    async def read(self) -> bytes:
        """The next octets, at most 256 KiB; `b""` at the end."""
        ...

    def modified_since(self) -> bool:
        """Has it been modified since it was opened?"""
        ...

    def begin_at(self, octet: int) -> None:
        """Read from there on, before anything has been read."""
        ...

    async def move(self, sink: Sink) -> int:
        """Move what is left into `sink` in bulk."""
        ...

    async def names(self) -> list[bytes]:
        """Names in the directory, sorted by octets, without `.` and `..`."""
        ...

    def status_of(self, name: bytes) -> FileStatus:
        """What a name in the directory stands for; a link for what it leads to, as far as that may be
        opened. UNKNOWN also for what is gone by now."""
        ...


class Loan(Protocol):
    """A connection that may serve again. It is closed on leaving, unless it was left in order."""

    @property
    def stream(self) -> Stream: ...

    @property
    def memory(self) -> object | None:
        """What the dialogue that kept it had to say of it; None for a new connection."""
        ...

    def keep(self, memory: object) -> None:
        """It is in order and nothing is unread: keep it, on leaving, for a dialogue to come."""
        ...


class Memory(Protocol):
    """What the dialogues on one connection know of it in common. `buffer` (a `wire.Buffer`) holds what was
    read ahead; `epoch` grows when what has been said is void and has to be said anew."""

    @property
    def buffer(self) -> object: ...

    @property
    def epoch(self) -> int: ...

    @property
    def has_room(self) -> bool:
        """May one more dialogue speak behind what was said?"""
        ...

    @property
    def at_rest(self) -> bool:
        """Is nothing unanswered and nothing unread, so that the connection may wait for others?"""
        ...

    @property
    def farewell(self) -> tuple[Line, ...]:
        """What is said before the connection is closed; nothing is awaited after it."""
        ...


class Seat(Protocol):
    """A place in the row of those who talk on one connection. On leaving, the next one has its turn, if
    this one left the connection in order; if not it is closed, and those behind are `Disconnected`."""

    @property
    def stream(self) -> Stream: ...

    @property
    def memory(self) -> Memory: ...

    async def take_floor(self) -> None:
        """See `step.TakeFloor`."""
        ...

    async def await_turn(self) -> None:
        """See `step.AwaitTurn`."""
        ...

    def keep(self) -> None:
        """Everything that this one asked for has been read."""
        ...


class Gate(Protocol):
    """The one door of one retrieval. It knows the URL, has judged it by the policy, and opens only
    what that verdict covers: so no handler names a host, and none can forget a check."""

    @property
    def limits(self) -> Limits: ...

    @property
    def options(self) -> Options: ...

    async def credentials(self, user: bytes | None) -> Credentials | None:
        """The name and password held for the URL's scheme, host and port, or those a person gives now.

        With a user, it is that one's password that is wanted. Without, nobody is asked: only what was
        set for this place counts. None where there is nothing and nobody.
        """
        ...

    def connect(self, *, tls: bool) -> AbstractAsyncContextManager[Stream]:
        """TCP to the URL's own host and port, at an address that was checked (S08, S09)."""
        ...

    def borrow(self, whom: Hashable, *, tls: bool) -> AbstractAsyncContextManager[Loan]:
        """Such a connection that an earlier dialogue left in order, else a new one.

        `whom` says as whom the dialogue speaks; connections kept for another are not given (S11).
        """
        ...

    def join(
        self, whom: Hashable, memory: Memory, *, tls: bool, anew: bool
    ) -> AbstractAsyncContextManager[Seat]:
        """Such a connection together with others who speak as `whom`, answered in the order they came,
        whatever the schemes of their URLs: `whom` says all that keeps them apart.

        Its memory is `memory` if the connection is new, which with `anew` it is unless others are on it.
        Who does not take his body as fast as it comes (`Options.prompt`) has a connection to himself.
        """
        ...

    def connect_data(self, port: int) -> AbstractAsyncContextManager[Stream]:
        """A second TCP connection, to the peer of the first: FTP's (S13). A port, never a host."""
        ...

    def open_datagrams(self) -> AbstractAsyncContextManager[Datagrams]:
        """UDP to the URL's own host and port, at the addresses that were checked (S08, S09)."""
        ...

    async def first_of(
        self, first: Callable[[], Awaitable[A]], second: Callable[[], Awaitable[B]]
    ) -> tuple[Came[A] | None, Came[B] | None]:
        """Await both at once, beginning with the first; when one is done, cancel the other. Both came when
        both were done in the same turn, so nothing that was heard is lost. An error of either is raised
        bare, unless a value came with it."""
        ...

    def elsewhere(self, location: str) -> Gate:
        """The gate of another URL, which an answer got through this one has led to: judged as one that no
        person chose (`derived`), by the address that this one was answered from. `location` is complete.
        Raises `InvalidUrl` and `Refused`."""
        ...

    def open_file(self, segments: tuple[bytes, ...]) -> AbstractAsyncContextManager[LocalFile]:
        """The local file of a file URL, opened component by component where a root is set (S12)."""
        ...
