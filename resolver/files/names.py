"""Checks for the names of output files: valid names, existing files, symlinks, and free names."""

from __future__ import annotations

import itertools
import os
import stat
from contextlib import closing, suppress

from protocols.contract import Validators
from protocols.dates import from_timestamp
from protocols.errors import LocalError
from resolver.files.atomic import lock
from resolver.files.directory import DirectoryHandle
from resolver.files.faults import closing_descriptor, convert_faults
from resolver.files.part_state import read_state
from resolver.policy.files import PART_SUFFIX, STATE_SUFFIX, is_companion_name, number_name


def check_name(path: str) -> None:
    """Raise `LocalError` if the system does not allow the user's file name."""
    name = path.rpartition("/")[2]
    if name in ("", ".", ".."):
        raise LocalError(f"cannot write {path!r}: this is the name of a directory")
    if is_companion_name(name):
        raise LocalError(
            f"cannot write {path!r}: its suffix is for partial files and metadata (S14); choose another name"
        )
    if not path.isascii():
        _check_locale(path)


def _check_locale(path: str) -> None:
    try:
        os.fsencode(path)
    except UnicodeEncodeError as error:
        wrong = path[error.start]
        raise LocalError(
            f"cannot write {path!r}: a file name cannot contain {wrong!a} in this locale "
            "(set LC_ALL=C.UTF-8, or choose another name)"
        ) from error


def check_parents(path: str, below: str) -> None:
    """Raise `LocalError` if a directory of `path` after the prefix `below` is a symbolic link."""
    handle = DirectoryHandle(os.path.dirname(path), make=False, below=below)
    with convert_faults(path), closing(handle), suppress(FileNotFoundError):
        handle.hold()


def make_directory(path: str, below: str) -> None:
    """Create a directory and its missing parents.

    Raises:
        LocalError: A parent after the prefix `below` is a symbolic link, or the directory cannot be created.
    """
    _check_locale(path)
    with convert_faults(path), closing(DirectoryHandle(path, make=True, below=below)) as directory:
        directory.hold()


def is_directory(path: str) -> bool:
    """Return whether the path is a directory and not a symbolic link."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except (OSError, ValueError):  # a name outside the locale raises ValueError
        return False


def is_skipped(path: str) -> bool:
    """Return whether `exists="skip"` keeps a file with the name.

    Raises `LocalError` for a directory, and for a symbolic link to a directory or to a missing file.
    """
    if (is_found := os.path.lexists(path)) and (os.path.isdir(path) or not os.path.exists(path)):
        raise make_irregular_error(path)
    return is_found


def check_free(path: str) -> None:
    """Raise `LocalError` if the name is taken."""
    if os.path.lexists(path):
        raise make_taken_error(path)


class NameTaken(LocalError):
    """A file with the name exists and stays unchanged."""


def make_taken_error(path: str) -> NameTaken:
    return NameTaken(f"{path!r} exists already and stays unchanged").with_setting("exists")


def make_busy_error(path: str) -> LocalError:
    """Return the error for a file that another process is writing."""
    return LocalError(f"{path + PART_SUFFIX!r} is being written by another transfer")


def make_replaced_error(path: str) -> LocalError:
    """Return the error for a NAME.part that another process has replaced."""
    return LocalError(f"{path + PART_SUFFIX!r} was removed or replaced while it was written")


def make_irregular_error(path: str) -> LocalError:
    """Return the error for a name that belongs to a device or a pipe."""
    return LocalError(f"{path!r} is not a regular file and stays unchanged: choose another name")


def make_shared_error(path: str) -> LocalError:
    """Return the error for a partial file that cannot be resumed."""
    return LocalError(
        f"cannot resume {path!r}: the file belongs to another user or has several names"
    ).with_setting("exists replace")


def check_replaceable(status: os.stat_result | None, path: str) -> None:
    """Raise `LocalError` if an existing file is not a regular file or a symbolic link.

    A device or a pipe must not be replaced. With root permissions, a rename could replace `/dev/null`.
    """
    if status is not None and not (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)):
        raise make_irregular_error(path)


def read_validators(path: str) -> Validators | None:
    """Return the size and modification time of a regular file.

    Return None if the file is missing, has another type, or is a dangling symbolic link.
    """
    try:
        status = os.stat(path)
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return Validators(status.st_size, from_timestamp(status.st_mtime))


def read_size(path: str) -> int:
    """Return the size of the file in bytes, or 0 if the size is unknown."""
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def free_name(path: str, source: str) -> str:
    """Return `path`, or a numbered form of it that is free, for the file of the URL `source`."""
    folder, name = os.path.split(path)
    names = (os.path.join(folder, number_name(name, number)) for number in itertools.count(1))
    return next(name for name in names if is_free(name, source))


def is_free(path: str, source: str) -> bool:
    """Return whether the name is free for a file from the URL `source`.

    A name is not free while another process writes the file. The name also counts as free if an earlier run
    completed the file for the same URL, and was killed before it removed the state file.
    """
    return (not os.path.lexists(path) or _was_completed(path, source)) and not _is_busy(path + PART_SUFFIX)


def _was_completed(path: str, source: str) -> bool:
    try:
        with closing(DirectoryHandle(os.path.dirname(path), make=False)) as directory:
            directory.hold()
            state = read_state(os.path.basename(path) + STATE_SUFFIX, directory)
    except (OSError, LocalError):  # The files belong to another program.
        return False
    return state is not None and state.url == source and state.complete and state.mark.matches(os.lstat(path))


def _is_busy(part: str) -> bool:
    """Return whether another transfer has locked the partial file."""
    try:
        fd = os.open(part, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return False
    with closing_descriptor(fd), suppress(OSError):
        return not lock(fd)
    return False
