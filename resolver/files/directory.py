"""The directory handle for saved files: an open descriptor, which prevents path traversal (S14).

If the directory is renamed, files are still saved in the same directory, which prevents race conditions. File
names are relative to the directory. The methods never follow a symbolic link, and only `replace` overwrites
an existing file. The module also removes directories that stayed empty, and surplus files.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from threading import Lock
from typing import NamedTuple

from protocols.errors import LocalError
from protocols.location import Finding
from resolver.files.faults import DirectoryGone, closing_descriptor, convert_faults, spare_descriptor

# Removal of empty directories. A download creates its directory before the files in the directory arrive.
# When no pending file of the directory is left, the directory is removed if it is empty. If another process
# still needs the directory, the other process creates the directory again.

_lock = Lock()


class _CreatedDirectory:
    def __init__(self, path: str) -> None:
        self.status = os.lstat(path)
        self.waiting = 1


#: The created directories with pending files. The path is as the caller passed it.
_directory_by_path: dict[str, _CreatedDirectory] = {}


class DirectoryHold:
    """The directories that must not be removed while one file is pending."""

    def __init__(self) -> None:
        self._paths: list[str] = []

    def join(self, path: str) -> None:
        """Prevent the removal of the directory and its parents until `end` is called."""
        if _directory_by_path:
            with _lock:
                while path in _directory_by_path:
                    self._count(path)
                    path = os.path.dirname(path)

    def register(self, path: str) -> None:
        """Register a directory that was just created. Raises `OSError`."""
        with _lock:
            _directory_by_path[path] = _CreatedDirectory(path)
            self._paths.append(path)

    def make(self, path: str) -> None:
        """Create the directory and its missing parents. Raises `OSError`."""
        parent = os.path.dirname(path)
        if parent and not os.path.isdir(parent):
            self.make(parent)
        try:
            os.mkdir(path)
        except FileExistsError:
            if not os.path.isdir(path):
                raise
        else:
            self.register(path)

    def _count(self, path: str) -> None:
        if path not in self._paths:
            _directory_by_path[path].waiting += 1
            self._paths.append(path)

    def end(self) -> None:
        """Remove the empty directories without other pending files."""
        if not self._paths:
            return
        with _lock:
            for path in sorted(self._paths, key=len, reverse=True):
                directory = _directory_by_path.get(path)
                if directory is None:
                    continue
                directory.waiting -= 1
                if not directory.waiting:
                    del _directory_by_path[path]
                    _remove(path, directory.status)
            self._paths.clear()


def keep_directory(path: str) -> None:
    """Mark the directory and its parents as permanent, so that they are never removed."""
    if _directory_by_path:
        with _lock:
            while _directory_by_path.pop(path, None) is not None:
                path = os.path.dirname(path)


def _remove(path: str, status: os.stat_result) -> None:
    """Remove the directory if it is empty and `status` identifies it (S14)."""
    with suppress(OSError):
        if os.path.samestat(os.lstat(path), status):
            os.rmdir(path)


#: The flags for opening a file. Without O_NONBLOCK, opening a named pipe waits for a writer.
_FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK

#: `errno` codes of a file system without hard links (FAT, some network file systems). Android since 6.0, and
#: AppArmor without a rule for links, deny link(2) with EACCES. For a file with 0 links, as some FUSE file
#: systems report it, Linux fails with ENOENT.
NO_LINKS = frozenset(
    {
        *(errno.EPERM, errno.EACCES, errno.ENOENT, errno.EOPNOTSUPP, errno.ENOTSUP),
        *(errno.ENOSYS, errno.EMLINK, errno.EXDEV),
    }
)


#: `errno` codes of a kernel or file system without unnamed files (O_TMPFILE), and of a removed directory.
_NO_NAMELESS = frozenset(
    {errno.EISDIR, errno.ENOENT, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EPERM}
)


@cache
def _has_nameless() -> bool:
    """Return whether the system has /proc/self/fd, which links an unnamed file to a name."""
    return hasattr(os, "O_TMPFILE") and os.path.isdir("/proc/self/fd")


#: The flags for opening a directory. With O_PATH, search permission is sufficient. Systems other than Linux
#: need read permission.
_PATH_FLAGS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC


#: After each attempt to create a directory, another process may remove the empty directory.
_MAX_ATTEMPTS = 100


class DirectoryHandle:
    """An open directory. Methods raise `OSError`; `hold` must be called first.

    Args:
        path: The directory.
        make: Whether `hold` creates a missing directory.
        below: A prefix of the path. A symbolic link after this prefix is an error, because another user could
            use the link to redirect files (symlink attack).
        temporary: Whether `close` removes a directory that `hold` created. A directory with entries or with
            other pending files of this process is not removed.
    """

    def __init__(self, path: str, *, make: bool, below: str | None = None, temporary: bool = False) -> None:
        self._shown = path
        self._path = path or "."
        self._make = make
        self._below = below
        self._directory_hold = DirectoryHold() if make and temporary else None
        self.fd = -1

    def hold(self) -> None:
        """Open the directory, and create a missing directory if `make` is set.

        Raises:
            LocalError: A directory after `below` is a symbolic link.
        """
        for _ in range(_MAX_ATTEMPTS - 1 if self._make else 0):
            try:
                return self._hold()
            except FileNotFoundError:
                continue
        return self._hold()

    def _hold(self) -> None:
        if self._directory_hold is not None:
            self._directory_hold.join(self._shown)
        elif self._make:
            keep_directory(self._shown)
        top = self._path if self._below is None else self._below or "."
        try:
            self.fd = spare_descriptor(os.open(top, _PATH_FLAGS))
        except FileNotFoundError:
            if not self._make:
                raise
            if self._directory_hold is None:
                os.makedirs(top, exist_ok=True)
            else:
                self._directory_hold.make(top)
            self.fd = spare_descriptor(os.open(top, _PATH_FLAGS))
        if self._below is not None:
            self._open_below(self._below)

    def _open_below(self, below: str) -> None:
        is_inside = os.path.join(self._shown, "").startswith(below)
        inside = self._shown[len(below) :] if is_inside else f"../{self._shown}"
        names = [name for name in inside.split(os.sep) if name]
        try:
            for depth, name in enumerate(names, 1):
                self._enter(name, names[:depth])
        except (OSError, LocalError):
            self.close()
            raise

    def _enter(self, name: str, names: list[str]) -> None:
        if name in (os.curdir, os.pardir):
            raise LocalError(f"{self._shown!r} leads out of {self._below!r}")
        flags = _PATH_FLAGS | os.O_NOFOLLOW
        try:
            try:
                inner = os.open(name, flags, dir_fd=self.fd)
            except FileNotFoundError:
                if not self._make:
                    raise
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=self.fd)
                    if self._directory_hold is not None:
                        self._directory_hold.register(os.path.join(self._below or "", *names))
                inner = os.open(name, flags, dir_fd=self.fd)
        except OSError:
            status = self.status_of(name)
            if status is None or not stat.S_ISLNK(status.st_mode):
                raise
            raise LocalError(
                f"cannot write to {self._shown!r}: {name!r} is a symbolic link, which may lead elsewhere "
                "(S14): remove it, or choose another directory"
            ) from None
        os.close(self.fd)
        self.fd = inner

    def close(self) -> None:
        if self.fd != -1:
            os.close(self.fd)
        self.fd = -1
        if self._directory_hold is not None:
            self._directory_hold.end()

    @property
    def may_be_written(self) -> bool:
        """Return whether the permissions of the directory seem to allow new files."""
        return os.access(".", os.W_OK | os.X_OK, dir_fd=self.fd)

    def status_of(self, name: str) -> os.stat_result | None:
        """Return the `stat` result of a name, without following a symlink, or None if the name is free."""
        try:
            return os.stat(name, dir_fd=self.fd, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def has(self, name: str, file: os.stat_result) -> bool:
        """Return whether `name` is the name of the file that `file` identifies."""
        status = self.status_of(name)
        return status is not None and os.path.samestat(status, file)

    def create(self, name: str, mode: int = 0o666) -> int:
        """Create and open a new file. Raises `FileExistsError` if the name is taken."""
        for _ in range(_MAX_ATTEMPTS if self._make else 0):
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
        """Create and open an unnamed file (O_TMPFILE); return None if the system does not support O_TMPFILE.

        No other process can open the file. Closing the descriptor removes a file without a name.
        """
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
        """Link an unnamed file to a name; return False if the system does not support the link.

        Raises:
            FileExistsError: The name is taken.
        """
        try:
            os.link(f"/proc/self/fd/{fd}", name, dst_dir_fd=self.fd, follow_symlinks=True)
        except OSError as error:
            if error.errno not in NO_LINKS | _NO_NAMELESS:
                raise
            return False
        return True

    def open(self, name: str, access: int = os.O_RDWR) -> int:
        """Open a file for reading and writing; read access is needed to compute the digest."""
        return spare_descriptor(os.open(name, _FLAGS | access, dir_fd=self.fd))

    def read_own(self, name: str, is_allowed: Callable[[os.stat_result], bool], size: int) -> bytes | None:
        """Return the first `size` bytes of a file of this package, or None if the file is missing.

        Raises:
            LocalError: The file cannot be opened, or `is_allowed` is false for its `stat` result.
        """
        status = self.status_of(name)
        if status is None:
            return None
        if not is_allowed(status):
            raise self.make_foreign_error(name)
        try:
            fd = self.open(name, os.O_RDONLY)
        except FileNotFoundError:  # A concurrent transfer has renamed the file.
            return None
        except OSError as error:
            raise self.make_foreign_error(name) from error
        with closing_descriptor(fd):
            if not is_allowed(os.fstat(fd)):
                raise self.make_foreign_error(name)
            return os.read(fd, size)

    def make_foreign_error(self, name: str) -> LocalError:
        """Return the error for a file that another program created under a reserved name."""
        path = os.path.join(self._shown, name)
        return LocalError(
            f"{path!r} exists and was not created by resolve: move or remove it, or choose another name"
        )

    def sync(self) -> None:
        """Sync the directory to the disk if the file system supports this.

        A later rename or removal in the directory then reaches the disk after all earlier changes.
        """
        sync_directory(".", self.fd)

    def forget(self, name: str) -> None:
        """Remove a file of this package; errors are ignored."""
        with suppress(OSError):
            os.unlink(name, dir_fd=self.fd)

    def replace(self, old: str, new: str) -> None:
        """Rename a file and overwrite an existing file with the new name."""
        os.replace(old, new, src_dir_fd=self.fd, dst_dir_fd=self.fd)

    def rename(self, old: str, new: str) -> None:
        """Rename a file without overwriting another file.

        The method creates a hard link, because link(2) fails if the name is taken. rename(2) would overwrite
        the other file.

        Raises:
            FileExistsError: The new name is taken.
            OSError: The file cannot be renamed, and has only the old name.
        """
        try:
            os.link(old, new, src_dir_fd=self.fd, dst_dir_fd=self.fd, follow_symlinks=False)
        except FileExistsError:
            raise
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise
            self._rename_without_links(old, new)
        else:
            try:
                # A concurrent run may have seen the new name and removed the old name.
                with suppress(FileNotFoundError):
                    os.unlink(old, dir_fd=self.fd)
            except OSError:
                # The next run would take a file with both names for the file of another program.
                if (status := self.status_of(old)) is not None and self.has(new, status):
                    self.forget(new)
                raise

    def _rename_without_links(self, old: str, new: str) -> None:
        """Create an empty file with the new name, and then overwrite the empty file with rename(2)."""
        os.close(self.create(new))
        try:
            self.replace(old, new)
        except OSError:
            self.forget(new)
            raise


def sync_directory(path: str, dir_fd: int | None = None) -> None:
    """Sync a directory to the disk, if the file system supports this; errors are ignored."""
    with suppress(OSError):
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        with closing_descriptor(os.open(path, flags, dir_fd=dir_fd)) as fd:
            os.fsync(fd)


class OutputDirectory:
    """The output directory of a run. It stays open from the first saved file until `close`.

    While the directory is open, the system does not reuse its inode number for another directory.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd = -1
        self._status: os.stat_result | None = None

    @property
    def is_open(self) -> bool:
        return self._fd != -1

    def check(self) -> None:
        """Raise `DirectoryGone` if the directory was removed or replaced after the first saved file."""
        try:
            status = os.stat(self._path)
            if self._status is None:
                self._fd = os.open(self._path, _PATH_FLAGS)
                self._status = os.fstat(self._fd)
            is_same = os.path.samestat(status, self._status)
        except (FileNotFoundError, NotADirectoryError):
            is_same = self._fd == -1
        except OSError:  # Without memory, for example, nothing is known about the directory.
            is_same = True
        if not is_same:
            raise DirectoryGone(
                f"the directory {self._path!r} was removed or replaced during the run, with all its files"
            )

    def close(self) -> None:
        if self._fd != -1:
            os.close(self._fd)
        self._fd = -1


