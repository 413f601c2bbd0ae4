"""What is remembered of a file that is still growing: which one it is, where its octets come from, and of
which state.

A small JSON file beside NAME.part, for its owner only. It is written whole under another name and then
renamed, so after a crash there is the old state, the new one, or none. Both names may be somebody's: what
does not begin as ours do is left as it is, and is an error.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime

from protocols.contract import Validators
from protocols.errors import LocalError
from protocols.values import dataclass
from resolver.disk.directory import DirectoryHandle
from resolver.disk.mark import OTHERS_WRITE, FileIdentity, is_guarded
from resolver.disk.ranges import Ranges, parse_ranges

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
    _read_own(fresh(name), directory)
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
    first = fresh(name)
    _forget(first, directory)  # of a run that was killed
    fd = directory.create(first, _FOR_THE_OWNER)
    try:
        with open(fd, "wb") as file:
            guarded = is_guarded(os.fstat(fd))
            file.write(json.dumps(_record(state)).encode())
        _read_own(name, directory)
        if guarded:
            directory.replace(first, name)
        else:
            directory.forget(first)
    except BaseException:
        directory.forget(first)
        raise
    return guarded


def forget_state(name: str, directory: DirectoryHandle) -> None:
    """Remove the state, if it is there and ours. Raises `OSError`, and `LocalError` as `read_state`."""
    _forget(fresh(name), directory)
    _forget(name, directory)


def fresh(name: str) -> str:
    """What it is written as first."""
    return f"{name}.new"


def _forget(name: str, directory: DirectoryHandle) -> None:
    if _read_own(name, directory) is not None:
        directory.forget(name)


def _read_own(name: str, directory: DirectoryHandle) -> bytes | None:
    """What is in a file of ours; None where there is none. Raises `LocalError` for a file of others."""
    found = directory.status_of(name)
    if found is None:
        return None
    if not is_guarded(found):
        raise directory.foreign(name)
    try:
        fd = directory.open(name, os.O_RDONLY)
    except FileNotFoundError:  # a transfer at work has just renamed it
        return None
    except OSError as error:
        raise directory.foreign(name) from error
    return _octets(fd, directory.foreign(name))


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
            return PartState(url, known, mark, others, False, _whole(record.get("whole"), size))
    return None


def _whole(value: object, size: int | None) -> Ranges:
    """What is there, as far as that makes sense of an object of that size; else nothing is."""
    ranges = parse_ranges(value)
    if ranges is None or size is None or (ranges and ranges[-1][1] > size):
        return ()
    return ranges
