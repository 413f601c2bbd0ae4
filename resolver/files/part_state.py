"""The state of a growing file: its identity, its source, and the ranges that it holds.

A small JSON file beside NAME.part, for its owner only. It is written whole under another name and then
renamed, so after a crash there is the old state, the new one, or none. Both names may be taken: a file that
does not begin like ours is left as it is, and is an error.
"""

from __future__ import annotations

import json
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TypeAlias

from protocols.contract import Sink, Validators
from protocols.errors import LocalError
from resolver.files.atomic import whole_file
from resolver.files.directory import DirectoryHandle
from resolver.files.faults import writing_fault
from resolver.policy.files import FIRST_SUFFIX

# The mark by which a file of ours is recognized: owner, inode number and a token that it carries (S14).
#
# The content of a file does not prove who wrote it, for strangers choose content, and often names. So the
# state beside a growing file names the one file that it describes. A copy is another file, and so is a file
# that got the number of a removed one: neither has the token.

#: Write permission for anybody but the owner.
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH

_ATTRIBUTE = "user.url-resolver.part"
_HAS_ATTRIBUTES = hasattr(os, "setxattr")  # Python has them on Linux


def is_own(found: os.stat_result) -> bool:
    """A regular file of the effective user under one name: what is written to it gets nowhere else."""
    return stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and found.st_nlink == 1


def is_guarded(found: os.stat_result) -> bool:
    """One's own, and nobody else may write to it."""
    return is_own(found) and not found.st_mode & OTHERS_WRITE


@dataclass(frozen=True, slots=True)
class FileIdentity:
    """The numbers of a file, and its token; None where the file system has no attributes."""

    device: int
    inode: int
    token: str | None

    def names(self, found: os.stat_result) -> bool:
        """Has this file the numbers?"""
        return (self.device, self.inode) == (found.st_dev, found.st_ino)

    def is_on(self, fd: int) -> bool:
        """Is it this file that got the mark?"""
        return self.names(os.fstat(fd)) and self.token == _token_of(fd) and not self._lacks_token(fd)

    def is_copied_to(self, fd: int) -> bool:
        """Is this a copy of the file that got the mark? Devices may get other numbers, too."""
        return self.token is not None and self.token == _token_of(fd) and not self.names(os.fstat(fd))

    def _lacks_token(self, fd: int) -> bool:
        """Has the mark none though it could have one? Then it is not from here."""
        if self.token is not None or not _put_token(fd, "none"):
            return False
        wipe(fd)
        return True


def put_mark(fd: int) -> FileIdentity:
    """Mark an open file."""
    found = os.fstat(fd)
    token = secrets.token_hex(16)
    return FileIdentity(found.st_dev, found.st_ino, token if _put_token(fd, token) else None)


def wipe(fd: int) -> None:
    """Take the token away, if there is one."""
    if _HAS_ATTRIBUTES:
        with suppress(OSError):
            os.removexattr(fd, _ATTRIBUTE)


def _put_token(fd: int, token: str) -> bool:
    if _HAS_ATTRIBUTES:
        with suppress(OSError):  # it has none, or no room for one
            os.setxattr(fd, _ATTRIBUTE, token.encode())
            return True
    return False


def _token_of(fd: int) -> str | None:
    if _HAS_ATTRIBUTES:
        with suppress(OSError):
            return os.getxattr(fd, _ATTRIBUTE).decode("ascii", "replace")
    return None


Range: TypeAlias = "tuple[int, int]"
Ranges: TypeAlias = "tuple[Range, ...]"


def parse_ranges(value: object) -> Ranges | None:
    """As they stand in JSON. None for what is none: not in order, not apart, empty, below 0."""
    if not isinstance(value, list):
        return None
    found: list[Range] = []
    behind = -1
    for each in value:
        match each:
            case [int(begin), int(end)] if behind < begin < end and type(begin) is type(end) is int:
                found.append((begin, end))
                behind = end
            case _:
                return None
    return tuple(found)


def join_ranges(ranges: list[Range]) -> Ranges:
    """In order, and those that touch as one."""
    found: list[Range] = []
    for begin, end in sorted(ranges):
        if begin >= end:
            continue
        if found and begin <= found[-1][1]:
            begin, end = found[-1][0], max(end, found.pop()[1])
        found.append((begin, end))
    return tuple(found)


def clip_ranges(ranges: Ranges, size: int) -> Ranges:
    """What of them there is in a file of that size."""
    return tuple((begin, min(end, size)) for begin, end in ranges if begin < size)


def find_missing(ranges: Ranges, size: int) -> Iterator[Range]:
    """What there is not, of a file of that size."""
    behind = 0
    for begin, end in (*ranges, (size, size)):
        if behind < begin:
            yield behind, begin
        behind = end


def octets_of(ranges: Ranges) -> int:
    """How many octets there are."""
    return sum(end - begin for begin, end in ranges)


def prefix_of(ranges: Ranges) -> int:
    """How many octets there are from the first on."""
    return ranges[0][1] if ranges and not ranges[0][0] else 0


_MOST = 1_048_576  # a URL of 65,536 characters in JSON, and the validators

_FORMAT = "url-resolver part state 1"
#: Of a file with gaps: one of ours that knew of none would take it for a file without.
_WITH_GAPS = "url-resolver part state 2"
#: How each of them begins; one that a run was killed over begins so as far as it goes.
_BEGINNING = b'{"format": "url-resolver part state '

