"""What a connection is told when it is made, and again when it serves another URL."""

from __future__ import annotations

import math
import ssl
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, Protocol, TypeAlias

from protocols.errors import TimedOut
from protocols.values import dataclass, field, replace
from resolver.events import Event, OnEvent
from resolver.gate.contact import Contact
from resolver.gate.mask import Mask
from resolver.gate.rate import Throttle
from resolver.gate.tap import Tap
from resolver.gate.trust import Trust
from resolver.loops import Loop, running

#: What a client of another library's has a time for.
Phase: TypeAlias = Literal["connect", "write", "read"]
#: Waits for a socket, in one of them.
Waiting: TypeAlias = Callable[[Phase], Awaitable[None]]


class Bounds(Protocol):
    """Times that a caller has besides ours: to connect, to write once, to read once. `late` is the phase that
    was waited in when a time was over, whosever that was."""

    late: Phase

    def begin(self, phase: Phase) -> None:
        """Its time runs from now on."""

    def connected(self) -> None:
        """There is a connection."""

    def deadline(self, phase: Phase) -> float:
        """When it is over, by the clock of the loop; infinite where there is no bound."""
        ...

    def until(self, phase: Phase, silent: float) -> float:
        """When one wait in it is over, which silence ends at `silent`; to connect, who connects says when."""
        ...

    def missed(self, phase: Phase) -> TimedOut:
        """It is."""
        ...


@dataclass(slots=True, eq=False)
class StreamSettings:
    """What holds for every connection made for one URL. `url` is redacted, `host` is whom TLS has to
    prove, `idle` and `connect` are in seconds; `report` is None where nobody listens. `check_secret` is
    asked, with the peer, whether TLS stands, and what is secret, before a password leaves: it raises
    `Refused`. `offers` are the protocols that the peer may choose from in the handshake (ALPN, RFC 7301);
    `shows_certificate` says that a certificate of our own is for it, `certfile` that one is for it alone.
    `check_certificate` is awaited with what the peer showed where no authority vouches for it, before
    anything is said inside TLS; None where one has to. `least` octets a second are to come of an answer that
    has begun. `mask` is told of the secrets that go out, and `contact` of what comes; `throttle` says when
    more may be taken, and `bounds` how long may be waited besides, None where nobody minds. `tap` keeps what
    is said and what comes, where there is one."""

    url: str
    host: str
    idle: float
    connect: float
    trust: Trust
    report: OnEvent | None
    check_secret: Callable[[str, bool, Sequence[bytes]], None]
    offers: tuple[str, ...] = ()
    shows_certificate: bool = False
    certfile: str | None = None
    check_certificate: Callable[[bytes], Awaitable[None]] | None = None
    least: int | None = None
    mask: Mask = field(default_factory=Mask)
    contact: Contact = field(default_factory=Contact)
    loop: Loop = field(default_factory=running)
    throttle: Throttle | None = None
    bounds: Bounds | None = None
    tap: Tap | None = None

    @property
    def context(self) -> ssl.SSLContext:
        """What TLS goes by with it."""
        return self.trust.context(
            self.offers,
            ours=self.shows_certificate,
            certfile=self.certfile,
            pinned=self.check_certificate is not None,
        )

    def tell(self, event: Event) -> None:
        """Whoever listens."""
        if self.report is not None:
            self.report(event)

    def patient(self) -> StreamSettings:
        """The same without a limit of silence."""
        return replace(self, idle=math.inf)

    def missed(self, phase: Phase, until: float, peer: str, *, lasting: bool) -> TimedOut:
        """What a wait for the peer that was over then comes to."""
        if self.bounds is not None:
            self.bounds.late = phase
            if phase != "connect" and until == self.bounds.deadline(phase):
                return self.bounds.missed(phase)
        words = f"timed out: nothing from {peer} for {self.idle:g} s (--idle-timeout)"
        return TimedOut(words, lasting=lasting)
