"""The contract of a scheme: data types, replies, and the connections that the network gateway opens.

Data types (`Url`, `Entry`, `Limits`, …) are immutable. Live objects (`Reply`, `Body`) belong to an open
connection. A scheme accesses the network and files only through a `Gate`. This module contains only types,
which are the same for all schemes.

Percent-encoded text is `str`, and decoded bytes are `bytes`. The two types prevent double decoding.
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
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Generic, NamedTuple, NoReturn, Protocol, TypeAlias, TypeVar, cast

from protocols.location import Action as Action
from protocols.location import BuiltUrl as BuiltUrl
from protocols.location import ComponentSpan as ComponentSpan
from protocols.location import Entry as Entry
from protocols.location import EntryReader as EntryReader
from protocols.location import Facts as Facts
from protocols.location import Finding as Finding
from protocols.location import Headers as Headers
from protocols.location import HostUrl as HostUrl
from protocols.location import JsonValue as JsonValue
from protocols.location import Kind as Kind
from protocols.location import Origin as Origin
from protocols.location import Referrer as Referrer
from protocols.location import Url as Url
from protocols.location import UrlText as UrlText
from protocols.location import copy_facts as copy_facts
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
    from datetime import datetime

    from protocols.errors import ResolveError


# Types of connections: TCP streams, UDP datagrams, and the file that receives a body. The types do not depend
# on URLs, replies or limits.


class Line(NamedTuple):
    """Bytes that may be sent on a connection.

    Only the module `wire` creates a `Line`. Therefore text of a URL cannot end a command early (CRLF
    injection). `shown` is the text for display, with `****` in place of secrets. `secrets` are the hidden
    values: the peer may repeat them in its response, where they must be hidden too.
    """

    octets: bytes
    shown: bytes
    secrets: tuple[bytes, ...] = ()


class StreamCodec(Protocol):
    """A codec for stream compression (RFC 8054 COMPRESS), without I/O."""

    @property
    def has_more(self) -> bool:
        """Return whether `read` may return more output without further input."""
        ...

    def pack(self, octets: bytes) -> bytes:
        """Return the compressed bytes to send for `octets`."""
        ...

    def feed(self, octets: bytes) -> None:
        """Accept received bytes. Call this method only after `read` has returned all earlier output."""
        ...

    def read(self, most: int) -> bytes:
        """Return the next decompressed bytes, at most `most`; empty if more input is needed."""
        ...


class Stream(Protocol):
    """A TCP connection that the network gateway opened, with or without TLS."""

    @property
    def peer(self) -> str:
        """Return the IP address of the peer. The policy has checked this address."""
        ...

    @property
    def secured(self) -> bool:
        """Return whether the connection is inside TLS."""
        ...

    @property
    def agreed(self) -> str | None:
        """Return the protocol that was negotiated in the TLS handshake (ALPN), or None."""
        ...

    @property
    def received(self) -> int:
        """Return the exact number of bytes that `receive` and `move` have received, also after an error."""
        ...

    async def send(self, *lines: Line) -> None:
        """Send all lines in one write."""
        ...

    async def receive(self) -> bytes:
        """Return the next bytes of the connection, at most 128 KiB.

        Returns:
            `b""` at the orderly end of the connection. TLS without close_notify also returns `b""` (see
            `close_notify_seen`).

        Raises:
            Disconnected: The connection was reset.
            TimedOut: No bytes arrived within the idle timeout.
        """
        ...

    @property
    def close_notify_seen(self) -> bool:
        """Return whether the peer has ended TLS with close_notify. Without TLS, the result is False."""
        ...

    async def move(self, sink: Sink, count: int | None) -> int:
        """Move up to `count` bytes in bulk into the file `sink`.

        Without a `count`, move all bytes until the end of the connection. After an error, the file contains
        the bytes that arrived before the error, and `received` includes them.

        Returns:
            The number of bytes moved. The number is less than `count` only if the connection ends.

        Raises:
            Disconnected: The connection was reset.
            TimedOut: No bytes arrived within the idle timeout.
            LocalError: The file cannot be written.
        """
        ...

    async def start_tls(self) -> None:
        """Start TLS on this connection for the URL's host.

        A data connection resumes the TLS session of the control connection, as FTP servers require.

        Raises:
            TlsError: The handshake failed, or the certificate is not trusted.
        """
        ...

    async def aclose(self) -> None:
        """Close the connection without waiting for the peer. A second call has no effect."""
        ...


class Datagram(NamedTuple):
    """A received datagram with its source address: an IP address and a port."""

    octets: bytes
    address: str
    port: int


class Datagrams(Protocol):
    """An unconnected UDP socket, which receives datagrams from any host.

    The dialogue accepts or discards each datagram by its source address.
    """

    @property
    def peer(self) -> str:
        """Return the IP address of the peer, checked by the policy, in canonical form."""
        ...

    @property
    def addresses(self) -> Sequence[str]:
        """Return all checked addresses of the host, preferred addresses first."""
        ...

    @property
    def port(self) -> int:
        """Return the port to which datagrams are sent."""
        ...

    def now(self) -> float:
        """Return the current time in seconds, on the monotonic clock of the deadlines."""
        ...

    async def send(self, packet: Line) -> None:
        """Send one datagram to the peer."""
        ...

    async def receive(self, deadline: float) -> Datagram | None:
        """Return the next datagram, at most 65,535 bytes, or None if the deadline passes first.

        A datagram that has already arrived is returned even after the deadline.
        """
        ...

    def send_at_once(self, packet: Line) -> None:
        """Send one datagram without waiting, even during a cancellation.

        A datagram that cannot be sent immediately is lost. A dialogue calls this method to cancel a request
        at the server.
        """
        ...

    def draw_number(self) -> int:
        """Return an unpredictable request identifier from 1 to 65,535, to prevent forged responses."""
        ...

    def switch_to(self, address: str) -> None:
        """Send all later datagrams to another address of `addresses`."""
        ...

    def redirect_to(self, address: str, port: int) -> None:
        """Send all later datagrams to another address and port, as the peer directed.

        Raises:
            Refused: The policy does not allow a redirect from this URL to that host and port.
        """
        ...


class RedirectAddress(NamedTuple):
    """An action: send to another address and port. If `lasting` is set, later requests are sent there too."""

    address: str
    port: int
    lasting: bool


class SwitchAddress(NamedTuple):
    """An action: send to another address of the same server."""

    address: str


DatagramAction: TypeAlias = "Line | RedirectAddress | SwitchAddress"


class DatagramExchange(Protocol):
    """A request in datagrams and its reply, without I/O and without a clock.

    The methods `take` and `wake` receive the current time and return the actions to perform now. If no
    datagram arrives before the time `deadline`, the driver calls `wake`.
    """

    @property
    def packets(self) -> Sequence[Line]:
        """Return the packets of the request in the order of sending, without retransmissions."""
        ...

    @property
    def pieces(self) -> Sequence[bytes]:
        """Return the packets of the complete reply, in order."""
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
        """Continue after the deadline, or after all received datagrams were processed."""
        ...

    def lose(self, address: str, now: float) -> bool:
        """Remove an unreachable address, and return whether another address of the server remains."""
        ...

    def cancel(self) -> Line:
        """Return a packet that cancels the request at the server."""
        ...


class Sink(Protocol):
    """A file that receives a body. Only the gate creates a `Sink`."""

    def fileno(self) -> int: ...

    def write(self, octets: bytes | memoryview) -> None:
        """Write all bytes to the file.

        A caller may also write in bulk to `fileno()`. After a short write to `fileno()`, the caller passes
        the remaining bytes to this method. The method raises the error of the operating system.

        Raises:
            LocalError: The file cannot be written, for example because the disk is full.
        """
        ...


# The reply: the metadata of an object, known before the first byte of the body.
#
# `Facts` describes the attributes. `Reply` is not frozen: a frozen dataclass of its size takes 44,600 machine
# instructions to create, and a mutable one 11,500. `copy_facts` copies the values to the next object.

#: An alternative location of an object: the text of a URL, or a function that starts another dialogue for the
#: same URL.
Alternative: TypeAlias = "str | Callable[[], Dialogue]"


class Moved(NamedTuple):
    """A redirect: the new location of an object, as the peer reported it.

    `location` is the new URL as text, absolute or relative to the requested URL. The text is not parsed and
    not checked. `code` is the status code of the peer. `others` are alternative locations in the peer's
    order. If a location fails, the client tries the next location. `found_in` is the referrer of the new
    locations. If `found_in` is absent, the referrer is the requested URL at the address of the connection.
    `failed` is the error of an earlier location that was tried before this redirect.
    """

    location: str
    code: str
    others: tuple[Alternative, ...] = ()
    found_in: Referrer | None = None
    failed: ResolveError | None = None


#: The placeholder for the body of a reply, until the dialogue runs.
_UNREAD = cast("Body", None)


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class Reply(Facts):
    """The start of a dialogue's result: the metadata and the body, while the connection is open.

    The driver sets the body, and the later steps of the dialogue produce its bytes. The dialogue may add
    items to `findings` and `verified` until the body has ended.
    - `verified`: the set of verified properties: length, final-reply, close-notify, terminator.
    - `start`: the byte offset in the object at which the body begins. The offset is 0 if the peer did not
      support `Options.start`.
    - `stop`: the byte offset in the object at which the body ends. The offset is `None` if the peer did not
      support `Options.stop`.
    - `listing`: reads the body as entries; None if the URL does not name a listing.
    - `records`: the source of the entries if the body does not contain the entries. The body then is a
      description of the listed object (a wais database).
    - `legible`: whether the user can read the body of the listing as text (attributes of Gopher+).
    - `raw`: a function that converts the complete body back to the bytes that were sent. The attribute is set
      if the dot-stuffing of the protocol was decoded. Call the function only after the end of the body.
    - `moved`: the redirect. A reply with a redirect has no body. A retrieval follows a redirect if S10
      (redirects and links) and S11 (credential scope) permit the redirect.
    - `failure`: the error if the peer refused the request. The body is then the peer's error text
      (`Options.refusals`).
    - `peer`: the IP address of the sender of the data, if it differs from the address of the connection.
    - `unchanged`: whether the body is absent because the caller's copy is current (`Options.held`).
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
        """Set the body and return the reply. Dialogues may share a reply, so one with a body is copied."""
        if self.body is not _UNREAD:
            return replace(self, body=body)
        self.body = body
        return self


