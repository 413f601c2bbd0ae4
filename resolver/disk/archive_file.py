"""An archive that a person named, to be read anywhere in it, and never written to."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from protocols.errors import LocalError


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
