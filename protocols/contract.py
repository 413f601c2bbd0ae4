"""The contract of a scheme: its values, its reply, and the connections that a gate gives to it.

Values (`Url`, `Entry`, `Limits`, …) are frozen. Live objects (`Reply`, `Body`) belong to a connection. `Gate`
is all that a scheme may ask of the outside world. This module has no behavior and does not distinguish
schemes.

Text that is still percent-encoded is `str`, decoded bytes are `bytes`; so nothing is decoded twice.
"""

from __future__ import annotations

from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, NoReturn, Protocol, TypeAlias, TypeVar, cast

from protocols.location import Action as Action
from protocols.location import BuiltUrl as BuiltUrl
from protocols.location import ComponentSpan as ComponentSpan
from protocols.location import Entry as Entry
from protocols.location import EntryReader as EntryReader
from protocols.location import Finding as Finding
from protocols.location import Headers as Headers
from protocols.location import HostUrl as HostUrl
from protocols.location import JsonValue as JsonValue
from protocols.location import Kind as Kind
from protocols.location import Origin as Origin
from protocols.location import Referrer as Referrer
from protocols.location import Url as Url
from protocols.location import UrlText as UrlText
from protocols.options import Credentials as Credentials
from protocols.options import FrameEvent as FrameEvent
from protocols.options import Frames as Frames
from protocols.options import Limits as Limits
from protocols.options import Options as Options
from protocols.options import Unpacking as Unpacking
from protocols.options import Validators as Validators
from protocols.options import Wanted as Wanted
from protocols.scheme import Dialogue as Dialogue
from protocols.scheme import Extra as Extra
from protocols.scheme import Scheme as Scheme

if TYPE_CHECKING:
    from protocols.errors import ResolveError


# Connections: a stream, datagrams, and the file that a body is moved into. These types know nothing of URLs,
# replies or limits.


class Line(NamedTuple):
    """Octets that may leave on a connection. Only `wire` makes one, which is what keeps a command
    from ending where we did not end it. `shown` is the same with secrets as `****`; `secrets` are what
    that hides, for the peer may repeat them."""

    octets: bytes
    shown: bytes
    secrets: tuple[bytes, ...] = ()


class StreamCodec(Protocol):
    """What two peers compress all that they say with: a machine without I/O."""

    @property
    def has_more(self) -> bool:
        """May `read` have more to give before anything else comes?"""
        ...

    def pack(self, octets: bytes) -> bytes:
        """What is to be sent in place of these octets."""
        ...

    def feed(self, octets: bytes) -> None:
        """These came, and all before them has been read."""
        ...

    def read(self, most: int) -> bytes:
        """The next octets, at most so many; none where more has to come first."""
        ...


class Stream(Protocol):
    """One TCP connection that the gate opened, plain or inside TLS."""

    @property
    def peer(self) -> str:
        """The numeric address connected to: the one that was checked."""
        ...

    @property
    def secured(self) -> bool:
        """Inside TLS?"""
        ...

    @property
    def agreed(self) -> str | None:
        """The protocol that the peer chose in the handshake (ALPN); None where it chose none."""
        ...

    @property
    def received(self) -> int:
        """Octets taken from this connection so far by `receive` and `move`; right after an error too."""
        ...

    async def send(self, *lines: Line) -> None:
        """Send all lines in one write."""
        ...

    async def receive(self) -> bytes:
        """The next octets, at most 64 KiB; `b""` at the orderly end (also where TLS ended without
        close_notify: see `close_notify_seen`). `Disconnected` on a reset, `TimedOut` on silence."""
        ...

    @property
    def close_notify_seen(self) -> bool:
        """Did the peer end TLS properly? False until it has; always False without TLS."""
        ...

    async def move(self, sink: Sink, count: int | None) -> int:
        """Move up to `count` octets (None: until the end) into `sink` in bulk. Returns how many came:
        fewer than `count` only at the end. `Disconnected` on a reset, `TimedOut` on silence, `LocalError`
        where the sink takes no more; what came until then is in the sink, `received` counts it."""
        ...

    async def start_tls(self) -> None:
        """Wrap this connection in TLS for the URL's host. `TlsError` if that fails. A data connection
        offers the session of the first connection, as FTP servers demand."""
        ...

    async def aclose(self) -> None:
        """Close without waiting for the peer; harmless when closed already."""
        ...


class Datagram(NamedTuple):
    """One datagram that came, and from where: a numeric address and a port."""

    octets: bytes
    address: str
    port: int


