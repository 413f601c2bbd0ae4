"""A file of an fsspec file system, with fsspec's caches, and the reader of its ranges."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from typing import Protocol

from fsspec.spec import AbstractBufferedFile

import resolver
from resolver.adapters.fsspec.listings import translate_errors

# The bytes of one object, from any position.
#
# Sequential reads use one connection. A read at another position opens a new connection and starts there, by
# REST (FTP) or Range (HTTP). All ranges are from one version of the object; otherwise the read raises
# `Changed`. After a disconnect the transfer resumes after the received bytes, as long as each attempt
# receives some bytes.

#: Bytes up to this distance are read and dropped, which is faster than a new connection.
_NEAR = 1_048_576

#: Open responses. The garbage collector collects an unclosed file together with the objects that only it
#: refers to, in any order. This set keeps the objects that must be closed first.
_HELD: set[ExitStack] = set()


class ObjectBytes(Protocol):
    """An object of known size."""

    size: int

    def read(self, start: int, end: int) -> bytes:
        """Return exactly the bytes of a range, or fewer at the end of the object.

        Raises:
            ResolveError: The bytes cannot be read completely.
        """
        ...

    def close(self) -> None: ...

    def forget(self) -> None:
        """Schedule closing without blocking, in any thread; no further reads follow."""


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
        """Return without effect: this object has no connection."""


class RemoteObject:
    """An object on its server; `known` identifies its version.

    Threads may share it: one reads at a time. fsspec's cache `background` uses a separate thread.
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
        """Return some bytes at a position; at the end of the object, its transfer must end without error."""
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
        if reply is None or not 0 <= at - self._at <= _NEAR:
            self._leave()
            reply = self._begin_at(at)
        while self._at < at and (passed := len(reply.body.read_some(min(at - self._at, _NEAR)))):
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
        """Close the current response; the next read opens another."""
        self._reply = None
        self._open.close()
        self.forget()

    def forget(self) -> None:
        _HELD.discard(self._open)


class UrlFile(AbstractBufferedFile):
    """A file open for reading; `octets` reads the current bytes of the object.

    Threads may share the file: one thread at a time uses fsspec's cache. The threads share the position, as
    for any file. After concurrent use has begun, a read that follows a seek starts at the position to which
    its own thread sought. DuckDB's `read_parquet` needs this, because it passes one file to all its threads,
    without a lock around seek and read.
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
        # `sought`: a position that this thread sought and has not read from yet
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
        """Release the connection without blocking: the garbage collector may run in any thread."""
        if not self.closed:
            self._octets.forget()
