"""A TCP connection, plain or inside TLS: the only code that reads from and writes to TCP.

A non-blocking `socket.socket`, or the `ssl.SSLSocket` that replaced it, is tried first and awaited only if it
is not ready. The idle timeout limits each wait. Errors of the system or of OpenSSL are converted to
`ResolveError` classes. All connections share one receive buffer.
"""

from __future__ import annotations

import fcntl
import os
import socket
import ssl
import stat
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import TypeVar

from protocols.contract import Line, Sink, StreamCodec
from protocols.errors import Disconnected, ProtocolError, TimedOut
from protocols.step import TimerElapsed
from resolver.files.faults import check_spare
from resolver.loops import Loop, Wait
from resolver.network.clock import AnswerPace
from resolver.network.events import Closed, Received, Sent, TlsBegun
from resolver.network.mask import ReceivedMask, SentSecrets
from resolver.network.stream_settings import (
    Phase,
    StreamSettings,
    TappedConnection,
    Waiting,
    show_lines,
    tls_facts,
)
from resolver.network.tls import (
    SECURED,
    InnerTls,
    Secured,
    connection_fault,
    is_cut,
    make_lasting,
    tls_fault,
    wrap,
)

# Bulk data: the receive buffer, and splice(2) on Linux, which moves bytes from a socket to a file without
# Python objects.
#
# Splice needs a pipe between the socket and the file. The pipe is always emptied before more data is pulled,
# so no data is lost in it. If the target file does not accept splice, the data is written by write(2).

#: Maximum number of bytes in one receive call.
RECEIVE_SIZE = 65_536


class _ReceiveBuffer(threading.local):
    """The receive buffer of a thread, shared by all its connections.

    Bytes are copied out before the next await. A buffer per connection would take 64 MiB for a thousand
    connections.
    """

    def __init__(self) -> None:
        self.view = memoryview(bytearray(RECEIVE_SIZE))


ROOM = _ReceiveBuffer()

#: Bytes per read if splice is not available. With 256 KiB the overhead of the event loop is measurable.
COPY_SIZE = 1_048_576

#: Number of bytes from which splice saves more time than the creation of its pipe costs.
SPLICE_FROM = 262_144

# Maximum for an unprivileged process (/proc/sys/fs/pipe-max-size); the default is 64 KiB.
_PIPE_SIZE = 1_048_576


#: Minimum receive buffer in bytes. If the buffer has less space than a TCP segment (64 KiB on loopback), the
#: peer waits for its persist timer, 200 ms.
_LEAST_HELD = 131_072


def offer_no_more(sock: socket.socket | InnerTls, left: int) -> None:
    """Limit the receive buffer of the system to the bytes that are `left` of a range.

    FTP cannot announce the end of a range (RFC 3659 5), so the server sends useless data beyond it: up to 32
    MB if the buffer grows automatically (tcp_rmem). Linux doubles the given size (socket(7)).
    """
    if sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) > max(left, _LEAST_HELD):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, max(left, _LEAST_HELD) // 2)


def spliceable(fd: int) -> bool:
    """Return whether the file accepts splice: a regular file that is not open for appending."""
    if not hasattr(os, "splice"):
        return False
    regular = stat.S_ISREG(os.fstat(fd).st_mode)
    return regular and not fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_APPEND


