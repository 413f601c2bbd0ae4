"""Archives named by the user, read at any position and never written; and spools of bytes."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from tempfile import SpooledTemporaryFile

from protocols.errors import LocalError
from resolver.files.atomic import lock, replace
from resolver.files.faults import check_spare, writing_fault


class ArchiveFile:
    """One that is open. Raises `LocalError` where the disk fails."""

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self._fd = fd

    def read_at(self, offset: int, size: int) -> bytes:
        """What is there from `offset` on: `size` octets, fewer at the end alone."""
        octets = b""
        try:
            while len(octets) < size:
                piece = os.pread(self._fd, size - len(octets), offset + len(octets))
                if not piece:
                    break
                octets = octets + piece if octets else piece
        except OSError as error:
            raise _fault(error) from error
        return octets


@contextmanager
def open_archive(path: str) -> Iterator[ArchiveFile]:
    """Raises `LocalError` where there is none, or it is no file that can be read anywhere."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        raise _fault(error) from error
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise LocalError("this is no regular file, and an archive is read in any order")
        yield ArchiveFile(path, fd)
    finally:
        os.close(fd)


def _fault(error: OSError) -> LocalError:
    return LocalError(f"the archive cannot be read: {os.strerror(error.errno or 0)}")


# archive output: An archive that is written: made or gone on with, held against another writer, only ever
# longer, but for what a run that was cut off left behind its last whole record.

#: Octets that are held at most.
_AT_ONCE = 1_048_576


class ArchiveOutput:
    """Raises `LocalError`. `mode` says who may read it, where it is made; `size` is how long it is, with what
    is to be written."""

    def __init__(self, path: str, mode: int) -> None:
        self.path = path
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
        try:
            self._fd = os.open(path, flags, mode)
        except OSError as error:
            raise writing_fault(error, path) from error
        try:
            found = os.fstat(self._fd)
            if not stat.S_ISREG(found.st_mode):
                raise LocalError(f"{path!r} is no regular file, and an archive is one")
            if not lock(self._fd):
                raise LocalError(f"the archive {path!r} is locked: another run is at work with it")
            self.mode = stat.S_IMODE(found.st_mode)
        except OSError as error:
            os.close(self._fd)
            raise writing_fault(error, path) from error
        except LocalError:
            os.close(self._fd)
            raise
        self.size = os.lseek(self._fd, 0, os.SEEK_END)
        self._held = bytearray()  # what is not the system's yet

    @property
    def source(self) -> ArchiveFile:
        """To read what is there."""
        return ArchiveFile(self.path, self._fd)

    def cut(self, size: int) -> None:
        """It ends there, whatever was to be written behind."""
        self._held = bytearray()
        try:
            os.ftruncate(self._fd, size)
            os.lseek(self._fd, size, os.SEEK_SET)
        except OSError as error:
            raise writing_fault(error, self.path) from error
        self.size = size

    def write(self, octets: bytes) -> None:
        """Behind what is there, by the next `settle` at the latest."""
        self._held += octets
        self.size += len(octets)
        if len(self._held) >= _AT_ONCE:
            self.settle()

    def flush(self) -> None:
        """A record is over, and others may belong to it: see `settle`."""

    def settle(self) -> None:
        """All of it is the system's now: records that belong together in one go, as far as they are short."""
        held, self._held = memoryview(bytes(self._held)), bytearray()
        try:
            while held:
                held = held[os.write(self._fd, held) :]
        except OSError as error:
            raise writing_fault(error, self.path) from error

    def sync(self) -> None:
        """All of it is on the disk."""
        try:
            os.fdatasync(self._fd)
        except OSError as error:
            raise writing_fault(error, self.path) from error

    def close(self) -> None:
        """The lock goes with it."""
        os.close(self._fd)


def put_beside(path: str, lines: Iterable[bytes], mode: int) -> None:
    """A file of these lines, in the place of what has the name, at once, for those whom `mode` says. Raises
    `LocalError`."""
    try:
        replace(path, lines, mode, sync=False)
    except OSError as error:
        raise writing_fault(error, path) from error


#: Octets that stay in memory.
IN_MEMORY = 1_048_576
_SPOOL_CHUNK = 262_144


class ByteSpool:
    """Beside the file whose `directory` that is. Raises `LocalError` where the disk takes no more."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._file = SpooledTemporaryFile(max_size=IN_MEMORY, dir=directory)  # noqa: SIM115
        self.size = 0

    def write(self, octets: bytes) -> None:
        """Behind what is there."""
        try:
            self._file.write(octets)
            if self.size <= IN_MEMORY < self.size + len(octets):  # from now on it is a file
                check_spare(self._file.fileno())
        except OSError as error:
            raise writing_fault(error, self._directory) from error
        self.size += len(octets)

    def pieces(self, begin: int = 0) -> Iterator[bytes]:
        """What is there from the octet `begin` on. Nothing is written meanwhile."""
        try:
            self._file.seek(begin)
            while octets := self._file.read(_SPOOL_CHUNK):
                yield octets
            self._file.seek(0, 2)
        except OSError as error:
            raise writing_fault(error, self._directory) from error

    def read_first(self, most: int) -> bytes:
        """The first octets, at most so many."""
        try:
            self._file.seek(0)
            octets = self._file.read(most)
            self._file.seek(0, 2)
        except OSError as error:
            raise writing_fault(error, self._directory) from error
        return octets

    def close(self) -> None:
        """It is gone."""
        self._file.close()
