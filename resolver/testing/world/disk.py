"""A simulated disk with fault injection and power loss, for tests of crash consistency.

The disk records all changes in a directory, so that a power loss can undo them. The model is a journaling
file system. Changes of names, permissions, extended attributes and file sizes reach the disk in order. A sync
of a directory or of the file system makes all earlier changes durable. A sync of a file makes its bytes, its
size and its extended attributes durable, and so all changes before its last change. After a power loss, all,
some or none of the unsynced bytes are on the disk.
"""

from __future__ import annotations

import errno
import io
import os
import random
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from resolver.testing.world.schedule import DISK, LEDGER, Schedule

Key: TypeAlias = "tuple[int, int]"

_NEW = os.O_CREAT
_NAMELESS = getattr(os, "O_TMPFILE", 0)
#: The keywords at the start of the SQL statements that change a ledger.
_CHANGES = ("INSERT", "UPDATE", "DELETE", "COMMIT")
#: The block size in bytes: a power loss removes complete blocks of unsynced bytes.
_BLOCK = 512


@dataclass
class _JournalEntry:
    """A change on the disk, and the function that undoes the change.

    `file` is the file of a changed file size or extended attribute. A sync of this file makes the change and
    all earlier changes durable.
    """

    undo: Callable[[], None]
    file: Key | None = None


@dataclass
class _LedgerVersions:
    """The contents of a database after each commit; the first content is that of the last durable commit."""

    contents: list[bytes] = field(default_factory=lambda: [b""])

    def add(self, content: bytes, *, durable: bool) -> None:
        self.contents = [content] if durable else [*self.contents, content]


