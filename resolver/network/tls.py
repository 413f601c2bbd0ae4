"""TLS contexts: trusted authorities, pinned certificates, our own certificate, and TLS errors.

A run has one context, because a session can be offered only within the context that it came from, which FTP's
data connections need. Another one is made where protocols are offered or our certificate is not shown. The
system's authorities are trusted, and those that the user adds. TLS 1.2 is the floor (RFC 9325).
"""

from __future__ import annotations

import errno
import os
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from hashlib import sha256
from typing import Literal, TypeAlias, TypeVar

from protocols.authority import comparable_host
from protocols.errors import Disconnected, NetworkError, NotConfigured, TimedOut, TlsError
from resolver.files.atomic import MISSING, open_own, update_own
from resolver.files.faults import reason
from resolver.loops import running
from resolver.policy.environment import own_folder


class WrappedSocket(ssl.SSLSocket):
    """One that is made of a connected socket. If the peer resets that meanwhile, as FTP servers do with a
    data connection when they refuse, making it would fail and leave the descriptor to nobody; so it is made
    all the same, and its handshake tells."""

    def getpeername(self) -> object:
        try:
            return super().getpeername()
        except OSError:
            return None


#: A scheme, host and port.
Place: TypeAlias = "tuple[str, str, int]"


class Trust:
    """Gives the context for what is offered (ALPN), made on first use: loading the authorities takes
    some 20 ms.

    `cafile` holds further authorities, `certfile` a certificate and key of our own (PEM), or the names of two
    such files with a comma between. It is for the places that a person named, and shown nowhere else (S11);
    a context may be asked for with another one, which is for one host alone.
    """

    def __init__(
        self, cafile: str | None = None, certfile: str | None = None, password: bytes | None = None
    ) -> None:
        self._cafile = cafile
        self._certfile = certfile
        self._password = password
        self.has_own = certfile is not None
        self._contexts: dict[tuple[tuple[str, ...], str | None, bool], ssl.SSLContext] = {}
        self._named: set[Place] = set()

    def check(self) -> None:
        """Raises `NotConfigured` for a certificate of our own that cannot be used, and nothing was sent."""
        if self.has_own:
            self.context()

    def name(self, place: Place) -> None:
        """A person named this place: who we are may be shown there."""
        self._named.add(place)

    def shows(self, place: Place) -> bool:
        """Is our certificate for this place?"""
        return place in self._named

    def context(
        self,
        offers: tuple[str, ...] = (),
        *,
        ours: bool = True,
        certfile: str | None = None,
        pinned: bool = False,
    ) -> ssl.SSLContext:
        """With our certificate, that of `certfile` if there is one, or without. A `pinned` one trusts whoever
        answers: who asks for it compares the certificate (`pins`), before anything is said. Raises
        `NotConfigured` when a file given cannot be used."""
        key = (offers, certfile or (self._certfile if ours else None), pinned)
        if key not in self._contexts:
            self._contexts[key] = self._load(*key)
        return self._contexts[key]

    def _load(self, offers: tuple[str, ...], certfile: str | None, pinned: bool) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if pinned else ssl.create_default_context()
        if pinned:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.sslsocket_class = WrappedSocket
        # Python asks OpenSSL to take a cut connection for a proper end; we want to know the difference.
        context.options &= ~getattr(ssl, "OP_IGNORE_UNEXPECTED_EOF", 0)
        if self._cafile is not None and not pinned:
            _load_file("--cacert", self._cafile, lambda path: context.load_verify_locations(cafile=path))
        if certfile is not None:
            option, password = "the certificate", None
            if certfile == self._certfile:
                option, password = "--cert", self._password
            _load_file(option, certfile, lambda path: _load_own(context, path, option, password))
            context.post_handshake_auth = True  # a server may ask for it later, for one of its directories
        if offers:
            context.set_alpn_protocols(offers)
        return context


def is_locked(certfile: str) -> bool:
    """Has its key a password? One that cannot be used at all is told of when it is."""
    return _loading_asks(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), certfile, None) == "in vain"


def _load_own(context: ssl.SSLContext, path: str, option: str, password: bytes | None) -> None:
    if _loading_asks(context, path, password) == "in vain":
        what = "has a password" if password is None else "has another password than the one given"
        raise NotConfigured(f"{option} {path!r} cannot be used: its key {what}")


def _loading_asks(
    context: ssl.SSLContext, path: str, password: bytes | None
) -> Literal["no", "yes", "in vain"]:
    """Load it: was a password asked for, and was it that one? OpenSSL would ask the terminal by itself."""
    asked = False

    def answer() -> bytes:
        nonlocal asked
        asked = True
        return password or b""

    certificate, _, key = path.partition(",")
    try:
        context.load_cert_chain(certificate, key or None, password=answer)
    except ssl.SSLError:
        if not asked:
            raise
        return "in vain"
    return "yes" if asked else "no"


