"""Partial files: NAME.part, or memory, which receives a peer's bytes until the file is complete (S14).

NAME.part is in the directory of the final name. It is created exclusively, never through a link. It is
renamed in one step once it is complete and, unless `sync` is `never`, synced to the disk. A small file of
which no byte is on the disk is held in memory until it is complete. The directory stays open meanwhile, so
renaming the directory cannot redirect the file. No file is ever made executable.

A `PartialFile` is in one of these states:

- held: `_held` is a buffer, and NAME.part does not exist;
- sequential: NAME.part is open and its bytes are contiguous (`_part.whole is None`);
- with gaps: segments write at their own offsets, and `_part.whole` lists the ranges that the file contains;
- closed: committed, kept for a later run, or discarded.

`remember` leaves the held state if the object is too large for memory, and `write` leaves it if the buffer is
full. `fileno`, `keep` and `spread` always leave the held state. `spread` leads to gaps; `gather` and
`flatten` lead back to a sequential file. `note_whole` syncs the file before the state file lists its ranges.
`spread` and `keep` list ranges without a sync: these ranges survive the end of the process, but not a loss of
power.

`resolver.files.part` and `resolver.files.commit` handle the names. This module handles the bytes, the waiting
and the texts of system errors.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING

from protocols.contract import Validators
from protocols.errors import LocalError
from resolver.files.commit import GroupCommit, PendingPartFile, Ready, UnopenedPart, allocate, set_going
from resolver.files.faults import writing_fault
from resolver.files.part import Existing, PartFile, Segment
from resolver.files.part_state import Ranges, octets_of, prefix_of, write_all
from resolver.loops import is_cancel, running
from resolver.policy.files import PART_SUFFIX

if TYPE_CHECKING:
    from hashlib import _Hash as Hash


_PIECE = 1_048_576

#: Seconds between two starts of writeback. A server on this machine sends about 100 MB in this time.
_SET_GOING_EVERY = 0.1

#: The maximum of bytes that are allocated on the disk in advance. This limits the disk space that is occupied
#: without data if a peer sends less than it announced, or if a run is killed.
_AHEAD = 134_217_728

#: Bytes hashed between two checks for cancellation. Hashing them takes about 0.1 s.
_HASHED_AT_ONCE = 67_108_864


class PartialFile:
    """A file until it is complete: an async context manager around NAME.part.

    Entering creates the file, or resumes the file that an earlier run left for the same `source`. Leaving
    without `commit` keeps the bytes if a later run can resume them or the caller was cancelled. Otherwise
    leaving removes the bytes. A file that another process is writing, or that this package did not create, is
    left unchanged. All errors are `LocalError` and name the failure, the path and the fix.

    Args:
        path: The final name.
        exists: Whether a file with the final name is an error or is replaced.
        source: The URL without a password. A later run compares it with its own.
        adopt: Resume a file that already has the final name, if NAME.part does not exist. The file gets the
            final name back if no byte is added.
        make_directory: Create the directory first.
        below: A prefix of the path; no directory after it may be a symbolic link.
        meta: Check on entering whether a sidecar can be written.
        holds: The maximum of bytes that stay in memory until the file is complete. An existing file may
            prevent that.
        commits: The group commit that syncs the file to the disk.

    Attributes:
        position: The number of bytes that the file already has.
        known: The validators of the object that these bytes belong to.
        dropped: The reason why existing bytes could not be resumed, or None.
        finished: Whether the file has its final name already and only its state file was left.
        left: The number of bytes that are kept for a later run.
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
        holds: int = 0,
        commits: GroupCommit | None = None,
    ) -> None:
        self.path = path
        self.left = 0
        self._holds = holds
        self._held: bytearray | None = None
        self.allocated = 0  # Offset up to which the disk space is allocated.
        self._commits = commits or GroupCommit()
        self._part = PartFile(
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
            if self._holds and self._part.look():
                self._held = bytearray()
            else:
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
        if self._held is not None:
            self._leave_held(kind)
        elif part.fd == -1:
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
        """Return whether the file is kept for a later run. After a cancellation, a single byte is enough."""
        interrupted = kind is not None and is_cancel(kind)
        return self.position > 0 and self._part.kept and (self.known != Validators() or interrupted)

    def _leave_held(self, kind: type[BaseException] | None) -> None:
        """Write the bytes in memory to NAME.part if a later run could resume them."""
        interrupted = kind is not None and is_cancel(kind)
        if self._held and (self.known != Validators() or interrupted):
            with suppress(OSError, LocalError):
                self._open()
                if self._part.kept:
                    self.keep()
        self.discard()

    @property
    def is_held(self) -> bool:
        """Return whether all bytes are in memory and NAME.part does not exist."""
        return self._held is not None

    def grow(self) -> None:
        """Create NAME.part with the bytes in memory, and write its state file from `known`."""
        try:
            self._open()
            self._part.note(self.known, complete=False)
        except OSError as error:
            raise writing_fault(error, self.path) from error

    def _open(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            self._part.begin_with(held)

    @property
    def known(self) -> Validators:
        """Return the validators of the object that the bytes belong to."""
        return self._part.known

    @property
    def finished(self) -> bool:
        return self._part.finished

    @property
    def dropped(self) -> str | None:
        return self._part.dropped

    async def remember(self, known: Validators) -> None:
        """Record the validators of the bytes that follow, before the first of these bytes is written.

        An object that is too large for memory is written to NAME.part from this call on.
        """
        if self._held is not None:
            self._part.known = known
            if known.size is not None and known.size > self._holds:
                await self._loop.in_thread(self.grow)
            return
        try:
            await self._loop.in_thread(partial(self._part.note, known, complete=False))
        except OSError as error:
            raise writing_fault(error, self.path) from error

    def restart(self) -> None:
        """Restart at byte 0, because the existing bytes belong to another version of the object.

        An adopted file gets its final name back until the new file replaces it.
        """
        if self._held is not None:
            self._held.clear()
            self._part.known = Validators()
            return
        try:
            self._part.restart()
        except OSError as error:
            raise writing_fault(error, self.path) from error

    def tail(self, count: int) -> bytes:
        """Return the last `count` bytes."""
        if self._held is not None:
            return bytes(self._held[-count:]) if count else b""
        return os.pread(self._part.fd, count, max(0, self.position - count))

    def fileno(self) -> int:
        if self._held is not None:
            self.grow()
        return self._part.fd

    @property
    def position(self) -> int:
        """Return the number of bytes in the file, including bytes that sendfile or splice moved."""
        if self._held is not None:
            return len(self._held)
        whole = self._part.whole
        return self._part.position if whole is None else octets_of(whole)

    @property
    def has_gaps(self) -> bool:
        """Return whether segments write, or wrote, at several offsets."""
        return self._part.whole is not None

    @property
    def adopts(self) -> bool:
        """Return whether the file had the final name before."""
        return self._part.adopted is not None

    @property
    def whole(self) -> Ranges:
        """Return the byte ranges that the file contains."""
        whole, position = self._part.whole, self.position
        return whole if whole is not None else ((0, position),) if position else ()

    async def spread(self, known: Validators, whole: Ranges) -> None:
        """Switch to segments at several offsets.

        The state file lists the ranges of this object before the first segment is written, and after each
        call of `note_whole`.

        Args:
            known: The validators of the object.
            whole: The ranges that the file already contains.
        """
        try:
            self._open()
        except OSError as error:
            raise writing_fault(error, self.path) from error
        self._part.whole = whole
        await self.remember(known)

    async def note_whole(self, whole: Ranges) -> None:
        """Sync the file, then record these ranges in the state file."""
        try:
            await self._loop.in_thread(os.fdatasync, self._part.fd)
        except OSError as error:
            raise writing_fault(error, self.path) from error
        self._part.whole = whole
        await self.remember(self.known)

    def record_ranges(self, whole: Ranges) -> None:
        """Update the ranges in memory. The state file is updated when the file is closed."""
        self._part.whole = whole

    def flatten(self) -> None:
        """Drop the bytes after the first gap, so that the file can be continued at its end."""
        if self._part.whole is not None:
            self._cut(prefix_of(self._part.whole))

    def gather(self, size: int) -> None:
        """Return to a sequential file, because all `size` bytes are there."""
        assert self._part.whole is not None
        assert octets_of(self._part.whole) == size
        self._cut(size)

    def _cut(self, size: int) -> None:
        try:
            self._part.cut(size)
        except OSError as error:
            raise writing_fault(error, self.path) from error

    def segment(self, begin: int, end: int) -> Segment:
        """Return a sink for the bytes from `begin` to `end`."""
        try:
            return Segment(self._part.open_again(), self.path, begin, end)
        except OSError as error:
            raise writing_fault(error, self.path) from error

    def write(self, octets: bytes | memoryview) -> None:
        if self._held is not None:
            if len(self._held) + len(octets) <= self._holds:
                self._held += octets
                return
            self.grow()
        write_all(self._part.fd, octets, self.path)

    async def write_back(self, size: int) -> None:
        """Start writeback of new bytes and allocate space for the next bytes, until cancelled.

        As a result, little is left to sync at the end. If bytes are dropped before the commit, their
        writeback was useless.

        Args:
            size: The size of the complete file.
        """
        begin, self.allocated = self.position, 0
        try:
            while True:
                await self._loop.in_thread(self._allocate, begin, size)
                await self._loop.sleep(_SET_GOING_EVERY)
                if (end := self.position) > begin:
                    await self._loop.in_thread(set_going, self._part.fd, begin, end)
                    begin = end
        finally:
            self._give_back()

    def _allocate(self, position: int, size: int) -> None:
        begin, end = max(position, self.allocated), min(size, position + _AHEAD)
        if end - begin >= _AHEAD // 2 or begin < end == size:
            allocate(self._part.fd, begin, end)
            self.allocated = end

    def _give_back(self) -> None:
        """Release the disk space allocated for bytes that did not arrive."""
        with suppress(OSError):
            if self.allocated > self.position == os.fstat(self._part.fd).st_size:
                os.ftruncate(self._part.fd, self.position)

    async def set_going(self) -> None:
        """Start writeback of all bytes that arrived so far, at any offset."""
        await self._loop.in_thread(set_going, self._part.fd, 0, 0)

    async def digest(self, algorithm: str) -> str:
        """Return the digest of the bytes in the file, in hex.

        A worker thread reads the file in blocks of at most 64 MiB, so that a cancellation takes effect soon.
        """
        if self._held is not None:
            return hashlib.new(algorithm, self._held).hexdigest()
        digest = hashlib.new(algorithm)
        offset = 0
        while count := await self._loop.in_thread(self._add_to, digest, offset):
            offset += count
        return digest.hexdigest()

    def _add_to(self, digest: Hash, offset: int) -> int:
        """Hash the next block of the file and return its size."""
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
        ready: Ready | None = None,
    ) -> None:
        """Sync the file, set its time, rename it to its final name, and write its sidecar.

        A worker thread does this together with other files, because a disk may need seconds. A cancellation
        does not interrupt these steps.

        Args:
            modified: The modification time; None leaves the file's own.
            meta: The content of the sidecar; None writes no sidecar.
            ready: An async callback that receives the inode when the file is on the disk, before the file
                gets its name.
        """
        held = self._held
        part = self._part
        landing = (
            PendingPartFile(part, modified, meta)
            if held is None
            else UnopenedPart(part, held, modified, meta)
        )
        try:
            await self._commits.finish(landing, ready)
        except OSError as error:
            raise writing_fault(error, self.path) from error
        finally:
            if not part.is_waiting:
                self._held = None

    def keep(self) -> None:
        """Close the file and leave NAME.part for a later run."""
        if self._held is not None:
            self.grow()
        self.left = self.position
        if self._part.whole is not None:
            with suppress(OSError, LocalError):  # The state file that was written last is still correct.
                self._part.note(self.known, complete=False)
        self._part.close()

    def discard(self) -> None:
        """Close the file and remove NAME.part; has no effect after `commit` or `keep`."""
        self._held = None
        self._part.discard()


# Recovery: files that an earlier run had completed when it was killed, and their remaining steps.


def has_size(path: str, size: int) -> bool:
    """Return whether a regular file of that size is there."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size == size


def sync_directories(paths: Iterable[str]) -> None:
    """Sync the directories of these files. If a file system cannot sync directories, its error is ignored."""
    for directory in {os.path.dirname(path) for path in paths}:
        with suppress(OSError):
            fd = os.open(directory or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)


def finish(path: str, source: str, *, inode: int, size: int, sidecar: bool, below: str | None = None) -> bool:
    """Return whether a completed file of a killed run has its final name, or was renamed to it now.

    If True is returned, no step is left to do.

    Args:
        path: The final name.
        source: The URL that the file came from.
        inode: The inode of the file.
        size: The size of the file in bytes.
        sidecar: Whether the file needs a sidecar. In this case the file is not renamed, because its metadata
            must be fetched again.
        below: A prefix of the path; no directory after it may be a symbolic link.
    """
    part = PartFile(path, exists="fail", source=source, adopt=False, make_directory=False, below=below)
    try:
        if os.path.lexists(path):
            return is_that(path, inode, size) and _conclude(part)
        return not sidecar and is_that(path + PART_SUFFIX, inode, size) and _name(part)
    except (OSError, LocalError):
        return False
    finally:
        part.close()


def is_that(path: str, inode: int, size: int) -> bool:
    """Return whether the path is the regular file of that inode and size, and not a link."""
    try:
        found = os.lstat(path)
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(found.st_mode) and (found.st_ino, found.st_size) == (inode, size)


def _conclude(part: PartFile) -> bool:
    """Remove the state file of a run that was killed after the renaming."""
    with suppress(LocalError):  # No step was left.
        part.open()
    return True


def _name(part: PartFile) -> bool:
    part.open()
    if not part.complete or part.whole is not None:
        return False
    part.settle(None)
    return True
