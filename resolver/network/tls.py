"""TLS contexts: trusted authorities, pinned certificates, the user's own certificate, and TLS errors.

A run has one context, because a session can be offered only within its own context, and FTP's data
connections need the session of the control connection. Another context is created if protocols are offered
(ALPN) or the user's certificate is not sent. The authorities of the system and of the user are trusted. TLS
1.2 is the minimum (RFC 9325).
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
    """A TLS socket that can be created even if the peer has already reset the connection.

    FTP servers reset a data connection when they refuse a transfer. The standard constructor would fail and
    leak the file descriptor. With this class, the handshake fails instead.
    """

    def getpeername(self) -> object:
        try:
            return super().getpeername()
        except OSError:
            return None


#: A scheme, host and port.
Place: TypeAlias = "tuple[str, str, int]"


class Trust:
    """The TLS contexts of a run, created on first use, because loading the authorities takes about 20 ms.

    `cafile` holds further authorities. `certfile` holds the user's certificate and key (PEM), or the names of
    two such files separated by a comma. The certificate is sent only to the hosts that the user named (S11).
    A context with another certificate, for one host alone, can be requested.
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
        """Raise `NotConfigured` if the user's certificate cannot be used, before any byte is sent."""
        if self.has_own:
            self.context()

    def name(self, place: Place) -> None:
        """Record that the user named this host: the certificate may be shown there."""
        self._named.add(place)

    def shows(self, place: Place) -> bool:
        """Return whether the user's certificate may be shown to this host."""
        return place in self._named

    def context(
        self,
        offers: tuple[str, ...] = (),
        *,
        ours: bool = True,
        certfile: str | None = None,
        pinned: bool = False,
    ) -> ssl.SSLContext:
        """Return a context with the user's certificate, with `certfile`, or without a certificate.

        Args:
            offers: the protocols to offer (ALPN).
            ours: whether the user's certificate is shown.
            certfile: another certificate for one host.
            pinned: whether any server certificate is accepted; the caller compares it (`Pins`) before data is
                sent.

        Raises:
            NotConfigured: a file cannot be used.
        """
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
        # Python makes OpenSSL treat a truncated connection as a proper end. Here a truncated body must be an
        # error.
        context.options &= ~getattr(ssl, "OP_IGNORE_UNEXPECTED_EOF", 0)
        if self._cafile is not None and not pinned:
            _load_file("--cacert", self._cafile, lambda path: context.load_verify_locations(cafile=path))
        if certfile is not None:
            option, password = "the certificate", None
            if certfile == self._certfile:
                option, password = "--cert", self._password
            _load_file(option, certfile, lambda path: _load_own(context, path, option, password))
            # a server may request the certificate later, for one of its directories
            context.post_handshake_auth = True
        if offers:
            context.set_alpn_protocols(offers)
        return context


def is_locked(certfile: str) -> bool:
    """Return whether the key needs a password. An unusable file is reported when it is used."""
    return _loading_asks(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), certfile, None) == "in vain"


def _load_own(context: ssl.SSLContext, path: str, option: str, password: bytes | None) -> None:
    if _loading_asks(context, path, password) == "in vain":
        what = "needs a password" if password is None else "has a different password"
        raise NotConfigured(f"{option} {path!r} cannot be used: its key {what}")


def _loading_asks(
    context: ssl.SSLContext, path: str, password: bytes | None
) -> Literal["no", "yes", "in vain"]:
    """Load the certificate; return whether a password was requested, "in vain" if the password was wrong.

    Without the callback, OpenSSL would prompt on the terminal.
    """
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


# Certificate pins (trust on first use): servers without an authority, identified by the first certificate of
# each server.
#
# The scheme definition of such servers has `certificates="pin"`. The certificate of a host and port is stored
# in a file of the user, one line each, next to the configuration. A server with another certificate is
# untrusted, and receives no data, until the user removes the line. A certificate is only compared; its
# content is not parsed.

_WHAT = "list of known certificates"
_NAME = "known-certificates"
_MOST = 1_048_576  # in bytes: some ten thousand hosts


