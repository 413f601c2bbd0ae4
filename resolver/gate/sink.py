"""Files that we write: the only place where a peer's octets become a file of ours (S14).

A body grows in NAME.part beside its final name, created exclusively and through no link, and gets its
name in one step once it is whole and on the disk. The directory is held open meanwhile, so that
renaming it cannot send the file elsewhere. Nothing is ever made executable.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import itertools
import os
import stat
from contextlib import suppress
from datetime import UTC, datetime
from types import TracebackType
from typing import Literal, TypeAlias

import trio

from protocols.contract import Validators
from protocols.errors import LocalError
from resolver.gate.faults import writing_fault
from resolver.gate.part_state import PartState, read_state, write_state

#: What to do about a file that has the name already: `fail` before anything is fetched, or `replace`.
Existing: TypeAlias = Literal["fail", "replace"]

_PIECE = 1_048_576

# For reading too, for the digest is taken from the file itself. Not blocking, should it be a pipe.
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK

# What a file system says that has no second name for a file (FAT, some network ones).
_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EXDEV})


def is_there(path: str) -> bool:
    """Has anything this name already, be it a link that leads nowhere?"""
    return os.path.lexists(path)


def modified_time(path: str) -> datetime:
    """When the file was last modified. Raises `LocalError`."""
    try:
        return datetime.fromtimestamp(os.stat(path).st_mtime, UTC)
    except OSError as error:
        raise writing_fault(error, path) from error


def size_of(path: str) -> int:
    """Octets in the file; 0 where it cannot be told."""
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def free_name(path: str) -> str:
    """`path`, or the first of `path.1`, `path.2`, … that nothing has."""
    names = itertools.chain((path,), (f"{path}.{number}" for number in itertools.count(1)))
    return next(name for name in names if not is_there(name))


class Sink:
    """An async context manager around NAME.part. All errors are `LocalError` and say what, where and what
    to do.

    Entering creates the file, or takes up the one that an earlier run left for the same `source` (a URL
    without a password): then `position` and `known` say how far that came and of what. Leaving without
    `commit` keeps what arrived if a later run could go on with it, and removes it if not. A file that
    another process is writing, or that is none of ours, is left alone.

    With `adopt`, a file that has the final name already counts as begun. With `make_directory` the
    directory is made first.
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
    ) -> None:
        self.path = path
        self.known = Validators()
        self.finished = False
        self._exists = exists
        self._source = source
        self._adopt = adopt
        self._make_directory = make_directory
        self._directory = -1
        self._fd = -1
        self._name = os.path.basename(path)
        self._part = f"{self._name}.part"
        self._state = f"{self._name}.part-state"

    async def __aenter__(self) -> Sink:
        try:
            self._open()
        except OSError as error:
            self._close()
            raise writing_fault(error, self.path) from error
        except LocalError:
            self._close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._fd != -1 and self.position and self.known != Validators():
            self.keep()
        else:
            self.discard()

    def _open(self) -> None:
        if self._name in ("", ".", ".."):
            raise LocalError(f"cannot write {self.path!r}: this is the name of a directory")
        where = os.path.dirname(self.path) or "."
        if self._make_directory:
            os.makedirs(where, exist_ok=True)
        self._directory = os.open(where, getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC)
        state = read_state(self._state, self._directory)
        if self._is_there():
            self._meet_the_finished(state)
        if not self.finished:
            self._take_part(state)

    def _meet_the_finished(self, state: PartState | None) -> None:
        """There is a file of the final name: ours from a run that was killed at the very end, or not."""
        if state is not None and state.complete and state.url == self._source:
            self.finished = True
            self._forget(self._part)
            self._forget(self._state)
        elif self._adopt:
            os.rename(self._name, self._part, src_dir_fd=self._directory, dst_dir_fd=self._directory)
            write_state(self._state, self._directory, PartState(self._source, Validators()))
        elif self._exists == "fail":
            raise self._taken()

    def _take_part(self, state: PartState | None) -> None:
        try:
            self._fd = os.open(self._part, _FLAGS | os.O_EXCL, 0o666, dir_fd=self._directory)
        except FileExistsError:
            self._take_up(read_state(self._state, self._directory) if self._adopt else state)
        else:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _take_up(self, state: PartState | None) -> None:
        """Go on with a file of an earlier run. An empty one is ours too: the state is written next."""
        try:
            self._fd = os.open(self._part, _FLAGS, dir_fd=self._directory)
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise LocalError(f"{self.path + '.part'!r} is being written by another transfer") from error
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
                raise
            raise self._foreign() from error
        found = os.fstat(self._fd)
        if not stat.S_ISREG(found.st_mode) or (state is None and found.st_size):
            raise self._foreign()
        if state is not None and state.url == self._source:
            self.known = state.known
            os.lseek(self._fd, 0, os.SEEK_END)
        else:
            self.restart()

    def _foreign(self) -> LocalError:
        return LocalError(
            f"{self.path + '.part'!r} exists and is no transfer that could go on; remove it to start anew"
        )

    def _is_there(self) -> bool:
        try:
            os.stat(self._name, dir_fd=self._directory, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True

    def _taken(self) -> LocalError:
        return LocalError(f"{self.path!r} exists already and is left as it is (--exists chooses otherwise)")

    async def remember(self, known: Validators) -> None:
        """Write down what the octets that follow are of, before the first of them is written."""
        self.known = known
        await self._note(complete=False)

    async def _note(self, *, complete: bool) -> None:
        state = PartState(self._source, self.known, complete)
        try:
            await trio.to_thread.run_sync(write_state, self._state, self._directory, state)
        except OSError as error:
            raise writing_fault(error, self.path) from error

    def restart(self) -> None:
        """Begin again at octet 0: what was there is of another state of the object."""
        try:
            os.ftruncate(self._fd, 0)
            os.lseek(self._fd, 0, os.SEEK_SET)
        except OSError as error:
            raise writing_fault(error, self.path) from error
        self.known = Validators()

    def tail(self, count: int) -> bytes:
        """The last `count` octets."""
        return os.pread(self._fd, count, max(0, self.position - count))

    def fileno(self) -> int:
        return self._fd

    @property
    def position(self) -> int:
        """Octets in the file so far, those moved in bulk included."""
        return os.lseek(self._fd, 0, os.SEEK_CUR)

    def write(self, octets: bytes | memoryview) -> None:
        left = memoryview(octets)
        try:
            while left:
                left = left[os.write(self._fd, left) :]
        except OSError as error:
            raise writing_fault(error, self.path) from error

    def digest(self, algorithm: str) -> str:
        """The digest of what is in the file, in hex. Reads all of it: call it in a worker thread."""
        digest = hashlib.new(algorithm)
        offset = 0
        try:
            while octets := os.pread(self._fd, _PIECE, offset):
                digest.update(octets)
                offset += len(octets)
        except OSError as error:
            raise LocalError(f"cannot read back {self.path!r}: {error.strerror}") from error
        return digest.hexdigest()

    async def commit(self, modified: datetime | None = None) -> None:
        """Bring the file to the disk, set its time, give it its name. In a worker thread, for a disk may
        take seconds; not to be cancelled half way."""
        await self._note(complete=True)
        try:
            await trio.to_thread.run_sync(self._settle, modified)
        except OSError as error:
            raise writing_fault(error, self.path) from error

    def _settle(self, modified: datetime | None) -> None:
        if modified is not None:
            with suppress(OSError, OverflowError, ValueError):  # a time that the file system cannot hold
                os.utime(self._fd, (modified.timestamp(), modified.timestamp()))
        os.fsync(self._fd)
        self._check_part()
        if self._exists == "replace":
            os.replace(self._part, self._name, src_dir_fd=self._directory, dst_dir_fd=self._directory)
        else:
            self._name_new()
        self._forget(self._state)
        self._close()

    def _check_part(self) -> None:
        """Is NAME.part still the file that we wrote? Others may be able to write to the directory."""
        try:
            named = os.stat(self._part, dir_fd=self._directory, follow_symlinks=False)
        except FileNotFoundError:
            named = None
        if named is None or not os.path.samestat(named, os.fstat(self._fd)):
            raise LocalError(f"{self.path + '.part'!r} was removed or replaced while it was written")

    def _name_new(self) -> None:
        """Rename without overwriting: rename(2) would replace what is there, a second name never does."""
        try:
            os.link(self._part, self._name, src_dir_fd=self._directory, dst_dir_fd=self._directory)
        except FileExistsError as error:
            raise self._taken() from error
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            self._name_reserved()
        else:
            os.unlink(self._part, dir_fd=self._directory)

    def _name_reserved(self) -> None:
        """Without links: take the name with an empty file of our own, then replace that."""
        try:
            os.close(os.open(self._name, _FLAGS | os.O_EXCL, 0o666, dir_fd=self._directory))
        except FileExistsError as error:
            raise self._taken() from error
        os.replace(self._part, self._name, src_dir_fd=self._directory, dst_dir_fd=self._directory)

    def keep(self) -> None:
        """Close, and leave NAME.part where it is: what arrived can be continued."""
        self._close()

    def discard(self) -> None:
        """Close, and remove NAME.part; harmless after `commit` and `keep`."""
        if self._fd != -1:
            with suppress(OSError, LocalError):
                self._check_part()
                os.unlink(self._part, dir_fd=self._directory)
            self._forget(self._state)
        self._close()

    def _forget(self, name: str) -> None:
        with suppress(OSError):
            os.unlink(name, dir_fd=self._directory)

    def _close(self) -> None:
        for fd in (self._fd, self._directory):
            if fd != -1:
                os.close(fd)
        self._fd = self._directory = -1
