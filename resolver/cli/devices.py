"""Devices and pipes that a person named with `-O`: written into, and never replaced (S14). What they get
cannot be taken back, and another run begins at the beginning. A directory that was named so is neither.
"""

from __future__ import annotations

import os
import stat
from types import TracebackType

import trio

from protocols.errors import LocalError
from resolver.cli.outflow import Outflow
from resolver.disk.faults import writing_fault


def is_device(path: str) -> bool:
    """Is there a pipe or a character device of that name, or a link to one?"""
    try:
        return _takes_all(os.stat(path))
    except (OSError, ValueError):
        return False


def check_no_directory(path: str, given: str) -> None:
    """A directory is no file to save as, whatever is to be done about files that are there. Raises
    `LocalError`, which says how to save inside it: `given` is what `-O` said."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return
    if stat.S_ISDIR(found.st_mode):
        raise LocalError(f"{path!r} is a directory: -O {given}/ saves inside it")


def _takes_all(found: os.stat_result) -> bool:
    return stat.S_ISFIFO(found.st_mode) or stat.S_ISCHR(found.st_mode)


class Device:
    """An async context manager: open for writing, which waits for somebody who reads a pipe, in a worker
    thread, for a signal need not wait for him."""

    def __init__(self, path: str) -> None:
        self.name = path
        self._fd = -1
        self._outflow: Outflow | None = None

    async def __aenter__(self) -> Device:
        self._fd = await trio.to_thread.run_sync(self._open, abandon_on_cancel=True)
        self._outflow = Outflow(self._fd)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._outflow is not None
        self._outflow.close()
        fd, self._fd = self._fd, -1
        os.close(fd)

    def _open(self) -> int:
        try:
            fd = os.open(self.name, os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError as error:
            raise writing_fault(error, self.name) from error
        if not _takes_all(os.fstat(fd)):
            os.close(fd)
            raise LocalError(f"{self.name!r} is another file now, and is left as it is")
        return fd

    @property
    def is_terminal(self) -> bool:
        return os.isatty(self._fd)

    async def put(self, octets: bytes) -> None:
        """Raises `LocalError`, also where nobody reads a pipe any more."""
        assert self._outflow is not None, "put inside"
        try:
            await self._outflow.put(octets)
        except OSError as error:
            raise writing_fault(error, self.name) from error
