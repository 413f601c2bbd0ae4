"""The local files and directories that file URLs name (S12). No other module opens them.

Only regular files and directories are opened, unless the policy allows other file types. The type of a file
is checked before the file is opened, because the opening of a device can have side effects. The type is
checked again afterwards, because another process may have replaced the file (TOCTOU).

System calls run in the thread of the event loop. Even if the system reads from the disk, a call takes at most
milliseconds, and a worker thread would double the time. Only the names in a directory are read in a worker
thread, because a directory may be large.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from heapq import merge

from protocols.contract import FileStatus, Kind, Sink
from protocols.dates import from_timestamp
from protocols.errors import NotConfigured, Refused, ResolveError, TimedOut
from resolver.files.faults import object_fault
from resolver.loops import Loop, running
from resolver.policy.subject import refusal

# Protection against path traversal: access only below one directory (S12, `file_root`).
#
# Each component of a path is opened relative to the previous directory, without following symlinks. This
# module reads symlinks itself and resolves their targets in the same way. A symlink or a `..` that leaves the
# root is refused, even if a later path component leads back below the root. So a URL cannot test whether a
# file outside the root exists. The directories stay open, so another process cannot redirect the resolution
# by renaming a directory.

#: The maximum number of symlinks in one path, as in the Linux kernel (path_resolution(7)).
MAX_LINKS = 40

# The flags for opening a directory. With O_PATH, search permission is sufficient. Systems other than Linux
# need read permission.
_DIRECTORY_FLAGS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class FileRoot:
    """The root directory of local files, with the configured path and the real path.

    The path in a URL may begin with the configured path or the real path of the root directory.
    """

    def __init__(self, path: str) -> None:
        configured = os.fsencode(os.path.abspath(path))
        self._real = os.path.realpath(configured)
        spellings = (configured.split(b"/"), self._real.split(b"/"))
        self._spellings = tuple([part for part in parts if part] for parts in spellings)

    def strip_root(self, parts: Sequence[bytes]) -> list[bytes]:
        """Return the path components below the root.

        Raises:
            Refused: The path is outside the root (S12).
        """
        components = [part for part in parts[:-1] if part not in (b"", b".")] + list(parts[-1:])
        for root in self._spellings:
            if components[: len(root)] == root:
                return components[len(root) :]
        raise _make_outside_error()

    def open(self) -> int:
        try:
            return os.open(self._real, _DIRECTORY_FLAGS)
        except OSError as error:
            raise NotConfigured(
                f"cannot open file_root {os.fsdecode(self._real)!r}: {error.strerror}"
            ) from error


class RootedWalk:
    """A path resolution from the root; `top` is the descriptor of the current directory."""

    def __init__(self, root: FileRoot) -> None:
        self._root = root
        self._fds = [root.open()]

    @property
    def top(self) -> int:
        return self._fds[-1]

    def resolve(self, parts: Sequence[bytes]) -> bytes:
        """Resolve the path components `parts`, relative to the current directory.

        Returns:
            The name of the file in `top`, after the resolution of all symlinks. The name is `b"."` if the
            path leads to the directory `top`.

        Raises:
            OSError: The path does not exist.
            Refused: The path leaves the root.
        """
        remaining = deque(parts)
        links = 0
        while remaining:
            part = remaining.popleft()
            if part in (b"", b"."):
                continue
            if part == b"..":
                if len(self._fds) == 1:
                    raise _make_outside_error()
                os.close(self._fds.pop())
                continue
            mode = os.stat(part, dir_fd=self.top, follow_symlinks=False).st_mode
            if stat.S_ISLNK(mode):
                links += 1
                remaining.extendleft(reversed(self._read_link(part, links)))
            elif stat.S_ISDIR(mode):
                self._fds.append(os.open(part, _DIRECTORY_FLAGS, dir_fd=self.top))
            elif remaining:
                raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
            else:
                return part
        return b"."

    def copy(self) -> RootedWalk:
        """Return a copy of the path resolution with the same current directory."""
        walk = RootedWalk(self._root)
        walk._fds += [os.dup(fd) for fd in self._fds[1:]]
        return walk

    def close(self) -> None:
        while self._fds:
            os.close(self._fds.pop())

    def _read_link(self, name: bytes, links: int) -> list[bytes]:
        if links > MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        target = os.readlink(name, dir_fd=self.top)
        parts = target.split(b"/")
        if not target.startswith(b"/"):
            return parts
        below = self._root.strip_root(parts)
        while len(self._fds) > 1:
            os.close(self._fds.pop())
        return below


def _make_outside_error() -> Refused:
    return refusal("S12", "the path leads out of the directory for file URLs (file_root)")


#: The number of bytes per read. A read from the page cache takes about 0.1 ms.
READ_SIZE = 262_144

#: The number of names that one call sorts. A call takes about 1 ms.
_RUN = 2_000

#: The number of bytes per call of sendfile(2).
_MOVE_SIZE = 1_048_576

# O_NONBLOCK prevents a wait for the writer of a named pipe. O_NOCTTY prevents that a terminal becomes the
# controlling terminal. O_CLOEXEC prevents that a child process gets the descriptor.
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def open_local(
    segments: tuple[bytes, ...], *, root: FileRoot | None, special: bool, idle: float
) -> OpenedFile:
    """Open the file that the path segments of a URL name.

    Args:
        segments: The decoded path segments. With an empty last segment (a trailing slash) the path must be a
            directory.
        root: The directory that the path must not leave, or None.
        special: Whether devices, pipes and sockets are allowed.
        idle: The idle timeout in seconds.

    Raises:
        Refused: The path is outside the root, or the file type is not allowed (S12).
        NotFound: The file does not exist.
        AccessDenied: Permissions do not allow the access.
        LocalError: The system reports another error.
    """
    path = b"/" + b"/".join(segments)
    if any(b"\0" in segment or b"/" in segment for segment in segments):
        raise refusal("S12", f"a segment of {os.fsdecode(path)!r} contains a NUL or a slash")
    try:
        if root is None:
            return OpenedFile(_open(path, None, special), path, None, idle)
        return _open_below(root, segments, path, special, idle)
    except OSError as error:
        raise object_fault(error, path) from error


def _open_below(
    root: FileRoot, segments: tuple[bytes, ...], path: bytes, special: bool, idle: float
) -> OpenedFile:
    below = root.strip_root(segments)
    walk = RootedWalk(root)
    try:
        name = walk.resolve(below)
        return OpenedFile(_open(name, walk.top, special), path, walk, idle)
    except BaseException:
        walk.close()
        raise


def _open(name: bytes, directory: int | None, special: bool) -> int:
    """Open a file, and check the file type both before and after the opening.

    With `directory`, the name is relative to the directory, and a symlink is an error. Without `directory`,
    the system resolves the complete path and follows symlinks.
    """
    before = os.stat(name, dir_fd=directory, follow_symlinks=directory is None)
    _check_mode(before.st_mode, special)
    fd = os.open(name, _FLAGS | (0 if directory is None else os.O_NOFOLLOW), dir_fd=directory)
    try:
        _check_mode(os.fstat(fd).st_mode, special)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _check_mode(mode: int, special: bool) -> None:
    if not (special or stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise refusal(
            "S12", "expected a regular file, got a device, a pipe or a socket", flag="--allow-special"
        )


class OpenedFile:
    """An open file or directory; see `protocols.contract.LocalFile`.

    Closing the object closes the descriptor of the file and, with a `root`, the descriptors of the
    directories.
    """

    def __init__(self, fd: int, path: bytes, walk: RootedWalk | None, idle: float) -> None:
        self._fd = fd
        self._path = path
        self._walk = walk
        self._idle = idle
        stat_result = os.fstat(fd)
        self._opened_at = stat_result.st_mtime_ns
        self._is_regular = stat.S_ISREG(stat_result.st_mode)
        status = _status(stat_result)
        is_unsure = self._is_regular and not stat_result.st_blocks
        if status.kind is Kind.UNKNOWN or (is_unsure and self._is_size_wrong(stat_result.st_size)):
            status = FileStatus(Kind.DOCUMENT, None, status.modified)
        self.status = status

    @cached_property
    def _loop(self) -> Loop:
        return running()

    def _is_size_wrong(self, size: int) -> bool:
        """Return whether the size is not the number of bytes: it is 0 in /proc, and 4096 in /sys."""
        with suppress(OSError):
            return (os.pread(self._fd, 1, max(0, size - 1)) == b"") == (size > 0)
        return False

    async def read(self) -> bytes:
        await self._loop.checkpoint()
        if not self._is_regular:
            await self._wait()
        try:
            return os.read(self._fd, READ_SIZE)
        except OSError as error:
            raise object_fault(error, self._path) from error

    async def _wait(self) -> None:
        """Wait until a pipe or a terminal has data.

        If the file is a device that does not support polling, such as /dev/zero, the method returns
        immediately.
        """
        with self._loop.move_on_after(self._idle) as scope, suppress(PermissionError):
            await self._loop.wait_readable(self._fd)
        if scope.cancelled_caught:
            raise TimedOut(
                f"timed out: no data from {os.fsdecode(self._path)!r} for {self._idle:g} s"
            ).with_setting("idle_timeout")

    def modified_since(self) -> bool:
        return os.fstat(self._fd).st_mtime_ns != self._opened_at

    def begin_at(self, octet: int) -> None:
        if octet:
            os.lseek(self._fd, octet, os.SEEK_SET)

    async def move(self, sink: Sink) -> int:
        moved = await self._send_file(sink) if self._is_regular else 0
        while octets := await self.read():
            sink.write(octets)
            moved += len(octets)
        return moved

    async def _send_file(self, sink: Sink) -> int:
        """Copy bytes with sendfile(2) and return the number of copied bytes.

        If sendfile fails, the caller copies the remaining bytes with read and write calls, which report the
        error.
        """
        moved = 0
        with suppress(OSError):
            while True:
                await self._loop.checkpoint()
                count = os.sendfile(sink.fileno(), self._fd, None, _MOVE_SIZE)
                if count == 0:
                    break
                moved += count
        return moved

    async def names(self) -> list[bytes]:
        try:
            return await self._loop.in_thread(_sorted_names, self._fd)
        except OSError as error:
            raise object_fault(error, self._path) from error

    def status_of(self, name: bytes) -> FileStatus:
        try:
            status = _status(self._stat(name))
            if status.kind is Kind.DIRECTORY:
                with suppress(OSError):  # The path may be a directory instead of a symlink.
                    return status._replace(link=os.readlink(name, dir_fd=self._fd))
        except (OSError, ResolveError):
            return FileStatus(Kind.UNKNOWN, None, None)
        return status

    def _stat(self, name: bytes) -> os.stat_result:
        if self._walk is None:
            return os.stat(name, dir_fd=self._fd)
        status = os.stat(name, dir_fd=self._fd, follow_symlinks=False)
        return self._follow(name) if stat.S_ISLNK(status.st_mode) else status

    def _follow(self, name: bytes) -> os.stat_result:
        assert self._walk is not None
        walk = self._walk.copy()
        try:
            return os.stat(walk.resolve([name]), dir_fd=walk.top, follow_symlinks=False)
        finally:
            walk.close()

    def close(self) -> None:
        os.close(self._fd)
        if self._walk is not None:
            self._walk.close()


def _sorted_names(fd: int) -> list[bytes]:
    """Return the sorted names in a directory. The function runs in a worker thread.

    A single call of `sorted` for a million names would hold the global interpreter lock (GIL) for 1 s. All
    other threads would be blocked. So the function sorts short lists. `heapq.merge` is Python code, so other
    threads can run during the merge.
    """
    names = list(map(os.fsencode, os.listdir(fd)))
    runs = [sorted(names[start : start + _RUN]) for start in range(0, len(names), _RUN)]
    return list(merge(*runs))


def _format_identity(status: os.stat_result) -> str:
    return f"{status.st_dev:x}.{status.st_ino:x}"


def is_directory_at(path: str, identity: object) -> bool:
    """Return whether a path leads to the directory with an identifier from a listing of a `file` URL."""
    try:
        return identity == _format_identity(os.stat(path))
    except (OSError, ValueError):
        return False


def _status(status: os.stat_result) -> FileStatus:
    modified = from_timestamp(status.st_mtime)
    if stat.S_ISREG(status.st_mode):
        return FileStatus(Kind.DOCUMENT, status.st_size, modified)
    if stat.S_ISDIR(status.st_mode):
        return FileStatus(Kind.DIRECTORY, None, modified, _format_identity(status))
    return FileStatus(Kind.UNKNOWN, None, modified)
