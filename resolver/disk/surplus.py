"""Files below a directory that may be removed: found and removed through no link, and nothing outside (S14).

Each directory on a way down is opened in the one before, so that renaming one, or putting a link in its
place, leads nowhere else. What was found is known again by its numbers: what has its name since stays.
Another file system that is mounted below is not entered.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from protocols.errors import LocalError
from protocols.values import NamedTuple
from resolver.disk.faults import writing_fault

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class DirectoryItem(NamedTuple):
    """A thing in a directory: its name there, whether it is a regular file or a directory (all else is
    neither), and the numbers by which it is known again."""

    name: str
    is_file: bool
    is_directory: bool
    device: int
    inode: int


class SurplusWalk:
    """A directory of a person's, held open. To be closed. Raises `LocalError`."""

    def __init__(self, path: str) -> None:
        self._path = path
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise writing_fault(error, path) from error
        self._device = os.fstat(self._fd).st_dev

    def close(self) -> None:
        os.close(self._fd)

    def names(self, parts: Sequence[str]) -> list[DirectoryItem] | None:
        """What is in the directory that the parts lead to, in the order of the names; None where they lead
        through a link, to another file system, to what cannot be read, or nowhere."""
        try:
            with self._opened(parts) as fd:
                found = [_found(fd, name) for name in sorted(os.listdir(fd))]
        except OSError:
            return None
        return [each for each in found if each is not None]

    def head(self, parts: Sequence[str], most: int) -> bytes:
        """The first octets of the regular file of that name; none where there is no such thing."""
        *above, name = parts
        try:
            with self._opened(above) as fd:
                file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=fd)
                try:
                    return os.read(file, most) if stat.S_ISREG(os.fstat(file).st_mode) else b""
                finally:
                    os.close(file)
        except OSError:
            return b""

    def drop(self, parts: Sequence[str], device: int, inode: int) -> bool:
        """Remove the file, or the directory if nothing is in it, that has these numbers; False where
        something else has its name, or something is in it. Raises `LocalError` where it cannot be removed."""
        *above, name = parts
        try:
            with self._opened(above) as fd:
                found = _found(fd, name)
                if found is None or (found.device, found.inode) != (device, inode):
                    return False
                if found.is_directory:
                    with suppress(OSError):
                        os.rmdir(name, dir_fd=fd)
                        return True
                    return False
                os.unlink(name, dir_fd=fd)
                return True
        except FileNotFoundError:
            return False
        except OSError as error:
            path = os.path.join(self._path, *parts)
            raise LocalError(f"cannot remove {path!r}: {error.strerror}") from error

    @contextmanager
    def _opened(self, parts: Sequence[str]) -> Iterator[int]:
        fd = os.dup(self._fd)
        try:
            for part in parts:
                below = os.open(part, _DIRECTORY, dir_fd=fd)
                os.close(fd)
                fd = below
                if os.fstat(fd).st_dev != self._device:
                    raise OSError(0, "another file system")
            yield fd
        finally:
            os.close(fd)


def numbers_of(path: str) -> tuple[int, int] | None:
    """Those of the file of that name; None where there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _found(fd: int, name: str) -> DirectoryItem | None:
    try:
        found = os.stat(name, dir_fd=fd, follow_symlinks=False)
    except FileNotFoundError:
        return None
    mode = found.st_mode
    return DirectoryItem(name, stat.S_ISREG(mode), stat.S_ISDIR(mode), found.st_dev, found.st_ino)
