"""What TLS trusts: the system's authorities and those the person adds; one context for a whole run, and
another one where protocols are offered.

One context, because a session can be offered only within the context that it came from, which FTP's
data connections need. TLS 1.2 is the floor (RFC 9325).
"""

from __future__ import annotations

import ssl
from collections.abc import Callable

from protocols.errors import NotConfigured


class WrappedSocket(ssl.SSLSocket):
    """One that is made of a connected socket. If the peer resets that meanwhile, as FTP servers do with a
    data connection when they refuse, making it would fail and leave the descriptor to nobody; so it is made
    all the same, and its handshake tells."""

    def getpeername(self) -> object:
        try:
            return super().getpeername()
        except OSError:
            return None


class Trust:
    """Gives the context for what is offered (ALPN), made on first use: loading the authorities takes
    some 20 ms.

    `cafile` holds further authorities, `certfile` a certificate and key of our own (both PEM).
    """

    def __init__(self, cafile: str | None = None, certfile: str | None = None) -> None:
        self._cafile = cafile
        self._certfile = certfile
        self._contexts: dict[tuple[str, ...], ssl.SSLContext] = {}

    def context(self, offers: tuple[str, ...] = ()) -> ssl.SSLContext:
        """Raises `NotConfigured` when a file given cannot be used."""
        if offers not in self._contexts:
            self._contexts[offers] = self._load()
            if offers:
                self._contexts[offers].set_alpn_protocols(offers)
        return self._contexts[offers]

    def _load(self) -> ssl.SSLContext:
        context = ssl.create_default_context()
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.sslsocket_class = WrappedSocket
        # Python asks OpenSSL to take a cut connection for a proper end; we want to know the difference.
        context.options &= ~getattr(ssl, "OP_IGNORE_UNEXPECTED_EOF", 0)
        if self._cafile is not None:
            _load_file("--cacert", self._cafile, lambda path: context.load_verify_locations(cafile=path))
        if self._certfile is not None:
            _load_file("--cert", self._certfile, lambda path: context.load_cert_chain(path, password=""))
        return context


def _load_file(option: str, path: str, load: Callable[[str], None]) -> None:
    try:
        load(path)
    except (OSError, ssl.SSLError) as error:
        raise NotConfigured(f"{option} {path!r} cannot be used: {error.strerror or error}") from error
