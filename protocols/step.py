"""The steps that a dialogue may yield: one value a step.

A dialogue yields steps: `Connect`, `Acquire`, `OpenFile`, `Send`, `SendBody`, `Receive`, `Peek`, `PlanNote`,
…. It gets back what the step is for: nothing, or the value that was heard. Every `Receive` carries the value
that a willing server would give; driven with those (`rehearsal`), the same generator is the plan that
`explain` shows, so plan and dialogue cannot drift apart. What other branches would do is a `PlanNote`. What a
step raises is raised in the dialogue where it was yielded, which may go another way.

`StartBody` gives the facts, and from there on the dialogue makes the body: `EmitBody` for octets that it put
together itself, `CopyBody` for those that come as they are. They are taken by whoever reads the body, so what
comes behind a `StartBody` is done only when it is read, as far as it is read. A dialogue returns what is to
be known of its connection by the next one that acquires it, None where it may not serve again.

A dialogue may have a second connection, for data alone: `OpenData`, `AwaitData`, `CloseData`. Several
dialogues may share one connection as a pipeline: requests are sent ahead, and responses come in the same
order. Each does `JoinPipeline`, `StartRequest` and a `Send`, then `StartResponse`, as many `Receive` as it
takes, and `EndResponse`. One in datagrams has an exchange for each question in place of a connection:
`OpenDatagrams`, `ExchangeDatagrams`. One that has much to do by itself yields `wire.REST` every now and then.
`conversation` performs all this; nothing here does anything.
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

#: Gives the next piece of what a program has to say; none at the end.
Source: TypeAlias = "Callable[[], Awaitable[bytes]]"


class Connect(NamedTuple):
    """Open the connection to the URL's host and port; with TLS from the first octet if asked."""

    tls: bool = False


class Acquire(NamedTuple):
    """Go on with a connection that an earlier dialogue kept, or open a new one: see `Gate.acquire`.
    Answered with what that dialogue had to say of it; None says that it is new. Of several that one is taken
    of which what was said `suits`, if there is one."""

    pool_key: Hashable
    tls: bool = False
    suits: Callable[[object], bool] | None = None