A = TypeVar("A")
B = TypeVar("B")


class Body(Protocol):
    """The bytes of a reply, while the connection is open.

    A body is read only once: the caller iterates over the body or moves it into a file.

    After a cancellation, the caller may only call `aclose` of the reply.

    Raises:
        Truncated: The peer closed the connection before the end of the body.
        Disconnected: The peer closed the connection before the first byte.
        TimedOut: A timeout expired.
        LimitExceeded: The body exceeds a limit.
    """

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    async def __anext__(self) -> bytes: ...

    async def drain(self, sink: Sink) -> int:
        """Move all remaining bytes in bulk into the file `sink`, and return their number."""
        ...


class FirstResult(NamedTuple, Generic[A]):
    """The result of a function that was passed to `first_of`."""

    value: A


class FileStatus(NamedTuple):
    """The metadata of a file or directory, before it is read.

    `kind` is DOCUMENT or DIRECTORY. Any other file type is UNKNOWN in a listing and is never opened (S12,
    local files). `size` is `None` for directories, pipes and generated files, because the file system does
    not report their size. `identity` identifies a directory on this machine. For a symbolic link to a
    directory, `link` is the target.
    """

    kind: Kind
    size: int | None
    modified: datetime | None
    identity: str | None = None
    link: bytes | None = None


