"""The steps that a dialogue may yield: one value a step.

A dialogue yields steps: `Connect`, `Acquire`, `OpenFile`, `Send`, `SendBody`, `Receive`, `Peek`, `PlanNote`,
…. The answer to a step is None or the received value. Every `Receive` holds the expected reply of a server.
If a dialogue is run with these expected replies (`rehearsal`), its steps are the plan that `explain` shows.
So the plan always matches the dialogue. A `PlanNote` describes the actions of other branches. The error of a
step is raised in the dialogue at its yield, and the dialogue may handle it.

`StartBody` passes on the metadata. After it the dialogue emits the body: `EmitBody` for bytes that it
composed, `CopyBody` for received bytes. The steps after a `StartBody` are performed only as far as the body
is read. A dialogue returns the state of its connection for the next dialogue that acquires this connection,
or None if the connection must not be reused.

A dialogue may have a second connection, only for data: `OpenData`, `AwaitData`, `CloseData`. Several
dialogues may share one connection as a pipeline: requests are sent ahead, and responses come in the same
order. Each of these dialogues yields `JoinPipeline`, `StartRequest` and a `Send`, then `StartResponse`, its
`Receive` steps, and `EndResponse`. A dialogue in datagrams performs one exchange for each request and has no
connection: `OpenDatagrams`, `ExchangeDatagrams`. A dialogue with much work between steps yields `wire.REST`
regularly. `conversation` performs all steps; this module has no behavior.
"""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable, Generator, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar, cast

from protocols.errors import NetworkError, TimedOut

if TYPE_CHECKING:  # a plan does not import the rest of the contract
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

#: Returns the next piece of a request body; empty at the end.
Source: TypeAlias = "Callable[[], Awaitable[bytes]]"


class Connect(NamedTuple):
    """Open the connection to the URL's host and port, optionally with TLS from the first byte."""

    tls: bool = False


class Acquire(NamedTuple):
    """Use a connection that an earlier dialogue pooled, or open a new one: see `Gate.acquire`.

    The answer is the state that the earlier dialogue left; None for a new connection. If several connections
    are pooled, one whose state `suits` is preferred.
    """

    pool_key: Hashable
    tls: bool = False
    suits: Callable[[object], bool] | None = None


