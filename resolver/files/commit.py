"""The commit of complete files: data is synced to the disk, and then files get their final names (S14).

One call of syncfs(2) syncs all files of a file system, and costs little more than the fsync(2) of one file.
Since Linux 5.8 syncfs reports write errors. On other systems, writeback is first started for all files, and
then each file is synced separately.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from typing import Literal, TypeAlias, cast, get_args

from protocols.errors import LocalError
from resolver.files.atomic import sync_file, write_all
from resolver.files.names import make_taken_error
from resolver.files.part import PartFile, open_numbers
from resolver.files.part_state import set_time
from resolver.loops import Background, Loop, running

#: The minimum number of files for which one syncfs(2) takes less time than an fsync(2) for each file.
_MIN_SYNCFS_FILES = 3

#: FALLOC_FL_KEEP_SIZE of fallocate(2).
_KEEP_SIZE = 1

#: The size in bytes of an integer that can hold any file size.
_OFFSET_SIZE = 8

#: The first Linux version in which syncfs(2) reports write errors.
_MIN_LINUX = (5, 8)


def sync_files(fds: Sequence[int]) -> dict[int, OSError]:
    """Sync the files to the disk and return the errors by descriptor.

    `fds` are in the order in which they were opened, because syncfs(2) is called on the first descriptor. If
    another call has reported a write error before a descriptor was opened, Linux does not repeat the error.
    """
    sync_file_system = _sync_file_system() if len(fds) >= _MIN_SYNCFS_FILES else None
    if sync_file_system is None:
        return _sync_each(fds)
    failed: dict[int, OSError] = {}
    for group in _group_by_device(fds).values():
        if _ignores_syncfs(group[0]) or not sync_file_system(group[0]):
            failed.update(_sync_each(group))
    return failed


def _ignores_syncfs(fd: int) -> bool:
    """Return whether the file system may be FUSE (ID 0), because Linux ignores syncfs(2) on FUSE."""
    try:
        return not os.statvfs(fd).f_fsid
    except OSError:
        return True


def start_writeback(fd: int, begin: int, end: int) -> None:
    """Start writeback of the bytes from `begin` to `end`; (0, 0) means all bytes. Never raises."""
    if hasattr(os, "posix_fadvise"):
        with suppress(OSError):  # POSIX_FADV_DONTNEED makes Linux start the writeback of dirty pages.
            os.posix_fadvise(fd, begin, end - begin, os.POSIX_FADV_DONTNEED)


def allocate(fd: int, begin: int, end: int) -> None:
    """Preallocate disk space for the bytes from `begin` to `end`.

    Preallocation makes writeback in small blocks faster. The size of the file does not change. The function
    never raises an error, because a full disk is reported when the bytes are written.
    """
    if (fallocate := _fallocate()) is not None:
        fallocate(fd, _KEEP_SIZE, begin, end - begin)


def _sync_each(fds: Sequence[int]) -> dict[int, OSError]:
    if len(fds) > 1:
        for fd in fds:
            start_writeback(fd, 0, 0)
    return _call_each(sync_file, fds)


def _call_each(function: Callable[[int], None], fds: Sequence[int]) -> dict[int, OSError]:
    failed: dict[int, OSError] = {}
    for fd in fds:
        try:
            function(fd)
        except OSError as error:
            failed[fd] = error
    return failed


def _flush(fd: int) -> None:
    """Close a copy of the descriptor, because NFS and FUSE report a full disk or quota at a close."""
    os.close(os.dup(fd))


def _group_by_device(fds: Sequence[int]) -> dict[int, list[int]]:
    fds_by_device: dict[int, list[int]] = {}
    for fd in fds:
        fds_by_device.setdefault(os.fstat(fd).st_dev, []).append(fd)
    return fds_by_device


@cache
def _sync_file_system() -> Callable[[int], bool] | None:
    """Return syncfs(2), which Python lacks, or None if the system lacks it or hides its write errors."""
    if not _reports_errors():
        return None
    try:
        import ctypes  # imported lazily: needed only if several files are saved concurrently
    except ImportError:
        return None
    library = ctypes.CDLL(None)
    return (lambda fd: library.syncfs(fd) == 0) if hasattr(library, "syncfs") else None


@cache
def _fallocate() -> Callable[[int, int, int, int], int] | None:
    """Return fallocate(2), because Python's `os.posix_fallocate` changes the size of the file.

    Return None if the system lacks fallocate, or if file offsets have fewer than 64 bits.
    """
    try:
        import ctypes  # Imported lazily: only large files need it.
    except ImportError:
        return None
    library = ctypes.CDLL(None)
    if ctypes.sizeof(ctypes.c_long) < _OFFSET_SIZE or not hasattr(library, "fallocate"):
        return None
    call = library.fallocate
    call.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long)
    return cast("Callable[[int, int, int, int], int]", call)


def _reports_errors() -> bool:
    system, _, release, *_ = os.uname()
    numbers = release.split(".")[:2]
    return system == "Linux" and all(map(str.isdecimal, numbers)) and tuple(map(int, numbers)) >= _MIN_LINUX


# The last steps for a complete file (S14), in a worker thread: sync the data, then give the file its final
# name.
#
# - NAME.part is renamed to NAME.
# - A file in memory is written to an unnamed file (O_TMPFILE), which is then linked to NAME. If the process
#   is killed, the file is either complete or missing. So no state file, token or lock is necessary.
# - A file in memory is first written to NAME.part (`resolver.files.part`) in four cases: the file system does
#   not support unnamed files, the file replaces an existing file, another process has created NAME.part, or a
#   sidecar is written.


@dataclass(eq=False, repr=False)
class PendingFile:
    """A complete file during the commit.

    Methods raise `OSError` and `LocalError`.

    Attributes:
        ready: A callback between the sync and the renaming, or None. The errors of the callback are raised.
        octets: The bytes of a file in memory, before NAME.part exists. None for a file in NAME.part.
        fd: The descriptor to sync, after `complete`.
        nameless: The descriptor of the unnamed file; -1 without an unnamed file.
        error: The exception that was raised in a step of the commit, or None.
    """

    part: PartFile
    modified: datetime | None
    meta: bytes | None
    ready: Ready | None
    octets: bytes | bytearray | None = None
    fd: int = -1
    nameless: int = -1
    error: BaseException | None = None

    def complete(self) -> None:
        """Write the bytes that are still in memory."""
        part, octets = self.part, self.octets
        if octets is None or self.meta is not None or not part.is_free:
            return self._complete_part()
        if (fd := part.directory.create_nameless()) is None:
            return self._complete_part()
        self.fd = self.nameless = fd
        part.open_number = next(open_numbers)
        write_all(fd, octets, part.path)
        return set_time(fd, self.modified)

    def _complete_part(self) -> None:
        """Write the bytes in memory to NAME.part, and record that NAME.part is complete."""
        part = self.part
        if self.octets is not None:
            part.write_buffer(self.octets)
        part.record_state(part.known, complete=True)
        self.fd = part.fd
        set_time(self.fd, self.modified)

    def publish(self, *, durable: bool) -> None:
        """Give the synced file its final name, and close the file.

        Args:
            durable: Whether the directory is also synced.
        """
        part = self.part
        if self.nameless == -1:
            return part.publish(self.meta, durable=durable)
        try:
            has_name = part.directory.give_name(self.nameless, part.name)
        except FileExistsError as error:
            if not part.can_replace:
                raise make_taken_error(part.path) from error
            has_name = False
        if not has_name:
            self._complete_part()
            sync_file(self.fd)
            return part.publish(None, durable=durable)
        if durable:
            part.directory.sync()
        return part.close()

    def close(self) -> None:
        """Abandon an unnamed file. The `PartialFile` closes NAME.part."""
        if self.nameless != -1:
            os.close(self.nameless)
        self.nameless = -1


# Group commit: files that are completed at the same time are synced together. Then the files get their names.
#
# At most two groups exist at a time. A worker thread syncs the first group, while the second group collects
# files. A file never waits for further files, so a group may contain only one file. The option `sync` sets
# the guarantee for a file with its final name:
#
# - `always`: The data and the name are on the disk before the save is reported. Each file is synced
#   separately.
# - `group`: The data is on the disk. The system writes the name to the disk later, never before the data.
# - `never`: After a loss of power, the file with the final name may be empty or truncated. After a crash of
#   only the process, the file is complete.

Sync: TypeAlias = Literal["always", "group", "never"]

#: A callback with the inode number of a synced file. The callback runs before the file gets its name. The
#: callback runs in a worker thread, and returns a function that writes the record of the file to the disk. If
#: several files have the same function, it is called only once.
Ready: TypeAlias = Callable[[int], Callable[[], None]]


class GroupCommit:
    """The group commit of a `Resolver`. It runs in one event loop at a time.

    Raises:
        ValueError: `sync` is not a value of `Sync`.
    """

    def __init__(self, sync: Sync = "group") -> None:
        if sync not in get_args(Sync):
            raise ValueError(f"sync must be one of {', '.join(get_args(Sync))}, got {sync!r}")
        self._sync: Sync = sync
        self._run: object = None
        self._next_group: _CommitGroup | None = None

    async def finish(self, file: PendingFile) -> None:
        """Complete the file, sync it, call its `ready`, and give the file its final name.

        A cancellation takes effect only after the commit is complete. With trio, a cancellation takes effect
        at the caller's next await, so the caller still gets the result of the commit.
        """
        loop = running()
        try:
            if self._sync == "always":
                await loop.in_thread(_perform, [file], "always")
            else:
                group = self._group(loop)
                group.files.append(file)
                await group.work.wait()
                if not group.is_over:
                    # A cancellation or an error has ended the background task too early.
                    await loop.checkpoint_if_cancelled()
                    raise LocalError("the event loop ended before the file was on the disk")
            if file.error is not None:
                raise file.error
        finally:
            file.close()

    def _group(self, loop: Loop) -> _CommitGroup:
        """Return the group that collects files."""
        if self._run is not (run := loop.run()):
            self._run, self._sync_lock, self._next_group = run, loop.lock(), None
        if self._next_group is None:
            group = self._next_group = _CommitGroup()
            group.work = loop.in_background(partial(self._work, loop, group))
        return self._next_group

    async def _work(self, loop: Loop, group: _CommitGroup) -> None:
        async with self._sync_lock:
            self._next_group = None
            try:
                await loop.in_thread(_perform, group.files, self._sync)
            except OSError as error:  # The system has no thread left.
                for file in group.files:
                    file.error = error
            group.is_over = True


class _CommitGroup:
    """The commits of several files that a worker thread performs together."""

    work: Background

    def __init__(self) -> None:
        self.files: list[PendingFile] = []
        self.is_over = False


def _perform(files: Sequence[PendingFile], sync: Sync) -> None:
    """Perform the commits. The caller is a worker thread, because a sync to the disk may take seconds."""
    writes: dict[Callable[[], None], list[PendingFile]] = {}

    def record(file: PendingFile) -> None:
        if file.ready is not None:
            writes.setdefault(file.ready(os.fstat(file.fd).st_ino), []).append(file)

    _perform_each(files, lambda file: file.complete())
    completed = [file for file in files if file.error is None]
    if completed:
        fds = [file.fd for file in sorted(completed, key=lambda file: file.part.open_number)]
        failed = {} if sync == "never" else sync_files(fds)
        failed |= _call_each(_flush, fds)
        for file in completed:
            if (error := failed.get(file.fd)) is not None:
                file.error = error
                file.part.can_resume = False  # After a failed sync, Linux may drop the data.
    _perform_each(completed, record)
    for write, recorded in writes.items():
        try:
            write()
        except BaseException as error:  # noqa: BLE001 - raised where the files are waited for
            for file in recorded:
                file.error = error
    _perform_each(completed, lambda file: file.publish(durable=sync == "always"))


def _perform_each(files: Sequence[PendingFile], perform: Callable[[PendingFile], None]) -> None:
    """Call the function for each commit without an error."""
    for file in files:
        if file.error is None:
            try:
                perform(file)
            except BaseException as error:  # noqa: BLE001 - raised where the file is waited for
                file.error = error
