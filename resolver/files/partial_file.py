"""The only files into which a peer's bytes are written: NAME.part, or memory, until complete (S14).

A body grows in NAME.part beside its final name, created exclusively and through no link, and gets its name in
one step once it is complete and on the disk. A small body, of which nothing is on the disk yet, is held in
memory until it is complete. The directory is held open meanwhile, so that renaming it cannot send the file
elsewhere. No file is ever made executable. `resolver.files.part` and `resolver.files.commit` handle the
names; this module has the bytes, the waiting and the texts of system errors.
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

#: Seconds between two beginnings of writing what has come: some 100 MB from this machine itself.
_SET_GOING_EVERY = 0.1

#: Octets that have their place on the disk before they come, at most: a peer that announces more than it
#: sends, or a run that is killed, takes no more of it than that.
_AHEAD = 134_217_728

#: Octets hashed without a look at whether anybody still wants the digest: some 0.1 s.
_HASHED_AT_ONCE = 67_108_864


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
    whether a sidecar can be written. As many octets as it `holds` are in memory until the file is whole,
    where nothing has a name that it needs; `commits` is the company in which it gets to the disk.
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
        self.allocated = 0  # up to where it has its place on the disk
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
        """Could another run go on with it? Who interrupts us gets to keep what arrived in any case."""
        interrupted = kind is not None and is_cancel(kind)
        return self.position > 0 and self._part.kept and (self.known != Validators() or interrupted)

    def _leave_held(self, kind: type[BaseException] | None) -> None:
        """What is in memory is put where a later run finds it, if it could go on with that."""
        interrupted = kind is not None and is_cancel(kind)
        if self._held and (self.known != Validators() or interrupted):
            with suppress(OSError, LocalError):
                self._open()
                if self._part.kept:
                    self.keep()
        self.discard()

    @property
    def is_held(self) -> bool:
        """Is it in memory alone?"""
        return self._held is not None

    def grow(self) -> None:
        """From now on it grows in NAME.part, which is of what is `known`."""
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
        """What the octets in the file are of."""
        return self._part.known

    @property
    def finished(self) -> bool:
        return self._part.finished

    @property
    def dropped(self) -> str | None:
        return self._part.dropped

    async def remember(self, known: Validators) -> None:
        """Write down what the octets that follow are of, before the first of them is written. Those of an
        object that is too large to be held go to NAME.part from now on."""
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
        """Begin again at octet 0: what was there is of another state of the object. What had the final
        name before has it again, until the new file takes its place."""
        if self._held is not None:
            self._held.clear()
            self._part.known = Validators()
            return
        try:
            self._part.restart()
        except OSError as error:
            raise writing_fault(error, self.path) from error

    def tail(self, count: int) -> bytes:
        """The last `count` octets."""
        if self._held is not None:
            return bytes(self._held[-count:]) if count else b""
        return os.pread(self._part.fd, count, max(0, self.position - count))

    def fileno(self) -> int:
        if self._held is not None:
            self.grow()
        return self._part.fd

    @property
    def position(self) -> int:
        """Octets in the file so far, those moved in bulk included."""
        if self._held is not None:
            return len(self._held)
        whole = self._part.whole
        return self._part.position if whole is None else octets_of(whole)

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
        whole, position = self._part.whole, self.position
        return whole if whole is not None else ((0, position),) if position else ()

    async def spread(self, known: Validators, whole: Ranges) -> None:
        """From now on octets come in pieces, to where they belong. What is there of an object in this state
        is written down before, and again each time that more is."""
        try:
            self._open()
        except OSError as error:
            raise writing_fault(error, self.path) from error
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

    def record_ranges(self, whole: Ranges) -> None:
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
        if self._held is not None:
            if len(self._held) + len(octets) <= self._holds:
                self._held += octets
                return
            self.grow()
        write_all(self._part.fd, octets, self.path)

    async def write_back(self, size: int) -> None:
        """Until it is cancelled: what has come of so many octets is set going to the disk, so that little is
        left to do in the end, and those that come next have their place there. What is dropped before that is
        written in vain."""
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
        """What did not come needs no place."""
        with suppress(OSError):
            if self.allocated > self.position == os.fstat(self._part.fd).st_size:
                os.ftruncate(self._part.fd, self.position)

    async def set_going(self) -> None:
        """The same of all that has come until now, wherever it belongs."""
        await self._loop.in_thread(set_going, self._part.fd, 0, 0)

    async def digest(self, algorithm: str) -> str:
        """The digest of what is in the file, in hex. It is read in a worker thread, piece by piece, so that
        a cancellation is heeded soon."""
        if self._held is not None:
            return hashlib.new(algorithm, self._held).hexdigest()
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
        ready: Ready | None = None,
    ) -> None:
        """Bring the file to the disk, set its time, give it its name, and `meta` that of its sidecar. In a
        worker thread, for a disk may take seconds, and together with others; not to be cancelled half way.
        `ready` is awaited, with its inode, when it is on the disk, before it gets its name."""
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
        """Close, and leave NAME.part where it is: what arrived can be continued."""
        if self._held is not None:
            self.grow()
        self.left = self.position
        if self._part.whole is not None:
            with suppress(OSError, LocalError):  # what was written down last is true, too
                self._part.note(self.known, complete=False)
        self._part.close()

    def discard(self) -> None:
        """Close, and remove NAME.part; harmless after `commit` and `keep`."""
        self._held = None
        self._part.discard()


# Files that an earlier run had completed when it was killed, and the steps that were left.


def has_size(path: str, size: int) -> bool:
    """Is a file of that size there?"""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size == size


def sync_directories(paths: Iterable[str]) -> None:
    """Bring the names of these files to the disk. A file system that has no such thing has none to lose."""
    for directory in {os.path.dirname(path) for path in paths}:
        with suppress(OSError):
            fd = os.open(directory or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)


def finish(path: str, source: str, *, inode: int, size: int, sidecar: bool, below: str | None = None) -> bool:
    """Has the file of that inode and size this name, or could it be given it? Then nothing is left of the
    steps that lead there. `source` is what it came from, `below` a directory from which no link leads there.
    With a `sidecar` it gets no name here: what stands there has to be found once more."""
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
    """Is it the file of that inode and size, and no link?"""
    try:
        found = os.lstat(path)
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(found.st_mode) and (found.st_ino, found.st_size) == (inode, size)


def _conclude(part: PartFile) -> bool:
    """A run was killed behind the renaming: what told of it goes."""
    with suppress(LocalError):  # nothing was left to do
        part.open()
    return True


def _name(part: PartFile) -> bool:
    part.open()
    if not part.complete or part.whole is not None:
        return False
    part.settle(None)
    return True
