"""Names of files that we would write: what has one already, and which one is free."""

from __future__ import annotations

import itertools
import os
import stat
from datetime import UTC, datetime

from protocols.contract import Validators
from protocols.errors import LocalError
from resolver.files.atomic import lock
from resolver.files.directory import DirectoryHandle
from resolver.files.faults import writing_fault
from resolver.files.part_state import read_state
from resolver.policy.files import PART_SUFFIX, STATE_SUFFIX, is_kept_beside, number_name


def check_name(path: str) -> None:
    """May a file have this name, which a person chose? Raises `LocalError`."""
    name = os.path.basename(path)
    if name in ("", ".", ".."):
        raise LocalError(f"cannot write {path!r}: this is the name of a directory")
    if is_kept_beside(name):
        raise LocalError(
            f"cannot write {path!r}: files of such names are kept beside what is not complete (S14); "
            "choose another name"
        )
    try:
        os.fsencode(path)
    except UnicodeEncodeError as error:
        wrong = path[error.start]
        raise LocalError(
            f"cannot write {path!r}: file names have no {wrong!a} in this locale; "
            "LC_ALL=C.UTF-8 has it, or choose another name"
        ) from error


def check_way(path: str, below: str) -> None:
    """Leads the path, which begins with `below`, through no link behind that, as far as there is anything?
    Raises `LocalError`."""
    directory = DirectoryHandle(os.path.dirname(path), make=False, below=below)
    try:
        directory.hold()
    except FileNotFoundError:
        pass
    except OSError as error:
        raise writing_fault(error, path) from error
    finally:
        directory.close()


def make_directory(path: str, below: str) -> None:
    """Make a directory, and those on the way to it from `below`, none of which may be a link. Raises
    `LocalError`."""
    directory = DirectoryHandle(path, make=True, below=below)
    try:
        directory.hold()
    except OSError as error:
        raise writing_fault(error, path) from error
    finally:
        directory.close()


def is_directory(path: str) -> bool:
    """Is there a directory of this name, and no link to one?"""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def is_there(path: str) -> bool:
    """Has anything this name already, be it a link that leads nowhere?"""
    return os.path.lexists(path)


def check_free(path: str) -> None:
    """Has nothing this name? Raises `LocalError`."""
    if is_there(path):
        raise make_taken_error(path)


class NameTaken(LocalError):
    """A file has the name already, and stays."""


def make_taken_error(path: str) -> NameTaken:
    """What is said of a file that is in the way."""
    return NameTaken(f"{path!r} exists already and is left as it is (--exists chooses otherwise)")


def make_busy_error(path: str) -> LocalError:
    """What is said where somebody else is writing the part of this file."""
    return LocalError(f"{path + PART_SUFFIX!r} is being written by another transfer")


def make_replaced_error(path: str) -> LocalError:
    """What is said where the part is another file now."""
    return LocalError(f"{path + PART_SUFFIX!r} was removed or replaced while it was written")


def make_irregular_error(path: str) -> LocalError:
    """What is said of a device or a pipe that has the name."""
    return LocalError(f"{path!r} is no regular file and is left as it is; choose another name")


def make_shared_error(path: str) -> LocalError:
    """What is said of a file that cannot be gone on with."""
    return LocalError(
        f"{path!r} is somebody else's or has several names, and is not gone on with "
        "(--exists replace takes its place)"
    )


def check_replaceable(there: os.stat_result | None, path: str) -> None:
    """A file may be replaced, and a link to one. A device or a pipe is no file that somebody saved: with
    enough rights, replacing `/dev/null` would be possible. Raises `LocalError`."""
    if there is not None and not (stat.S_ISREG(there.st_mode) or stat.S_ISLNK(there.st_mode)):
        raise make_irregular_error(path)


def state_of(path: str) -> Validators | None:
    """Size and time of the regular file; None where there is none, or where a link leads nowhere."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    return Validators(found.st_size, datetime.fromtimestamp(found.st_mtime, UTC))


def size_of(path: str) -> int:
    """Octets in the file; 0 where it cannot be told."""
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def free_name(path: str, source: str) -> str:
    """`path`, or the first of those numbered behind it that is free for a file of `source`."""
    folder, name = os.path.split(path)
    names = (os.path.join(folder, number_name(name, number)) for number in itertools.count(1))
    return next(name for name in names if is_free(name, source))


def is_free(path: str, source: str) -> bool:
    """Has nothing this name, or only because a run for the same source was killed when all was done, and is
    nobody writing to it?"""
    return (not is_there(path) or _was_killed_behind(path, source)) and not _is_busy(path + PART_SUFFIX)


def _was_killed_behind(path: str, source: str) -> bool:
    directory = DirectoryHandle(os.path.dirname(path), make=False)
    try:
        directory.hold()
        state = read_state(os.path.basename(path) + STATE_SUFFIX, directory)
    except (OSError, LocalError):  # somebody's
        return False
    finally:
        directory.close()
    return state is not None and state.url == source and state.complete and state.mark.names(os.lstat(path))


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