class LocalFile(Protocol):
    """A file or directory that the gate opened under rule S12 (local files).

    If the path is a file, its bytes can be read or moved into another file. If the path is a directory,
    `names` returns the names in the directory.
    """

    @property
    def status(self) -> FileStatus: ...

    async def read(self) -> bytes:
        """Return the next bytes of the file, at most 256 KiB, or `b""` at the end of the file."""
        ...

    def modified_since(self) -> bool:
        """Return whether the file was modified since it was opened."""
        ...

    def begin_at(self, octet: int) -> None:
        """Start reading at the offset `octet`, in bytes. Call this method before the first read."""
        ...

    async def move(self, sink: Sink) -> int:
        """Move the remaining bytes in bulk into the file `sink`."""
        ...

    async def names(self) -> list[bytes]:
        """Return the names in the directory, sorted by bytes, without `.` and `..`."""
        ...

    def status_of(self, name: bytes) -> FileStatus:
        """Return the status of a name in the directory.

        For a symbolic link, the method returns the status of the target if the policy permits the target. A
        name that no longer exists has the kind UNKNOWN.
        """
        ...


class PooledConnection(Protocol):
    """A reusable connection (keep-alive). Without a call of `keep`, it is closed after `async with`."""

    @property
    def stream(self) -> Stream: ...

    @property
    def state(self) -> object | None:
        """Return the state from the previous dialogue's `keep` call, or None for a new connection."""
        ...

    def keep(self, state: object) -> None:
        """Request the return of the connection to the pool. All received bytes must have been read."""
        ...


