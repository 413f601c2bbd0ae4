"""The contract of a scheme: its values, its reply, and the connections that a network gateway gives to it.

Values (`Url`, `Entry`, `Limits`, …) are frozen. Live objects (`Reply`, `Body`) belong to a connection. A
scheme has access to network and files only through a `Gate`. This module has no behavior and does not
distinguish schemes.

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
    """Bytes that may be sent on a connection.

    Only `wire` creates a `Line`, so a URL cannot end a command early. `shown` is the same text with secrets
    as `****`. `secrets` are the hidden values, because the peer may repeat them.
    """

    octets: bytes
    shown: bytes
    secrets: tuple[bytes, ...] = ()


class StreamCodec(Protocol):
    """A compression of all data between two peers: a machine without I/O."""

    @property
    def has_more(self) -> bool:
        """Return whether `read` may return more output before further bytes are fed."""
        ...

    def pack(self, octets: bytes) -> bytes:
        """Return the compressed form of `octets`, to be sent in their place."""
        ...

    def feed(self, octets: bytes) -> None:
        """Accept received bytes; the output of all earlier bytes must have been read."""
        ...

    def read(self, most: int) -> bytes:
        """Return the next bytes, at most `most`; empty if more input is needed first."""
        ...


class Stream(Protocol):
    """A TCP connection that the network gateway opened, plain or inside TLS."""

    @property
    def peer(self) -> str:
        """Return the IP address of the peer, which is the address that was checked."""
        ...

    @property
    def secured(self) -> bool:
        """Return whether the connection is inside TLS."""
        ...

    @property
    def agreed(self) -> str | None:
        """Return the protocol that the peer chose in the TLS handshake (ALPN), or None."""
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
            `b""` at the orderly end. TLS that ended without close_notify also returns `b""` (see
            `close_notify_seen`).

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

        If an error is raised, the bytes that arrived before it are in the sink, and `received` counts them.

        Returns:
            The number of bytes moved, less than `count` only at the end.

        Raises:
            Disconnected: The connection was reset.
            TimedOut: No bytes arrived within the idle timeout.
            LocalError: The sink does not accept more bytes.
        """
        ...

    async def start_tls(self) -> None:
        """Start TLS on this connection for the URL's host; raise `TlsError` if that fails.

        A data connection resumes the TLS session of the first connection, as FTP servers require.
        """
        ...

    async def aclose(self) -> None:
        """Close without waiting for the peer; closing a connection twice is not an error."""
        ...


class Datagram(NamedTuple):
    """A received datagram with its source: an IP address and a port."""

    octets: bytes
    address: str
    port: int


class Datagrams(Protocol):
    """An unconnected UDP socket, which accepts datagrams of any host; the dialogue selects the valid ones."""

    @property
    def peer(self) -> str:
        """Return the IP address that datagrams are sent to, in canonical form; it was checked."""
        ...

    @property
    def addresses(self) -> Sequence[str]:
        """Return all checked addresses of the host, to which datagrams may be sent, preferred ones first."""
        ...

    @property
    def port(self) -> int:
        """Return the port that datagrams are sent to."""
        ...

    def now(self) -> float:
        """Return the current time, in seconds, of the clock that deadlines refer to."""
        ...

    async def send(self, packet: Line) -> None:
        """Send one datagram to the peer."""
        ...

    async def receive(self, deadline: float) -> Datagram | None:
        """Return the next datagram, at most 65,535 bytes; None if none arrived until `deadline`.

        A datagram that is already waiting is returned even after the deadline.
        """
        ...

    def send_at_once(self, packet: Line) -> None:
        """Send one datagram without waiting, also during cancellation.

        A datagram that cannot be sent immediately is lost. This method is used to notify the server that the
        client stopped waiting.
        """
        ...

    def draw_number(self) -> int:
        """Return an unpredictable number from 1 to 65,535, which identifies the answers."""
        ...

    def switch_to(self, address: str) -> None:
        """Send to `address`, which is one of `addresses`, from now on."""
        ...

    def redirect_to(self, address: str, port: int) -> None:
        """Send to another address and port from now on, as the peer directed.

        Raises:
            Refused: The policy does not allow a redirect from this URL to that host and port.
        """
        ...


