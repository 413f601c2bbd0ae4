"""The contract of a scheme: its values, its reply, and the connections that a gate gives to it.

Values (`Url`, `Entry`, `Limits`, …) are frozen. Live objects (`Reply`, `Body`) belong to a connection. `Gate`
is a scheme's only access to the outside world. This module has no behavior and does not distinguish schemes.

Text that is still percent-encoded is `str`, decoded bytes are `bytes`; so no component is decoded twice.
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


# Connections: a stream, datagrams, and the file that a body is moved into. These types do not know URLs,
# replies or limits.


class Line(NamedTuple):
    """Bytes that may leave on a connection.

    Only `wire` makes a `Line`, so a URL cannot end a command early. `shown` is the same text with secrets as
    `****`. `secrets` are the hidden values, because the peer may repeat them.
    """

    octets: bytes
    shown: bytes
    secrets: tuple[bytes, ...] = ()


class StreamCodec(Protocol):
    """A compression of all data that two peers exchange: a machine without I/O."""

    @property
    def has_more(self) -> bool:
        """Return whether `read` may have more to give before further bytes arrive."""
        ...

    def pack(self, octets: bytes) -> bytes:
        """Return the compressed form of `octets`, to be sent in their place."""
        ...

    def feed(self, octets: bytes) -> None:
        """Accept received bytes, after all earlier bytes were read."""
        ...

    def read(self, most: int) -> bytes:
        """Return the next bytes, at most `most`; empty if more must arrive first."""
        ...


class Stream(Protocol):
    """A TCP connection that the gate opened, plain or inside TLS."""

    @property
    def peer(self) -> str:
        """Return the numeric address connected to, which is the address that was checked."""
        ...

    @property
    def secured(self) -> bool:
        """Return whether the connection is inside TLS."""
        ...

    @property
    def agreed(self) -> str | None:
        """Return the protocol that the peer chose in the handshake (ALPN), or None if it chose none."""
        ...

    @property
    def received(self) -> int:
        """Return the number of bytes that `receive` and `move` took so far, exact after an error too."""
        ...

    async def send(self, *lines: Line) -> None:
        """Send all lines in one write."""
        ...

    async def receive(self) -> bytes:
        """Return the next bytes, at most 64 KiB.

        Returns:
            `b""` at the orderly end, also where TLS ended without close_notify (see `close_notify_seen`).

        Raises:
            Disconnected: The connection was reset.
            TimedOut: No bytes arrived within the idle timeout.
        """
        ...

    @property
    def close_notify_seen(self) -> bool:
        """Return whether the peer ended TLS with close_notify; False until then and without TLS."""
        ...

    async def move(self, sink: Sink, count: int | None) -> int:
        """Move up to `count` bytes into `sink` in bulk (None: until the end).

        After an error too, the earlier bytes are in the sink, and `received` counts them.

        Returns:
            The number of bytes moved, less than `count` only at the end.

        Raises:
            Disconnected: The connection was reset.
            TimedOut: No bytes arrived within the idle timeout.
            LocalError: The sink does not accept more bytes.
        """
        ...

    async def start_tls(self) -> None:
        """Wrap this connection in TLS for the URL's host; raise `TlsError` if that fails.

        A data connection offers the session of the first connection, as FTP servers require.
        """
        ...

    async def aclose(self) -> None:
        """Close without waiting for the peer; harmless on a closed connection."""
        ...


class Datagram(NamedTuple):
    """A received datagram with its source: a numeric address and a port."""

    octets: bytes
    address: str
    port: int


class Datagrams(Protocol):
    """An unconnected UDP socket of the gate: any host may answer, the dialogue decides which to accept."""

    @property
    def peer(self) -> str:
        """Return the numeric address sent to, in canonical form; it was checked."""
        ...

    @property
    def addresses(self) -> Sequence[str]:
        """Return all addresses of the host that were checked and may be sent to, preferred ones first."""
        ...

    @property
    def port(self) -> int:
        """Return the port sent to."""
        ...

    def now(self) -> float:
        """Return the time of the clock that deadlines refer to, in seconds."""
        ...

    async def send(self, packet: Line) -> None:
        """Send one datagram to the peer."""
        ...

    async def receive(self, deadline: float) -> Datagram | None:
        """Return the next datagram, at most 65,535 bytes; None if none arrived until `deadline`.

        A datagram that is already waiting is delivered after the deadline too.
        """
        ...

    def send_at_once(self, packet: Line) -> None:
        """Send one datagram without waiting, also during cancellation.

        A datagram that cannot leave immediately is lost. This method sends the notice that the client stopped
        waiting.
        """
        ...

    def draw_number(self) -> int:
        """Return an unpredictable number from 1 to 65,535, which identifies the answers."""
        ...

    def switch_to(self, address: str) -> None:
        """Send to this one of `addresses` from now on."""
        ...

    def redirect_to(self, address: str, port: int) -> None:
        """Send to another address and port from now on, as the peer directed.

        Raises:
            Refused: The policy does not permit a URL of that host and port to be followed from this one.
        """
        ...


class RedirectAddress(NamedTuple):
    """A redirection to another address and port; `lasting` says that later requests belong there too."""

    address: str
    port: int
    lasting: bool


class SwitchAddress(NamedTuple):
    """A change to another address of the server."""

    address: str


DatagramAction: TypeAlias = "Line | RedirectAddress | SwitchAddress"


class DatagramExchange(Protocol):
    """A request in datagrams and its reply: a machine without I/O and without a clock.

    Each call takes the time and returns the actions to perform now. `deadline` is the time of the next call
    if no datagram arrives before it.
    """

    @property
    def packets(self) -> Sequence[Line]:
        """Return the packets of the request, as they leave if no packet is lost."""
        ...

    @property
    def pieces(self) -> Sequence[bytes]:
        """Return the reply, packet by packet, once it is complete."""
        ...

    @property
    def complete(self) -> bool: ...

    @property
    def deadline(self) -> float: ...

    def begin(self, now: float) -> Sequence[DatagramAction]: ...

    def take(self, datagram: bytes, address: str, now: float) -> Sequence[DatagramAction]:
        """Process a datagram from `address`."""
        ...

    def wake(self, now: float) -> Sequence[DatagramAction]:
        """Process the passing of the deadline, or an empty receive queue."""
        ...

    def lose(self, address: str, now: float) -> bool:
        """Drop an address that cannot be sent to; return whether another address of the server remains."""
        ...

    def cancel(self) -> Line:
        """Return the packet that tells the server that the client stopped waiting."""
        ...


class Sink(Protocol):
    """A file of this package that a body is moved into. Only the gate makes one."""

    def fileno(self) -> int: ...

    def write(self, octets: bytes | memoryview) -> None:
        """Write all bytes; raise `LocalError` if the disk is full.

        A caller may also write to `fileno()` itself, in bulk. It passes the bytes that did not fit to this
        method, which then names the reason.
        """
        ...


# Reply: the facts about the object of a URL, known before the first byte of its body.
#
# A fact is declared once, in `Facts`. Each later value inherits the facts and is made from the previous value
# with `facts_of`, so the list of facts exists once.

#: A further location of an object: its text, or a dialogue of the same URL.
Alternative: TypeAlias = "str | Callable[[], Dialogue]"


class Moved(NamedTuple):
    """The new location of an object, as the peer reported it.

    `location` is its text, complete or relative to the URL asked, neither parsed nor checked. `code` is the
    code of the peer's reply. `others` are further locations in the peer's order, for the case that the one
    before fails: texts, or a dialogue that begins a reply of the same URL. `found_in` is the referrer of
    these locations, if it is not the URL asked at the address connected to. `failed` is the error of an
    earlier location that was tried where these were found.
    """

    location: str
    code: str
    others: tuple[Alternative, ...] = ()
    found_in: Referrer | None = None
    failed: ResolveError | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Facts:
    """The facts of an object: of a `Reply`, a `StreamingResponse`, a `Response`, a `Saved`.

    `size` is the announced size of the complete object, in bytes. `etag` is a strong entity tag. `title` is
    the peer's description of the object, if any. `suggested` is the file name that the peer suggests,
    unchanged, separators included. `meta` are the peer's header fields, as pairs of name and value. `target`
    is the URL that a link, service or address points to.
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
        """Return `meta` as a mapping with case-insensitive names."""
        return Headers(self.meta)

    @property
    def status(self) -> int | None:
        """Return the status code of http (RFC 9110 15), or None in every other scheme."""
        status = (self.extra or {}).get("status")
        return status if isinstance(status, int) else None