class PipelineState(Protocol):
    """The state that the dialogues on one connection share (pipelining).

    `buffer` (a `wire.Buffer`) contains received bytes that no dialogue has read yet. When all pending
    requests are discarded and must be sent again, `generation` increases.
    """

    @property
    def buffer(self) -> object: ...

    @property
    def generation(self) -> int: ...

    @property
    def has_room(self) -> bool:
        """Return whether another request may be added to the pipeline."""
        ...

    @property
    def idle(self) -> bool:
        """Return whether the connection is idle: no request is pending, and all bytes are read."""
        ...

    @property
    def farewell(self) -> tuple[Line, ...]:
        """Return the lines to send before closing, such as QUIT. The client does not wait for a reply."""
        ...


class Slot(Protocol):
    """The position of one dialogue in the pipeline of a connection.

    After the dialogue has read its complete response, the dialogue in the next slot reads. If the dialogue
    stops before the end of its response, the connection is closed. The dialogues in later slots then raise
    `Disconnected`.
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
    """A timeout in seconds that starts when the timer is created."""

    async def run(self, function: Callable[[], Awaitable[A]]) -> A:
        """Await `function`. When the time has elapsed, cancel `function` and raise `step.TimerElapsed`."""
        ...


class Gate(Protocol):
    """The only access of a retrieval to the network and to files.

    A gate belongs to one URL, which the policy has checked. The gate connects only to the host and port of
    its URL. A dialogue passes no host name to the gate, so a dialogue cannot bypass a check (SSRF).
    """

    @property
    def limits(self) -> Limits: ...

    @property
    def options(self) -> Options: ...

    async def credentials(self, user: bytes | None, *, challenged: bool = True) -> Credentials | None:
        """Return stored credentials for the URL's scheme, host and port.

        If no credentials are stored, the user is prompted for them.

        Args:
            user: The user name whose password is needed. If `user` is `None`, only credentials that are
                stored for this host and port are returned. The user is not prompted.
            challenged: Whether the server requested a login.

        Returns:
            The credentials, or None if no credentials exist. Before the server requests a login, the result
            is also None if the connection is not protected against eavesdropping.
        """
        ...

    def random(self, count: int) -> bytes:
        """Return `count` random bytes, for the step `RandomBytes`."""
        ...

    def connect(self, *, tls: bool) -> AbstractAsyncContextManager[Stream]:
        """Open TCP to the URL's own host and port, at a checked address (S08 addresses, S09 DNS pinning)."""
        ...

    def acquire(
        self, pool_key: Hashable, *, tls: bool, suits: Callable[[object], bool] | None = None
    ) -> AbstractAsyncContextManager[PooledConnection]:
        """Return a connection from the pool, or a new connection.

        Args:
            pool_key: The login and all other properties that a reused connection must have. Only connections
                with an equal key are reused (S11, credential scope).
            tls: Whether the connection is inside TLS from its first byte.
            suits: A predicate on the state of a connection. If several connections are in the pool, a
                connection for which `suits` returns true is preferred.
        """
        ...

    def join(
        self, key: Hashable, state: PipelineState, *, tls: bool, anew: bool
    ) -> AbstractAsyncContextManager[Slot]:
        """Join the pipeline of the connection that all dialogues with the same `key` share.

        Responses arrive in the order of the requests. A slow reader would block all later responses.
        Therefore a dialogue shares a connection only if the option `Options.prompt` is set.

        Args:
            key: The properties that all dialogues on one connection must have in common (S11, credential
                scope).
            state: The initial shared state of a new connection.
            tls: Whether the connection uses TLS from the first byte.
            anew: Open a new connection, unless other dialogues use the existing connection.
        """
        ...

    def connect_data(self, port: int) -> AbstractAsyncContextManager[Stream]:
        """Open an FTP data connection to `port` of the control connection's peer (S13, FTP bounce)."""
        ...

    def open_datagrams(self) -> AbstractAsyncContextManager[Datagrams]:
        """Open a UDP socket for the URL's own host and port, at the checked addresses (S08, S09)."""
        ...

    async def first_of(
        self, first: Callable[[], Awaitable[A]], second: Callable[[], Awaitable[B]]
    ) -> tuple[FirstResult[A] | None, FirstResult[B] | None]:
        """Await two functions concurrently. When the first result arrives, cancel the other function.

        The function `first` is started before `second`.

        Returns:
            The result of the function that returned first, and None for the other function. If both functions
                return at the same time, both results are returned, so that received data is not lost.

        Raises:
            Exception: The error of either function, not in an exception group. A `ResolveError` is not raised
                if the other function returned a value.
        """
        ...

    async def stand_by(self) -> NoReturn:
        """Wait for the other function of `first_of`, until this function is cancelled."""
        ...

    async def pause(self) -> None:
        """Let other tasks run, and deliver cancellations.

        A long computation must call this method every few milliseconds (S16, resource limits).
        """
        ...

    def timer(self, seconds: float) -> Timer:
        """Start the timer of `step.StartTimer`."""
        ...

    def derive_gate(self, location: str) -> Gate:
        """Return a gate for another URL, which a response through this gate contained.

        The policy checks the URL with the origin `derived`, because a server chose the URL, not the user. The
        referrer contains the address that sent the response. Each URL is checked once and has one gate.

        Args:
            location: An absolute URL.

        Raises:
            InvalidUrl: `location` is not a URL.
            Refused: The policy does not permit the URL.
        """
        ...

    def open_file(self, segments: tuple[bytes, ...]) -> AbstractAsyncContextManager[LocalFile]:
        """Open the file of a file URL, segment by segment below a root directory (S12, path traversal)."""
        ...