# Removal of surplus files below a directory, without following symlinks (S14).
#
# Each subdirectory is opened relative to its parent directory. So a renamed directory or a symlink cannot
# redirect the search to another directory. A file is removed only if its device and inode number match, so a
# newer file with the same name stays. Mounted file systems are not searched. Each removal requires the
# complete listing that lacks the file.

_READ_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class DirectoryItem(NamedTuple):
    """A directory entry with its name, its type, its device and its inode number.

    For an entry that is neither a regular file nor a directory, both type flags are false.
    """

    name: str
    is_file: bool
    is_directory: bool
    device: int
    inode: int


def is_truncated(findings: Iterable[Finding]) -> bool:
    """Return whether the server truncated its listing."""
    return any(finding.rule.endswith(":listing-cut") for finding in findings)


class Proven(NamedTuple):
    """A listing that is proven to be complete; only `of` and the inventory create one.

    A proof is a terminator, a length, a final reply, or a TLS close_notify. A closed connection is not a
    proof, because an attacker on the network path can close a connection (truncation attack).

    Attributes:
        url: The URL of the listed directory.
        certain: Whether a listing of this scheme contains all files.
    """

    url: str
    certain: bool

    @classmethod
    def of(
        cls,
        url: str,
        proofs: Sequence[str],
        findings: Sequence[Finding],
        *,
        entries: int,
        skipped: bool,
        certain: bool,
    ) -> Proven | None:
        """Return the proven listing, or None in these cases.

        - The protocol does not prove that the listing is complete, or the server truncated the listing.
        - An entry could not be parsed, has a path as its name, or was skipped for another reason than its
          name (`skipped`).
        - The listing is empty, because servers may list an unreadable directory as empty.
        """
        has_path = any(finding.rule.endswith(":foreign-name") for finding in findings)
        if not proofs or not entries or skipped or has_path or is_truncated(findings):
            return None
        return cls(url, certain)


