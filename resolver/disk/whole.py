"""Files of which a run knew that they were whole, and what was left to do when it was killed."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress

from protocols.errors import LocalError
from resolver.disk.part import PartFile


def has_size(path: str, size: int) -> bool:
    """Is a file of that size there?"""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size == size


def sync_directories(paths: Iterable[str]) -> None:
    """Bring the names of these files to the disk. A file system that has no such thing has none to lose."""
    for directory in {os.path.dirname(path) for path in paths}:
        with suppress(OSError):
            fd = os.open(directory or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)


def finish(path: str, source: str, *, inode: int, size: int, sidecar: bool, below: str | None = None) -> bool:
    """Has the file of that inode and size this name, or could it be given it? Then nothing is left of the
    steps that lead there. `source` is what it came from, `below` a directory from which no link leads there.
    With a `sidecar` it gets no name here: what stands there has to be found once more."""
    part = PartFile(path, exists="fail", source=source, adopt=False, make_directory=False, below=below)
    try:
        if os.path.lexists(path):
            return is_that(path, inode, size) and _conclude(part)
        return not sidecar and is_that(f"{path}.part", inode, size) and _name(part)
    except (OSError, LocalError):
        return False
    finally:
        part.close()


def is_that(path: str, inode: int, size: int) -> bool:
    """Is it the file of that inode and size, and no link?"""
    try:
        found = os.lstat(path)
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(found.st_mode) and (found.st_ino, found.st_size) == (inode, size)


def _conclude(part: PartFile) -> bool:
    """A run was killed behind the renaming: what told of it goes."""
    with suppress(LocalError):  # nothing was left to do
        part.open()
    return True


def _name(part: PartFile) -> bool:
    part.open()
    if not part.complete or part.whole is not None:
        return False
    part.settle(None)
    return True
