"""Files to the disk: one by one, or several at once.

Several are brought there by one call for their whole file system (syncfs), which costs little more than one
file does. Linux tells of what could not be written by that call since 5.8; elsewhere each file is asked for,
after all have been set going.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from typing import cast

#: From so many files on one call for all is cheaper.
_SEVERAL = 3

#: Of fallocate(2).
_KEEP_SIZE = 1

#: Octets of a number that counts those of any file.
_WIDE = 8

#: Since when syncfs(2) tells of errors.
_TELLS = (5, 8)


def bring(fds: Sequence[int]) -> dict[int, OSError]:
    """Bring these files to the disk; why not, for each of which that cannot be said."""
    sync_file_system = _sync_file_system() if len(fds) >= _SEVERAL else None
    if sync_file_system is None:
        return _each(fds)
    failed: dict[int, OSError] = {}
    for alike in _by_file_system(fds).values():
        if not sync_file_system(alike[0]):
            failed.update(_each(alike))
    return failed


def set_going(fd: int, begin: int, end: int) -> None:
    """Have the system begin to write these octets, or all of 0 to 0, if it likes. Never raises."""
    if hasattr(os, "posix_fadvise"):
        with suppress(OSError):  # Linux begins to write what is not wanted in memory any more
            os.posix_fadvise(fd, begin, end - begin, os.POSIX_FADV_DONTNEED)


def allocate(fd: int, begin: int, end: int) -> None:
    """Have the system give these octets their place on the disk before they come, if it can: what is written
    back piece by piece gets there sooner then. The file stays as long as it is. Never raises: that a disk is
    full is told where they are written."""
    if (fallocate := _fallocate()) is not None:
        fallocate(fd, _KEEP_SIZE, begin, end - begin)


def _each(fds: Sequence[int]) -> dict[int, OSError]:
    failed: dict[int, OSError] = {}
    if len(fds) > 1:
        for fd in fds:
            set_going(fd, 0, 0)
    for fd in fds:
        try:
            os.fsync(fd)
        except OSError as error:
            failed[fd] = error
    return failed


def _by_file_system(fds: Sequence[int]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for fd in fds:
        found.setdefault(os.fstat(fd).st_dev, []).append(fd)
    return found


@cache
def _sync_file_system() -> Callable[[int], bool] | None:
    """Python has no syncfs. None where the system has none that tells of errors."""
    if not _tells_of_errors():
        return None
    try:
        import ctypes  # it is for who saves several files at once
    except ImportError:
        return None
    library = ctypes.CDLL(None)
    return (lambda fd: library.syncfs(fd) == 0) if hasattr(library, "syncfs") else None


@cache
def _fallocate() -> Callable[[int, int, int, int], int] | None:
    """Python's has the file grow. None where the system has none, or counts octets in fewer than 64 bits."""
    try:
        import ctypes  # it is for large files
    except ImportError:
        return None
    library = ctypes.CDLL(None)
    if ctypes.sizeof(ctypes.c_long) < _WIDE or not hasattr(library, "fallocate"):
        return None
    call = library.fallocate
    call.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long)
    return cast("Callable[[int, int, int, int], int]", call)


def _tells_of_errors() -> bool:
    system, _, release, *_ = os.uname()
    numbers = release.split(".")[:2]
    return system == "Linux" and all(map(str.isdecimal, numbers)) and tuple(map(int, numbers)) >= _TELLS
