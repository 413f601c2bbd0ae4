"""What happens during a retrieval, for whoever watches (`on_event`, `--trace`, `-v`, progress).

Events are frozen and are handed over synchronously, in order. They never hold a password: what is
sent is given in its shown form, URLs redacted.

`transfer` is the number of what was asked for in its session, the same in all tries, hops and mirrors: by it
one of several under way is followed, also where two ask for the same URL. Events are equal that say the same
of different ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from protocols.location import Finding
from protocols.values import dataclass, field


@dataclass(frozen=True, slots=True)
class Started:
    """A try begins: the first is number 1."""

    url: str
    attempt: int
    transfer: int = field(default=0, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Warned:
    """A rule of the policy fired and did not refuse."""

    url: str
    finding: Finding


@dataclass(frozen=True, slots=True)
class LookedUp:
    """What the name `host` stands for, as the system said now or within the last minute. An address is not
    looked up."""

    url: str
    host: str
    addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Connected:
    """A connection stands, to the numeric `address` that was checked: `data` where it is beside another one,
    for a transfer (FTP). What is said with no connection before is said on one that was kept."""

    url: str
    address: str
    port: int
    tls: bool
    data: bool = field(default=False, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class TlsBegun:
    """TLS stands on a connection on which octets went in the clear before, or which is one for `data`."""

    url: str
    data: bool = False


@dataclass(frozen=True, slots=True)
class Closed:
    """A connection is closed, first `by_peer` where it said so and we saw it. One that is kept for what
    follows is not closed."""

    url: str
    by_peer: bool
    data: bool = False


@dataclass(frozen=True, slots=True)
class Sent:
    """Octets left, secrets as `****`."""

    url: str
    octets: bytes


@dataclass(frozen=True, slots=True)
class Received:
    """Octets came: `data` on a connection that has nothing else (FTP's for a transfer). Those moved in bulk
    into a file are counted by `Progress` and not shown."""

    url: str
    octets: bytes
    data: bool = False


@dataclass(frozen=True, slots=True)
class Progress:
    """So many octets of the object are here, those before `start` since before this try; `expected` is None
    where nobody announced a size."""

    url: str
    received: int
    expected: int | None
    start: int = 0
    transfer: int = field(default=0, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Retrying:
    """A try failed and another follows after `delay` seconds."""

    url: str
    error: Exception
    delay: float
    transfer: int = field(default=0, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Finished:
    """A try is over; `error` is None if it succeeded."""

    url: str
    error: Exception | None
    transfer: int = field(default=0, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Kept:
    """What was to be saved is not whole: so many octets of it stay beside the file `path`. Where the scheme
    `resumes`, another run goes on behind them."""

    url: str
    path: str
    octets: int
    resumes: bool
    transfer: int = field(default=0, compare=False, kw_only=True)


Event: TypeAlias = (
    Kept
    | Started
    | Warned
    | LookedUp
    | Connected
    | TlsBegun
    | Closed
    | Sent
    | Received
    | Progress
    | Retrying
    | Finished
)
OnEvent: TypeAlias = Callable[[Event], None]


class Listener:
    """One who hears of these kinds alone. What goes over the wire, and progress, is not even made an event
    for who hears of none of it; what else there is may be told all the same."""

    def __init__(self, hear: OnEvent, kinds: Iterable[type[Event]]) -> None:
        self._hear = hear
        self._kinds = frozenset(kinds)

    def __call__(self, event: Event) -> None:
        self._hear(event)

    def hears(self, kinds: frozenset[type[Event]]) -> bool:
        return not self._kinds.isdisjoint(kinds)


#: What goes over the wire, and what it goes over.
WIRE: frozenset[type[Event]] = frozenset({LookedUp, Connected, TlsBegun, Closed, Sent, Received})
PROGRESS: frozenset[type[Event]] = frozenset({Progress})


def for_whom(own: OnEvent | None, kinds: frozenset[type[Event]]) -> OnEvent | None:
    """Who is to be told of these kinds; None where nobody would hear of any."""
    return None if isinstance(own, Listener) and not own.hears(kinds) else own
