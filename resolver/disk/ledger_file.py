"""The file of a ledger: ours, for its owner alone, and held against a second run.

SQLite opens it by its name. What is held here is another descriptor of it, and stays open as long as SQLite
has the file: closing any drops the locks that this process has on it.
"""

from __future__ import annotations

import errno
import os
import stat

from protocols.errors import LocalError
from resolver.disk.faults import writing_fault
from resolver.disk.lock import lock


class HeldByAnother(LocalError):
    """Another run is at work with it."""


class LedgerFile:
    """Raises `LocalError`. A new file is its owner's alone, and so is what SQLite keeps beside it."""

    def __init__(self, path: str) -> None:
        self.path = os.path.realpath(path)
        self._fd = -1

    def take(self, *, make: bool = True) -> None:
        """Open it, and keep others out until `close`."""
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            self._fd = os.open(self.path, flags | (os.O_CREAT if make else 0), 0o600)
            self._check()
        except OSError as error:
            self.close()
            raise writing_fault(error, self.path) from error
        except LocalError:
            self.close()
            raise

    def _check(self) -> None:
        found = os.fstat(self._fd)
        if not stat.S_ISREG(found.st_mode):
            raise LocalError(f"{self.path!r} is no regular file, and so no ledger: name another one")
        if found.st_uid not in (os.geteuid(), 0) or found.st_mode & 0o022:
            raise LocalError(f"others may write to the ledger {self.path!r}: chmod 600, or name another file")
        if not lock(self._fd):
            raise HeldByAnother(f"the ledger {self.path!r} is locked: another run is at work with it")

    def check_there(self) -> None:
        """Raises `LocalError` where its name is no more that of this file: SQLite would go on writing what
        nobody can open."""
        try:
            is_there = os.path.samestat(os.stat(self.path), os.fstat(self._fd))
        except FileNotFoundError:
            is_there = False
        if not is_there:
            raise LocalError(f"the ledger {self.path!r} was removed or replaced during the run")

    def close(self) -> None:
        if self._fd != -1:
            os.close(self._fd)
        self._fd = -1


def how_to_read(path: str) -> str:
    """How SQLite is to open a ledger to read it. Raises `LocalError` where there is none that can be read.

    Where that is allowed it may write: so it puts right what a run was killed over, and takes what it keeps
    beside the file away again; who may only read leaves that there, or is refused. The file is not opened
    here, for closing it would drop the locks that SQLite has on it in this process."""
    try:
        os.stat(path)
        is_readable = os.access(path, os.R_OK)
    except OSError as error:
        raise _unreadable(path, error.errno or 0) from error
    if not is_readable:
        raise _unreadable(path, errno.EACCES)
    # A directory that we may not write to takes no file beside it; then nobody else is at work there either.
    if os.access(os.path.dirname(os.path.realpath(path)), os.W_OK):
        return "mode=rw" if os.access(path, os.W_OK) else "mode=ro"
    return "mode=ro" if os.path.exists(f"{path}-wal") else "mode=ro&immutable=1"


def _unreadable(path: str, number: int) -> LocalError:
    return LocalError(f"cannot read the ledger {path!r}: {os.strerror(number).lower()}")
