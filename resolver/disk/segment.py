"""A piece of a file that grows in more than one place."""

from __future__ import annotations

import os
from types import TracebackType

from protocols.errors import ProtocolError
from resolver.disk.writing import write_all


class Segment:
    """A piece of a file that grows: a sink of its own, which takes no octet beyond its end. A context
    manager."""

    def __init__(self, fd: int, path: str, begin: int, end: int) -> None:
        self._fd = fd
        self._path = path
        self.begin = begin
        self.end = end
        os.lseek(fd, begin, os.SEEK_SET)
        self._closed_at = begin

    def __enter__(self) -> Segment:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed_at = self.position
        os.close(self._fd)
        self._fd = -1

    @property
    def position(self) -> int:
        """The octet of the file that comes next."""
        return self._closed_at if self._fd == -1 else os.lseek(self._fd, 0, os.SEEK_CUR)

    def fileno(self) -> int:
        return self._fd

    def write(self, octets: bytes | memoryview) -> None:
        if self.position + len(octets) > self.end:
            raise ProtocolError(f"more octets came than the {self.end - self.begin} that were asked for")
        write_all(self._fd, octets, self._path)
