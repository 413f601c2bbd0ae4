"""The commit of complete files: their data is synced to the disk, then they get their names (S14).

One call of syncfs(2) syncs the whole file system and thus several files, and it costs little more than the
sync of one file. Since Linux 5.8 syncfs reports write errors. On other systems each file is synced
separately, after writeback was started for all of them.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cache, partial
from typing import Literal, NoReturn, Protocol, TypeAlias, cast, get_args

from protocols.errors import LocalError
from resolver.files.names import make_taken_error
from resolver.files.part import PartFile
from resolver.files.part_state import set_time, write_all
from resolver.loops import Background, Loop, running

#: From this number of files on, one syncfs is cheaper than an fsync per file.
_SEVERAL = 3

#: FALLOC_FL_KEEP_SIZE of fallocate(2).
_KEEP_SIZE = 1

#: The bytes of an integer that holds the size of any file.
_WIDE = 8

#: Since Linux 5.8 syncfs(2) reports write errors.
_TELLS = (5, 8)


def bring(fds: Sequence[int]) -> dict[int, OSError]:
    """Sync these files to the disk; return the errors by descriptor."""
    sync_file_system = _sync_file_system() if len(fds) >= _SEVERAL else None
    if sync_file_system is None:
        return _sync_each(fds)
    failed: dict[int, OSError] = {}
    for alike in _by_file_system(fds).values():
        if not sync_file_system(alike[0]):
            failed.update(_sync_each(alike))
    return failed


def set_going(fd: int, begin: int, end: int) -> None:
    """Ask the system to start writeback of these bytes, or of all bytes for (0, 0). Never raises."""
    if hasattr(os, "posix_fadvise"):
        with suppress(OSError):  # Linux starts writeback of dirty pages marked DONTNEED.
            os.posix_fadvise(fd, begin, end - begin, os.POSIX_FADV_DONTNEED)


def allocate(fd: int, begin: int, end: int) -> None:
    """Ask the system to allocate disk space for these bytes before they arrive.

    With allocated space, writeback in small blocks is faster. The size of the file does not change. Never
    raises: a full disk is reported when the bytes are written.
    """
    if (fallocate := _fallocate()) is not None:
        fallocate(fd, _KEEP_SIZE, begin, end - begin)


def _sync_each(fds: Sequence[int]) -> dict[int, OSError]:
    failed: dict[int, OSError] = {}
    if len(fds) > 1:
        for fd in fds:
            set_going(fd, 0, 0)
    for fd in fds:
        try:
            os.fsync(fd)
        except OSError as error:
            failed[fd] = error
    return failed


def _by_file_system(fds: Sequence[int]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for fd in fds:
        found.setdefault(os.fstat(fd).st_dev, []).append(fd)
    return found


@cache
def _sync_file_system() -> Callable[[int], bool] | None:
    """Return syncfs(2), which Python lacks; None if the system's syncfs does not report write errors."""
    if not _tells_of_errors():
        return None
    try:
        import ctypes  # Imported lazily: only a run that saves several files concurrently needs it.
    except ImportError:
        return None
    library = ctypes.CDLL(None)
    return (lambda fd: library.syncfs(fd) == 0) if hasattr(library, "syncfs") else None


@cache
def _fallocate() -> Callable[[int, int, int, int], int] | None:
    """Return fallocate(2), since Python's version changes the size of the file.

    None if the system lacks it, or its file offsets have fewer than 64 bits.
    """
    try:
        import ctypes  # Imported lazily: only large files need it.
    except ImportError:
        return None
    library = ctypes.CDLL(None)
    if ctypes.sizeof(ctypes.c_long) < _WIDE or not hasattr(library, "fallocate"):
        return None
    call = library.fallocate
    call.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long)
    return cast("Callable[[int, int, int, int], int]", call)


def _tells_of_errors() -> bool:
    system, _, release, *_ = os.uname()
    numbers = release.split(".")[:2]
    return system == "Linux" and all(map(str.isdecimal, numbers)) and tuple(map(int, numbers)) >= _TELLS