class Datagrams(Protocol):
    """A UDP socket of the gate, not connected: anyone may answer, the dialogue decides whom to believe."""

    @property
    def peer(self) -> str:
        """The numeric address sent to, in its one spelling: one that was checked."""
        ...

    @property
    def addresses(self) -> Sequence[str]:
        """All addresses of the host that were checked and may be sent to, the preferred ones first."""
        ...

    @property
    def port(self) -> int:
        """The port sent to."""
        ...

    def now(self) -> float:
        """The clock that deadlines are on, in seconds."""
        ...

    async def send(self, packet: Line) -> None:
        """One datagram to the peer."""
        ...

    async def receive(self, deadline: float) -> Datagram | None:
        """The next datagram, at most 65,535 octets; None when nothing came until `deadline`. What
        waits already is delivered also after the deadline."""
        ...

    def send_at_once(self, packet: Line) -> None:
        """One datagram without waiting, while being cancelled too; one that cannot leave now is lost. For
        what tells the peer that nobody waits any more."""
        ...

    def draw_number(self) -> int:
        """A number from 1 to 65,535 that nobody can foresee, for answers to be known by."""
        ...

    def switch_to(self, address: str) -> None:
        """Send to this one of `addresses` from now on."""
        ...

    def redirect_to(self, address: str, port: int) -> None:
        """Send to another place from now on, because the peer said so. `Refused` where the policy does
        not let a URL of that place be followed from this one."""
        ...


class RedirectAddress(NamedTuple):
    """Send to this place from now on; `lasting` says that later requests belong there too."""

    address: str
    port: int
    lasting: bool


class SwitchAddress(NamedTuple):
    """Send to this one of the server's addresses from now on."""

    address: str


DatagramAction: TypeAlias = "Line | RedirectAddress | SwitchAddress"


class DatagramExchange(Protocol):
    """One request in datagrams and its reply: a machine without I/O and without a clock. Each call takes the
    time, and gives what is to be done now; `deadline` says when to call again if nothing comes until then."""

    @property
    def packets(self) -> Sequence[Line]:
        """The request as it leaves where nothing is lost."""
        ...

    @property
    def pieces(self) -> Sequence[bytes]:
        """The reply, packet by packet, once it is complete."""
        ...

    @property
    def complete(self) -> bool: ...

    @property
    def deadline(self) -> float: ...

    def begin(self, now: float) -> Sequence[DatagramAction]: ...

    def take(self, datagram: bytes, address: str, now: float) -> Sequence[DatagramAction]:
        """A datagram has come from `address`."""
        ...

    def wake(self, now: float) -> Sequence[DatagramAction]:
        """Nothing waits to be read, or the deadline has passed."""
        ...

    def lose(self, address: str, now: float) -> bool:
        """Nothing can be sent to that address. Is there another one of the server's to go on with?"""
        ...

    def cancel(self) -> Line:
        """Tells the server that nobody waits any more."""
        ...


class Sink(Protocol):
    """A file of ours that a body is moved into. Only the gate makes one."""

    def fileno(self) -> int: ...

    def write(self, octets: bytes | memoryview) -> None:
        """Write all octets; a full disk is `LocalError`. A caller may also write to `fileno()` itself,
        in bulk, and leave to this method what did not go in: it then names the reason."""
        ...


# Reply: the facts about the object of a URL, known before the first byte of its body.
#
# A fact is declared once, in `Facts`. Each later value inherits the facts and is made from the previous value
# with `facts_of`, so there is no second list of them.

#: A way to an object: the text of a location, or a dialogue of the same URL.
Alternative: TypeAlias = "str | Callable[[], Dialogue]"


class Moved(NamedTuple):
    """The peer says that the object is elsewhere: `location` is its text, complete or relative to the
    URL asked, neither parsed nor judged; `code` what it said with it.

    `others` are further ways to the object, in the peer's order, for the case that the one before fails:
    other such texts, or a dialogue that begins a reply of the same URL. `found_in` is what led to these,
    where it is not the URL asked at the address connected to. `failed` is what a way before all of these
    failed by, which was tried where they were found.
    """

    location: str
    code: str
    others: tuple[Alternative, ...] = ()
    found_in: Referrer | None = None
    failed: ResolveError | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Facts:
    """What is known of an object: of a `Reply`, a `StreamingResponse`, a `Response`, a `Saved`.

    `size` is that of the whole object, as it was announced; `etag` is a strong one. `title` describes the
    object, where the peer does; `suggested` is the name that it suggests for a file, as it has it, separators
    and all. `meta` are the peer's own words about it, name and value. `target` is the URL that a link,
    service or address points to.
    """

    kind: Kind
    media_type: str | None = None
    charset: str | None = None
    size: int | None = None
    modified: datetime | None = None
    etag: str | None = None
    title: str | None = None
    suggested: bytes | None = None
    meta: tuple[tuple[str, str], ...] = ()
    target: str | None = None
    extra: Mapping[str, JsonValue] | None = None

    @property
    def headers(self) -> Headers:
        """`meta`, to be asked by name in any case."""
        return Headers(self.meta)

    @property
    def status(self) -> int | None:
        """The status code of http (RFC 9110 15), None in every other scheme."""
        status = (self.extra or {}).get("status")
        return status if isinstance(status, int) else None


