"""A directory that files of ours go to: held open, so that renaming it cannot send them elsewhere (S14).

Names are those in the directory. No call follows a link, and none gives a name that something has
already, but for `replace`.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from functools import cache

from protocols.errors import LocalError
from resolver.disk.descriptors import spared
from resolver.disk.made import DirectoryHold, stay

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
            self.fd = spared(os.open(top, _HELD))
        except FileNotFoundError:
            if not self._make:
                raise
            self._make_top(top)
            self.fd = spared(os.open(top, _HELD))
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
                    self._wait.made(path)
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
            return spared(fd)
        except OSError:
            self.forget(name)
            raise

    def create_nameless(self) -> int | None:
        """A new file, open, that has no name yet, and is gone with its descriptor if it gets none; None where
        there is no such thing. Nobody else can open it."""
        if not _has_nameless():
            return None
        try:
            return spared(os.open(".", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o666, dir_fd=self.fd))
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
        return spared(os.open(name, _FLAGS | access, dir_fd=self.fd))

    def foreign(self, name: str) -> LocalError:
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
