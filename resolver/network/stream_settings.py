"""The settings of a connection for one URL: recorder, known contacts, limits. Reuse replaces the settings."""

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
# Sent data is passed redacted, with secrets as `****`, so that no secret can be stored. Received data is
# passed unchanged. A connection without a recorder has no tap and costs no extra time.

#: Request fields whose value begins with a scheme name, which is not secret (RFC 9110 11.4).
_LOGIN = re.compile(rb"(?im)^((?:proxy-)?authorization: )(\S+)([ ]\S.*)?$")
#: OpenSSL's cipher names before TLS 1.3: `ECDHE-RSA-AES128-GCM-SHA256`.
_SIZED = re.compile(r"(AES|CAMELLIA|ARIA)(128|256)")


class TappedConnection(NamedTuple):
    """A connection, or datagrams, to the IP address `address`; `reused` if an earlier retrieval opened it."""

    host: str
    address: str
    port: int
    transport: Literal["tcp", "udp"] = "tcp"
    role: Literal["control", "data", "query"] = "control"
    reused: bool = False


class TlsFacts(NamedTuple):
    """The TLS parameters of a connection.

    Attributes:
        version: the protocol, as `tls/1.3`.
        cipher: the IANA name of the cipher suite.
        certificate: the SHA-256 of the server's certificate in DER.
        verified: whether a trusted authority signed the certificate.
    """

    version: str
    cipher: str
    alpn: str | None
    name: str
    certificate: str
    verified: bool
    resumed: bool


class Tap(Protocol):
    """A recorder, called immediately and in order; `way` identifies the connection.

    A method may raise `LocalError`, for example if the disk is full.
    """

    def record_connected(self, way: Hashable, link: TappedConnection) -> None:
        """Record a new or reused connection."""

    def record_secured(self, way: Hashable, tls: TlsFacts) -> None:
        """Record an established TLS layer."""

    def has_only_data(self, way: Hashable) -> None:
        """Record that the connection carries only data, next to a control connection."""

    def record_sent(self, way: Hashable, shown: bytes, *, masked: bool) -> None:
        """Record sent bytes; `masked` if some of them are not shown."""

    def received(self, way: Hashable, octets: bytes) -> None:
        """Record received bytes."""

    def closed(self, way: Hashable, *, by_peer: bool) -> None:
        """Record a close; `by_peer` if this client observed that the peer closed first."""


def show_lines(lines: Sequence[Line]) -> bytes:
    """Return sent lines for the record: redacted, but with the authentication scheme name of a login."""
    return b"".join(line.shown if line.octets == line.shown else _with_schemes(line) for line in lines)


def _with_schemes(line: Line) -> bytes:
    schemes = iter([found[2] if found[3] else b"" for found in _LOGIN.finditer(line.octets)])

    def named(found: re.Match[bytes]) -> bytes:
        scheme = next(schemes, b"")
        return found[1] + (scheme + b" " if scheme else b"") + found[2]

    return _LOGIN.sub(named, line.shown)


def tls_facts(sock: ssl.SSLSocket | ssl.SSLObject, name: str, *, verified: bool) -> TlsFacts:
    """Return the TLS parameters of a connection after its handshake."""
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
    """Return the IANA name of a cipher suite for its OpenSSL name."""
    if cipher.startswith("TLS_"):
        return cipher
    words = _SIZED.sub(r"\1_\2", cipher).replace("CHACHA20-POLY1305", "CHACHA20_POLY1305_SHA256").split("-")
    exchange = 0
    while exchange < len(words) and words[exchange] in ("ECDHE", "DHE", "RSA", "ECDSA", "PSK", "DSS"):
        exchange += 1
    return "TLS_" + "_".join([*(words[:exchange] or ["RSA"]), "WITH", *words[exchange:]])


# Contact: whether a host and port has answered in this run.
#
# Some failures will most likely be the same in a minute (`NetworkError.lasting`): a port that refuses, an
# unknown name, and a server that never answers. If the host has answered before, the failure may be
# temporary.

