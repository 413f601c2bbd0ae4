"""What every scheme and everything around the schemes agree on.

Values (`Url`, `Entry`, `Limits`, …) are frozen. What is alive hangs on a connection: `Reply` and its
`Body`. What a scheme may ask of the world is a `Gate`. No behaviour lives here, and nothing here
knows one scheme from another.

Still percent-encoded text is `str`, decoded octets are `bytes`; so nothing is decoded twice.
"""

from __future__ import annotations

import enum
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

from protocols.connection import Datagram as Datagram
from protocols.connection import Datagrams as Datagrams
from protocols.connection import Line as Line
from protocols.connection import Sink as Sink
from protocols.connection import Stream as Stream

A = TypeVar("A")
B = TypeVar("B")

JsonValue: TypeAlias = (
    "bool | int | float | str | list[JsonValue] | tuple[JsonValue, ...] | dict[str, JsonValue] | None"
)
Origin: TypeAlias = Literal["user", "chosen", "derived"]
Action: TypeAlias = Literal["allow", "warn", "refuse"]


class Kind(enum.StrEnum):
    """What a URL or a listing entry turned out to be."""

    DOCUMENT = "document"
    DIRECTORY = "directory"
    ARTICLE = "article"
    GROUP = "group"
    SEARCH = "search"
    SERVICE = "service"
    ADDRESS = "address"
    LINK = "link"
    INFO = "info"
    ERROR = "error"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something worth telling that stopped nothing, or the rule that stopped it.

    `rule` is `S04` for a rule of the safety policy, a name such as `host-syntax` for the URL's
    spelling, and `scheme:word` for an oddity of a reply.
    """

    rule: str
    action: Action
    detail: str


@dataclass(frozen=True, slots=True)
class Place:
    """Where a component of a URL stands, still encoded, in the text as given: `text[start:end]`.

    `name` is the component's name (`selector`, `cwds[0]`, `password`).
    """

    name: str
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Url:
    """A parsed URL (RFC 1738). Subclasses, one a scheme, add the scheme's own components.

    `text` is the URL as given, wrapper and all. `findings` are the names of what RFC 1738 would not
    have written this way, in the order met. Two URLs are equal when their components are.
    """

    scheme: str
    fragment: str | None = None
    text: str = field(default="", compare=False)
    findings: tuple[str, ...] = field(default=(), compare=False)
    places: tuple[Place, ...] = field(default=(), compare=False)

    def place(self, name: str) -> Place | None:
        """Where the component stood, or None if the URL was built and not parsed."""
        return next((place for place in self.places if place.name == name), None)

    @property
    def shown(self) -> str:
        """`text` with a password replaced by `****`: the only form for messages and records."""
        place = self.place("password")
        return self.text if place is None else f"{self.text[: place.start]}****{self.text[place.end :]}"

    def components(self) -> dict[str, JsonValue]:
        """Every component by its name, octets as one character each (ISO 8859-1), absent as None."""
        skip = {"text", "findings", "places"}
        return {f.name: _plain(getattr(self, f.name)) for f in fields(self) if f.name not in skip}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.shown!r}>"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class HostUrl(Url):
    """A URL with `//user:password@host:port` (RFC 1738 3.1).

    `port` is what the URL says, `effective_port` the one to use. Absent (None) differs from empty.
    """

    user: bytes | None = None
    password: bytes | None = None
    host: str = ""
    port: int | None = None
    default_port: int = 0

    @property
    def effective_port(self) -> int:
        return self.default_port if self.port is None else self.port


def _plain(value: object) -> JsonValue:
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    assert value is None or isinstance(value, (str, int))
    return value


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a peer may send and how long it may take (rule S16). Octets, counts, seconds.

    `body` bounds a body collected in memory; streams and files are unbounded unless `body_everywhere`
    is set, which is what a `--max-size` or `--limit body=N` of the caller's own does.
    """

    line: int = 65_536
    lines: int = 1_000
    entries: int = 100_000
    hops: int = 10
    body: int = 67_108_864
    body_everywhere: bool = False
    ratio: int = 100
    connect: float = 30.0
    idle: float = 60.0
    total: float | None = None


