"""Octets that are kept until they are written elsewhere: in memory as long as they are few, then in a file
that has no name."""

from __future__ import annotations

from collections.abc import Iterator
from tempfile import SpooledTemporaryFile

from resolver.disk.descriptors import check_spare
from resolver.disk.faults import writing_fault

#: Octets that stay in memory.
IN_MEMORY = 1_048_576
_AT_ONCE = 262_144


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
            while octets := self._file.read(_AT_ONCE):
                yield octets
            self._file.seek(0, 2)
        except OSError as error:
            raise writing_fault(error, self._directory) from error

    def first(self, most: int) -> bytes:
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
