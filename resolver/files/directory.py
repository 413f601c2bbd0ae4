"""A directory for saved files, held open so that renaming it cannot send them elsewhere (S14).

Names are those in the directory. No call follows a link, and only `replace` gives a name that is taken. The
module also removes directories that stayed empty and surplus files.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from threading import Lock
from typing import NamedTuple

from protocols.errors import LocalError
from resolver.files.faults import spare_descriptor, writing_fault

# Directories that this process made for files which have not arrived yet: a directory that stays empty is
# removed with the last file that waited for it. Other processes may use the same directories; they may find
# one gone that existed, and make it again.

_lock = Lock()


class _CreatedDirectory:
    def __init__(self, path: str) -> None:
        self.status = os.lstat(path)
        self.waiting = 1


#: By their paths, as somebody spelt them, as long as somebody waits.
_made: dict[str, _CreatedDirectory] = {}


class DirectoryHold:
    """For one file."""

    def __init__(self) -> None:
        self._paths: list[str] = []

    def join(self, path: str) -> None:
        """If the directory is one of these, it and those above it stay as long as this is not over."""
        if _made:
            with _lock:
                while path in _made:
                    self._count(path)
                    path = os.path.dirname(path)

    def record_made(self, path: str) -> None:
        """The directory was not there, and is now. Raises `OSError`."""
        with _lock:
            _made[path] = _CreatedDirectory(path)
            self._paths.append(path)

    def make(self, path: str) -> None:
        """The directory and those above it, as far as they are missing. Raises `OSError`."""
        above = os.path.dirname(path)
        if above and not os.path.isdir(above):
            self.make(above)
        try:
            os.mkdir(path)
        except FileExistsError:
            if not os.path.isdir(path):
                raise
        else:
            self.record_made(path)

    def _count(self, path: str) -> None:
        if path not in self._paths:
            _made[path].waiting += 1
            self._paths.append(path)

    def end(self) -> None:
        """What nobody waits for any more goes, if nothing is in it."""
        with _lock:
            for path in sorted(self._paths, key=len, reverse=True):
                made = _made.get(path)
                if made is None:
                    continue
                made.waiting -= 1
                if not made.waiting:
                    del _made[path]
                    _remove(path, made.status)
            self._paths.clear()


def stay(path: str) -> None:
    """The directory and those above it stay, whatever comes."""
    if _made:
        with _lock:
            while _made.pop(path, None) is not None:
                path = os.path.dirname(path)


def _remove(path: str, status: os.stat_result) -> None:
    """Unless something is in it, or something else has its name (S14)."""
    with suppress(OSError):
        if os.path.samestat(os.lstat(path), status):
            os.rmdir(path)


#: Not blocking, should it be a pipe.
_FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK

#: What a file system says that has no second name for a file (FAT, some network ones).
_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EXDEV})


#: What a system says that has no files without a name: the kernel, the file system, or what is under it; or
#: that the directory is gone.
_NO_NAMELESS = frozenset(
    {errno.EISDIR, errno.ENOENT, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EPERM}
)


@cache
def _has_nameless() -> bool:
    """Can a file without a name get one? It is named by way of its descriptor."""
    return hasattr(os, "O_TMPFILE") and os.path.isdir("/proc/self/fd")


#: Search permission is enough; elsewhere than on Linux it must be readable.
_HELD = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC


#: How often a directory is made in which another process, each time, finds nothing and takes it away.
_MAKES = 100


class DirectoryHandle:
    """Raises `OSError`. Nothing else may be asked before `hold`. With `below`, how the path begins, it is
    reached from there by no link: somebody else's would lead elsewhere. What a `passing` one has made goes
    when it is closed, unless something is in it by then, or others of this process wait for that."""

    def __init__(self, path: str, *, make: bool, below: str | None = None, passing: bool = False) -> None:
        self._shown = path
        self._path = path or "."
        self._make = make
        self._below = below
        self._wait = DirectoryHold() if make and passing else None
        self.fd = -1

    def hold(self) -> None:
        """Open it, and make it before if that was asked for. Raises `LocalError` for a link on the way from
        `below`."""
        for _ in range(_MAKES - 1 if self._make else 0):
            with suppress(FileNotFoundError):
                return self._hold()
        return self._hold()

    def _hold(self) -> None:
        if self._wait is not None:
            self._wait.join(self._shown)
        elif self._make:
            stay(self._shown)
        top = self._path if self._below is None else self._below or "."
        try:
            self.fd = spare_descriptor(os.open(top, _HELD))
        except FileNotFoundError:
            if not self._make:
                raise
            self._make_top(top)
            self.fd = spare_descriptor(os.open(top, _HELD))
        if self._below is not None:
            self._go_down(self._below)

    def _make_top(self, path: str) -> None:
        if self._wait is None:
            os.makedirs(path, exist_ok=True)
        else:
            self._wait.make(path)

    def _go_down(self, below: str) -> None:
        is_inside = os.path.join(self._shown, "").startswith(below)
        inside = self._shown[len(below) :] if is_inside else f"../{self._shown}"
        path = below
        try:
            for name in filter(None, inside.split(os.sep)):
                path = os.path.join(path, name)
                self._enter(name, path)
        except (OSError, LocalError):
            self.close()
            raise

    def _enter(self, name: str, path: str) -> None:
        if name in (os.curdir, os.pardir):
            raise LocalError(f"{self._shown!r} leads out of {self._below!r}")
        try:
            inner = self._open_inner(name, path)
        except OSError:
            found = self.status_of(name)
            if found is None or not stat.S_ISLNK(found.st_mode):
                raise
            raise LocalError(
                f"cannot write to {self._shown!r}: {name!r} is a symbolic link, which may lead elsewhere "
                "(S14); remove it, or choose another directory (-d)"
            ) from None
        os.close(self.fd)
        self.fd = inner

    def _open_inner(self, name: str, path: str) -> int:
        flags = _HELD | os.O_NOFOLLOW
        try:
            return os.open(name, flags, dir_fd=self.fd)
        except FileNotFoundError:
            if not self._make:
                raise
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=self.fd)
                if self._wait is not None:
                    self._wait.record_made(path)
            return os.open(name, flags, dir_fd=self.fd)

    def close(self) -> None:
        if self.fd != -1:
            os.close(self.fd)
        self.fd = -1
        if self._wait is not None:
            self._wait.end()

    @property
    def may_be_written(self) -> bool:
        """May files be made in it, as far as permissions tell?"""
        return os.access(".", os.W_OK | os.X_OK, dir_fd=self.fd)

    def status_of(self, name: str) -> os.stat_result | None:
        """Of what has the name, be it a link; None where nothing has."""
        try:
            return os.stat(name, dir_fd=self.fd, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def names(self, name: str, file: os.stat_result) -> bool:
        """Is it this file that has the name?"""
        found = self.status_of(name)
        return found is not None and os.path.samestat(found, file)

    def create(self, name: str, mode: int = 0o666) -> int:
        """A new file, open; `FileExistsError` where something has the name."""
        for _ in range(_MAKES if self._make else 0):
            with suppress(FileNotFoundError):
                return self._create(name, mode)
            self.close()
            self.hold()
        return self._create(name, mode)

    def _create(self, name: str, mode: int) -> int:
        fd = os.open(name, _FLAGS | os.O_RDWR | os.O_CREAT | os.O_EXCL, mode, dir_fd=self.fd)
        try:
            return spare_descriptor(fd)
        except OSError:
            self.forget(name)
            raise

    def create_nameless(self) -> int | None:
        """A new file, open, that has no name yet, and is gone with its descriptor if it gets none; None where
        there is no such thing. Nobody else can open it."""
        if not _has_nameless():
            return None
        try:
            return spare_descriptor(
                os.open(".", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o666, dir_fd=self.fd)
            )
        except OSError as error:
            if error.errno not in _NO_NAMELESS:
                raise
            return None

    def give_name(self, fd: int, name: str) -> bool:
        """The name of a file that has none; `FileExistsError` where something has it. False where the system
        gives none after all."""
        try:
            os.link(f"/proc/self/fd/{fd}", name, dst_dir_fd=self.fd, follow_symlinks=True)
        except OSError as error:
            if error.errno not in _NO_LINKS | _NO_NAMELESS:
                raise
            return False
        return True

    def open(self, name: str, access: int = os.O_RDWR) -> int:
        """The file of that name, for reading too: a digest is taken from the file itself."""
        return spare_descriptor(os.open(name, _FLAGS | access, dir_fd=self.fd))

    def make_foreign_error(self, name: str) -> LocalError:
        """What is to be said of a file that has a name of ours and is none."""
        path = os.path.join(self._shown, name)
        return LocalError(f"{path!r} exists and is none of ours: move or remove it, or choose another name")

    def sync(self) -> None:
        """Bring the names to the disk, where the file system can: what is renamed or removed from here on is
        so later than what was before."""
        with suppress(OSError):
            fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self.fd)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    def forget(self, name: str) -> None:
        """Remove a file of ours, if it is there and can be removed."""
        with suppress(OSError):
            os.unlink(name, dir_fd=self.fd)

    def replace(self, old: str, new: str) -> None:
        """Rename, over whatever has the new name."""
        os.replace(old, new, src_dir_fd=self.fd, dst_dir_fd=self.fd)

    def rename(self, old: str, new: str) -> None:
        """Rename; `FileExistsError` where something has the new name. rename(2) would replace what is
        there, a second name never does."""
        try:
            os.link(old, new, src_dir_fd=self.fd, dst_dir_fd=self.fd, follow_symlinks=False)
        except FileExistsError:
            raise
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            self._rename_without_links(old, new)
        else:
            with suppress(FileNotFoundError):  # another run saw that this one was done
                os.unlink(old, dir_fd=self.fd)

    def _rename_without_links(self, old: str, new: str) -> None:
        """Take the name with an empty file of our own, then replace that."""
        os.close(self.create(new))
        self.replace(old, new)


class DirectoryGone(LocalError):
    """What a run has saved is gone, with the directory that it was in."""


class OutputDirectory:
    """The directory for the files of a run, from the first file on: held open, so that no other directory
    gets its number. To be closed."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd = -1

    @property
    def is_held(self) -> bool:
        """Was there a file yet?"""
        return self._fd != -1

    def check(self) -> None:
        """Raises `DirectoryGone` where its name is no more that of the directory of the first file."""
        try:
            there = os.stat(self._path)
            if self._fd == -1:
                self._fd = os.open(self._path, _HELD)
        except OSError:
            there = None
        if self._fd != -1 and (there is None or not os.path.samestat(there, os.fstat(self._fd))):
            raise DirectoryGone(
                f"the directory {self._path!r} was removed or replaced during the run, with all it had"
            )

    def close(self) -> None:
        if self._fd != -1:
            os.close(self._fd)
        self._fd = -1


# Surplus: files below a directory that may be removed, found and removed through no link and nowhere outside
# (S14).
#
# Each directory on the way down is opened in the one before, so that renaming one, or putting a link in its
# place, leads nowhere else. A found file is recognized by its numbers: a newer file of that name stays.
# Another file system that is mounted below is not entered.

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
            with self._open_directory(parts) as fd:
                found = [_find_item(fd, name) for name in sorted(os.listdir(fd))]
        except OSError:
            return None
        return [each for each in found if each is not None]

    def head(self, parts: Sequence[str], most: int) -> bytes:
        """The first octets of the regular file of that name; none where there is no such thing."""
        *above, name = parts
        try:
            with self._open_directory(above) as fd:
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
            with self._open_directory(above) as fd:
                found = _find_item(fd, name)
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
    def _open_directory(self, parts: Sequence[str]) -> Iterator[int]:
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


def _find_item(fd: int, name: str) -> DirectoryItem | None:
    try:
        found = os.stat(name, dir_fd=fd, follow_symlinks=False)
    except FileNotFoundError:
        return None
    mode = found.st_mode
    return DirectoryItem(name, stat.S_ISREG(mode), stat.S_ISDIR(mode), found.st_dev, found.st_ino)