class RedirectAddress(NamedTuple):
    """A redirection to another address and port; if `lasting` is set, later requests are sent there too."""

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
        """Return the packets of the request, as they are sent if no packet is lost."""
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
        """Continue after the deadline has passed, or after all waiting datagrams were read."""
        ...

    def lose(self, address: str, now: float) -> bool:
        """Remove an unreachable address; return whether another address of the server remains."""
        ...

    def cancel(self) -> Line:
        """Return the packet that tells the server that the client stopped waiting."""
        ...


class Sink(Protocol):
    """A file of this package into which a body is moved. Only the gate creates a `Sink`."""

    def fileno(self) -> int: ...

    def write(self, octets: bytes | memoryview) -> None:
        """Write all bytes; raise `LocalError` if the disk is full.

        A caller may also write to `fileno()` directly, in bulk. If that writes only a part, the caller passes
        the rest to this method, which raises the error with its reason.
        """
        ...


# Reply: the metadata of a URL's object, known before the first byte of its body.
#
# Each attribute is declared once, in `Facts`. The later values (`StreamingResponse`, `Response`, `Saved`)
# inherit the attributes and are created with `facts_of` from the value before, so there is only one list of
# attributes.

#: A further location of an object: its text, or a dialogue of the same URL.
Alternative: TypeAlias = "str | Callable[[], Dialogue]"


class Moved(NamedTuple):
    """The new location of an object, as the peer reported it.

    `location` is the text of the location, complete or relative to the requested URL, neither parsed nor
    checked. `code` is the code of the peer's reply. `others` are further locations, to be tried in the peer's
    order if the one before fails: texts, or a dialogue that starts a reply of the same URL. `found_in` is the
    referrer of these locations; it is set only if that is not the requested URL at the address of the
    connection. `failed` is the error of an earlier location, if one was tried before these were found.
    """

    location: str
    code: str
    others: tuple[Alternative, ...] = ()
    found_in: Referrer | None = None
    failed: ResolveError | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Facts:
    """The metadata of an object: of a `Reply`, a `StreamingResponse`, a `Response`, a `Saved`.

    `size` is the announced size of the complete object, in bytes. `etag` is a strong entity tag. `title` is
    the peer's description of the object, if any. `suggested` is the file name that the peer suggests,
    unchanged, path separators included. `meta` are the peer's header fields, as pairs of name and value.
    `target` is the URL that a link, service or address points to.
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
        """Return the HTTP status code (RFC 9110 15); None in every other scheme."""
        status = (self.extra or {}).get("status")
        return status if isinstance(status, int) else None


_FACTS = tuple(fact.name for fact in fields(Facts))
_values_of = attrgetter(*_FACTS)


def facts_of(value: Facts) -> dict[str, Any]:
    """Return the metadata by name, as keyword arguments of the next value."""
    return dict(zip(_FACTS, _values_of(value), strict=True))


#: The placeholder for the body until the dialogue is performed.
_UNREAD = cast("Body", None)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Reply(Facts):
    """The start of a dialogue's result: the metadata, then the body, while the connection is open.

    The body is the rest of the dialogue; the performer sets it. Until the body has ended, `findings` and
    `verified` may grow.
    - `verified`: a set of length, final-reply, close-notify, terminator.
    - `start`: the byte of the object at which the body begins; 0 unless the peer supported `Options.start`.
    - `stop`: the byte at which the body ends; None unless the peer supported `Options.stop`.
    - `listing`: reads the body as entries; None if the URL does not name a listing.
    - `records`: the source of the entries if they are not in the body. The body is then a document that
      describes the listed object (a wais database).
    - `legible`: the body of a listing is also readable as text (attributes of Gopher+).
    - `raw`: returns the bytes as sent from the complete body, if the protocol's quoting was decoded. It may
      be called only after the body has ended.
    - `moved`: the new location; the reply has no other content. A retrieval follows it as far as S10
      (redirects and links) and S11 (credential scope) permit.
    - `failure`: the error of a refusal; the body is then the text of the peer.
    - `peer`: the IP address that sent the bytes, if it is not the address of the connection.
    - `unchanged`: the body is absent, because the caller's copy is current (`Options.held`).
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

        The reply is changed in place if it has no body yet: copying the metadata takes longer than many
        dialogues.
        """
        if self.body is not _UNREAD:
            return replace(self, body=body)
        object.__setattr__(self, "body", body)
        return self


A = TypeVar("A")
B = TypeVar("B")


class Body(Protocol):
    """The bytes of a reply, while the connection is open: iterate them, or drain them into a file, once.

    After a cancellation only `aclose` of the reply that contains this body may be called.

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
    """A value that one of the two functions of `first_of` returned."""

    value: A