class FieldlessStep:
    """A step that is all in its name: two of one kind are equal, and nothing else is."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class JoinPipeline(NamedTuple):
    """Use a connection that others of the same `key` use too, in turn; else one that was kept (not with
    `anew`), else a new one. See `Gate.join`. Answered with a `JoinedPipeline`."""

    key: Hashable
    state: PipelineState
    tls: bool = False
    anew: bool = False


class JoinedPipeline(NamedTuple):
    """`state` is what all on that connection know of it; the one that was offered, if the connection is new.
    `peer` is a numeric address."""

    state: PipelineState
    peer: str


class StartRequest(FieldlessStep):
    """Before the first request in a pipeline: wait until all who came before have sent theirs, and the state
    has room for one more. The `Send` right behind it ends the request."""


class StartResponse(FieldlessStep):
    """Before the first `Receive` in a pipeline: wait until all who sent before have read their responses, or
    until the state is of another generation. `Disconnected` where that cannot happen any more."""


class EndResponse(FieldlessStep):
    """All that was asked for in a pipeline has been read: on leaving, the next one has its turn."""


class ReleaseToPool(NamedTuple):
    """All that was asked for on an acquired connection has been read: it is kept on leaving, with `state` for
    the dialogue to come, whatever this one comes to; but not where octets are left on it that nobody read.
    Answered with how many these are."""

    state: object = None


class OpenFile(NamedTuple):
    """Open the file or directory of this machine that the segments name, from the root down. Answered with
    its `LocalFile`."""

    segments: tuple[bytes, ...]
    ideal: LocalFile

    @property
    def path(self) -> str:
        """The path for a person: one character per octet."""
        return "/" + b"/".join(self.segments).decode("latin-1")


class ReadNames(FieldlessStep):
    """Answered with the names in the directory that was opened, sorted by octets, without `.` and `..`."""


class StopCondition(NamedTuple, Generic[T]):
    """Listen while something is said, where silence is no fault: a value of `reader` of which `ends` is true
    ends the saying, and is the answer to the step; None says that all was said. Any other value is what the
    next `Receive` gives, which must be of the same kind and goes on with one that was read half."""

    reader: Reader[T]
    ends: Callable[[T], bool]


class Send(NamedTuple):
    """Send one or more lines in one write."""

    lines: tuple[Line, ...]
    unless: StopCondition[Any] | None = None


class SendBody(NamedTuple):
    """Send lines, and behind them what `encode` makes of each piece that a program gives: `source` gives the
    next one when it is called, and none at their end, of which `encode` makes the last line."""

    lines: tuple[Line, ...]
    source: Source
    encode: Callable[[bytes], Line]
    unless: StopCondition[Any] | None = None


class Receive(NamedTuple, Generic[T]):
    """Read one value. `what` names it for a person; `ideal` is what a willing server gives."""

    reader: Reader[T]
    what: str
    ideal: T


class Peek(NamedTuple, Generic[T]):
    """Look at what comes until the reader knows what it is: it takes nothing, and is content where
    `Buffer.is_all`. What breaks the connection meanwhile is raised at its place, behind the octets that came,
    when they are heard or passed. `ideal` as for `Receive`; a plan tells of it where the octets are taken."""

    reader: Reader[T]
    ideal: T


class StartTimer(NamedTuple):
    """From here on there are so many seconds: a `Receive` that waits at their end raises `TimerElapsed`."""

    seconds: float


class TimerElapsed(TimedOut):
    """The seconds of a `StartTimer` are over. Nothing that came is lost."""


class ParseBuffered(NamedTuple, Generic[T]):
    """Read one value from what has come already, and wait for nothing: answered with None where more would
    have to come. What was taken then is gone, so nothing more may be heard on that connection."""

    reader: Reader[T]


class StartTls(FieldlessStep):
    """Go on inside TLS. Octets that came before the handshake are no part of it and are refused:
    what was sent in the clear is not to be taken for what was protected (CVE-2021-22947)."""


class StartPacking(NamedTuple):
    """From here on both sides compress what they say in a pipeline, and `machine` does and undoes it. Octets
    that came before are refused, as with `StartTls`."""

    machine: StreamCodec


class RequestCredentials(NamedTuple):
    """Answered with the `Credentials` held for this place, or None. See `Gate.credentials`."""

    user: bytes | None
    ideal: Credentials | None
    challenged: bool = True


class RandomBytes(NamedTuple):
    """Answered with so many octets that nobody can guess."""

    octets: int


class OpenData(NamedTuple):
    """Open the data connection to a port of the same peer, in place of an earlier one. With `tls`, the
    handshake is made by the next `AwaitData`: the peer begins it when it has been told what to send."""

    port: int
    tls: bool = False


class DataExpectation(enum.Enum):
    """What a value means for the data: more values follow; it was the last, and data has all the time it
    needs; it was the last, and only data that has come by now counts; no data will come."""

    MORE = "more"
    LAST = "last"
    BROKEN = "broken"
    OVER = "over"


class BodyStarted(NamedTuple, Generic[T]):
    """`values` were heard; `octets` of data have come. If none, and the last value did not say that none
    will, the data connection has ended: by `broken`, or orderly (None), with TLS's close_notify or not."""

    values: tuple[T, ...]
    octets: int
    broken: NetworkError | None = None
    close_notify: bool = False


class AwaitData(NamedTuple, Generic[T]):
    """Read both connections until data begins or ends, or the values heard so far say that none will
    come. Answered with a `BodyStarted`. A value half heard then is heard on by the next `Receive`, which must
    be of the same kind. Where data is `announced`, by a peer that says a word before any comes and ends the
    data connection whatever becomes of it, one is read after the other, which takes less."""

    reader: Reader[T]
    what: str
    ideal: T
    weigh: Callable[[Sequence[T]], DataExpectation]
    announced: bool = False


class CloseData(FieldlessStep):
    """Close the data connection, before anything more is heard on the first."""


