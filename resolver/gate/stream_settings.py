"""What a connection is told when it is made, and again when it serves another URL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from resolver.events import OnEvent
from resolver.gate.contact import Contact
from resolver.gate.mask import Mask
from resolver.gate.rate import Throttle
from resolver.gate.trust import Trust
from resolver.loops import Loop, running


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """What holds for every connection made for one URL. `url` is redacted, `host` is whom TLS has to
    prove, `idle` and `connect` are in seconds; `report` is None where nobody listens. `check_secret` is
    asked, with the peer, whether TLS stands, and what is secret, before a password leaves: it raises
    `Refused`. `offers` are the protocols that the peer may choose from in the handshake (ALPN, RFC 7301);
    `shows_certificate` says that a certificate of our own is for it, `certfile` that one is for it alone.
    `least` octets a second are to come of an answer that has begun. `mask` is told of the secrets that go
    out, and `contact` of what comes; `throttle` says when more may be taken, None where nobody minds."""

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
    least: int | None = None
    mask: Mask = field(default_factory=Mask)
    contact: Contact = field(default_factory=Contact)
    loop: Loop = field(default_factory=running)
    throttle: Throttle | None = None
