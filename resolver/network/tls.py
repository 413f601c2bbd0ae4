"""TLS contexts: certificate authorities, certificate pins, the client certificate, and TLS errors.

Connections with the same settings share one TLS context, because a TLS session can be resumed only within one
context. FTP data connections must resume the session of the control connection. Each combination of ALPN
protocols and client certificate has a separate context. The certificate authorities of the system and of the
user are trusted. TLS 1.2 is the minimum version (RFC 9325).
"""

from __future__ import annotations

import errno
import os
import socket
import ssl
from _ssl import ENCODING_DER
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from hashlib import sha256
from typing import TypeAlias, TypeVar, cast

from protocols.authority import comparable_host
from protocols.errors import Disconnected, NetworkError, NotConfigured, TimedOut, TlsError
from resolver.files.atomic import MISSING, open_own, update_own
from resolver.files.faults import reason
from resolver.loops import running
from resolver.policy.environment import config_folder
from resolver.policy.settings import normal_pin


class WrappedSocket(ssl.SSLSocket):
    """A TLS socket whose constructor does not fail after a connection reset.

    An FTP server that refuses a transfer resets the data connection. The constructor of `ssl.SSLSocket` would
    then fail and leak the file descriptor. With `WrappedSocket`, the TLS handshake fails, and not the
    constructor.
    """

    def getpeername(self) -> object:
        try:
            return super().getpeername()
        except OSError:
            return None


def digest_certificate(certificate: bytes) -> str:
    """Return the digest of a DER certificate, in the form of certificate pins."""
    return f"sha256:{sha256(certificate).hexdigest()}"


def unverified_digest(connection: ssl.SSLSocket | ssl.SSLObject) -> str | None:
    """Return the digest of the server's certificate after a failed verification.

    The result is `None` with OpenSSL before 3.0, which discards a certificate that it cannot verify.
    """
    # `ssl` has a public method only since Python 3.13. The server's own certificate is the first one.
    layer = getattr(connection, "_sslobj", None)
    certificates = None if layer is None else layer.get_unverified_chain()
    return digest_certificate(certificates[0].public_bytes(ENCODING_DER)) if certificates else None


#: A scheme, host and port.
Place: TypeAlias = "tuple[str, str, int]"


class Trust:
    """The TLS contexts of a run.

    A context is created on first use, because loading the certificate authorities takes about 20 ms.

    Args:
        cafile: a file with additional certificate authorities.
        certfile: the file with the user's client certificate and key (PEM), or the names of two files
            separated by a comma. The client certificate is sent only to hosts in the user's own URLs (S11).
        password: the password of the key.
        pin: the digest of the certificate that hosts in the user's own URLs must send. All other certificates
            are rejected.
    """

    def __init__(
        self,
        cafile: str | None = None,
        certfile: str | None = None,
        password: bytes | None = None,
        pin: str | None = None,
    ) -> None:
        self._cafile = cafile
        self._certfile = certfile
        self._password = password
        self._pin = None if pin is None else normal_pin(pin)
        #: Whether a client certificate or a pin exists. Both apply only to hosts in the user's own URLs.
        self.has_personal = certfile is not None or pin is not None
        self._contexts: dict[tuple[tuple[str, ...], str | None, bool], ssl.SSLContext] = {}
        self._hosts: set[Place] = set()

    def check(self) -> None:
        """Load the user's client certificate before any byte is sent.

        Raises:
            NotConfigured: the certificate or the key cannot be used.
        """
        if self._certfile is not None:
            self.context()

    def record_host(self, place: Place) -> None:
        """Record that the user's own URL names this host.

        The client certificate may be sent to the host, and the pin applies to the host.
        """
        self._hosts.add(place)

    def may_send_certificate(self, place: Place) -> bool:
        """Return whether the user has a client certificate that may be sent to the host."""
        return self._certfile is not None and place in self._hosts

    def find_pin(self, place: Place) -> str | None:
        """Return the digest of the certificate that the user requires of the host, or None."""
        return self._pin if place in self._hosts else None

    def context(
        self,
        offers: tuple[str, ...] = (),
        *,
        with_certfile: bool = True,
        certfile: str | None = None,
        pinned: bool = False,
    ) -> ssl.SSLContext:
        """Return a TLS context.

        A context with the same arguments is reused.

        Args:
            offers: the protocols to offer (ALPN).
            with_certfile: whether the context sends the user's client certificate.
            certfile: another client certificate, for one host.
            pinned: whether the context accepts any server certificate. The caller must compare the
                certificate with its pin (`Pins`) before data is sent.

        Raises:
            NotConfigured: a file cannot be used.
        """
        key = (offers, certfile or (self._certfile if with_certfile else None), pinned)
        if key not in self._contexts:
            self._contexts[key] = self._load(*key)
        return self._contexts[key]

    def _load(self, offers: tuple[str, ...], certfile: str | None, pinned: bool) -> ssl.SSLContext:
        try:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if pinned else ssl.create_default_context()
        except OSError as error:  # Python opens the file for the keys of TLS connections.
            words = f"SSLKEYLOGFILE {error.filename!r} cannot be written: {error.strerror}"
            raise NotConfigured(words) from error
        if pinned:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.sslsocket_class = WrappedSocket
        # By default, Python sets an OpenSSL option that accepts an end of stream without close_notify. This
        # module clears the option, so that a truncation attack causes an error.
        context.options &= ~getattr(ssl, "OP_IGNORE_UNEXPECTED_EOF", 0)
        if self._cafile is not None and not pinned:
            _load_file("--cacert", self._cafile, lambda path: context.load_verify_locations(cafile=path))
        if certfile is not None:
            option, password = "the certificate", None
            if certfile == self._certfile:
                option, password = "--cert", self._password
            _load_file(option, certfile, lambda path: _load_certificate(context, path, option, password))
            # A server may request the client certificate after the handshake, for one directory.
            context.post_handshake_auth = True
        if offers:
            context.set_alpn_protocols(offers)
        return context