# The last steps of a complete file (S14): sync its data, then give it its name. A worker thread performs
# them.
#
# - NAME.part is renamed.
# - A file that was held in memory is written to an unnamed file (O_TMPFILE) and linked to NAME. A killed
#   process leaves either the complete file or nothing, so this file needs no state, token or lock.
# - A file that was held in memory takes all the steps of `resolver.files.part` in four cases: the file system
#   lacks unnamed files, the file replaces another one, another process created NAME.part meanwhile, or a
#   sidecar must describe exactly this file.


class PendingFile(Protocol):
    """A file during its last steps. Methods raise `OSError` and `LocalError`."""

    def complete(self) -> int:
        """Write the bytes that are still in memory, and return the descriptor."""
        ...

    def settle(self, *, durable: bool) -> None:
        """Give the synced file its name, and close it.

        Args:
            durable: Whether the directory is synced, too.
        """
        ...

    def close(self) -> None:
        """Abandon the file; has no effect after `settle`."""
        ...


class PendingPartFile:
    """A pending file whose bytes are in NAME.part."""

    def __init__(self, part: PartFile, modified: datetime | None, meta: bytes | None) -> None:
        self._part = part
        self._modified = modified
        self._meta = meta

    def complete(self) -> int:
        self._part.note(self._part.known, complete=True)
        set_time(self._part.fd, self._modified)
        return self._part.fd

    def settle(self, *, durable: bool) -> None:
        self._part.settle(self._meta, durable=durable)

    def close(self) -> None:
        """Leave NAME.part to its owner."""


class UnopenedPart:
    """A pending file whose bytes are in memory, while NAME.part is not open."""

    def __init__(
        self, part: PartFile, octets: bytes | bytearray, modified: datetime | None, meta: bytes | None
    ) -> None:
        self._part = part
        self._octets = octets
        self._modified = modified
        self._meta = meta
        self._fd = -1

    def complete(self) -> int:
        part = self._part
        fd = part.directory.create_nameless() if self._meta is None and part.is_free else None
        if fd is None:
            return self._grow()
        self._fd = fd
        write_all(fd, self._octets, part.path)
        set_time(fd, self._modified)
        return fd

    def _grow(self) -> int:
        """Write the bytes to NAME.part. An empty file needs no state file before that."""
        self._part.begin_with(self._octets)
        return PendingPartFile(self._part, self._modified, self._meta).complete()

    def settle(self, *, durable: bool) -> None:
        part = self._part
        if self._fd == -1:
            return part.settle(self._meta, durable=durable)
        try:
            has_name = part.directory.give_name(self._fd, part.name)
        except FileExistsError as error:
            if not part.replaces:
                raise make_taken_error(part.path) from error
            has_name = False
        self.close()
        if not has_name:
            os.fsync(self._grow())
            return part.settle(None, durable=durable)
        if durable:
            part.directory.sync()
        return part.close()

    def close(self) -> None:
        if self._fd != -1:
            os.close(self._fd)
        self._fd = -1


# Group commit: files that end at the same time are synced together, before any of them gets its name.
#
# Two groups exist at a time: a worker thread syncs one group while the next group collects files. A file
# never waits for other files to arrive: a single file forms its own group. A group is passed to a thread
# once, however many files it has. `sync` sets the guarantee for a file that has its name:
#
# - `always`: its data and its name are on the disk before the save is reported. Each file is synced alone;
# - `group`: its data is on the disk. The name follows when the system writes it, and never before the data;
# - `never`: no guarantee. A loss of power may leave an empty or truncated file under its name. The end of the
#   process, for any cause, cannot.

Sync: TypeAlias = Literal["always", "group", "never"]

#: A callback that receives the inode of a file on the disk, before the file gets its name.
Ready: TypeAlias = Callable[[int], Awaitable[None]]


