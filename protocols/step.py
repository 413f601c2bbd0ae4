"""The steps that a dialogue may yield: one value a step.

A dialogue yields steps: `Connect`, `Acquire`, `OpenFile`, `Send`, `SendBody`, `Receive`, `Peek`, `PlanNote`,
…. A step is answered with None or with the received value. Every `Receive` carries the expected reply of a
server. Driven with these (`rehearsal`), the same generator is the plan that `explain` shows, so plan and
dialogue cannot diverge. A `PlanNote` describes the actions of other branches. The error of a step is raised
in the dialogue at its yield, and the dialogue may continue differently.

`StartBody` gives the facts, and after it the dialogue makes the body: `EmitBody` for bytes that it composed,
`CopyBody` for received bytes. The reader of the body takes them, so the steps after a `StartBody` are
performed only as far as the body is read. A dialogue returns the state of its connection for the next
dialogue that acquires it, or None if it may not serve again.

A dialogue may have a second connection, for data alone: `OpenData`, `AwaitData`, `CloseData`. Several
dialogues may share one connection as a pipeline: requests are sent ahead, and responses come in the same
order. Each yields `JoinPipeline`, `StartRequest` and a `Send`, then `StartResponse`, its `Receive` steps, and
`EndResponse`. A dialogue in datagrams has one exchange for each request in place of a connection:
`OpenDatagrams`, `ExchangeDatagrams`. A dialogue with much work between steps yields `wire.REST` regularly.
`conversation` performs all steps; this module has no behavior.
"""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable, Generator, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar, cast

from protocols.errors import NetworkError, TimedOut

if TYPE_CHECKING:  # a plan is made without the rest of the contract
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

    Answered with the state that the earlier dialogue left; None for a new connection. Among several a
    connection whose state `suits` is preferred.
    """

    pool_key: Hashable
    tls: bool = False
    suits: Callable[[object], bool] | None = None


class FieldlessStep:
    """A step without fields: two of one kind are equal, and equal to no other step."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class JoinPipeline(NamedTuple):
    """Share a connection with other dialogues of the same `key`, in turn.

    Otherwise use a pooled connection (not with `anew`), else a new one. See `Gate.join`. Answered with a
    `JoinedPipeline`.
    """

    key: Hashable
    state: PipelineState
    tls: bool = False
    anew: bool = False


class JoinedPipeline(NamedTuple):
    """The answer to `JoinPipeline`.

    `state` is the state shared on that connection; it is the offered state if the connection is new. `peer`
    is a numeric address.
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

    The wait also ends when the state is of another generation. `Disconnected` if neither can happen any more.
    """


class EndResponse(FieldlessStep):
    """Declare that all responses in a pipeline were read: on leaving, the next slot has its turn."""


class ReleaseToPool(NamedTuple):
    """Declare that all replies on an acquired connection were read: it is pooled on leaving.

    The outcome of this dialogue does not matter; `state` is for the next dialogue. A connection with unread
    bytes is not pooled. Answered with the number of unread bytes.
    """

    state: object = None


class OpenFile(NamedTuple):
    """Open the local file or directory that the segments name, from the root down.

    Answered with its `LocalFile`.
    """

    segments: tuple[bytes, ...]
    ideal: LocalFile

    @property
    def path(self) -> str:
        """Return the path for display: one character per byte."""
        return "/" + b"/".join(self.segments).decode("latin-1")


class ReadNames(FieldlessStep):
    """Read the names in the opened directory, sorted by bytes, without `.` and `..`; they are the answer."""


class StopCondition(NamedTuple, Generic[T]):
    """The condition that stops a `Send`, read while it sends; silence is not an error.

    A value of `reader` for which `ends` is true stops the sending and is the answer to the step. The answer
    None says that all was sent. The next `Receive` returns any other value. It must be of the same kind, and
    continues a value that was read in part.
    """

    reader: Reader[T]
    ends: Callable[[T], bool]


class Send(NamedTuple):
    """Send one or more lines in one write."""

    lines: tuple[Line, ...]
    unless: StopCondition[Any] | None = None


class SendBody(NamedTuple):
    """Send lines, and after them the result of `encode` for each piece of a request body.

    `source` returns the next piece, and an empty one at the end, from which `encode` makes the last line.
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

    The reader must decide at the end of the data too (`Buffer.is_all`). If the connection fails meanwhile,
    the error is raised only when the bytes received before it are received or copied. `ideal` is as for
    `Receive`; a plan mentions it where the bytes are taken.
    """

    reader: Reader[T]
    ideal: T


class StartTimer(NamedTuple):
    """Limit the following steps to `seconds`: a `Receive` that waits at their end raises `TimerElapsed`."""

    seconds: float


class TimerElapsed(TimedOut):
    """The end of the seconds of a `StartTimer`. No received data is lost."""


class ParseBuffered(NamedTuple, Generic[T]):
    """Read one value from the received bytes without waiting; the answer is `None` if more are needed.

    The bytes taken then are lost, so nothing more may be received on that connection.
    """

    reader: Reader[T]


class StartTls(FieldlessStep):
    """Continue inside TLS; bytes received before the handshake are refused.

    Data sent in the clear must not be taken for protected data (CVE-2021-22947).
    """


class StartPacking(NamedTuple):
    """Compress both directions of a pipeline from here on, with `machine`.

    Bytes received before are refused, as with `StartTls`.
    """

    machine: StreamCodec


class RequestCredentials(NamedTuple):
    """Request the `Credentials` for this host and port, or None as answer. See `Gate.credentials`."""

    user: bytes | None
    ideal: Credentials | None
    challenged: bool = True


