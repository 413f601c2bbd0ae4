"""The settings of a connection for one URL, such as the recorder and the timeouts.

A reused connection gets the settings of the next URL.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Literal, NamedTuple, Protocol, TypeAlias

from protocols.contract import Line
from protocols.errors import NetworkError, TimedOut
from protocols.text import Masked
from resolver.loops import Loop
from resolver.network.clock import Throttle
from resolver.network.events import OnEvent
from resolver.network.mask import Mask
from resolver.network.tls import digest_certificate

# The tap is the recorder of all bytes on the connections of one URL, for an archive.
#
# The tap gets sent data in redacted form, with secrets as `****`. Therefore an archive cannot store a secret.
# The tap gets received data unchanged.

#: Request fields whose value begins with the name of an authentication scheme. The scheme name is not secret
#: (RFC 9110 section 11.4).
_LOGIN = rb"(?im)^((?:proxy-)?authorization: )(\S+)([ ]\S.*)?$"
#: The cipher and key size in an OpenSSL cipher name before TLS 1.3, such as `ECDHE-RSA-AES128-GCM-SHA256`.
_SIZED = re.compile(r"(AES|CAMELLIA|ARIA)(128|256)")


class TappedConnection(NamedTuple):
    """A TCP connection or UDP socket for the IP address `address`.

    `reused` is true if an earlier retrieval opened the connection. The fields are the members of the event
    `connect` in an archive.
    """

    host: str
    address: str
    port: int
    transport: Literal["tcp", "udp"] = "tcp"
    role: Literal["control", "data", "query"] = "control"
    reused: bool = False


class TlsFacts(NamedTuple):
    """The TLS parameters of a connection, which are the members of the event `tls` in an archive.

    Attributes:
        version: the TLS version, such as `tls/1.3`.
        cipher: the IANA name of the cipher suite.
        certificate: the SHA-256 digest of the server certificate in DER form.
        verified: whether a trusted certificate authority signed the certificate.
    """

    version: str
    cipher: str
    alpn: str | None
    name: str
    certificate: str
    verified: bool
    resumed: bool


class Tap(Protocol):
    """A recorder of the bytes on connections, called in the order of the network operations.

    The parameter `connection` of each method identifies the connection. Each method may raise `LocalError`,
    for example if the disk is full.
    """

    def record_connected(self, connection: Hashable, link: TappedConnection) -> None:
        """Record a new or reused connection."""

    def record_secured(self, connection: Hashable, tls: TlsFacts) -> None:
        """Record an established TLS layer."""

    def mark_data_connection(self, connection: Hashable) -> None:
        """Record that the connection is a data connection, which belongs to a control connection."""

    def record_sent(self, connection: Hashable, shown: bytes, *, masked: bool) -> None:
        """Record sent bytes; `masked` is true if some bytes are replaced by `****`."""

    def record_received(self, connection: Hashable, octets: bytes) -> None:
        """Record received bytes."""

    def record_closed(self, connection: Hashable, *, by_peer: bool) -> None:
        """Record that a connection was closed, first by the peer if `by_peer` is true."""


def show_lines(lines: Sequence[Line]) -> bytes:
    """Return sent lines in redacted form, with the name of the authentication scheme."""
    return b"".join(line.shown if line.octets == line.shown else _with_schemes(line) for line in lines)


def _with_schemes(line: Line) -> bytes:
    schemes = iter([match[2] if match[3] else b"" for match in re.finditer(_LOGIN, line.octets)])

    def add_scheme(match: re.Match[bytes]) -> bytes:
        scheme = next(schemes, b"")
        return match[1] + (scheme + b" " if scheme else b"") + match[2]

    return re.sub(_LOGIN, add_scheme, line.shown)


def tls_facts(sock: ssl.SSLSocket, name: str, *, verified: bool) -> TlsFacts:
    """Return the TLS parameters of a connection after its handshake."""
    cipher, version = sock.cipher(), sock.version() or ""
    return TlsFacts(
        version=version.lower().replace("tlsv", "tls/"),
        cipher="" if cipher is None else iana_name(cipher[0]),
        alpn=sock.selected_alpn_protocol(),
        name=name,
        certificate=digest_certificate(sock.getpeercert(True) or b""),
        verified=verified,
        resumed=bool(sock.session_reused),
    )


def iana_name(cipher: str) -> str:
    """Convert the OpenSSL name of a cipher suite to the IANA name."""
    if cipher.startswith("TLS_"):
        return cipher
    words = _SIZED.sub(r"\1_\2", cipher).replace("CHACHA20-POLY1305", "CHACHA20_POLY1305_SHA256").split("-")
    exchange = 0
    while exchange < len(words) and words[exchange] in ("ECDHE", "DHE", "RSA", "ECDSA", "PSK", "DSS"):
        exchange += 1
    return "TLS_" + "_".join([*(words[:exchange] or ["RSA"]), "WITH", *words[exchange:]])


# `Contacts` has the hosts and ports that have responded in this run.
#
# A refused connection, an unknown host name, and a server that never responds are probably permanent failures
# (`NetworkError.lasting`). If the host and port responded earlier in this run, the failure may be temporary.

#: Maximum number of recorded hosts. The limit bounds memory in a crawl of very many hosts.
CAPACITY = 4096


class Contact:
    """The contact with a host and port. `has_responded` is true if a byte was received."""

    __slots__ = ("has_responded",)

    def __init__(self) -> None:
        self.has_responded = False

    def judge_error(self, error: NetworkError) -> NetworkError:
        """Return the error, marked as temporary if the host and port responded earlier."""
        return error.passing() if self.has_responded and error.lasting else error


class Contacts(dict[tuple[str, int], Contact]):
    """The contacts of a run, by host and port. If an entry is missing, it is created on access."""

    def __missing__(self, place: tuple[str, int]) -> Contact:
        if len(self) >= CAPACITY:
            del self[next(iter(self))]
        contact = self[place] = Contact()
        return contact


#: The operations with separate timeouts, as in httpx.
Phase: TypeAlias = Literal["connect", "write", "read"]


class Bounds(Protocol):
    """The caller's timeouts for connecting, for one write, and for one read.

    Attributes:
        late: the phase in which a timeout passed, either a timeout of the caller or another timeout.
    """

    late: Phase

    def begin(self, phase: Phase) -> None:
        """Start the timeout of a phase."""

    def record_connected(self) -> None:
        """Record that a connection is established."""

    def deadline(self, phase: Phase) -> float:
        """Return the deadline of a phase on the clock of the event loop, or infinity."""
        ...

    def compute_deadline(self, phase: Phase, silent: float) -> float:
        """Return the deadline of one wait in the phase.

        Args:
            phase: the phase of the wait. The phase "connect" needs no deadline here, because the code that
                opens connections applies the caller's connect timeout.
            silent: the time at which the idle timeout passes.
        """
        ...

    def make_timeout(self, phase: Phase) -> TimedOut:
        """Return the error for a passed deadline."""
        ...


#: A function that checks the server certificate in DER form; it raises `TlsError`.
CertificateCheck: TypeAlias = Callable[[bytes], Awaitable[None]]


class TlsSettings(NamedTuple):
    """The TLS settings of a connection.

    Attributes:
        check_certificate: the function that checks a pinned server certificate. The function is awaited after
            the handshake and before data is sent. If a certificate authority must sign the certificate,
            `check_certificate` is None.
    """

    context: ssl.SSLContext
    check_certificate: CertificateCheck | None = None


class StreamSettings(NamedTuple):
    """The settings of every connection made for one URL.

    Attributes:
        url: the URL, redacted.
        host: the host name that TLS must verify.
        idle: the idle timeout in seconds.
        connect: the connect timeout in seconds.
        tls: the function that returns the TLS settings. The TLS settings are needed only for a handshake.
        report: the listener for events; None without a listener.
        check_secret: the function that is called before a password is sent. The arguments are the peer,
            whether TLS is active, and the secrets. The function raises `Refused` if the policy forbids
            sending the password.
        min_rate: the minimum rate of a response in bytes per second, measured after the first byte.
        mask: the mask that redacts the secrets that were sent.
        contact: the record which shows whether the host and port have sent a byte in this run.
        throttle: the rate limiter for reads; None without a rate limit.
        bounds: the caller's timeouts for each phase; None without such timeouts.
        tap: the recorder of sent and received bytes; None without a recorder.
    """

    url: Masked
    host: str
    idle: float
    connect: float
    tls: Callable[[], TlsSettings]
    report: OnEvent | None
    check_secret: Callable[[str, bool, Sequence[bytes]], None]
    min_rate: int | None
    mask: Mask
    contact: Contact
    loop: Loop
    throttle: Throttle | None
    bounds: Bounds | None
    tap: Tap | None

    def make_timeout(self, phase: Phase, until: float, peer: str, *, lasting: bool) -> TimedOut:
        """Return the error for a wait for the peer that ended at the deadline `until`."""
        if self.bounds is not None:
            self.bounds.late = phase
            if phase != "connect" and until == self.bounds.deadline(phase):
                return self.bounds.make_timeout(phase)
        words = f"timed out: no data from {peer} for {self.idle:g} s"
        return TimedOut(words, lasting=lasting).with_setting("idle_timeout")