_FACTS = tuple(fact.name for fact in fields(Facts))
_values_of = attrgetter(*_FACTS)


def facts_of(value: Facts) -> dict[str, Any]:
    """The facts by their names, for the value that takes them on."""
    return dict(zip(_FACTS, _values_of(value), strict=True))


#: Until somebody performs the dialogue.
_UNREAD = cast("Body", None)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Reply(Facts):
    """What a dialogue begins with: facts first, then the body, while the connection lives. The body is the
    rest of the dialogue, and put there by who performs it.

    `findings` and `verified` may grow until the body has ended. `verified` takes words out of length, final-
    reply, close-notify, terminator. The body begins at the octet `start` of the object, which is 0 unless
    `Options.start` could be granted, and ends at `stop`, which is None unless `Options.stop` could. `listing`
    reads the body as entries, or is None where the URL names no listing; with `records` it reads those, and
    the body is a document that says what is listed (a wais database); where the body is `legible`, it is text
    to be read as it stands, besides (attributes of Gopher+). `raw` makes the octets that were sent out of the
    whole body again, where the protocol's quoting was undone in it; it may be called once the body has ended.
    With `moved` there is nothing here but the way to another URL, which a retrieval follows as far as S10 and
    S11 let it. With `failure` the body is what the peer had to say to a refusal, which is the error
    (`Options.refusals`).
    `peer` is the numeric address that the octets came from, where it is not the one connected to. Of what is
    `unchanged` there is no body, for the caller's copy is no older (`Options.held`).
    """

    body: Body = _UNREAD
    start: int = 0
    stop: int | None = None
    listing: EntryReader | None = None
    legible: bool = False
    records: bytes | None = None
    moved: Moved | None = None
    failure: ResolveError | None = None
    raw: Callable[[bytes], bytes] | None = None
    peer: str | None = None
    unchanged: bool = False
    findings: list[Finding] = field(default_factory=list)
    verified: set[str] = field(default_factory=set)

    def with_body(self, body: Body) -> Reply:
        """The same with its body: this one, where it has none yet, for a copy of all facts takes longer than
        many a dialogue."""
        if self.body is not _UNREAD:
            return replace(self, body=body)
        object.__setattr__(self, "body", body)
        return self


A = TypeVar("A")
B = TypeVar("B")


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
class FirstResult(Generic[A]):
    """A value that `first_of` waited for and got."""

    value: A


@dataclass(frozen=True, slots=True)
class FileStatus:
    """What is known of a file or directory before it is read. `kind` is DOCUMENT or DIRECTORY;
    anything else in the file system shows as UNKNOWN in a listing and is never opened (S12).
    `size` is None where the file system does not tell: directories, pipes, files made up as they are read.
    `identity` tells a directory from all others of this machine, `link` is what a link to one says."""

    kind: Kind
    size: int | None
    modified: datetime | None
    identity: str | None = None
    link: bytes | None = None


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


class PooledConnection(Protocol):
    """A connection that may serve again. It is closed on leaving, unless it was left in order."""

    @property
    def stream(self) -> Stream: ...

    @property
    def state(self) -> object | None:
        """What the dialogue that kept it had to say of it; None for a new connection."""
        ...

    def keep(self, state: object) -> None:
        """It is in order and nothing is unread: keep it, on leaving, for a dialogue to come."""
        ...


class PipelineState(Protocol):
    """What the dialogues on one connection know of it in common. `buffer` (a `wire.Buffer`) holds what was
    read ahead; `generation` grows when the requests sent so far are void and have to be sent again."""

    @property
    def buffer(self) -> object: ...

    @property
    def generation(self) -> int: ...

    @property
    def has_room(self) -> bool:
        """May one more dialogue send a request behind those that were sent?"""
        ...

    @property
    def idle(self) -> bool:
        """Is nothing unanswered and nothing unread, so that the connection may wait for others?"""
        ...

    @property
    def farewell(self) -> tuple[Line, ...]:
        """What is sent before the connection is closed; nothing is awaited after it."""
        ...


class Slot(Protocol):
    """A place in the pipeline on one connection. On leaving, the next one has its turn, if this one has read
    its response to the end; if not the connection is closed, and those behind are `Disconnected`."""

    @property
    def stream(self) -> Stream: ...

    @property
    def state(self) -> PipelineState: ...

    async def start_request(self) -> None:
        """See `step.StartRequest`."""
        ...

    async def start_response(self) -> None:
        """See `step.StartResponse`."""
        ...

    def end_response(self) -> None:
        """See `step.EndResponse`."""
        ...

    def start_packing(self, machine: StreamCodec) -> None:
        """See `step.StartPacking`."""
        ...