class SurplusFile(NamedTuple):
    """A local file or directory that a complete listing lacks.

    Attributes:
        parts: The path components.
        listing: The listing of the directory, or of the directory above a surplus directory.
    """

    parts: tuple[str, ...]
    is_directory: bool
    device: int
    inode: int
    listing: Proven

    @property
    def path(self) -> str:
        return "/".join(self.parts) + "/" * self.is_directory


class SurplusWalk:
    """An open directory in which surplus files are searched.

    The caller must call `close`.

    Raises:
        LocalError: The directory cannot be opened.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        with convert_faults(path):
            self._fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def close(self) -> None:
        os.close(self._fd)

    def names(self, parts: Sequence[str]) -> list[DirectoryItem] | None:
        """Return the sorted names in the directory whose path has the components `parts`.

        The result is `None` if the directory is missing or not readable. It is also None if the path contains
        a symlink, or leads to another file system.
        """
        try:
            with self._open_directory(parts) as fd:
                items = [_find_item(fd, name) for name in sorted(os.listdir(fd))]
        except OSError:
            return None
        return [item for item in items if item is not None]

    def head(self, parts: Sequence[str], max_size: int) -> bytes:
        """Return the first `max_size` bytes of a regular file, or empty bytes if it is missing."""
        *parents, name = parts
        try:
            with (
                self._open_directory(parents) as directory,
                closing_descriptor(os.open(name, os.O_RDONLY | _FLAGS, dir_fd=directory)) as fd,
            ):
                return os.read(fd, max_size) if stat.S_ISREG(os.fstat(fd).st_mode) else b""
        except OSError:
            return b""

    def drop(self, surplus: SurplusFile) -> bool:
        """Remove the file, or the empty directory, if it still has its device and inode number.

        Returns:
            False if the file is missing, if another file has the name, or if the directory is not empty.

        Raises:
            LocalError: The file cannot be removed.
        """
        *parents, name = surplus.parts
        try:
            with self._open_directory(parents) as fd:
                item = _find_item(fd, name)
                if item is None or (item.device, item.inode) != (surplus.device, surplus.inode):
                    return False
                if item.is_directory:
                    with suppress(OSError):
                        os.rmdir(name, dir_fd=fd)
                        return True
                    return False
                os.unlink(name, dir_fd=fd)
                return True
        except FileNotFoundError:
            return False
        except OSError as error:
            path = os.path.join(self._path, *surplus.parts)
            raise LocalError(f"cannot remove {path!r}: {error.strerror}") from error

    @contextmanager
    def _open_directory(self, parts: Sequence[str]) -> Iterator[int]:
        fd = os.dup(self._fd)
        try:
            device = os.fstat(fd).st_dev if parts else None
            for part in parts:
                below = os.open(part, _READ_FLAGS, dir_fd=fd)
                os.close(fd)
                fd = below
                if os.fstat(fd).st_dev != device:
                    raise OSError(0, "another file system")
            yield fd
        finally:
            os.close(fd)


def find_inode(path: str) -> tuple[int, int] | None:
    """Return device and inode number of a file, also through symlinks, or None if it is missing."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _find_item(fd: int, name: str) -> DirectoryItem | None:
    try:
        status = os.stat(name, dir_fd=fd, follow_symlinks=False)
    except FileNotFoundError:
        return None
    mode = status.st_mode
    return DirectoryItem(name, stat.S_ISREG(mode), stat.S_ISDIR(mode), status.st_dev, status.st_ino)