_FACTS = tuple(fact.name for fact in fields(Facts))
_values_of = attrgetter(*_FACTS)


def facts_of(value: Facts) -> dict[str, Any]:
    """Return the facts by name, as keyword arguments of the next value."""
    return dict(zip(_FACTS, _values_of(value), strict=True))


#: The body until the dialogue is performed.
_UNREAD = cast("Body", None)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Reply(Facts):
    """The start of a dialogue's result: the facts, then the body, while the connection lives.

    The body is the rest of the dialogue; the performer sets it. Until the body has ended, `findings` and
    `verified` may grow.
    - `verified`: a set of length, final-reply, close-notify, terminator.
    - `start`: the byte of the object at which the body begins; 0 unless `Options.start` could be granted.
    - `stop`: the byte at which it ends; None unless `Options.stop` could be granted.
    - `listing`: reads the body as entries; None if the URL does not name a listing.
    - `records`: the source of the entries in place of the body, which then is a document that describes the
      listed object (a wais database).
    - `legible`: the body of a listing is also readable as text (attributes of Gopher+).
    - `raw`: restores the sent bytes from the complete body, where the protocol's quoting was undone. It may
      be called only after the body has ended.
    - `moved`: the new location; the reply has no other content. A retrieval follows it as far as S10 and S11
      permit.
    - `failure`: the error of a refusal; the body is then the text of the peer (`Options.refusals`).
    - `peer`: the numeric address that the bytes came from, if it is not the address connected to.
    - `unchanged`: the body is absent, because the caller's copy is not older (`Options.held`).
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
        """Return this reply with its body.

        A reply without a body is changed in place: copying all facts takes longer than many dialogues.
        """
        if self.body is not _UNREAD:
            return replace(self, body=body)
        object.__setattr__(self, "body", body)
        return self


A = TypeVar("A")
B = TypeVar("B")


class Body(Protocol):
    """The bytes of a reply, while the connection lives: iterate them, or drain them into a file, once.

    After a cancellation only `aclose` of the surrounding reply may be called.

    Raises:
        Truncated: The peer ended early.
        Disconnected: The peer ended before the first byte.
        TimedOut: A time limit passed.
        LimitExceeded: The body exceeds a limit.
    """

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    async def __anext__(self) -> bytes: ...

    async def drain(self, sink: Sink) -> int:
        """Move all remaining bytes into `sink` in bulk; return their number."""
        ...


@dataclass(frozen=True, slots=True)
class FirstResult(Generic[A]):
    """A value that `first_of` waited for and received."""

    value: A


@dataclass(frozen=True, slots=True)
class FileStatus:
    """The metadata of a file or directory, before it is read.

    `kind` is DOCUMENT or DIRECTORY. Any other file type is UNKNOWN in a listing and is never opened (S12).
    `size` is `None` if the file system does not report it: directories, pipes, files generated on reading.
    `identity` distinguishes a directory from all others of this machine. `link` is the target text of a
    symbolic link to a directory.
    """

    kind: Kind
    size: int | None
    modified: datetime | None
    identity: str | None = None
    link: bytes | None = None


class LocalFile(Protocol):
    """A file or directory that the gate opened under rule S12.

    A document is read or moved, a directory returns its names.
    """

    @property
    def status(self) -> FileStatus: ...

    async def read(self) -> bytes:
        """Return the next bytes, at most 256 KiB; `b""` at the end."""
        ...

    def modified_since(self) -> bool:
        """Return whether the file was modified since it was opened."""
        ...

    def begin_at(self, octet: int) -> None:
        """Read from this byte on; call it before the first read."""
        ...

    async def move(self, sink: Sink) -> int:
        """Move the remaining bytes into `sink` in bulk."""
        ...

    async def names(self) -> list[bytes]:
        """Return the names in the directory, sorted by bytes, without `.` and `..`."""
        ...

    def status_of(self, name: bytes) -> FileStatus:
        """Return the status of a name in the directory.

        A link has the status of its target, if the target may be opened. A name that no longer exists is
        UNKNOWN.
        """
        ...


class PooledConnection(Protocol):
    """A connection that may serve again. It is closed on leaving, unless it was left in order."""

    @property
    def stream(self) -> Stream: ...

    @property
    def state(self) -> object | None:
        """Return the state that the previous dialogue passed to `keep`; None for a new connection."""
        ...

    def keep(self, state: object) -> None:
        """Pool the connection on leaving: it is in order and all its bytes were read."""
        ...


class PipelineState(Protocol):
    """The state that the dialogues on one connection share.

    `buffer` (a `wire.Buffer`) holds the bytes read ahead. `generation` grows when the requests sent so far
    are void and must be sent again.
    """

    @property
    def buffer(self) -> object: ...

    @property
    def generation(self) -> int: ...

    @property
    def has_room(self) -> bool:
        """Return whether one more dialogue may send a request after the pending ones."""
        ...

    @property
    def idle(self) -> bool:
        """Return whether the connection may wait for others: all is answered and all is read."""
        ...

    @property
    def farewell(self) -> tuple[Line, ...]:
        """Return the lines sent before the connection is closed; no answer is awaited."""
        ...


class Slot(Protocol):
    """A position in the pipeline on one connection.

    On leaving, the next slot has its turn if this one read its response to the end. If not, the connection is
    closed and the later slots raise `Disconnected`.
    """

    @property
    def stream(self) -> Stream: ...

    @property
    def state(self) -> PipelineState: ...

    async def start_request(self) -> None:
        """Perform `step.StartRequest`."""
        ...

    async def start_response(self) -> None:
        """Perform `step.StartResponse`."""
        ...

    def end_response(self) -> None:
        """Perform `step.EndResponse`."""
        ...

    def start_packing(self, machine: StreamCodec) -> None:
        """Perform `step.StartPacking`."""
        ...


class Timer(Protocol):
    """A time limit in seconds that starts when the timer is made."""

    async def run(self, function: Callable[[], Awaitable[A]]) -> A:
        """Await `function` until the time is over; then cancel it and raise `step.TimerElapsed`."""
        ...


class Gate(Protocol):
    """The only access of a retrieval to network and files.

    The gate knows the URL, has checked it against the policy, and opens only the connections that this
    verdict covers. So a handler does not name a host and cannot forget a check.
    """

    @property
    def limits(self) -> Limits: ...

    @property
    def options(self) -> Options: ...

    async def credentials(self, user: bytes | None, *, challenged: bool = True) -> Credentials | None:
        """Return the credentials for the URL's scheme, host and port, stored or entered by the user now.

        Args:
            user: The user whose password is wanted. With None the user is not asked, and only credentials
                stored for this host and port count.
            challenged: Whether the server asked for a login.

        Returns:
            None if there are no credentials. None also if the server has not asked and the credentials would
            be readable on the network.
        """
        ...

    def random(self, count: int) -> bytes:
        """Return the bytes of `step.RandomBytes`."""
        ...

    def connect(self, *, tls: bool) -> AbstractAsyncContextManager[Stream]:
        """Open TCP to the URL's own host and port, at an address that was checked (S08, S09)."""
        ...

    def acquire(
        self, pool_key: Hashable, *, tls: bool, suits: Callable[[object], bool] | None = None
    ) -> AbstractAsyncContextManager[PooledConnection]:
        """Return a pooled connection that an earlier dialogue left in order, else a new one.

        Args:
            pool_key: The identity of the dialogue; connections kept for another identity are not used (S11).
            tls: Whether the connection is inside TLS from its first byte.
            suits: A predicate on the state. A connection that it accepts is the first choice among several.
        """
        ...

    def join(
        self, key: Hashable, state: PipelineState, *, tls: bool, anew: bool
    ) -> AbstractAsyncContextManager[Slot]:
        """Join the pipeline of a connection that others of the same `key` share.

        Responses come in the order of the requests, for URLs of all schemes. A dialogue whose body
        is not taken as fast as it arrives (`Options.prompt`) gets an unshared connection.

        Args:
            key: All properties that keep connections apart (S11).
            state: The state of the connection if it is new.
            tls: Whether the connection is inside TLS from its first byte.
            anew: Open a new connection unless other dialogues are on an existing one.
        """
        ...

    def connect_data(self, port: int) -> AbstractAsyncContextManager[Stream]:
        """Open FTP's second TCP connection, to the peer of the first (S13): takes a port, never a host."""
        ...

    def open_datagrams(self) -> AbstractAsyncContextManager[Datagrams]:
        """Open UDP to the URL's own host and port, at the addresses that were checked (S08, S09)."""
        ...

    async def first_of(
        self, first: Callable[[], Awaitable[A]], second: Callable[[], Awaitable[B]]
    ) -> tuple[FirstResult[A] | None, FirstResult[B] | None]:
        """Await both concurrently, the first one first, and cancel the other when one is done.

        Returns:
            Both results if both were done in the same turn, so received data is not lost.

        Raises:
            Exception: The error of either, not in a group. A `ResolveError` is not raised if the other
                returned a value.
        """
        ...

    async def stand_by(self) -> NoReturn:
        """Wait until cancelled, when one of two concurrent functions is done and the other continues."""
        ...

    async def pause(self) -> None:
        """Let other tasks run and deliver cancellations.

        A caller with much work and no wait must await this every few milliseconds (S16).
        """
        ...

    def timer(self, seconds: float) -> Timer:
        """Start the timer of `step.StartTimer`."""
        ...

    def derive_gate(self, location: str) -> Gate:
        """Return the gate of another URL, to which an answer received through this gate led.

        The URL is checked as `derived`, because the user did not choose it, with the address that this gate
        was answered from. It is checked once and has one gate.

        Args:
            location: A complete URL.

        Raises:
            InvalidUrl: `location` is not a URL.
            Refused: The policy does not permit it.
        """
        ...

    def open_file(self, segments: tuple[bytes, ...]) -> AbstractAsyncContextManager[LocalFile]:
        """Open the local file of a file URL, component by component where a root is set (S12)."""
        ...