class Pins:
    """The pins of one run. A verified pin is cached; for all other hosts the file is read."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    async def check(self, host: str, port: int, certificate: bytes) -> None:
        """Compare the certificate with the stored one of this host and port; store a first one.

        Raises:
            TlsError: the certificate differs, or there is none.
            LocalError: the pin cannot be stored.
        """
        if not certificate:
            raise TlsError(f"{host} sent no certificate")
        place, shown = f"{comparable_host(host)} {port}", f"sha256:{sha256(certificate).hexdigest()}"
        if self._known.get(place) == shown:
            return
        path = _path()
        known = await running().in_thread(_find_pin, path, place, shown)
        if known != shown:
            raise TlsError(
                f"{host} port {port} shows another certificate: got {shown}, expected {known} as at first"
                f" contact; nothing was sent (if its operator confirms a renewal, remove the line {place!r}"
                f" from {path})"
            )
        self._known[place] = shown


def _path() -> str:
    folder = own_folder()
    if folder is None:
        raise NotConfigured(f"no directory for the {_WHAT}: set XDG_CONFIG_HOME or HOME")
    return os.path.join(folder, _NAME)


def _find_pin(path: str, place: str, shown: str) -> str:
    """Return the pin in the file, after adding `shown` if the file had none."""
    known = _read_pins(path)
    if place not in known:
        update_own(path, _WHAT, _MOST, partial(_add_pin, path, place, shown), make_folder=True)
        known = _read_pins(path)  # another process may have added it meanwhile
    return known.get(place, shown)


def _read_pins(path: str) -> dict[str, str]:
    try:
        with open_own(path, _WHAT, _MOST, secret=True) as file:
            return _read(path, file.octets)
    except MISSING:
        return {}


def _add_pin(path: str, place: str, shown: str, octets: bytes) -> bytes:
    """Return the file content with a line added, unless it has a line for this host and port."""
    if place in _read(path, octets):
        return octets
    end = b"" if octets.endswith(b"\n") or not octets else b"\n"
    written = b"%b%b%b\n" % (octets, end, f"{place} {shown}".encode())
    if len(written) > _MOST:
        raise NotConfigured(f"{path} is too large to add {place}: remove unneeded lines")
    return written


def _read(path: str, octets: bytes) -> dict[str, str]:
    known: dict[str, str] = {}
    for number, line in enumerate(octets.decode("utf-8", "replace").split("\n"), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) != 3 or not words[1].isdecimal():
            raise NotConfigured(f"{path}, line {number}: expected HOST PORT sha256:DIGEST")
        known[f"{comparable_host(words[0])} {int(words[1])}"] = words[2].lower()
    return known


# Errors of the system or the TLS library as `ResolveError` classes; no other module of the gate converts
# them.
#
# The caller raises the result `from` the original: `connection_fault` for an established connection,
# `tls_fault` for TLS.

#: OpenSSL codes for a certificate of an unknown authority (X509_V_ERR_…).
_UNKNOWN_AUTHORITY = frozenset({18, 19, 20, 21})


def connection_fault(error: OSError, peer: str) -> NetworkError:
    """Return the error for a broken connection. If the peer acknowledges no data, the error is a timeout."""
    if error.errno == errno.ETIMEDOUT:
        return TimedOut(f"timed out: {peer} no longer acknowledges data")
    return Disconnected(f"the connection to {peer} broke: {reason(error)}")


def tls_fault(error: ssl.SSLError, host: str) -> NetworkError:
    """Return the error for a failed handshake; `Disconnected` if the peer closes during the handshake."""
    if isinstance(error, ssl.SSLCertVerificationError):
        fault = TlsError(f"the certificate of {host} is not trusted: {error.verify_message}")
        return fault.with_setting("cacert FILE") if error.verify_code in _UNKNOWN_AUTHORITY else fault
    if isinstance(error, (ssl.SSLEOFError, ssl.SSLZeroReturnError)) or is_cut(error):
        return Disconnected(f"{host} closed the connection during the TLS handshake")
    words: str = getattr(error, "reason", None) or str(error)
    if "CERTIFICATE_REQUIRED" in words:
        return TlsError(f"{host} requires a client certificate").with_setting("cert FILE")
    return TlsError(f"TLS with {host} failed: {words.replace('_', ' ').lower()}")


def is_cut(error: OSError) -> bool:
    """Return whether the stream ended without close_notify.

    The error has its own class only from Python 3.11.4 on.
    """
    return getattr(error, "reason", None) == "UNEXPECTED_EOF_WHILE_READING"


def make_lasting(error: OSError) -> OSError:
    """Return the error for all later reads.

    The system reports a reset once, and an end of stream from then on. Inside TLS, older Python versions
    report a reset with the exception class of an end, but OpenSSL has no reason text for it.
    """
    if not isinstance(error, ssl.SSLEOFError):
        return error
    reset = ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
    reset.__cause__ = error
    return reset


# TLS inside TLS: through a proxy that is reached over TLS, to a server that uses TLS, too.
#
# An `ssl.SSLSocket` cannot wrap another `SSLSocket`. So the inner layer works on bytes in memory, which the
# outer layer transports. If either layer must wait, it raises the same exceptions as a socket, and the caller
# tries again.

T = TypeVar("T")

#: Bytes read from the outer connection in one call: more than one TLS record.
_TAKEN = 32_768
#: Bytes of one `send` that are encrypted in one call, because encrypted data is held in memory until it is
#: sent.
_MADE = 65_536


class InnerTls:
    """The part of `ssl.SSLSocket` that a `Stream` needs, over `outer`.

    One task may receive while another sends.
    """

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
        """Send bytes; encrypted records are sent before more are created.

        After a call that raised because it must wait, the caller repeats the call with the same bytes.
        """
        if not self._said:
            self._said = self._perform(lambda: self._tls.write(octets[:_MADE]))
        self._flush()
        said, self._said = self._said, 0
        return said

    def recv_into(self, view: memoryview) -> int:
        """Read bytes. TLS's own output is sent only if the socket accepts it without waiting.

        The sending task may already be waiting until the socket is writable.
        """
        octets = self._perform(lambda: self._tls.read(len(view)))
        view[: len(octets)] = octets
        return len(octets)

    def pending(self) -> int:
        """Return the number of received, unread bytes of both layers."""
        return self._tls.pending() + self._came.pending + self.outer.pending()

    def unwrap(self) -> None:
        """Send the close_notify of both layers."""
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
            self._came.write_eof()  # the inner layer decides whether that is a proper end


#: A TLS socket over a socket or over another TLS layer.
Secured: TypeAlias = "ssl.SSLSocket | InnerTls"
SECURED = (ssl.SSLSocket, InnerTls)


def wrap(
    sock: socket.socket | InnerTls, context: ssl.SSLContext, host: str, session: ssl.SSLSession | None
) -> Secured:
    """Return a TLS layer that verifies `host`, over a connected socket or inside its TLS."""
    assert not isinstance(sock, InnerTls), "at most two TLS layers are supported"
    host = host.rstrip(".")  # RFC 6066 section 3: without the trailing dot
    if isinstance(sock, ssl.SSLSocket):
        return InnerTls(sock, context, host, session)
    # An end without close_notify must raise, because it must not look like a proper end.
    return context.wrap_socket(
        sock,
        server_hostname=host,
        do_handshake_on_connect=False,
        suppress_ragged_eofs=False,
        session=session,
    )
