"""A TCP connection with or without TLS: the only code that reads from and writes to TCP sockets.

Each operation first tries the non-blocking socket, and waits only if the socket is not ready. The idle
timeout limits each wait. Errors of the system and of OpenSSL are converted to `ResolveError` classes. All
connections of a thread share one receive buffer.
"""

from __future__ import annotations

import errno
import fcntl
import math
import os
import socket
import ssl
import stat
import struct
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar, cast

from protocols.contract import Line, Sink, StreamCodec
from protocols.errors import Disconnected, NetworkError, ProtocolError, TimedOut
from protocols.step import TimerElapsed
from resolver.files.faults import check_spare
from resolver.loops import Loop
from resolver.loops.loop import is_ready
from resolver.network.clock import ResponseRateCheck
from resolver.network.events import Closed, Received, Sent, TlsBegun
from resolver.network.mask import ReceivedMask, SentSecrets
from resolver.network.stream_settings import (
    Phase,
    StreamSettings,
    TappedConnection,
    show_lines,
    tls_facts,
)
from resolver.network.tls import (
    SECURED,
    InnerTls,
    connection_fault,
    is_truncation,
    make_lasting,
    tls_fault,
    wrap,
)

# Bulk transfers. On Linux, splice(2) moves bytes from a socket to a file without Python objects (zero copy).
#
# Splice needs a pipe between the socket and the file. The pipe is always emptied before more data is read
# from the socket, so no data is lost. If the file does not support splice, write(2) writes the data.

#: Maximum number of bytes in one receive call.
RECEIVE_SIZE = 131_072


class _ReceiveBuffer(threading.local):
    """The receive buffer of a thread, shared by all connections of the thread.

    Received bytes are copied out of the buffer before the next await. A separate buffer for each of a
    thousand connections would use 128 MiB.
    """

    def __init__(self) -> None:
        self.view = memoryview(bytearray(RECEIVE_SIZE))


RECEIVE_BUFFER = _ReceiveBuffer()

#: Socket options (socket(7)): whether the end of a connection, even by SIGKILL, is a reset (RST).
RESET = (socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
NO_RESET = (socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 0, 0))

#: Number of bytes per read in a bulk transfer without splice. With 256 KiB the overhead of the event loop is
#: measurable.
COPY_SIZE = 1_048_576

#: Minimum number of bytes for which a transfer uses splice. For fewer bytes, the creation of the pipe takes
#: more time than splice saves.
SPLICE_FROM = 262_144

# Pipe size in bytes: the maximum for an unprivileged process (/proc/sys/fs/pipe-max-size). The system default
# is 64 KiB.
_PIPE_SIZE = 1_048_576


#: Minimum size of the kernel's receive buffer (SO_RCVBUF) in bytes. If a TCP segment (64 KiB on loopback)
#: does not fit into the buffer, the peer waits 200 ms for its TCP persist timer.
_MIN_BUFFER_SIZE = 131_072


def limit_receive_buffer(sock: socket.socket | InnerTls, remaining: int) -> None:
    """Limit the kernel's receive buffer to the remaining bytes of a range.

    An FTP client can request the start of a range, but not its end (RFC 3659 section 5). So the server also
    sends the data after the range. Linux lets the receive buffer grow (tcp_rmem), and the buffer may receive
    up to 32 MB of this useless data. Linux doubles the requested buffer size (socket(7)).
    """
    if sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) > max(remaining, _MIN_BUFFER_SIZE):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, max(remaining, _MIN_BUFFER_SIZE) // 2)


#: `errno` codes of a system that cannot splice a socket: splice(2) without support, or a seccomp filter.
_NO_SPLICE_CODES = frozenset({errno.EINVAL, errno.ENOSYS, errno.EPERM})


