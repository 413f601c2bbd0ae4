"""Octets in bulk: where they are received; and from a socket to a file without passing through Python, by
splice(2) and a pipe (Linux).

A pipe is the only thing splice can put between the two. It is always emptied before more is pulled, so
nothing is ever lost in it, and what the target file cannot take by splice is written in the usual way.
"""

from __future__ import annotations

import fcntl
import os
import socket
import stat
import threading
from types import TracebackType
from typing import TYPE_CHECKING

from protocols.contract import Sink
from resolver.disk.descriptors import check_spare

if TYPE_CHECKING:
    from resolver.gate.inner_tls import InnerTls

#: Octets that are received in one go at most.
RECEIVE_SIZE = 65_536


class _ReceiveBuffer(threading.local):
    """Where a thread receives octets, whatever connection they come on: they are copied out of it before
    anything is waited for. With one for each connection a thousand of them would have 64 MiB."""

    def __init__(self) -> None:
        self.view = memoryview(bytearray(RECEIVE_SIZE))


ROOM = _ReceiveBuffer()

#: Octets copied in one go where splice cannot be used. With 256 KiB the loop's own work shows.
COPY_SIZE = 1_048_576

#: From so many octets on splice pays for its pipe.
SPLICE_FROM = 262_144

# What a process without privileges may ask for (/proc/sys/fs/pipe-max-size); the default is 64 KiB.
_PIPE_SIZE = 1_048_576


#: Octets that a socket holds in any case: with less room than a segment (64 KiB on loopback) the peer waits
#: for its persist timer, 200 ms.
_LEAST_HELD = 131_072


def offer_no_more(sock: socket.socket | InnerTls, left: int) -> None:
    """Let the system hold no more for us than the octets that are `left` of a part.

    No peer of ftp is told where a part ends (RFC 3659 5), and what it sends beyond that is in vain: up to
    32 MB where the buffer grows by itself (tcp_rmem). Linux doubles the size that it is given (socket(7)).
    """
    if sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) > max(left, _LEAST_HELD):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, max(left, _LEAST_HELD) // 2)


def spliceable(fd: int) -> bool:
    """Can octets be spliced into this file? Only a regular one that is not open for appending."""
    if not hasattr(os, "splice"):
        return False
    regular = stat.S_ISREG(os.fstat(fd).st_mode)
    return regular and not fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_APPEND


class SplicePipe:
    """A pipe of our own, of `size` octets; a context manager. Raises `OSError` where no descriptor
    is left."""

    def __init__(self) -> None:
        self._out, self._in = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            check_spare(max(self._out, self._in))
        except OSError:
            self.__exit__(None, None, None)
            raise
        try:
            self.size = fcntl.fcntl(self._in, fcntl.F_SETPIPE_SZ, _PIPE_SIZE)
        except OSError:  # the user's pipes hold too much already: a small one does as well
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
        """Take up to `most` octets of a non-blocking socket: how many, 0 at its end.
        Raises `BlockingIOError` when nothing is there, `OSError` when the connection broke."""
        return os.splice(fd, self._in, most, flags=os.SPLICE_F_MOVE | os.SPLICE_F_NONBLOCK)

    def push(self, sink: Sink, count: int) -> None:
        """Put the `count` octets that were pulled into the sink. Raises `LocalError`."""
        left = count
        target = sink.fileno()
        try:
            while left:
                left -= os.splice(self._out, target, left, flags=os.SPLICE_F_MOVE)
        except OSError:
            # Either a file system without splice, or a disk that is full: writing tells which.
            while left:
                octets = os.read(self._out, min(left, COPY_SIZE))
                sink.write(octets)
                left -= len(octets)