class Filter(Protocol):
    """A conversion of the bytes of a body.

    It returns pieces that are made while they are taken. So memory is bounded, however much a few bytes
    unpack to. All pieces must be taken before the next `feed`.
    """

    def feed(self, octets: bytes) -> Iterable[bytes]: ...

    def finish(self) -> Iterable[bytes]:
        """Return the pieces held back at the end of the input; may raise `Truncated` or `ProtocolError`."""
        ...


# Replay: a peer that serves one archived object.
#
# A dialogue sends it the same requests as a server, so the readers of the wire also read the bytes of an
# archive. The peer has no I/O.


class ArchivedObject(NamedTuple):
    """An object in an archive.

    `media_type` is as stored. `commands` are the commands whose answers form the object, if any. `block`
    iterates the content in pieces. `size` is the size that the peer had announced.
    """

    media_type: str
    commands: tuple[str, ...]
    size: int | None
    modified: datetime | None
    block: Callable[[], Iterator[bytes]]


class ReplayPeer(Protocol):
    """A peer that answers from an archive; `greeting` is the text it sends first, without a request."""

    @property
    def greeting(self) -> bytes: ...

    def answer(self, line: bytes, /) -> Iterator[bytes | None]:
        """Return the answer to a line, in pieces; after a None the rest follows once all data was taken."""
        ...
