"""Small files that desktops read, which say what opens a URL: put in place in one step, and removed."""

from __future__ import annotations

import os

from protocols.errors import LocalError
from resolver.disk.replacing import replace

_MOST = 4_194_304


def read(path: str) -> bytes | None:
    """None where there is none. Raises `LocalError`."""
    try:
        with open(path, "rb") as file:
            octets = file.read(_MOST + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LocalError(f"cannot read {path}: {error.strerror}") from error
    if len(octets) > _MOST:
        raise LocalError(f"{path} has more than {_MOST} octets: nothing of ours is so long")
    return octets


def put(path: str, octets: bytes) -> None:
    """In the place of what was there, whatever it was; its directory is made if need be. Raises
    `LocalError`."""
    try:
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        replace(path, octets, os.stat(path).st_mode & 0o777 if os.path.isfile(path) else 0o644)
    except OSError as error:
        raise LocalError(f"cannot write {path}: {error.strerror}") from error


def put_through(path: str, octets: bytes) -> None:
    """The same of a file that a person may have placed a link to."""
    put(os.path.realpath(path), octets)


def take_away(path: str) -> None:
    """If it is there. Raises `LocalError`."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise LocalError(f"cannot remove {path}: {error.strerror}") from error