def is_locked(certfile: str) -> bool:
    """Return whether the private key needs a password."""
    return not _load_chain(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), certfile, None)


def _load_certificate(context: ssl.SSLContext, path: str, option: str, password: bytes | None) -> None:
    if not _load_chain(context, path, password):
        problem = "needs a password" if password is None else "has a different password"
        raise NotConfigured(f"{option} {path!r} cannot be used: its key {problem}")


def _load_chain(context: ssl.SSLContext, path: str, password: bytes | None) -> bool:
    """Load the client certificate; return False if the password of the key is wrong or missing.

    The password is passed as a callback, because without a callback OpenSSL prompts on the terminal.
    """
    has_prompted = False

    def answer() -> bytes:
        nonlocal has_prompted
        has_prompted = True
        return password or b""

    certificate, _, key = path.partition(",")
    try:
        context.load_cert_chain(certificate, key or None, password=answer)
    except ssl.SSLError:
        if not has_prompted:
            raise
        return False
    return True


def _load_file(option: str, path: str, load: Callable[[str], None]) -> None:
    try:
        load(path)
    except (OSError, ssl.SSLError) as error:
        raise NotConfigured(f"{option} {path!r} cannot be used: {error.strerror or error}") from error


# Certificate pinning (trust on first use, TOFU). Pinning is for servers whose certificate was not signed by a
# certificate authority.
#
# Pinning applies to the schemes with `certificates="pin"` in their definition. The first certificate of each
# host and port is stored as a line of a pin file. The pin file is in the directory of the configuration file.
# If a server later sends another certificate, the connection fails before data is sent. To accept the new
# certificate, the user removes the line. Certificates are only compared, never parsed.

_SUBJECT = "list of known certificates"
_NAME = "known-certificates"
_MAX_SIZE = 1_048_576  # maximum size of the pin file in bytes, enough for about ten thousand hosts


class Pins:
    """The certificate pins of one run.

    After a successful comparison, the pin is cached in memory. For all other hosts, the pin file is read.
    """

    def __init__(self) -> None:
        self._accepted: dict[str, str] = {}

    async def check(self, host: str, port: int, certificate: bytes) -> None:
        """Compare the server certificate with the pin of the host and port.

        The first certificate of a host and port is stored as the pin.

        Raises:
            TlsError: the certificate differs from the pin, or the server sent no certificate.
            LocalError: the pin cannot be stored.
        """
        place, shown = f"{comparable_host(host)} {port}", _shown_digest(host, certificate)
        if self._accepted.get(place) == shown:
            return
        path = _path()
        expected = await running().in_thread(_find_pin, path, place, shown)
        if expected != shown:
            raise TlsError(
                f"{host} port {port} shows another certificate: got {shown}, expected {expected} as at first"
                f" contact; nothing was sent (if its operator confirms a renewal, remove the line {place!r}"
                f" from {path})"
            )
        self._accepted[place] = shown


async def check_pin(host: str, pin: str, certificate: bytes) -> None:
    """Compare a server's certificate with the pin that the user set.

    Raises:
        TlsError: the certificate differs from the pin, or the server sent no certificate.
    """
    shown = _shown_digest(host, certificate)
    if shown != normal_pin(pin):
        words = f"the certificate of {host} is not the pinned one: expected {normal_pin(pin)}, got {shown}"
        raise TlsError(words)