class SplicePipe:
    """A pipe of `size` bytes for splice, as a context manager.

    Raises:
        OSError: no file descriptor is left.
    """

    def __init__(self) -> None:
        self._out, self._in = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            check_spare(max(self._out, self._in))
        except OSError:
            self.__exit__(None, None, None)
            raise
        try:
            self.size = fcntl.fcntl(self._in, fcntl.F_SETPIPE_SZ, _PIPE_SIZE)
        except OSError:  # The user's pipes already use too much memory; the smaller default size works too.
            self.size = fcntl.fcntl(self._in, fcntl.F_GETPIPE_SZ)

    def __enter__(self) -> SplicePipe:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._in)
        os.close(self._out)

    def pull(self, fd: int, most: int) -> int:
        """Move up to `most` bytes from a non-blocking socket; return the count, 0 at the end of the stream.

        Raises:
            BlockingIOError: no data is available.
            OSError: the connection broke.
        """
        return os.splice(fd, self._in, most, flags=os.SPLICE_F_MOVE | os.SPLICE_F_NONBLOCK)

    def push(self, sink: Sink, count: int) -> None:
        """Write the `count` pulled bytes to the sink.

        Raises:
            LocalError: the file cannot be written.
        """
        left = count
        target = sink.fileno()
        try:
            while left:
                left -= os.splice(self._out, target, left, flags=os.SPLICE_F_MOVE)
        except OSError:
            # The file system does not support splice, or the disk is full. A write shows which of the two it
            # is.
            while left:
                octets = os.read(self._out, min(left, COPY_SIZE))
                sink.write(octets)
                left -= len(octets)


T = TypeVar("T")

#: Bytes read without a wait, after which other tasks run. A checkpoint costs as much as the decryption of 16
#: KiB of TLS data; this many bytes of TLS take less than a millisecond. Each call also checks for a
#: cancellation first.
_TURN = 262_144
#: Minimum bytes counted for a call that did not wait, because a small read costs time, too.
_CALL = 16_384

#: Seconds of silence after which no greeting is expected. An overloaded server closes the connection
#: immediately. A server of another protocol waits for a request first, and closes if no request arrives
#: (nginx after 60 s).
_LONG_SILENCE = 10.0

_NOT_YET = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)  # no data yet; not an error

# Linux: acknowledge immediately during a wait. A server with Nagle's algorithm holds back the second half of
# a reply until the acknowledgment: 40 ms per article (measured with INN). The kernel resets the option, so it
# is set for each wait.
_QUICKACK: int | None = getattr(socket, "TCP_QUICKACK", None)