@dataclass(frozen=True, slots=True)
class FileStatus:
    """The metadata of a file or directory, before it is read.

    `kind` is DOCUMENT or DIRECTORY. Any other file type is UNKNOWN in a listing and is never opened (S12,
    local files). `size` is `None` if the file system does not report it: for directories, pipes, and files
    that are generated when they are read. `identity` distinguishes a directory from all others of this
    machine. `link` is the target text of a symbolic link to a directory.
    """

    kind: Kind
    size: int | None
    modified: datetime | None
    identity: str | None = None
    link: bytes | None = None


class LocalFile(Protocol):
    """A file or directory that the gate opened under rule S12 (local files).

    A document is read or moved; a directory returns its names.
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
        """Start reading at byte `octet`; call this method before the first read."""
        ...

    async def move(self, sink: Sink) -> int:
        """Move the remaining bytes into `sink` in bulk."""
        ...

    async def names(self) -> list[bytes]:
        """Return the names in the directory, sorted by bytes, without `.` and `..`."""
        ...

    def status_of(self, name: bytes) -> FileStatus:
        """Return the status of a name in the directory.

        A link has the status of its target, if opening the target is allowed. A name that no longer exists is
        UNKNOWN.
        """
        ...


class PooledConnection(Protocol):
    """A connection that may be used again. It is closed on leaving, unless `keep` was called."""

    @property
    def stream(self) -> Stream: ...

    @property
    def state(self) -> object | None:
        """Return the state that the previous dialogue passed to `keep`; None for a new connection."""
        ...

    def keep(self, state: object) -> None:
        """Pool the connection on leaving; all its bytes must have been read."""
        ...


class PipelineState(Protocol):
    """The state that the dialogues on one connection share.

    `buffer` (a `wire.Buffer`) holds the bytes read ahead. `generation` is increased when all requests sent so
    far were discarded and must be sent again.
    """

    @property
    def buffer(self) -> object: ...

    @property
    def generation(self) -> int: ...

    @property
    def has_room(self) -> bool:
        """Return whether another dialogue may send a request after the pending ones."""
        ...

    @property
    def idle(self) -> bool:
        """Return whether the connection is idle: all requests are answered and all bytes are read."""
        ...

    @property
    def farewell(self) -> tuple[Line, ...]:
        """Return the lines to send before closing the connection; the client does not wait for an answer."""
        ...


class Slot(Protocol):
    """A position in the pipeline on one connection.

    If this slot has read its complete response on leaving, the next slot may read. If not, the connection is
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
    """A time limit in seconds that starts when the timer is created."""

    async def run(self, function: Callable[[], Awaitable[A]]) -> A:
        """Await `function` until the time has elapsed; then cancel it and raise `step.TimerElapsed`."""
        ...


