"""One TCP connection, plain or inside TLS: the only code that reads from and writes to one.

A non-blocking `socket.socket`, or the `ssl.SSLSocket` that took its place, is tried first and waited
for only when it has nothing; each wait is bounded by the idle limit. What the system or OpenSSL raises
leaves as an error of ours. Octets are read into one buffer that is used again and again.
"""

from __future__ import annotations

import errno
import os
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import trio

from protocols.contract import Line, Sink
from protocols.errors import Disconnected, TimedOut
from resolver.events import OnEvent, Received, Sent
from resolver.gate.bulk import COPY_SIZE, SPLICE_FROM, Pipe, spliceable
from resolver.gate.faults import connection_fault, tls_fault
from resolver.gate.trust import Trust

T = TypeVar("T")

#: Octets that `receive` gives at most.
RECEIVE_SIZE = 65_536

#: What a call that had not to wait costs others at least, in octets taken: they get their turn after
#: `RECEIVE_SIZE`. With a turn for each call, the few octets of a small file cost as much as 64 KiB.
_CALL = 4_096

# Hidden in what a peer says; to hide shorter ones would hide half of any answer.
_SHORTEST_SECRET = 4

# Linux: acknowledge at once while we wait. A server with Nagle's algorithm on holds the second half
# of an answer back until then: 40 ms for each article (measured with INN). The kernel forgets it.
_QUICKACK: int | None = getattr(socket, "TCP_QUICKACK", None)


@dataclass(frozen=True, slots=True)
class Terms:
    """What holds for every connection made for one URL. `url` is redacted, `host` is whom TLS has to
    prove, `idle` and `connect` are in seconds; `tell` is None where nobody listens. `check_secret` is
    asked, with the peer and whether TLS stands, before a password leaves: it raises `Refused`. `offers`
    are the protocols that the peer may choose from in the handshake (ALPN, RFC 7301)."""

    url: str
    host: str
    idle: float
    connect: float
    trust: Trust
    tell: OnEvent | None
    check_secret: Callable[[str, bool], None]
    offers: tuple[str, ...] = ()


