"""Partial files: a download is stored in NAME.part or in a memory buffer until it is complete (S14).

NAME.part is in the same directory as the final name. NAME.part is created with O_EXCL, so a symlink is never
followed. A complete file is synced to the disk, unless `sync` is `never`, and then renamed atomically. A new
small file stays in memory until it is complete. The directory stays open during the download, so a rename of
the directory cannot redirect the file. Files are never made executable.

A `PartialFile` is in one of these states:

- Buffered: the bytes are in the memory buffer `_buffer`, and NAME.part does not exist.
- Sequential: NAME.part is open and its bytes are contiguous (`_part.ranges is None`).
- With gaps: segments write at separate offsets, and `_part.ranges` lists the ranges that the file contains.
- Closed: the file was committed, kept for a later run, or discarded.

The method `remember` ends the buffered state if the object is too large for memory. The method `write` ends
the buffered state if the buffer is full. `fileno`, `keep` and `begin_segments` always end the buffered state.
`begin_segments` starts the state with gaps. `end_segments` and `truncate_at_gap` start the sequential state.

The state file lists the byte ranges that the file contains. `sync_ranges` syncs the file before it updates
the list of ranges. `begin_segments` and `keep` update the list without a sync. The listed ranges survive a
crash of the process, but not a power failure.

`resolver.files.part` and `resolver.files.commit` handle the names of the files.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from protocols.contract import Validators
from protocols.errors import LocalError
from protocols.options import NOTHING
from resolver.files.atomic import sync_file, write_all
from resolver.files.commit import GroupCommit, PendingFile, Ready, allocate, start_writeback
from resolver.files.directory import sync_directory
from resolver.files.faults import closing_descriptor, convert_faults, writing_fault
from resolver.files.part import Existing, PartFile, Segment
from resolver.files.part_state import Ranges, count_bytes, measure_prefix
from resolver.loops import is_cancel, running
from resolver.policy.files import PART_SUFFIX, STATE_SUFFIX

if TYPE_CHECKING:
    from hashlib import _Hash as Hash


_READ_SIZE = 1_048_576

#: The interval in seconds between two starts of writeback. In 0.1 s, a local server sends about 100 MB.
_WRITEBACK_INTERVAL = 0.1

#: The maximum number of bytes that are preallocated on the disk. This space is wasted if a server sends fewer
#: bytes than announced, or if a run is killed.
_MAX_PREALLOCATED = 134_217_728

#: The number of bytes hashed between two checks for cancellation. Hashing so many bytes takes about 0.1 s.
_HASH_BLOCK = 67_108_864


class PartialFile:
    """An output file during the download, as an async context manager.

    On entry, the file is created, or the partial file of an earlier run for the same URL is resumed. On exit
    without `commit`, the partial file is kept in two cases: a later run can resume the download, or the
    caller was cancelled. Otherwise the partial file is removed. Files that another process writes, or that
    another program created, stay unchanged. All errors are `LocalError` and name the failure, the path and
    the fix.

    Args:
        path: The final name.
        exists: Whether an existing file with the final name is an error or is replaced.
        source: The URL without a password. A later run resumes the file only for the same URL.
        adopt: Whether to resume an existing file with the final name if NAME.part does not exist. If no bytes
            are appended, the file gets its final name back.
        make_directory: Whether a missing directory is created.
        below: A prefix of the path. A directory after the prefix must not be a symbolic link.
        meta: Whether to check on entry that a sidecar can be written.
        max_buffered: The maximum number of bytes that stay in memory until the file is complete. An existing
            file is never resumed in memory.
        commits: The group commit that syncs the file to the disk.

    Attributes:
        position: The number of bytes in the file.
        known: The validators of the object that the bytes belong to.
        dropped: The reason why existing bytes could not be resumed, or None.
        finished: Whether a killed run had already renamed the file but had not removed the state file.
        partial_size: The number of bytes that stay in NAME.part for a later run.
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
        max_buffered: int = 0,
        commits: GroupCommit | None = None,
    ) -> None:
        self.path = path
        self.partial_size = 0
        self._max_buffered = max_buffered
        self._buffer: bytearray | None = None
        self.allocated = 0  # The offset in bytes up to which disk space is preallocated.
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
        try:
            if self._max_buffered and self._part.can_buffer():
                self._buffer = bytearray()
            else:
                self._part.open()
        except OSError as error:
            self._part.close()
            raise writing_fault(error, self.path) from error
        except LocalError:
            self._part.close()
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        part = self._part
        if self._buffer is not None:
            self._store_buffer(kind)
        elif part.fd == -1:
            part.directory.close()
        elif part.adopted is not None and self.position == part.adopted:
            with suppress(OSError, LocalError):
                part.restore_name()
            part.close()
        elif part.adopted is not None or (part.can_resume and self._is_worth_keeping(kind)):
            self.keep()
        else:
            self.discard()

    def _is_worth_keeping(self, kind: type[BaseException] | None) -> bool:
        """Return whether a later run could use the bytes: without validators, only after a cancellation."""
        return self.position > 0 and (self.known != NOTHING or (kind is not None and is_cancel(kind)))

    def _store_buffer(self, kind: type[BaseException] | None) -> None:
        """Write the bytes in memory to NAME.part if a later run could resume them."""
        if self._is_worth_keeping(kind):
            with suppress(OSError, LocalError):
                self._open()
                if self._part.can_resume:
                    self.keep()
        self.discard()

    @property
    def is_buffered(self) -> bool:
        """Return whether all bytes are in memory and NAME.part does not exist."""
        return self._buffer is not None

    def create_part(self) -> None:
        """Create NAME.part with the bytes in memory, and write the state file."""
        with convert_faults(self.path):
            self._open()
            self._part.record_state(self.known, complete=False)

    def _open(self) -> None:
        octets, self._buffer = self._buffer, None
        if octets is not None:
            self._part.write_buffer(octets)

    @property
    def known(self) -> Validators:
        """Return the validators of the object whose bytes are in the file."""
        return self._part.known

    @property
    def finished(self) -> bool:
        return self._part.finished

    @property
    def dropped(self) -> str | None:
        return self._part.dropped

    async def remember(self, known: Validators) -> None:
        """Record the validators of the object before its first byte is written.

        For an object that is too large for memory, NAME.part is created.
        """
        if self._buffer is not None:
            self._part.known = known
            if known.size is not None and known.size > self._max_buffered:
                await running().in_thread(self.create_part)
            return
        try:
            await running().in_thread(partial(self._part.record_state, known, complete=False))
        except OSError as error:
            raise writing_fault(error, self.path) from error

    def restart(self) -> None:
        """Restart at byte 0, because the existing bytes belong to another version of the object.

        An adopted file first gets its final name back, and a new NAME.part is created.
        """
        if self._buffer is not None:
            self._buffer.clear()
            self._part.known = NOTHING
            return
        with convert_faults(self.path):
            self._part.restart()

    def tail(self, count: int) -> bytes:
        """Return the last `count` bytes."""
        if self._buffer is not None:
            return bytes(self._buffer[-count:]) if count else b""
        return os.pread(self._part.fd, count, max(0, self.position - count))

    def fileno(self) -> int:
        if self._buffer is not None:
            self.create_part()
        return self._part.fd

    @property
    def position(self) -> int:
        """Return the number of bytes in the file, including bytes written by sendfile or splice."""
        if self._buffer is not None:
            return len(self._buffer)
        ranges = self._part.ranges
        return self._part.position if ranges is None else count_bytes(ranges)

    @property
    def has_gaps(self) -> bool:
        """Return whether the file is in the state with gaps."""
        return self._part.ranges is not None

    @property
    def is_adopted(self) -> bool:
        """Return whether an existing file with the final name is resumed."""
        return self._part.adopted is not None

    @property
    def ranges(self) -> Ranges:
        """Return the byte ranges that the file contains."""
        ranges, position = self._part.ranges, self.position
        return ranges if ranges is not None else ((0, position),) if position else ()

    async def begin_segments(self, known: Validators, ranges: Ranges) -> None:
        """Switch to the state with gaps, in which segments are written at several offsets.

        The state file lists the ranges before the first segment is written. Each call of `sync_ranges`
        updates the state file.

        Args:
            known: The validators of the object.
            ranges: The ranges that the file already contains.
        """
        with convert_faults(self.path):
            self._open()
        self._part.ranges = ranges
        await self.remember(known)

    async def sync_ranges(self, ranges: Ranges) -> None:
        """Sync the file, and then record the ranges in the state file."""
        try:
            await running().in_thread(partial(sync_file, self._part.fd, data_only=True))
        except OSError as error:
            self._part.can_resume = False  # After a failed sync, Linux may drop the data.
            raise writing_fault(error, self.path) from error
        self._part.ranges = ranges
        await self.remember(self.known)

    def record_ranges(self, ranges: Ranges) -> None:
        """Update the ranges in memory. The state file is updated when the file is closed."""
        self._part.ranges = ranges

    def truncate_at_gap(self) -> None:
        """Truncate the file at the first gap, so that a sequential download can resume."""
        if self._part.ranges is not None:
            self._truncate(measure_prefix(self._part.ranges))

    def end_segments(self, size: int) -> None:
        """Change to the sequential state after all `size` bytes have arrived."""
        assert self._part.ranges is not None
        assert count_bytes(self._part.ranges) == size
        self._truncate(size)

    def _truncate(self, size: int) -> None:
        with convert_faults(self.path):
            self._part.truncate(size)

    def segment(self, begin: int, end: int) -> Segment:
        """Return a sink for the byte range from offset `begin` to `end`."""
        with convert_faults(self.path):
            return Segment(self._part.open_again(), self.path, begin, end)

    def write(self, octets: bytes | memoryview) -> None:
        if self._buffer is not None:
            if len(self._buffer) + len(octets) <= self._max_buffered:
                self._buffer += octets
                return
            self.create_part()
        write_all(self._part.fd, octets, self.path)

    async def write_back(self, size: int) -> None:
        """Start the writeback of new bytes and preallocate space, until the call is cancelled.

        With early writeback, the final sync takes less time.

        Args:
            size: The size of the complete file.
        """
        begin, self.allocated = self.position, 0
        try:
            while True:
                await running().in_thread(self._allocate, begin, size)
                await running().sleep(_WRITEBACK_INTERVAL)
                if (end := self.position) > begin:
                    await running().in_thread(start_writeback, self._part.fd, begin, end)
                    begin = end
        finally:
            self._release_space()

    def _allocate(self, position: int, size: int) -> None:
        begin, end = max(position, self.allocated), min(size, position + _MAX_PREALLOCATED)
        if end - begin >= _MAX_PREALLOCATED // 2 or begin < end == size:
            allocate(self._part.fd, begin, end)
            self.allocated = end

    def _release_space(self) -> None:
        """Release the preallocated disk space of bytes that did not arrive."""
        with suppress(OSError):
            if self.allocated > self.position == os.fstat(self._part.fd).st_size:
                os.ftruncate(self._part.fd, self.position)

    async def start_writeback(self) -> None:
        """Start writeback of all received bytes."""
        await running().in_thread(start_writeback, self._part.fd, 0, 0)

    async def digest(self, algorithm: str) -> str:
        """Return the digest (checksum) of the file in hexadecimal form."""
        if self._buffer is not None:
            return hashlib.new(algorithm, self._buffer).hexdigest()
        return await _digest(self._part.fd, algorithm, self.path)

    async def commit(
        self,
        modified: datetime | None = None,
        meta: bytes | None = None,
        ready: Ready | None = None,
    ) -> None:
        """Sync the file, set the modification time, rename the file to its final name, and write the sidecar.

        A worker thread performs the steps for several files together, because a sync may take seconds. A
        cancellation does not interrupt the steps.

        Args:
            modified: The modification time, or None to keep the modification time of the file.
            meta: The content of the sidecar, or None for no sidecar.
            ready: A callback that records the synced file before the file is renamed; see `Ready`.
        """
        try:
            await self._commits.finish(PendingFile(self._part, modified, meta, ready, self._buffer))
        except OSError as error:
            raise writing_fault(error, self.path) from error
        finally:
            if not self._part.is_waiting:
                self._buffer = None

    def keep(self) -> None:
        """Close the file and leave NAME.part for a later run."""
        if self._buffer is not None:
            self.create_part()
        with suppress(OSError):
            self.partial_size = self.position if self._part.has_name else 0
        if self._part.ranges is not None:
            with suppress(OSError, LocalError):  # The previous state file is still correct.
                self._part.record_state(self.known, complete=False)
        self._part.close()

    def discard(self) -> None:
        """Close the file and remove NAME.part. After `commit` or `keep`, do nothing."""
        self._buffer = None
        self._part.discard()


