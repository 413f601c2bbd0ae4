"""A file of an fsspec file system with fsspec's caches, and random access to the bytes of an object."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from typing import Protocol

from fsspec.spec import AbstractBufferedFile

import resolver
from resolver.adapters.fsspec.listings import translate_errors

# Random access to the bytes of one object.
#
# Sequential reads use one connection. A read at another position opens a new connection with a range request:
# REST (FTP) or Range (HTTP). All ranges must be of the same version of the object; otherwise a read raises
# `Changed`. After a disconnect, the transfer resumes after the received bytes. If a retry does not receive
# new bytes, the read fails.

#: Maximum distance in bytes of a forward seek without a new connection. To discard 1 MiB is faster than to
#: connect.
NEAR = 1_048_576

#: The open responses. The garbage collector finalizes an unclosed file and its objects in an arbitrary order.
#: This set has references to the responses, so that they can still be closed by the finalizer of the file.
_HELD: set[ExitStack] = set()


class ObjectBytes(Protocol):
    """The interface for random access to an object of known size."""

    size: int

    def read(self, start: int, end: int) -> bytes:
        """Return the bytes of a range, or fewer bytes at the end of the object.

        Raises:
            ResolveError: The bytes cannot be read completely.
        """
        ...

    def close(self) -> None: ...

    def forget(self) -> None:
        """Schedule the close of the connection without blocking, from any thread. Do not read afterwards."""


class WholeObject:
    """An object that is completely in memory."""

    def __init__(self, octets: bytes) -> None:
        self._octets = octets
        self.size = len(octets)

    def read(self, start: int, end: int) -> bytes:
        return self._octets[start:end]

    def close(self) -> None:
        self._octets = b""

    def forget(self) -> None:
        """Return without effect, because this object does not use a connection."""


class RemoteObject:
    """An object on a server; `known` are the validators of its version.

    The object is thread-safe: a lock allows one read at a time. fsspec's cache `background` reads in a
    separate thread.
    """

    def __init__(
        self, session: resolver.blocking.Resolver, url: str, size: int, known: resolver.Validators
    ) -> None:
        self.size = size
        self._session = session
        self._url = url
        self._known = known
        self._lock = threading.Lock()
        self._open = ExitStack()
        self._reply: resolver.blocking.LiveReply | None = None
        self._at = 0

    def read(self, start: int, end: int) -> bytes:
        with self._lock:
            return self._read_all(start, min(end, self.size))

    def _read_all(self, start: int, end: int) -> bytes:
        octets = bytearray()
        failed_at = -1
        while (at := start + len(octets)) < end:
            try:
                octets += self._read(at, end)
            except resolver.ResolveError as error:
                self._leave()
                if not error.retryable or failed_at == at:
                    raise
                failed_at = at
        return bytes(octets)

    def _read(self, at: int, end: int) -> bytes:
        """Return some bytes from a position; at the end of the object, check its size."""
        reply = self._standing_at(at)
        octets = reply.body.read_some(end - at)
        self._at += len(octets)
        if not octets:
            raise resolver.Truncated("object ended early", received=at, expected=self.size, url=self._url)
        if self._at == self.size and reply.read(1):
            raise self._make_changed(f"larger than the announced {self.size} bytes")
        return octets

    def _standing_at(self, at: int) -> resolver.blocking.LiveReply:
        reply = self._reply
        if reply is None or not 0 <= at - self._at <= NEAR:
            self._leave()
            reply = self._begin_at(at)
        while self._at < at and (passed := len(reply.body.read_some(min(at - self._at, NEAR)))):
            self._at += passed
        return reply

    def _begin_at(self, at: int) -> resolver.blocking.LiveReply:
        _HELD.add(self._open)
        reply = self._open.enter_context(self._session.resume(self._url, at, self._known))
        found = reply.validators
        if not self._known.agree(found):
            self._leave()
            raise self._make_changed("size, date or entity tag differs")
        self._known = self._known.completed_by(found)
        self._reply, self._at = reply, reply.start
        return reply

    def _make_changed(self, words: str) -> resolver.Changed:
        return resolver.Changed(f"object changed after it was opened: {words}", url=self._url)

    def close(self) -> None:
        with self._lock:
            self._leave()

    def _leave(self) -> None:
        """Close the current response; the next read opens a new response."""
        self._reply = None
        self._open.close()
        self.forget()

    def forget(self) -> None:
        _HELD.discard(self._open)


class UrlFile(AbstractBufferedFile):
    """A file that is open for reading; `octets` gives random access to the bytes of the object.

    The file is thread-safe: a lock protects fsspec's cache. Threads share the file position, as for other
    files. After concurrent use was detected, a read after a seek of the same thread starts at the position of
    this seek. DuckDB's `read_parquet` needs this, because its threads share one file without a lock around
    seek and read.
    """

    def __init__(
        self,
        fs: object,
        path: str,
        octets: ObjectBytes,
        block_size: int | None,
        cache_type: str,
        cache_options: dict[str, object] | None,
    ) -> None:
        self._octets = octets
        self._lock = threading.Lock()
        # `sought`: the position of the last seek in this thread, until the next read
        self._own = threading.local()
        self._is_contended = False
        super().__init__(
            fs,
            path,
            "rb",
            block_size=block_size,
            cache_type=cache_type,
            cache_options=cache_options,
            size=octets.size,
        )

    def _fetch_range(self, start: int, end: int) -> bytes:
        with translate_errors(self.path):
            return self._octets.read(start, end)

    def seek(self, loc: int, whence: int = 0) -> int:
        if self._lock.locked():
            self._is_contended = True
        self._own.sought = position = super().seek(loc, whence)
        return int(position)

    def read(self, length: int = -1) -> bytes:
        if self._lock.locked():
            self._is_contended = True
        sought, self._own.sought = getattr(self._own, "sought", None), None
        with self._lock:
            if sought is not None and self._is_contended:
                self.loc = sought
            octets: bytes = super().read(length)
        return octets

    def close(self) -> None:
        with self._lock:
            if not self.closed:
                super().close()
                self._octets.close()

    def __del__(self) -> None:
        """Release the connection without blocking, because the garbage collector may run in any thread."""
        if not self.closed:
            self._octets.forget()
