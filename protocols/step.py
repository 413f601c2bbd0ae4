"""The steps of a dialogue: each step is one operation that the dialogue requests.

A dialogue is a generator that yields steps: `Connect`, `Acquire`, `OpenFile`, `Send`, `SendBody`, `Receive`,
`Peek`, `PlanNote`, …. The driver sends the result of a step back: None, or the received value. The error of a
step is raised at its yield, and the dialogue may catch the error.

Each `Receive` contains the expected reply of a server. `explain` runs a dialogue with these expected replies
(`rehearsal`) and shows the steps as the plan. So the plan always matches the dialogue. A `PlanNote` describes
a branch of the dialogue that is not executed with the expected replies.

`StartBody` passes on the metadata. Then the dialogue emits the body. `EmitBody` emits bytes that the dialogue
composed. `CopyBody` copies received bytes. A step after `StartBody` is performed only when the caller reads
the corresponding segment of the body. A dialogue returns the state of its connection, which the next dialogue
on the connection receives. It returns None if the connection must not be reused.

A dialogue may have a second connection for data: `OpenData`, `AwaitData`, `CloseData`.

Several dialogues may share one connection (pipelining). The dialogues send requests before earlier responses
have arrived, and the responses arrive in the order of the requests. Each dialogue yields `JoinPipeline`,
`StartRequest`, `Send`, `StartResponse`, the `Receive` steps, and `EndResponse`.

A dialogue over UDP has no connection, and yields `OpenDatagrams` and `ExchangeDatagrams` for each request.

A dialogue with long computations between its steps yields `wire.REST` regularly. The driver is
`conversation`. This module contains only data types.
"""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable, Generator, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar

from protocols.errors import NetworkError, TimedOut

if TYPE_CHECKING:  # not imported at run time, so that `explain` starts fast
    from protocols.contract import (
        Credentials,
        DatagramExchange,
        Filter,
        Line,
        LocalFile,
        PipelineState,
        Reply,
        StreamCodec,
    )
    from protocols.wire import Reader, Rest

T = TypeVar("T")
R = TypeVar("R")

#: A function that returns the next block of the request body. An empty block marks the end of the body.
Source: TypeAlias = "Callable[[], Awaitable[bytes]]"


class Connect(NamedTuple):
    """Open a connection to the URL's host and port, with or without TLS from the first byte."""

    tls: bool = False


class Acquire(NamedTuple):
    """Use a connection from the pool, or open a new connection. See `Gate.acquire`.

    The result is the connection state that the previous dialogue passed to `keep`, or None for a new
    connection. A connection with a state that `suits` accepts is preferred.
    """

    pool_key: Hashable
    tls: bool = False
    suits: Callable[[object], bool] | None = None


