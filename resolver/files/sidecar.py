"""NAME.meta.json, beside a file that was saved: what is known of how it came (S21).

It never describes another file than the one that has the name beside it, whenever a run is killed and
whatever of the disk survives that. So it is written whole, and synced, before the file gets its name; the one
of the file that was there before is removed before that, too; and it gets its own name last. A run that was
killed behind the file's name is finished by the next one. Size and digest in it show whether somebody else
has changed the file since.

Only what is ours is replaced or removed: a regular file of the effective user that begins as ours do. No file
that somebody else names ends like it (`policy.filenames`). Anything else is an error before anything is sent.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from functools import partial

from protocols.errors import LocalError
from resolver.files.atomic import whole_file
from resolver.files.directory import DirectoryHandle
from resolver.policy.files import FIRST_SUFFIX, META_SUFFIX

FORMAT = "url-resolver meta 1"
#: How each of them begins; one that a run was killed over begins so as far as it goes.
_BEGINNING = b'{\n  "format": "url-resolver meta '

_FOR_ALL_TO_READ = 0o644


#: Octets of one that are read.
_MOST = 1_048_576


def sidecar_of(path: str) -> bytes | None:
    """What one of ours says of the file of that name; None where there is none. Never raises."""
    directory = DirectoryHandle(os.path.dirname(path), make=False)
    try:
        directory.hold()
        fd = directory.open(os.path.basename(path) + META_SUFFIX, os.O_RDONLY)
    except OSError:
        return None
    finally:
        directory.close()
    try:
        found = os.fstat(fd)
        octets = os.read(fd, _MOST) if stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() else b""
    except OSError:
        return None
    finally:
        os.close(fd)
    return octets if octets.startswith(_BEGINNING) else None


class Sidecar:
    """Of the file `name` in a directory that is held. Raises `OSError`, and `LocalError` for what is none of
    ours."""

    def __init__(self, name: str, directory: DirectoryHandle) -> None:
        self._directory = directory
        self._name = name + META_SUFFIX
        self._fresh = self._name + FIRST_SUFFIX

    def check(self) -> None:
        """Can one be written?"""
        self._is_ours(self._name)
        self._is_ours(self._fresh)

    def prepare(self, octets: bytes) -> None:
        """Bring it to the disk under the name that it has first."""
        self._forget(self._fresh)
        fd = self._directory.create(self._fresh, _FOR_ALL_TO_READ)
        with whole_file(fd, (octets,), partial(self._directory.forget, self._fresh)):
            pass

    def make_way(self, octets: bytes | None) -> None:
        """The file is about to get its name. What was beside it before was of another one, also where nobody
        wants a new one."""
        if octets is not None:
            self.prepare(octets)
            self.forget()
        else:
            self.drop()
            with suppress(OSError, LocalError):  # somebody else's
                self.forget()

    def forget(self) -> None:
        """The file beside it is about to be another one."""
        if self._forget(self._name):
            self._directory.sync()

    def drop(self) -> None:
        """What was prepared is of no file. Somebody else's stays."""
        with suppress(OSError, LocalError):
            self._forget(self._fresh)

    def settle(self) -> None:
        """The file has its name: what was prepared gets its own, if anything was."""
        if self._is_ours(self._fresh):
            self._directory.sync()
            try:
                self._directory.rename(self._fresh, self._name)
            except FileExistsError as error:
                if not self._has_both_names():
                    raise self._directory.make_foreign_error(self._name) from error
                self._directory.forget(self._fresh)

    def _has_both_names(self) -> bool:
        """Was a run killed between the two steps of the renaming?"""
        found = self._directory.status_of(self._fresh)
        return found is not None and self._directory.names(self._name, found)

    def _forget(self, name: str) -> bool:
        """Remove it, if it is there; whether it was."""
        if not self._is_ours(name):
            return False
        self._directory.forget(name)
        return True

    def _is_ours(self, name: str) -> bool:
        """Is it there? Raises `LocalError` where it is somebody's."""
        found = self._directory.status_of(name)
        if found is None:
            return False
        foreign = self._directory.make_foreign_error(name)
        if not _may_be_ours(found):
            raise foreign
        try:
            fd = self._directory.open(name, os.O_RDONLY)
        except FileNotFoundError:  # another transfer at work has just renamed it
            return False
        except OSError as error:
            raise foreign from error
        try:
            octets = os.read(fd, len(_BEGINNING)) if _may_be_ours(os.fstat(fd)) else b"?"
        finally:
            os.close(fd)
        if octets != _BEGINNING and not (name == self._fresh and _BEGINNING.startswith(octets)):
            raise foreign
        return True


def _may_be_ours(found: os.stat_result) -> bool:
    return stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()
