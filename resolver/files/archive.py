"""Archives for reading with random access and for writing, and byte spools in memory or on disk."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from tempfile import TemporaryFile
from typing import IO

from protocols.errors import LocalError
from resolver.files.atomic import TEMPORARY, forget, lock, replace, sync_file, write_all
from resolver.files.faults import check_spare, closing_descriptor, convert_faults


class ArchiveFile:
    """An archive that is open for reading. Methods raise `LocalError` for an I/O error."""

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self._fd = fd

    def read_at(self, offset: int, size: int) -> bytes:
        """Return `size` bytes at `offset`, or fewer bytes at the end of the file."""
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
    """Open an archive for reading.

    Raises:
        LocalError: The archive is not readable or not a regular file.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        raise _fault(error) from error
    with closing_descriptor(fd):
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise LocalError("not a regular file: an archive must be seekable")
        yield ArchiveFile(path, fd)


def _fault(error: OSError) -> LocalError:
    return LocalError(f"cannot read the archive: {os.strerror(error.errno or 0)}")


# Writing to an archive creates a new archive or appends to an existing archive. A file lock prevents a second
# writer. Data in an archive is never changed or removed. The only exception is the incomplete last record of
# an interrupted run.

_BUFFER_SIZE = 1_048_576


class ArchiveOutput:
    """An archive that is open for writing. Methods raise `LocalError`.

    Args:
        path: The name of the archive.
        mode: The permissions of a new file.

    Attributes:
        mode: The permissions of the file.
        size: The size of the archive in bytes, including buffered bytes.
    """

    def __init__(self, path: str, mode: int) -> None:
        self.path = path
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
        with convert_faults(path):
            self._fd = os.open(path, flags, mode)
        try:
            with convert_faults(path):
                status = os.fstat(self._fd)
                if not stat.S_ISREG(status.st_mode):
                    raise LocalError(f"{path!r} is not a regular file: an archive must be seekable")
                if not lock(self._fd):
                    raise LocalError(f"the archive {path!r} is locked by another run")
            self.mode = stat.S_IMODE(status.st_mode)
        except LocalError:
            os.close(self._fd)
            raise
        self.size = os.lseek(self._fd, 0, os.SEEK_END)
        self._buffer = bytearray()
        self._is_damaged = False  # Whether the archive ends with a part of a record.

    @property
    def source(self) -> ArchiveFile:
        """Return a reader of the archive."""
        return ArchiveFile(self.path, self._fd)

    def cut(self, size: int) -> None:
        """Truncate the archive to `size` bytes, and drop the buffer.

        If this fails, the next write truncates again first: no record may follow an incomplete record.
        """
        self._buffer, self.size = bytearray(), size
        self._is_damaged = True
        with convert_faults(self.path):
            os.ftruncate(self._fd, size)
            os.lseek(self._fd, size, os.SEEK_SET)
        self._is_damaged = False

    def write(self, octets: bytes) -> None:
        """Append bytes to the write buffer, and write the buffer to the file if it is full."""
        if self._is_damaged:
            self.cut(self.size)
        self._buffer += octets
        self.size += len(octets)
        if len(self._buffer) >= _BUFFER_SIZE:
            self.flush()

    def flush(self) -> None:
        """Write the buffer to the file."""
        octets, self._buffer = self._buffer, bytearray()
        write_all(self._fd, octets, self.path)

    def sync(self) -> None:
        """Sync the archive to the disk."""
        with convert_faults(self.path):
            sync_file(self._fd, data_only=True)

    def replace_index(self, path: str, lines: Iterable[bytes], ending: bytes) -> None:
        """Replace the index of the archive, and remove the temporary indexes of killed runs.

        Only a run that has locked the archive writes a temporary index. The name begins with the name of the
        archive, so a running writer of another archive with the same index is not disturbed.

        Args:
            path: The name of the index.
            lines: The content of the index.
            ending: The end of each line, which shows that this package wrote the file.
        """
        with convert_faults(path):
            replace(path, lines, self.mode, stem=self.path)
        directory, stem = os.path.split(self.path)
        name = re.compile(re.escape(stem) + TEMPORARY)
        with suppress(OSError):  # The index is written. The next run tries to remove the files again.
            for entry in filter(name.fullmatch, os.listdir(directory or ".")):
                _remove_index(os.path.join(directory, entry), ending)

    def close(self) -> None:
        """Close the archive and release the lock. A later write fails (EBADF)."""
        fd, self._fd = self._fd, -1
        with convert_faults(self.path):  # A network file system reports some write errors here.
            os.close(fd)


def _remove_index(path: str, ending: bytes) -> None:
    """Remove a temporary index.

    The index is a regular file of the user. It is empty, or its first line has the ending.
    """
    status = os.lstat(path)
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
        return
    with open(path, "rb") as file:
        first = file.readline(_BUFFER_SIZE)
    if not first or first.endswith(ending):
        forget(path)


#: The maximum number of bytes that a spool holds in memory.
IN_MEMORY = 1_048_576
_SPOOL_CHUNK = 262_144


class ByteSpool:
    """A buffer that moves its bytes to a temporary file in `directory` if they exceed `IN_MEMORY`.

    Methods raise `LocalError` if the disk is full.
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._memory = BytesIO()
        self._file: IO[bytes] | None = None
        self.size = 0

    def write(self, octets: bytes) -> None:
        """Append bytes."""
        size = self.size + len(octets)
        if size <= IN_MEMORY and self._file is None:
            self._memory.write(octets)
        else:
            with convert_faults(self._directory):
                if self._file is None:
                    file = TemporaryFile(dir=self._directory)  # noqa: SIM115
                    file.write(self._memory.getvalue())
                    check_spare(file.fileno())
                    self._memory.close()
                    self._file = file
                self._file.write(octets)
        self.size = size

    def pieces(self, begin: int = 0, size: int | None = None) -> Iterator[bytes]:
        """Return `size` bytes (or all) from `begin` on, in blocks. The caller must not write meanwhile."""
        end = self.size if size is None else begin + size
        if self._file is not None:
            return self._read_file(self._file, begin, end - begin)
        octets = self._memory.getvalue()[begin:end]
        return iter((octets,) if octets else ())

    def _read_file(self, file: IO[bytes], begin: int, remaining: int) -> Iterator[bytes]:
        with convert_faults(self._directory):
            file.seek(begin)
            while octets := file.read(min(remaining, _SPOOL_CHUNK)):
                remaining -= len(octets)
                yield octets
            file.seek(0, 2)

    def read_first(self, max_size: int) -> bytes:
        return b"".join(self.pieces(0, min(max_size, self.size)))

    def close(self) -> None:
        """Discard the bytes and remove the temporary file."""
        (self._file or self._memory).close()
