"""System errors about files as errors of ours, and the reserve of descriptors that lets them be reported.

No other module of the package converts these errors. The caller raises the result `from` the original. The
owner of the file matters: an object of this machine that a URL names (`object_fault`), or a file that we
write (`writing_fault`).
"""

from __future__ import annotations

import errno
import os
import resource
import sys

from protocols.errors import AccessDenied, LocalError, NotFound, ResolveError

#: No such object, seen from the URL: a name too long for the system cannot name anything either.
_MISSING = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP})
_FORBIDDEN = frozenset({errno.EACCES, errno.EPERM})

#: What the person can do about a file of ours that cannot be written.
_REMEDIES = {
    errno.ENOSPC: "free some space there, or choose another place",
    errno.EDQUOT: "the quota is used up: free some space there, or choose another place",
    errno.EFBIG: "it would be larger than this process may write (ulimit -f) or the file system can hold",
    errno.EACCES: "choose a directory that you may write to",
    errno.EPERM: "choose a directory that you may write to",
    errno.EROFS: "the file system is read-only: choose another place",
    errno.ENOENT: "the directory is not there; -d DIR makes one",
    errno.ENOTDIR: "part of the path is not a directory",
    errno.EEXIST: "what has the name of the directory is none",
    errno.EISDIR: "there is a directory of that name",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.EMFILE: "too many files are open: do less at once (-j)",
}


#: The disk takes no more, of whatever file.
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def is_full(error: BaseException | None) -> bool:
    """Return whether it was raised from what says that a disk is full."""
    while error is not None and not isinstance(error, OSError):
        error = error.__cause__
    return error is not None and error.errno in _FULL


def reason(error: OSError) -> str:
    """The system's words for an error, without numbers and paths."""
    return os.strerror(error.errno).lower() if error.errno else str(error)


def object_fault(error: OSError, path: bytes) -> ResolveError:
    """Why an object of this machine that a URL names cannot be opened or read."""
    shown = repr(os.fsdecode(path))
    if error.errno in _MISSING:
        return NotFound(f"{shown}: {reason(error)}", text=reason(error))
    if error.errno in _FORBIDDEN:
        return AccessDenied(f"{shown}: {reason(error)}", text=reason(error))
    return LocalError(f"reading {shown} failed: {reason(error)}")


def writing_fault(error: OSError, path: str) -> LocalError:
    """Why a file of ours cannot be written: what, where, and what to do about it."""
    remedy = _REMEDIES.get(error.errno or 0)
    return LocalError(f"cannot write {path!r}: {reason(error)}" + (f" ({remedy})" if remedy else ""))


# Spare descriptors, kept free of connections and of growing files.
#
# A system gives the lowest number that is free (POSIX open(2)), so the number of a new descriptor tells how
# many are in use. Late and rare users, a module, a database, a DNS lookup, find the last ones free: else a
# run that is out of descriptors could not even report that.

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


def spare_descriptor(fd: int) -> int:
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
