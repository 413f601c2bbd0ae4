"""Directories that this process made for files which have not come yet: one that none comes into goes again,
with the last who waited for that.

Other processes may be at work with the same ones: those may find a directory gone that was there, and make it
again.
"""

from __future__ import annotations

import os
from contextlib import suppress
from threading import Lock

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

    def made(self, path: str) -> None:
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
            self.made(path)

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