def _shown_digest(host: str, certificate: bytes) -> str:
    if not certificate:
        raise TlsError(f"{host} sent no certificate")
    return digest_certificate(certificate)


def _path() -> str:
    folder = config_folder()
    if folder is None:
        raise NotConfigured(f"no directory for the {_SUBJECT}: set XDG_CONFIG_HOME or HOME")
    return os.path.join(folder, _NAME)


def _find_pin(path: str, place: str, shown: str) -> str:
    """Return the pin of the host and port. A missing pin is added with the value `shown`."""
    pins = _read_pins(path)
    if place not in pins:
        update_own(path, _SUBJECT, _MAX_SIZE, partial(_add_pin, path, place, shown), make_folder=True)
        pins = _read_pins(path)  # Another process may have added a pin concurrently.
    return pins.get(place, shown)


def _read_pins(path: str) -> dict[str, str]:
    try:
        with open_own(path, _SUBJECT, _MAX_SIZE, secret=True) as file:
            return _parse(path, file.octets)
    except MISSING:
        return {}


def _add_pin(path: str, place: str, shown: str, octets: bytes) -> bytes:
    """Return the content of the pin file. A missing pin of the host and port is appended first."""
    if place in _parse(path, octets):
        return octets
    end = b"" if octets.endswith(b"\n") or not octets else b"\n"
    content = b"%b%b%b\n" % (octets, end, f"{place} {shown}".encode())
    if len(content) > _MAX_SIZE:
        raise NotConfigured(f"{path} is too large to add {place}: remove unneeded lines")
    return content


def _parse(path: str, octets: bytes) -> dict[str, str]:
    pins: dict[str, str] = {}
    for number, line in enumerate(octets.decode("utf-8", "replace").split("\n"), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) != 3 or not words[1].isdecimal():
            raise NotConfigured(f"{path}, line {number}: expected HOST PORT sha256:DIGEST")
        pins[f"{comparable_host(words[0])} {int(words[1])}"] = words[2].lower()
    return pins


# Conversion of system and OpenSSL errors to `ResolveError` classes. `connection_fault` converts the errors of
# an established connection, and `tls_fault` converts the errors of a TLS handshake. The caller raises the
# result `from` the original error.

#: OpenSSL error codes for an unknown certificate authority (X509_V_ERR_…).
_UNKNOWN_AUTHORITY = frozenset({18, 19, 20, 21})


def connection_fault(error: OSError, peer: str) -> NetworkError:
    """Return the error for a broken connection: `TimedOut` if the peer no longer acknowledges data."""
    if error.errno == errno.ETIMEDOUT:
        return TimedOut(f"timed out: {peer} no longer acknowledges data")
    return Disconnected(f"the connection to {peer} broke: {reason(error)}")


def tls_fault(
    error: ssl.SSLError, host: str, connection: socket.socket | InnerTls | None = None
) -> NetworkError:
    """Return the error for a failed TLS handshake: `Disconnected` if the peer closed the connection."""
    if isinstance(error, ssl.SSLCertVerificationError):
        message = f"the certificate of {host} is not trusted: {error.verify_message}"
        layer = connection.layer if isinstance(connection, InnerTls) else connection
        digest = unverified_digest(layer) if isinstance(layer, (ssl.SSLSocket, ssl.SSLObject)) else None
        fault = TlsError(message, certificate=digest)
        return fault.with_setting("cacert FILE") if error.verify_code in _UNKNOWN_AUTHORITY else fault
    if isinstance(error, (ssl.SSLEOFError, ssl.SSLZeroReturnError)) or is_truncation(error):
        return Disconnected(f"{host} closed the connection during the TLS handshake")
    words: str = getattr(error, "reason", None) or str(error)
    if "CERTIFICATE_REQUIRED" in words:
        return TlsError(f"{host} requires a client certificate").with_setting("cert FILE")
    return TlsError(f"TLS with {host} failed: {words.replace('_', ' ').lower()}")


def is_truncation(error: OSError) -> bool:
    """Return whether the TLS stream ended without close_notify.

    The function compares the reason text, because Python before 3.11.4 has no separate class for this error.
    """
    return getattr(error, "reason", None) == "UNEXPECTED_EOF_WHILE_READING"