def can_splice(fd: int) -> bool:
    """Return whether splice can write to the file: a regular file that is not open for appending."""
    try:
        regular = stat.S_ISREG(os.fstat(fd).st_mode)
    except OSError:  # The bytes are copied through memory, and an error of a write names the file.
        return False
    return hasattr(os, "splice") and regular and not fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_APPEND


class SplicePipe:
    """A pipe for splice, as a context manager.

    Attributes:
        size: the capacity of the pipe in bytes.

    Raises:
        OSError: no file descriptor is left.
    """

    def __init__(self) -> None:
        self._out, self._in = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            check_spare(max(self._out, self._in))
        except OSError:
            self.__exit__()
            raise
        try:
            self.size = fcntl.fcntl(self._in, fcntl.F_SETPIPE_SZ, _PIPE_SIZE)
        except OSError:  # The user's pipes exceed the memory limit, so the pipe stays at the default size.
            self.size = fcntl.fcntl(self._in, fcntl.F_GETPIPE_SZ)

    def __enter__(self) -> SplicePipe:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._in)
        os.close(self._out)

    def pull(self, fd: int, max_size: int) -> int:
        """Move up to `max_size` bytes from a non-blocking socket to the pipe and return the count.

        The count is 0 at the end of the stream.

        Raises:
            BlockingIOError: no data is available.
            OSError: the connection broke.
        """
        return os.splice(fd, self._in, max_size, flags=os.SPLICE_F_MOVE | os.SPLICE_F_NONBLOCK)

    def push(self, sink: Sink, count: int) -> None:
        """Write `count` bytes from the pipe to the sink.

        Raises:
            LocalError: the file cannot be written.
        """
        remaining = count
        target = sink.fileno()
        try:
            while remaining:
                remaining -= os.splice(self._out, target, remaining, flags=os.SPLICE_F_MOVE)
        except OSError:
            # The file system does not support splice, or the disk is full. If the disk is full, the normal
            # write raises the error.
            while remaining:
                octets = os.read(self._out, min(remaining, COPY_SIZE))
                sink.write(octets)
                remaining -= len(octets)


T = TypeVar("T")

#: The number of bytes that a connection reads without a wait, before other tasks run. A checkpoint takes as
#: much time as the decryption of 16 KiB of TLS data. The decryption of 256 KiB takes less than 1 ms. Each
#: call also checks for a cancellation first.
_MAX_UNSHARED = 262_144
#: For the limit `_MAX_UNSHARED`, each read without a wait counts as at least this number of bytes. A read of
#: 1 byte takes almost as much time as a read of 16 KiB.
_CALL = 16_384

#: The number of seconds of silence before a close which show that the server's protocol has no greeting. An
#: overloaded server closes the connection immediately. A server of another protocol waits for a request, and
#: then closes the connection (nginx after 60 s).
_LONG_SILENCE = 10.0

_NOT_READY = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)  # The socket is not ready.

# TCP_QUICKACK on Linux disables delayed acknowledgments. A server with Nagle's algorithm sends the second
# half of a reply only after the acknowledgment. The delay is 40 ms per article (measured with INN). The
# kernel resets the option, so each wait sets the option again.
_QUICKACK: int | None = getattr(socket, "TCP_QUICKACK", None)