# Receive state of a `SocketStream`, in the order in which a read consults it:
# - `_ahead`: bytes that a reader put back; they were reported when they were received.
# - `_held`: a connection error, raised again by every later read.
# - `_at_end`: the peer has closed; every later read returns 0 bytes.
# - the socket: read first, awaited only if it has no data.
#
# `_unshared` counts the bytes since the last wait. When it reaches `_TURN`, the next read lets other tasks
# run first. `received` counts the bytes that readers have taken, so `put_back` subtracts from it.
class SocketStream:
    """A TCP connection; see `protocols.contract.Stream`. Only the gate creates it, for a checked peer.

    One task may receive while another sends. After a cancellation inside `receive` no data is lost. After a
    cancellation inside `send` or `move` only `aclose` may be called.

    Attributes:
        peer: the endpoint of the exchange: `address`, or `beyond` if there is a tunnel.
        address: the IP address that the socket is connected to.
        beyond: the host that a proxy connects to; None without a tunnel.
    """

    def __init__(
        self, sock: socket.socket, peer: str, settings: StreamSettings, *, first: SocketStream | None = None
    ) -> None:
        self._sock: socket.socket | InnerTls = sock
        self.peer = self.address = peer
        self._settings, self.loop = settings, settings.loop
        self._first = first
        self.secured = self.close_notify_seen = self._at_end = self._said = False
        self._held: OSError | None = None
        self._ahead = b""
        self._packing: StreamCodec | None = None
        self.beyond: str | None = None
        self.received = self._unshared = self._waits = self._waiting = 0
        self._since: float | None = None  # start of the first wait of the current read
        self._has_only_data = False
        self._secrets: SentSecrets = SentSecrets() if first is None else first._secrets
        self._reported = ReceivedMask(self._secrets)
        self._pace = None if settings.least is None else AnswerPace(settings.least)
        settings.mask.watch(self._secrets)

    @property
    def agreed(self) -> str | None:
        return self._sock.selected_alpn_protocol() if isinstance(self._sock, SECURED) else None

    def session_for(self, context: ssl.SSLContext) -> ssl.SSLSession | None:
        """Return the current TLS session, or None if the context is not the one of this connection.

        With TLS 1.3 a session can be resumed only after data was read. The context differs if other protocols
        are offered.
        """
        sock = self._sock
        return sock.session if isinstance(sock, SECURED) and sock.context is context else None

    @property
    def session_reused(self) -> bool:
        """Return whether the peer resumed the offered session."""
        return isinstance(self._sock, SECURED) and bool(self._sock.session_reused)

    @property
    def quiet(self) -> bool:
        """Return whether an idle connection has no unread data and no end of stream."""
        if self._ahead or self._at_end or self._held is not None or self._sock.fileno() == -1:
            return False
        if self._packing is not None and self._packing.has_more:
            return False
        sock = self._sock
        if type(sock) is not socket.socket:  # most sockets are exactly this class, and each call costs time
            if isinstance(sock, SECURED) and sock.pending():
                return False
            sock = sock.outer if isinstance(sock, InnerTls) else sock
        try:
            # below TLS, because `SSLSocket.recv` accepts no flags
            socket.socket.recv(sock, 1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def serve(self, settings: StreamSettings) -> None:
        """Use the connection for another URL of the same host and port."""
        if settings is not self._settings:
            if self._settings.report is not None:
                self._report_kept()
            self._settings = settings
            settings.mask.watch(self._secrets)

    async def send(self, *lines: Line) -> None:
        """Send the lines; no checkpoint if the system accepts all bytes immediately.

        The caller then waits for the response, and that wait is a checkpoint.
        """
        self._said = True
        octets = b""
        for line in lines:
            if line.octets != line.shown:
                self._check_secret(line)
                self._secrets.add(line.secrets)
            octets += line.octets
        left = memoryview(octets if self._packing is None else self._packing.pack(octets))
        if self._settings.bounds is not None:
            self._settings.bounds.begin("write")
        while left:
            left = left[await self._perform(partial(self._sock.send, left), self._wait_writable, "write") :]
        if self._pace is not None:
            self._pace.begin()
        if self._settings.report is not None:
            self._report_kept()
            shown = self._settings.mask.hide(b"".join(line.shown for line in lines))
            self._settings.report(Sent(self._settings.url, shown))

    def _check_secret(self, line: Line) -> None:
        """Check a secret before it is sent: for the host beyond a proxy, and for the proxy on the path."""
        for peer in dict.fromkeys((self.peer, self.address)):
            self._settings.check_secret(peer, self.secured, line.secrets)

    def lead_to(self, host: str) -> None:
        """Record an established tunnel: all further data goes to this host."""
        self.peer = self.beyond = host

    def put_back(self, octets: bytes) -> None:
        """Put received bytes back, for the next reader."""
        assert not self._ahead, "bytes can be put back only once"
        self._ahead = octets
        self.received -= len(octets)

    async def receive(self) -> bytes:
        if self._ahead:  # reported when it was received
            octets, self._ahead = self._ahead, b""
            self.received += len(octets)
            return octets
        if self._packing is not None:
            await self.loop.checkpoint()  # a few compressed bytes may expand to many
            while not (octets := self._packing.read(RECEIVE_SIZE)) and (count := await self._receive()):
                self._packing.feed(bytes(ROOM.view[:count]))
        else:
            octets = bytes(ROOM.view[: await self._receive()])
        if self._settings.report is not None:
            self._report_received(self._reported.feed(octets) if octets else self._reported.flush())
        return octets

    async def _receive(self) -> int:
        if self._settings.throttle is not None:
            await self._settings.throttle.turn()
        self._since = None
        count = await self._fill(ROOM.view)
        if not count and self._waited > _LONG_SILENCE and self._is_mute:
            raise Disconnected(
                f"{self.peer} closed the connection after {self._waited:.0f} s without data", lasting=True
            )
        if self._pace is not None:
            self._pace.hear(self._waited, count)
        return count

    @property
    def _waited(self) -> float:
        """Return the seconds that the current read has waited so far."""
        return 0.0 if self._since is None else self.loop.current_time() - self._since

    def has_only_data(self) -> None:
        """Mark a connection that carries only body data; its events carry the same mark."""
        self._has_only_data = True

    def wait_without_end(self) -> None:
        """Disable the idle timeout, because an interactive user may be silent for any time."""
        self._settings = self._settings.drop_idle_limit()

    def _report_received(self, octets: bytes) -> None:
        """Report received bytes, masked, because the response to a secret may repeat it (S17)."""
        if octets and self._settings.report is not None:
            hidden = self._settings.mask.hide(octets)
            self._settings.report(Received(self._settings.url, hidden, self._has_only_data))

    def _report_kept(self) -> None:
        """Report the bytes that the mask held back, because no continuation of a secret can follow."""
        self._report_received(self._reported.flush())

    async def move(self, sink: Sink, count: int | None) -> int:
        before, end = self.received, None if count is None else self.received + count
        large = count is None or count > SPLICE_FROM
        if large and not isinstance(self._sock, SECURED) and not self._ahead and spliceable(sink.fileno()):
            await self._splice(sink, end)
        else:
            await self._copy(sink, end)
        return self.received - before

    async def _splice(self, sink: Sink, end: int | None) -> None:
        """Move the bytes in the kernel, without Python objects."""
        try:
            opened = SplicePipe()
        except OSError:  # no file descriptor is left: copy through memory
            return await self._copy(sink, end)
        with opened as pipe:
            while self.received != end:
                if self._settings.throttle is not None:
                    await self._settings.throttle.turn()
                if end is not None and self._has_only_data:
                    offer_no_more(self._sock, end - self.received)
                await self.loop.checkpoint()
                most = self._share(pipe.size if end is None else min(pipe.size, end - self.received))
                pull = partial(pipe.pull, self._sock.fileno(), most)
                moved = await self._perform(pull, self._wait_readable)
                self._at_end = moved == 0
                if self._at_end:
                    return None
                self._take_in(moved)
                pipe.push(sink, moved)
        return None

    async def _copy(self, sink: Sink, end: int | None) -> None:
        view = memoryview(bytearray(COPY_SIZE if end is None else min(COPY_SIZE, end - self.received)))
        while self.received != end:
            if self._settings.throttle is not None:
                await self._settings.throttle.turn()
            if end is not None and self._has_only_data:
                offer_no_more(self._sock, end - self.received)
            most = len(view) if end is None else min(len(view), end - self.received)
            count = await self._fill(view[:most])
            if count == 0:
                return
            sink.write(view[:count])

    def _share(self, most: int) -> int:
        return most if self._settings.throttle is None else min(most, self._settings.throttle.share)

    def _take_in(self, count: int) -> None:
        self.received += count
        if self._settings.throttle is not None:
            self._settings.throttle.record_received(count)

    def start_packing(self, machine: StreamCodec) -> None:
        assert not self._ahead, "unread bytes remain"
        self._packing = machine

    async def start_tls(self) -> None:
        with self.loop.move_on_after(self._settings.connect) as scope:
            await self.handshake()
        if scope.cancelled_caught:
            words = f"timed out: no TLS with {self._settings.host} within {self._settings.connect:g} s"
            raise TimedOut(words).with_setting("connect_timeout")
        self._settings.tell(TlsBegun(self._settings.url, self._has_only_data))

    async def handshake(self) -> None:
        """Perform the handshake of `start_tls` for a caller that limits the time."""
        assert not self.secured, "already inside TLS"
        if self._ahead:
            raise ProtocolError("received unencrypted bytes before TLS started")
        try:
            secure = self._wrap()
        except ssl.SSLError as error:
            raise tls_fault(error, self._settings.host) from error
        except OSError as error:
            raise connection_fault(error, self.peer) from error
        self._sock = secure
        await self._perform(secure.do_handshake, self._wait_readable, "connect")
        if self._settings.check_certificate is not None:
            await self._settings.check_certificate(secure.getpeercert(True) or b"")
        self.secured = True

    def _wrap(self) -> Secured:
        context = self._settings.context
        session = None if self._first is None else self._first.session_for(context)
        return wrap(self._sock, context, self._settings.host, session)

    async def aclose(self) -> None:
        """Close the connection; never waits, never fails.

        Inside TLS a close_notify is sent first if that needs no wait.
        """
        if self._sock.fileno() == -1:
            return
        try:
            if self._settings.report is not None:
                self._report_kept()  # a listener may raise any exception
                self._settings.report(Closed(self._settings.url, self._at_end, self._has_only_data))
        finally:
            self._close()

    def _close(self) -> None:
        if self._waiting:
            self.loop.notify_closing(self._sock.fileno())
        if isinstance(self._sock, SECURED):
            # The peer's own close_notify is not awaited, and a broken connection has none.
            with suppress(OSError, ValueError):
                self._sock.unwrap()
        self._sock.close()

    async def _fill(self, view: memoryview) -> int:
        """Wait for bytes, read them into `view` and return the count; 0 at and after the end.

        Other tasks run even if data arrives without a pause. The checkpoint comes before the read, because
        the checkpoint may raise a cancellation. With asyncio, a shield does not prevent that.
        """
        if self._unshared >= _TURN:
            self._unshared = 0
            await self.loop.checkpoint()
        else:
            await self.loop.checkpoint_if_cancelled()
        if (bounds := self._settings.bounds) is not None:
            bounds.begin("read")
        waits, take = self._waits, self._take_records if isinstance(self._sock, SECURED) else self._take
        view = view if self._settings.throttle is None else view[: self._share(len(view))]
        count = await self._perform(partial(take, view), self._wait_readable)
        self._take_in(count)
        if count:
            self._settings.contact.made = True
        self._unshared = self._unshared + max(count, _CALL) if waits == self._waits else 0
        return count

    def _take(self, view: memoryview) -> int:
        if self._ahead:
            count = min(len(view), len(self._ahead))
            view[:count], self._ahead = self._ahead[:count], self._ahead[count:]
            return count
        if self._held is not None:
            raise self._held
        if self._at_end:
            return 0
        try:
            count = self._sock.recv_into(view)
        except _NOT_YET:
            raise
        except OSError as error:
            if not is_cut(error):
                self._held = make_lasting(error)
                raise self._held from error.__cause__
            count = 0
        else:
            self.close_notify_seen = self.secured and count == 0
        self._at_end = count == 0
        return count

    def _take_records(self, view: memoryview) -> int:
        """Read until no TLS record is left, because one call returns only one record of at most 16 KiB."""
        filled = self._take(view)
        while 0 < filled < len(view) and not self._at_end:
            try:
                filled += self._take(view[filled:])
            except OSError:  # no data yet, or an error that the next call raises again
                break
        return filled

    async def _perform(self, operation: Callable[[], T], would_block: Waiting, phase: Phase = "read") -> T:
        """Repeat the operation until it succeeds, waiting for the socket between attempts."""
        while True:
            try:
                return operation()
            except ssl.SSLWantReadError:
                await self._wait_readable(phase)
            except ssl.SSLWantWriteError:
                await self._wait_writable(phase)
            except BlockingIOError:
                await would_block(phase)
            except ssl.SSLError as error:
                raise tls_fault(error, self._settings.host) from error
            except OSError as error:
                raise connection_fault(error, self.peer) from error

    def _wait_readable(self, phase: Phase) -> Awaitable[None]:
        if _QUICKACK is not None:
            self._sock.setsockopt(socket.IPPROTO_TCP, _QUICKACK, 1)
        return self._wait(self.loop.readable_by, phase)

    def _wait_writable(self, phase: Phase) -> Awaitable[None]:
        return self._wait(self.loop.writable_by, phase)

    async def _wait(self, wait: Wait, phase: Phase) -> None:
        self._waits, self._waiting = self._waits + 1, self._waiting + 1
        settings, since = self._settings, self.loop.current_time()
        until = since + settings.idle
        if settings.bounds is not None:
            until = settings.bounds.compute_deadline(phase, until)
        if self._since is None and phase == "read":
            self._since = since
        try:
            in_time = await wait(self._sock, until)
        except self.loop.closed as error:
            raise Disconnected("the connection was closed locally") from error
        finally:
            self._waiting -= 1
        if not in_time:
            raise self._settings.make_timeout(phase, until, self.peer, lasting=self._is_mute)

    @property
    def _is_mute(self) -> bool:
        """Return whether this host and port never sent a byte in this run, and the client sent none here."""
        return not (self._said or self._settings.contact.made)


# A connection that is recorded for an archive: see `Tap`. This class moves no data in bulk, because the
# recorder would not see those bytes.


class TappedStream(SocketStream):
    """A recorded connection; see `SocketStream`. Each URL it serves has its own tap, or none."""

    def __init__(
        self, sock: socket.socket, peer: str, settings: StreamSettings, *, first: SocketStream | None = None
    ) -> None:
        super().__init__(sock, peer, settings, first=first)
        self._port: int = sock.getpeername()[1]
        self._report_connected(reused=False)

    def _report_connected(self, *, reused: bool) -> None:
        if self._settings.tap is not None:
            link = TappedConnection(self._settings.host, self.address, self._port, reused=reused)
            self._settings.tap.record_connected(self, link)

    def serve(self, settings: StreamSettings) -> None:
        changed = settings.tap is not self._settings.tap
        super().serve(settings)
        if changed:
            self._report_connected(reused=True)
            self._report_secured()

    def has_only_data(self) -> None:
        super().has_only_data()
        if self._settings.tap is not None:
            self._settings.tap.has_only_data(self)

    async def send(self, *lines: Line) -> None:
        await super().send(*lines)
        if self._settings.tap is not None:
            masked = any(line.octets != line.shown for line in lines)
            self._settings.tap.record_sent(self, self._settings.mask.hide(show_lines(lines)), masked=masked)

    async def receive(self) -> bytes:
        known = bool(self._ahead)  # received earlier, and put back
        octets = await super().receive()
        if octets and not known and self._settings.tap is not None:
            self._settings.tap.received(self, octets)
        return octets

    async def move(self, sink: Sink, count: int | None) -> int:
        if self._settings.tap is None:
            return await super().move(sink, count)
        before = self.received
        while count is None or self.received - before < count:
            octets = await self.receive()
            if not octets:
                break
            over = 0 if count is None else max(0, self.received - before - count)
            sink.write(octets[: len(octets) - over])
            if over:
                self.put_back(octets[-over:])
        return self.received - before

    async def handshake(self) -> None:
        await super().handshake()
        self._report_secured()

    def _report_secured(self) -> None:
        sock = self._sock
        if self._settings.tap is None or not isinstance(sock, SECURED):
            return
        if isinstance(sock, ssl.SSLSocket):
            verified = self._settings.check_certificate is None
            self._settings.tap.record_secured(self, tls_facts(sock, self._settings.host, verified=verified))

    async def aclose(self) -> None:
        if self._sock.fileno() != -1 and self._settings.tap is not None:
            self._settings.tap.closed(self, by_peer=self._at_end)
        await super().aclose()


class LoopTimer:
    """A timeout in seconds that starts at construction, on the clock of the loop."""

    def __init__(self, loop: Loop, seconds: float) -> None:
        self._loop = loop
        self._seconds = seconds
        self._deadline = loop.current_time() + seconds

    async def run(self, function: Callable[[], Awaitable[T]]) -> T:
        with self._loop.move_on_at(self._deadline):
            return await function()
        raise TimerElapsed(f"time limit of {self._seconds:g} s reached")
