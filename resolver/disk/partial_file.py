"""Files that we write: the only place where a peer's octets become a file of ours (S14).

A body grows in NAME.part beside its final name, created exclusively and through no link, and gets its
name in one step once it is whole and on the disk. The directory is held open meanwhile, so that
renaming it cannot send the file elsewhere. Nothing is ever made executable. What becomes of the names is
`part`'s; here are the octets, the waiting and the words for what the system refuses.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING

from protocols.contract import Sink as AnySink
from protocols.contract import Validators
from protocols.errors import LocalError, ProtocolError
from resolver.disk.faults import writing_fault
from resolver.disk.part import Existing, Part
from resolver.disk.ranges import Ranges, octets_of, prefix_of
from resolver.loops import is_cancel, running

if TYPE_CHECKING:
    from hashlib import _Hash as Hash

_PIECE = 1_048_576

#: Octets hashed without a look at whether anybody still wants the digest: some 0.1 s.
_HASHED_AT_ONCE = 67_108_864


def position_of(sink: AnySink) -> int | None:
    """Octets in a file so far, those moved in bulk included; None for what has no position."""
    try:
        return os.lseek(sink.fileno(), 0, os.SEEK_CUR)
    except OSError:
        return None


def write_all(fd: int, octets: bytes | memoryview, path: str) -> None:
    """Raises `LocalError`, which names the path."""
    left = memoryview(octets)
    try:
        while left:
            left = left[os.write(fd, left) :]
    except OSError as error:
        raise writing_fault(error, path) from error


class Segment:
    """A piece of a file that grows: a sink of its own, which takes no octet beyond its end. A context
    manager."""

    def __init__(self, fd: int, path: str, begin: int, end: int) -> None:
        self._fd = fd
        self._path = path
        self.begin = begin
        self.end = end
        os.lseek(fd, begin, os.SEEK_SET)
        self._closed_at = begin

    def __enter__(self) -> Segment:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed_at = self.position
        os.close(self._fd)
        self._fd = -1

    @property
    def position(self) -> int:
        """The octet of the file that comes next."""
        return self._closed_at if self._fd == -1 else os.lseek(self._fd, 0, os.SEEK_CUR)

    def fileno(self) -> int:
        return self._fd

    def write(self, octets: bytes | memoryview) -> None:
        if self.position + len(octets) > self.end:
            raise ProtocolError(f"more octets came than the {self.end - self.begin} that were asked for")
        write_all(self._fd, octets, self._path)


class PartialFile:
    """An async context manager around NAME.part. All errors are `LocalError` and say what, where and what
    to do.

    Entering creates the file, or takes up the one that an earlier run left for the same `source` (a URL
    without a password): then `position` and `known` say how far that came and of what; `dropped` says what
    was there that cannot be gone on with. Leaving without `commit` keeps what arrived if a later run
    could go on with it or the caller was cancelled, and else removes it. A file that another process is
    writing, or that is none of ours, is left alone. `finished`: the file has its name already, and only what
    tells of that was left. `left` is how many octets stay behind for a later run.

    With `adopt`, a file that has the final name already counts as begun, if nothing was begun beside it; it
    gets that name back when nothing comes of it. With `make_directory` the directory is made first; with
    `below`, how the path begins, nothing behind that may be a link. With `meta` it is said on entering
    whether a sidecar can be written.
    """

    final = False

    def __init__(
        self,
        path: str,
        *,
        exists: Existing = "fail",
        source: str = "",
        adopt: bool = False,
        make_directory: bool = False,
        below: str | None = None,
        meta: bool = False,
    ) -> None:
        self.path = path
        self.left = 0
        self._part = Part(
            path,
            exists=exists,
            source=source,
            adopt=adopt,
            make_directory=make_directory,
            below=below,
            meta=meta,
        )

    async def __aenter__(self) -> PartialFile:
        self._loop = running()
        try:
            self._part.open()
        except OSError as error:
            self._part.close()
            raise writing_fault(error, self.path) from error
        except LocalError:
            self._part.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        part = self._part
        if part.fd == -1:
            part.close()
        elif part.adopted is not None and self.position == part.adopted:
            with suppress(OSError, LocalError):
                part.give_back()
            part.close()
        elif part.adopted is not None or self._is_worth_keeping(kind):
            self.keep()
        else:
            self.discard()

    def _is_worth_keeping(self, kind: type[BaseException] | None) -> bool:
        """Could another run go on with it? Who interrupts us gets to keep what arrived in any case."""
        interrupted = kind is not None and is_cancel(kind)
        return self.position > 0 and self._part.kept and (self.known != Validators() or interrupted)

    @property
    def known(self) -> Validators:
        """What the octets in the file are of."""
        return self._part.known

    @property
    def finished(self) -> bool:
        return self._part.finished

    @property
    def dropped(self) -> str | None:
        return self._part.dropped

    async def remember(self, known: Validators) -> None:
        """Write down what the octets that follow are of, before the first of them is written."""
        await self._note(known, complete=False)

    async def _note(self, known: Validators, *, complete: bool) -> None:
        try:
            await self._loop.in_thread(partial(self._part.note, known, complete=complete))
        except OSError as error:
            raise writing_fault(error, self.path) from error

    def restart(self) -> None:
        """Begin again at octet 0: what was there is of another state of the object. What had the final
        name before has it again, until the new file takes its place."""
        try:
            self._part.restart()
        except OSError as error:
            raise writing_fault(error, self.path) from error

    def tail(self, count: int) -> bytes:
        """The last `count` octets."""
        return os.pread(self._part.fd, count, max(0, self.position - count))

    def fileno(self) -> int:
        return self._part.fd

    @property
    def position(self) -> int:
        """Octets in the file so far, those moved in bulk included."""
        whole = self._part.whole
        return self._part.position if whole is None else octets_of(whole)

    @property
    def inode(self) -> int:
        """By which it is known under its final name, too."""
        return os.fstat(self._part.fd).st_ino

    @property
    def has_gaps(self) -> bool:
        """Does it grow, or did it, in more than one place?"""
        return self._part.whole is not None

    @property
    def adopts(self) -> bool:
        """Is it what had the final name before?"""
        return self._part.adopted is not None

    @property
    def whole(self) -> Ranges:
        """The octets that are there."""
        whole, position = self._part.whole, self._part.position
        return whole if whole is not None else ((0, position),) if position else ()

    async def spread(self, known: Validators, whole: Ranges) -> None:
        """From now on octets come in pieces, to where they belong. What is there of an object in this state
        is written down before, and again each time that more is."""
        self._part.whole = whole
        await self.remember(known)

    async def note_whole(self, whole: Ranges) -> None:
        """Write down that so much is there, once it is on the disk."""
        try:
            await self._loop.in_thread(os.fdatasync, self._part.fd)
        except OSError as error:
            raise writing_fault(error, self.path) from error
        self._part.whole = whole
        await self.remember(self.known)

    def has(self, whole: Ranges) -> None:
        """So much is there by now; it is written down when the file is left."""
        self._part.whole = whole

    def flatten(self) -> None:
        """What is behind the first gap is dropped, so that the file can go on at its end."""
        if self._part.whole is not None:
            self._cut(prefix_of(self._part.whole))

    def gather(self, size: int) -> None:
        """All of it is there: a file like any other again."""
        assert self._part.whole is not None
        assert octets_of(self._part.whole) == size
        self._cut(size)

    def _cut(self, size: int) -> None:
        try:
            self._part.cut(size)
        except OSError as error:
            raise writing_fault(error, self.path) from error

    def segment(self, begin: int, end: int) -> Segment:
        """Where the octets from `begin` to `end` go."""
        try:
            return Segment(self._part.open_again(), self.path, begin, end)
        except OSError as error:
            raise writing_fault(error, self.path) from error

    def write(self, octets: bytes | memoryview) -> None:
        write_all(self._part.fd, octets, self.path)

    async def digest(self, algorithm: str) -> str:
        """The digest of what is in the file, in hex. It is read in a worker thread, piece by piece, so that
        a cancellation is heeded soon."""
        digest = hashlib.new(algorithm)
        offset = 0
        while count := await self._loop.in_thread(self._add_to, digest, offset):
            offset += count
        return digest.hexdigest()

    def _add_to(self, digest: Hash, offset: int) -> int:
        """Some more of the file; how many octets."""
        count = 0
        try:
            while count < _HASHED_AT_ONCE and (octets := os.pread(self._part.fd, _PIECE, offset + count)):
                digest.update(octets)
                count += len(octets)
        except OSError as error:
            raise LocalError(f"cannot read back {self.path!r}: {error.strerror}") from error
        return count

    async def commit(
        self,
        modified: datetime | None = None,
        meta: bytes | None = None,
        ready: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Bring the file to the disk, set its time, give it its name, and `meta` that of its sidecar. In a
        worker thread, for a disk may take seconds; not to be cancelled half way. `ready` is awaited when it
        is on the disk, before it gets its name."""
        await self._note(self.known, complete=True)
        try:
            if ready is None:
                await self._loop.in_thread(self._settle, modified, meta)
                return
            await self._loop.in_thread(self._part.sync, modified)
            await ready()
            await self._loop.in_thread(self._part.settle, meta)
        except OSError as error:
            raise writing_fault(error, self.path) from error

    def _settle(self, modified: datetime | None, meta: bytes | None) -> None:
        self._part.sync(modified)
        self._part.settle(meta)

    def keep(self) -> None:
        """Close, and leave NAME.part where it is: what arrived can be continued."""
        self.left = self.position
        if self._part.whole is not None:
            with suppress(OSError, LocalError):  # what was written down last is true, too
                self._part.note(self.known, complete=False)
        self._part.close()

    def discard(self) -> None:
        """Close, and remove NAME.part; harmless after `commit` and `keep`."""
        self._part.discard()