class Gate(Protocol):
    """The only access of a retrieval to network and files.

    The gate knows its URL and has checked it against the policy. It opens only connections to this URL's host
    and port. So a dialogue does not name a host and cannot forget a check.
    """

    @property
    def limits(self) -> Limits: ...

    @property
    def options(self) -> Options: ...

    async def credentials(self, user: bytes | None, *, challenged: bool = True) -> Credentials | None:
        """Return the credentials for the URL's scheme, host and port, stored or entered by the user now.

        Args:
            user: The user whose password is wanted. If it is None, the user is not asked, and only
                credentials stored for this host and port are returned.
            challenged: Whether the server asked for a login.

        Returns:
            None if there are no credentials. Also None if the server has not asked for a login and others on
            the network could read the credentials.
        """
        ...

    def random(self, count: int) -> bytes:
        """Return the bytes of `step.RandomBytes`."""
        ...

    def connect(self, *, tls: bool) -> AbstractAsyncContextManager[Stream]:
        """Open TCP to the URL's own host and port, at a checked address (S08 addresses, S09 DNS pinning)."""
        ...

    def acquire(
        self, pool_key: Hashable, *, tls: bool, suits: Callable[[object], bool] | None = None
    ) -> AbstractAsyncContextManager[PooledConnection]:
        """Return a pooled connection that an earlier dialogue released, else a new one.

        Args:
            pool_key: The login and other properties of the dialogue. Only connections with an equal key are
                used (S11, credential scope).
            tls: Whether the connection is inside TLS from its first byte.
            suits: A predicate on the state of a connection. If several connections are pooled, one that it
                accepts is preferred.
        """
        ...

    def join(
        self, key: Hashable, state: PipelineState, *, tls: bool, anew: bool
    ) -> AbstractAsyncContextManager[Slot]:
        """Join the pipeline of a connection that other dialogues with the same `key` share.

        Responses come in the order of the requests, for URLs of all schemes. If the body of a dialogue is not
        read as fast as it arrives (`Options.prompt`), the dialogue gets an unshared connection.

        Args:
            key: All properties that keep connections apart (S11, credential scope).
            state: The state of the connection if it is new.
            tls: Whether the connection is inside TLS from its first byte.
            anew: Open a new connection unless other dialogues are on an existing one.
        """
        ...

    def connect_data(self, port: int) -> AbstractAsyncContextManager[Stream]:
        """Open FTP's data connection to a port of the first connection's peer (S13, FTP data connections)."""
        ...

    def open_datagrams(self) -> AbstractAsyncContextManager[Datagrams]:
        """Open UDP to the URL's own host and port, at the addresses that were checked (S08, S09)."""
        ...

    async def first_of(
        self, first: Callable[[], Awaitable[A]], second: Callable[[], Awaitable[B]]
    ) -> tuple[FirstResult[A] | None, FirstResult[B] | None]:
        """Await both concurrently, starting with `first`; when one is done, cancel the other.

        Returns:
            Both results if both were done in the same turn of the event loop, so received data is not lost.

        Raises:
            Exception: The error of either function, not in a group. If the other function returned a value, a
                `ResolveError` is not raised.
        """
        ...

    async def stand_by(self) -> NoReturn:
        """Wait until cancelled.

        Of two concurrent functions, the one that is done calls this while the other continues.
        """
        ...

    async def pause(self) -> None:
        """Let other tasks run and deliver cancellations.

        A long computation without waits must await this every few milliseconds (S16, resource limits).
        """
        ...

    def timer(self, seconds: float) -> Timer:
        """Start the timer of `step.StartTimer`."""
        ...

    def derive_gate(self, location: str) -> Gate:
        """Return the gate of another URL, which was named in a response received through this gate.

        The URL is checked with the origin `derived`, because the user did not choose it, and with the address
        that sent the response. Each URL is checked once and has one gate.

        Args:
            location: A complete URL.

        Raises:
            InvalidUrl: `location` is not a URL.
            Refused: The policy does not permit the URL.
        """
        ...

    def open_file(self, segments: tuple[bytes, ...]) -> AbstractAsyncContextManager[LocalFile]:
        """Open the local file of a file URL, component by component if a root is set (S12, local files)."""
        ...


class Filter(Protocol):
    """A conversion of the bytes of a body.

    The output is returned in pieces, each created only when the caller takes it. So memory is bounded even if
    a few bytes expand to many. The caller must take all pieces before the next `feed`.
    """

    def feed(self, octets: bytes) -> Iterable[bytes]: ...

    def finish(self) -> Iterable[bytes]:
        """Return the pieces that were held until the end of the input.

        Raises:
            Truncated: The input ends too early.
            ProtocolError: The input is not valid.
        """
        ...


# Replay: a peer that serves one archived object.
#
# A dialogue sends the same requests to this peer as to a server. So the readers of the network data also read
# the bytes of an archive. The peer has no I/O.


class ArchivedObject(NamedTuple):
    """An object in an archive.

    `media_type` is as stored. `commands` are the commands whose answers form the object, if any. `block`
    iterates the content in pieces. `size` is the size that the peer announced.
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
        """Return the answer to a line, in pieces. After a None, the caller reads all data before the rest."""
        ...
