"""The settings of a connection for one URL: recorder, known contacts, limits; replaced when it is reused."""

from __future__ import annotations

import math
import re
import ssl
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Literal, NamedTuple, Protocol, TypeAlias

from protocols.contract import Line
from protocols.errors import NetworkError, TimedOut
from resolver.loops import Loop, running
from resolver.network.clock import Throttle
from resolver.network.events import Event, OnEvent
from resolver.network.mask import Mask
from resolver.network.tls import Trust

# The tap: a recorder of all bytes on the connections of one URL, for an archive.
#
# Sent data is passed in its shown form, with secrets as `****`, so that none can be stored; received data as
# it came. Without a recorder there is no tap and no cost.

#: Fields of a request whose value begins with the name of a scheme, which is no secret (RFC 9110 11.4).
_LOGIN = re.compile(rb"(?im)^((?:proxy-)?authorization: )(\S+)([ ]\S.*)?$")
#: As OpenSSL calls what came before TLS 1.3: `ECDHE-RSA-AES128-GCM-SHA256`.
_SIZED = re.compile(r"(AES|CAMELLIA|ARIA)(128|256)")


class TappedConnection(NamedTuple):
    """A connection, or datagrams, to the numeric `address`; `reused`: an earlier retrieval opened it."""

    host: str
    address: str
    port: int
    transport: Literal["tcp", "udp"] = "tcp"
    role: Literal["control", "data", "query"] = "control"
    reused: bool = False


class TlsFacts(NamedTuple):
    """What TLS stands by: `version` as `tls/1.3`, `cipher` by its name at IANA, `certificate` the
    SHA-256 of what was shown, in DER; `verified`: an authority vouches for it."""

    version: str
    cipher: str
    alpn: str | None
    name: str
    certificate: str
    verified: bool
    resumed: bool


class Tap(Protocol):
    """Told at once, in order; `way` tells connections apart. It may raise `LocalError`, as a disk does."""

    def record_connected(self, way: Hashable, link: TappedConnection) -> None:
        """It stands, or it is taken up again."""

    def record_secured(self, way: Hashable, tls: TlsFacts) -> None:
        """TLS stands on it."""

    def has_only_data(self, way: Hashable) -> None:
        """It is one beside another, and no word comes on it."""

    def record_sent(self, way: Hashable, shown: bytes, *, masked: bool) -> None:
        """These octets left; `masked`: some of them are not shown."""

    def received(self, way: Hashable, octets: bytes) -> None:
        """These octets came."""

    def closed(self, way: Hashable, *, by_peer: bool) -> None:
        """It is closed, first by the peer where it said so and we saw it."""


def show_lines(lines: Sequence[Line]) -> bytes:
    """What is kept of lines that left: as they are shown, but with the name of the scheme of a login."""
    return b"".join(line.shown if line.octets == line.shown else _with_schemes(line) for line in lines)


def _with_schemes(line: Line) -> bytes:
    schemes = iter([found[2] if found[3] else b"" for found in _LOGIN.finditer(line.octets)])

    def named(found: re.Match[bytes]) -> bytes:
        scheme = next(schemes, b"")
        return found[1] + (scheme + b" " if scheme else b"") + found[2]

    return _LOGIN.sub(named, line.shown)


def tls_facts(sock: ssl.SSLSocket | ssl.SSLObject, name: str, *, verified: bool) -> TlsFacts:
    """Of a connection on which the handshake was made."""
    cipher, version = sock.cipher(), sock.version() or ""
    return TlsFacts(
        version=version.lower().replace("tlsv", "tls/"),
        cipher="" if cipher is None else iana_name(cipher[0]),
        alpn=sock.selected_alpn_protocol(),
        name=name,
        certificate=f"sha256:{sha256(sock.getpeercert(True) or b'').hexdigest()}",
        verified=verified,
        resumed=bool(sock.session_reused),
    )


def iana_name(cipher: str) -> str:
    """The name of a cipher suite in IANA's list, by the one that OpenSSL has for it."""
    if cipher.startswith("TLS_"):
        return cipher
    words = _SIZED.sub(r"\1_\2", cipher).replace("CHACHA20-POLY1305", "CHACHA20_POLY1305_SHA256").split("-")
    exchange = 0
    while exchange < len(words) and words[exchange] in ("ECDHE", "DHE", "RSA", "ECDSA", "PSK", "DSS"):
        exchange += 1
    return "TLS_" + "_".join([*(words[:exchange] or ["RSA"]), "WITH", *words[exchange:]])


# Contact: whether a place has answered in this run.
#
# A port that refuses, a name that does not exist and a peer that never answers will most likely be the same
# in a minute (`NetworkError.lasting`). After an earlier contact the cause may pass.

#: Places kept at most: a crawl of very many hosts must not grow without end.
CAPACITY = 4096


class Contact:
    """With one place. `made`: an octet came from there."""

    __slots__ = ("made",)

    def __init__(self) -> None:
        self.made = False

    def judge_error(self, error: NetworkError) -> NetworkError:
        """Nothing that goes wrong is lasting once contact was made."""
        return error.passing() if self.made and error.lasting else error


class Contacts(dict[tuple[str, int], Contact]):
    """Those of a run, by host and port; one that is looked for is there."""

    def __missing__(self, place: tuple[str, int]) -> Contact:
        if len(self) >= CAPACITY:
            del self[next(iter(self))]
        contact = self[place] = Contact()
        return contact


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

    def record_connected(self) -> None:
        """There is a connection."""

    def deadline(self, phase: Phase) -> float:
        """When it is over, by the clock of the loop; infinite where there is no bound."""
        ...

    def compute_deadline(self, phase: Phase, silent: float) -> float:
        """When one wait in it is over, which silence ends at `silent`; to connect, who connects says when."""
        ...

    def make_timeout(self, phase: Phase) -> TimedOut:
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

    def drop_idle_limit(self) -> StreamSettings:
        """The same without a limit of silence."""
        return replace(self, idle=math.inf)

    def make_timeout(self, phase: Phase, until: float, peer: str, *, lasting: bool) -> TimedOut:
        """What a wait for the peer that was over then comes to."""
        if self.bounds is not None:
            self.bounds.late = phase
            if phase != "connect" and until == self.bounds.deadline(phase):
                return self.bounds.make_timeout(phase)
        words = f"timed out: nothing from {peer} for {self.idle:g} s (--idle-timeout)"
        return TimedOut(words, lasting=lasting)
