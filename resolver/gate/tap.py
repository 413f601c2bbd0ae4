"""Who keeps what goes over the connections of one URL, octet for octet: an archive of it.

What is sent is handed over as it is shown, with secrets as `****`, so that none can be kept; what comes, as
it came. Where nobody keeps anything there is no tap, and nothing is done for one.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Hashable, Sequence
from hashlib import sha256
from typing import Literal, Protocol

from protocols.connection import Line
from protocols.values import NamedTuple

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

    def connected(self, way: Hashable, link: TappedConnection) -> None:
        """It stands, or it is taken up again."""

    def secured(self, way: Hashable, tls: TlsFacts) -> None:
        """TLS stands on it."""

    def has_only_data(self, way: Hashable) -> None:
        """It is one beside another, and no word comes on it."""

    def sent(self, way: Hashable, shown: bytes, *, masked: bool) -> None:
        """These octets left; `masked`: some of them are not shown."""

    def received(self, way: Hashable, octets: bytes) -> None:
        """These octets came."""

    def closed(self, way: Hashable, *, by_peer: bool) -> None:
        """It is closed, first by the peer where it said so and we saw it."""


def shown_of(lines: Sequence[Line]) -> bytes:
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