_FOR_THE_OWNER = 0o600


@dataclass(frozen=True, slots=True)
class PartState:
    """`url` is what was asked for, without a password. `mark` is that of the file. `withheld` is who but its
    owner may write to it once it has its name. When it is `complete`, every octet is there and checked, and
    only the renaming is left. `whole` are the octets that are there, of a file with gaps; None where all are,
    as far as the file goes. They were on the disk before this was written."""

    url: str
    known: Validators
    mark: FileIdentity
    withheld: int = 0
    complete: bool = False
    whole: Ranges | None = None


def read_state(name: str, directory: DirectoryHandle) -> PartState | None:
    """The state in the file `name`, or None where there is none that makes sense. Raises `LocalError` where
    that, or what it is written as first, is none of ours."""
    _read_own(make_temporary_name(name), directory)
    octets = _read_own(name, directory)
    if octets is None:
        return None
    try:
        return _parse(json.loads(octets))
    except (ValueError, TypeError, OverflowError, OSError, RecursionError):
        return None


def write_state(name: str, directory: DirectoryHandle, state: PartState) -> bool:
    """Put the state into the file `name`, in one step; False where the file system keeps no file for its
    owner, and so could not keep it. Raises `OSError`, and `LocalError` as `read_state`."""
    first = make_temporary_name(name)
    _forget(first, directory)  # of a run that was killed
    fd, octets = directory.create(first, _FOR_THE_OWNER), json.dumps(_record(state)).encode()
    with whole_file(fd, (octets,), partial(directory.forget, first), sync=False) as status:
        _read_own(name, directory)
        if is_guarded(status):
            directory.replace(first, name)
            return True
    directory.forget(first)
    return False


def forget_state(name: str, directory: DirectoryHandle) -> None:
    """Remove the state, if it is there and ours. Raises `OSError`, and `LocalError` as `read_state`."""
    _forget(make_temporary_name(name), directory)
    _forget(name, directory)


def make_temporary_name(name: str) -> str:
    """What it is written as first."""
    return name + FIRST_SUFFIX


def _forget(name: str, directory: DirectoryHandle) -> None:
    if _read_own(name, directory) is not None:
        directory.forget(name)


def _read_own(name: str, directory: DirectoryHandle) -> bytes | None:
    """What is in a file of ours; None where there is none. Raises `LocalError` for a file of others."""
    found = directory.status_of(name)
    if found is None:
        return None
    if not is_guarded(found):
        raise directory.make_foreign_error(name)
    try:
        fd = directory.open(name, os.O_RDONLY)
    except FileNotFoundError:  # a transfer at work has just renamed it
        return None
    except OSError as error:
        raise directory.make_foreign_error(name) from error
    return _octets(fd, directory.make_foreign_error(name))


def _octets(fd: int, foreign: LocalError) -> bytes:
    try:
        guarded, octets = is_guarded(os.fstat(fd)), os.read(fd, _MOST)
    finally:
        os.close(fd)
    if not guarded or not (octets.startswith(_BEGINNING) or _BEGINNING.startswith(octets)):
        raise foreign
    return octets


def _record(state: PartState) -> dict[str, object]:
    known, mark = state.known, state.mark
    gaps = {} if state.whole is None else {"whole": [list(each) for each in state.whole]}
    return {
        "format": _WITH_GAPS if gaps else _FORMAT,
        "url": state.url,
        "size": known.size,
        "modified": None if known.modified is None else known.modified.timestamp(),
        "etag": known.etag,
        "device": mark.device,
        "inode": mark.inode,
        "token": mark.token,
        "withheld": state.withheld,
        "complete": state.complete,
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
        } if written_as in (_FORMAT, _WITH_GAPS):
            moment = None if modified is None else datetime.fromtimestamp(modified, UTC)
            known = Validators(size=size, modified=moment, etag=etag)
            mark, others = FileIdentity(device, inode, token), withheld & OTHERS_WRITE
            if written_as == _FORMAT:
                return PartState(url, known, mark, others, complete)
            return PartState(url, known, mark, others, False, _parse_ranges(record.get("whole"), size))
    return None


def _parse_ranges(value: object, size: int | None) -> Ranges:
    """What is there, as far as that makes sense of an object of that size; else nothing is."""
    ranges = parse_ranges(value)
    if ranges is None or size is None or (ranges and ranges[-1][1] > size):
        return ()
    return ranges


def position_of(sink: Sink) -> int | None:
    """Octets in a file so far, those moved in bulk included; None for what has no position."""
    try:
        return os.lseek(sink.fileno(), 0, os.SEEK_CUR)
    except OSError:
        return None


def write_all(fd: int, octets: bytes | bytearray | memoryview, path: str) -> None:
    """Raises `LocalError`, which names the path."""
    left = memoryview(octets)
    try:
        while left:
            left = left[os.write(fd, left) :]
    except OSError as error:
        raise writing_fault(error, path) from error


def set_time(fd: int, modified: datetime | None) -> None:
    """None leaves it as it is; so does one that the file system cannot hold."""
    if modified is not None:
        with suppress(OSError, OverflowError, ValueError):
            moment = modified.timestamp()
            os.utime(fd, (moment, moment))