async def digest_file(path: str, algorithm: str) -> str:
    """Return the digest of an existing file in hexadecimal form. Raises `LocalError`."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise LocalError(f"cannot read {path!r}: {error.strerror}") from error
    with closing_descriptor(fd):
        return await _digest(fd, algorithm, path)


async def _digest(fd: int, algorithm: str, path: str) -> str:
    """Hash a file in a worker thread, in blocks, so that a cancellation takes effect soon."""
    digest = hashlib.new(algorithm)
    offset = 0
    while count := await running().in_thread(_hash_block, digest, fd, offset, path):
        offset += count
    return digest.hexdigest()


def _hash_block(digest: Hash, fd: int, offset: int, path: str) -> int:
    """Hash the next block of a file and return its size."""
    count = 0
    try:
        while count < _HASH_BLOCK and (octets := os.pread(fd, _READ_SIZE, offset + count)):
            digest.update(octets)
            count += len(octets)
    except OSError as error:
        raise LocalError(f"cannot read back {path!r}: {error.strerror}") from error
    return count


# Recovery of complete files after a killed run.


def has_size(path: str, size: int) -> bool:
    """Return whether the path is a regular file of `size` bytes."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(status.st_mode) and status.st_size == size


def sync_directories(paths: Iterable[str]) -> None:
    """Sync the directories of the files; errors of file systems without directory sync are ignored."""
    for directory in {path[: path.rfind("/") + 1] for path in paths}:
        sync_directory(directory or ".")


