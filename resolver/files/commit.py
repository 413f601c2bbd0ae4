"""The commit of complete files: their data to the disk, then their names (S14).

Several files are synced by one call for their whole file system (syncfs), which costs little more than one
file does. Since Linux 5.8 that call reports write errors; elsewhere each file is synced, after writeback was
started for all.
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

#: From so many files on one call for all is cheaper.
_SEVERAL = 3

#: Of fallocate(2).
_KEEP_SIZE = 1

#: Octets of a number that counts those of any file.
_WIDE = 8

#: Since when syncfs(2) tells of errors.
_TELLS = (5, 8)


def bring(fds: Sequence[int]) -> dict[int, OSError]:
    """Bring these files to the disk; why not, for each of which that cannot be said."""
    sync_file_system = _sync_file_system() if len(fds) >= _SEVERAL else None
    if sync_file_system is None:
        return _sync_each(fds)
    failed: dict[int, OSError] = {}
    for alike in _by_file_system(fds).values():
        if not sync_file_system(alike[0]):
            failed.update(_sync_each(alike))
    return failed


def set_going(fd: int, begin: int, end: int) -> None:
    """Have the system begin to write these octets, or all of 0 to 0, if it likes. Never raises."""
    if hasattr(os, "posix_fadvise"):
        with suppress(OSError):  # Linux begins to write what is not wanted in memory any more
            os.posix_fadvise(fd, begin, end - begin, os.POSIX_FADV_DONTNEED)


def allocate(fd: int, begin: int, end: int) -> None:
    """Have the system give these octets their place on the disk before they come, if it can: what is written
    back piece by piece gets there sooner then. The file stays as long as it is. Never raises: that a disk is
    full is told where they are written."""
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
    """Python has no syncfs. None where the system has none that tells of errors."""
    if not _tells_of_errors():
        return None
    try:
        import ctypes  # it is for who saves several files at once
    except ImportError:
        return None
    library = ctypes.CDLL(None)
    return (lambda fd: library.syncfs(fd) == 0) if hasattr(library, "syncfs") else None


@cache
def _fallocate() -> Callable[[int, int, int, int], int] | None:
    """Python's has the file grow. None where the system has none, or counts octets in fewer than 64 bits."""
    try:
        import ctypes  # it is for large files
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


# The last steps of a complete file (S14): all of it on the disk, then its name.
#
# NAME.part is renamed. A file that was held in memory is written to a file without a name where the file
# system has such files, and linked to NAME: a killed process leaves the whole of it or nothing, so there is
# no state, no token and no lock. All the steps of `resolver.files.part` are taken where the file system has
# no such files, where the file replaces another one, where another process has begun NAME.part meanwhile, and
# where a sidecar must describe exactly this file.
#
# A worker thread does these steps.


class PendingFile(Protocol):
    """A file on its last steps. Raises `OSError` and `LocalError`."""

    def complete(self) -> int:
        """Write what is not written yet; its descriptor."""
        ...

    def settle(self, *, durable: bool) -> None:
        """It is on the disk: it gets its name, and is closed. If that is to be `durable`, the name is on the
        disk then, too."""
        ...

    def close(self) -> None:
        """Nothing comes of it; harmless after `settle`."""
        ...


class PendingPartFile:
    """What is in NAME.part."""

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
        """NAME.part stays, for whoever has it."""


class UnopenedPart:
    """What is in memory, of a part that was looked at and not opened."""

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
        """An empty one needs no state before its octets are there."""
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


# group commit: When files get to the disk: those that end together are brought there together, before any
# of them gets its name.
#
# While one group is on its way, the next one gathers: nobody waits for company, and who is alone is a group
# of one. A group takes one hop to a thread, however many it is. What may be said once a file has its name:
#
# - `always`: its octets and its name are on the disk, before anybody hears that it is saved;
# - `group`: its octets are on the disk; its name follows when the system writes it, and never without them;
# - `never`: nothing: a loss of power may leave an empty file, or one that is cut, under its name. The end of
#   the process cannot, whatever ends it.

Sync: TypeAlias = Literal["always", "group", "never"]

#: Is told the inode of a file that is on the disk, before it gets its name.
Ready: TypeAlias = Callable[[int], Awaitable[None]]


class GroupCommit:
    """Of one `Resolver`. To be used in one run of a loop at a time. Raises `ValueError` for another word."""

    def __init__(self, sync: Sync = "group") -> None:
        if sync not in get_args(Sync):
            raise ValueError(f"sync is {', '.join(get_args(Sync))}, not {sync!r}")
        self._sync: Sync = sync
        self._run: object = None
        self._gathering: _CommitGroup | None = None

    async def finish(self, landing: PendingFile, ready: Ready | None = None) -> None:
        """Complete the file, bring it to the disk, wait for `ready`, give it its name. Not to be cancelled
        half way: a cancel is heard of behind that, under trio where the caller waits next, so that it still
        learns that the file has its name. Raises what the landing raises, and `ready`."""
        try:
            if ready is None:
                await self._take(_CommitStep(landing, completes=True, settles=True))
            else:
                await self._take_twice(landing, ready)
        finally:
            landing.close()

    async def _take_twice(self, landing: PendingFile, ready: Ready) -> None:
        """In the background, where no cancel of the caller is heard between the steps."""
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
    """What was begun in the background is over, and not done."""
    await loop.checkpoint_if_cancelled()
    raise LocalError("the loop has ended before the file was on the disk")


class _CommitGroup:
    """Steps that are done together."""

    work: Background

    def __init__(self) -> None:
        self.steps: list[_CommitStep] = []
        self.is_over = False


class _CommitStep:
    """Of one file. `error` is what went wrong."""

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
    """In a worker thread: a disk may take seconds."""
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
