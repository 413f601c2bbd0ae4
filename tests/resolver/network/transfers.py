"""A sink for tests: a plain file that records the size of each `write`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class FileSink:
    """A file descriptor as a sink; `write` appends at its position."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.writes: list[int] = []

    def fileno(self) -> int:
        return self._fd

    def write(self, octets: bytes | memoryview) -> None:
        self.writes.append(len(octets))
        assert os.write(self._fd, octets) == len(octets)


@contextmanager
def file_sink(path: Path, flags: int = 0) -> Iterator[FileSink]:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | flags)
    try:
        yield FileSink(fd)
    finally:
        os.close(fd)
