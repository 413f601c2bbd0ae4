"""How a file that we began is known again: by its owner, its number and a token that it carries (S14).

Nothing that is in a file tells who wrote it, for strangers choose what is in files, and often their names. So
the state beside a growing file names the one file that it is of. A copy of that is another file, and so is
one that got the number of one removed: that has no token.
"""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress

from protocols.values import dataclass

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