class FieldlessStep:
    """A step without fields. Two steps without fields are equal if they have the same class."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class JoinPipeline(NamedTuple):
    """Join the pipeline of a connection that other dialogues with the same `key` use (see `Gate.join`).

    If no dialogue uses a connection with this key, a pooled connection or a new connection is used. With
    `anew`, pooled connections are not used. The result is a `JoinedPipeline`.
    """

    key: Hashable
    state: PipelineState
    tls: bool = False
    anew: bool = False


class JoinedPipeline(NamedTuple):
    """The result of `JoinPipeline`.

    `state` is the shared state of the connection. For a new connection, it is the state in the step. `peer`
    is an IP address.
    """

    state: PipelineState
    peer: str


class StartRequest(FieldlessStep):
    """Wait until the first request of this dialogue may be sent in a pipeline.

    All earlier requests must have been sent, and the pipeline must have capacity for another request. The
    `Send` directly after this step completes the request.
    """


class StartResponse(FieldlessStep):
    """Wait until all earlier responses in a pipeline were read, before the first `Receive`.

    The wait also ends when the `generation` of the shared state changes. If the connection is closed during
    the wait, `Disconnected` is raised.
    """


class EndResponse(FieldlessStep):
    """Declare that the dialogue has read all its responses in a pipeline.

    The dialogue in the next slot may then read.
    """


class ReleaseToPool(NamedTuple):
    """Declare that the connection may return to the pool, because all replies were read.

    The connection returns to the pool at the end of the dialogue, even if the dialogue fails later. `state`
    is stored for the next dialogue. A connection with unread bytes does not return to the pool. The result is
    the number of unread bytes.
    """

    state: object = None


class OpenFile(NamedTuple):
    """Open a local file or directory by its path segments from the root, and return a `LocalFile`."""

    segments: tuple[bytes, ...]
    ideal: LocalFile

    @property
    def path(self) -> str:
        """Return the path for display, decoded as ISO 8859-1."""
        return "/" + b"/".join(self.segments).decode("latin-1")


class ReadNames(FieldlessStep):
    """Read the names in the opened directory, sorted by bytes, without `.` and `..`."""


class StopCondition(NamedTuple, Generic[T]):
    """The condition that stops a `Send` before everything is sent.

    The client reads while it sends, without an idle timeout. If `reader` returns a value that `ends` accepts,
    sending stops. The value is then the result of the step. If everything was sent, the result is `None`. A
    value that `ends` does not accept is returned by the next `Receive`. The next `Receive` must have the same
    kind of reader, because this `Receive` continues a partially read value.
    """

    reader: Reader[T]
    ends: Callable[[T], bool]


class Send(NamedTuple):
    """Send one or more lines in one write."""

    lines: tuple[Line, ...]
    unless: StopCondition[Any] | None = None


class SendBody(NamedTuple):
    """Send lines, and then a request body in blocks.

    `source` returns the next block, and `encode` converts the block to a line. An empty block marks the end
    of the body. `encode` also converts the empty block, to the last line.
    """

    lines: tuple[Line, ...]
    source: Source
    encode: Callable[[bytes], Line]
    unless: StopCondition[Any] | None = None


class Receive(NamedTuple, Generic[T]):
    """Read one value. `what` is its name for display, and `ideal` the expected reply."""

    reader: Reader[T]
    what: str
    ideal: T


class Peek(NamedTuple, Generic[T]):
    """Read ahead until the reader recognizes the data, without consuming any bytes.

    The reader must also return a value when the connection has ended (`Buffer.is_all`). If the connection
    fails during this step, the error is raised after all earlier bytes were consumed. `ideal` is the expected
    data of a server. A plan shows `ideal` at the step that consumes the bytes.
    """

    reader: Reader[T]
    ideal: T


class StartTimer(NamedTuple):
    """Limit the following steps to `seconds`; then a waiting `Receive` raises `TimerElapsed`."""

    seconds: float


class TimerElapsed(TimedOut):
    """The error of an elapsed `StartTimer`. No received bytes are lost."""


class ParseBuffered(NamedTuple, Generic[T]):
    """Read one value from the received bytes without waiting.

    If more bytes are necessary, the result is `None` and the consumed bytes are lost. After the result
    `None`, the dialogue must not receive from the connection.
    """

    reader: Reader[T]


class StartTls(FieldlessStep):
    """Start TLS on the connection (STARTTLS). Bytes that arrived before the TLS handshake raise an error.

    Data that was received in clear text must not be handled as data inside TLS (response injection,
    CVE-2021-22947).
    """


class StartPacking(NamedTuple):
    """Compress both directions of a connection with the codec `machine`.

    Bytes that were received before this step raise an error, as with `StartTls`.
    """

    machine: StreamCodec


class RequestCredentials(NamedTuple):
    """Request the `Credentials` for this host and port, or None. See `Gate.credentials`."""

    user: bytes | None
    ideal: Credentials | None
    challenged: bool = True


class RandomBytes(NamedTuple):
    """Request a number of unpredictable bytes."""

    octets: int


class OpenData(NamedTuple):
    """Open the data connection to a port of the same peer, in place of an earlier data connection.

    With `tls`, the TLS handshake is part of the next `AwaitData`, because the peer starts the handshake only
    after the transfer command.
    """

    port: int
    tls: bool = False


class DataExpectation(enum.Enum):
    """The state of the data connection after a reply on the control connection.

    - MORE: more replies follow.
    - LAST: no reply follows, and the client waits for the data.
    - BROKEN: no reply follows. The client reads only data that has already arrived.
    - OVER: no data will arrive.
    """

    MORE = "more"
    LAST = "last"
    BROKEN = "broken"
    OVER = "over"


class BodyStarted(NamedTuple, Generic[T]):
    """The result of `AwaitData`: the received `values`, and the number of received data bytes.

    If `octets` is 0 although data was expected, the data connection has ended without data. `broken` is the
    error, or None for an orderly end. `close_notify` is set if TLS ended with close_notify.
    """

    values: tuple[T, ...]
    octets: int
    broken: NetworkError | None = None
    close_notify: bool = False


class AwaitData(NamedTuple, Generic[T]):
    """Read both connections until data begins or ends, or until a reply shows that no data follows.

    The result is a `BodyStarted`. The next `Receive` continues a partially received value and must have the
    same kind of reader. With `announced`, the client reads the reply before the data. This order is faster.
    Two conditions for `announced`: the peer sends a reply before any data, and the peer always closes the
    data connection. If the first read returns `size` bytes, the client also reads the end of the data.
    """

    reader: Reader[T]
    what: str
    ideal: T
    weigh: Callable[[Sequence[T]], DataExpectation]
    announced: bool = False
    size: int | None = None


class CloseData(FieldlessStep):
    """Close the data connection, before the next `Receive` on the control connection."""


class OpenDatagrams(NamedTuple):
    """Open a UDP socket for one exchange, to the host and port of the URL or of the last URL in `route`.

    `route` is a chain of URLs: a response from each URL contained the next URL. The policy checks each URL
    with the origin `derived`, because a server chose the URL. The referrer is the address that sent the
    response. The result is an `OpenedConnection`.
    """

    route: tuple[str, ...] = ()


class OpenedConnection(NamedTuple):
    """The result of `OpenDatagrams`.

    `addresses` are all addresses to which the client may send. The current address is the first. `number` is
    unpredictable, from 1 to 65,535. In a plan, `number` is 0.
    """

    addresses: tuple[str, ...]
    number: int


class ExchangeDatagrams(NamedTuple):
    """Perform an exchange on the opened UDP socket, and close the socket.

    If the exchange is cancelled, or if enough of the reply was received, the server is notified. The result
    is a `DatagramReply`; in a plan, the result contains `ideal`. `what` is the name of the reply for display.
    """

    exchange: DatagramExchange
    what: str
    ideal: DatagramReply


class DatagramReply(NamedTuple):
    """The packets of a reply, in order, and the IP address that sent the reply.

    In a plan, the IP address is empty.
    """

    pieces: tuple[bytes, ...]
    peer: str = ""


class StartBody(NamedTuple):
    """Pass on the metadata. The following steps emit the body. Each dialogue yields this step once.

    The dialogue may also add items to `findings` and `verified` of the reply after this step. A plan shows
    `note` like a `PlanNote`.
    """

    reply: Reply
    note: str | None = None


class EmitBody(NamedTuple):
    """Emit bytes of the body that the dialogue composed.

    `what` describes bytes that come from a peer. For bytes that this client created, `what` is `None`.
    """

    octets: bytes
    what: str | None = None


@dataclass(slots=True, eq=False, repr=False)
class CopyBody:
    """Copy bytes of a connection or a file into the body as they arrive.

    The source is the control connection, the data connection, or the file from the offset `begin`. Exactly
    `count` bytes are copied. Without `count`, all bytes until the end are copied. The result is a
    `CopiedBody`.

    Errors are raised at the yield, so that the dialogue can interpret them:
    - `Truncated`: the connection ended or was reset before `count` bytes.
    - `Disconnected`: the connection ended before the first byte.
    - `TimedOut`: a timeout expired.

    `filter` converts the bytes. `filter.finish` is called only at the orderly end. Before `StartBody`, the
    filter must not return any bytes. `expected` is the announced number of bytes. The number appears only in
    error messages, and does not mark the end of the data. `ideal` is the expected data, for a dialogue that
    uses the result of the filter.
    """

    what: str
    count: int | None = None
    source: Literal["connection", "data", "file"] = "connection"
    filter: Filter | None = None
    expected: int | None = None
    begin: int = 0
    ideal: bytes = b""


class CopiedBody(NamedTuple):
    """The result of `CopyBody`: the number of bytes received, before any filter.

    `close_notify` is set if TLS ended with close_notify. `modified` is set if the file was modified after it
    was opened. `surplus` is the number of bytes after the body that were received too.
    """

    octets: int
    close_notify: bool = False
    modified: bool = False
    surplus: int = 0


class RequestPeer(NamedTuple):
    """Request the IP address of the peer. A plan shows `text`, because the address is unknown."""

    text: str


class RequestAgreed(FieldlessStep):
    """Request the name of the protocol that was negotiated in the TLS handshake (ALPN), or None."""


class RequestEnd(FieldlessStep):
    """Request whether TLS proved the end of the data (close_notify). Without TLS, the result is `None`."""


class PlanNote(NamedTuple):
    """A note in the plan. For example, a note describes a branch that the expected replies do not take."""

    text: str


#: mypy checks that each `match` statement on a step handles all of these steps. A body step is performed
#: while the caller reads the body. The driver performs all other steps.
Step: TypeAlias = (
    "StartBody | EmitBody | CopyBody"
    " | Connect | Acquire | JoinPipeline | StartRequest | StartResponse | EndResponse | ReleaseToPool"
    " | OpenFile | ReadNames | Send | SendBody | Receive[Any] | Peek[Any] | ParseBuffered[Any]"
    " | StartTimer | StartTls | StartPacking | RequestCredentials | RandomBytes | OpenData"
    " | AwaitData[Any] | CloseData | OpenDatagrams | ExchangeDatagrams"
    " | RequestPeer | RequestAgreed | RequestEnd | PlanNote | Rest"
)
#: The result of a step is `Any`, because it depends on the step.
Dialogue: TypeAlias = Generator[Step, Any, R]


def receive(reader: Reader[T], what: str, ideal: T) -> Dialogue[T]:
    """Receive a value of the reader's type: `value = yield from receive(…)`.

    For type checkers, the result of `yield Receive(…)` is `Any`.
    """
    value: T = yield Receive(reader, what, ideal)
    return value


def peek(reader: Reader[T], ideal: T) -> Dialogue[T]:
    """Peek at a value of the reader's type: `value = yield from peek(…)`.

    For type checkers, the result of `yield Peek(…)` is `Any`.
    """
    value: T = yield Peek(reader, ideal)
    return value


def copy_body(step: CopyBody) -> Dialogue[CopiedBody]:
    """Copy a body, with a typed result: `copied = yield from copy_body(CopyBody(…))`."""
    copied: CopiedBody = yield step
    return copied