class Timer(Protocol):
    """So many seconds from when it was made."""

    async def run(self, function: Callable[[], Awaitable[A]]) -> A:
        """Await it until they are over: then it is cancelled, and `step.Elapsed` is raised."""
        ...


class Gate(Protocol):
    """The one door of one retrieval. It knows the URL, has judged it by the policy, and opens only
    what that verdict covers: so no handler names a host, and none can forget a check."""

    @property
    def limits(self) -> Limits: ...

    @property
    def options(self) -> Options: ...

    async def credentials(self, user: bytes | None, *, challenged: bool = True) -> Credentials | None:
        """The name and password held for the URL's scheme, host and port, or those a person gives now.

        With a user, it is that one's password that is wanted. Without, nobody is asked: only what was
        set for this place counts. None where there is nothing and nobody, and where the server has not asked
        (`challenged`) and anybody on the way could read them.
        """
        ...

    def random(self, count: int) -> bytes:
        """See `step.Random`."""
        ...

    def connect(self, *, tls: bool) -> AbstractAsyncContextManager[Stream]:
        """TCP to the URL's own host and port, at an address that was checked (S08, S09)."""
        ...

    def acquire(
        self, pool_key: Hashable, *, tls: bool, suits: Callable[[object], bool] | None = None
    ) -> AbstractAsyncContextManager[PooledConnection]:
        """Such a connection that an earlier dialogue left in order, else a new one. Of several one with a
        state that `suits` is the first choice.

        `pool_key` says as whom the dialogue speaks; connections kept for another are not given (S11).
        """
        ...

    def join(
        self, key: Hashable, state: PipelineState, *, tls: bool, anew: bool
    ) -> AbstractAsyncContextManager[Slot]:
        """Such a connection in a pipeline with others of the same `key`, answered in the order they came,
        whatever the schemes of their URLs: `key` says all that keeps them apart (S11).

        Its state is `state` if the connection is new, which with `anew` it is unless others are on it.
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
    ) -> tuple[FirstResult[A] | None, FirstResult[B] | None]:
        """Await both at once, beginning with the first; when one is done, cancel the other. Both came when
        both were done in the same turn, so nothing that was heard is lost. An error of either is raised
        bare, unless it is a `ResolveError` and a value came with it."""
        ...

    async def stand_by(self) -> NoReturn:
        """Wait until cancelled: for one of two that has no more to do while the other goes on."""
        ...

    async def pause(self) -> None:
        """Others have their turn, and cancels are heeded: awaited every few milliseconds by whoever has much
        to do and nothing to wait for (S16)."""
        ...

    def timer(self, seconds: float) -> Timer:
        """See `step.StartTimer`: it begins now."""
        ...

    def derive_gate(self, location: str) -> Gate:
        """The gate of another URL, which an answer got through this one has led to: judged as one that no
        person chose (`derived`), by the address that this one was answered from. `location` is complete;
        it is judged once, and has one gate. Raises `InvalidUrl` and `Refused`."""
        ...

    def open_file(self, segments: tuple[bytes, ...]) -> AbstractAsyncContextManager[LocalFile]:
        """The local file of a file URL, opened component by component where a root is set (S12)."""
        ...


class Filter(Protocol):
    """Fed what comes, it gives what the body gets, in pieces that are made while they are taken: so nothing
    is collected without a bound, however much a few octets unpack to. All are taken before it is fed more."""

    def feed(self, octets: bytes) -> Iterable[bytes]: ...

    def finish(self) -> Iterable[bytes]:
        """The octets have ended: what was held back. May raise `Truncated` or `ProtocolError`."""
        ...


# Replay: a peer that serves one archived object.
#
# A dialogue sends it the same requests as a server, so the readers of the wire also read the bytes of an
# archive. The peer has no I/O.


class ArchivedObject(NamedTuple):
    """An object in an archive: its `media_type` as it is kept, the `commands` whose answers it is, if it is
    made of some, and its `block` in pieces. `size` is what the peer had announced."""

    media_type: str
    commands: tuple[str, ...]
    size: int | None
    modified: datetime | None
    block: Callable[[], Iterator[bytes]]


class ReplayPeer(Protocol):
    """`greeting` is what it says unasked."""

    @property
    def greeting(self) -> bytes: ...

    def answer(self, line: bytes, /) -> Iterator[bytes | None]:
        """What it says to a line, in pieces; None: what follows comes when all data were taken."""
        ...
