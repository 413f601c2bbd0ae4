"""The last descriptors that this process may have: kept free of connections and of files that grow.

A system gives the lowest number that is free (POSIX open(2)), so the number of a new descriptor tells how
many are in use. What is opened late and seldom, a module, a database, a look-up of a name, finds the last
ones free: else a run that is out of descriptors could not even say so.
"""

from __future__ import annotations

import errno
import os
import resource
import sys

#: Descriptors that are kept free, or a quarter of all where that is less. Of those that are opened late a run
#: has some ten: epoll, a ledger with its two files and its lock, a module, a list, a look-up.
SPARE = 16

#: What the system says where this process, or the whole machine, has no more.
_SCARCE = frozenset({errno.EMFILE, errno.ENFILE})


def most_descriptors() -> int:
    """Return how many descriptors this process may have."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return sys.maxsize if limit == resource.RLIM_INFINITY else limit


def check_spare(fd: int) -> None:
    """Raises `OSError` (EMFILE) for one of the last descriptors."""
    limit = most_descriptors()
    if fd >= limit - min(SPARE, limit // 4):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def spared(fd: int) -> int:
    """Return the descriptor, unless it is one of the last: that is closed. Raises `OSError` (EMFILE)."""
    try:
        check_spare(fd)
    except OSError:
        os.close(fd)
        raise
    return fd


def is_scarce(error: BaseException | None) -> bool:
    """Return whether it says, or was raised from what says, that no descriptor is left."""
    while error is not None and not isinstance(error, OSError):
        error = error.__cause__
    return error is not None and error.errno in _SCARCE