def _load_file(option: str, path: str, load: Callable[[str], None]) -> None:
    try:
        load(path)
    except (OSError, ssl.SSLError) as error:
        raise NotConfigured(f"{option} {path!r} cannot be used: {error.strerror or error}") from error


# Pins: servers without an authority, known by the certificate that each showed first.
#
# A scheme of such servers says so in its row (`certificates="pin"`). The certificate of a place is stored in
# a file of the user's own, a line each, beside the configuration. A server with another certificate is
# treated as a stranger until the user says otherwise, and is sent nothing. A certificate is compared, and
# nothing in it is read.

_WHAT = "list of known certificates"
_NAME = "known-certificates"
_MOST = 1_048_576  # octets: some ten thousand places


class Pins:
    """Those of one run. What was found to be right stays right; the file is looked at for all others."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    async def check(self, host: str, port: int, certificate: bytes) -> None:
        """Is it the one that this place showed first? The first one is kept. Raises `TlsError` for another
        one, and `LocalError` where nothing can be kept."""
        if not certificate:
            raise TlsError(f"{host} shows no certificate")
        place, shown = f"{comparable_host(host)} {port}", f"sha256:{sha256(certificate).hexdigest()}"
        if self._known.get(place) == shown:
            return
        path = _path()
        known = await running().in_thread(_find_pin, path, place, shown)
        if known != shown:
            raise TlsError(
                f"{host} port {port} shows another certificate than when it was first met ({shown}, not"
                f" {known}), and was told nothing; if whoever keeps it says that it was renewed, remove the"
                f" line {place!r} from {path}"
            )
        self._known[place] = shown


def _path() -> str:
    folder = own_folder()
    if folder is None:
        raise NotConfigured(f"there is no place for the {_WHAT}: set XDG_CONFIG_HOME or HOME")
    return os.path.join(folder, _NAME)


def _find_pin(path: str, place: str, shown: str) -> str:
    """What the file has for a place; `shown`, which it has from now on, where it had nothing."""
    known = _read_pins(path)
    if place not in known:
        update_own(path, _WHAT, _MOST, partial(_add_pin, path, place, shown), make_folder=True)
        known = _read_pins(path)  # somebody else may have met it meanwhile
    return known.get(place, shown)


def _read_pins(path: str) -> dict[str, str]:
    try:
        with open_own(path, _WHAT, _MOST, secret=True) as file:
            return _read(path, file.octets)
    except MISSING:
        return {}


def _add_pin(path: str, place: str, shown: str, octets: bytes) -> bytes:
    """The file with a line for a place that has none."""
    if place in _read(path, octets):
        return octets
    end = b"" if octets.endswith(b"\n") or not octets else b"\n"
    written = b"%b%b%b\n" % (octets, end, f"{place} {shown}".encode())
    if len(written) > _MOST:
        raise NotConfigured(f"{path} has no room for {place}: remove lines that nobody needs")
    return written


def _read(path: str, octets: bytes) -> dict[str, str]:
    known: dict[str, str] = {}
    for number, line in enumerate(octets.decode("utf-8", "replace").split("\n"), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) != 3 or not words[1].isdecimal():
            raise NotConfigured(f"{path}, line {number}: a host, a port and sha256:DIGEST are needed")
        known[f"{comparable_host(words[0])} {int(words[1])}"] = words[2].lower()
    return known


# Errors of the system or the TLS library as errors of ours; no other module of the gate converts them.
#
# The caller raises the result `from` the original: `connection_fault` for a connection that stood,
# `tls_fault` for TLS.

#: What OpenSSL calls a certificate that no authority known here has signed (X509_V_ERR_…).
_UNKNOWN_AUTHORITY = frozenset({18, 19, 20, 21})


def connection_fault(error: OSError, peer: str) -> NetworkError:
    """What ends a connection that stood. A peer that acknowledges nothing is silence, not departure."""
    if error.errno == errno.ETIMEDOUT:
        return TimedOut(f"timed out: {peer} no longer answers, says the system")
    return Disconnected(f"the connection to {peer} broke: {reason(error)}")


def tls_fault(error: ssl.SSLError, host: str) -> NetworkError:
    """Why there is no trustworthy TLS. A peer that leaves during the handshake has said nothing about it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        remedy = " (--cacert FILE trusts its own)" if error.verify_code in _UNKNOWN_AUTHORITY else ""
        return TlsError(f"the certificate of {host} is not to be trusted: {error.verify_message}{remedy}")
    if isinstance(error, (ssl.SSLEOFError, ssl.SSLZeroReturnError)) or is_cut(error):
        return Disconnected(f"{host} ended the connection during the TLS handshake")
    words: str = getattr(error, "reason", None) or str(error)
    if "CERTIFICATE_REQUIRED" in words:
        return TlsError(f"{host} wants a certificate of ours (--cert FILE)")
    return TlsError(f"TLS with {host} failed: {words.replace('_', ' ').lower()}")


