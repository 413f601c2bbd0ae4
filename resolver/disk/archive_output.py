"""An archive that is written: made or gone on with, held against another writer, only ever longer, but for
what a run that was cut off left behind its last whole record."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from functools import partial

from protocols.errors import LocalError
from resolver.disk.archive_file import ArchiveFile
from resolver.disk.faults import writing_fault
from resolver.disk.lock import lock

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
    new = f"{path}.{os.urandom(8).hex()}"
    try:
        with open(new, "xb", opener=partial(os.open, mode=mode)) as file:
            file.writelines(lines)
        os.replace(new, path)
    except OSError as error:
        with suppress(OSError):
            os.unlink(new)
        raise writing_fault(error, path) from error
