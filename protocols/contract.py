"""What every scheme and everything around the schemes agree on.

Values (`Url`, `Entry`, `Limits`, …) are frozen. What is alive hangs on a connection: `Reply` and its
`Body`. What a scheme may ask of the world is a `Gate`. No behaviour lives here, and nothing here
knows one scheme from another.

Still percent-encoded text is `str`, decoded octets are `bytes`; so nothing is decoded twice.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Generic, NoReturn, Protocol, TypeVar

from protocols.connection import Datagram as Datagram
from protocols.connection import Datagrams as Datagrams
from protocols.connection import Line as Line
from protocols.connection import Sink as Sink
from protocols.connection import Stream as Stream
from protocols.connection import StreamCodec as StreamCodec
from protocols.entry import Entry as Entry
from protocols.entry import EntryReader as EntryReader
from protocols.location import Action as Action
from protocols.location import BuiltUrl as BuiltUrl
from protocols.location import ComponentSpan as ComponentSpan
from protocols.location import Finding as Finding
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
from protocols.reply import Alternative as Alternative
from protocols.reply import Moved as Moved
from protocols.reply import Reply as Reply
from protocols.scheme import Dialogue as Dialogue
from protocols.scheme import Extra as Extra
from protocols.scheme import Scheme as Scheme
from protocols.values import dataclass

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

    def elsewhere(self, location: str) -> Gate:
        """The gate of another URL, which an answer got through this one has led to: judged as one that no
        person chose (`derived`), by the address that this one was answered from. `location` is complete;
        it is judged once, and has one gate. Raises `InvalidUrl` and `Refused`."""
        ...

    def open_file(self, segments: tuple[bytes, ...]) -> AbstractAsyncContextManager[LocalFile]:
        """The local file of a file URL, opened component by component where a root is set (S12)."""
        ...
