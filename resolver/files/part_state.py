"""The state of a partial file: its identity, its URL, and the byte ranges that it contains.

The state is a small JSON file next to NAME.part. Only the owner can read it. The write is atomic: the state
is written to a temporary file, which is then renamed. If another program has created a file with one of these
names, the file stays unchanged and an error is raised. The first bytes of a state file show that this package
created the file.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import stat
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple, TypeAlias

from protocols.contract import Validators
from resolver.files.atomic import whole_file
from resolver.files.directory import DirectoryHandle
from resolver.policy.files import FIRST_SUFFIX

# The mark identifies a file that this package created. The mark consists of the device, the inode number, and
# a random token in an extended attribute (S14).
#
# An untrusted server chooses the content of a file, and often also the name. So the content and the name do
# not prove that this package created the file. The inode number of a removed file may be reused for a new
# file. The token distinguishes the marked file from such a new file.

#: The permission bits for writing by users other than the owner.
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH

_ATTRIBUTE = "user.url-resolver.part"
_HAS_ATTRIBUTES = hasattr(os, "setxattr")  # Python supports extended attributes on Linux only.

#: `errno` codes of a file system that supports extended attributes. Without the token, a later run would
#: refuse the file, because a later call of setxattr(2) may succeed.
_FAILED = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO})


def is_own(status: os.stat_result) -> bool:
    """Return whether this is a regular file of the effective user with a single hard link.

    If a file has several hard links, a write would also change the file under its other names. Some FUSE file
    systems report 0 links for each file.
    """
    return stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and status.st_nlink <= 1


def is_guarded(status: os.stat_result) -> bool:
    """Return whether the user owns the file and no other user may write to it."""
    return is_own(status) and not status.st_mode & OTHERS_WRITE


class FileIdentity(NamedTuple):
    """The mark of a file: the device, the inode number and the token.

    `token` is None if the file system does not support extended attributes.
    """

    device: int
    inode: int
    token: str | None

    def matches(self, status: os.stat_result) -> bool:
        """Return whether the file has the device and inode number of the mark."""
        return (self.device, self.inode) == (status.st_dev, status.st_ino)

    def is_on(self, fd: int) -> bool:
        """Return whether the open file is the marked file."""
        return self.matches(os.fstat(fd)) and self.token == _read_token(fd) and not self._lacks_token(fd)

    def is_copied_to(self, fd: int) -> bool:
        """Return whether the open file is a copy of the marked file, including the extended attributes.

        The result is also true for the marked file itself, if a remount has changed the device number.
        """
        return self.token is not None and self.token == _read_token(fd) and not self.matches(os.fstat(fd))

    def _lacks_token(self, fd: int) -> bool:
        """Return whether the mark lacks a token although the file system supports extended attributes.

        A mark without a token was then created by another program.
        """
        if self.token is not None or not _put_token(fd, "none"):
            return False
        remove_mark(fd)
        return True


def put_mark(fd: int) -> FileIdentity:
    """Mark an open file and return the mark. Raises `OSError` if the disk is full."""
    status = os.fstat(fd)
    token = secrets.token_hex(16)
    return FileIdentity(status.st_dev, status.st_ino, token if _put_token(fd, token) else None)


def has_mark(fd: int) -> bool:
    """Return whether an open file has a token, which this package sets and a server cannot choose."""
    return _read_token(fd) is not None


def remove_mark(fd: int) -> None:
    """Remove the token from the extended attributes of the file."""
    if _HAS_ATTRIBUTES:
        with suppress(OSError):
            os.removexattr(fd, _ATTRIBUTE)


def _put_token(fd: int, token: str) -> bool:
    """Set the token, and return False if the file system does not support extended attributes."""
    if not _HAS_ATTRIBUTES:
        return False
    try:
        os.setxattr(fd, _ATTRIBUTE, token.encode())
    except OSError as error:
        if error.errno in _FAILED:
            raise
        return False
    return True


def _read_token(fd: int) -> str | None:
    if _HAS_ATTRIBUTES:
        with suppress(OSError):
            return os.getxattr(fd, _ATTRIBUTE).decode("ascii", "replace")
    return None


Range: TypeAlias = "tuple[int, int]"
Ranges: TypeAlias = "tuple[Range, ...]"


def parse_ranges(value: object) -> Ranges | None:
    """Return the ranges of a JSON value, or None for invalid ranges.

    Valid ranges are sorted, nonempty and not negative, and have gaps between them.
    """
    if not isinstance(value, list):
        return None
    ranges: list[Range] = []
    last_end = -1
    for item in value:
        match item:
            case [int(begin), int(end)] if last_end < begin < end and type(begin) is type(end) is int:
                ranges.append((begin, end))
                last_end = end
            case _:
                return None
    return tuple(ranges)


def join_ranges(ranges: list[Range]) -> Ranges:
    """Sort the ranges, and merge adjacent and overlapping ranges."""
    joined: list[Range] = []
    for begin, end in sorted(ranges):
        if begin >= end:
            continue
        if joined and begin <= joined[-1][1]:
            begin, end = joined[-1][0], max(end, joined.pop()[1])
        joined.append((begin, end))
    return tuple(joined)


def clip_ranges(ranges: Ranges, size: int) -> Ranges:
    """Limit the ranges to a file of `size` bytes."""
    return tuple((begin, min(end, size)) for begin, end in ranges if begin < size)


def count_bytes(ranges: Ranges) -> int:
    """Return the total number of bytes in the ranges."""
    return sum(end - begin for begin, end in ranges)


def measure_prefix(ranges: Ranges) -> int:
    """Return the number of contiguous bytes from offset 0."""
    return ranges[0][1] if ranges and not ranges[0][0] else 0


_MAX_SIZE = 1_048_576  # maximum size in bytes of a state file: a URL of 65,536 characters, and the validators

_FORMAT = "url-resolver part state 1"
#: The format name in the state of a file with gaps. The name differs from the normal name, because older
#: versions of this package would ignore the gaps.
_FORMAT_WITH_GAPS = "url-resolver part state 2"
#: The first bytes of every state file. A run that was killed during the write may leave a prefix of these
#: bytes.
_PREFIX = b'{"format": "url-resolver part state '

_OWNER_MODE = 0o600


class PartState(NamedTuple):
    """The content of a state file.

    Attributes:
        url: The requested URL, without a password.
        known: The validators of the object.
        mark: The mark of the partial file.
        withheld: The write permissions of other users, which are removed until the file has its final name.
        complete: Whether the file is complete and verified, so that only the rename is missing.
        ranges: The byte ranges that the file contains, if the file has gaps. None for a file without gaps.
        adopted: The size of the file when it was renamed from its final name, or None for any other file.
    """

    url: str
    known: Validators
    mark: FileIdentity
    withheld: int = 0
    complete: bool = False
    ranges: Ranges | None = None
    adopted: int | None = None


def read_state(name: str, directory: DirectoryHandle) -> PartState | None:
    """Return the state in a state file.

    The result is `None` if the file is missing or invalid.

    Raises:
        LocalError: The state file, or its temporary file, was not created by this package.
    """
    _read_own(make_temporary_name(name), directory)
    octets = _read_own(name, directory)
    if octets is None:
        return None
    try:
        return _parse(json.loads(octets))
    except (ValueError, TypeError, OverflowError, OSError, RecursionError):
        return None


def write_state(name: str, directory: DirectoryHandle, state: PartState, *, sync: bool = False) -> bool:
    """Write the state to a file atomically.

    With `sync`, the bytes are synced before the rename.

    Returns:
        False if the file system does not support permissions for the owner only. The state is then not
        stored.

    Raises:
        OSError: The file cannot be written.
        LocalError: The state file, or its temporary file, was not created by this package.
    """
    temporary = make_temporary_name(name)
    _forget(temporary, directory)  # A killed run may have left the temporary file.
    fd, octets = directory.create(temporary, _OWNER_MODE), json.dumps(_record(state)).encode()
    with whole_file(fd, (octets,), partial(directory.forget, temporary), sync=sync) as status:
        _read_own(name, directory)
        if is_guarded(status):
            directory.replace(temporary, name)
            return True
    directory.forget(temporary)
    return False


def forget_state(name: str, directory: DirectoryHandle) -> None:
    """Remove the state file if it exists.

    Raises:
        OSError: The file cannot be read.
        LocalError: The state file, or its temporary file, was not created by this package.
    """
    _forget(make_temporary_name(name), directory)
    _forget(name, directory)


def make_temporary_name(name: str) -> str:
    """Return the temporary name for the state file `name`."""
    return name + FIRST_SUFFIX


def _forget(name: str, directory: DirectoryHandle) -> None:
    if _read_own(name, directory) is not None:
        directory.forget(name)


def _read_own(name: str, directory: DirectoryHandle) -> bytes | None:
    """Return the content of a state file.

    The result is `None` if the file is missing.

    Raises:
        LocalError: The file was not created by this package.
    """
    octets = directory.read_own(name, is_guarded, _MAX_SIZE)
    if octets is not None and not (octets.startswith(_PREFIX) or _PREFIX.startswith(octets)):
        raise directory.make_foreign_error(name)
    return octets


def _record(state: PartState) -> dict[str, object]:
    known, mark = state.known, state.mark
    gaps = {} if state.ranges is None else {"whole": [list(span) for span in state.ranges]}
    return {
        "format": _FORMAT_WITH_GAPS if gaps else _FORMAT,
        "url": state.url,
        "size": known.size,
        "modified": None if known.modified is None else known.modified.timestamp(),
        "etag": known.etag,
        "device": mark.device,
        "inode": mark.inode,
        "token": mark.token,
        "withheld": state.withheld,
        "complete": state.complete,
        **({} if state.adopted is None else {"adopted": state.adopted}),
        **gaps,
    }


def _parse(record: dict[str, object]) -> PartState | None:
    match record:
        case {
            "format": str(written_as),
            "url": str(url),
            "size": (int() | None) as size,
            "modified": (int() | float() | None) as modified,
            "etag": (str() | None) as etag,
            "device": int(device),
            "inode": int(inode),
            "token": (str() | None) as token,
            "withheld": int(withheld),
            "complete": bool(complete),
        } if written_as in (_FORMAT, _FORMAT_WITH_GAPS):
            moment = None if modified is None else datetime.fromtimestamp(modified, UTC)
            known = Validators(size=size, modified=moment, etag=etag)
            mark, others = FileIdentity(device, inode, token), withheld & OTHERS_WRITE
            if written_as == _FORMAT:
                adopted = record.get("adopted")
                adopted = adopted if isinstance(adopted, int) else None
                return PartState(url, known, mark, others, complete, adopted=adopted)
            return PartState(url, known, mark, others, False, _parse_ranges(record.get("whole"), size))
    return None


def _parse_ranges(value: object, size: int | None) -> Ranges:
    """Return the ranges if they are valid for an object of `size` bytes, or else none."""
    ranges = parse_ranges(value)
    if ranges is None or size is None or (ranges and ranges[-1][1] > size):
        return ()
    return ranges


def set_time(fd: int, modified: datetime | None) -> None:
    """Set the modification time of a file, if it is known and the file system can store it."""
    if modified is not None:
        with suppress(OSError, OverflowError, ValueError):
            moment = modified.timestamp()
            os.utime(fd, (moment, moment))
