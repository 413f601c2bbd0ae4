"""A file that a run writes of itself at its end: there whole, or as it was before."""

from __future__ import annotations

import os
import stat

from protocols.errors import LocalError
from resolver.disk.faults import writing_fault
from resolver.disk.replacing import replace


def check_place(path: str) -> None:
    """Could one be written there? Raises `LocalError`, before anything else is done. A link is gone through:
    it is the person's own name for the file."""
    path = os.path.realpath(path)
    try:
        found = os.stat(path)
    except FileNotFoundError:
        found = None
    except OSError as error:
        raise writing_fault(error, path) from error
    if found is not None and not stat.S_ISREG(found.st_mode):
        raise LocalError(f"cannot write {path!r}: what is there is no regular file")
    directory = os.path.dirname(path)
    if not os.path.isdir(directory):
        raise LocalError(f"cannot write {path!r}: there is no directory {directory!r}")
    if not os.access(directory, os.W_OK | os.X_OK):
        raise LocalError(f"cannot write {path!r}: nothing can be made in {directory!r}")


def write_report(path: str, octets: bytes) -> None:
    """All of it on the disk, and then the name. Raises `LocalError`; then nothing is left of it."""
    path = os.path.realpath(path)
    try:
        replace(path, octets, 0o666)
    except OSError as error:
        raise writing_fault(error, path) from error