class FieldlessStep:
    """A step without fields; two such steps are equal if they have the same class."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class JoinPipeline(NamedTuple):
    """Share a connection with other dialogues of the same `key`, in turn.

    If there is none, a pooled connection is used (not with `anew`), else a new one. See `Gate.join`. The
    answer is a `JoinedPipeline`.
    """

    key: Hashable
    state: PipelineState
    tls: bool = False
    anew: bool = False


class JoinedPipeline(NamedTuple):
    """The answer to `JoinPipeline`.

    `state` is the state shared on that connection; if the connection is new, it is the state in the step.
    `peer` is an IP address.
    """

    state: PipelineState
    peer: str


class StartRequest(FieldlessStep):
    """Wait, before the first request in a pipeline, until all earlier requests were sent.

    The state must also have room for one more request.
    The `Send` right after it ends the request.
    """


class StartResponse(FieldlessStep):
    """Wait, before the first `Receive` in a pipeline, until all earlier responses were read.

    The wait also ends when the state has another generation. `Disconnected` is raised if neither can happen
    anymore.
    """


class EndResponse(FieldlessStep):
    """Declare that all responses in a pipeline were read: on leaving, the next slot may read."""


class ReleaseToPool(NamedTuple):
    """Declare that all replies on an acquired connection were read: it is pooled on leaving.

    The connection is pooled even if this dialogue fails later; `state` is for the next dialogue. A connection
    with unread bytes is not pooled. The answer is the number of unread bytes.
    """

    state: object = None


class OpenFile(NamedTuple):
    """Open the local file or directory that the segments name, starting at the root directory.

    The answer is its `LocalFile`.
    """

    segments: tuple[bytes, ...]
    ideal: LocalFile

    @property
    def path(self) -> str:
        """Return the path for display: one character per byte."""
        return "/" + b"/".join(self.segments).decode("latin-1")


class ReadNames(FieldlessStep):
    """Read the names in the opened directory: the answer is sorted by bytes, without `.` and `..`."""


class StopCondition(NamedTuple, Generic[T]):
    """The condition that stops a `Send`. It is read during sending; an idle peer is not an error then.

    If `reader` returns a value for which `ends` is true, the sending stops and the value is the answer to the
    step. The answer None means that everything was sent. Any other value is returned by the next `Receive`.
    That `Receive` must have the same kind of reader, and continues a value that was read in part.
    """

    reader: Reader[T]
    ends: Callable[[T], bool]


class Send(NamedTuple):
    """Send one or more lines in one write."""

    lines: tuple[Line, ...]
    unless: StopCondition[Any] | None = None


class SendBody(NamedTuple):
    """Send lines, and after them the result of `encode` for each piece of a request body.

    `source` returns the next piece. An empty piece marks the end; `encode` turns it into the last line.
    """

    lines: tuple[Line, ...]
    source: Source
    encode: Callable[[bytes], Line]
    unless: StopCondition[Any] | None = None


class Receive(NamedTuple, Generic[T]):
    """Read one value. `what` names it for display; `ideal` is the expected reply."""

    reader: Reader[T]
    what: str
    ideal: T


class Peek(NamedTuple, Generic[T]):
    """Read ahead until the reader recognizes the data, without taking any of it.

    The reader must decide at the end of the data too (`Buffer.is_all`). If the connection fails during the
    step, the error is raised only after the bytes received before were received or copied. `ideal` has the
    same meaning as in `Receive`; a plan shows it at the step that takes the bytes.
    """

    reader: Reader[T]
    ideal: T


class StartTimer(NamedTuple):
    """Limit the following steps to `seconds`; a `Receive` that is waiting then raises `TimerElapsed`."""

    seconds: float


class TimerElapsed(TimedOut):
    """The error when the seconds of a `StartTimer` have elapsed. No received data is lost."""


class ParseBuffered(NamedTuple, Generic[T]):
    """Read one value from the received bytes without waiting; the answer is `None` if more bytes are needed.

    The bytes that the reader took are then lost, so nothing more may be received on that connection.
    """

    reader: Reader[T]


class StartTls(FieldlessStep):
    """Continue inside TLS; bytes received before the handshake raise an error.

    Data received unencrypted must not be handled as data received inside TLS (CVE-2021-22947).
    """


class StartPacking(NamedTuple):
    """Compress both directions of a pipeline after this step, with `machine`.

    Bytes received before raise an error, as with `StartTls`.
    """

    machine: StreamCodec


class RequestCredentials(NamedTuple):
    """Request the `Credentials` for this host and port; the answer may be None. See `Gate.credentials`."""

    user: bytes | None
    ideal: Credentials | None
    challenged: bool = True


class RandomBytes(NamedTuple):
    """Request this number of unpredictable bytes as the answer."""

    octets: int


class OpenData(NamedTuple):
    """Open the data connection to a port of the same peer; it replaces an earlier data connection.

    With `tls`, the next `AwaitData` performs the handshake: the peer starts the handshake after the transfer
    command.
    """

    port: int
    tls: bool = False


class DataExpectation(enum.Enum):
    """The consequence of a received value for the data.

    MORE: more values follow. LAST: no value follows, and the client waits for the data. BROKEN: no value
    follows, and only data that has already arrived counts. OVER: no data will come.
    """

    MORE = "more"
    LAST = "last"
    BROKEN = "broken"
    OVER = "over"


class BodyStarted(NamedTuple, Generic[T]):
    """The answer to `AwaitData`: the received `values`, and the number of bytes of data so far.

    If `octets` is 0 and data was still expected after the last value, the data connection has ended: with the
    error `broken`, or orderly (None). In TLS, close_notify may have been sent or not.
    """

    values: tuple[T, ...]
    octets: int
    broken: NetworkError | None = None
    close_notify: bool = False


class AwaitData(NamedTuple, Generic[T]):
    """Read both connections until data begins or ends, or until the received values exclude data.

    The answer is a `BodyStarted`. The next `Receive`, which must have the same kind of reader, continues a
    value that was received in part. With `announced` the two connections are read one after the other, which
    is faster. It requires a peer that sends a reply before any data and always ends the data connection.
    """

    reader: Reader[T]
    what: str
    ideal: T
    weigh: Callable[[Sequence[T]], DataExpectation]
    announced: bool = False


class CloseData(FieldlessStep):
    """Close the data connection, before the next `Receive` on the first connection."""


class OpenDatagrams(NamedTuple):
    """Open datagrams, for one exchange, to the host and port of the URL or of the last URL of `route`.

    `route` are the URLs that led there: each was named in an answer from the one before. Each is checked with
    the origin `derived`, because the user did not choose it, and with the address that sent the answer. The
    answer to this step is an `OpenedConnection`.
    """

    route: tuple[str, ...] = ()


class OpenedConnection(NamedTuple):
    """The answer to `OpenDatagrams`.

    `addresses` are all addresses to which sending is allowed, the current one first. `number`, from 1 to
    65,535, is unpredictable; in a plan it is 0.
    """

    addresses: tuple[str, ...]
    number: int


class ExchangeDatagrams(NamedTuple):
    """Perform an exchange on the opened datagrams, and close them.

    The server is notified if the exchange is cancelled, or if enough of the reply was received. The answer is
    a `DatagramReply`, in a plan with `ideal`. `what` names the reply for display.
    """

    exchange: DatagramExchange
    what: str
    ideal: DatagramReply


class DatagramReply(NamedTuple):
    """The reply, packet by packet, and the IP address that sent it; empty in a plan."""

    pieces: tuple[bytes, ...]
    peer: str = ""


class StartBody(NamedTuple):
    """Pass on the metadata; the following steps emit the body. Each dialogue yields this step once.

    The dialogue may still add to the reply's `findings` and `verified`.
    """

    reply: Reply


class EmitBody(NamedTuple):
    """Emit bytes of the body that the dialogue composed.

    `what` describes bytes that come from a peer; it is `None` for bytes that were created here.
    """

    octets: bytes
    what: str | None = None


@dataclass(frozen=True, slots=True)
class CopyBody:
    """Copy bytes of a connection or file into the body as they arrive.

    The source is the connection, the data connection, or the file from its byte `begin` on. Exactly `count`
    bytes are copied, or all until the end (None). The answer is a `CopiedBody`.

    Errors are raised at the yield, so the dialogue can interpret them by its protocol. They are `Truncated`
    if the connection ends or is reset before `count`, `Disconnected` if that happens before the first byte,
    and `TimedOut`. `filter` converts the bytes; it is finished only at the orderly end. Before the
    `StartBody` the filter must keep all bytes. `expected` is an announced number of bytes that does not mark
    the end; errors report it. `ideal` is the expected data of a server, if the dialogue uses the result of
    its filter.
    """

    what: str
    count: int | None = None
    source: Literal["connection", "data", "file"] = "connection"
    filter: Filter | None = None
    expected: int | None = None
    begin: int = 0
    ideal: bytes = b""


class CopiedBody(NamedTuple):
    """The answer to `CopyBody`: the number of bytes received, before any filter.

    `close_notify`: TLS ended with close_notify. `modified`: the file was modified after it was opened.
    """

    octets: int
    close_notify: bool = False
    modified: bool = False


class RequestPeer(NamedTuple):
    """Request the IP address of the peer; a plan shows `text`, the part that depends on the address."""

    text: str


class RequestAgreed(FieldlessStep):
    """Request the protocol that the peer chose in the TLS handshake (ALPN); None if it did not choose one."""


class RequestEnd(FieldlessStep):
    """Request whether TLS proved the received end (close_notify); None without TLS."""


class PlanNote(NamedTuple):
    """A branch that the expected replies do not take, or information for the reader of the plan."""

    text: str


#: The complete list of steps: mypy checks that each `match` over them is complete. The body performs a body
#: step when it is read; the driver performs any other step.
BodyStep: TypeAlias = StartBody | EmitBody | CopyBody
PerformedStep: TypeAlias = (
    "Connect | Acquire | JoinPipeline | StartRequest | StartResponse | EndResponse | ReleaseToPool"
    " | OpenFile | ReadNames | Send | SendBody | Receive[Any] | Peek[Any] | ParseBuffered[Any]"
    " | StartTimer | StartTls | StartPacking | RequestCredentials | RandomBytes | OpenData"
    " | AwaitData[Any] | CloseData | OpenDatagrams | ExchangeDatagrams"
    " | RequestPeer | RequestAgreed | RequestEnd | PlanNote | Rest"
)
Step: TypeAlias = "PerformedStep | BodyStep"
Dialogue: TypeAlias = Generator[Step, object, R]


def receive(reader: Reader[T], what: str, ideal: T) -> Dialogue[T]:
    """Receive a value, typed: use `value = yield from receive(…)` instead of yielding a `Receive`."""
    return cast(T, (yield Receive(reader, what, ideal)))


def peek(reader: Reader[T], ideal: T) -> Dialogue[T]:
    """Peek at a value, typed: use `value = yield from peek(…)` instead of yielding a `Peek`."""
    return cast(T, (yield Peek(reader, ideal)))


def copy_body(step: CopyBody) -> Dialogue[CopiedBody]:
    """Copy a body, typed: use `copied = yield from copy_body(CopyBody(…))` instead of a plain yield."""
    return cast(CopiedBody, (yield step))