# A read of a `SocketStream` checks these sources in order:
# - `_unread`: the bytes that a reader put back. The listener already received events for these bytes.
# - `_error`: a stored connection error, which every later read raises again.
# - `_at_end`: whether the peer has closed the connection. Every later read then returns 0 bytes.
# - The socket. The read waits only if the socket has no data.
#
# `_unshared` is the number of bytes since the last wait. When it reaches `_MAX_UNSHARED`, other tasks run
# before the next read. Other tasks also run before the first read after `send`. The response has then often
# arrived, so that 400 http requests on loopback cause 4 waits instead of 109. `received` is the number of
# bytes that readers have consumed, so `put_back` decreases `received`.
class SocketStream:
    """A TCP connection to a checked peer; see `protocols.contract.Stream`.

    One task may receive while another task sends. A cancellation of `receive` loses no data. After a
    cancellation of `send` or `move`, only `aclose` may be called.

    Attributes:
        peer: the endpoint of the protocol exchange: `tunnel_host` or `address`.
        address: the IP address that the socket is connected to.
        tunnel_host: the host at the far end of a proxy tunnel; None without a tunnel.
    """

    secured = close_notify_seen = _at_end = _has_sent = _is_data = False
    _error: OSError | None = None
    _unread = b""
    _codec: StreamCodec | None = None
    tunnel_host: str | None = None
    received = _unshared = _waits = _waiting = 0
    _quickack = _QUICKACK
    _wait_start: float | None = None  # start of the first wait of the current read
    _session: ssl.SSLSession | None = None

    def __init__(
        self, sock: socket.socket, peer: str, settings: StreamSettings, *, first: SocketStream | None = None
    ) -> None:
        self._sock: socket.socket | InnerTls = sock
        self.peer = self.address = peer
        self._settings, self.loop = settings, settings.loop
        self._first = first
        self._secrets: SentSecrets = SentSecrets() if first is None else first._secrets
        self._reported = ReceivedMask()
        self._rate_check = None if settings.min_rate is None else ResponseRateCheck(settings.min_rate)
        settings.mask.watch(self._secrets)

    @property
    def agreed(self) -> str | None:
        return self._sock.selected_alpn_protocol() if isinstance(self._sock, SECURED) else None

    def session_for(self, context: ssl.SSLContext) -> ssl.SSLSession | None:
        """Return the TLS session for resumption.

        The result is `None` if the connection uses another TLS context.

        A TLS 1.3 session can be resumed only after data was read. Connections with other ALPN protocols use
        another context. The session is read only once, because each read leaks 7 KB in Python 3.11 and before
        3.12.8 (CPython issue 116810).
        """
        sock = self._sock
        if not isinstance(sock, SECURED) or sock.context is not context:
            return None
        if self._session is None:
            self._session = sock.session
        return self._session

    def describe(self, name: str) -> object:
        """Return a property of the connection by its httpcore name, or None for an unknown name."""
        if name == "ssl_object":
            return self._sock if isinstance(self._sock, SECURED) else None
        sock = self._sock.outer if isinstance(self._sock, InnerTls) else self._sock
        if name == "server_addr":
            return sock.getpeername()
        return sock.getsockname() if name == "client_addr" else None

    @property
    def is_reusable(self) -> bool:
        """Return whether an idle connection is still open and has no unread data."""
        if self._unread or self._at_end or self._error is not None:
            return False
        if self._codec is not None and self._codec.has_more:
            return False
        if isinstance(self._sock, SECURED) and self._sock.pending():
            return False
        fd = self._sock.fileno()
        return fd != -1 and not is_ready(fd, writes=False)

    def apply_settings(self, settings: StreamSettings) -> None:
        """Apply the settings of another URL with the same host and port to this reused connection."""
        if settings is not self._settings:
            if self._settings.report is not None:
                self._report_buffered()
            self._settings = settings
            settings.mask.watch(self._secrets)

    async def send(self, *lines: Line) -> None:
        """Send the lines.

        If the system accepts all bytes immediately, the call is not a checkpoint. The later wait for the
        response is a checkpoint.
        """
        self._has_sent = True
        octets = b""
        for line in lines:
            if line.octets != line.shown:
                self._check_secret(line)
                self._secrets.add(line.secrets)
            octets += line.octets
        remaining = memoryview(octets if self._codec is None else self._codec.pack(octets))
        if self._settings.bounds is not None:
            self._settings.bounds.begin("write")
        try:
            while remaining:
                try:
                    remaining = remaining[self._sock.send(remaining) :]
                except OSError as error:
                    await self._await_ready(error, "write")
        except NetworkError as error:
            cause = error.__cause__
            # The system failed, not the peer. The request is incomplete, so the peer does not respond, and a
            # later read must not wait. A peer that reset the connection may have sent a response before.
            if isinstance(cause, OSError) and not isinstance(cause, (ssl.SSLError, ConnectionError)):
                self._error = cause
            raise
        self._unshared = _MAX_UNSHARED  # the peer prepares its response while other tasks run
        if self._rate_check is not None:
            self._rate_check.begin()
        if self._settings.report is not None:
            self._report_buffered()
            shown = self._settings.mask.hide(b"".join(line.shown for line in lines))
            self._settings.report(Sent(self._settings.url, shown))

    def _check_secret(self, line: Line) -> None:
        """Check whether the policy allows the secret for the host and for a proxy on the path."""
        for peer in dict.fromkeys((self.peer, self.address)):
            self._settings.check_secret(peer, self.secured, line.secrets)

    def put_back(self, octets: bytes) -> None:
        """Put received bytes back, for the next reader."""
        assert not self._unread, "bytes can be put back only once"
        self._unread = octets
        self.received -= len(octets)

    async def receive(self) -> bytes:
        if self._unread:  # The listener already received events for bytes that were put back.
            octets, self._unread = self._unread, b""
            self.received += len(octets)
            return octets
        octets = b""
        if (codec := self._codec) is not None:
            await self.loop.checkpoint()  # A few bytes may decompress to very many bytes (zip bomb).
            octets = codec.read(RECEIVE_SIZE)
        while not octets:
            if self._settings.throttle is not None:
                await self._settings.throttle.wait()
            self._wait_start = None
            count = await self._fill(RECEIVE_BUFFER.view)
            if not (count or self._has_sent) and self._wait_time > _LONG_SILENCE and self._is_mute:
                words = f"{self.peer} closed the connection after {self._wait_time:.0f} s without data"
                raise Disconnected(words, lasting=True)
            if self._rate_check is not None:
                self._rate_check.record_received(self._wait_time, count)
            octets = bytes(RECEIVE_BUFFER.view[:count])
            if codec is None or not count:
                break
            codec.feed(octets)
            octets = codec.read(RECEIVE_SIZE)
        if self._settings.report is not None:
            reported = self._reported
            self._report_received(reported.feed(octets, self._secrets) if octets else reported.flush())
        return octets

    @property
    def _wait_time(self) -> float:
        """Return for how many seconds the current read has waited."""
        return 0.0 if self._wait_start is None else self.loop.current_time() - self._wait_start

    def mark_data_connection(self) -> None:
        """Mark the connection as a data connection; its events have `data=True`."""
        self._is_data = True

    def end_sending(self) -> None:
        """Close the sending direction (TCP half-close); the peer can still send. Requires no TLS."""
        assert not isinstance(self._sock, SECURED), "TLS has no half-close"
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_WR)

    def set_reset(self, enabled: bool) -> None:
        """Set whether a close is a reset (RST), so that the peer detects a truncation."""
        self._sock.setsockopt(*(RESET if enabled else NO_RESET))

    def drop_idle_limit(self) -> None:
        """Disable the idle timeout, because an interactive user may pause for any time."""
        self._settings = self._settings._replace(idle=math.inf)

    def _report_received(self, octets: bytes) -> None:
        """Report received bytes in redacted form, because a server may repeat a secret (S17)."""
        if octets and self._settings.report is not None:
            masked = self._settings.mask.hide(octets)
            self._settings.report(Received(self._settings.url, masked, self._is_data))

    def _report_buffered(self) -> None:
        """Report the bytes that the mask still buffers."""
        self._report_received(self._reported.flush())

    async def move(self, sink: Sink, count: int | None) -> int:
        before, end = self.received, None if count is None else self.received + count
        large = count is None or count > SPLICE_FROM
        if large and not isinstance(self._sock, SECURED) and not self._unread and can_splice(sink.fileno()):
            await self._splice(sink, end)
        else:
            await self._copy(sink, end)
        return self.received - before

    async def _splice(self, sink: Sink, end: int | None) -> None:
        """Move the bytes from the socket to the file with splice(2)."""
        try:
            splice_pipe = SplicePipe()
        except OSError:  # No file descriptor is left for the pipe, so the bytes are copied through memory.
            return await self._copy(sink, end)
        with splice_pipe as pipe:
            while self.received != end:
                max_size = pipe.size if end is None else min(pipe.size, end - self.received)
                if self._settings.throttle is not None:
                    await self._settings.throttle.wait()
                    max_size = min(max_size, self._settings.throttle.share)
                if end is not None and self._is_data:
                    limit_receive_buffer(self._sock, end - self.received)
                await self.loop.checkpoint()
                try:
                    moved = pipe.pull(self._sock.fileno(), max_size)
                except OSError as error:
                    if error.errno in _NO_SPLICE_CODES:
                        return await self._copy(sink, end)
                    await self._await_ready(error, "read")
                    continue
                self._at_end = moved == 0
                if self._at_end:
                    return None
                self.received += moved
                if self._settings.throttle is not None:
                    self._settings.throttle.record_received(moved)
                pipe.push(sink, moved)
        return None

    async def _copy(self, sink: Sink, end: int | None) -> None:
        view = memoryview(bytearray(COPY_SIZE if end is None else min(COPY_SIZE, end - self.received)))
        while self.received != end:
            if self._settings.throttle is not None:
                await self._settings.throttle.wait()
            if end is not None and self._is_data:
                limit_receive_buffer(self._sock, end - self.received)
            max_size = len(view) if end is None else min(len(view), end - self.received)
            count = await self._fill(view[:max_size])
            if count == 0:
                return
            sink.write(view[:count])

    def start_packing(self, machine: StreamCodec) -> None:
        assert not self._unread, "unread bytes remain"
        self._codec = machine

    async def start_tls(self) -> None:
        with self.loop.move_on_after(self._settings.connect) as scope:
            await self.handshake()
        if scope.cancelled_caught:
            words = f"timed out: no TLS with {self._settings.host} within {self._settings.connect:g} s"
            raise TimedOut(words).with_setting("connect_timeout")
        if self._settings.report is not None:
            self._settings.report(TlsBegun(self._settings.url, self._is_data))

    async def handshake(self) -> None:
        """Perform the TLS handshake of `start_tls`; the caller limits the time."""
        assert not self.secured, "already inside TLS"
        if self._unread:
            raise ProtocolError("received unencrypted bytes before TLS started")
        try:
            context, check_certificate = self._settings.tls()
            session = None if self._first is None else self._first.session_for(context)
            secure = wrap(self._sock, context, self._settings.host, session)
        except ssl.SSLError as error:
            raise tls_fault(error, self._settings.host) from error
        except OSError as error:
            raise connection_fault(error, self.peer) from error
        self._sock = secure
        while True:
            try:
                secure.do_handshake()
                break
            except OSError as error:
                await self._await_ready(error, "connect")
        if check_certificate is not None:
            await check_certificate(secure.getpeercert(True) or b"")
        self.secured = True

    async def aclose(self) -> None:
        """Close the connection without waiting and without errors.

        A TLS connection first sends close_notify if that is possible without waiting.
        """
        if self._sock.fileno() == -1:
            return
        try:
            if self._settings.report is not None:
                self._report_buffered()  # The listener may raise any exception.
                self._settings.report(Closed(self._settings.url, self._at_end, self._is_data))
        finally:
            if self._waiting:
                self.loop.notify_closing(self._sock.fileno())
            if type(self._sock) is not socket.socket and isinstance(self._sock, SECURED):
                # `unwrap` fails on a broken connection, and if the peer's close_notify has not arrived
                with suppress(OSError, ValueError):
                    self._sock.unwrap()
            self._sock.close()

    async def _fill(self, view: memoryview) -> int:
        """Wait for bytes and read them into `view`.

        Return the number of bytes, which is 0 at and after the end of the stream.

        Other tasks run even if data arrives without a pause. The checkpoint precedes the read, because a
        cancellation at the checkpoint would lose the bytes. With asyncio, a shield does not prevent the
        cancellation.
        """
        if self._unshared >= _MAX_UNSHARED:
            self._unshared = 0
            await self.loop.checkpoint()
        else:
            await self.loop.checkpoint_if_cancelled()
        settings, waits = self._settings, self._waits
        if settings.bounds is not None:
            settings.bounds.begin("read")
        view = view if settings.throttle is None else view[: settings.throttle.share]
        while True:
            try:
                count = self._read_available(view)
                break
            except OSError as error:
                await self._await_ready(error, "read")
        self.received += count
        if settings.throttle is not None:
            settings.throttle.record_received(count)
        if count:
            settings.contact.has_responded = True
        self._unshared = self._unshared + (count if count > _CALL else _CALL) if waits == self._waits else 0
        return count

    def _read_available(self, view: memoryview) -> int:
        if self._unread:
            count = min(len(view), len(self._unread))
            view[:count], self._unread = self._unread[:count], self._unread[count:]
            return count
        if self._error is not None:
            raise self._error
        if self._at_end:
            return 0
        sock, filled = self._sock, 0
        try:
            if isinstance(sock, SECURED):  # One read returns one record of at most 16 KiB.
                read = cast("Callable[[int, memoryview], int]", sock.read)  # the stub of `ssl` says bytes
                while (count := read(len(view) - filled, view[filled:])) and filled + count < len(view):
                    filled += count
            else:
                count = sock.recv_into(view)
        except _NOT_READY:
            if filled:
                return filled
            raise
        except OSError as error:
            if not is_truncation(error):
                self._error = make_lasting(error)
                if filled:
                    return filled
                raise self._error from error.__cause__
            count = 0
        else:
            self.close_notify_seen = self.secured and count == 0
        self._at_end = count == 0
        return filled + count

    async def _await_ready(self, error: OSError, phase: Phase) -> None:
        """Wait until the socket is ready for the operation that raised `error`.

        Raises:
            NetworkError: the operation failed, or the socket was not ready in time.
        """
        match error:
            case ssl.SSLWantReadError():
                wait = self.loop.readable_by
            case ssl.SSLWantWriteError():
                wait = self.loop.writable_by
            case BlockingIOError():
                wait = self.loop.writable_by if phase == "write" else self.loop.readable_by
            case ssl.SSLEOFError() if self.secured:  # after the handshake
                raise connection_fault(make_lasting(error), self.peer) from error
            case ssl.SSLError():
                raise tls_fault(error, self._settings.host, self._sock) from error
            case _:
                raise connection_fault(error, self.peer) from error
        if self._quickack is not None and wait is self.loop.readable_by:
            try:
                self._sock.setsockopt(socket.IPPROTO_TCP, self._quickack, 1)
            except OSError:  # The option only makes the transfer faster.
                self._quickack = None
        self._waits, self._waiting = self._waits + 1, self._waiting + 1
        settings, start = self._settings, self.loop.current_time()
        until = start + settings.idle
        if settings.bounds is not None:
            until = settings.bounds.compute_deadline(phase, until)
        if self._wait_start is None and phase == "read":
            self._wait_start = start
        try:
            in_time = await wait(self._sock, until)
        except self.loop.closed as error:
            raise Disconnected("the connection was closed locally") from error
        except OSError as error:  # The system cannot watch one more socket.
            raise connection_fault(error, self.peer) from error
        finally:
            self._waiting -= 1
        if not in_time and until == start + settings.idle:
            # SIGSTOP (Ctrl-Z) and SIGCONT interrupt epoll_wait(2). Python then reports a timeout without
            # polling again, but data may have arrived during the stop.
            fd = self._sock.fileno()
            in_time = fd != -1 and is_ready(fd, writes=wait is self.loop.writable_by)
        if not in_time:
            raise self._settings.make_timeout(phase, until, self.peer, lasting=self._is_mute)

    @property
    def _is_mute(self) -> bool:
        """Return whether the server sent no byte on this connection, and no byte earlier in this run."""
        return not (self._has_sent or self._settings.contact.has_responded)


