"""A file of an fsspec file system with fsspec's caches, and random access to the bytes of an object."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, TypeAlias

from fsspec.asyn import sync
from fsspec.spec import AbstractBufferedFile

import resolver
from resolver.adapters.fsspec.listings import DIRECTORIES, no_file, translate_errors

# Random access to the bytes of one object.
#
# Sequential reads use one connection. A read at another position opens a new connection with a range request:
# REST (FTP) or Range (HTTP). If the object changes between two range requests, the read raises `Changed`. If
# the server disconnects, the transfer resumes after the received bytes. If the retry does not receive new
# bytes, the read fails.

#: Maximum distance in bytes of a forward seek on the same connection. The client discards the skipped bytes,
#: because receiving 1 MiB is faster than opening a connection.
NEAR = 1_048_576

#: The open responses. The garbage collector finalizes an unclosed file and its response in an arbitrary
#: order. The references in this set keep a response alive, so that the finalizer of the file can close the
#: response.
_HELD: set[AbstractAsyncContextManager[object]] = set()

_UNKNOWN = resolver.Validators()


class WholeObject:
    """An object that is completely in memory."""

    def __init__(self, octets: bytes) -> None:
        self._octets = octets
        self.size: int | None = len(octets)

    async def read(self, start: int | None, stop: int | None) -> bytes:
        return self._octets[start:stop]

    async def finish(self) -> None:
        """Return immediately, because an object in memory does not use a connection."""

    async def aclose(self) -> None:
        self._octets = b""


class RemoteObject:
    """An object on a server, which is read with range requests.

    `known` are the validators (entity tag, date, size) of the object's version. The first response completes
    the validators. A lock allows only one read at a time, because fsspec's cache `background` reads in a
    separate thread.
    """

    def __init__(
        self,
        session: resolver.Resolver,
        url: str,
        size: int | None = None,
        known: resolver.Validators = _UNKNOWN,
    ) -> None:
        self.size = size
        self._session = session
        self._url = url
        self._known = known
        self._lock = asyncio.Lock()
        self._open: AbstractAsyncContextManager[resolver.StreamingResponse] | None = None
        self._body: AsyncIterator[bytes] | None = None
        self._at = 0
        self._ahead = b""

    async def read(self, start: int | None, stop: int | None) -> bytes:
        """Return the bytes of a slice of the object.

        Raises:
            ResolveError: The bytes cannot be read completely.
        """
        async with self._lock:
            depends_on_size = (start or 0) < 0 or (stop or 0) < 0
            if depends_on_size and self.size is None:
                await self._begin_at(0)
            if self.size is not None:
                begin, end, _ = slice(start, stop).indices(self.size)
                return await self.read_all(begin, end)
            if depends_on_size:
                return (await self.read_all(0, None))[start:stop]
            return await self.read_all(start or 0, stop)

    async def read_all(self, start: int, stop: int | None, begun: bytearray | None = None) -> bytes:
        """Return the bytes of a range; `begun` are the first bytes, after which a transfer failed."""
        octets, failed_at = (bytearray(), -1) if begun is None else (begun, len(begun))
        while stop is None or start + len(octets) < stop:
            at = start + len(octets)
            try:
                piece = await self._read(at, stop)
            except resolver.ResolveError as error:
                await self._leave()
                if not error.retryable or failed_at == at:
                    raise
                failed_at = at
                continue
            if not piece:
                break
            octets += piece
            if self.size is None:
                _check_room(self._session, self._url, len(octets))
        return bytes(octets)

    async def _read(self, at: int, stop: int | None) -> bytes:
        """Return bytes from a position; at the end of the object, check its size."""
        await self._move_to(at)
        octets = await self._next()
        taken = octets if stop is None else octets[: max(stop - at, 0)]
        self._at, self._ahead = self._at + len(taken), octets[len(taken) :]
        if self.size is None:
            return taken
        if not octets and at < self.size:
            raise resolver.Truncated(
                "object ended early", received=at, expected=self.size, url=resolver.parse(self._url).shown
            )
        if self._at >= self.size:
            self._ahead = await self._next()
            if self._ahead or self._at > self.size:
                raise self._make_changed(f"larger than the announced {self.size} bytes")
        return taken

    async def _next(self) -> bytes:
        """Return the next bytes of the response body, or b"" at its end."""
        octets, self._ahead = self._ahead, b""
        return octets if octets or self._body is None else await anext(self._body, b"")

    async def _move_to(self, at: int) -> None:
        if self._body is None or not 0 <= at - self._at <= NEAR:
            await self._begin_at(at)
        while self._at < at and (octets := await self._next()):
            skipped = min(at - self._at, len(octets))
            self._at, self._ahead = self._at + skipped, octets[skipped:]

    async def _begin_at(self, at: int) -> None:
        await self._leave()
        opened = self._session.resume(self._url, at, self._known)
        reply = await opened.__aenter__()
        self._open = opened
        _HELD.add(opened)
        if reply.kind in DIRECTORIES:
            no_file(self._url.partition("://")[2])
        found = reply.validators
        if not self._known.agree(found):
            await self._leave()
            raise self._make_changed("size, date or entity tag differs")
        self._known = self._known.completed_by(found)
        self.size = reply.size if self.size is None else self.size
        self._body, self._at = aiter(reply.body), reply.start

    def _make_changed(self, words: str) -> resolver.Changed:
        return resolver.Changed(
            f"object changed after it was opened: {words}", url=resolver.parse(self._url).shown
        )

    async def finish(self) -> None:
        """Read the remaining bytes if they are few, so that the connection returns to the pool."""
        if self.size is not None and self.size - self._at <= NEAR:
            with suppress(resolver.ResolveError):
                while await self._next():
                    pass

    async def aclose(self) -> None:
        async with self._lock:
            await self._leave()

    async def _leave(self) -> None:
        """Close the current response; the next read sends a new request."""
        self._body, self._ahead = None, b""
        opened, self._open = self._open, None
        if opened is not None:
            _HELD.discard(opened)
            await opened.__aexit__(None, None, None)


#: An object with random access. The size may be unknown before the first response.
ObjectBytes: TypeAlias = WholeObject | RemoteObject


def _check_room(session: resolver.Resolver, url: str, count: int) -> None:
    if count > session.limits.body:
        words = f"the size is unknown, and more than {session.limits.body} bytes arrived"
        raise resolver.LimitExceeded("body", words, url=resolver.parse(url).shown)


async def read_complete(session: resolver.Resolver, url: str) -> bytes:
    """Return all bytes of an object on a server.

    Without a `RemoteObject`, `cat` of small files makes a tenth fewer calls.
    """
    octets, reply = bytearray(), None
    try:
        async with session.resume(url) as reply:
            if reply.kind in DIRECTORIES:
                no_file(url.partition("://")[2])
            async for piece in reply.body:
                octets += piece
                if reply.size is None:
                    _check_room(session, url, len(octets))
        return bytes(octets)
    except resolver.ResolveError as error:
        if not error.retryable:
            raise
    size, known = (None, _UNKNOWN) if reply is None else (reply.size, reply.validators)
    remote = RemoteObject(session, url, size, known)
    try:
        return await remote.read_all(0, size, octets)
    finally:
        await remote.aclose()


class UrlFile(AbstractBufferedFile):
    """A file that is open for reading. `octets` gives random access to the bytes of the object.

    The file is thread-safe: a lock protects fsspec's cache. All threads share one file position. After the
    file detects concurrent calls, a thread reads from the position of its own last seek. DuckDB's
    `read_parquet` needs this behavior, because the threads of DuckDB share one file without a lock around
    seek and read.
    """

    def __init__(
        self,
        fs: Any,
        path: str,
        octets: ObjectBytes,
        block_size: int | None,
        cache_type: str,
        cache_options: dict[str, object] | None,
    ) -> None:
        self._octets = octets
        self._loop: asyncio.AbstractEventLoop = fs.loop
        self._lock = threading.Lock()
        # The attribute `sought` is the position of the last seek in this thread. A read resets `sought`.
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
            if not self._is_own:
                raise RuntimeError(
                    "the file was opened before the process forked: open it again in the child"
                )
            octets: bytes = sync(self._loop, self._octets.read, start, end)
            return octets

    @property
    def _is_own(self) -> bool:
        """Return whether this process opened the file.

        A forked process cannot use the file, because the event loop of the file runs in the parent process.
        """
        return self._loop is self.fs.loop

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
                if self._is_own:
                    sync(self._loop, self._octets.aclose)

    def __del__(self) -> None:
        """Release the connection of an unclosed file.

        The method does not block, because the garbage collector may call the method in any thread.
        """
        if not (self.closed or self._loop.is_closed() or sys.is_finalizing()):
            asyncio.run_coroutine_threadsafe(self._octets.aclose(), self._loop)