class Filter(Protocol):
    """An incremental conversion of the bytes of a body.

    The output is a sequence of blocks. Each block is created only when the caller takes the block, so a
    decompression bomb does not exhaust the memory. The caller must take all blocks before the next call of
    `feed`.
    """

    def feed(self, octets: bytes) -> Iterable[bytes]: ...

    def finish(self) -> Iterable[bytes]:
        """Return the remaining blocks at the end of the input.

        Raises:
            Truncated: The input ends too early.
            ProtocolError: The input is not valid.
        """
        ...


# Replay: a peer that serves one archived object.
#
# A dialogue sends the same requests to this peer and to a server. Therefore one parser reads responses from
# the network and from an archive. The peer performs no I/O.


class ArchivedObject(NamedTuple):
    """An object in an archive.

    `media_type` is the stored media type. `commands` has the commands for which the replies were archived as
    the content of the object. `block` iterates over the content. `size` is the size that the server
    announced.
    """

    media_type: str
    commands: tuple[str, ...]
    size: int | None
    modified: datetime | None
    block: Callable[[], Iterator[bytes]]


class ReplayPeer(Protocol):
    """A peer that replies from an archive. `greeting` is the text that the peer sends first."""

    @property
    def greeting(self) -> bytes: ...

    def answer(self, line: bytes, /) -> Iterator[bytes | None]:
        """Return the reply to a command, in blocks.

        At the block None, the caller must read all bytes of the data connection before the next block.
        """
        ...