class Stream:
    """See `protocols.contract.Stream`. Made by the gate alone, around a socket whose peer was checked.

    One task may receive while another sends. After a cancel inside `receive` nothing is lost; after
    one inside `send` or `move` only `aclose` is left.
    """

    def __init__(self, sock: socket.socket, peer: str, terms: Terms, *, first: Stream | None = None) -> None:
        self._sock = sock
        self._peer = peer
        self._terms = terms
        self._first = first
        self._secured = False
        self._close_notify_seen = False
        self._at_end = False
        self._held: OSError | None = None
        self._view = memoryview(bytearray(RECEIVE_SIZE))
        self._received = 0
        self._waits = 0
        self._secrets: list[bytes] = []
        self._unshared = 0

    @property
    def peer(self) -> str:
        return self._peer

    @property
    def secured(self) -> bool:
        return self._secured

    @property
    def agreed(self) -> str | None:
        return self._sock.selected_alpn_protocol() if isinstance(self._sock, ssl.SSLSocket) else None

    @property
    def received(self) -> int:
        return self._received

    @property
    def close_notify_seen(self) -> bool:
        return self._close_notify_seen

    @property
    def session(self) -> ssl.SSLSession | None:
        """The TLS session as it is now: with TLS 1.3 it can be resumed only once something was read."""
        return self._sock.session if isinstance(self._sock, ssl.SSLSocket) else None

    @property
    def session_reused(self) -> bool:
        """Did the peer take up the session that was offered?"""
        return isinstance(self._sock, ssl.SSLSocket) and bool(self._sock.session_reused)

    @property
    def quiet(self) -> bool:
        """Has nothing come that was not read, not even the end? Asked of a connection at rest."""
        if self._at_end or self._held is not None or self._sock.fileno() == -1:
            return False
        if isinstance(self._sock, ssl.SSLSocket) and self._sock.pending():
            return False
        try:
            socket.socket.recv(self._sock, 1, socket.MSG_PEEK)  # beneath TLS, which takes no flags
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def serve(self, terms: Terms) -> None:
        """Go on for another URL of the same place."""
        self._terms = terms

    async def send(self, *lines: Line) -> None:
        """No checkpoint when the system takes all octets at once: an answer is awaited anyway."""
        if any(line.octets != line.shown for line in lines):
            self._terms.check_secret(self._peer, self._secured)
        left = memoryview(b"".join(line.octets for line in lines))
        while left:
            count = await self._perform(partial(self._sock.send, left), self._wait_writable)
            left = left[count:]
        if self._terms.tell is not None:
            self._secrets = [each for line in lines for each in line.secrets if len(each) >= _SHORTEST_SECRET]
            self._terms.tell(Sent(self._terms.url, b"".join(line.shown for line in lines)))

    async def receive(self) -> bytes:
        count = await self._fill(self._view)
        octets = bytes(self._view[:count])
        if octets and self._terms.tell is not None:
            self._terms.tell(Received(self._terms.url, self._without_secrets(octets)))
        return octets

    def _without_secrets(self, octets: bytes) -> bytes:
        """What answers a secret may repeat it, and is told without (S17)."""
        for secret in self._secrets:
            octets = octets.replace(secret, b"****")
        return octets

    async def move(self, sink: Sink, count: int | None) -> int:
        before = self._received
        end = None if count is None else before + count
        large = count is None or count > SPLICE_FROM
        if large and not self._secured and spliceable(sink.fileno()):
            await self._splice(sink, end)
        else:
            await self._copy(sink, end)
        return self._received - before

    async def _splice(self, sink: Sink, end: int | None) -> None:
        """The kernel moves the octets; none of them becomes an object of ours."""
        with Pipe() as pipe:
            while self._received != end:
                await trio.lowlevel.checkpoint()
                most = pipe.size if end is None else min(pipe.size, end - self._received)
                pull = partial(pipe.pull, self._sock.fileno(), most)
                moved = await self._perform(pull, self._wait_readable)
                if moved == 0:
                    return
                self._received += moved
                pipe.push(sink, moved)

    async def _copy(self, sink: Sink, end: int | None) -> None:
        view = memoryview(bytearray(COPY_SIZE if end is None else min(COPY_SIZE, end - self._received)))
        while self._received != end:
            most = len(view) if end is None else min(len(view), end - self._received)
            count = await self._fill(view[:most])
            if count == 0:
                return
            sink.write(view[:count])

    async def start_tls(self) -> None:
        with trio.move_on_after(self._terms.connect) as scope:
            await self.handshake()
        if scope.cancelled_caught:
            raise TimedOut(f"no TLS with {self._terms.host} within {self._terms.connect:g} s")

    async def handshake(self) -> None:
        """`start_tls` for a caller who bounds the time."""
        assert not self._secured, "already inside TLS"
        try:
            secure = self._wrap()
        except ssl.SSLError as error:
            raise tls_fault(error, self._terms.host) from error
        except OSError as error:
            raise connection_fault(error, self._peer) from error
        self._sock = secure
        await self._perform(secure.do_handshake, self._wait_readable)
        self._secured = True

    def _wrap(self) -> ssl.SSLSocket:
        # Raising on a cut is the point: an end without close_notify must not look like a proper one.
        return self._terms.trust.context(self._terms.offers).wrap_socket(
            self._sock,
            server_hostname=self._terms.host.rstrip("."),  # RFC 6066 section 3: without the trailing dot
            do_handshake_on_connect=False,
            suppress_ragged_eofs=False,
            session=None if self._first is None else self._first.session,
        )

    async def aclose(self) -> None:
        """Inside TLS a close_notify goes out first, if it can at once. Never waits, never fails."""
        if self._sock.fileno() == -1:
            return
        trio.lowlevel.notify_closing(self._sock)
        if self._secured and isinstance(self._sock, ssl.SSLSocket):
            # The peer's own close_notify is not awaited, and a broken connection has none.
            with suppress(OSError, ValueError):
                self._sock.unwrap()
        self._sock.close()

    async def _fill(self, view: memoryview) -> int:
        """Wait for octets and read them into `view`: how many; 0 at the end, then always."""
        await trio.lowlevel.checkpoint_if_cancelled()
        waits = self._waits
        take = self._take_records if self._secured else self._take
        count = await self._perform(partial(take, view), self._wait_readable)
        self._received += count
        self._unshared = self._unshared + max(count, _CALL) if waits == self._waits else 0
        if self._unshared >= RECEIVE_SIZE:  # others get their turn also where octets never stop coming
            self._unshared = 0
            await trio.lowlevel.cancel_shielded_checkpoint()
        return count

    def _take(self, view: memoryview) -> int:
        if self._held is not None:
            raise self._held
        if self._at_end:
            return 0
        try:
            count = self._sock.recv_into(view)
        except ssl.SSLEOFError as error:
            if error.reason != "UNEXPECTED_EOF_WHILE_READING":
                # A reset: Python gives it the same class as an end, but OpenSSL had no words for it.
                self._held = ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
                raise self._held from error
            count = 0
        else:
            self._close_notify_seen = self._secured and count == 0
        self._at_end = count == 0
        return count

    def _take_records(self, view: memoryview) -> int:
        """One call gives one TLS record, at most 16 KiB: go on while there are more. An error behind
        octets is held until the next call, for the system tells of a reset only once."""
        filled = self._take(view)
        while 0 < filled < len(view) and not self._at_end:
            try:
                filled += self._take(view[filled:])
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                break
            except OSError as error:
                self._held = error
                break
        return filled

    async def _perform(self, operation: Callable[[], T], would_block: Callable[[], Awaitable[None]]) -> T:
        """Try the operation until it goes through, waiting for what it needs."""
        while True:
            try:
                return operation()
            except ssl.SSLWantReadError:
                await self._wait_readable()
            except ssl.SSLWantWriteError:
                await self._wait_writable()
            except BlockingIOError:
                await would_block()
            except ssl.SSLError as error:
                raise tls_fault(error, self._terms.host) from error
            except OSError as error:
                raise connection_fault(error, self._peer) from error

    async def _wait_readable(self) -> None:
        if _QUICKACK is not None:
            self._sock.setsockopt(socket.IPPROTO_TCP, _QUICKACK, 1)
        await self._wait(trio.lowlevel.wait_readable)

    async def _wait_writable(self) -> None:
        await self._wait(trio.lowlevel.wait_writable)

    async def _wait(self, wait: Callable[[socket.socket], Awaitable[None]]) -> None:
        self._waits += 1
        with trio.move_on_after(self._terms.idle) as scope:
            try:
                await wait(self._sock)
            except trio.ClosedResourceError as error:
                raise Disconnected("the connection was closed on this side") from error
        if scope.cancelled_caught:
            raise TimedOut(f"nothing from {self._peer} for {self._terms.idle:g} s")