class OpenDatagrams(NamedTuple):
    """Open datagrams, for one exchange, to the URL's host and port; or to those of another URL, which answers
    have led to. `route` are the URLs from there to here, each named in an answer from the one before it: each
    is judged as one that no person chose, by the address that this answer came from. Answered with an
    `OpenedConnection`."""

    route: tuple[str, ...] = ()


class OpenedConnection(NamedTuple):
    """`addresses` are all that may be sent to, the one aimed at first. `number`, from 1 to 65,535, is drawn
    so that nobody can foresee it; in a plan it is 0."""

    addresses: tuple[str, ...]
    number: int


class ExchangeDatagrams(NamedTuple):
    """Carry an exchange to its end on the datagrams that were opened, and close them. Who leaves it before
    that, or has enough of the reply, tells the server so. Answered with a `DatagramReply`, in a plan with
    `ideal`. `what` names the reply for a person."""

    exchange: DatagramExchange
    what: str
    ideal: DatagramReply


class DatagramReply(NamedTuple):
    """The reply, packet by packet, and the numeric address that it came from; in a plan that is empty."""

    pieces: tuple[bytes, ...]
    peer: str = ""


class StartBody(NamedTuple):
    """These are the facts; what comes from here on is the body. Once a dialogue. The dialogue may still add
    to the reply's `findings` and `verified`."""

    reply: Reply


class EmitBody(NamedTuple):
    """Octets of the body that the dialogue put together. `what` describes them where they come from a peer;
    None for what is made here."""

    octets: bytes
    what: str | None = None


@dataclass(frozen=True, slots=True)
class CopyBody:
    """Octets of the connection, of the data connection, or of the file from its octet `begin` on, into the
    body as they come: exactly `count`, or until they end (None). Answered with a `CopiedBody`.

    Raised where it was yielded, for the dialogue to make of it what its protocol says: `Truncated` where
    the connection ends before `count` or is reset, `Disconnected` if that was before the first octet,
    `TimedOut`. `filter` turns the octets into others; it is finished at the orderly end alone. Before the
    `StartBody` it keeps all of them. `expected` is a number of octets that somebody gave and that marks no
    end: it is told in errors. `ideal` is what a willing server would send, where the dialogue asks its
    filter.
    """

    what: str
    count: int | None = None
    source: Literal["connection", "data", "file"] = "connection"
    filter: Filter | None = None
    expected: int | None = None
    begin: int = 0
    ideal: bytes = b""


class CopiedBody(NamedTuple):
    """So many octets came, before any filter; has TLS ended with close_notify? `modified`: the file was
    written to since it was opened."""

    octets: int
    close_notify: bool = False
    modified: bool = False


class RequestPeer(NamedTuple):
    """Answered with the numeric address of the peer. `text` is what a plan says in its place: what
    depends on the address."""

    text: str


class RequestAgreed(FieldlessStep):
    """Answered with the protocol that the peer chose in the TLS handshake, None where it chose none."""


class RequestEnd(FieldlessStep):
    """Answered with whether the end that was heard is one that TLS proves (close_notify); None in the
    clear, where nobody can tell."""


class PlanNote(NamedTuple):
    """A branch that the ideal case does not take, or a fact for the person who reads the plan."""

    text: str


#: The steps are listed here and nowhere else: mypy checks that each match over them is complete. A step of
#: the body is taken by the reader of the body; the driver performs any other.
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
    """`value = yield from hear(…)`: the typed form of yielding a `Receive`."""
    return cast(T, (yield Receive(reader, what, ideal)))


def peek(reader: Reader[T], ideal: T) -> Dialogue[T]:
    """`value = yield from peek(…)`: the typed form of yielding a `Peek`."""
    return cast(T, (yield Peek(reader, ideal)))


def copy_body(step: CopyBody) -> Dialogue[CopiedBody]:
    """`passed = yield from pass_on(Pass(…))`: the typed form of yielding a `CopyBody`."""
    return cast(CopiedBody, (yield step))
