"""What is remembered of a file that is still growing: where its octets come from, and of which state.

A small JSON file beside NAME.part. It is written whole under another name and then renamed, so after a
crash there is the old state, the new one, or none. What cannot be read counts as none.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from protocols.contract import Validators

_MOST = 1_048_576  # a URL of 65,536 characters in JSON, and the validators


@dataclass(frozen=True, slots=True)
class PartState:
    """`url` is what was asked for, without a password. `complete` is the number (inode) of the file once
    every octet was there and checked, and only the renaming was left."""

    url: str
    known: Validators
    complete: int | None = None


def read_state(name: str, directory: int | None) -> PartState | None:
    """The state in the file `name`, or None where there is none that makes sense."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    except OSError:
        return None
    try:
        return _read(json.loads(os.read(fd, _MOST)))
    except (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None
    finally:
        os.close(fd)


def _read(record: dict[str, object]) -> PartState | None:
    match record:
        case {
            "url": str(url),
            "size": (int() | None) as size,
            "modified": (int() | float() | None) as modified,
            "etag": (str() | None) as etag,
            "complete": (int() | None) as complete,
        }:
            moment = None if modified is None else datetime.fromtimestamp(modified, UTC)
            return PartState(url, Validators(size=size, modified=moment, etag=etag), complete)
    return None


def write_state(name: str, directory: int, state: PartState) -> None:
    """Put the state into the file `name`, in one step. Raises `OSError`."""
    known = state.known
    record = {
        "url": state.url,
        "size": known.size,
        "modified": None if known.modified is None else known.modified.timestamp(),
        "etag": known.etag,
        "complete": state.complete,
    }
    fresh = f"{name}.new"
    forget(fresh, directory)  # of a run that was killed
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(fresh, flags, 0o666, dir_fd=directory)
    try:
        with open(fd, "wb") as file:
            file.write(json.dumps(record).encode())
        os.replace(fresh, name, src_dir_fd=directory, dst_dir_fd=directory)
    except OSError:
        forget(fresh, directory)
        raise


def forget(name: str, directory: int) -> None:
    """Remove a file of ours if it is there."""
    with suppress(OSError):
        os.unlink(name, dir_fd=directory)
