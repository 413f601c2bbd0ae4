"""NAME.meta.json, the metadata of a saved file: how and from where it was fetched (S21).

A sidecar never describes a file other than NAME, even if a run is killed or only a part of the disk survives.
The order of the steps ensures that:

1. the new sidecar is written under a temporary name and synced;
2. the sidecar of the previous file NAME is removed;
3. the file gets its name;
4. the new sidecar gets its name.

If a run was killed after step 3, the next run takes step 4. The size and the digest in the sidecar show
whether another program has changed the file since.

Only a sidecar that this package created is replaced or removed: a regular file of the effective user that
starts with the package's header. A name chosen by a server never ends in this suffix (`policy.filenames`). If
any other file has the sidecar's name, an error is raised before a request is sent.
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
#: The first bytes of every sidecar. A run that was killed while it wrote a sidecar leaves a prefix of them.
_BEGINNING = b'{\n  "format": "url-resolver meta '

_FOR_ALL_TO_READ = 0o644


#: The maximum of bytes read from a sidecar.
_MOST = 1_048_576


def sidecar_of(path: str) -> bytes | None:
    """Return the sidecar of the file `path`; None if it is missing or foreign. Never raises."""
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
    """The sidecar of the file `name` in an open directory.

    Methods raise `OSError`, and `LocalError` for a file that this package did not create.
    """

    def __init__(self, name: str, directory: DirectoryHandle) -> None:
        self._directory = directory
        self._name = name + META_SUFFIX
        self._fresh = self._name + FIRST_SUFFIX

    def check(self) -> None:
        """Raise an error if a sidecar cannot be written."""
        self._is_ours(self._name)
        self._is_ours(self._fresh)

    def prepare(self, octets: bytes) -> None:
        """Write the sidecar under its temporary name, and sync it."""
        self._forget(self._fresh)
        fd = self._directory.create(self._fresh, _FOR_ALL_TO_READ)
        with whole_file(fd, (octets,), partial(self._directory.forget, self._fresh)):
            pass

    def make_way(self, octets: bytes | None) -> None:
        """Prepare for the renaming of the file: write the new sidecar and remove the old one.

        The old sidecar describes the replaced file, so it is removed even if no new sidecar is wanted.
        """
        if octets is not None:
            self.prepare(octets)
            self.forget()
        else:
            self.drop()
            with suppress(OSError, LocalError):  # Another program owns that file.
                self.forget()

    def forget(self) -> None:
        """Remove the sidecar, because its file is about to be replaced."""
        if self._forget(self._name):
            self._directory.sync()

    def drop(self) -> None:
        """Remove the prepared sidecar, because its file is not saved. A foreign file stays."""
        with suppress(OSError, LocalError):
            self._forget(self._fresh)

    def settle(self) -> None:
        """Rename the prepared sidecar, if there is one, to its final name after the file got its name."""
        if self._is_ours(self._fresh):
            self._directory.sync()
            try:
                self._directory.rename(self._fresh, self._name)
            except FileExistsError as error:
                if not self._has_both_names():
                    raise self._directory.make_foreign_error(self._name) from error
                self._directory.forget(self._fresh)

    def _has_both_names(self) -> bool:
        """Return whether a run was killed between link and unlink, so that the sidecar has both names."""
        found = self._directory.status_of(self._fresh)
        return found is not None and self._directory.names(self._name, found)

    def _forget(self, name: str) -> bool:
        """Remove the file, and return whether it existed."""
        if not self._is_ours(name):
            return False
        self._directory.forget(name)
        return True

    def _is_ours(self, name: str) -> bool:
        """Return whether the file exists; raise `LocalError` if this package did not create it."""
        found = self._directory.status_of(name)
        if found is None:
            return False
        foreign = self._directory.make_foreign_error(name)
        if not _may_be_ours(found):
            raise foreign
        try:
            fd = self._directory.open(name, os.O_RDONLY)
        except FileNotFoundError:  # A concurrent transfer has just renamed the sidecar.
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