def is_cut(error: OSError) -> bool:
    """Did the octets end without close_notify? Only from Python 3.11.4 on has that a class of its own."""
    return getattr(error, "reason", None) == "UNEXPECTED_EOF_WHILE_READING"


def make_lasting(error: OSError) -> OSError:
    """What is raised from now on: the system tells of a reset once, and of an end from then on. Inside TLS an
    older Python gives a reset the class of an end, but OpenSSL has no words for it."""
    if not isinstance(error, ssl.SSLEOFError):
        return error
    reset = ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
    reset.__cause__ = error
    return reset


# inner tls: TLS inside TLS: through a proxy that is spoken to in TLS itself, to a place that is, too.
#
# An `ssl.SSLSocket` cannot be laid over another one, so the inner one works on octets in memory, which the
# outer one carries. What either waits for is raised as the system would have it, and the caller tries
# again.

T = TypeVar("T")

#: Octets taken from the outer connection at once: one record of TLS and more.
_TAKEN = 32_768
#: Octets of one `send` that are made records of: what is made is held until it has left.
_MADE = 65_536


class InnerTls:
    """What a `Stream` needs of an `ssl.SSLSocket`, over `outer`. One task may receive while another sends."""

    def __init__(
        self, outer: ssl.SSLSocket, context: ssl.SSLContext, host: str, session: ssl.SSLSession | None
    ) -> None:
        self.outer = outer
        self._came, self._goes = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._came, self._goes, server_hostname=host, session=session)
        self._unsent = b""
        self._said = 0
        self.fileno = outer.fileno
        self.setsockopt = outer.setsockopt
        self.getsockopt = outer.getsockopt
        self.getpeercert = self._tls.getpeercert
        self.selected_alpn_protocol = self._tls.selected_alpn_protocol

    @property
    def context(self) -> ssl.SSLContext:
        return self._tls.context

    @property
    def session(self) -> ssl.SSLSession | None:
        return self._tls.session

    @property
    def session_reused(self) -> bool | None:
        return self._tls.session_reused

    def do_handshake(self) -> None:
        self._flush()
        try:
            self._perform(self._tls.do_handshake)
        finally:
            self._flush()

    def send(self, octets: memoryview) -> int:
        """Once records were made of octets they leave before more are: a call that waits is made again."""
        if not self._said:
            self._said = self._perform(lambda: self._tls.write(octets[:_MADE]))
        self._flush()
        said, self._said = self._said, 0
        return said

    def recv_into(self, view: memoryview) -> int:
        """What TLS has to say meanwhile leaves if it can: who sends may be waiting for room already."""
        octets = self._perform(lambda: self._tls.read(len(view)))
        view[: len(octets)] = octets
        return len(octets)

    def pending(self) -> int:
        """Octets that came and were not read, of either."""
        return self._tls.pending() + self._came.pending + self.outer.pending()

    def unwrap(self) -> None:
        """The close_notify of both."""
        with suppress(ssl.SSLError):
            self._tls.unwrap()
        self._flush()
        self.outer.unwrap()

    def close(self) -> None:
        self.outer.close()

    def _perform(self, operation: Callable[[], T]) -> T:
        while True:
            try:
                return operation()
            except ssl.SSLWantReadError:
                with suppress(ssl.SSLWantReadError, ssl.SSLWantWriteError):
                    self._flush()
            self._take()

    def _flush(self) -> None:
        self._unsent += self._goes.read()
        while self._unsent:
            self._unsent = self._unsent[self.outer.send(self._unsent) :]

    def _take(self) -> None:
        try:
            octets = self.outer.recv(_TAKEN)
        except ssl.SSLError as error:
            if not is_cut(error):
                raise
            octets = b""
        if octets:
            self._came.write(octets)
        else:
            self._came.write_eof()  # whether that is an orderly end is the inner one's to say


#: A socket that speaks TLS, whatever lies beneath.
Secured: TypeAlias = "ssl.SSLSocket | InnerTls"
SECURED = (ssl.SSLSocket, InnerTls)


def wrap(
    sock: socket.socket | InnerTls, context: ssl.SSLContext, host: str, session: ssl.SSLSession | None
) -> Secured:
    """TLS that proves `host`, over a connected socket or inside the TLS that it has."""
    assert not isinstance(sock, InnerTls), "two layers are all there is"
    host = host.rstrip(".")  # RFC 6066 section 3: without the trailing dot
    if isinstance(sock, ssl.SSLSocket):
        return InnerTls(sock, context, host, session)
    # Raising on a cut is the point: an end without close_notify must not look like a proper one.
    return context.wrap_socket(
        sock,
        server_hostname=host,
        do_handshake_on_connect=False,
        suppress_ragged_eofs=False,
        session=session,
    )
