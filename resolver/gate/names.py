"""Names of files that we would write: what has one already, and which one is free."""

from __future__ import annotations

import itertools
import os
from datetime import UTC, datetime

from resolver.gate.faults import writing_fault
from resolver.gate.lock import lock
from resolver.gate.part_state import read_state


def is_there(path: str) -> bool:
    """Has anything this name already, be it a link that leads nowhere?"""
    return os.path.lexists(path)


def modified_time(path: str) -> datetime:
    """When the file was last modified. Raises `LocalError`."""
    try:
        return datetime.fromtimestamp(os.stat(path).st_mtime, UTC)
    except OSError as error:
        raise writing_fault(error, path) from error


def size_of(path: str) -> int:
    """Octets in the file; 0 where it cannot be told."""
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def free_name(path: str, source: str) -> str:
    """`path`, or the first of `path.1`, `path.2`, … that nothing has, or only because a run for the same
    source was killed when all was done, and that nobody is writing to."""
    names = itertools.chain((path,), (f"{path}.{number}" for number in itertools.count(1)))
    return next(
        name
        for name in names
        if (not is_there(name) or _was_killed_behind(name, source)) and not _is_busy(f"{name}.part")
    )


def _was_killed_behind(path: str, source: str) -> bool:
    state = read_state(f"{path}.part-state", None)
    return state is not None and state.url == source and state.complete == os.lstat(path).st_ino


def _is_busy(part: str) -> bool:
    """Is another transfer writing this file?"""
    try:
        fd = os.open(part, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return not lock(fd)
    except OSError:
        return False
    finally:
        os.close(fd)