def finish(path: str, source: str, *, inode: int, size: int, sidecar: bool, below: str | None = None) -> bool:
    """Complete a file for a killed run.

    The killed run had received the complete file.

    Args:
        path: The final name.
        source: The URL of the file.
        inode: The inode number of the file.
        size: The size of the file in bytes.
        sidecar: Whether the file needs a sidecar. If so, the file is not renamed, because the metadata must
            be fetched again.
        below: A prefix of the path. A directory after the prefix must not be a symbolic link.

    Returns:
        Whether the file now has its final name.
    """
    part = PartFile(path, source=source, below=below)
    try:
        if os.path.lexists(path):
            return has_inode(path, inode, size) and _finish_killed_rename(part)
        return not sidecar and has_inode(path + PART_SUFFIX, inode, size) and _rename_complete(part)
    except (OSError, LocalError):
        return False
    finally:
        part.close()


def has_inode(path: str, inode: int, size: int) -> bool:
    """Return whether the path is a regular file with the inode number and size, and not a symlink."""
    try:
        status = os.lstat(path)
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(status.st_mode) and (status.st_ino, status.st_size) == (inode, size)


def finish_killed_run(path: str, source: str, below: str | None = None) -> None:
    """Remove the state file of a killed run if the file `path` is the complete file of that run.

    Errors are ignored, and all other files stay unchanged.
    """
    if os.path.lexists(path + STATE_SUFFIX):
        part = PartFile(path, source=source, below=below)
        with suppress(OSError, LocalError):
            part.finish_killed_run()
        part.close()


def _finish_killed_rename(part: PartFile) -> bool:
    """Remove the state file of a run that was killed after it had renamed the file."""
    with suppress(OSError):  # The file is complete, even if the state file cannot be removed.
        with suppress(LocalError):  # The killed run had already performed all steps.
            part.open()
        part.drop_leftovers()
    return True


def _rename_complete(part: PartFile) -> bool:
    part.open()
    if not part.complete or part.ranges is not None:
        return False
    part.publish(None)
    return True