#: Maximum number of recorded hosts, so that a crawl of very many hosts does not grow the map without limit.
CAPACITY = 4096


class Contact:
    """The contact with one host and port; `made` if a byte was received."""

    __slots__ = ("made",)

    def __init__(self) -> None:
        self.made = False

    def judge_error(self, error: NetworkError) -> NetworkError:
        """Return the error; if contact was made before, mark the error as temporary."""
        return error.passing() if self.made and error.lasting else error


class Contacts(dict[tuple[str, int], Contact]):
    """The contacts of a run, by host and port; a missing entry is created on access."""

    def __missing__(self, place: tuple[str, int]) -> Contact:
        if len(self) >= CAPACITY:
            del self[next(iter(self))]
        contact = self[place] = Contact()
        return contact


#: The operations that have separate timeouts in other HTTP client libraries.
Phase: TypeAlias = Literal["connect", "write", "read"]
#: Waits for a socket in one of these phases.
Waiting: TypeAlias = Callable[[Phase], Awaitable[None]]


class Bounds(Protocol):
    """A caller's own timeouts: to connect, for one write, for one read.

    `late` is the phase of the wait in which any timeout passed: a timeout of the caller, or another timeout.
    """

    late: Phase

    def begin(self, phase: Phase) -> None:
        """Start the time of a phase."""

    def record_connected(self) -> None:
        """Record that a connection is established."""

    def deadline(self, phase: Phase) -> float:
        """Return the deadline of a phase by the clock of the loop; infinite without a limit."""
        ...

    def compute_deadline(self, phase: Phase, silent: float) -> float:
        """Return the deadline of one wait in the phase; `silent` is the time of the idle timeout.

        In the phase "connect" the code that connects sets the deadline.
        """
        ...

    def make_timeout(self, phase: Phase) -> TimedOut:
        """Return the error for a passed deadline."""
        ...


@dataclass(slots=True, eq=False)
class StreamSettings:
    """The settings of every connection made for one URL.

    Attributes:
        url: the URL, redacted.
        host: the host that TLS must verify.
        idle: the idle timeout in seconds.
        connect: the connect timeout in seconds.
        report: the listener; None if there is none.
        check_secret: called before a password is sent, with the peer, whether TLS is active, and the secrets;
            raises `Refused`.
        offers: the protocols offered in the handshake (ALPN, RFC 7301).
        shows_certificate: whether the user's certificate is for this host.
        certfile: the certificate for this host alone.
        check_certificate: awaited with the server's certificate if no authority vouches for it, before data
            is sent inside TLS; None if an authority must.
        least: minimum bytes per second of a reply after its first byte.
        mask: collects the secrets that are sent.
        contact: records that a byte was received.
        throttle: delays reads to the maximum rate; None without a limit.
        bounds: the caller's further timeouts; None without any.
        tap: the recorder of sent and received bytes, if any.
    """

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
        """Return the TLS context for these settings."""
        return self.trust.context(
            self.offers,
            ours=self.shows_certificate,
            certfile=self.certfile,
            pinned=self.check_certificate is not None,
        )

    def tell(self, event: Event) -> None:
        """Report an event to the listener, if any."""
        if self.report is not None:
            self.report(event)

    def drop_idle_limit(self) -> StreamSettings:
        """Return the same settings without an idle timeout."""
        return replace(self, idle=math.inf)

    def make_timeout(self, phase: Phase, until: float, peer: str, *, lasting: bool) -> TimedOut:
        """Return the error for a wait for the peer that ended at `until`."""
        if self.bounds is not None:
            self.bounds.late = phase
            if phase != "connect" and until == self.bounds.deadline(phase):
                return self.bounds.make_timeout(phase)
        words = f"timed out: no data from {peer} for {self.idle:g} s"
        return TimedOut(words, lasting=lasting).with_setting("idle_timeout")
