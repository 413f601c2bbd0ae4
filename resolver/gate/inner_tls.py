"""TLS inside TLS: through a proxy that is spoken to in TLS itself, to a place that is, too.

An `ssl.SSLSocket` cannot be laid over another one, so the inner one works on octets in memory, which the
outer one carries. What either waits for is raised as the system would have it, and the caller tries again.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias, TypeVar

from resolver.gate.faults import is_cut

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