class RandomBytes(NamedTuple):
    """Request this many unpredictable bytes as answer."""

    octets: int


class OpenData(NamedTuple):
    """Open the data connection to a port of the same peer, in place of an earlier one.

    With `tls`, the next `AwaitData` makes the handshake: the peer begins it after the transfer command.
    """

    port: int
    tls: bool = False


class DataExpectation(enum.Enum):
    """The consequence of a value for the data.

    MORE: more values follow. LAST: it was the last, and data may take all the time it needs. BROKEN: it was
    the last, and only data that has arrived by now counts. OVER: no data will come.
    """

    MORE = "more"
    LAST = "last"
    BROKEN = "broken"
    OVER = "over"


class BodyStarted(NamedTuple, Generic[T]):
    """The answer to `AwaitData`: the received `values`, and the number of bytes of data so far.

    If `octets` is 0 and the last value did not say that no data will come, the data connection has ended: by
    the error `broken`, or orderly (None), with TLS's close_notify or without.
    """

    values: tuple[T, ...]
    octets: int
    broken: NetworkError | None = None
    close_notify: bool = False


class AwaitData(NamedTuple, Generic[T]):
    """Read both connections until data begins or ends, or the values received exclude data.

    Answered with a `BodyStarted`. The next `Receive`, which must be of the same kind, continues a value that
    was received in part. With `announced` the two connections are read one after the other, which is faster:
    the peer sends a reply before any data and ends the data connection in every case.
    """

    reader: Reader[T]
    what: str
    ideal: T
    weigh: Callable[[Sequence[T]], DataExpectation]
    announced: bool = False


class CloseData(FieldlessStep):
    """Close the data connection, before the next receive on the first."""


class OpenDatagrams(NamedTuple):
    """Open datagrams, for one exchange, to the host and port of the URL or of the last URL of `route`.

    `route` are the URLs that answers led to, each named in an answer from the one before it. Each is checked
    as `derived`, because the user did not choose it, with the address that this answer came from. Answered
    with an `OpenedConnection`.
    """

    route: tuple[str, ...] = ()


class OpenedConnection(NamedTuple):
    """The answer to `OpenDatagrams`.

    `addresses` are all addresses that may be sent to, the current one first. `number`, from 1 to 65,535, is
    unpredictable; in a plan it is 0.
    """

    addresses: tuple[str, ...]
    number: int


class ExchangeDatagrams(NamedTuple):
    """Perform an exchange on the opened datagrams, and close them.

    If the exchange is left early, or enough of the reply was received, the server is notified. Answered with
    a `DatagramReply`, in a plan with `ideal`. `what` names the reply for display.
    """

    exchange: DatagramExchange
    what: str
    ideal: DatagramReply


class DatagramReply(NamedTuple):
    """The reply, packet by packet, and the numeric address that it came from; empty in a plan."""

    pieces: tuple[bytes, ...]
    peer: str = ""


class StartBody(NamedTuple):
    """Give the facts; the following steps make the body. Once a dialogue.

    The dialogue may still add to the reply's `findings` and `verified`.
    """

    reply: Reply


class EmitBody(NamedTuple):
    """Emit bytes of the body that the dialogue composed.

    `what` describes bytes that come from a peer; it is `None` for bytes made here.
    """

    octets: bytes
    what: str | None = None


@dataclass(frozen=True, slots=True)
class CopyBody:
    """Copy bytes of a connection or file into the body as they arrive.

    The source is the connection, the data connection, or the file from its byte `begin` on. Exactly `count`
    bytes are copied, or all until the end (None). Answered with a `CopiedBody`.

    The errors are raised at the yield, for the dialogue to interpret by its protocol: `Truncated` if the
    connection ends before `count` or is reset, `Disconnected` if that happens before the first byte,
    `TimedOut`. `filter` converts the bytes; it is finished only at the orderly end. Before the `StartBody` it
    keeps all of them. `expected` is an announced number of bytes that does not mark the end; errors report
    it. `ideal` is the expected data of a server, if the dialogue uses the result of its filter.
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

    `close_notify`: TLS ended with close_notify. `modified`: the file was modified since it was opened.
    """

    octets: int
    close_notify: bool = False
    modified: bool = False


class RequestPeer(NamedTuple):
    """Request the numeric address of the peer; a plan shows `text`, the part that depends on it."""

    text: str


class RequestAgreed(FieldlessStep):
    """Request the protocol that the peer chose in the TLS handshake, None if it chose none."""


class RequestEnd(FieldlessStep):
    """Request whether TLS proves the received end (close_notify); None in the clear, without proof."""


class PlanNote(NamedTuple):
    """A branch that the ideal case does not take, or a fact for the reader of the plan."""

    text: str


#: The steps are listed here and nowhere else: mypy checks that each match over them is complete. The reader
#: of the body performs a body step; the driver performs any other.
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
    """Receive a value, typed: `value = yield from receive(…)` in place of yielding a `Receive`."""
    return cast(T, (yield Receive(reader, what, ideal)))


def peek(reader: Reader[T], ideal: T) -> Dialogue[T]:
    """Peek at a value, typed: `value = yield from peek(…)` in place of yielding a `Peek`."""
    return cast(T, (yield Peek(reader, ideal)))


def copy_body(step: CopyBody) -> Dialogue[CopiedBody]:
    """Copy a body, typed: `copied = yield from copy_body(CopyBody(…))`, in place of a plain yield."""
    return cast(CopiedBody, (yield step))
