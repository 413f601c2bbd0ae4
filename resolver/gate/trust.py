"""What TLS trusts: the system's authorities and those the person adds; and what it shows of ourselves. One
context for a whole run, and another one where protocols are offered or nothing of ours is shown.

One context, because a session can be offered only within the context that it came from, which FTP's
data connections need. TLS 1.2 is the floor (RFC 9325).
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Literal, TypeAlias

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