class Disk:
    """The replacement of the module `os` for the modules that write files.

    Args:
        root: The directory of the simulated disk. Calls for other paths go to the real `os` unchanged.
        grave: A directory for removed files on the same file system. A power loss may restore these files.

    Attributes:
        has_ledger_fault: Whether the last transaction of the life failed because of an injected fault.
    """

    def __init__(self, root: str, grave: str) -> None:
        self._root = os.path.realpath(root)
        self._grave = grave
        self._graves = 0
        self._synced: dict[Key, bytes] = {}
        self._journal: list[_JournalEntry] = []
        self._durable = 0  # The number of durable changes at the beginning of the journal.
        self._ledgers: dict[str, _LedgerVersions] = {}
        self.begin(Schedule(0), lambda: None)

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def begin(self, schedule: Schedule, step: Callable[[], None]) -> None:
        """Begin a life of the simulated process.

        Args:
            schedule: The faults of the life.
            step: The function that is called before each change. It may kill the process.
        """
        self._schedule, self._step = schedule, step
        self._calls = self._statements = 0
        self.has_ledger_fault = False
        self._descriptors: set[int] = set()
        self._databases: list[Database] = []

    def end(self) -> int:
        """Close all file descriptors, and return the number of open file descriptors."""
        count = len(self._descriptors)
        for fd in self._descriptors:
            with suppress(OSError):
                os.close(fd)
        self._descriptors.clear()
        for database in self._databases:
            with suppress(sqlite3.Error):
                database.close()
        self._databases.clear()
        return count

    # -- system calls

    def _begin(self, *kinds: str) -> str | None:
        """Count a change of the disk, and inject the fault that the schedule has for this change.

        A fault that is not one of `kinds` is ignored. For a short write, the method returns `short`.

        Raises:
            OSError: The injected fault is an error.
        """
        self._step()
        self._calls += 1
        fault = self._schedule.find(DISK, self._calls)
        if fault is None or fault.kind not in kinds:
            return None
        if fault.kind == "short":
            return "short"
        number: int = getattr(errno, fault.kind)
        raise OSError(number, os.strerror(number))

    def _path(self, name: Any, dir_fd: int | None) -> str:
        text = os.fsdecode(name)
        parent = os.getcwd() if dir_fd is None else os.readlink(f"/proc/self/fd/{dir_fd}")
        return os.path.normpath(os.path.join(parent, text))

    def _is_inside(self, path: str) -> bool:
        return path == self._root or path.startswith(self._root + os.sep)

    def open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        full_path = self._path(path, dir_fd)
        if not self._is_inside(full_path):
            return os.open(path, flags, mode, dir_fd=dir_fd)
        nameless = bool(_NAMELESS) and flags & _NAMELESS == _NAMELESS
        new = nameless or (bool(flags & _NEW) and not os.path.lexists(full_path))
        self._begin(*(("ENOSPC", "EDQUOT", "EIO", "EMFILE") if new else ("EMFILE",)))
        fd = os.open(path, flags, mode, dir_fd=dir_fd)
        self._descriptors.add(fd)
        if new:
            self._synced[_key(fd)] = b""
        if new and not nameless:
            self._record(lambda: os.unlink(full_path))
        return fd

    def dup(self, fd: int) -> int:
        new = os.dup(fd)
        if fd in self._descriptors:
            self._descriptors.add(new)
        return new

    def close(self, fd: int) -> None:
        os.close(fd)
        self._descriptors.discard(fd)

    def write(self, fd: int, octets: Any) -> int:
        if fd not in self._descriptors:
            return os.write(fd, octets)
        view = memoryview(octets)
        if self._begin("ENOSPC", "EDQUOT", "EIO", "short") == "short":
            view = view[: len(view) // 2]
        self._keep_synced(fd)
        self._record_size(fd)
        return os.write(fd, view)

    def splice(self, source: int, target: int, count: int, **more: Any) -> int:
        if target in self._descriptors:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return os.splice(source, target, count, **more)

    def sendfile(self, target: int, source: int, *more: Any) -> int:
        if target in self._descriptors:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return os.sendfile(target, source, *more)

    def ftruncate(self, fd: int, size: int) -> None:
        self._begin("EIO")
        self._keep_synced(fd)
        self._record_size(fd)
        os.ftruncate(fd, size)

    def fsync(self, fd: int) -> None:
        self._begin("EIO", "ENOSPC")
        self._note_synced(fd)

    fdatasync = fsync

    def syncfs(self, fd: int) -> bool:
        """Sync the complete file system as syncfs(2) does, and return whether the sync succeeded."""
        try:
            self._begin("EIO")
        except OSError:
            return False
        for open_fd in self._descriptors:
            with suppress(OSError):
                self._note_synced(open_fd)
        self._synced = {key: octets for key, octets in self._synced.items() if self._is_open(key)}
        self._clear_journal()
        return True

    def link(
        self,
        source: Any,
        target: Any,
        *,
        src_dir_fd: int | None = None,
        dst_dir_fd: int | None = None,
        **more: Any,
    ) -> None:
        full_path = self._path(target, dst_dir_fd)
        self._begin("ENOSPC", "EIO")
        os.link(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd, **more)
        self._record(lambda: os.unlink(full_path))

    def replace(
        self, source: Any, target: Any, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None
    ) -> None:
        old, new = self._path(source, src_dir_fd), self._path(target, dst_dir_fd)
        self._begin("ENOSPC", "EIO")
        bring_back = self._bury(new)
        os.replace(old, new)

        def undo() -> None:
            os.rename(new, old)
            bring_back()

        self._record(undo)

    rename = replace

    def unlink(self, path: Any, *, dir_fd: int | None = None) -> None:
        full_path = self._path(path, dir_fd)
        self._begin("EIO")
        bring_back = self._bury(full_path)
        os.unlink(full_path)
        self._record(bring_back)

    def mkdir(self, path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        full_path = self._path(path, dir_fd)
        self._begin("ENOSPC", "EIO")
        os.mkdir(full_path, mode)
        self._record(lambda: os.rmdir(full_path))

    def makedirs(self, path: Any, mode: int = 0o777, exist_ok: bool = False) -> None:
        parent = os.path.dirname(os.fsdecode(path))
        if parent and not os.path.isdir(parent):
            self.makedirs(parent, exist_ok=True)
        if not (exist_ok and os.path.isdir(path)):
            self.mkdir(path, mode)

    def rmdir(self, path: Any, *, dir_fd: int | None = None) -> None:
        full_path = self._path(path, dir_fd)
        self._begin("EIO")
        os.rmdir(full_path)
        self._record(lambda: os.mkdir(full_path))

    def setxattr(self, fd: int, name: str, value: bytes) -> None:
        self._begin("ENOSPC")
        key, before = _key(fd), _xattr(fd, name)
        os.setxattr(fd, name, value)
        self._journal.append(_JournalEntry(lambda: self._restore_xattr(key, name, before), key))

    def removexattr(self, fd: int, name: str) -> None:
        self._begin("EIO")
        key, before = _key(fd), _xattr(fd, name)
        os.removexattr(fd, name)
        self._journal.append(_JournalEntry(lambda: self._restore_xattr(key, name, before), key))

    def _restore_xattr(self, key: Key, name: str, before: bytes | None) -> None:
        for path in self._find_paths(key)[:1]:
            if before is not None:
                os.setxattr(path, name, before)
            else:
                with suppress(OSError):
                    os.removexattr(path, name)

    def open_file(self, fd: Any, mode: str = "r", **more: Any) -> Any:
        """Open a file as the builtin `open` does; replaces this builtin in `resolver.files`."""
        if isinstance(fd, int) and mode == "wb" and fd in self._descriptors:
            return io.BufferedWriter(_Raw(self, fd, closes=more.get("closefd", True)))
        if isinstance(fd, int) and more.get("closefd", True):
            self._descriptors.discard(fd)
        return open(fd, mode, **more)

    # -- power loss

    def _record(self, undo: Callable[[], None]) -> None:
        self._journal.append(_JournalEntry(undo))

    def _record_size(self, fd: int) -> None:
        key, size = _key(fd), os.fstat(fd).st_size

        def undo() -> None:
            for path in self._find_paths(key)[:1]:
                if os.path.getsize(path) > size:
                    os.truncate(path, size)

        self._journal.append(_JournalEntry(undo, key))

    def _bury(self, path: str) -> Callable[[], None]:
        """Save a file before its name is removed, and return a function that restores the name.

        A file with a second hard link is not saved, because another link would change its link count.
        """
        if not os.path.lexists(path):
            return lambda: None
        status = os.lstat(path)
        key = status.st_dev, status.st_ino
        if status.st_nlink > 1:
            return lambda: os.link(self._find_paths(key)[0], path)
        self._graves += 1
        buried = os.path.join(self._grave, str(self._graves))
        os.link(path, buried, follow_symlinks=False)
        return lambda: os.rename(buried, path)

    def _keep_synced(self, fd: int) -> None:
        """Record the durable content of a file, before its first change after a sync."""
        if (key := _key(fd)) not in self._synced:
            self._synced[key] = _content(fd)

    def _note_synced(self, fd: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{fd}"):
            self._clear_journal()
        else:
            key = _key(fd)
            self._synced.pop(key, None)
            for number, change in enumerate(self._journal):
                if change.file == key:
                    self._durable = max(self._durable, number)
            self._durable -= sum(change.file == key for change in self._journal[: self._durable])
            self._journal = [change for change in self._journal if change.file != key]

    def _clear_journal(self) -> None:
        self._journal.clear()
        self._durable = 0

    def _is_open(self, key: Key) -> bool:
        return any(_key(fd) == key for fd in self._descriptors)

    def lose_power(self, source: random.Random) -> None:
        """Change the directory to a random state after a power loss; all files must be closed."""
        count = source.randint(0, len(self._journal))
        if source.random() < 0.3:
            count = len(self._journal)
        for change in reversed(self._journal[max(count, self._durable) :]):
            with suppress(FileNotFoundError):
                change.undo()
        self._clear_journal()
        for path in self._files():
            status = os.lstat(path)
            synced = self._synced.get((status.st_dev, status.st_ino))
            if synced is not None and path not in self._ledgers:
                _lose(path, synced, source)
        self._synced.clear()
        for path, versions in self._ledgers.items():
            content = source.choice(versions.contents)
            for suffix in ("-wal", "-shm"):
                with suppress(FileNotFoundError):
                    os.unlink(path + suffix)
            if content or os.path.exists(path):
                fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
                os.write(fd, content)
                os.close(fd)
            versions.add(content, durable=True)

    def _files(self) -> list[str]:
        return sorted(os.path.join(above, name) for above, _, names in os.walk(self._root) for name in names)

    def _find_paths(self, key: Key) -> list[str]:
        every = [*self._files(), *(os.path.join(self._grave, name) for name in os.listdir(self._grave))]
        return [path for path in every if (os.lstat(path).st_dev, os.lstat(path).st_ino) == key]

    # -- the ledger

    def begin_statement(self, sql: str) -> None:
        """Count an SQL statement as a step, at which the schedule may kill the process.

        Raises:
            sqlite3.OperationalError: The injected fault of a statement that changes the ledger.
        """
        self._step()
        if not sql.startswith(_CHANGES):
            return
        self._statements += 1
        fault = self._schedule.find(LEDGER, self._statements)
        self.has_ledger_fault = fault is not None
        if fault is not None:
            error = sqlite3.OperationalError(f"injected {fault.kind}")
            error.sqlite_errorname = fault.kind
            raise error

    def adopt(self, database: Database) -> None:
        """Record the commits of a database from now on."""
        self._databases.append(database)
        if database.path:
            self._ledgers.setdefault(database.path, _LedgerVersions())

    def note_commit(self, database: Database, *, durable: bool) -> None:
        """Record the content of a database after a commit; a power loss keeps a `durable` commit."""
        if database.path:
            self._ledgers[database.path].add(database.serialize(), durable=durable)


class Database(sqlite3.Connection):
    """A SQLite connection that counts statements as steps, and records the commits on the simulated disk."""

    disk: Disk
    path = ""
    _is_durable = True
    _changes = 0

    def follow(self, disk: Disk) -> None:
        self.disk = disk
        self.path = super().execute("PRAGMA database_list").fetchone()[2]
        disk.adopt(self)

    def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
        self.disk.begin_statement(sql)
        if sql.startswith("PRAGMA synchronous="):
            self._is_durable = sql.endswith("FULL")
        cursor = super().execute(sql, *arguments)
        self._note()
        return cursor

    def executescript(self, sql: str, /) -> sqlite3.Cursor:
        self.disk.begin_statement("")
        cursor = super().executescript(sql)
        self._note(changed=True)
        return cursor

    def _note(self, *, changed: bool = False) -> None:
        if not self.in_transaction and (changed or self.total_changes != self._changes):
            self._changes = self.total_changes
            self.disk.note_commit(self, durable=self._is_durable)


class Sqlite:
    """The replacement of the module `sqlite3` in the ledger."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def __getattr__(self, name: str) -> Any:
        return getattr(sqlite3, name)

    def connect(self, *arguments: Any, **more: Any) -> sqlite3.Connection:
        database = sqlite3.connect(*arguments, factory=Database, **more)
        database.follow(self._disk)
        return database


class _Raw(io.RawIOBase):
    """A raw file object that reads and writes through the simulated disk."""

    def __init__(self, disk: Disk, fd: int, *, closes: bool) -> None:
        super().__init__()
        self._disk, self._fd, self._closes = disk, fd, closes

    def writable(self) -> bool:
        return True

    def write(self, octets: Any) -> int:
        return self._disk.write(self._fd, octets)

    def close(self) -> None:
        if not self.closed and self._closes and self._fd in self._disk._descriptors:
            self._disk.close(self._fd)
        super().close()


def _key(fd: int) -> Key:
    status = os.fstat(fd)
    return status.st_dev, status.st_ino


def _content(fd: int) -> bytes:
    with open(f"/proc/self/fd/{fd}", "rb") as file:
        return file.read()


def _xattr(fd: int, name: str) -> bytes | None:
    try:
        return os.getxattr(fd, name)
    except OSError:
        return None


def _lose(path: str, synced: bytes, source: random.Random) -> None:
    """Remove some of the unsynced bytes of a file, as a power loss does."""
    with open(path, "rb") as file:
        content = file.read()
    kind = source.choice(("none", "all", "some"))
    if kind == "all":
        return
    if not content.startswith(synced):
        content = synced
    else:
        size = len(synced)
        if kind == "some" and len(content) > size:
            size = min(len(content), size + source.randrange(len(content) - size) // _BLOCK * _BLOCK)
        content = content[:size]
    with open(path, "r+b") as file:
        file.truncate(0)
        file.write(content)
