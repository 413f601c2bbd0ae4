"""What a dialogue may ask for: one value a step, and the answers of a willing server.

A dialogue yields steps: `Connect`, `Borrow`, `OpenFile`, `Say`, `Hear`, `HandOver`, `Note`. It gets back
what the step is for: nothing, or the value that was heard. Every `Hear` carries the value that a willing
server would give; driven with those (`rehearse`), the same generator is the plan that `explain` shows, so
plan and dialogue cannot drift apart. What other branches would do is a `Note`. What a step raises is raised
in the dialogue where it was yielded, which may go another way.

`HandOver` says: from here on the octets are the body. A dialogue may have a second connection, for data
alone: `OpenData`, `AwaitData`, `CloseData`. Several dialogues may talk on one connection, in turn: `Join`,
`TakeFloor`, `AwaitTurn`, `Keep`. `conversation` performs all this; nothing here does anything.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Generator, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeAlias, TypeVar, cast

from protocols.errors import NetworkError, ResolveError

if TYPE_CHECKING:  # a plan is made without the rest of the contract
    from protocols.contract import Credentials, Line, Memory
    from protocols.wire import Reader

T = TypeVar("T")
R = TypeVar("R")


class Connect(NamedTuple):
    """Open the connection to the URL's host and port; with TLS from the first octet if asked."""

    tls: bool = False


class Borrow(NamedTuple):
    """Go on with a connection that an earlier dialogue kept, or open a new one: see `Gate.borrow`.
    Answered with what that dialogue had to say of it; None says that it is new."""

    whom: Hashable
    tls: bool = False


class Join(NamedTuple):
    """Talk on a connection that others talk on too, in turn; else on one that was kept (not with `anew`),
    else on a new one. See `Gate.join`. Answered with a `Joined`."""

    whom: Hashable
    memory: Memory
    tls: bool = False
    anew: bool = False


class Joined(NamedTuple):
    """`memory` is what all who talk there know of it; the one that was offered, if the connection is new.
    `peer` is a numeric address."""

    memory: Memory
    peer: str


@dataclass(frozen=True, slots=True)
class Bare:
    """A step that is all in its name: two of one kind are equal, and nothing else is."""


class TakeFloor(Bare):
    """Before the first words on a joined connection: wait until all who came before have spoken, and the
    memory has room for one more. Right behind it comes a `Say`."""


class AwaitTurn(Bare):
    """Before the first `Hear` on a joined connection: wait until all who spoke before have heard what was
    theirs, or until the memory's epoch is another one. `Disconnected` where that cannot happen any more."""


class Keep(Bare):
    """What was asked for on a joined connection has been read: the next one may have its turn."""


class OpenFile(NamedTuple):
    """Open the file or directory of this machine that the segments name, from the root down."""

    segments: tuple[bytes, ...]

    @property
    def path(self) -> str:
        """The path for a person: one character per octet."""
        return "/" + b"/".join(self.segments).decode("latin-1")


class Say(NamedTuple):
    """Send one or more lines in one write."""

    lines: tuple[Line, ...]


class Hear(NamedTuple, Generic[T]):
    """Read one value. `what` names it for a person; `ideal` is what a willing server gives."""

    reader: Reader[T]
    what: str
    ideal: T


class StartTls(Bare):
    """Go on inside TLS. Octets that came before the handshake are no part of it and are refused:
    what was sent in the clear is not to be taken for what was protected (CVE-2021-22947)."""


class AskCredentials(NamedTuple):
    """Answered with the `Credentials` held for this place, or None. See `Gate.credentials`."""

    user: bytes | None
    ideal: Credentials | None


class OpenData(NamedTuple):
    """Open the data connection to a port of the same peer, in place of an earlier one. With `tls`, the
    handshake is made by the next `AwaitData`: the peer begins it when it has been told what to send."""

    port: int
    tls: bool = False


class Pace(enum.Enum):
    """What a value means for the data: more values follow; it was the last, and data has all the time it
    needs; it was the last, and only data that has come by now counts; no data will come."""

    MORE = "more"
    LAST = "last"
    BROKEN = "broken"
    OVER = "over"


class Begun(NamedTuple, Generic[T]):
    """`values` were heard; `octets` of data have come. If none, and the last value did not say that none
    will, the data connection has ended: by `broken`, or orderly (None), with TLS's close_notify or not."""

    values: tuple[T, ...]
    octets: int
    broken: NetworkError | None = None
    close_notify: bool = False


class AwaitData(NamedTuple, Generic[T]):
    """Read both connections until data begins or ends, or the values heard so far say that none will
    come. Answered with a `Begun`. A value half heard then is heard on by the next `Hear`, which must be of
    the same kind."""

    reader: Reader[T]
    what: str
    ideal: T
    weigh: Callable[[Sequence[T]], Pace]


class CloseData(Bare):
    """Close the data connection, before anything more is heard on the first."""


@dataclass(frozen=True, slots=True)
class HandOver:
    """The octets that follow are the body: `what` describes them. `count` is their number if the
    protocol told it; None means until the connection ends."""

    what: str
    count: int | None = None


class AskPeer(NamedTuple):
    """Answered with the numeric address of the peer. `text` is what a plan says in its place: what
    depends on the address."""

    text: str


class AskAgreed(Bare):
    """Answered with the protocol that the peer chose in the TLS handshake, None where it chose none."""


class Note(NamedTuple):
    """A branch that the ideal case does not take, or a fact for the person who reads the plan."""

    text: str


Step: TypeAlias = (
    "Connect | Borrow | Join | TakeFloor | AwaitTurn | Keep | OpenFile | Say | Hear[Any] | StartTls"
    " | AskCredentials | OpenData | AwaitData[Any] | CloseData | HandOver | AskPeer | AskAgreed | Note"
)
Dialogue: TypeAlias = Generator[Step, object, R]


def hear(reader: Reader[T], what: str, ideal: T) -> Dialogue[T]:
    """`value = yield from hear(…)`: the typed form of yielding a `Hear`."""
    return cast(T, (yield Hear(reader, what, ideal)))


def rehearse(dialogue: Dialogue[object]) -> list[Step]:
    """All steps of a dialogue as they would go with a willing server; nothing is done. Where the
    dialogue would refuse by itself, the plan ends in a note that says so."""
    steps: list[Step] = []
    answer: object = None
    while True:
        try:
            step = dialogue.send(answer)
        except StopIteration:
            return steps
        except ResolveError as error:
            return [*steps, Note(error.message)]
        steps.append(step)
        answer = _ideal_answer(step)


def _ideal_answer(step: Step) -> object:
    match step:
        case Hear(ideal=ideal) | AskCredentials(ideal=ideal):
            return ideal
        case AwaitData(ideal=ideal):
            return Begun((ideal,), octets=1)
        case _:
            return None
