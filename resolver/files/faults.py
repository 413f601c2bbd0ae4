"""Conversion of file system errors to `ResolveError`, and the reserve of file descriptors.

`object_fault` converts errors of a local file that a URL names. `writing_fault` converts errors of a file
that this package writes. The caller raises the result `from` the original error.
"""

from __future__ import annotations

import errno
import os
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from protocols.errors import AccessDenied, LocalError, NotConfigured, NotFound, ResolveError

#: `errno` codes for a file that does not exist. ENAMETOOLONG is included, because the system cannot
#: store a file with a name that is too long.
_MISSING = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP})
_FORBIDDEN = frozenset({errno.EACCES, errno.EPERM})

#: The suggested fix in the message of a write error, by `errno` code.
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
    errno.ENOMEM: "see ulimit -v and the memory limit of the container",
    errno.EAGAIN: "the system may have no process or thread left, see ulimit -u",
}


class DirectoryGone(LocalError):
    """The output directory and its files were removed or replaced during the run."""


#: `errno` codes of a full disk or an exceeded quota.
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def is_full(error: BaseException | None) -> bool:
    """Return whether the error was caused by a full disk."""
    return _has_cause(error, _FULL)


def _has_cause(error: BaseException | None, codes: frozenset[int]) -> bool:
    while error is not None and not isinstance(error, OSError):
        error = error.__cause__
    return error is not None and error.errno in codes


def reason(error: OSError) -> str:
    """Return the system's error message without the error number and the path."""
    return os.strerror(error.errno).lower() if error.errno else str(error)


def object_fault(error: OSError, path: bytes) -> ResolveError:
    """Return the error for a local file that a URL names and that cannot be opened or read."""
    shown = repr(os.fsdecode(path))
    if error.errno in _MISSING:
        return NotFound(f"{shown}: {reason(error)}", text=reason(error))
    if error.errno in _FORBIDDEN:
        return AccessDenied(f"{shown}: {reason(error)}", text=reason(error))
    return LocalError(f"cannot read {shown}: {reason(error)}")


def writing_fault(error: OSError, path: str) -> LocalError:
    """Return the error for a file that cannot be written, with the cause, the path and the fix."""
    remedy = _REMEDIES.get(error.errno or 0)
    if error.errno == errno.EEXIST and error.filename2 is not None:  # Only rename(2) and link(2) set it.
        remedy = "the file system cannot replace a file: choose another directory"
    return LocalError(f"cannot write {path!r}: {reason(error)}" + (f" ({remedy})" if remedy else ""))


@contextmanager
def convert_faults(path: str) -> Iterator[None]:
    """Raise each `OSError` of a block as the `writing_fault` of a file."""
    try:
        yield
    except OSError as error:
        raise writing_fault(error, path) from error


#: `errno` codes of a process or a machine without a resource.
_EXHAUSTED = _FULL | {errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


def exhaustion_fault(error: BaseException) -> LocalError | None:
    """Return the error for a run that ended because the machine lacks a resource, such as memory.

    The current directory is such a resource: another process can remove it. A module of the standard library
    is another one: some builds of Python lack `_sqlite3`.

    The result is `None` if the exception, or another exception of the group, has another cause.
    """
    if isinstance(error, BaseExceptionGroup):
        faults = [exhaustion_fault(part) for part in error.exceptions]
        return None if None in faults else faults[0]
    if isinstance(error, RuntimeError):
        from resolver.loops.loop import raise_without_thread  # lazy import: `--version` needs no `typing`

        try:
            raise_without_thread(error)
        except OSError as cause:
            error = cause
    if isinstance(error, ModuleNotFoundError) and error.name in sys.stdlib_module_names:
        return NotConfigured(f"this build of Python lacks the module {error.name} (use another build)")
    if isinstance(error, MemoryError):
        error = OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
    if not isinstance(error, OSError):
        return None
    if error.errno == errno.ENOENT and error.filename is None:  # the error of getcwd(3) has no file name
        return LocalError("the current directory was removed (change to another directory)")
    if error.errno not in _EXHAUSTED:
        return None
    remedy = _REMEDIES.get(error.errno)
    return LocalError(f"the run ended early: {reason(error)}" + (f" ({remedy})" if remedy else ""))


# The reserve of file descriptors. Connections and partial files do not use the last free descriptors of a
# process. Late in a run, a Python module, a database or a DNS lookup may need a descriptor. Without the
# reserve, a run that has used all descriptors could not even report the error. POSIX open(2) returns the
# lowest free number, so the number of a new descriptor shows how many descriptors are in use.

#: The maximum number of reserved file descriptors. At most a quarter of all descriptors is reserved. Late in
#: a run, about ten descriptors may be needed: for epoll, a ledger with its two files and its lock, a module,
#: a list, and a DNS lookup.
SPARE = 16

#: `errno` codes of a process (EMFILE) or a machine (ENFILE) without free descriptors.
_SCARCE = frozenset({errno.EMFILE, errno.ENFILE})


def max_descriptors() -> int:
    """Return the maximum number of file descriptors of this process (RLIMIT_NOFILE)."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return sys.maxsize if limit == resource.RLIM_INFINITY else limit


def check_spare(fd: int) -> None:
    """Raise `OSError` (EMFILE) if the descriptor is reserved."""
    limit = max_descriptors()
    if fd >= limit - SPARE and fd >= limit - limit // 4:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def spare_descriptor(fd: int) -> int:
    """Return the descriptor, or close a reserved one and raise `OSError` (EMFILE)."""
    try:
        check_spare(fd)
    except OSError:
        os.close(fd)
        raise
    return fd


@contextmanager
def closing_descriptor(fd: int) -> Iterator[int]:
    """Yield the descriptor, and close it at the end of the block."""
    try:
        yield fd
    finally:
        os.close(fd)


def is_scarce(error: BaseException | None) -> bool:
    """Return whether the error was caused by a lack of file descriptors."""
    return _has_cause(error, _SCARCE)