# A connection for which all bytes are recorded in an archive (see `Tap`). A recorded connection does not use
# splice, because the recorder would not receive the bytes.


class TappedStream(SocketStream):
    """A recorded TCP connection; each URL on the connection has its own recorder or no recorder."""

    def __init__(
        self, sock: socket.socket, peer: str, settings: StreamSettings, *, first: SocketStream | None = None
    ) -> None:
        super().__init__(sock, peer, settings, first=first)
        try:
            self._port: int = sock.getpeername()[1]
        except OSError as error:  # The peer may already have reset the connection.
            raise connection_fault(error, peer) from error
        self._report_connected(reused=False)

    def _report_connected(self, *, reused: bool) -> None:
        if self._settings.tap is not None:
            link = TappedConnection(self._settings.host, self.address, self._port, reused=reused)
            self._settings.tap.record_connected(self, link)

    def apply_settings(self, settings: StreamSettings) -> None:
        changed = settings.tap is not self._settings.tap
        super().apply_settings(settings)
        if changed:
            self._report_connected(reused=True)
            self._report_secured()

    def mark_data_connection(self) -> None:
        super().mark_data_connection()
        if self._settings.tap is not None:
            self._settings.tap.mark_data_connection(self)

    async def send(self, *lines: Line) -> None:
        await super().send(*lines)
        if self._settings.tap is not None:
            masked = any(line.octets != line.shown for line in lines)
            self._settings.tap.record_sent(self, self._settings.mask.hide(show_lines(lines)), masked=masked)

    async def receive(self) -> bytes:
        is_recorded = bool(self._unread)  # The recorder already stores the bytes that a reader put back.
        octets = await super().receive()
        if octets and not is_recorded and self._settings.tap is not None:
            self._settings.tap.record_received(self, octets)
        return octets

    async def move(self, sink: Sink, count: int | None) -> int:
        if self._settings.tap is None:
            return await super().move(sink, count)
        before = self.received
        while count is None or self.received - before < count:
            octets = await self.receive()
            if not octets:
                break
            excess = 0 if count is None else max(0, self.received - before - count)
            sink.write(octets[: len(octets) - excess])
            if excess:
                self.put_back(octets[-excess:])
        return self.received - before

    async def handshake(self) -> None:
        await super().handshake()
        self._report_secured()

    def _report_secured(self) -> None:
        sock = self._sock
        if self._settings.tap is not None and isinstance(sock, ssl.SSLSocket):
            verified = sock.context.verify_mode is not ssl.CERT_NONE  # a pinned certificate is compared
            self._settings.tap.record_secured(self, tls_facts(sock, self._settings.host, verified=verified))

    async def aclose(self) -> None:
        if self._sock.fileno() != -1 and self._settings.tap is not None:
            self._settings.tap.record_closed(self, by_peer=self._at_end)
        await super().aclose()


class LoopTimer:
    """A timer that starts at construction and uses the clock of the event loop."""

    def __init__(self, loop: Loop, seconds: float) -> None:
        self._loop = loop
        self._seconds = seconds
        self._deadline = loop.current_time() + seconds

    async def run(self, function: Callable[[], Awaitable[T]]) -> T:
        with self._loop.move_on_at(self._deadline):
            return await function()
        raise TimerElapsed(f"time limit of {self._seconds:g} s reached")