class GroupCommit:
    """The group commit of a `Resolver`, for one run of an event loop at a time.

    Raises:
        ValueError: `sync` is not a value of `Sync`.
    """

    def __init__(self, sync: Sync = "group") -> None:
        if sync not in get_args(Sync):
            raise ValueError(f"sync must be one of {', '.join(get_args(Sync))}, got {sync!r}")
        self._sync: Sync = sync
        self._run: object = None
        self._gathering: _CommitGroup | None = None

    async def finish(self, landing: PendingFile, ready: Ready | None = None) -> None:
        """Complete the file, sync it, wait for `ready`, and give it its name.

        A cancellation does not interrupt these steps and takes effect after them. Under trio it takes effect
        at the caller's next await, so that the caller still learns that the file has its name.

        Args:
            landing: The file; its errors are raised.
            ready: A callback between the sync and the renaming; its errors are raised.
        """
        try:
            if ready is None:
                await self._take(_CommitStep(landing, completes=True, settles=True))
            else:
                await self._take_twice(landing, ready)
        finally:
            landing.close()

    async def _take_twice(self, landing: PendingFile, ready: Ready) -> None:
        """Take both steps in a background task, so that a cancellation cannot come between them."""
        ended: list[Exception | None] = []

        async def take() -> None:
            try:
                step = _CommitStep(landing, completes=True, settles=False)
                await self._take(step)
                await ready(step.inode)
                await self._take(_CommitStep(landing, completes=False, settles=True))
            except Exception as error:  # noqa: BLE001 - raised where the file is waited for
                ended.append(error)
            else:
                ended.append(None)

        loop = running()
        await loop.in_background(take).wait()
        if not ended:
            await _raise_left(loop)
        for error in filter(None, ended):
            raise error

    async def _take(self, step: _CommitStep) -> None:
        loop = running()
        if self._sync == "always":
            await loop.in_thread(_perform, [step], "always")
        else:
            if self._run is not (run := loop.run()):
                self._run, self._turn, self._gathering = run, loop.lock(), None
            group = self._gathering
            if group is None:
                group = self._gathering = _CommitGroup()
                group.work = loop.in_background(partial(self._work, group))
            group.steps.append(step)
            await group.work.wait()
            if not group.is_over:
                await _raise_left(loop)
        if step.error is not None:
            raise step.error

    async def _work(self, group: _CommitGroup) -> None:
        async with self._turn:
            self._gathering = None
            await running().in_thread(_perform, group.steps, self._sync)
            group.is_over = True


async def _raise_left(loop: Loop) -> NoReturn:
    """Raise the cancellation or the error that ended the background task before its work was done."""
    await loop.checkpoint_if_cancelled()
    raise LocalError("the event loop ended before the file was on the disk")


class _CommitGroup:
    """The steps that one worker thread takes together."""

    work: Background

    def __init__(self) -> None:
        self.steps: list[_CommitStep] = []
        self.is_over = False


class _CommitStep:
    """A step of one file; `error` is the exception that it raised."""

    __slots__ = ("_landing", "completes", "error", "fd", "inode", "settles")

    def __init__(self, landing: PendingFile, *, completes: bool, settles: bool) -> None:
        self._landing = landing
        self.completes = completes
        self.settles = settles
        self.error: BaseException | None = None
        self.fd = -1
        self.inode = 0

    def complete(self) -> None:
        try:
            self.fd = self._landing.complete()
            if not self.settles:
                self.inode = os.fstat(self.fd).st_ino
        except BaseException as error:  # noqa: BLE001 - raised where the file is waited for
            self.error = error

    def settle(self, *, durable: bool) -> None:
        try:
            self._landing.settle(durable=durable)
        except BaseException as error:  # noqa: BLE001 - raised where the file is waited for
            self.error = error


def _perform(steps: Sequence[_CommitStep], sync: Sync) -> None:
    """Take the steps. Runs in a worker thread, because the disk may need seconds."""
    completed = []
    for step in steps:
        if step.completes:
            step.complete()
            if step.error is None:
                completed.append(step)
    if completed and sync != "never":
        failed = bring([step.fd for step in completed])
        for step in completed:
            step.error = failed.get(step.fd)
    for step in steps:
        if step.settles and step.error is None:
            step.settle(durable=sync == "always")
