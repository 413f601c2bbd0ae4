"""System errors about files as `ResolveError`, and the spare descriptors that let them be reported.

No other module of the package converts these errors. The caller raises the result `from` the original. The
owner of the file selects the function: `object_fault` is for a file of this machine that a URL names, and
`writing_fault` for a file that this package writes.
"""

from __future__ import annotations

import errno
import os
import resource
import sys

from protocols.errors import AccessDenied, LocalError, NotFound, ResolveError

#: Errors that mean that the object does not exist. ENAMETOOLONG is one of them, because no file can have a
#: name that is too long for the system.
_MISSING = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP})
_FORBIDDEN = frozenset({errno.EACCES, errno.EPERM})

#: The fix for a file of this package that cannot be written.
_REMEDIES = {
    errno.ENOSPC: "free some space there, or choose another directory",
    errno.EDQUOT: "the quota is used up: free some space there, or choose another directory",
    errno.EFBIG: "the limit is set by this process, see ulimit -f, or by the file system",
    errno.EACCES: "choose a directory that you may write to",
    errno.EPERM: "choose a directory that you may write to",
    errno.EROFS: "choose a directory that you may write to",
    errno.ENOENT: "the directory does not exist: create it first",
    errno.ENOTDIR: "part of the path is not a directory",
    errno.EEXIST: "the name of the directory belongs to a file",
    errno.EISDIR: "this is the name of a directory",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.EMFILE: "use fewer concurrent transfers",
}


#: The errors of a full disk or an exceeded quota.
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def is_full(error: BaseException | None) -> bool:
    """Return whether the error was caused by a full disk."""
    while error is not None and not isinstance(error, OSError):
        error = error.__cause__
    return error is not None and error.errno in _FULL


def reason(error: OSError) -> str:
    """Return the system's text for an error, without numbers and paths."""
    return os.strerror(error.errno).lower() if error.errno else str(error)


def object_fault(error: OSError, path: bytes) -> ResolveError:
    """Return the error for an object of this machine that cannot be opened or read."""
    shown = repr(os.fsdecode(path))
    if error.errno in _MISSING:
        return NotFound(f"{shown}: {reason(error)}", text=reason(error))
    if error.errno in _FORBIDDEN:
        return AccessDenied(f"{shown}: {reason(error)}", text=reason(error))
    return LocalError(f"cannot read {shown}: {reason(error)}")


def writing_fault(error: OSError, path: str) -> LocalError:
    """Return the error for a file of this package that cannot be written: cause, path and fix."""
    remedy = _REMEDIES.get(error.errno or 0)
    return LocalError(f"cannot write {path!r}: {reason(error)}" + (f" ({remedy})" if remedy else ""))


# Spare descriptors are not used for connections or partial files.
# POSIX open(2) returns the lowest free number, so the number of a new descriptor tells how many are in use.
# The spare descriptors are for rare uses late in a run: a module, a database, a DNS lookup. Without spare
# descriptors, a run that is out of descriptors could not even report that error.

#: The number of spare descriptors; a quarter of all descriptors if that is less. A run opens some ten files
#: late: epoll, a ledger with its two files and its lock, a module, a list, a DNS lookup.
SPARE = 16

#: The errors of a process (EMFILE) or a machine (ENFILE) without free descriptors.
_SCARCE = frozenset({errno.EMFILE, errno.ENFILE})


def most_descriptors() -> int:
    """Return the maximum of descriptors of this process."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return sys.maxsize if limit == resource.RLIM_INFINITY else limit


def check_spare(fd: int) -> None:
    """Raise `OSError` (EMFILE) if the descriptor is a spare one."""
    limit = most_descriptors()
    if fd >= limit - min(SPARE, limit // 4):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def spare_descriptor(fd: int) -> int:
    """Return the descriptor; close a spare one and raise `OSError` (EMFILE)."""
    try:
        check_spare(fd)
    except OSError:
        os.close(fd)
        raise
    return fd


def is_scarce(error: BaseException | None) -> bool:
    """Return whether the error was caused by a lack of descriptors."""
    while error is not None and not isinstance(error, OSError):
        error = error.__cause__
    return error is not None and error.errno in _SCARCE