@dataclass(frozen=True, slots=True)
class Credentials:
    """A name and a password for one scheme, host and port (S11). The password is never shown."""

    user: bytes
    password: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a caller asks for beyond the URL, for the schemes that know of it.

    `tls` is TLS on a connection that begins without: never, if the peer can (`try`), or not at all
    without it (`require`). `anonymous_password` goes to FTP servers that ask anonymous for one
    (S17). `mlsd` prefers FTP's listing with facts (RFC 3659). `start` is the number of octets that
    are held already: the body begins behind them if the peer can do that, else at octet 0.

    `want` says what becomes of the body: taken as it comes, kept as the peer holds it (`file`: http
    without a content coding), or not read at all (`facts`: http's HEAD). `headers` and `user_agent` go
    into http requests. `login` is what an earlier hop of this retrieval was given for this place (S11).
    """

    tls: Literal["never", "try", "require"] = "never"
    anonymous_password: bytes = b"anonymous@"
    mlsd: bool = False
    start: int = 0
    want: Literal["content", "file", "facts"] = "content"
    headers: tuple[tuple[bytes, bytes], ...] = field(default=(), repr=False)
    user_agent: bytes = b"url-resolver"
    login: Credentials | None = None


class Referrer(NamedTuple):
    """The URL that led to another one and the address it was fetched from (None if unknown)."""

    url: str
    address: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One record of a listing, whatever the scheme.

    `name` is what a listing line shows, `title` what describes it; `raw` are the octets it was read
    from; `extra` holds what only this scheme knows. A scheme fills in the first eight members; the
    retrieval adds where the entry was found, so that a later fetch of `url` is judged accordingly.
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


@dataclass(frozen=True, slots=True)
class Moved:
    """The peer says that the object is elsewhere: `location` is its text, complete or relative to the
    URL asked, neither parsed nor judged; `code` what it said with it."""

    location: str
    code: str


@dataclass(slots=True, kw_only=True)
class Reply:
    """What a scheme's `open` hands over: facts first, then the body, while the connection lives.

    `findings` and `verified` may grow until the body has ended. `verified` takes words out of
    length, final-reply, close-notify, terminator. `listing` reads the body as entries, or is None
    where the URL names no listing. `target` is the URL a link, service or address points to.
    `untouched` makes the octets that were sent out of the whole body again, where the protocol's
    quoting was undone in it; it may be called once the body has ended. With `moved` there is nothing
    here but the way to another URL, which a retrieval follows as far as S10 and S11 let it.
    """

    kind: Kind
    body: Body
    media_type: str | None = None
    charset: str | None = None
    size: int | None = None
    modified: datetime | None = None
    meta: tuple[tuple[str, str], ...] = ()
    listing: EntryReader | None = None
    target: str | None = None
    moved: Moved | None = None
    extra: Mapping[str, JsonValue] | None = None
    untouched: Callable[[bytes], bytes] | None = None
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

    def connect_data(self, port: int) -> AbstractAsyncContextManager[Stream]:
        """A second TCP connection, to the peer of the first: FTP's (S13). A port, never a host."""
        ...

    def open_datagrams(self) -> AbstractAsyncContextManager[Datagrams]:
        """UDP to the URL's own host and port, at an address that was checked (S08, S09)."""
        ...

    async def first_of(
        self, first: Callable[[], Awaitable[A]], second: Callable[[], Awaitable[B]]
    ) -> tuple[Came[A] | None, Came[B] | None]:
        """Await both at once; when one is done, cancel the other. Both came when both were done in the
        same turn, so nothing that was heard is lost. An error of either is raised bare, unless a value
        came with it."""
        ...

    def open_file(self, segments: tuple[bytes, ...]) -> AbstractAsyncContextManager[LocalFile]:
        """The local file of a file URL, opened component by component where a root is set (S12)."""
        ...


@dataclass(slots=True)
class UrlText:
    """A URL on its way through the parser: `text[start:end]` is what follows the scheme's colon, up to
    the fragment. Findings (each with the position that gave rise to it) and places collect here;
    positions count in the text as given. A scheme's `parse` gives its components; whoever called it
    adds text, fragment, findings and places."""

    text: str
    scheme: str
    start: int
    end: int
    default_port: int | None
    fragment: str | None = None
    findings: dict[str, int] = field(default_factory=dict)
    places: list[Place] = field(default_factory=list)

    def note(self, finding: str, position: int) -> None:
        """Keep a finding, once per URL, in the order met."""
        self.findings.setdefault(finding, position)

    def cut(self, name: str, start: int, end: int) -> str:
        """The component `name` as written, `text[start:end]`; its place is kept."""
        self.places.append(Place(name, start, end))
        return self.text[start:end]


Dialogue: TypeAlias = Generator[object, object, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """One row of what we can do: facts first, behaviour last.

    `names` says in a few words what its URLs name. `parse` takes apart what follows the scheme's
    colon; `build` writes a URL's components as text again. `open` resolves; None where this build has
    no handler. `dialogue` gives, without I/O, the steps of a retrieval: `explain` drives it with the
    answers of a willing server. `refine` puts the value of an option into a URL of this scheme:
    `search`, `view`, ….
    """

    name: str
    names: str
    default_port: int | None
    parse: Callable[[UrlText], Url]
    build: Callable[[Any], str]
    tls: bool = False
    transport: Literal["tcp", "udp"] | None = "tcp"
    open: Callable[[Any, Gate], AbstractAsyncContextManager[Reply]] | None = None
    dialogue: Callable[[Any], Dialogue] | None = None
    refine: Mapping[str, Callable[[Any, str], Url]] = field(default_factory=dict)