def make_lasting(error: OSError) -> OSError:
    """Return the error that later reads of the connection raise.

    The system reports a connection reset only once, and a later read would return the end of the stream. The
    caller therefore stores the returned error. Inside TLS, older Python versions report a connection reset as
    `SSLEOFError`, which is converted to `ConnectionResetError`.
    """
    if not isinstance(error, ssl.SSLEOFError):
        return error
    reset = ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
    reset.__cause__ = error
    return reset


# TLS inside TLS: the client uses TLS to the proxy, and a second TLS layer to the server.
#
# An `ssl.SSLSocket` cannot wrap another `SSLSocket`. Therefore the inner TLS layer reads and writes bytes in
# memory (`ssl.MemoryBIO`). The outer TLS layer sends and receives these bytes. A layer that must wait raises
# the same exceptions as a socket, and the caller retries the call.

T = TypeVar("T")

#: Number of bytes per read from the outer TLS layer: more than one TLS record.
_READ_SIZE = 32_768
#: Maximum number of bytes that one call of `send` encrypts. Encrypted data stays in memory until the outer
#: layer sends the data.
_MAX_PLAINTEXT = 65_536


class InnerTls:
    """An inner TLS layer over the TLS socket `outer`, with the `ssl.SSLSocket` methods that a stream needs.

    One task may receive while another task sends.
    """

    def __init__(
        self, outer: ssl.SSLSocket, context: ssl.SSLContext, host: str, session: ssl.SSLSession | None
    ) -> None:
        self.outer = outer
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.layer = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host, session=session)
        self._unsent = b""
        self._encrypted = 0
        self.fileno = outer.fileno
        self.setsockopt = outer.setsockopt
        self.getsockopt = outer.getsockopt
        self.getpeercert = self.layer.getpeercert
        self.selected_alpn_protocol = self.layer.selected_alpn_protocol

    @property
    def context(self) -> ssl.SSLContext:
        return self.layer.context

    @property
    def session(self) -> ssl.SSLSession | None:
        return self.layer.session

    def do_handshake(self) -> None:
        self._flush()
        try:
            self._perform(self.layer.do_handshake)
        finally:
            self._flush()

    def send(self, octets: memoryview) -> int:
        """Send bytes and return the number of sent bytes.

        Unsent TLS records are sent before more bytes are encrypted. If the call must wait, the call raises an
        exception, and the caller retries with the same bytes.
        """
        if not self._encrypted:
            self._encrypted = self._perform(lambda: self.layer.write(octets[:_MAX_PLAINTEXT]))
        self._flush()
        count, self._encrypted = self._encrypted, 0
        return count

    def read(self, size: int, view: memoryview) -> int:
        """Read at most `size` bytes into `view` and return the count.

        The call may also have to send TLS protocol messages. The messages are sent only if the socket accepts
        them without a wait, because another task may already wait until the socket is writable.
        """
        return cast(int, self._perform(lambda: self.layer.read(size, view)))  # the stub says bytes

    def pending(self) -> int:
        """Return the number of received, unread bytes of both layers."""
        return self.layer.pending() + self._incoming.pending + self.outer.pending()

    def unwrap(self) -> None:
        """Send the close_notify of both layers."""
        with suppress(ssl.SSLError):
            self.layer.unwrap()
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
            self._receive()

    def _flush(self) -> None:
        self._unsent += self._outgoing.read()
        while self._unsent:
            self._unsent = self._unsent[self.outer.send(self._unsent) :]

    def _receive(self) -> None:
        try:
            octets = self.outer.recv(_READ_SIZE)
        except ssl.SSLError as error:
            if not is_truncation(error):
                raise
            octets = b""
        if octets:
            self._incoming.write(octets)
        else:
            self._incoming.write_eof()  # The inner TLS layer checks whether a close_notify arrived.


#: A TLS socket over a TCP socket or over another TLS layer.
Secured: TypeAlias = "ssl.SSLSocket | InnerTls"
SECURED = (ssl.SSLSocket, InnerTls)


def wrap(
    sock: socket.socket | InnerTls, context: ssl.SSLContext, host: str, session: ssl.SSLSession | None
) -> Secured:
    """Return a TLS layer that verifies `host`, over a TCP socket or another TLS layer."""
    assert not isinstance(sock, InnerTls), "at most two TLS layers are supported"
    host = host.rstrip(".")  # Server Name Indication has no trailing dot (RFC 6066 section 3).
    if isinstance(sock, ssl.SSLSocket):
        return InnerTls(sock, context, host, session)
    # An end of stream without close_notify raises an error, because the data may be truncated.
    return context.wrap_socket(
        sock,
        server_hostname=host,
        do_handshake_on_connect=False,
        suppress_ragged_eofs=False,
        session=session,
    )
