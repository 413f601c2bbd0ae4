"""The lock by which transfers keep out of each other's files."""

from __future__ import annotations

import errno
import fcntl

# What a file system says that has no locks: then there are none.
_NO_LOCKS = frozenset({errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS})


def lock(fd: int) -> bool:
    """Take the lock of an open file, until it is closed; False where another has it. Raises `OSError`."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    return True
